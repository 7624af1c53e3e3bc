"""Output of XLA and JAX in logs: warnings of the compiler, buffer statistics, printed analyses.

Source: see ``grammars/compiler_warnings.lark``, ``buffer_log.lark``, ``compiled_stats.lark``. Sizes
of buffer statistics are rounded, so that each stands for a range of bytes.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from hlo_lens.buffers.memory_usage import HumanSize
from hlo_lens.logs.messages import (
    Fields,
    Found,
    Lines,
    MessageRule,
    line_end,
    read_first,
    read_metadata,
    source_of,
)
from hlo_lens.logs.out_of_memory import MemoryShortage, alike, group_of, shortage_of
from hlo_lens.render.result import Records, Unit, sum_of
from hlo_lens.shapes.shape import element_type, parse_shape
from hlo_lens.shapes.sharding import parse_sharding
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hlo_lens.hlo.metadata import OpMetadata
    from hlo_lens.shapes.shape import Shape
    from hlo_lens.shapes.sharding import HloSharding

T = TypeVar("T")


class WarningKind(enum.Enum):
    """Kinds of warnings."""

    FULL_REMATERIALIZATION = "full rematerialization"
    UNUSED_DONATION = "unused donation"
    SLOW_COMPILE = "slow compile"
    CONSTANT_FOLDING = "constant folding"
    LARGE_ARGUMENTS = "arguments exceed the limit"


_ALARMS = (WarningKind.SLOW_COMPILE, WarningKind.CONSTANT_FOLDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedInstruction:
    """An instruction as printed in a warning, possibly cut off."""

    text: str
    name: str
    opcode: str
    shape: Shape | None = None
    metadata: OpMetadata | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerWarning:
    """One warning.

    Attributes:
        instruction: Its instruction; None for warnings on whole programs.
        from_sharding: Present sharding of the value, for full rematerialization.
        donated: Types of the arguments with unusable donations, as printed.
        donated_shapes: Their shapes; None for a type that cannot be read.
        platform: Its platform, as printed; empty if it is not.
        duration_seconds: Duration of the operation; None while it goes on.
        limit_seconds: Time limit after which XLA warned; None if it is not printed.
        size_bytes: Bytes of the arguments; None for other kinds, or if not known.
        reason: Reason as printed; empty if it is not.
    """

    kind: WarningKind
    instruction: PrintedInstruction | None = None
    from_sharding: HloSharding | None = None
    to_sharding: HloSharding | None = None
    donated: tuple[str, ...] = ()
    donated_shapes: tuple[Shape | None, ...] = ()
    module: str | None = None
    platform: str = ""
    duration_seconds: float | None = None
    limit_seconds: float | None = None
    size_bytes: int | None = None
    limit_bytes: int | None = None
    reason: str = ""
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)


def _rule(name: str) -> MessageRule:
    return MessageRule(name, "compiler_warnings")


_KINDS = {  # rule to the kind of its warnings
    "full_rematerialization": WarningKind.FULL_REMATERIALIZATION,
    "unused_donation": WarningKind.UNUSED_DONATION,
    "slow_compile": WarningKind.SLOW_COMPILE,
    "constant_folding": WarningKind.CONSTANT_FOLDING,
    "large_arguments": WarningKind.LARGE_ARGUMENTS,
}
_RULES = {name: _rule(name) for name in _KINDS}
_TOOK, _COMPILING = _rule("took"), _rule("compiling")
_BEFORE = 400
"""Characters before a warning in which the words are looked for that precede it."""


def read_warning(source: Source, place: int) -> Found[CompilerWarning] | None:
    """Return the warning whose first words are at an offset; None if it is none."""
    text = source.text
    sentence = read_first(_RULES, text, place)
    if sentence is None and text.startswith("Involuntary", place):
        end = line_end(text, place)
        gap = Gap.at(source, Span(place, min(end, place + 80)), "expected two shardings")
        return Found(None, place, end, [gap])
    if sentence is None:
        return None
    name, fields, end = sentence
    values = _values(name, fields)
    start = place
    if name == "slow_compile":
        compiling, start = _precedes(_COMPILING, "[Compiling module ", text, start)
        values |= {
            "module": compiling.get("MODULE"),
            "platform": compiling.get("PLATFORM", "").strip(),
        }
    if values["kind"] in _ALARMS:
        took, first = _precedes(_TOOK, "The operation took ", text, start)
        values["duration_seconds"] = seconds(took.get("DURATION", ""))
        start = start if name == "slow_compile" else first
    return Found(CompilerWarning(**values), start, end)  # type: ignore[arg-type] # fields by name


def _precedes(rule: MessageRule, word: str, text: str, start: int) -> tuple[Fields, int]:
    place = text.rfind(word, max(0, start - _BEFORE), start)
    found = None if place < 0 else rule.read(text, place, start)
    if found is None or text[found[1] : start].strip(" \t\n*"):
        return Fields(), start
    return found[0], place


_TYPE = re.compile(r"[A-Za-z]\w*\(([^()\n]*)\)|[a-z]\w*(?:<[\w, ]*>)?\[[^\]\n]*\](?:\{[^}\n]*\})?")


def _values(name: str, fields: Fields) -> dict[str, object]:
    values: dict[str, object] = {"kind": _KINDS[name]}
    if (text := fields.get("INSTRUCTION", fields.get("HLO"))) is not None:
        values["instruction"] = printed_instruction(text)
    match name:
        case "full_rematerialization":
            for side in ("FROM", "TO"):
                sharding = _readable(parse_sharding, " ".join(fields[side].split()))
                values[f"{side.lower()}_sharding"] = sharding
        case "unused_donation":
            types = tuple(match[1] or match[0] for match in _TYPE.finditer(fields.get("TYPES", "")))
            shapes = tuple(_readable(_shape_of_type, one) for one in types)
            sizes = [None if shape is None else shape.size_bytes for shape in shapes]
            values |= {
                "donated": types,
                "donated_shapes": shapes,
                "size_bytes": sum_of(sizes) if sizes else None,
                "reason": fields.get("NOT_IMPLEMENTED", ""),
            }
        case "constant_folding":
            values["limit_seconds"] = seconds(fields["DURATION"])
        case "large_arguments":
            values |= {"size_bytes": int(fields["SIZE"]), "limit_bytes": int(fields["LIMIT"])}
    return values


def _shape_of_type(text: str) -> Shape:
    """Return the shape of JAX's ``float32[8@x,4]`` or XLA's ``f32[8,4]{1,0}``."""
    name, _, dims = text.partition("[")
    name = name.partition("<")[0]
    sizes = re.sub(r"@(?:\([^()]*\)|[\w.+]+)", "", dims.partition("]")[0])
    return parse_shape(f"{element_type(name) or name}[{sizes}]")


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def seconds(text: str) -> float | None:
    """Return a duration as absl prints it, in seconds; None if it is none.

    >>> seconds("2m1.5s"), seconds("1h3m0s"), seconds("250ms"), seconds("soon")
    (121.5, 3780.0, 0.25, None)
    """
    parts = re.findall(r"(\d+\.?\d*|\.\d+)(h|ms|us|ns|m|s)", text)
    if "".join(number + unit for number, unit in parts) != text or not parts:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


_INSTRUCTION = re.compile(
    r"%?(?P<name>[\w.-]+) = (?P<shape>\((?:[^()]|\([^()]*\))*\)|[a-z]\w*\[[^\]]*\](?:\{[^}]*\})?) "
    r"(?P<opcode>[a-z][a-z0-9-]*)\("
)
_METADATA = re.compile(r"metadata=(\{(?:[^{}\"]|\"(?:[^\"\\]|\\.)*\")*\})")


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
        shape=_readable(parse_shape, match["shape"]),
        metadata=None if metadata is None else read_metadata(metadata[1]),
    )


def _readable(read: Callable[[str], T], text: str) -> T | None:
    try:
        return read(text)
    except DumpSyntaxError:
        return None


_LATEST = 64
"""Latest alarms of which a warning may be the end."""


def without_ended_alarms(warnings: Sequence[CompilerWarning]) -> tuple[CompilerWarning, ...]:
    """Return the warnings, alarms with the duration that a later one of the same alarm has."""
    kept: list[CompilerWarning] = []
    begun: list[int] = []
    for warning in warnings:
        took = warning.duration_seconds
        if took is not None:
            for k in begun:
                whole = replace(kept[k], duration_seconds=took)
                if warning in (whole, replace(whole, instruction=None)):
                    begun.remove(k)
                    kept[k] = whole
                    break
            else:
                kept.append(warning)
            continue
        if warning.kind in _ALARMS:
            begun = [*begun[-_LATEST:], len(kept)]
        kept.append(warning)
    return tuple(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedWarning:
    """Equal warnings of a log, and the instructions of a dump that they may be about."""

    line: Annotated[int, "1-based line of the log, of the first"]
    times: Annotated[int, Unit.COUNT, "number of equal warnings"]
    warning: Annotated[str, "kind of warning"]
    about: Annotated[str | None, "instruction, types or module that it prints"]
    op_name: Annotated[str | None, "operation path that it prints"]
    from_sharding: Annotated[str | None, "present sharding of the value"]
    to_sharding: Annotated[str | None, "required sharding of the value"]
    seconds: Annotated[float | None, "duration; empty while it is not known"]
    limit_seconds: Annotated[float | None, "time limit after which XLA warned"]
    size_bytes: Annotated[int | None, Unit.BYTES, "bytes of the donated or of all arguments"]
    limit_bytes: Annotated[int | None, Unit.BYTES, "limit of the arguments"]
    module: Annotated[str | None, "module of the dump"] = None
    stage: Annotated[str | None, "before or after optimizations"] = None
    instruction: Annotated[str | None, "instruction of the dump"] = None
    how: Annotated[str, "properties by which it was found"] = "no dump"
    source: Annotated[str | None, "line of the program"] = None
    full_bytes: Annotated[int | None, Unit.BYTES, "bytes of the whole value"] = None
    message: CompilerWarning


@dataclass(frozen=True, kw_only=True)
class LoggedWarnings(Records[LoggedWarning]):
    """Warnings of a log, in text order, equal ones as one."""

    KIND: ClassVar[str] = "compiler-warnings"
    warnings: tuple[LoggedWarning, ...]

    @property
    def is_joined(self) -> bool:
        return any(warning.how != "no dump" for warning in self.warnings)


def logged_warnings(warnings: Sequence[CompilerWarning]) -> LoggedWarnings:
    """Return the warnings of a log, each with the number of equal ones."""
    counts = Counter(warnings)
    return LoggedWarnings(warnings=tuple(_logged(one, count) for one, count in counts.items()))


def _logged(warning: CompilerWarning, times: int) -> LoggedWarning:
    printed = warning.instruction
    metadata = None if printed is None else printed.metadata
    return LoggedWarning(
        line=warning.line,
        times=times,
        warning=warning.kind.value,
        about=_about(warning),
        op_name=None if metadata is None else metadata.op_name,
        from_sharding=None if warning.from_sharding is None else warning.from_sharding.text,
        to_sharding=None if warning.to_sharding is None else warning.to_sharding.text,
        seconds=warning.duration_seconds,
        limit_seconds=warning.limit_seconds,
        size_bytes=warning.size_bytes,
        limit_bytes=warning.limit_bytes,
        source=source_of(metadata),
        message=warning,
    )


def _about(warning: CompilerWarning) -> str | None:
    printed = warning.instruction
    if printed is not None:
        shape = "" if printed.shape is None else f" {printed.shape.to_text(layout=False)}"
        return f"{printed.name}{shape} {printed.opcode}"
    return ", ".join(warning.donated) or warning.module


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferStats:
    """Sums in a ``BufferAssignment stats:`` block; None if not printed."""

    parameter: HumanSize | None = None
    constant: HumanSize | None = None
    maybe_live_out: HumanSize | None = None
    preallocated_temp: HumanSize | None = None
    preallocated_temp_fragmentation: HumanSize | None = None
    total: HumanSize | None = None
    total_fragmentation: HumanSize | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakBuffer:
    """One of the largest values at the peak."""

    number: int
    size: Annotated[HumanSize, "bytes as printed"]
    operator: OpMetadata | None = None
    label: str | None = None
    shape: Annotated[str | None, "shape without layout, of a part of a parameter that part's"] = (
        None
    )
    is_entry_parameter: bool = False

    @property
    def opcode(self) -> Annotated[str | None, "XLA's label"]:
        return self.label or ("parameter" if self.is_entry_parameter else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferLogEntry:
    """One block of buffer statistics, of a failed allocation or of a log level."""

    is_oom: bool = False
    stats: BufferStats | None = None
    peak_buffers: tuple[PeakBuffer, ...] = ()
    line: int = field(default=1, compare=False)
    repeats: tuple[int, ...] = field(default=(), compare=False)
    is_complete: bool = field(default=True, compare=False)


_LINE = MessageRule("buffer_line", "buffer_log")


def read_buffer_statistics(source: Source, place: int) -> Found[BufferLogEntry] | None:
    """Return the block of statistics that begins at an offset; None if there is none."""
    text = source.text
    title = _LINE.read(text, place)
    if title is None:
        return None
    stats: dict[str, HumanSize] | None = {} if "STATS" in title[0] else None
    has_peak = "PEAK_BUFFERS" in title[0]
    buffers: list[Fields] = []
    lines = Lines(source, _LINE, title[1])
    for fields, _ in lines:
        if "STATS" in fields and not has_peak and stats is None:
            stats = {}
        elif "PEAK_BUFFERS" in fields and not has_peak:
            has_peak = True
        elif "STAT" in fields and not has_peak:
            name = "_".join(fields["STAT"].removesuffix(" allocation").split())
            stats = (stats or {}) | {name: HumanSize(fields["STAT_SIZE"])}
        elif "BUFFER_NUMBER" in fields and has_peak:
            buffers.append(fields)
        elif buffers and fields.keys().isdisjoint(
            ("OOM_DEBUGGING", "STATS", "STAT", "PEAK_BUFFERS")
        ):
            buffers[-1].update(fields)
        else:
            break  # another block
    is_oom = "OOM_DEBUGGING" in title[0]
    is_whole = stats is not None and "total" in stats and (has_peak or not is_oom)
    entry = BufferLogEntry(
        is_oom=is_oom,
        stats=None if stats is None else BufferStats(**stats),
        peak_buffers=tuple(_peak_buffer(one) for one in buffers if "SIZE" in one),
        is_complete=is_whole
        and all("SIZE" in one and "RULE" in one and _shape(one) is not None for one in buffers),
    )
    return Found(entry, place, lines.end, lines.gaps)


def _shape(fields: Fields) -> str | None:
    return fields.text("SHAPE" if "SHAPE" in fields else "PARAMETER_SUBSHAPE")


def _peak_buffer(fields: Fields) -> PeakBuffer:
    operator = fields.text("OPERATOR")
    return PeakBuffer(
        number=int(fields["BUFFER_NUMBER"]),
        size=HumanSize(fields["SIZE"]),
        operator=None if operator is None else read_metadata(f"{{{operator}}}"),
        label=fields.text("LABEL"),
        shape=_shape(fields),
        is_entry_parameter="PARAMETER_SUBSHAPE" in fields,
    )


def peak_buffer_groups(buffers: Sequence[PeakBuffer]) -> MemoryShortage:
    """Return the largest buffers at a peak, equal ones as one group."""
    groups = []
    for same in alike(buffers, lambda one: (one.is_entry_parameter, one.label, one.shape)):
        first = same[0]
        kind = "arguments" if first.is_entry_parameter else "buffers"
        groups.append(
            group_of(kind, f"{first.opcode or 'value'} {first.shape or ''}".strip(), same)
        )
    return shortage_of(groups)


class PrintKind(enum.Enum):
    """Methods of a compiled program whose results are printed."""

    MEMORY = "memory_analysis()"
    COST = "cost_analysis()"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedStats:
    """Printed result of a method of a compiled program."""

    kind: PrintKind
    values: tuple[tuple[str, int | float], ...]
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)

    def value(self, name: str) -> int | float | None:
        return dict(self.values).get(name)

    def bytes(self, name: str) -> int | None:
        value = self.value(name)
        return value if isinstance(value, int) else None

    @property
    def needed_bytes(self) -> int | None:
        """What must fit: arguments, outputs without reused ones, temp; None if not printed."""
        names = ("argument", "output", "temp", "alias")
        argument, output, temp, alias = (self.bytes(f"{name}_size_in_bytes") for name in names)
        if argument is None or output is None or temp is None or alias is None:
            return None
        return argument + output + temp - alias


_MEMORY_STATS = MessageRule("memory_stats", "compiled_stats")
_COST_DICT = MessageRule("cost_dict", "compiled_stats")
_DICT_START = re.compile(r"\{\s*+['\"]")  # a brace of a shape index in a key has no quote after it
_PAIR = re.compile(
    r"(?:'(?P<single>[^'\n]++)'|\"(?P<double>[^\"\n]++)\"|(?P<bare>[a-z_]++))"
    r"\s*+[=:]\s*+(?P<value>[^,\s)}]++)"
)
_SIZE = re.compile(r"[a-z_]+_(?:size|memory)_in_bytes")
_MOST_BRACES = 1000
_REACH = 1 << 16
"""Most characters of a print before a word of it."""


def read_stats(source: Source, place: int) -> Found[PrintedStats] | None:
    """Return the print around an offset; None if there is none."""
    text, start = source.text, place
    found = _MEMORY_STATS.read(text, place)
    if found is None:
        for _ in range(_MOST_BRACES):
            start = text.rfind("{", max(0, place - _REACH), start)
            if start < 0 or _DICT_START.match(text, start):
                break
        found = None if start < 0 else _COST_DICT.read(text, start)
    if found is None or found[1] < place:
        return None
    if text[found[1] - 1] not in ")}":  # without its end
        return Found(None, start, found[1])
    values = tuple(
        (m["single"] or m["double"] or m["bare"], number)
        for m in _PAIR.finditer(text, start, found[1])
        if (number := _number(m["value"])) is not None
    )
    kind = PrintKind.MEMORY if any(_SIZE.fullmatch(name) for name, _ in values) else PrintKind.COST
    return Found(PrintedStats(kind=kind, values=values), start, found[1])


def _number(text: str) -> int | float | None:
    try:
        return int(text) if text.lstrip("-").isdecimal() and len(text) < 64 else float(text)
    except ValueError:
        return None
