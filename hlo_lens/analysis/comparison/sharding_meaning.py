"""Comparison of shardings by the tiles that devices hold, in any spelling."""

from __future__ import annotations

from hlo_lens.model.shapes.sharding import HloSharding
from hlo_lens.text.errors import DumpSyntaxError


class ShardingMeaning:
    """Comparison of sharding texts, each pair made once."""

    def __init__(self) -> None:
        self._same: dict[tuple[str, str], bool] = {}

    def is_same(self, one: str, other: str) -> bool:
        """Return whether two texts are equivalent; unreadable ones are if they are equal."""
        if one == other:
            return True
        known = self._same.get((one, other))
        if known is None:
            try:
                known = HloSharding.parse(one).equivalent(HloSharding.parse(other))
            except DumpSyntaxError:
                known = False
            self._same[one, other] = known
        return known
