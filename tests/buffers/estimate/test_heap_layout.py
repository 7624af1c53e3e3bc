"""Allocations of buffers: own allocations, reused outputs, the heap."""

from __future__ import annotations

import itertools

import pytest

from hlo_lens.buffers.estimate.buffer_sharing import BufferSharing
from hlo_lens.buffers.estimate.heap_layout import (
    Allocation,
    HeapLayout,
    LayoutRules,
    _Held,
    heap_layout,
    partition,
)
from tests.buffers.estimate.flows import flow_of, name_of
from tests.questions.texts import LOOP, entry_of, table_of


def test_partition_swaps_as_the_standard_library_does() -> None:
    kinds = ["temp", "parameter", "temp", "temp", "parameter", "parameter", "temp"]
    items = [Allocation(number, 0, kind) for number, kind in enumerate(kinds)]
    done, first = partition(items, lambda each: each.kind == "parameter")
    assert [each.size for each in done] == [5, 1, 4, 3, 2, 0, 6]
    assert first == 3


def layout_of(text: str, alignment: int = 64) -> tuple[HeapLayout, list[dict[str, int]]]:
    """Return a module's layout, and the values with offsets in each allocation."""
    flow = flow_of(table_of(text))
    layout = heap_layout(flow, BufferSharing(flow, "cpu"), LayoutRules(alignment=alignment))
    named = [{name_of(flow, v): at for v, at in a.values} for a in layout.allocations]
    return layout, named


CHAIN = """HloModule m, is_scheduled=true

ENTRY main {
  p = f32[100]{0} parameter(0)
  a = f32[100]{0} reverse(p), dimensions={0}
  b = f32[100]{0} negate(a)
  c = f32[100]{0} reverse(b), dimensions={0}
  ROOT d = f32[100]{0} reverse(c), dimensions={0}
}
"""


def test_temporaries_go_into_the_output_where_they_fit() -> None:
    layout, named = layout_of(CHAIN)
    assert named == [{"d{}": 0, "a{}": 0, "b{}": 0}, {"p{}": 0}, {"c{}": 0}]
    assert [(a.kind, a.size, a.is_output) for a in layout.allocations] == [
        ("output", 400, True),
        ("parameter", 400, False),
        ("heap", 400, False),
    ]
    assert layout.temporaries == {0: 2}


def test_outputs_may_be_kept_to_themselves() -> None:
    flow = flow_of(table_of(CHAIN))
    rules = LayoutRules(alignment=512, reuses_outputs=False)
    layout = heap_layout(flow, BufferSharing(flow, "tpu"), rules)
    assert [a.size for a in layout.allocations if a.is_temp] == [912]


DONATED = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

ENTRY main {
  p = f32[100]{0} parameter(0)
  a = f32[100]{0} negate(p)
  b = f32[100]{0} reverse(a), dimensions={0}
  c = f32[100]{0} reverse(b), dimensions={0}
  e = f32[100]{0} reverse(c), dimensions={0}
  ROOT d = f32[100]{0} reverse(e), dimensions={0}
}
"""


@pytest.mark.parametrize(("reuses", "inside"), [(True, "acdp"), (False, "adp")])
def test_a_value_may_reuse_a_donated_operand(reuses: bool, inside: str) -> None:
    flow = flow_of(table_of(DONATED))
    rules = LayoutRules(alignment=64, reuses_outputs=reuses)
    layout = heap_layout(flow, BufferSharing(flow, "cpu"), rules)
    parameter = next(a for a in layout.allocations if a.parameter is not None)
    assert sorted(name_of(flow, v)[0] for v, _ in parameter.values) == sorted(inside)


def test_memory_spaces_are_apart() -> None:
    layout, _ = layout_of(CHAIN.replace("c = f32[100]{0}", "c = f32[100]{0:S(5)}"))
    assert sorted((a.color, a.size) for a in layout.allocations if a.is_temp) == [(5, 400)]


def test_tables_of_tuples_follow_the_heap_aligned() -> None:
    table = entry_of("""  p = f32[100]{0} parameter(0)
  t = (f32[100]{0}, f32[100]{0}) custom-call(p), custom_call_target="f"
  a = f32[100]{0} get-tuple-element(t), index=0
  b = f32[100]{0} get-tuple-element(t), index=1
  ROOT c = f32[50]{0} custom-call(a, b), custom_call_target="g\"""")
    flow = flow_of(table)
    layout = heap_layout(flow, BufferSharing(flow, "cpu"), LayoutRules(alignment=64))
    assert [a.size for a in layout.allocations if a.is_temp] == [448 + 400 + 48 + 16]


@pytest.mark.parametrize("text", [CHAIN, LOOP])
def test_a_larger_alignment_never_needs_less(text: str) -> None:
    sizes = [sum(a.size for a in layout_of(text, step)[0].allocations) for step in (1, 64, 4096)]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("spans", [((0, 3), (3, 5), (8, 9)), ((0, 9), (1, 2), (3, 4))])
def test_values_of_an_allocation_that_end_before_an_instant_are_passed_over(
    spans: tuple[tuple[int, int], ...],
) -> None:
    for order in itertools.permutations(spans):
        held = _Held()
        for start, end in order:
            held.add(start, end, 7)
        assert held.values == [(start, end, 7) for start, end in sorted(spans)]
        for instant in range(11):
            found = [one for one in held.since(instant) if one[1] >= instant]
            assert found == [one for one in held.values if one[1] >= instant]
