"""Facts of a module: name, backend, devices, size, and the share of its text that was parsed.

Coverage is the number of instructions that were read, divided by that number plus the lines that
could not be read; a gap over many lines counts as many. An input without either has coverage 1.
Lines of a log around the computations are counted separately.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.hlo.query import evident_partitions
from hlo_lens.load.fact import fact
from hlo_lens.program.backend import backend_of_dump
from hlo_lens.program.hlo_text import instruction_table
from hlo_lens.program.undefined_names import undefined_names
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.text.errors import Gap

_QUICKLY_CHECKED = 20_000
"""Most instructions of a module whose operands are always looked up."""


@dataclass(frozen=True, kw_only=True)
class Summary(Result):
    """The facts of one module, as rows of name and value.

    Attributes:
        name: Name in the header; empty without a header.
        backend: ``cpu``, ``gpu``, ``tpu``, or None if unknown.
        is_scheduled: Whether instructions are in execution order.
        num_partitions: Devices over which one replica is divided; None if it is not printed and
            the entry's shardings are over several.
        evident_partitions: The same, or that of the entry's shardings if not printed; None if
            neither shows it.
        replica_count: Replicas.
        computations: Number in the text.
        instructions: Number in the text.
        gaps: Number of places that could not be read.
        gap_lines: Number of lines of these.
        passed_lines: Lines of a log around its computations.
        is_truncated: Whether the text ends inside a computation.
        undefined: Names that it uses and does not define (`undefined_names`); operands only if
            looked up.
    """

    KIND: ClassVar[str] = "summary"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("property", Unit.NONE, "property of the module"),
        Column("value", Unit.NONE, "its value"),
    )
    name: str
    backend: str | None
    is_scheduled: bool
    num_partitions: int | None
    evident_partitions: int | None
    replica_count: int
    computations: int
    instructions: int
    gaps: int
    gap_lines: int
    passed_lines: int
    is_truncated: bool
    undefined: tuple[str, ...] = ()

    @property
    def coverage(self) -> float:
        """Share of the input that was parsed, 0 to 1."""
        return coverage(self.instructions, self.gap_lines)

    def rows(self) -> Iterator[Row]:
        """Yield property and value."""
        for field in fields(self):
            if field.name == "is_truncated":
                yield "coverage", self.coverage
            value = getattr(self, field.name)
            yield field.name, len(value) if field.name == "undefined" else value


@fact
def summary(dump: ModuleDump) -> Summary:
    """Return name, size and coverage of a module."""
    table = instruction_table(dump)
    module = table.module
    evident = evident_partitions(table)
    with_operands = not dump.given.is_quick or module.instruction_count <= _QUICKLY_CHECKED
    return Summary(
        name=module.name,
        backend=backend_of_dump(dump),
        is_scheduled=module.is_scheduled,
        num_partitions=module.num_partitions if evident in (None, module.num_partitions) else None,
        evident_partitions=evident,
        replica_count=module.replica_count,
        computations=len(module.computations),
        instructions=module.instruction_count,
        gaps=len(module.gaps),
        gap_lines=_gap_lines(module.gaps),
        passed_lines=module.passed_lines,
        is_truncated=module.is_truncated,
        undefined=undefined_names(module, with_operands=with_operands),
    )


def num_devices(module: ModuleDump) -> int:
    """Return the devices of one replica: the header's number, or that of the entry's shardings."""
    facts = summary(module)
    return facts.evident_partitions or facts.num_partitions or 1


def coverage_of(module: HloModule | None, gaps: tuple[Gap, ...], *, other_lines: int = 0) -> float:
    """Return the share of a module that was parsed, 0 to 1.

    Args:
        module: Its HLO text; None without one, when any gap makes coverage 0.
        gaps: Places of all of its texts that could not be read.
        other_lines: Lines of a log that were parsed; each counts as an instruction.
    """
    read = 0 if module is None else module.instruction_count
    return coverage(read + other_lines, _gap_lines(gaps))


def coverage(instructions: int, gap_lines: int) -> float:
    """Return the share of instructions in instructions and unread lines."""
    whole = instructions + gap_lines
    return instructions / whole if whole else 1.0


def _gap_lines(gaps: tuple[Gap, ...]) -> int:
    return sum(gap.lines for gap in gaps)
