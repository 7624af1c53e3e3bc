"""Simulated changes, compared with the programs compiled with the same changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.load.programs import modules_of
from hlo_lens.questions.what_if.recompiled import Figures, Recompiled, figures
from hlo_lens.questions.what_if.simulating import simulated_modules

if TYPE_CHECKING:
    from tests.what_if.pairs import Pair, Truth

KINDS = ("donation", "sharding", "dtype")
"""Kinds of pairs that can be simulated."""

_BOUNDED = ("temp_bytes", "total_bytes", "peak_bytes")
_EQUAL = ("argument_bytes", "output_bytes", "alias_bytes", *_BOUNDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPair:
    """The answer to a pair.

    Attributes:
        pair: The pair.
        basis: How sure the answer is; empty if there is none.
        error: Difference of what must fit, as a part of the truth.
        is_inside: Whether temporaries, what must fit and the peak are between least and most.
        is_equal: Whether all figures of memory are equal.
        text: What differs, or why there is no answer.
    """

    pair: Pair
    basis: str = ""
    error: float = 0.0
    is_inside: bool = False
    is_equal: bool = False
    text: str = ""


def simulated_pairs(truths: Sequence[Truth]) -> Iterator[SimulatedPair]:
    """Yield the answer to each pair whose change can be simulated."""
    for truth in truths:
        if truth.pair.kind not in KINDS or truth.error:
            continue
        (row,) = simulated_modules(modules_of(truth.dump), truth.pair.edits, "")
        (after,) = modules_of(truth.changed_dump)
        yield _compared(truth.pair, row, figures(after))


def _compared(pair: Pair, row: Recompiled, after: Figures) -> SimulatedPair:
    if row.predicted is None or row.low is None or row.high is None:
        why = [str(one.why_not) for one in row.changes if not one.applies]
        return SimulatedPair(pair=pair, text="; ".join((*why, row.refusal)))
    differences = {name: _value(row.predicted, name) - _value(after, name) for name in _EQUAL}
    inside = [
        _value(row.low, name) <= _value(after, name) <= _value(row.high, name) for name in _BOUNDED
    ]
    shown = [f"{name} {value:+}" for name, value in differences.items() if value]
    return SimulatedPair(
        pair=pair,
        basis=row.basis,
        error=abs(differences["total_bytes"]) / _value(after, "total_bytes"),
        is_inside=all(inside),
        is_equal=not shown,
        text=", ".join(shown),
    )


def _value(found: Figures, name: str) -> int:
    value = getattr(found, name)
    assert isinstance(value, int), name
    return value


def simulated_table(found: Sequence[SimulatedPair]) -> str:
    """Return the table with a row for each kind of change and device."""
    header = ("simulated", "device", "pairs", "within 1 %", "inside", "called exact", "equal")
    lines: list[Sequence[str]] = [header, ["---"] * len(header)]
    for kind in KINDS:
        chosen = [one for one in found if one.pair.kind == kind]
        devices = sorted({one.pair.device for one in chosen})
        for device in (*devices, "all"):
            rows = [one for one in chosen if device in (one.pair.device, "all")]
            exact = [one for one in rows if one.basis == "exact"]
            near = sum(bool(one.basis) and one.error <= 0.01 for one in rows)
            inside = sum(one.is_inside for one in rows)
            equal = sum(one.is_equal for one in exact)
            counts = (len(rows), near, inside, len(exact), equal)
            lines.append((kind, device, *map(str, counts)))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
