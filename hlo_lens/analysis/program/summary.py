"""What a module is: name, backend, devices, size, and how much of its text was understood.

Coverage is the number of instructions that were read, divided by that number plus the lines that
no instruction could be read from; a gap over many lines weighs as many. An input without either has
coverage 1. Lines of a log around the computations, which are plainly no HLO, are counted apart.

The text does not name its backend. What tells: TPU layouts have tiles (``T(8,128)``), GPU and CPU
instructions have backend_config keys and custom-call targets of their own. Unoptimized text has
none of these, and small optimized CPU text may have none. Marks are looked for in the header and
in `_SAMPLES` instructions, evenly spread. Source: XLA's backend_configs.proto files, and dumps of
jaxlib 0.4.13 to 0.12.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.program.undefined_names import undefined_names
from hlo_lens.analysis.result import Column, Result, Row, Unit
from hlo_lens.model.hlo.columns import END, SHAPE
from hlo_lens.model.hlo.query import evident_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.hlo.query import InstructionTable
    from hlo_lens.text.errors import Gap

_SAMPLES = 4096
_TOGETHER = 256

_QUICKLY_CHECKED = 20_000
"""Instructions of the largest module whose operands are looked up without being asked to."""

_MARKS = {
    "tpu": (
        "{1,0:T(",
        "{0:T(",
        "[]{:T(",
        '"aliasing_operands":{',
        '"scoped_memory_configs":[',
        'custom_call_target="AsyncCollectiveStart"',
        'custom_call_target="tpu_custom_call"',
    ),
    "gpu": (
        '"operation_queue_id":',
        '"fusion_backend_config":{',
        '"collective_backend_config":{',
        '"device_type":"DEVICE_TYPE_',
        '"gemm_backend_config":{',
        'custom_call_target="__cu',
        'custom_call_target="__triton',
    ),
    "cpu": (
        '"outer_dimension_partitions":[',
        '"fusion_config":{"kind":"__',
        'custom_call_target="__onednn',
        'custom_call_target="__xla_cpu',
    ),
}
"""Texts that only one backend prints; before mid-2023 the quotes in them were escaped."""


@dataclass(frozen=True, kw_only=True)
class Summary(Result):
    """The facts of one module, as rows of name and value.

    Attributes:
        name: Name in the header; empty where there is no header.
        backend: ``cpu``, ``gpu``, ``tpu``, or None where the text does not tell.
        is_scheduled: Whether instructions stand in the order of execution.
        num_partitions: Devices over which one replica is divided.
        evident_partitions: The same, but where it is not printed as the entry's shardings tell;
            None where nothing does.
        replica_count: Replicas.
        computations: How many are printed.
        instructions: How many are printed.
        gaps: How many places were not understood.
        gap_lines: How many lines these take.
        passed_lines: Lines of a log around its computations, which are no part of it.
        is_truncated: Whether the text ends inside a computation.
        undefined: Names that it uses and does not define (`undefined_names`); of operands only
            where they were looked for.
    """

    KIND: ClassVar[str] = "summary"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("property", Unit.NONE, "what is said of the module"),
        Column("value", Unit.NONE, "its value"),
    )
    name: str
    backend: str | None
    is_scheduled: bool
    num_partitions: int
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
        """Share of the input that was understood, 0 to 1."""
        return coverage(self.instructions, self.gap_lines)

    def rows(self) -> Iterator[Row]:
        """Yield property and value."""
        yield "name", self.name
        yield "backend", self.backend
        yield "is_scheduled", self.is_scheduled
        yield "num_partitions", self.num_partitions
        yield "evident_partitions", self.evident_partitions
        yield "replica_count", self.replica_count
        yield "computations", self.computations
        yield "instructions", self.instructions
        yield "gaps", self.gaps
        yield "gap_lines", self.gap_lines
        yield "passed_lines", self.passed_lines
        yield "coverage", self.coverage
        yield "is_truncated", self.is_truncated
        yield "undefined", len(self.undefined)


def summary(table: InstructionTable, *, with_operands: bool = False) -> Summary:
    """Return the facts of a module.

    Args:
        table: The module's instructions.
        with_operands: Whether operands that are not defined are looked for in a module of any size.
    """
    module = table.module
    with_operands = with_operands or module.instruction_count <= _QUICKLY_CHECKED
    return Summary(
        name=module.name,
        backend=backend_of_text(module, table.producers),
        is_scheduled=module.is_scheduled,
        num_partitions=module.num_partitions,
        evident_partitions=evident_partitions(table),
        replica_count=module.replica_count,
        computations=len(module.computations),
        instructions=module.instruction_count,
        gaps=len(module.gaps),
        gap_lines=_gap_lines(module.gaps),
        passed_lines=module.passed_lines,
        is_truncated=module.is_truncated,
        undefined=undefined_names(module, with_operands=with_operands),
    )


def coverage_of(module: HloModule | None, gaps: tuple[Gap, ...], *, other_lines: int = 0) -> float:
    """Return the share of a module that was understood, 0 to 1.

    Args:
        module: Its HLO text; None where there is none, and any gap means that nothing is sure.
        gaps: What could not be read, of all of its texts.
        other_lines: Lines of a log that were understood; each counts as an instruction does.
    """
    read = 0 if module is None else module.instruction_count
    return coverage(read + other_lines, _gap_lines(gaps))


def coverage(instructions: int, gap_lines: int) -> float:
    """Return the share of instructions among instructions and lines that were not understood."""
    whole = instructions + gap_lines
    return instructions / whole if whole else 1.0


def _gap_lines(gaps: tuple[Gap, ...]) -> int:
    return sum(gap.lines for gap in gaps)


def backend_of_text(module: HloModule, rows: Sequence[int]) -> str | None:
    """Return the one backend whose marks the text has in its header and in some of these rows."""
    if any(":T(" in value for value in module.header.values()):
        return "tpu"
    step = len(rows) // _SAMPLES + 1
    columns = module.columns
    sample = rows[::step]
    found: set[str] = set()
    for first in range(0, len(sample), _TOGETHER):
        texts = [columns.text(row, SHAPE, END) for row in sample[first : first + _TOGETHER]]
        whole = "\n".join(texts).replace('\\"', '"')
        for backend, marks in _MARKS.items():
            if backend not in found and any(mark in whole for mark in marks):
                found.add(backend)
    return next((backend for backend in _MARKS if backend in found), None)
