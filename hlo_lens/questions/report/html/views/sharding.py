"""Data of the view Sharding: costs of replication, and the devices that hold each tile.

Parameters and outputs themselves are in the object of ``-f json``, in the same order, after the
forms of shardings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.page import donation_text, mesh_text, replicated_text, total_text
from hlo_lens.questions.sharding.savings import sharding_results, tile_devices
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.report.html.page import Strings, Subject
    from hlo_lens.questions.sharding.savings import ShardingResults

ORDER = 60
KINDS = ("report", "check")


def view_data(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return facts, replication and tiles; None for a program of one device."""
    del strings
    results = sharding_results(subject.analysis)
    if results is None or results.table.num_devices < 2 or not results.is_complete:
        return None
    found = tile_devices(subject.analysis)
    return {
        "facts": [list(fact) for fact in _facts(results)],
        "replicated": results.replicated.objects(),
        "replicated_by_axis": results.replicated.by_axis.objects(),
        "donation": results.donations.objects(),
        "drawing": [-1 if number is None else number for number in found.numbers],
        "drawings": [one._asdict() for one in found.divisions],
    }


def _facts(results: ShardingResults) -> Iterator[tuple[str, str]]:
    table = results.table
    yield "devices", f"{plural(table.num_devices, 'device')}{mesh_text(table.meshes)}"
    yield "parameters", total_text(table.parameters)
    yield "outputs", total_text(table.outputs)
    yield "replicated", replicated_text(results)
    yield "donation", donation_text(results)
