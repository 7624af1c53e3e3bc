"""Instruction names as tables and texts print them: after %, with a shape index, cut to an end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_PRINTED = re.compile(r"%?(\.\.\.)?(.*?)(\{[\d,\s]*\})?")


def names_printed_as(text: str, names: Collection[str]) -> list[str]:
    """Return the names that a printed name may be, in their order; several only for an end.

    >>> names_printed_as("while.3{2}", ["while.3", "add_fusion.12", "mul_fusion.12"])
    ['while.3']
    >>> names_printed_as("...d_fusion.12", ["while.3", "add_fusion.12", "mul_fusion.12"])
    ['add_fusion.12']
    """
    printed = _PRINTED.fullmatch(text.strip())
    if printed is None:
        return []
    dots, name, _ = printed.groups()
    if dots:
        return [one for one in names if one.endswith(name)]
    return [name] if name in names else []
