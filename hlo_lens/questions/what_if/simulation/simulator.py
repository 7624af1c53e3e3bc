"""Memory of a compiled program with changes, by our buffer assignment, without compiling again.

The optimized program stays as it is, in its order; aliases, sizes and live ranges of its values
change, and the buffers are assigned again. What XLA would compile differently after a change is
outside: the bounds allow for it, as far as `hlo_lens.questions.what_if.simulation.simulate` knows.

Where the dump has XLA's buffer assignment, answers are its figures and the difference of two
assignments of ours, without and with the changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.backend_rules import backend_rules
from hlo_lens.buffers.estimate.buffer_sharing import BufferSharing
from hlo_lens.buffers.estimate.dataflow import WalkedModule
from hlo_lens.program.summary import backend_of_dump, backend_of_text, hlo_text, instruction_table
from hlo_lens.questions.memory.estimate import layout_of_flow, why_no_estimate
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.statement import memory_statement
from hlo_lens.questions.sharding.results import sharding_results
from hlo_lens.questions.what_if.arguments import EntryArrays
from hlo_lens.text.amount import MARGIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hlo_lens.buffers.estimate.backend_rules import BackendRules
    from hlo_lens.buffers.estimate.value_edit import ValueEdit
    from hlo_lens.buffers.estimate.values import Dataflow
    from hlo_lens.hlo.module import InputOutputAlias
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.layout import MemoryLayout
    from hlo_lens.shapes.mesh import Mesh

MEMORY_FIGURES = (
    *("argument_bytes", "output_bytes", "alias_bytes", "temp_bytes", "total_bytes", "peak_bytes"),
)
"""Figures of one device that a simulation predicts, names as in the memory statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """Figures of one assignment of buffers.

    Attributes:
        figures: By name.
        peak_row: Row of the instruction at the peak; None if no instruction runs then.
        peak_instant: Instant of the peak in the schedule.
    """

    figures: Mapping[str, int]
    peak_row: int | None
    peak_instant: int


class Simulator:
    """One module, walked once for any number of changes.

    Args:
        known: The module.
        meshes: Meshes that the user names, of a program whose text names none.

    Attributes:
        reason: Why it cannot be simulated; empty if it can.
    """

    def __init__(self, known: ModuleDump, meshes: Sequence[Mesh] = ()) -> None:
        self.known = known
        self.meshes = tuple(meshes)
        self.reason = _reason(known)

    @cached_property
    def rules(self) -> BackendRules:
        """Rules of the backend."""
        known = self.known
        told = backend_of_dump(known) or backend_of_text(
            hlo_text(known), instruction_table(known).producers
        )
        return backend_rules(hlo_text(known), told, known.setting("target_arguments.txt"))

    @cached_property
    def walked(self) -> WalkedModule:
        """Values of the module."""
        rules = self.rules
        return WalkedModule(instruction_table(self.known), rules.measure, rules.color, rules.whole)

    @cached_property
    def aliases(self) -> tuple[InputOutputAlias, ...]:
        """Aliases of the program as it is."""
        return tuple(hlo_text(self.known).input_output_alias)

    @cached_property
    def flow(self) -> Dataflow:
        """Dataflow of the program as it is."""
        return self.walked.flow(self.aliases)

    @cached_property
    def own(self) -> Assigned:
        """Figures of our assignment of the program as it is."""
        return self._figures(self.flow, *self._own_layout)

    @cached_property
    def _own_layout(self) -> tuple[MemoryLayout, int]:
        """Our assignment of the program as it is, and its temporary bytes."""
        memory = memory_results(self.known)
        if memory is not None and memory.statement.source == "estimate" and not memory.stated:
            return memory.layout, memory.statement.temp_bytes
        return layout_of_flow(self.flow, self.rules)

    @cached_property
    def arrays(self) -> EntryArrays:
        """Arguments and results, from before optimizations if that text is there."""
        before = self.known.before
        module = hlo_text(self.known)
        if before is not None and len(before.entry.parameters) == len(module.entry.parameters):
            return EntryArrays.of(before)
        shardings = sharding_results(self.known)
        if shardings is None:
            return EntryArrays.of(module)
        return EntryArrays(module=module, table=shardings.table)

    @cached_property
    def base(self) -> Mapping[str, int | None]:
        """Figures of the program as it is: those of its buffer assignment, else our own."""
        memory = memory_results(self.known)
        if memory is None:
            return dict(self.own.figures)
        found: dict[str, int | None] = {
            name: getattr(memory.statement, name) for name in MEMORY_FIGURES[:5]
        }
        found["peak_bytes"] = None if memory.peak is None else memory.peak.total_bytes
        return found

    @cached_property
    def is_reproduced(self) -> bool | None:
        """Whether our assignment has the figures of the dump's; None if the dump has none."""
        memory = memory_results(self.known)
        if memory is None or memory.statement.source == "estimate":
            return None
        code = memory.statement.generated_code_bytes or 0
        expected = {**self.base, "total_bytes": (self.base["total_bytes"] or 0) - code}
        return dict(self.own.figures) == expected

    @cached_property
    def slack(self) -> tuple[int, int]:
        """Bytes by which our assignment of this program may be above, and below, XLA's."""
        if self.is_reproduced:
            return 0, 0
        if self.is_reproduced is False:
            differences = [
                abs((self.base[name] or 0) - self.own.figures[name]) for name in MEMORY_FIGURES[3:]
            ]
            return max(differences), max(differences)
        margin = round(MARGIN * self._own_layout[1])
        return margin, margin

    @cached_property
    def is_exact(self) -> bool:
        """Whether our assignment of this program is known to be XLA's."""
        memory = memory_results(self.known)
        if self.is_reproduced is None:
            return memory is not None and memory.statement.is_exact
        return self.is_reproduced

    @cached_property
    def sharing(self) -> BufferSharing:
        """Results that may be written over operands, in the program as it is."""
        return BufferSharing(self.flow, self.rules.backend)

    def changed(self, aliases: Iterable[InputOutputAlias], edit: ValueEdit) -> Assigned:
        """Return our assignment with other aliases and values."""
        flow = self.walked.flow(aliases, edit)
        return self._figures(flow, *layout_of_flow(flow, self.rules))

    def _figures(self, flow: Dataflow, layout: MemoryLayout, temp_bytes: int) -> Assigned:
        """Return the figures of the buffers of a dataflow."""
        statement = memory_statement(layout, {DEFAULT_SPACE: None}, backend=self.rules.backend)
        series = layout.temporary_series() or [0]
        peak = max(series)
        instant = series.index(peak)
        found = {name: getattr(statement, name) for name in MEMORY_FIGURES[:5]}
        found["temp_bytes"] = temp_bytes
        found["peak_bytes"] = layout.held_bytes(DEFAULT_SPACE) + peak
        row = flow.schedule[instant] if peak and instant < len(flow.schedule) else None
        return Assigned(figures=found, peak_row=row, peak_instant=instant)


def _reason(known: ModuleDump) -> str:
    """Return why a module cannot be simulated; empty if it can."""
    if not known.has_hlo:
        return "there is no HLO text"
    return why_no_estimate(instruction_table(known)) or ""
