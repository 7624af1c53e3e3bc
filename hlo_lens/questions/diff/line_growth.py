"""Growth of the lines of the user's program: how often instructions are repeated in the head."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    Opcodes = Mapping[str, Counter[str]]


def usual_growth(before: Opcodes, after: Opcodes, names: Mapping[str, str]) -> int:
    """Return how many times as many instructions most lines that grew have in the head; 1 for none.

    Args:
        before: Opcodes by line in the base.
        after: Those in the head.
        names: Lines of the base to their names in the head.
    """
    ratios: Counter[int] = Counter()
    for place, counts in before.items():
        few, many = counts.total(), after.get(names.get(place, place), Counter()).total()
        if many > few and many % few == 0:
            ratios[many // few] += 1
    return ratios.most_common(1)[0][0] if ratios else 1
