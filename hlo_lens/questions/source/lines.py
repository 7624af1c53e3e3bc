"""What each line of the program costs, from the facts of other rooms; sums equal theirs.

Bytes at the peak belong to the line of the value defined last (`memory --by source`), bytes sent to
the line of the collective, or of each member of a combined one, FLOP to the line of the product.
What has no line, lines of libraries, and branches that exclude one another are bracketed residuals.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.load.fact import fact
from hlo_lens.program.flops import flops
from hlo_lens.program.origins import origins
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.findings.findings import module_findings
from hlo_lens.questions.memory.peak import PARAMETERS, UNATTRIBUTED, nameless_group
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.work.work import work
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.source_files import is_library_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.peak import PeakMemory
    from hlo_lens.render.result import Row

LIBRARIES = "[libraries]"
"""Residual of lines that are in libraries, with no line of the program around them."""

OTHER_FILES = "[other files]"
BRANCHES = "[other branches]"
"""Residual of branches that exclude one another: lines have each, the sum only the largest."""


class Amounts(NamedTuple):
    """Bytes held at the peak, bytes sent and FLOP; None where not known."""

    peak_bytes: int | None = 0
    wire_bytes: int | None = 0
    flops: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """One line of the program, and what one device spends on it in one run."""

    source_file: Annotated[str, "file, as the dump names it"]
    source_line: Annotated[int, "line of the file that was compiled"]
    text: Annotated[str | None, "the line in the checkout"] = None
    peak_bytes: Annotated[int | None, Unit.BYTES, "bytes at the peak that belong to it"]
    wire_bytes: Annotated[int | None, Unit.BYTES, "bytes that leave each device in one run"]
    flops: Annotated[int | None, Unit.FLOPS, "FLOP of a device in one run"]
    flops_share: Annotated[float | None, Unit.RATIO, "share of all FLOP, 0 to 1"] = None
    repeated_flops: Annotated[
        int | None, Unit.FLOPS, "those that other devices compute as well"
    ] = None
    copies: Annotated[int | None, Unit.COUNT, "devices that compute one result of it"] = None
    times: Annotated[int | None, Unit.COUNT, "runs in one run of the program"] = None
    findings: Annotated[tuple[str, ...], "codes of the findings at it"] = ()
    checkout_line: Annotated[int | None, "line of the checkout that it is now"] = None
    is_changed: Annotated[bool, "whether the checkout no longer has the line"] = False


@dataclass(frozen=True, kw_only=True)
class SourceLines(Records[SourceLine]):
    """Lines of a program with what they cost, by file and line.

    Attributes:
        lines: The lines.
        residuals: Amounts that no line has, by bracketed label.
        whole: Those of the whole program; None where not known.
    """

    KIND: ClassVar[str] = "source"
    lines: tuple[SourceLine, ...]
    residuals: Mapping[str, Amounts]
    whole: Amounts

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the amounts that no line has."""
        others = len(self.COLUMNS) - 3 - len(Amounts._fields)
        return tuple((k, None, None, *v, *[None] * others) for k, v in self.residuals.items())

    def totals(self) -> dict[str, float]:
        """Return the amounts of the whole program, as far as they are known."""
        return {k: v for k, v in self.whole._asdict().items() if v is not None}

    def within(self, is_wanted: Callable[[str], bool], label: str) -> SourceLines:
        """Return the lines of some files; those of others are a residual.

        Args:
            is_wanted: Whether the lines of a file are wanted.
            label: Label of the residual.
        """
        others = [one for one in self.lines if not is_wanted(one.source_file)]
        if not others:
            return self
        left = Amounts(*(sum(getattr(one, k) or 0 for one in others) for k in Amounts._fields))
        return replace(
            self,
            lines=tuple(one for one in self.lines if is_wanted(one.source_file)),
            residuals={**self.residuals, label: left},
        )


_Part = tuple["_Place", "int | None", "int | None"]
"""Place, amount, and runs of what it is of in one run of the program."""

_Place = tuple[str, "int | None"]
"""File and line; a bracketed label and None for what has no line."""


@dataclass(slots=True)
class _Sums:
    """Figures of a line, or of a residual, while they are added up."""

    amounts: list[int | None] = field(default_factory=lambda: [0, 0, 0])
    times: int = 0
    repeated: int = 0
    copies: float = 0.0
    codes: set[str] = field(default_factory=set)

    def add(self, measure: int, amount: int | None) -> None:
        """Add an amount; the sum is not known if a part is not."""
        known = self.amounts[measure]
        self.amounts[measure] = None if amount is None or known is None else known + amount


def own_lines(module: ModuleDump) -> SourceLines:
    """Return the lines of the program's own files; those of libraries are a residual."""
    return source_lines(module).within(lambda file: not is_library_file(file), LIBRARIES)


@fact
def source_lines(module: ModuleDump) -> SourceLines:
    """Return the lines that cost something, or that a finding is at, with what they cost.

    An amount of a line is None where a part of it is not known.
    """
    memory = memory_results(module)
    peak = None if memory is None else memory.peak
    whole = Amounts(
        peak_bytes=None if peak is None else peak.total_bytes,
        wire_bytes=collectives(module).wire_bytes_per_device,
        flops=flops(module).total,
    )
    found = _summed(module, peak)
    lines = ((file, line, sums) for (file, line), sums in found.items() if line)
    residuals = {file: Amounts(*sums.amounts) for (file, line), sums in found.items() if not line}
    rest = [
        0 if total is None else total - sum(one.amounts[k] or 0 for one in found.values())
        for k, total in enumerate(whole)
    ]
    has_repeats = work(module).repeated_flops is not None
    return SourceLines(
        lines=tuple(
            SourceLine(
                source_file=file,
                source_line=line,
                peak_bytes=sums.amounts[0],
                wire_bytes=sums.amounts[1],
                flops=sums.amounts[2],
                flops_share=_share(sums.amounts[2], whole.flops),
                repeated_flops=sums.repeated if has_repeats else None,
                copies=round(sums.copies) or None,
                times=sums.times or None,
                findings=tuple(sorted(sums.codes)),
            )
            for file, line, sums in sorted(lines, key=itemgetter(0, 1))
        ),
        residuals=residuals | ({BRANCHES: Amounts(*rest)} if any(rest) else {}),
        whole=whole,
    )


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _summed(module: ModuleDump, peak: PeakMemory | None) -> dict[_Place, _Sums]:
    """Return the figures of each line, and of each label of what has none."""
    found: dict[_Place, _Sums] = defaultdict(_Sums)
    held: Iterable[_Part] = () if peak is None else _held(module, peak)
    for measure, parts in enumerate((held, _sent(module), _computed(module))):
        for place, amount, times in parts:
            found[place].add(measure, amount)
            found[place].times = max(found[place].times, times or 0)
    for product in work(module).products:
        sums = found[_place_of(origins(module).place(product.row))]
        sums.repeated += product.repeated_flops
        sums.copies = max(sums.copies, product.copies)
    for finding in module_findings(module).counted:
        if finding.source_file is not None and finding.source_line is not None:
            found[finding.source_file, finding.source_line].codes.add(finding.code)
    if peak is None:
        for sums in found.values():
            sums.amounts[0] = None
    return found


def _place_of(place: SourceLocation | None, label: str = UNATTRIBUTED) -> _Place:
    return (label, None) if place is None or place.line is None else (place.file, place.line)


def _held(module: ModuleDump, peak: PeakMemory) -> Iterator[_Part]:
    """Yield the bytes of the values at the peak."""
    for value in peak.live:
        origin = peak.origin_of(value)
        place = _place_of(origin.place, nameless_group(value.category))
        if value.category == "argument":
            place = PARAMETERS, None
        yield place, value.owned_bytes, _runs(module, origin.row)


def _runs(module: ModuleDump, row: int | None) -> int | None:
    """Return the runs of an instruction in one run of the program."""
    if row is None:
        return None
    return call_counts(module).at(hlo_text(module).links.owners[row]).times


def _sent(module: ModuleDump) -> Iterator[_Part]:
    for collective in collectives(module).collectives:
        for part in collective.parts:
            place: _Place = UNATTRIBUTED, None
            if part.source_file is not None and part.source_line is not None:
                place = part.source_file, part.source_line
            yield place, part.wire_bytes_per_run, part.dynamic_count


def _computed(module: ModuleDump) -> Iterator[_Part]:
    for product in flops(module).products:
        yield _place_of(origins(module).place(product.row)), product.run_flops, product.times
