"""What would make a program fit, from the dump of the compile that ran out of memory.

Since 2026 the message of the TPU compiler has the module's name and two numbers, no more; the dump
that the failed compile leaves has the rest. A module is the one of a message if it has its name, or
the message none; and if what it allocates in the default memory space (arguments and outputs, those
that share a place once, and temporaries; until 2025 without outputs) is the number of the message.
Where that is not so, it is said: a dump may be of another compile.

Groups are those of `hlo_lens.analysis.logs.oom_message`, with exact bytes: what dividing replicated
arguments and results over a free mesh axis, donating arguments, or doing without padding or
fragmentation would save, and the values alive at the peak, equal ones together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.logs.oom_message import (
    MemoryGroup,
    MemoryShortage,
    missing_bytes,
    sum_bounds,
)
from hlo_lens.analysis.memory.layout import DEFAULT_SPACE
from hlo_lens.analysis.sharding.donation import DonationStatus
from hlo_lens.model.shapes.shape import Shape
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.analysis.logs.oom_message import Bounds
    from hlo_lens.analysis.memory.peak import LiveValue, PeakMemory
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.analysis.sharding.results import ShardingResults
    from hlo_lens.model.logs.out_of_memory import CompileOutOfMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class OomModule:
    """A module of a dump that a message may be of.

    Attributes:
        name: Name of the module.
        memory: Its memory.
        shardings: What is known of its shardings; None without HLO text.
    """

    name: str
    memory: MemoryResults
    shardings: ShardingResults | None = None

    @property
    def needed_bytes(self) -> int:
        """Bytes of arguments, outputs and temporaries, those that share a place once."""
        said = self.memory.statement
        return said.argument_bytes + said.output_bytes - said.alias_bytes + said.temp_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpShortage:
    """What the dump says of a message.

    Attributes:
        module: The module; None where none is, or several may be, the one of the message.
        candidates: Names of those that may be.
        agrees: Whether it needs as much as the message says; None where that is not told.
        shortage: What would make it fit; None without a module.
        notes: What is not known, and why.
    """

    module: OomModule | None
    candidates: tuple[str, ...] = ()
    agrees: bool | None = None
    shortage: MemoryShortage | None = None
    notes: tuple[str, ...] = ()


def dump_shortage(message: CompileOutOfMemory, modules: Sequence[OomModule]) -> DumpShortage:
    """Return what the dump of the same compile says of a message.

    Args:
        message: The message.
        modules: The modules of the dump whose memory is known.
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
    """Return whether a module needs what a message says; None where it does not say."""
    if not message.used:
        return None
    least, most = sum_bounds(message.used)
    said = module.memory.statement
    sums = (module.needed_bytes, said.argument_bytes + said.temp_bytes)
    return any(least <= size <= most for size in sums)


def _exactly(size: int) -> Bounds:
    return (size, size)


def _groups(module: OomModule) -> Iterator[MemoryGroup]:
    yield from _sharding_groups(module.shardings)
    space = next((s for s in module.memory.statement.spaces if s.color == DEFAULT_SPACE), None)
    if space is not None:
        for kind, what, size in (
            ("padding", "padding at the peak", space.padding_bytes),
            ("fragmentation", "in use at no time", space.fragmentation_bytes),
        ):
            if size:
                yield MemoryGroup(kind=kind, what=what, buffers=None, size=_exactly(size))
    if module.memory.peak is not None:
        yield from _peak_groups(module.memory.peak)


def _sharding_groups(shardings: ShardingResults | None) -> Iterator[MemoryGroup]:
    """Yield what dividing and donating arguments and results would save."""
    if shardings is None:
        return
    for axis, count, _, saved in shardings.replicated.by_axis.axes:
        yield MemoryGroup(
            kind="replicated",
            what=f"replicated along {axis}",
            buffers=count,
            size=_exactly(saved),
        )
    for status, what in (
        (DonationStatus.DONATABLE, "could be donated"),
        (DonationStatus.LOST, "donations dropped"),
    ):
        values = [donation.value for donation in shardings.donations.of(status)]
        size = sum(value.device_bytes or 0 for value in values)
        if size:
            yield MemoryGroup(kind="donation", what=what, buffers=len(values), size=_exactly(size))


def _peak_groups(peak: PeakMemory) -> Iterator[MemoryGroup]:
    """Yield what is alive at the peak, equal values together."""
    found: dict[tuple[str, str | None, str, str | None], list[LiveValue]] = {}
    for value in peak.live:
        maker = peak.makers.get(value.value)
        opcode = None if maker is None else maker.opcode
        op_name = None if maker is None or maker.metadata is None else maker.metadata.op_name
        found.setdefault((value.category, opcode, value.shape, op_name), []).append(value)
    for (category, opcode, shape, op_name), same in found.items():
        maker = peak.makers.get(same[0].value)
        place = None if maker is None else maker.source_location
        paddings = [_padding(value) for value in same]
        known = sum(padding for padding in paddings if padding is not None)
        yield MemoryGroup(
            kind="arguments" if category == "argument" else "buffers",
            what=f"{opcode or category} {_bare(shape)}",
            buffers=len(same),
            size=_exactly(sum(value.owned_bytes for value in same)),
            padding=None if None in paddings else _exactly(known),
            op_name=op_name,
            source=None if place is None else str(place),
        )


def _bare(shape: str) -> str:
    """Return a shape without its layout."""
    try:
        return Shape.parse(shape).to_text(layout=False)
    except DumpSyntaxError:
        return shape


def _padding(value: LiveValue) -> int | None:
    """Return the bytes of a value beyond its elements; None where they are not known."""
    try:
        logical = Shape.parse(value.shape).size_bytes
    except DumpSyntaxError:
        return None
    if logical is None or value.shape.startswith("("):
        return None
    return max(0, value.owned_bytes - logical) if value.owned_bytes else 0


def _notes(module: OomModule) -> Iterator[str]:
    """Yield what is not known of replication."""
    if module.shardings is None:
        yield "which arguments are replicated is not known: there is no HLO text of the module"
        return
    replicated = module.shardings.replicated
    if replicated.no_axes:
        yield (
            f"{replicated.no_axes} values are replicated, and no mesh is known: what dividing them "
            "would save is not"
        )
    elif not replicated.replicated and module.shardings.table.num_devices > 1:
        yield "no argument and no result is replicated"
    elif not replicated.replicated:
        yield "the program runs on one device: nothing is replicated"
