"""Names that a misspelt name may mean."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nsmallest

_MOST = 4
_COMPARED = 4096
"""Most names that are compared letter by letter: those nearest in length."""


def nearest_names(name: str, names: Iterable[str], most: int = _MOST) -> list[str]:
    """Return the names nearest to a misspelt one, the nearest first.

    Names that contain it come after those that differ in a few letters.

    >>> nearest_names("fusion12", ["fusion.12", "copy.1", "fusion.1"])
    ['fusion.12', 'fusion.1']
    >>> nearest_names("nosuch", ["fusion.12"])
    []
    """
    known = list(dict.fromkeys(names))
    near = nsmallest(_COMPARED, known, key=lambda one: abs(len(one) - len(name)))
    found = get_close_matches(name, near, n=most)
    word = name.lower()
    inside = (one for one in known if word in one.lower()) if word else ()
    return list(dict.fromkeys([*found, *inside]))[:most]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a message on an unknown name: the nearest names, or nothing.

    >>> did_you_mean("al-reduce", ["all-reduce", "copy"]), did_you_mean("x", ["copy"])
    ('; did you mean all-reduce?', '')
    """
    near = nearest_names(name, names)
    return f"; did you mean {' or '.join(near)}?" if near else ""
