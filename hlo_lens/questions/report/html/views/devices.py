"""Data of the views Collectives, Loops and Sharding.

The collectives, parameters and outputs themselves are in the object of ``-f json``, in the same
order; parameters and outputs after the forms of shardings.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.loop_levels import collectives_by, loops, schedule_places
from hlo_lens.questions.collectives.page import collectives_notes, collectives_text
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.report.html.data import View
from hlo_lens.questions.sharding.page import donation_text, mesh_text, replicated_text, total_text
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.questions.sharding.shard import tile_devices
from hlo_lens.render.result import sum_of
from hlo_lens.text.errors import printable
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.load.devices import Topology
    from hlo_lens.questions.collectives.loop_levels import LoopLevel
    from hlo_lens.questions.report.html.data import Strings, Subject
    from hlo_lens.shapes.mesh import Mesh

    _Level: TypeAlias = tuple[LoopLevel, Mapping[str, object]]
    """A level of a program, and its JSON object."""

MOST_LEVELS = 500
"""Levels of loops that are listed; the others are summed."""

_MOST_DEVICES = 1024
"""Devices of a mesh that are drawn with their ids."""


def _collectives(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return sums, instants and overlapping instructions; None without collectives."""
    analysis = subject.analysis
    if not analysis.has_hlo or not collectives(analysis).collectives:
        return None
    result, places = collectives(analysis), schedule_places(analysis)
    memory = memory_results(analysis)
    return {
        "text": collectives_text(analysis),
        "notes": [printable(note) for note in collectives_notes(result)],
        "groups": collectives_by(result.collectives).objects(),
        "by_axis": collectives_by(result.collectives, "axis").objects(),
        "length": None if memory is None else memory.layout.length,
        "start": [-1 if place.start is None else place.start for place in places],
        "end": [-1 if place.end is None else place.end for place in places],
        "work": [None if place.work is None else strings.numbers(place.work) for place in places],
        "meshes": [_mesh_object(use.mesh, subject.topology) for use in result.meshes],
    }


def _mesh_object(mesh: Mesh, topology: Topology | None) -> Mapping[str, object]:
    """Return axes and devices of a mesh, and the chips of the devices where they are known."""
    devices = mesh.device_ids
    is_drawn = len(devices) <= _MOST_DEVICES
    chips = None
    if topology is not None and is_drawn and all(k < len(topology.places) for k in devices):
        chips = {
            "name": topology.name,
            "sizes": topology.sizes,
            "wraps": topology.wraps,
            "places": [topology.places[k] for k in devices],
        }
    return {
        "axes": list(zip(mesh.axis_names, mesh.axis_sizes, strict=True)),
        "devices": list(devices) if is_drawn else None,
        "topology": chips,
    }


def _loops(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return the levels of a program, equal ones of one level once; None without loops."""
    del strings
    analysis = subject.analysis
    if not analysis.has_hlo or len(loops(analysis).levels) < 2:
        return None
    rows = list(zip(loops(analysis).levels, loops(analysis).objects(), strict=True))
    folded = _folded(rows)
    listed, others = folded[:MOST_LEVELS], folded[MOST_LEVELS:]
    return {
        "levels": [
            {
                **row,
                "collectives": level.groups.objects(),
                "equal": len(equal),
                "wire_bytes_of_equal": sum_of(one.wire_bytes_per_run for one in equal),
            }
            for (level, row), equal in listed
        ],
        "others": sum(len(equal) for _, equal in others),
        "others_wire_bytes_per_run": sum_of(
            one.wire_bytes_per_run for _, equal in others for one in equal
        ),
    }


def _folded(rows: Sequence[_Level]) -> list[tuple[_Level, Sequence[LoopLevel]]]:
    """Return levels with those that are equal to them, next to each other or not.

    Levels of one parent are equal if they differ in names alone, and all that is inside them too.
    Each is before those inside it; those inside are of the first of the equal ones.
    """
    first = rows[0][0].depth if rows else 0
    starts = [k for k, (level, _) in enumerate(rows) if level.depth == first]
    equal: dict[tuple[object, ...], list[Sequence[_Level]]] = {}
    for start, end in pairwise([*starts, len(rows)]):
        key = tuple(_shape(level) for level, _ in rows[start:end])
        equal.setdefault(key, []).append(rows[start:end])
    found: list[tuple[_Level, Sequence[LoopLevel]]] = []
    for parts in equal.values():
        found.append((parts[0][0], [part[0][0] for part in parts]))
        found.extend(_folded(parts[0][1:]))
    return found


def _shape(level: LoopLevel) -> tuple[object, ...]:
    """Return all of a level but its names."""
    sent = tuple((one.kind, one.axis, one.wire_bytes_per_run) for one in level.collectives)
    runs = level.kind, level.branch, level.trip_count, level.times, level.is_at_most
    return (level.depth, *runs, level.instructions, level.source, sent)


def _sharding(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return facts, costs of replication and tiles; None for a program of one device."""
    del strings
    results = sharding_results(subject.analysis)
    if results is None or results.table.num_devices < 2 or not results.is_complete:
        return None
    table, tiles = results.table, tile_devices(subject.analysis)
    return {
        "facts": [
            ["devices", f"{plural(table.num_devices, 'device')}{mesh_text(table.meshes)}"],
            ["parameters", total_text(table.parameters)],
            ["outputs", total_text(table.outputs)],
            ["replicated", replicated_text(results)],
            ["donation", donation_text(results)],
        ],
        "replicated": results.replicated.objects(),
        "replicated_by_axis": results.replicated.by_axis.objects(),
        "donation": results.donations.objects(),
        "drawing": [-1 if number is None else number for number in tiles.numbers],
        "drawings": [division._asdict() for division in tiles.divisions],
    }


VIEWS = (
    View("collectives", 40, _collectives),
    View("loops", 50, _loops),
    View("sharding", 60, _sharding),
)
