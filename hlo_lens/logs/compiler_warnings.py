"""Reader of the warnings of XLA and JAX in a log.

Each kind of warning is found by its own words; a regular expression finds its end, and the grammar
parses its parts.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.buffers.lines import Node, optional_token, tokens
from hlo_lens.grammar.parsers import build_parser, grammar_tree
from hlo_lens.hlo.text_reader import reader
from hlo_lens.logs.jax_items import CodeError
from hlo_lens.logs.log import CompilerWarning, PrintedInstruction, WarningKind
from hlo_lens.logs.log_text import Found, line_end, read_metadata, span_gap
from hlo_lens.logs.logs_jax_values import parse_value
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lark import Lark

    from hlo_lens.shapes.shape import Shape

T = TypeVar("T")

GRAMMARS = ("hlo_tokens", "compiler_warnings")
STARTS = (
    *("full_rematerialization", "unused_donation", "slow_compile", "constant_folding"),
    *("large_arguments", "slow_kernel", "wrong_result", "outside_write", "inexact_timing"),
)

NAMES: Mapping[str, str] = {
    "INABILITY": "'was not able to go from sharding' or 'cannot go from sharding'",
    "SHARDING": "a sharding",
    "HOW": "'for HLO operation'",
    "INSTRUCTION": "an instruction",
    "TYPE": "a type such as float32[8]",
    "DURATION": "a duration such as 2m1.5s",
    "HLO": "an instruction",
}
"""Names of the terminals in error messages."""

_REMATERIALIZATION = re.compile(
    r"Involuntary full rematerialization\. The compiler (?:was not able to|cannot) [^\n]*"
)
_DONATION = re.compile(
    r"Some donated buffers were not usable:[ \t]*(?P<types>[^\n]*?)\.?[ \t]*(?:\n|\Z)"
    r"(?P<reason>[ \t]*Donation is not implemented for [^\n]*(?:\n|\Z))?"
    r"(?:[ \t]*See an explanation at (?P<see>[^\s]+?)\.?[ \t]*(?:\n|\Z))?"
)
_SOURCE_LINE = re.compile(r"Some donated buffers were not usable:[\"']")
_TOOK = re.compile(r"The operation took (?P<took>[\d.hmsun]+)[ \t]*\n?\s*(?:\*{8,}\s*)?\Z")
_ARGUMENTS = re.compile(
    r"byte size of input/output arguments \((?P<size>\d{1,18})\)\s+exceeds the base limit "
    r"\((?P<limit>\d{1,18})\)"
)
_ALGORITHM = re.compile(
    r"Trying algorithm (?P<algorithm>[^\n]*?) for conv:? (?P<hlo>[^\n]*?)(?: is taking a while)?"
    r"(?:\.\.\.)?[ \t]*$",
    re.MULTILINE,
)
_MISMATCH = re.compile(
    r"Results (?:do not match|mismatch)[^\n]*(?:\n\s*(?P<hlo>%[\w.-]+ = [^\n]*))?"
)
_DIFFERENCE = re.compile(r"Difference at (\d{1,18}): ([^\s,]+), expected ([^\s,]+)")
_LONGEST_DIFFERENCE = 400
_RED_ZONE = re.compile(
    r"ut-of-bounds write in (?P<buffer>[^\n!.]{1,80}) buffer!?\.?"
    r"|Redzone mismatch in (?P<zone>[^\n]{1,80}?) redzone of buffer \S{1,40} at offset "
    r"(?P<offset>-?\d{1,18}); expected (?P<expected>\w{1,40}) but was (?P<found>\w{1,40})\.?"
)
_TIMING = re.compile(r"Delay kernel timed out(?:: measured time has sub-optimal accuracy[^\n]*)?")
_SLOW = re.compile(r"(?:\[Compiling module [^\]\n]*\]\s*)?Very slow compile\?[^\n]*")
_FOLDING = re.compile(
    r"Constant folding an instruction is taking > [\d.hmsun]+:(?:\s*%?[\w.-]+ = [^\n]*)?"
)
_MODULE_BEFORE = re.compile(r"\[Compiling module [^\]\n]*\]\s*\Z")
_BEFORE = 400
_INSTRUCTION = re.compile(
    r"%?(?P<name>[\w.-]+) = (?P<shape>\((?:[^()]|\([^()]*\))*\)|[a-z]\w*\[[^\]]*\](?:\{[^}]*\})?) "
    r"(?P<opcode>[a-z][a-z0-9-]*)\("
)
_METADATA = re.compile(r"metadata=(\{(?:[^{}\"]|\"(?:[^\"\\]|\\.)*\")*\})")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@functools.cache
def parser() -> Lark:
    """Return the parser of all warnings."""
    return build_parser(*GRAMMARS, start=[*STARTS], has_placeholders=False)


def read_warning(source: Source, place: int) -> Found[CompilerWarning] | None:
    """Return the warning at an offset; None if it is none."""
    read = next(read for word, read in _READERS.items() if source.text.startswith(word, place))
    try:
        return read(source, place)
    except DumpSyntaxError as error:
        end = line_end(source.text, place)
        gap = span_gap(source, place, min(end, place + 80), error.message)
        return Found(None, place, end, [gap])


def _tree(rule: str, text: str) -> Node:
    return grammar_tree(parser(), NAMES, Source(text), rule, 0, len(text))


def _rematerialization(source: Source, place: int) -> Found[CompilerWarning] | None:
    match = _REMATERIALIZATION.match(source.text, place)
    if match is None:
        return None
    tree = _tree("full_rematerialization", match[0].rstrip())
    before, after = tokens(tree, "SHARDING")
    warning = CompilerWarning(
        kind=WarningKind.FULL_REMATERIALIZATION,
        instruction=printed_instruction(str(optional_token(tree, "INSTRUCTION"))),
        from_sharding=_readable(reader().sharding, before),
        to_sharding=_readable(reader().sharding, after),
    )
    return Found(warning, place, match.end())


def _donation(source: Source, place: int) -> Found[CompilerWarning] | None:
    """Return the warning; skip the line of JAX's source code that Python prints below it."""
    match = _DONATION.match(source.text, place)
    if match is None or _SOURCE_LINE.match(source.text, place) is not None:
        return None
    tree = _tree("unused_donation", match[0].rstrip())
    types = tuple(_inner(text) for text in tokens(tree, "TYPE"))
    shapes = tuple(_type_shape(text) for text in types)
    warning = CompilerWarning(
        kind=WarningKind.UNUSED_DONATION,
        donated=types,
        donated_shapes=shapes,
        size_bytes=_sum(shapes),
        reason=(match["reason"] or "").strip(),
        explanation=match["see"] or "",
    )
    return Found(warning, place, match.end())


def _sum(shapes: Sequence[Shape | None]) -> int | None:
    """Return the bytes of all shapes; None if those of any are not known."""
    sizes = [None if shape is None else shape.size_bytes for shape in shapes]
    known = [size for size in sizes if size is not None]
    return sum(known) if sizes and len(known) == len(sizes) else None


def _inner(text: str) -> str:
    return text.partition("(")[2].removesuffix(")") if text.endswith(")") else text


def _slow_compile(source: Source, place: int) -> Found[CompilerWarning] | None:
    before = _MODULE_BEFORE.search(source.text, max(0, place - _BEFORE), place)
    start = place if before is None else before.start()
    match = _SLOW.match(source.text, start)
    if match is None:
        return None
    tree = _tree("slow_compile", match[0])
    module = optional_token(tree, "MODULE")
    took = _TOOK.search(source.text, max(0, start - _BEFORE), start)
    warning = CompilerWarning(
        kind=WarningKind.SLOW_COMPILE,
        module=None if module is None else str(module),
        platform=str(optional_token(tree, "PLATFORM") or "").strip(),
        duration_seconds=None if took is None else seconds(took["took"]),
    )
    return Found(warning, start, match.end())


def _constant_folding(source: Source, place: int) -> Found[CompilerWarning] | None:
    match = _FOLDING.match(source.text, place)
    if match is None:
        return None
    tree = _tree("constant_folding", match[0].rstrip())
    took = _TOOK.search(source.text, max(0, place - _BEFORE), place)
    (limit,) = tokens(tree, "DURATION")
    warning = CompilerWarning(
        kind=WarningKind.CONSTANT_FOLDING,
        instruction=printed_instruction(str(optional_token(tree, "HLO") or "")),
        duration_seconds=None if took is None else seconds(took["took"]),
        limit_seconds=seconds(limit),
    )
    return Found(warning, place if took is None else took.start(), match.end())


def _large_arguments(source: Source, place: int) -> Found[CompilerWarning] | None:
    match = _ARGUMENTS.match(source.text, place)
    if match is None:
        return None
    warning = CompilerWarning(
        kind=WarningKind.LARGE_ARGUMENTS,
        size_bytes=int(match["size"]),
        limit_bytes=int(match["limit"]),
    )
    return Found(warning, place, match.end())


def _slow_algorithm(source: Source, place: int) -> Found[CompilerWarning] | None:
    match = _ALGORITHM.match(source.text, place)
    if match is None:
        return None
    took = _TOOK.search(source.text, max(0, place - _BEFORE), place)
    warning = CompilerWarning(
        kind=WarningKind.SLOW_KERNEL,
        instruction=printed_instruction(match["hlo"]),
        subject=match["algorithm"],
        duration_seconds=None if took is None else seconds(took["took"]),
    )
    return Found(warning, place if took is None else took.start(), match.end())


def _wrong_result(source: Source, place: int) -> Found[CompilerWarning] | None:
    """Return the warning with the wrong elements that the lines before it list."""
    match = _MISMATCH.match(source.text, place)
    if match is None:
        return None
    text = source.text
    start = text.rfind("\n", 0, place) + 1
    differences: list[re.Match[str]] = []
    while start:
        before = text.rfind("\n", 0, start - 1) + 1
        line = _DIFFERENCE.search(text, before, min(start, before + _LONGEST_DIFFERENCE))
        if line is None:
            break
        differences.append(line)
        start = before
    first = differences[-1] if differences else None
    warning = CompilerWarning(
        kind=WarningKind.WRONG_RESULT,
        instruction=printed_instruction(match["hlo"] or ""),
        subject="" if first is None else f"element {first[1]} is {first[2]}, expected {first[3]}",
        differences=len(differences) or None,
    )
    return Found(warning, place if first is None else start, match.end())


def _outside_write(source: Source, place: int) -> Found[CompilerWarning] | None:
    match = _RED_ZONE.match(source.text, place)
    if match is None:
        return None
    subject = f"{match['buffer']} buffer" if match["buffer"] else ""
    if match["zone"]:
        subject = (
            f"{match['zone']} redzone, offset {match['offset']} is {match['found']}, "
            f"expected {match['expected']}"
        )
    return Found(
        CompilerWarning(kind=WarningKind.OUTSIDE_WRITE, subject=subject), place, match.end()
    )


def _inexact_timing(source: Source, place: int) -> Found[CompilerWarning] | None:
    match = _TIMING.match(source.text, place)
    if match is None:
        return None
    return Found(CompilerWarning(kind=WarningKind.INEXACT_TIMING), place, match.end())


_READERS: Mapping[str, Callable[[Source, int], Found[CompilerWarning] | None]] = {
    "Involuntary full rematerialization": _rematerialization,
    "Some donated buffers were not usable:": _donation,
    "Very slow compile?": _slow_compile,
    "Constant folding an instruction is taking > ": _constant_folding,
    "byte size of input/output arguments (": _large_arguments,
    "Trying algorithm ": _slow_algorithm,
    "Results do not match": _wrong_result,
    "Results mismatch": _wrong_result,
    "Redzone mismatch in ": _outside_write,
    "ut-of-bounds write in ": _outside_write,
    "Delay kernel timed out": _inexact_timing,
}


def seconds(text: str) -> float | None:
    """Return a duration as absl prints it, in seconds; None if it is none.

    >>> seconds("2m1.5s"), seconds("1h3m0s"), seconds("250ms"), seconds("soon")
    (121.5, 3780.0, 0.25, None)
    """
    parts = re.findall(r"([\d.]+)(h|ms|us|ns|m|s)", text)
    if "".join(number + unit for number, unit in parts) != text or not parts:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def printed_instruction(text: str) -> PrintedInstruction | None:
    """Return the instruction that a warning prints; None if its beginning cannot be read."""
    match = _INSTRUCTION.match(text)
    if match is None:
        return None
    metadata = _METADATA.search(text)
    return PrintedInstruction(
        text=text.strip(),
        name=match["name"],
        opcode=match["opcode"],
        shape=_readable(reader().shape, match["shape"]),
        metadata=None if metadata is None else read_metadata(metadata[1]),
    )


def _readable(read: Callable[[str], T], text: str) -> T | None:
    """Return the value of a printed text; None if it is malformed."""
    try:
        return read(text)
    except (CodeError, DumpSyntaxError):
        return None


def _type_shape(text: str) -> Shape | None:
    """Return the shape of a type in JAX's or XLA's notation."""
    value = _readable(parse_value, text)
    return None if value is None else value.shape
