"""Groups of buffers that could be freed, from the dump of the compile that ran out of memory.

Since 2026 the message of the TPU compiler has only the module's name and two numbers; the dump that
the failed compile leaves has the rest. A module matches a message if it has the name in it (or the
message has none), and if its allocations in the default memory space (arguments and outputs, shared
memory counted once, and temporaries; until 2025 without outputs) are the number of the message. If
they are not, the result says so: the dump may be of another compile.

Groups are those of `hlo_lens.logs.oom_message`, with exact bytes: the savings by dividing
replicated arguments and results over a free mesh axis, by donating arguments, and by removing
padding or fragmentation; and the values alive at the peak, equal ones as one group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.logs.oom_message import MemoryGroup, MemoryShortage, missing_bytes, sum_bounds
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.sharding.donation import DonationStatus
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.logs.out_of_memory import CompileOutOfMemory
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.sharding.results import ShardingResults


@dataclass(frozen=True, slots=True, kw_only=True)
class OomModule:
    """A module of the dump that may be that of a message.

    Attributes:
        name: Name of the module.
        memory: Its memory.
        shardings: Its shardings; None without HLO text.
    """

    name: str
    memory: MemoryResults
    shardings: ShardingResults | None = None

    @property
    def needed_bytes(self) -> int:
        """Bytes of arguments, outputs and temporaries, shared memory counted once."""
        said = self.memory.statement
        return said.argument_bytes + said.output_bytes - said.alias_bytes + said.temp_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpShortage:
    """Facts of the dump on one message.

    Attributes:
        module: The module of the message; None if none or several match.
        candidates: Names of the modules that may match.
        agrees: Whether it needs the bytes in the message; None if the message has none.
        shortage: Groups that could be freed; None without a module.
        notes: Facts that are not known, and the reason.
    """

    module: OomModule | None
    candidates: tuple[str, ...] = ()
    agrees: bool | None = None
    shortage: MemoryShortage | None = None
    notes: tuple[str, ...] = ()


def dump_shortage(message: CompileOutOfMemory, modules: Sequence[OomModule]) -> DumpShortage:
    """Return the facts of the dump of the same compile on a message.

    Args:
        message: The message.
        modules: Modules of the dump with known memory.
    """
    named = [m for m in modules if message.module is None or m.name == message.module]
    alike = [m for m in named if _agrees(message, m)]
    found = alike if len(alike) == 1 else named
    if len(found) != 1 or (message.module is None and not alike):
        return DumpShortage(module=None, candidates=tuple(m.name for m in named))
    module = found[0]
    return DumpShortage(
        module=module,
        candidates=(module.name,),
        agrees=_agrees(message, module),
        shortage=MemoryShortage(
            missing=missing_bytes(message),
            groups=tuple(sorted(_groups(module), key=lambda g: (-g.size[1], g.kind, g.what))),
        ),
        notes=tuple(_notes(module)),
    )


def _agrees(message: CompileOutOfMemory, module: OomModule) -> bool | None:
    """Whether a module needs the bytes of a message; None if the message has none."""
    if not message.used:
        return None
    least, most = sum_bounds(message.used)
    said = module.memory.statement
    sums = (module.needed_bytes, said.argument_bytes + said.temp_bytes)
    return any(least <= size <= most for size in sums)


def _groups(module: OomModule) -> Iterator[MemoryGroup]:
    yield from _sharding_groups(module.shardings)
    space = next((s for s in module.memory.statement.spaces if s.color == DEFAULT_SPACE), None)
    if space is not None:
        for kind, what, size in (
            ("padding", "padding at the peak", space.padding_bytes),
            ("fragmentation", "never in use", space.fragmentation_bytes),
        ):
            if size:
                yield MemoryGroup(kind=kind, what=what, size=(size, size))
    if module.memory.peak is not None:
        yield from _peak_groups(module.memory.peak)


def _sharding_groups(shardings: ShardingResults | None) -> Iterator[MemoryGroup]:
    """Yield the bytes saved by dividing or donating arguments and results."""
    if shardings is None:
        return
    for axis, count, _, saved in shardings.replicated.by_axis.axes:
        what = f"replicated along {axis}"
        yield MemoryGroup(kind="replicated", what=what, buffers=count, size=(saved, saved))
    for status, what in (
        (DonationStatus.DONATABLE, "could be donated"),
        (DonationStatus.LOST, "donations dropped"),
    ):
        values = [donation.value for donation in shardings.donations.of(status)]
        size = sum(value.device_bytes or 0 for value in values)
        if size:
            yield MemoryGroup(kind="donation", what=what, buffers=len(values), size=(size, size))


def _peak_groups(peak: PeakMemory) -> Iterator[MemoryGroup]:
    """Yield the values alive at the peak, equal ones as one group."""
    found: dict[tuple[str, str | None, str, str | None], list[LiveValue]] = {}
    for value in peak.live:
        maker = peak.makers.get(value.value)
        opcode = None if maker is None else maker.opcode
        op_name = peak.origin_of(value).op_name
        found.setdefault((value.category, opcode, value.shape, op_name), []).append(value)
    for (category, opcode, shape, op_name), same in found.items():
        paddings = [value.padding_bytes for value in same]
        known = sum(padding for padding in paddings if padding is not None)
        size = sum(value.owned_bytes for value in same)
        yield MemoryGroup(
            kind="arguments" if category == "argument" else "buffers",
            what=f"{opcode or category} {_bare(shape)}",
            buffers=len(same),
            size=(size, size),
            padding=None if None in paddings else (known, known),
            op_name=op_name,
            source=peak.origin_of(same[0]).marked_source,
        )


def _bare(shape: str) -> str:
    """Return a shape without its layout."""
    try:
        return Shape.parse(shape).to_text(layout=False)
    except DumpSyntaxError:
        return shape


def _notes(module: OomModule) -> Iterator[str]:
    """Yield notes on replication."""
    if module.shardings is None:
        yield "which arguments are replicated is not known: there is no HLO text of the module"
        return
    replicated = module.shardings.replicated
    if replicated.no_axes:
        yield (
            f"{replicated.no_axes} values are replicated; without a mesh the savings by dividing "
            "them are not known"
        )
    elif not replicated.replicated and module.shardings.table.num_devices > 1:
        yield "no argument and no result is replicated"
    elif not replicated.replicated:
        yield "the program runs on one device: nothing is replicated"
