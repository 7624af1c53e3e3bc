"""Data of the view Collectives: sums by kind and axis, and the place of each in the schedule.

The collectives themselves are in the object of ``-f json``, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.report.collectives.page import collectives_notes, collectives_text
from hlo_lens.report.page.payload import printable_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.report.page.payload import Strings, Subject

ORDER = 40
KINDS = ("report", "check")


def view_data(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return sums, instants and overlapping instructions; None without collectives."""
    analysis = subject.analysis
    if not analysis.has_hlo or not analysis.collectives.collectives:
        return None
    places = analysis.collective_places
    memory = analysis.memory
    return {
        "text": collectives_text(analysis),
        "notes": printable_list(collectives_notes(analysis.collectives)),
        "groups": analysis.collectives_by().objects(),
        "by_axis": analysis.collectives_by("axis").objects(),
        "length": None if memory is None else memory.layout.length,
        "start": [-1 if one.start is None else one.start for one in places],
        "end": [-1 if one.end is None else one.end for one in places],
        "work": [None if one.work is None else strings.numbers(one.work) for one in places],
        "meshes": [
            {
                "axes": list(zip(one.mesh.axis_names, one.mesh.axis_sizes, strict=True)),
                "devices": _device_ids(one.mesh.device_ids),
            }
            for one in analysis.collectives.meshes
        ],
    }


_MOST_DEVICES = 1024
"""Devices of a mesh that are drawn with their ids."""


def _device_ids(ids: tuple[int, ...]) -> list[int] | None:
    return list(ids) if len(ids) <= _MOST_DEVICES else None
