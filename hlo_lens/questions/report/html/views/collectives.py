"""Data of the view Collectives: sums by kind and axis, and the place of each in the schedule.

The collectives themselves are in the object of ``-f json``, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.loop_levels import collectives_by
from hlo_lens.questions.collectives.page import collectives_notes, collectives_text
from hlo_lens.questions.collectives.schedule_places import schedule_places
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.report.html.page import printable_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.load.devices import Topology
    from hlo_lens.questions.report.html.page import Strings, Subject
    from hlo_lens.shapes.mesh import Mesh

ORDER = 40
KINDS = ("report", "check")


def view_data(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return sums, instants and overlapping instructions; None without collectives."""
    analysis = subject.analysis
    if not analysis.has_hlo or not collectives(analysis).collectives:
        return None
    places = schedule_places(analysis)
    memory = memory_results(analysis)
    return {
        "text": collectives_text(analysis),
        "notes": printable_list(collectives_notes(collectives(analysis))),
        "groups": collectives_by(collectives(analysis).collectives).objects(),
        "by_axis": collectives_by(collectives(analysis).collectives, "axis").objects(),
        "length": None if memory is None else memory.layout.length,
        "start": [-1 if one.start is None else one.start for one in places],
        "end": [-1 if one.end is None else one.end for one in places],
        "work": [None if one.work is None else strings.numbers(one.work) for one in places],
        "meshes": [
            _mesh_object(one.mesh, subject.topology) for one in collectives(analysis).meshes
        ],
    }


_MOST_DEVICES = 1024
"""Devices of a mesh that are drawn with their ids."""


def _mesh_object(mesh: Mesh, topology: Topology | None) -> Mapping[str, object]:
    """Return axes and devices of a mesh, and the chips of the devices where they are known."""
    devices = mesh.device_ids
    is_drawn = len(devices) <= _MOST_DEVICES
    made: dict[str, object] = {
        "axes": list(zip(mesh.axis_names, mesh.axis_sizes, strict=True)),
        "devices": list(devices) if is_drawn else None,
        "topology": None,
    }
    if topology is not None and is_drawn and all(k < len(topology.places) for k in devices):
        made["topology"] = {
            "name": topology.name,
            "sizes": topology.sizes,
            "wraps": topology.wraps,
            "places": [topology.places[k] for k in devices],
        }
    return made
