"""Statistics of buffers in logs, and prints of ``memory_analysis()`` and ``cost_analysis()``.

Sources: xla/service/buffer_assignment.cc, ToVerboseString and StatsString, whose sizes are rounded,
so that each stands for a range of bytes; see ``grammars/buffer_log.lark``, ``compiled_stats.lark``.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from hlo_lens.buffers.memory_usage import HumanSize
from hlo_lens.logs.messages import Fields, Found, Lines, MessageRule, find_anchors, read_metadata
from hlo_lens.logs.out_of_memory import read_failure
from hlo_lens.text.log_words import FAILED_ALLOCATION

if TYPE_CHECKING:
    from hlo_lens.hlo.metadata import OpMetadata
    from hlo_lens.text.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferStats:
    """Sums in a ``BufferAssignment stats:`` block; None if not printed.

    Attributes:
        parameter: Sum of the allocations of entry parameters.
        constant: Sum of constants.
        maybe_live_out: Sum of the possible parts of the result, aliased parameters included.
        preallocated_temp: Sum of the temporary allocations.
        preallocated_temp_fragmentation: Bytes of these that are never in use.
        preallocated_temp_fragmentation_percent: The same in percent of `preallocated_temp`.
        total: Sum of all allocations.
        total_fragmentation: `total` less the least that this schedule needs.
        total_fragmentation_percent: The same in percent of `total`.
    """

    parameter: HumanSize | None = None
    constant: HumanSize | None = None
    maybe_live_out: HumanSize | None = None
    preallocated_temp: HumanSize | None = None
    preallocated_temp_fragmentation: HumanSize | None = None
    preallocated_temp_fragmentation_percent: float | None = None
    total: HumanSize | None = None
    total_fragmentation: HumanSize | None = None
    total_fragmentation_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakBuffer:
    """One of the largest values at the peak.

    Attributes:
        number: 1 for the largest.
        operator: Its metadata; None if XLA has none.
        label: Opcode of the instruction; None for a parameter.
        is_entry_parameter: Whether it is (part of) an entry parameter.
    """

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
        """The label, or ``parameter``."""
        return self.label or ("parameter" if self.is_entry_parameter else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferLogEntry:
    """One block of buffer statistics, of a failed allocation or of a log level.

    Attributes:
        is_oom: Whether its title is ``BufferAssignment OOM Debugging``.
        requested_bytes: Bytes of the failed allocation in the text before it; None without one.
        stats: The statistics; None if they are missing.
        peak_buffers: Largest values at the peak, largest first (at most 15).
        line: 1-based line of the file where it begins.
        repeats: Lines at which it is printed again.
        is_complete: Whether it is complete, as far as is known.
    """

    is_oom: bool = False
    requested_bytes: int | None = None
    stats: BufferStats | None = None
    peak_buffers: tuple[PeakBuffer, ...] = ()
    line: int = field(default=1, compare=False)
    repeats: tuple[int, ...] = field(default=(), compare=False)
    is_complete: bool = field(default=True, compare=False)


_LINE = MessageRule("buffer_line", "buffer_log")
_FIRST_WORDS = (
    *("parameter allocation", "constant allocation", "maybe_live_out allocation"),
    *("preallocated temp", "total allocation", "total fragmentation", "Buffer ", "Size:"),
    *("Operator:", "XLA Label:", "Shape:", "Entry Parameter", "===="),
)
_LONGEST_WORD = 200
_BEFORE = 2000
"""Characters before a block in which the failed request is looked for."""


def read_buffer_statistics(source: Source, place: int) -> Found[BufferLogEntry] | None:
    """Return the block of statistics that begins at an offset; None if there is none."""
    text = source.text
    title = _LINE.read(text, place)
    if title is None:
        return None
    stats: dict[str, HumanSize | float] | None = {} if "STATS" in title[0] else None
    has_peak = "PEAK_BUFFERS" in title[0]
    buffers: list[Fields] = []
    lines = Lines(source, _LINE, title[1])
    for fields, _ in lines:
        if "STATS" in fields and not has_peak and stats is None:
            stats = {}
        elif "PEAK_BUFFERS" in fields and not has_peak:
            has_peak = True
        elif "STAT" in fields and not has_peak:
            stats = (stats or {}) | _stat(fields)
        elif "BUFFER_NUMBER" in fields and has_peak:
            buffers.append(fields)
        elif buffers and fields.keys().isdisjoint(
            ("OOM_DEBUGGING", "STATS", "STAT", "PEAK_BUFFERS")
        ):
            buffers[-1].update(fields)
        else:
            break  # another block
    rest = text[lines.end : lines.end + _LONGEST_WORD]
    word = rest.strip()
    is_torn = bool(word) and len(rest) < _LONGEST_WORD and "\n" not in rest.lstrip()
    is_torn = is_torn and any(w.startswith(word) or word.startswith(w) for w in _FIRST_WORDS)
    if is_torn:
        lines.gap(lines.end + len(rest) - len(rest.lstrip()), "the last line is cut off")
    is_oom = "OOM_DEBUGGING" in title[0]
    is_whole = stats is not None and "total" in stats and (has_peak or not is_oom) and not is_torn
    entry = BufferLogEntry(
        is_oom=is_oom,
        requested_bytes=_requested(source, place),
        stats=None if stats is None else BufferStats(**stats),  # type: ignore[arg-type] # by name
        peak_buffers=tuple(_peak_buffer(one) for one in buffers if "SIZE" in one),
        is_complete=is_whole
        and all("SIZE" in one and "RULE" in one and _shape(one) is not None for one in buffers),
    )
    return Found(entry, place, lines.end, lines.gaps)


def _stat(fields: Fields) -> dict[str, HumanSize | float]:
    """Return the sum of a line, and its share."""
    name = "_".join(fields["STAT"].removesuffix(" allocation").split())
    share = fields.get("STAT_PERCENT", "nan")
    found: dict[str, HumanSize | float] = {name: HumanSize(fields["STAT_SIZE"])}
    if share[-1].isdecimal() and "fragmentation" in name:  # a total of 0 gives nan
        found[f"{name}_percent"] = float(share)
    return found


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


def _requested(source: Source, place: int) -> int | None:
    """Return the bytes of the failed request that the text before a block names."""
    start = max(0, place - _BEFORE)
    start = max(start, source.text.rfind(" allocation:", start, place))
    requested = None
    for word in find_anchors(source.text[start:place], FAILED_ALLOCATION):
        failure = read_failure(source, start + word)
        size = None if failure is None or failure.value is None else failure.value.requested
        if size is not None and size.at_least == size.at_most:
            requested = size.at_least
    return requested


class PrintKind(enum.Enum):
    """Methods of a compiled program whose results are printed."""

    MEMORY = "memory_analysis()"
    COST = "cost_analysis()"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedStats:
    """Printed result of a method of a compiled program.

    Attributes:
        kind: The method.
        values: Names and numbers, in the order of the text.
        line: 1-based line of the file.
        lines: Number of its lines.
    """

    kind: PrintKind
    values: tuple[tuple[str, int | float], ...]
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)

    def value(self, name: str) -> int | float | None:
        """Return a number by its name; None if it is not printed."""
        return dict(self.values).get(name)

    def bytes(self, name: str) -> int | None:
        """Return a whole number by its name; None if it is not printed."""
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
