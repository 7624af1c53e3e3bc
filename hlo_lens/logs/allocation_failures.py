"""Reader of memory messages of running programs: failed allocations, limits of rematerialization.

Sentences are found by regular expressions and parsed by the grammar.
"""

from __future__ import annotations

import re

from lark import Token

from hlo_lens.buffers.human_size import HumanSize
from hlo_lens.buffers.lines import Node, optional_token, tokens
from hlo_lens.grammar.parsers import grammar_tree
from hlo_lens.hlo.text_reader import reader
from hlo_lens.logs.log_text import Found
from hlo_lens.logs.logs_out_of_memory import NAMES, SIZE, parser
from hlo_lens.logs.oom_values import exact_size, sizes_of
from hlo_lens.logs.out_of_memory import FailedAllocation, RematerializationLimit
from hlo_lens.shapes.dtypes import element_type
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source

_FAILURE = re.compile(
    rf"""[Oo]ut[ ]of[ ]memory[ ](?:while[ ]trying[ ]to[ ]allocate|allocating)
      [ ](?:\d{{1,18}}[ ]bytes|{SIZE})\.?(?:[ ]\[executable_name='[^'\n]*'\])?
    | [Ff]ailed[ ]to[ ]allocate(?:[ ]request[ ]for)?[ ]{SIZE}[ ]\((?:\d{{1,18}}[ ]bytes|{SIZE})\)
      (?:[ ]on[ ]device[ ]ordinal[ ]\d{{1,9}})?
    | [Ff]ailed[ ]to[ ]allocate[ ]\d{{1,18}}[ ]bytes
      (?:[ ](?:for[ ]new[ ]constant|on[ ]host|from[ ]device))?
    | OOM[ ]when[ ]allocating[ ]tensor[ ]with[ ]shape[ ]?\[[\d,]{{0,200}}\]
      (?:[ ]and[ ]type[ ]\w{{1,40}})?(?:[ ]on[ ]/[\w/:-]{{1,200}})?
      (?:[ ]by[ ]allocator[ ][\w./:-]{{1,80}})?
    | Attempting[ ]to[ ](?:allocate|reserve)[ ]{SIZE}(?:[ ]at[ ]the[ ]bottom[ ]of[ ]memory)?\.\s+
      That[ ]was[ ]not[ ]possible\.[ ]There[ ]are[ ]{SIZE}[ ]free
      (?:,[ ]{SIZE}[ ]reserved,[ ]and[ ]{SIZE}[ ]reservable)?\.?
      (?:[ ]The[ ]largest[ ]contiguous[ ]region[ ]of[ ]free[ ]memory[ ]is[ ]{SIZE}
        [ ]due[ ]to[ ]fragmentation\.)?
      (?:;?[ ]*\(\d+x\d+x\d+_[A-Za-z]+\d*\))?
    | Ran[ ]out[ ]of[ ]memory[ ]trying[ ]to[ ]allocate[ ]{SIZE}\.?
    | Allocator[ ]\([\w./:-]+\)[ ]ran[ ]out[ ]of[ ]memory[ ]trying[ ]to[ ]allocate[ ]{SIZE}
      (?:[ ]\(rounded[ ]to[ ]\d{{1,18}}\))?(?:[ ]?(?:requested|with)[ ][^\n]*)?""",
    re.VERBOSE,
)
_LIMIT = re.compile(
    rf"Can't reduce memory use below {SIZE}(?: \(\d{{1,18}} bytes\))?\s+by rematerialization;"
    rf"\s+only reduced to {SIZE}(?: \(\d{{1,18}} bytes\))?"
    rf"(?:,\s+down from {SIZE}(?: \(\d{{1,18}} bytes\))?(?: originally)?)?"
)
_PURPOSE = re.compile(
    r"Error (?:allocating (device buffer)|loading (program)(?: '([^'\n]*)')?): *\Z"
)
_EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception|exception)\b[^\n]*\Z")
_PRINTERS = {
    "failed_request": "driver",
    "failed_bytes": "driver",
    "allocator_failed": "allocator",
}
"""Rules of the grammar to the part of the system that prints them, exceptions apart."""

_BEFORE = 200
"""Characters before a failure in which the purpose of the memory is looked for."""


def read_failure(source: Source, place: int) -> Found[FailedAllocation] | None:
    """Return the failed allocation at an offset; None if it is none."""
    text = source.text
    start = place
    if text.startswith(("ut ", "ailed "), place):
        start = place - 1
    elif text.startswith("an out", place):
        start = place - 1
        if text.startswith("ran", start):
            start = text.rfind("Allocator (", max(0, place - _BEFORE), place)
    match = None if start < 0 else _FAILURE.match(text, start)
    if match is None:
        return None
    tree = _tree("failed_allocation", match[0])
    if tree is None:
        return None
    purpose = _PURPOSE.search(text, max(0, start - _BEFORE), start)
    raised = _EXCEPTION.search(text, max(0, start - _BEFORE), start)
    printer = _PRINTERS.get(tree.data, "runtime") if raised is None else "exception"
    return Found(_failure(tree, purpose, printer), start, match.end())


def _failure(tree: Node, purpose: re.Match[str] | None, printer: str) -> FailedAllocation:
    sizes = sizes_of(tree)
    numbers = tokens(tree, "NATURAL")
    kind = tree.data
    program = str(optional_token(tree, "EXECUTABLE") or "").partition("'")[2].partition("'")[0]
    requested: HumanSize | None = None
    if kind != "tensor_failed":
        requested = sizes[0] if sizes else exact_size(numbers.pop(0))
    device = str(optional_token(tree, "DEVICE") or "").strip("; ()")
    rest = str(optional_token(tree, "REST_OF_LINE") or "")
    if kind == "failed_request":
        requested = sizes[1] if len(sizes) > 1 else exact_size(numbers.pop(0))
        device = numbers[0] if numbers else ""
    elif kind == "tensor_failed":
        requested = _tensor_size(tree)
        device = str(optional_token(tree, "TENSOR_DEVICE") or "").rpartition("/")[2]
    elif kind == "allocator_failed" and numbers:
        requested = exact_size(numbers[0])
    use = "" if purpose is None else purpose[1] or purpose[2]
    if requested is None:
        use = f"tensor{optional_token(tree, 'TENSOR_DIMENSIONS')}"
    is_possible = kind == "not_possible"
    if purpose is not None:
        program = purpose[3] or program
    return FailedAllocation(
        requested=requested,
        free=sizes[1] if is_possible else None,
        largest_free=sizes[2] if is_possible and len(sizes) > 2 else None,
        device=device,
        allocator=str(optional_token(tree, "ALLOCATOR_NAME") or ""),
        program=program or None,
        purpose=use,
        is_fatal="is not a failure" not in rest,
        printed_by=printer,
    )


def _tensor_size(tree: Node) -> HumanSize | None:
    """Return the bytes of the tensor that TensorFlow names.

    None if its type is not printed, as before 2018, or unknown to XLA.
    """
    word = str(optional_token(tree, "WORD") or "")
    dtype = element_type("float32" if word == "float" else word)
    if dtype is None:
        return None
    try:
        size = reader().shape(f"{dtype}{optional_token(tree, 'TENSOR_DIMENSIONS')}").size_bytes
    except DumpSyntaxError:
        return None
    return None if size is None else exact_size(str(size))


def read_limit(source: Source, place: int) -> Found[RematerializationLimit] | None:
    """Return the limit of rematerialization at an offset; None if it is none."""
    match = _LIMIT.match(source.text, place)
    tree = None if match is None else _tree("rematerialization_limit", match[0])
    if match is None or tree is None:
        return None
    found: list[HumanSize] = []
    for child in tree.children:
        if isinstance(child, Token) and child.type == "SIZE":
            found.append(HumanSize(str(child)))
        elif not isinstance(child, Token):
            found[-1] = exact_size(str(optional_token(child, "NATURAL")))
    original = found[2] if len(found) > 2 else None
    limit = RematerializationLimit(wanted=found[0], reached=found[1], original=original)
    return Found(limit, place, match.end())


def _tree(rule: str, text: str) -> Node | None:
    try:
        return grammar_tree(parser(), NAMES, Source(text), rule, 0, len(text))
    except DumpSyntaxError:
        return None
