"""Edges of a module, compared with those of single instructions."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.links import operand_number
from tests.corpus import read, sample_hlo
from tests.hlo_texts import entry

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.hlo.module import HloModule

LOOPS = """HloModule m

%inner (a: f32[]) -> f32[] {
  ROOT %a = f32[] parameter(0)
}

%fused (a: f32[]) -> f32[] {
  ROOT %a = f32[] fusion(%a.0), kind=kLoop, calls=%inner
}

%body (s: f32[]) -> f32[] {
  %s = f32[] parameter(0)
  ROOT %f = f32[] fusion(%s), kind=kLoop, calls=%fused
}

%cond (s: f32[]) -> pred[] {
  ROOT %s = pred[] parameter(0)
}

ENTRY %main (p: f32[]) -> f32[] {
  %p = f32[] parameter(0)
  %w = f32[] while(%p), condition=%cond, body=%body, metadata={op_name="x, body=%fused"}
  %c = f32[] custom-call(%w), custom_call_target="f", called_computations={%inner, %gone}
  %q = f32[] conditional(%c, %c, %c), branch_computations={/*0*/%inner, %inner}
  ROOT %l = f32[] call(%q), to_apply=%body
}
"""


def _operands_one_by_one(module: HloModule) -> list[tuple[list[int], tuple[object, ...]]]:
    found: list[tuple[list[int], tuple[object, ...]]] = [([], ())] * len(module.columns)
    for computation in module.computations:
        rows = {instruction.name: instruction.row for instruction in computation.instructions}
        for instruction in computation.instructions:
            operands = instruction.operands
            targets = [rows.get(operand.name, NOTHING) for operand in operands]
            elements = tuple(operand.index for operand in operands)
            found[instruction.row] = targets, elements if any(elements) else ()
    return found


def _assert_edges_are_those_of_the_instructions(module: HloModule) -> None:
    links = module.links
    expected = _operands_one_by_one(module)
    for row, (targets, elements) in enumerate(expected):
        assert list(links.operands_of(row)) == targets
        assert links.operand_elements.get(row, ()) == elements
    uses: dict[int, list[tuple[int, int]]] = {}
    for row, (targets, _) in enumerate(expected):
        for number, target in enumerate(targets):
            uses.setdefault(target, []).append((row, number))
    assert all(links.users_of(row) == uses.get(row, []) for row in range(len(expected)))
    places = {computation.name: place for place, computation in enumerate(module.computations)}
    for instruction in module.instructions:
        called = [places.get(name, NOTHING) for name in instruction.called_computations]
        assert [call.place for call in links.calls.of_row(instruction.row)] == called
        assert module.instruction(instruction.row) == instruction


@pytest.mark.parametrize("path", sample_hlo(), ids=lambda path: "/".join(path.parts[-2:]))
def test_edges_of_samples_are_those_of_the_instructions(path: Path) -> None:
    _assert_edges_are_those_of_the_instructions(hlo_lens.parse_hlo(read(path)))


@pytest.mark.parametrize(
    "text",
    [
        LOOPS,
        "ENTRY e {\n  p = (f32[], f32[]) parameter(0)\n  ROOT r = f32[] add(p#0, p#1)\n}",
        "ENTRY e {\n  p = f32[] parameter(0)\n  p = f32[] negate(p)\n  ROOT r = f32[] add(p, q)\n}",
        "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] add(f32[] %p, /*b=*/f32[] %p)\n}",
        "ENTRY e {\n  ROOT r = f32[] add(negate(parameter(0)), constant(1))\n}",
        "ENTRY e {\n  i = s32[] parameter(0)\n  x = f32[] parameter(1)\n"
        "  ROOT r = f32[] conditional(i, x), branch_computations={{ ROOT b = f32[] parameter(0) }}"
        "\n}",
        "b {\n  ROOT x = f32[] parameter(0)\n}\n\nc {\n  ROOT y = pred[] parameter(0)\n}\n\n"
        "ENTRY e {\n  p = f32[] parameter(0)\n"
        "  ROOT w = f32[] while(p), condition=%c, // a = f32[]\n  body= %b\n}",
        "HloModule nothing",
        "ENTRY e {\n  ROOT r = f32[] new-op(a, b), to_apply=lost\n}",
    ],
)
def test_edges_of_hand_written_text_are_those_of_the_instructions(text: str) -> None:
    _assert_edges_are_those_of_the_instructions(hlo_lens.parse_hlo(text))


def test_computations_are_reached_through_chosen_opcodes() -> None:
    module = hlo_lens.parse_hlo(LOOPS)
    inner, fused, body, cond, main = range(5)
    links = module.links
    assert links.reached(main, lambda traits: traits.is_control_flow) == [inner, body, cond, main]
    assert links.reached(body, lambda traits: traits.is_caller) == [inner, fused, body]
    assert links.below({body: "b", cond: "c"}) == {body: "b", cond: "c", fused: "b", inner: "b"}


def test_control_predecessors_are_rows_of_the_computation() -> None:
    module = entry(
        "  p = f32[] parameter(0)\n  q = f32[] negate(p)\n"
        "  ROOT r = f32[] negate(p), control-predecessors={q, p, lost}"
    )
    assert module.links.control_predecessors == {2: (1, 0)}


def test_post_order_has_operands_first_and_control_predecessors_before_them() -> None:
    module = entry(
        "  a = f32[] parameter(0)\n  d = f32[] add(c, b)\n  b = f32[] negate(a)\n"
        "  c = f32[] negate(a)\n  x = f32[] constant(0)\n"
        "  ROOT r = f32[] negate(d), control-predecessors={x}\n"
        "  y = f32[] negate(z)\n  z = f32[] negate(y)"
    )
    names = [module.instruction(row).name for row in module.links.post_order(range(8))]
    assert names == ["x", "a", "c", "b", "d", "r", "y", "z"]


def test_edges_of_all_instructions_are_pickled() -> None:
    module = hlo_lens.parse_hlo(LOOPS)
    operands, calls = list(module.links.operand_rows), list(module.links.calls.rows)
    assert operands
    assert calls
    again = pickle.loads(pickle.dumps(module))
    again.columns.spans = None  # the text is not read again for the edges
    assert list(again.links.operand_rows) == operands
    assert list(again.links.calls.rows) == calls


def test_operand_of_a_parameter_by_the_call() -> None:
    module = hlo_lens.parse_hlo(
        """HloModule m
body {
  p = f32[] parameter(0)
}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
}

ENTRY e {
  i = s32[] parameter(0)
  x = f32[] parameter(1)
  c = f32[] conditional(i, x, x), branch_computations={body, body}
  l = f32[] while(x), body=body, condition=body
  ROOT f = f32[] fusion(c, l), kind=kLoop, calls=add
}
"""
    )
    calls = module.links.calls
    found = [
        (module.opcodes[call.row], operand_number(call, module.opcodes[call.row], 1))
        for place in range(2)
        for call in calls.of_computation(place)
    ]
    assert found == [
        ("conditional", 1),
        ("conditional", 2),
        ("while", 0),
        ("while", 0),
        ("fusion", 1),
    ]


@pytest.mark.parametrize("path", sample_hlo()[::4], ids=lambda path: path.name)
def test_edges_of_one_computation_are_those_of_the_module(path: Path) -> None:
    one, whole = (hlo_lens.parse_hlo(read(path).decode()).links for _ in range(2))
    offsets = whole.operand_offsets
    for row in range(len(offsets) - 1):
        operands = whole.operand_rows[offsets[row] : offsets[row + 1]]
        assert one.operands_of(row) == whole.operands_of(row) == operands
        assert one.elements_of(row) == whole.elements_of(row)
        assert one.users_of(row) == whole.users_of(row)


@pytest.mark.parametrize("is_printed", [True, False])
def test_uses_of_an_element_are_those_of_it_and_of_the_whole_tuple(is_printed: bool) -> None:
    elements = (
        "a = f32[2] get-tuple-element(t), index=0\n  b = f32[3] get-tuple-element(t), index=1\n"
    )
    text = f"""p = f32[2] parameter(0)
  q = f32[3] parameter(1)
  t = (f32[2], f32[3]) tuple(p, q)
  {elements if is_printed else ""}
  n = f32[2] negate({"a" if is_printed else "t#0"})
  s = f32[3] sine({"b" if is_printed else "t#1"})
  ROOT w = ((f32[2], f32[3])) tuple(t)"""
    module = entry(text)
    names = [one.name for one in module.entry.instructions]
    row = names.index("t")
    found = [
        [names[user] for user, _ in module.links.users_of_element(row, number)]
        for number in range(3)
    ]
    first, second = ("a", "b") if is_printed else ("n", "s")
    assert found == [["w", first], ["w", second], ["w"]]
