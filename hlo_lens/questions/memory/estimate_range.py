"""Whether an estimate is exact, and if not, the range of its temporaries and of the peak.

An estimate is exact where the text shows its compiler and chip, all of it was read, and
`hlo_lens.questions.memory.forms` knows each of its forms as exact. Else the error is bounded:

* by the operands and results of instructions of other forms, which may share memory or have one of
  their own;
* by 2%, a step of alignment, and what is not used at the peak, where other forms or the compiler
  are not known;
* with a GPU compiler that is not known, by the operands of fusions with several results that have
  the size of a result: which of them share memory differs between versions;
* on a TPU by one page, and with libtpu before 0.0.51 by twice the temporaries (that version counts
  fragmentation twice);
* by the difference of the two sizes that tables of tuples may have.

There is no range for a text of which instructions are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.backend_rules import TPU_PAGE, round_up
from hlo_lens.buffers.estimate.shape_tree import NODES
from hlo_lens.hlo.columns import NAME
from hlo_lens.questions.memory.forms import forms_of
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.snapshots.facts import RangeFacts
from hlo_lens.shapes.shape import HOST_SPACE
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from hlo_lens.buffers.estimate.backend_rules import BackendRules
    from hlo_lens.buffers.estimate.values import Dataflow
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.memory.layout import MemoryLayout

_MARGIN = 50
"""Part of the temporaries that a compiler of unknown rules may add or save."""

_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRange:
    """Bounds of an estimate.

    Attributes:
        is_exact: Whether arguments, outputs, aliased, temporaries and peak are exact.
        temp_bytes: Least and most that temporaries may be; None if there is no bound.
        peak_more: Most by which the peak may be less, and more, than estimated; None likewise.
        output_more: Bytes by which outputs may be less, and more: tables of tuples.
        total_more: The same of what must fit.
        is_guess: Whether the text does not show its compiler or chip, or was not understood.
        reasons: Why it is not exact, as texts.
    """

    is_exact: bool
    temp_bytes: tuple[int, int] | None
    peak_more: tuple[int, int] | None
    output_more: tuple[int, int] = (0, 0)
    total_more: tuple[int, int] = (0, 0)
    is_guess: bool = False
    reasons: tuple[str, ...] = ()

    def bounds(
        self, peak_bytes: int | None, output_bytes: int, total_bytes: int
    ) -> RangeFacts | None:
        """Return the bounds of temporaries and of other figures; None if there are none."""
        if self.temp_bytes is None or self.peak_more is None:
            return None
        return RangeFacts(
            temp_bytes=self.temp_bytes,
            peak_bytes=None if peak_bytes is None else _around(peak_bytes, self.peak_more),
            output_bytes=_around(output_bytes, self.output_more) if any(self.output_more) else None,
            total_bytes=_around(total_bytes, self.total_more),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence on what the estimate is worth; none for an exact one."""
        if self.is_exact:
            return ()
        reasons = "; ".join(self.reasons)
        if self.temp_bytes is None:
            return (f"the estimate has no bound: {reasons}",)
        least, most = map(format_bytes, self.temp_bytes)
        return (f"temp is between {least} and {most}: {reasons}",)


def estimate_range(
    flow: Dataflow, rules: BackendRules, layout: MemoryLayout, temp_bytes: int
) -> EstimateRange:
    """Return the bounds of an estimate.

    Args:
        flow: Values of the module.
        rules: Rules that were applied.
        layout: The estimate.
        temp_bytes: Its temporaries.
    """
    module = flow.table.module
    if not layout.is_complete or _has_lost(module):
        why = ("the text is not complete",)
        return EstimateRange(
            is_exact=False, temp_bytes=None, peak_more=None, is_guess=True, reasons=why
        )
    forms = forms_of(flow.table)
    unshown = forms.unshown(rules.compilers)
    guesses = {
        "the text does not show a compiler whose rules are known": not rules.are_known,
        "the text does not show the chip": rules.tables is not None and not rules.tables.is_known,
        "some attributes are not understood": bool(module.gaps or module.unknown_attributes),
    }
    reasons = [reason for reason, holds in guesses.items() if holds]
    is_guess = bool(reasons)
    if unshown:
        listed = sorted(unshown)
        more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        reasons.append(f"forms not known as exact: {', '.join(listed[:_SHOWN])}{more}")
    if layout.unordered_bytes:
        reasons.append("values of one size in several computations, of unknown order")
    if not reasons:
        same = (temp_bytes, temp_bytes)
        return EstimateRange(is_exact=True, temp_bytes=same, peak_more=(0, 0))
    new = forms.new(rules.backend)
    rows = {row for form in new for row in forms.of_rows.get(form, ())}
    unsure = sum(_bytes_around(flow, row) for row in rows & flow.value_lists.keys())
    unsure += layout.unordered_bytes
    is_other = bool(unshown or module.gaps) or not rules.are_known
    tables = _table_bytes(flow, rules)
    unsure += _spare(rules, layout, temp_bytes) if is_other else 0
    unsure += 0 if rules.are_known else _shared_bytes(flow, rules)
    least, most = _temp_range(rules, layout, temp_bytes, unsure)
    inner = _temp_table_bytes(rules, layout) + tables
    return EstimateRange(
        is_exact=False,
        temp_bytes=(least, most),
        peak_more=(temp_bytes - least + tables, most - temp_bytes + tables),
        output_more=(tables, tables),
        total_more=(unsure + _page(rules) + inner, most - temp_bytes + inner),
        is_guess=is_guess,
        reasons=tuple(reasons),
    )


def _around(number: int, more: tuple[int, int]) -> tuple[int, int]:
    return max(0, number - more[0]), number + more[1]


def _spare(rules: BackendRules, layout: MemoryLayout, temp_bytes: int) -> int:
    """Return the bytes that a compiler of other rules may add to temporaries, or save."""
    used = 0
    for color in {a.color for a in layout.allocations if a.category == "temp"} - {HOST_SPACE}:
        if color == DEFAULT_SPACE or rules.backend != "tpu":
            used += max(layout.temporary_series(color) or [0])
    return max(temp_bytes - used, temp_bytes // _MARGIN, rules.layout.alignment)


def _page(rules: BackendRules) -> int:
    return TPU_PAGE if rules.backend == "tpu" else 0


def _temp_range(
    rules: BackendRules, layout: MemoryLayout, temp_bytes: int, unsure: int
) -> tuple[int, int]:
    """Return the least and the most that temporaries may be."""
    least, most = max(0, temp_bytes - unsure), temp_bytes + unsure
    if rules.backend != "tpu":
        return least, most
    least, most = max(0, least - TPU_PAGE), round_up(most, TPU_PAGE) + TPU_PAGE
    held = sum(
        a.size for a in layout.allocations if a.category == "temp" and a.color == DEFAULT_SPACE
    )
    return least, most if rules.are_known else 2 * max(most, round_up(held, TPU_PAGE))


def _bytes_around(flow: Dataflow, row: int) -> int:
    """Return the bytes of the operands and the result of an instruction."""
    places = [row * NODES, *flow.operands.get(row, ())]
    found = 0
    for place in places:
        source, node = divmod(place, NODES)
        tree = flow.tree(source)
        found += sum(part.size_bytes for part in tree.parts[node : node + tree.sizes[node]])
    return found


def _shared_bytes(flow: Dataflow, rules: BackendRules) -> int:
    """Return the bytes of operands that fusions with several results may share with them."""
    if rules.backend != "gpu":
        return 0
    found = 0
    opcodes = flow.table.opcodes
    for row, places in flow.operands.items():
        if opcodes[row] != "fusion":
            continue
        results = {part.size_bytes for part in flow.tree(row).parts if not part.is_tuple}
        if len(flow.tree(row).parts) > 1:
            sizes = (_part_bytes(flow, place) for place in places)
            found += sum(size for size in sizes if size in results)
    return found


def _part_bytes(flow: Dataflow, place: int) -> int:
    source, node = divmod(place, NODES)
    return flow.tree(source).parts[node].size_bytes


def _table_bytes(flow: Dataflow, rules: BackendRules) -> int:
    """Return by how many bytes the tables of tuples in the result may differ."""
    tables = rules.tables
    if tables is None or tables.is_known:
        return 0
    shown = {value for value in flow.output_values if flow.values.parts[value].is_tuple}
    return max(tables.step, tables.other) * len(shown)


def _temp_table_bytes(rules: BackendRules, layout: MemoryLayout) -> int:
    """Return by how many bytes the tables of tuples among temporaries may differ."""
    tables = rules.tables
    if tables is None or tables.is_known:
        return 0
    spaces = {a.index: a.color for a in layout.allocations if a.category == "temp"}
    held = (one for one in layout.values if spaces.get(one.allocation) == DEFAULT_SPACE)
    return max(tables.step, tables.other) * sum(one.is_table for one in held)


def _has_lost(module: HloModule) -> bool:
    """Whether a gap of a text is an instruction, not an attribute of one that was kept."""
    if not module.gaps:
        return False
    columns = module.columns
    kept = {columns.source.line_column(start)[0] for start in columns.column(NAME)}
    return any(gap.line not in kept for gap in module.gaps)
