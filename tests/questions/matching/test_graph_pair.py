"""Graphs made alone, as another process does, compare as those made together."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.matching.graphs import graph_alone, graph_pair
from hlo_lens.questions.matching.program_diff import program_diff
from tests.questions.matching.programs import changes_between
from tests.strategies.modules import modules, novelties
from tests.strategies.printing import STYLES, print_module

if TYPE_CHECKING:
    from hlo_lens.questions.matching.program_diff import ProgramDiff
    from tests.strategies.programs import Module

TEXT = """HloModule m

%f (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %s = f32[8]{0} negate(%p)
}

ENTRY %main (a: f32[8]) -> (f32[8], f32[8]) {
  %a = f32[8]{0} parameter(0), sharding={devices=[2]<=[2]}
  %w = (f32[8]{0}, f32[8]{0}) custom-call(%a), custom_call_target="two"
  %v = f32[8]{0} get-tuple-element(%w), index=1
  %y = f32[8]{0} fusion(%v), kind=kLoop, calls=%f, backend_config={"a":1}
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%y, %v)
}
"""


def facts(found: ProgramDiff) -> tuple[object, ...]:
    counts = found.unchanged, found.changed, found.added, found.removed, found.moved
    left_out = found.left_out_base, found.left_out_head, found.unseen_literals
    listed = str(found.edits), str(found.groups), str(found.module_changes)
    return counts, left_out, listed, found.ignored, dict(found.matched_rows)


def assert_same_from_graphs_alone(base: str, head: str) -> None:
    one, other = parse_hlo(base), parse_hlo(head)
    usual = facts(program_diff(one, other))
    mine = graph_alone(one)
    other, yours = pickle.loads(pickle.dumps((other, graph_alone(other))))
    assert yours.module is other
    assert facts(program_diff(one, other, known=(mine, yours))) == usual


generated = st.tuples(st.one_of(modules(), novelties()), st.sampled_from(sorted(STYLES)))


@settings(max_examples=25, deadline=None)
@given(generated, generated)
def test_generated_modules_in_all_styles(
    base: tuple[Module, str], head: tuple[Module, str]
) -> None:
    texts = [print_module(module, STYLES[style]) for module, style in (base, head)]
    assert_same_from_graphs_alone(*texts)
    assert_same_from_graphs_alone(texts[0], print_module(base[0], STYLES[head[1]]))


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("", ""),
        ("negate", "cosine"),
        ("f32[8]", "f32[16]"),
        ("index=1", "index=0"),
        ("[2]<=[2]", "[2]0,1"),
        ("[2]<=[2]", "[2]1,0"),
        ('"a":1', '"a": 1'),
        ('"a":1', '"b":1'),
        ("{0}", ""),
        ("fusion(%v)", "fusion(%a)"),
    ],
)
def test_edited_text(part: str, other: str) -> None:
    head = TEXT.replace(part, other)
    assert_same_from_graphs_alone(TEXT, head)
    assert_same_from_graphs_alone(head, TEXT)
    assert bool(changes_between(TEXT, head)) == (
        other in ("cosine", "f32[16]", "index=0", "[2]1,0", '"b":1', "fusion(%a)")
    )


@pytest.mark.parametrize("has_layouts", [True, False])
def test_graphs_are_made_again_only_for_another_style(*, has_layouts: bool) -> None:
    base, head = parse_hlo(TEXT), parse_hlo(TEXT if has_layouts else TEXT.replace("{0}", ""))
    known = graph_alone(base), graph_alone(head)
    graphs = graph_pair(base, head, known)
    assert [one is other for one, other in zip(graphs, known, strict=True)] == [has_layouts] * 2
    assert graphs[0].labels is graphs[1].labels
    assert graphs[0].labels.counted.layouts is has_layouts
