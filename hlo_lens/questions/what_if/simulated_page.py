"""Section of a program with simulated changes: figures with their bounds, and how sure they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.render.result import Column, Unit
from hlo_lens.render.table import table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.what_if.recompiled import Recompiled
    from hlo_lens.render.table import Table

_MEANINGS = {
    "exact": "XLA assigns the same memory",
    "bounds": "what XLA compiles is between least and most",
    "estimate": "what XLA compiles is between least and most, as far as measured",
}
"""Meaning of each basis."""

_COLUMNS = (
    Column("figure", Unit.NONE, "name of the figure"),
    Column("now", Unit.BYTES, "without changes"),
    Column("predicted", Unit.BYTES, "with the changes"),
    Column("least", Unit.BYTES, "least that it may be"),
    Column("most", Unit.BYTES, "most that it may be"),
    Column("delta", Unit.BYTES, "predicted difference"),
)


def simulated_facts(row: Recompiled) -> Iterator[tuple[str, str]]:
    """Yield how sure the answer is, and whether our assignment is that of the dump."""
    if row.refusal:
        yield "simulated", f"not possible: {row.refusal}"
        return
    if row.predicted is not None:
        yield "simulated", f"{row.basis}: {_MEANINGS[row.basis]} (hlo-lens help what-if)"
    found = row.reproduction
    if found.is_equal is None:
        yield "assignment", "there is none in the dump: figures now are estimated"
    elif found.is_equal:
        yield "assignment", f"ours has all {found.compared} figures of the dump"
    else:
        yield "assignment", "ours differs from the dump: the answer is the dump and our difference"
    base, head = row.base.flops, None if row.predicted is None else row.predicted.flops
    if base is not None and head is not None and head > base:
        yield "arithmetic", f"{head - base:,} FLOP are done again in each run"


def simulated_figures(row: Recompiled, labels: Mapping[str, str]) -> Iterator[Table]:
    """Yield the table of figures; none if they are not known.

    Args:
        row: The answer.
        labels: Name of a figure to its words.
    """
    if row.base.total_bytes is None:
        return
    cells = []
    for name, label in labels.items():
        now = getattr(row.base, name)
        head, low, high = (
            None if one is None else getattr(one, name)
            for one in (row.predicted, row.low, row.high)
        )
        delta = None if now is None or head is None else head - now
        cells.append((label, now, head, low, high, delta))
    shown = ["figure", "now"]
    if row.predicted is not None:
        is_sure = row.low == row.high
        shown += ["predicted", *(() if is_sure else ("least", "most")), "delta"]
    yield table_of("figures", "Figures of one device", _COLUMNS, cells, shown=tuple(shown))
