"""All results known of one module: each pass runs once, when its result is first used.

Passes are imported with their first use, so that a command imports only those whose results it
prints.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

from hlo_lens.analysis.program.backend import backend_of_dump
from hlo_lens.model.devices.assignment import device_assignment
from hlo_lens.model.hlo.query import InstructionTable, tabulate
from hlo_lens.text.dump_kinds import BUFFER_PARTS, TEXT_FLAGS
from hlo_lens.text.errors import MissingDumpError
from hlo_lens.text.shell_words import shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.analysis.collectives.collective_groups import CollectivesBy
    from hlo_lens.analysis.collectives.collectives import Collectives
    from hlo_lens.analysis.collectives.explanation import Why
    from hlo_lens.analysis.collectives.loops import Loops
    from hlo_lens.analysis.collectives.schedule_places import SchedulePlace
    from hlo_lens.analysis.memory.described_values import DescribedValue
    from hlo_lens.analysis.memory.grouping import MemoryBy
    from hlo_lens.analysis.memory.loop_bands import LoopBands
    from hlo_lens.analysis.memory.peak import PeakMemory
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.analysis.memory.role_series import RoleSeries
    from hlo_lens.analysis.memory.roles import MemoryRoles
    from hlo_lens.analysis.program.call_counts import CallCounts
    from hlo_lens.analysis.program.entry_signature import EntrySignature
    from hlo_lens.analysis.program.flops import Flops
    from hlo_lens.analysis.program.largest_instructions import LargestInstructions
    from hlo_lens.analysis.program.opcodes import Opcodes
    from hlo_lens.analysis.program.origins import Origins
    from hlo_lens.analysis.program.source_bytes import SourceBytes
    from hlo_lens.analysis.program.summary import Summary
    from hlo_lens.analysis.sharding.forms import ShardingForms
    from hlo_lens.analysis.sharding.results import ShardingResults
    from hlo_lens.analysis.sharding.tile_devices import TileDevices
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.shapes.mesh import Mesh

T = TypeVar("T")

NO_HLO = f"no HLO text; XLA writes it with {TEXT_FLAGS}"
NOT_COMPILED = (
    "not compiled yet: no memory, no inserted collectives; print lowered.compile().as_text(), or"
    f" compile with {TEXT_FLAGS} (lowered.as_text('hlo') is the program before optimizations)"
)


def no_hlo_text(dump: ModuleDump) -> str:
    """Return why a module has no HLO text, and what writes one or reads what there is."""
    if dump.lowered is not None:
        return f"this is StableHLO, {NOT_COMPILED}"
    found = ", ".join(f"{what} (hlo-lens {command})" for what, command in _contents(dump))
    return f"no HLO text; this text has {found}" if found else NO_HLO


def _contents(dump: ModuleDump) -> Iterator[tuple[str, str]]:
    """Yield the contents of a text without HLO, with the command that shows each."""
    if dump.call_trees is not None:
        yield "a call tree", "tree"
    log = dump.log
    if log is not None and log.has_memory:
        yield "messages about memory", "memory"
    if log is not None and log.shardings is not None:
        yield "shardings", "sharding"
    if log is not None and log.warnings:
        yield "warnings of the compiler", "report"
    if BUFFER_PARTS.keys() & {dump.kind}:
        yield "buffers", "memory"


KIND_AND_AXIS = "kind and axis"
"""Grouping of collectives where the user names none."""

MOST_ESTIMATED = 50_000
"""Instructions of the largest module whose memory is estimated together with other results.

An estimate takes about 12 us per instruction: half a second for so many.
"""


def not_estimated_text(instructions: int, path: str, name: str) -> str:
    """Return why the memory of a module was not estimated, and the command that does.

    Args:
        instructions: Number of its instructions.
        path: File, folder or archive that it was read from; empty if unknown.
        name: Its name, or address.
    """
    command = f"hlo-lens memory {shell_word(path) if path else 'PATH'} --module {shell_word(name)}"
    return (
        f"not estimated: {instructions:,} instructions, more than {MOST_ESTIMATED:,}; "
        f"for an estimate: {command}"
    )


class ModuleAnalysis:
    """Results of the passes on one module, each computed once, on first access.

    Properties that read the HLO text raise MissingDumpError where the module has none; `memory` and
    `shardings` are None where nothing is known.

    Args:
        dump: The module and its texts.
        mesh: Mesh that the user names; None for the one that the texts name.
        limits_estimate: Whether memory of modules with more than `MOST_ESTIMATED` instructions is
            not estimated.
        is_quick: Whether to skip results that a first page omits: undefined operand names in large
            modules, and the text from before optimizations of a program of one device.
    """

    def __init__(
        self,
        dump: ModuleDump,
        *,
        mesh: Mesh | None = None,
        limits_estimate: bool = False,
        is_quick: bool = False,
    ) -> None:
        self.dump = dump
        self.mesh = mesh
        self._most_estimated = MOST_ESTIMATED if limits_estimate else None
        self._is_quick = is_quick
        self._groups: dict[tuple[str, bool], CollectivesBy] = {}
        self._made: dict[object, object] = {}
        self._replaced: dict[object, Callable[[ModuleAnalysis], object]] = {}

    def once(self, make: Callable[[ModuleAnalysis], T]) -> T:
        """Return what a function makes of this analysis; it runs at the first call.

        For results of rooms above this one, such as findings, and for what several rules share.
        """
        if make not in self._made:
            self._made[make] = self._replaced.get(make, make)(self)
        return cast("T", self._made[make])

    def replace(
        self, make: Callable[[ModuleAnalysis], T], other: Callable[[ModuleAnalysis], T]
    ) -> None:
        """Let `once` run another function in place of one: findings by the user's settings."""
        self._replaced[make] = other

    @property
    def has_hlo(self) -> bool:
        """Whether there is an HLO text."""
        return self.dump.hlo is not None

    @property
    def module(self) -> HloModule:
        """HLO text of the latest stage."""
        if self.dump.hlo is None:
            raise MissingDumpError(f"{self.dump.name}: {no_hlo_text(self.dump)}")
        return self.dump.hlo

    def read_before(self) -> HloModule | None:
        """Return the HLO text from before optimizations, None if there is none; reads it now."""
        return self.dump.before

    @cached_property
    def backend(self) -> str | None:
        """``cpu``, ``gpu``, ``tpu``, or None if unknown."""
        return backend_of_dump(self.dump)

    @cached_property
    def table(self) -> InstructionTable:
        """Instruction table."""
        return tabulate(self.module)

    @cached_property
    def summary(self) -> Summary:
        """Name, size and coverage."""
        from hlo_lens.analysis.program.summary import summary

        return summary(self.table, backend=self.backend, with_operands=not self._is_quick)

    @cached_property
    def signature(self) -> EntrySignature:
        """Parameters and outputs of the entry computation."""
        from hlo_lens.analysis.program.entry_signature import entry_signature

        return entry_signature(self.table)

    @cached_property
    def opcodes(self) -> Opcodes:
        """Instructions and result bytes by opcode."""
        from hlo_lens.analysis.program.opcodes import opcodes

        return opcodes(self.table)

    @cached_property
    def largest(self) -> LargestInstructions:
        """Instructions by the bytes they produce, largest first."""
        from hlo_lens.analysis.program.largest_instructions import largest_instructions

        return largest_instructions(self.table, self.origins)

    @cached_property
    def sources(self) -> SourceBytes:
        """Source lines by the bytes their instructions produce."""
        from hlo_lens.analysis.program.source_bytes import source_bytes

        return source_bytes(self.table, self.origins)

    @cached_property
    def calls(self) -> CallCounts:
        """Run counts of computations, with the trip counts of loops."""
        from hlo_lens.analysis.program.call_counts import CallCounts

        return CallCounts(self.table)

    @cached_property
    def origins(self) -> Origins:
        """Origins of values: source line, operation path, and the way they were found."""
        from hlo_lens.analysis.program.origins import Origins

        return Origins(self.module)

    @cached_property
    def flops(self) -> Flops:
        """Arithmetic of matrix products and convolutions."""
        from hlo_lens.analysis.program.flops import flops

        return flops(self.table, self.calls)

    @cached_property
    def collectives(self) -> Collectives:
        """Collectives, each logical operation once."""
        from hlo_lens.analysis.collectives.collectives import collectives

        return collectives(
            self.table,
            calls=self.calls,
            mesh=self.mesh,
            before=self.read_before,
            lowered=lambda: self.dump.lowered_meshes,
            origins=self.origins,
            assignment=lambda: device_assignment(self.dump),
        )

    def collectives_by(self, by: str = KIND_AND_AXIS, *, is_dynamic: bool = True) -> CollectivesBy:
        """Return groups of collectives, with the bytes of one run or of the text."""
        from hlo_lens.analysis.collectives.collective_groups import collectives_by

        key = (by, is_dynamic)
        if key not in self._groups:
            self._groups[key] = collectives_by(
                self.collectives.collectives, by, is_dynamic=is_dynamic
            )
        return self._groups[key]

    @cached_property
    def collective_places(self) -> list[SchedulePlace]:
        """Instants of the collectives in the schedule, and the work that overlaps each."""
        from hlo_lens.analysis.collectives.schedule_places import schedule_places

        layout = None if self.memory is None else self.memory.layout
        schedule = () if layout is None else layout.schedule or ()
        return schedule_places(self.table, self.calls, self.collectives.collectives, schedule)

    def explain_collectives(self, name: str) -> tuple[Why, ...]:
        """Return explanations of the collectives of a name; none without HLO text."""
        if not self.has_hlo:
            return ()
        from hlo_lens.analysis.collectives.explanation import find_collectives, why

        found = self.collectives
        chosen = find_collectives(found, name)
        before = self.read_before() if chosen else None
        return tuple(why(self.module, one, found, before) for one in chosen)

    @cached_property
    def loops(self) -> Loops:
        """Loops and branches with their communication."""
        from hlo_lens.analysis.collectives.loops import loops

        return loops(self.table, self.collectives, self.calls, self.origins)

    @cached_property
    def sharding_forms(self) -> ShardingForms:
        """Sharding attributes by form."""
        from hlo_lens.analysis.sharding.forms import sharding_forms

        return sharding_forms(self.table)

    @cached_property
    def shardings(self) -> ShardingResults | None:
        """Results of all sharding passes; None without HLO text."""
        if self.dump.hlo is None:
            return None
        from hlo_lens.analysis.sharding.results import sharding_results

        return sharding_results(
            self.dump,
            self.mesh,
            read_before=not self._is_quick or self.num_devices > 1,
            known=(self.table, self.signature),
        )

    @cached_property
    def tile_devices(self) -> TileDevices:
        """Devices that hold each tile of parameters and outputs; none without HLO text."""
        from hlo_lens.analysis.sharding.tile_devices import tile_devices

        return tile_devices(() if self.shardings is None else self.shardings.table.values)

    @property
    def num_devices(self) -> int:
        """Devices of one replica: the header's number, or that of the entry's shardings."""
        return self.summary.evident_partitions or self.summary.num_partitions or 1

    @property
    def is_estimate_left_out(self) -> bool:
        """Whether memory could be estimated, but the module has too many instructions."""
        module, most = self.dump.hlo, self._most_estimated
        if self.dump.buffers.assignment is not None or module is None or most is None:
            return False
        return module.is_scheduled and len(module.columns) > most

    @cached_property
    def memory(self) -> MemoryResults | None:
        """Memory by XLA's buffer assignment, else estimated; None where neither is possible."""
        if self.is_estimate_left_out:
            return None  # without importing the passes
        from hlo_lens.analysis.memory.results import memory_results

        return memory_results(
            self.dump,
            backend=self.backend,
            table=lambda: self.table,
            most_estimated=self._most_estimated,
        )

    @cached_property
    def peak_by_source(self) -> MemoryBy | None:
        """Bytes at the peak by source line; None where the peak is not known."""
        return self.peak_by("source")

    def peak_by(self, by: str) -> MemoryBy | None:
        """Return the bytes at the peak in groups, such as ``op``; None where it is not known."""
        if self.memory is None or self.memory.peak is None:
            return None
        from hlo_lens.analysis.memory.grouping import memory_by

        return memory_by(self.memory.peak, by)

    def peak_of(self, color: int) -> PeakMemory | None:
        """Return the peak of a memory space; None where memory or live ranges are not known."""
        from hlo_lens.analysis.memory.peak import peak_memory

        if self.memory is None:
            return None
        return peak_memory(self.memory.layout, color=color, module=self.dump.instructions)

    @cached_property
    def memory_roles(self) -> MemoryRoles | None:
        """Roles of values, such as weights and saved activations; None where memory is unknown."""
        if self.memory is None:
            return None
        from hlo_lens.analysis.memory.roles import memory_roles

        has_hlo = self.has_hlo
        return memory_roles(
            self.memory.layout,
            self.dump.hlo,
            self.signature if has_hlo else None,
            self.origins if has_hlo else None,
        )

    def role_series(self, color: int) -> RoleSeries | None:
        """Return the bytes of each role over the schedule; None without live ranges."""
        from hlo_lens.analysis.memory.role_series import role_series

        if self.memory is None or self.memory_roles is None:
            return None
        return role_series(self.memory.layout, self.memory_roles, color=color)

    @cached_property
    def loop_bands(self) -> LoopBands | None:
        """Instants of the loops in the schedule; None without live ranges or HLO text."""
        if self.memory is None or self.memory.layout.schedule is None or not self.has_hlo:
            return None
        from hlo_lens.analysis.memory.loop_bands import loop_bands

        return loop_bands(self.memory.layout.schedule, self.module, self.calls)

    def described_values(self, names: Sequence[str]) -> list[DescribedValue]:
        """Return opcode and origin of values by the names that dumps print."""
        from hlo_lens.analysis.memory.described_values import described_values

        has_hlo = self.has_hlo
        return described_values(self.dump.hlo, self.origins if has_hlo else None, names)
