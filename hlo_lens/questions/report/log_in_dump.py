"""A log and the dump of its compile: what would make a program fit, what warnings are about.

**Out of memory.** Since 2026 the message of the TPU compiler has only the module's name and two
numbers; the dump that the failed compile leaves has the rest. A module matches a message if it has
the name in it (or the message has none), and if its allocations in the default memory space
(arguments and outputs, shared memory counted once, and temporaries; until 2025 without outputs) are
the number of the message. If they are not, the result says so: the dump may be of another compile.
Groups are those of `hlo_lens.logs.out_of_memory`, with exact bytes.

**Warnings** name instructions from the middle of compilation: the partitioner has renamed them,
divided their shapes and sometimes moved the metadata of one to another. The framework's operation
path (``op_name``) remains, so it is the key; name, opcode and shape only choose among several
instructions. Texts from before optimizations are searched first: they have global shapes and the
names of JAX. Ids of stack frames differ between texts and are not used.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.logs.compiler_output import LoggedWarning, LoggedWarnings, logged_warnings
from hlo_lens.logs.log import without_repeats
from hlo_lens.logs.out_of_memory import (
    DumpShortage,
    MemoryGroup,
    missing_bytes,
    shortage_of,
    sum_bounds,
)
from hlo_lens.logs.page import DumpFacts
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.sharding.savings import DonationStatus, sharding_results
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.dump_kinds import title_of
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.logs.compiler_output import PrintedInstruction
    from hlo_lens.logs.log import LogText
    from hlo_lens.logs.out_of_memory import CompileOutOfMemory
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.sharding.savings import ShardingResults


def facts_of_dump(log: LogText, modules: Sequence[ModuleDump]) -> DumpFacts | None:
    """Return what the modules of a dump tell about a log of the same compile; None without any."""
    if not modules:
        return None
    log = without_repeats(log)
    wanted = {message.module for message in log.compile_ooms}
    sized: list[tuple[str, ModuleDump, MemoryResults]] = []
    for dump in modules if wanted else ():
        name = title_of(dump.name) if dump.hlo is None else dump.hlo.name
        is_assigned = dump.buffers.assignment is not None and bool({name, None} & wanted)
        if is_assigned and (memory := memory_results(dump)) is not None:
            sized.append((name, dump, memory))
    shortages = tuple(_shortage(message, sized) for message in log.compile_ooms)
    warnings = tuple(_joined(one, modules) for one in logged_warnings(log.warnings).warnings)
    return DumpFacts(shortages=shortages, warnings=LoggedWarnings(warnings=warnings))


def _shortage(
    message: CompileOutOfMemory, modules: Sequence[tuple[str, ModuleDump, MemoryResults]]
) -> DumpShortage:
    named = [one for one in modules if message.module is None or one[0] == message.module]
    alike = [one for one in named if _agrees(message, one[2])]
    chosen = alike if len(alike) == 1 else named
    candidates = tuple(name for name, *_ in named)
    if len(chosen) != 1 or (message.module is None and not alike):
        return DumpShortage(candidates=candidates)
    name, dump, memory = chosen[0]
    groups = [*_sharding_groups(sharding_results(dump)), *_memory_groups(memory)]
    return DumpShortage(
        module=name,
        candidates=(name,),
        needed_bytes=_needed_bytes(memory),
        agrees=_agrees(message, memory),
        groups=shortage_of(groups, missing_bytes(message)),
    )


def _needed_bytes(memory: MemoryResults) -> int:
    """Return the bytes of arguments, outputs and temporaries, shared memory counted once."""
    said = memory.statement
    return said.argument_bytes + said.output_bytes - said.alias_bytes + said.temp_bytes


def _agrees(message: CompileOutOfMemory, memory: MemoryResults) -> bool | None:
    """Whether a module needs the bytes of a message; None if the message has none."""
    said = memory.statement
    least, most = sum_bounds(message.used) if message.used else (0, 0)
    sums = (_needed_bytes(memory), said.argument_bytes + said.temp_bytes)
    return any(least <= size <= most for size in sums) if message.used else None


def _memory_groups(memory: MemoryResults) -> Iterator[MemoryGroup]:
    for space in (one for one in memory.statement.spaces if one.color == DEFAULT_SPACE):
        if size := space.padding_bytes:
            yield MemoryGroup.of("padding", "padding at the peak", (size, size))
        if size := space.fragmentation_bytes:
            yield MemoryGroup.of("fragmentation", "never in use", (size, size))
    if memory.peak is not None:
        yield from _peak_groups(memory.peak)


def _sharding_groups(shardings: ShardingResults | None) -> Iterator[MemoryGroup]:
    if shardings is None:
        return
    for axis, count, _, saved in shardings.replicated.by_axis.axes:
        yield MemoryGroup.of("replicated", f"replicated along {axis}", (saved, saved), count)
    for status, what in (
        (DonationStatus.DONATABLE, "could be donated"),
        (DonationStatus.LOST, "donations dropped"),
    ):
        values = [donation.value for donation in shardings.donations.of(status)]
        size = sum(value.device_bytes or 0 for value in values)
        if size:
            yield MemoryGroup.of("donation", what, (size, size), len(values))


def _peak_groups(peak: PeakMemory) -> Iterator[MemoryGroup]:
    alike: dict[tuple[str, str | None, str, str | None], list[LiveValue]] = defaultdict(list)
    for value in peak.live:
        maker = peak.makers.get(value.value)
        opcode = None if maker is None else maker.opcode
        alike[value.category, opcode, value.shape, peak.origin_of(value).op_name].append(value)
    for (category, opcode, shape, op_name), same in alike.items():
        paddings = [value.padding_bytes for value in same]
        size = sum(value.owned_bytes for value in same)
        try:
            bare = Shape.parse(shape).to_text(layout=False)
        except DumpSyntaxError:
            bare = shape
        yield MemoryGroup.of(
            "arguments" if category == "argument" else "buffers",
            f"{opcode or category} {bare}",
            (size, size),
            len(same),
            padding_bytes=None if None in paddings else sum(filter(None, paddings)),
            op_name=op_name,
            source=peak.origin_of(same[0]).marked_source,
        )


def _joined(warning: LoggedWarning, modules: Sequence[ModuleDump]) -> LoggedWarning:
    printed = warning.message.instruction
    if printed is None:
        return replace(warning, how="names no instruction")
    shardings = (warning.message.from_sharding, warning.message.to_sharding)
    counts = {one.num_devices or 1 for one in shardings if one is not None} - {1}
    for stage in ("before", "after"):
        for dump in modules:
            module = dump.before if stage == "before" else dump.hlo
            stated = module and "num_partitions" in module.header
            if module is None or (stated and not counts <= {module.num_partitions}):
                continue  # its shardings are over other devices
            alike, how = _candidates(module, printed)
            if not alike:
                continue
            sources = {source for one in alike if (source := one.source) is not None}
            # Full rematerialization copies the whole value, of which the warning prints a part.
            whole = [one.shape.size_bytes for one in alike if one.shape and stage == "before"]
            return replace(
                warning,
                module=dump.title,
                stage=stage,
                instruction=", ".join(one.name for one in alike),
                how=how if len(alike) == 1 else f"{how}, one of {len(alike)}",
                source=sources.pop() if len(sources) == 1 else warning.source,
                full_bytes=whole[0] if len(set(whole)) == 1 else None,
            )
    return replace(warning, how="not found")


def _candidates(
    module: HloModule, printed: PrintedInstruction
) -> tuple[Sequence[HloInstruction], str]:
    op_name = None if printed.metadata is None else printed.metadata.op_name
    if (printed.name if op_name is None else op_name) not in module.columns.source.text:
        return (), ""
    same = [one for one in module.instructions if op_name is None or one.op_name == op_name]
    exact = [one for one in same if one.name == printed.name and one.opcode == printed.opcode]
    shape = printed.shape and (printed.shape.element_type, printed.shape.dimensions)
    exact = [o for o in exact if o.shape and (o.shape.element_type, o.shape.dimensions) == shape]
    if op_name is None:
        return exact, "name and shape"
    if exact:
        return exact, "name and operation"
    opcode = [one for one in same if one.opcode == printed.opcode]
    for chosen, how in ((opcode, "operation, opcode"), (same, "operation")):
        shaped = [one for one in chosen if _fits(one, printed.shape)]
        if shaped:
            return shaped, f"{how} and shape"
    return (), ""


def _fits(instruction: HloInstruction, shape: Shape | None) -> bool:
    """Whether a shape is that of an instruction or of a part of it (each dimension divides)."""
    whole = instruction.shape
    if shape is None or whole is None or whole.is_tuple or shape.is_tuple:
        return False
    if (whole.rank, whole.element_type) != (shape.rank, shape.element_type):
        return False
    pairs = zip(whole.dimensions, shape.dimensions, strict=True)
    return all(a is not None and b and a % b == 0 for a, b in pairs)
