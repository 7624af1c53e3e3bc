"""Peaks that other tools print for the same compile, where they differ from ours.

- XLA's live-range text adds up whole instructions of all spaces, without padding and places.
- XProf's memory viewer leaves out the scratch memory of SparseCore collectives: the context of
  asynchronous operations, element 2 of their results.
- PJRT's ``peak_memory_in_bytes`` has our peak on GPU if there is no collective memory, leaves
  temporaries out on CPU, and adds other memory spaces on TPU, by a rule that is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.questions.memory.layout import DEFAULT_SPACE, occupied_bytes
from hlo_lens.questions.memory.peak import instructions_by_name
from hlo_lens.questions.memory.statement import SAME_DEVICE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.memory.layout import MemoryLayout

_CONTEXT = "{2,"
"""Beginning of the shape index of the context of an asynchronous operation."""


class OtherPeak(NamedTuple):
    """Peak that another tool prints.

    Attributes:
        tool: Name of the tool and its figure.
        peak_bytes: Its peak; None if it is not known.
        definition: How it counts.
    """

    tool: str
    peak_bytes: int | None
    definition: str


def other_peaks(
    layout: MemoryLayout,
    *,
    backend: str | None,
    module: HloModule | None,
    stated: Mapping[str, int],
) -> tuple[OtherPeak, ...]:
    """Return the peaks of other tools that differ from ours.

    Args:
        layout: Allocations and values.
        backend: ``cpu``, ``gpu``, ``tpu`` or None.
        module: HLO text, or None.
        stated: Figures of ``memory_analysis()``; may be empty.
    """
    series = layout.held_series()
    if layout.source != "buffer-assignment" or not series:
        return ()
    ours = max(series)
    found = [*_live_range(layout), *_xprof(layout, module), *_pjrt(layout, backend, stated)]
    return tuple(one for one in found if one.peak_bytes != ours)


def _live_range(layout: MemoryLayout) -> Iterator[OtherPeak]:
    if layout.printed_peak is not None:
        position, size = layout.printed_peak
        definition = f"at {position}; whole instructions, no padding, all spaces"
        yield OtherPeak("XLA's live-range text", size, definition)


def _xprof(layout: MemoryLayout, module: HloModule | None) -> Iterator[OtherPeak]:
    occupants = layout.occupants(DEFAULT_SPACE, is_temp=True)
    values = layout.values
    inner = {
        occupant.key: value.instruction_name
        for occupant in occupants
        if (value := values[occupant.key]).name.startswith(_CONTEXT, len(value.instruction_name))
    }
    if module is None or not inner:
        return
    makers = instructions_by_name(module, set(inner.values()))
    scratch = {
        key
        for key, name in inner.items()
        if name in makers and makers[name].opcode in ("async-start", "async-update")
    }
    kept = [occupant for occupant in occupants if occupant.key not in scratch]
    peak = layout.held_bytes(DEFAULT_SPACE) + max(occupied_bytes(kept, layout.length or 0))
    definition = "leaves out scratch memory of SparseCore collectives"
    yield OtherPeak("XProf's memory viewer", peak, definition)


def _pjrt(
    layout: MemoryLayout, backend: str | None, stated: Mapping[str, int]
) -> Iterator[OtherPeak]:
    tool = "PJRT's peak_memory_in_bytes"
    given = stated.get("peak_memory_in_bytes") or None
    if backend == "cpu":
        yield OtherPeak(
            tool, given or layout.held_bytes(DEFAULT_SPACE), "leaves temporaries out on CPU"
        )
    elif backend == "tpu":
        yield OtherPeak(tool, given, "may count other memory spaces on TPU")
    elif not set(SAME_DEVICE.get(backend or "", ())).isdisjoint(layout.colors):
        yield OtherPeak(tool, given, "may count collective memory on GPU")
    elif given is not None:
        yield OtherPeak(tool, given, "counted by PJRT")
