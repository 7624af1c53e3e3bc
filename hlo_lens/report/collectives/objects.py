"""JSON object of a module's collectives; scripts rely on its names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.facts import collectives_facts
from hlo_lens.model.snapshot.writing import facts_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.collectives.collectives import Collectives


def collectives_object(found: Collectives) -> Mapping[str, object]:
    """Return counts per kind, bytes of one run, all collectives, loops and the mesh."""
    return {
        **facts_object(collectives_facts(found)),
        "rows": found.objects(),
        "loops": found.trips.objects(),
        "data_movement": found.movement.objects(),
    }
