"""Memory held at an instant that the user names: the peak, a position, an instruction, a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.printed_names import names_printed_as
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.peak import peak_memory
from hlo_lens.text.errors import UnknownNameError
from hlo_lens.text.nearest_names import did_you_mean
from hlo_lens.text.units import listed, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.questions.memory.layout import MemoryLayout
    from hlo_lens.questions.memory.peak import PeakMemory
    from hlo_lens.questions.memory.results import MemoryResults


def at_instant(results: MemoryResults, at: str, *, color: int = DEFAULT_SPACE) -> PeakMemory | None:
    """Return the memory held at ``peak``, at an instant, or while an instruction runs.

    A value of an instruction that is not in the schedule means the first instant of its life.

    Raises:
        UnknownNameError: If there is no such instruction, value or instant.
    """
    layout = results.layout
    module = results.module if results.peak is None else results.peak.module
    if at == "peak" or layout.schedule is None:
        return peak_memory(layout, color=color, module=module)
    position = _position(at, layout, layout.schedule)
    return peak_memory(layout, color=color, at=position, module=module)


def _position(at: str, layout: MemoryLayout, schedule: Sequence[str]) -> int:
    if at.isdecimal():
        position = int(at)
        if position > len(schedule):
            raise UnknownNameError(
                f"the schedule ends at {len(schedule)}, there is no instant {at}"
            )
        return position
    found = [*dict.fromkeys(names_printed_as(at, schedule))]
    if not found:
        starts = {value.instruction_name: value.start or 0 for value in layout.values}
        found = names_printed_as(at, starts)
        if len(found) == 1:
            return starts[found[0]]
    if len(found) == 1:
        return list(schedule).index(found[0])
    raise _unknown(at, found, schedule)


def _unknown(at: str, found: Sequence[str], schedule: Sequence[str]) -> UnknownNameError:
    """Return the error for a name that is that of no instruction, or the end of several."""
    if found:
        names = f"{plural(len(found), 'name')}: {listed(found, 4)}"
        return UnknownNameError(f"{at} is the end of {names}")
    hint = did_you_mean(at.removeprefix("%"), schedule)
    return UnknownNameError(f"no instruction {at} in the schedule{hint}")
