"""Program graphs, compared with the parts of single instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.matching.graphs import program_graph
from hlo_lens.questions.matching.labels import LabelParts, Labels
from tests.corpus import read, sample_hlo
from tests.strategies.modules import modules, novelties
from tests.strategies.printing import STYLES, print_module

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.hlo.module import HloComputation, HloModule
    from hlo_lens.questions.matching.graphs import ProgramGraph
    from hlo_lens.shapes.shape import ShapeIndex
    from tests.strategies.programs import Module


def graph_of(module: HloModule) -> ProgramGraph:
    return program_graph(module, Labels())


def behind(
    computation: HloComputation, name: str, index: ShapeIndex
) -> tuple[int, ShapeIndex] | None:
    """Return the row behind a name that may be a get-tuple-element, and the tuple index."""
    seen = set()
    while True:
        instruction = computation.instruction(name)
        if instruction is None or name in seen:
            return None
        seen.add(name)
        if instruction.opcode != "get-tuple-element":
            return instruction.row, index
        if not instruction.operands:
            return None
        number = instruction.attribute("index")
        own = (int(number),) if number is not None and number.isdecimal() else ()
        operand = instruction.operands[0]
        name, index = operand.name, (*operand.index, *own, *index)


def assert_as_read_one_by_one(text: str) -> None:
    module = parse_hlo(text)
    graph = graph_of(module)
    labels, reader = graph.labels, module.reader
    count = 0
    for position, computation in enumerate(module.computations):
        nodes = iter(graph.nodes[position])
        for instruction in computation.instructions:
            if instruction.opcode == "get-tuple-element":
                continue
            count += 1
            node = next(nodes)
            assert graph.rows[node] == instruction.row
            assert graph.owner[node] == position
            found = [behind(computation, o.name, o.index) for o in instruction.operands]
            rows = [-1 if one is None else one[0] for one in found]
            assert [-1 if o < 0 else graph.rows[o] for o in graph.operands[node]] == rows
            indices = graph.indices.get(node, ((),) * len(rows))
            assert list(indices) == [() if one is None else one[1] for one in found]
            if instruction.row in module.columns.overlays:
                continue
            attributes, config = labels.attribute_list(instruction.attribute_list, reader)
            detail = instruction.parameter_number
            literal = labels.literal(instruction.operand_text)
            assert labels.parts[graph.label[node]] == LabelParts(
                instruction.opcode,
                labels.shape(instruction.shape_text, reader),
                attributes,
                config,
                literal if instruction.opcode == "constant" else detail,
            )
            names = [module.computations[c].name for _, c in graph.callees.get(node, ())]
            called = instruction.called_computations
            assert names == [name for name in called if module.computation(name)]
        assert next(nodes, None) is None
    assert len(graph) == len(graph.label) == count


@settings(max_examples=30, deadline=None)
@given(st.one_of(modules(), novelties()), st.sampled_from(sorted(STYLES)))
def test_generated_modules_in_all_styles(module: Module, style: str) -> None:
    assert_as_read_one_by_one(print_module(module, STYLES[style]))


@pytest.mark.parametrize("path", sample_hlo(), ids=lambda p: f"{p.parent.name}-{p.name[-40:]}")
def test_samples(path: Path) -> None:
    assert_as_read_one_by_one(read(path).decode())


ENTRY = """HloModule m

ENTRY e {
  p = f32[8] parameter(0)
  t = (f32[8], (f32[8], f32[])) parameter(1)
  LINE
  ROOT r = f32[8] negate(p)
}
"""


@pytest.mark.parametrize(
    "line",
    [
        "x = f32[8] add(p, p)",
        "x = f32[8] add(%p, %p)",
        "x = f32[8] add(f32[8] %p, f32[8]{0} %p)",
        "x = f32[8] add(f32[8] p, f32[8]{0:T(8,128)} p)",
        "x = f32[8] add(%p, f32[8]{0} p)",
        "x = (f32[8], f32[8]) tuple((f32[8], (f32[8], f32[])) %t, f32[8]{0:T(8,128)} %p)",
        "x = (f32[8], f32[8]) tuple((f32[8], /*index=1*/(f32[8], f32[])) %t, /*index=1*/f32[8] %p)",
        "x = (f32[8], f32[8]) tuple(%p, /*index=1*/%p, /* a, b */ %p)",
        "x = f32[8] add(%t#0, %p)",
        "x = f32[8] add(%t#1#0, %t#0)",
        "x = f32[8] add( p , p )",
        "x = f32[8] add(\n p,\n p)",
        "x = f32[8] add(%gone, %p)",
        "x = f32[2] constant({1, 2})",
        "x = f32[] constant(p)",
        "x = s32[] constant (3)",
        "x = f32[8] parameter(/*third*/2)",
        "x = token[] after-all()",
        "x = f32[8] get-tuple-element(t), index=0",
        'x = f32[8] get-tuple-element(t), index=1, metadata={op_name="a}"}, sharding={replicated}',
        'x = f32[8] sine(p), metadata={op_name=", backend_config={}"}, backend_config={"a":1}',
        'x = f32[8] sine(p), metadata={op_name="a"}, sharding={replicated}',
        'x = f32[8] sine(p), backend_config="a", metadata={op_name="b"}',
        'x = f32[8] sine(p), backend_config={}, metadata={op_name="b"}',
        'x = f32[8] sine(p), frontend_attributes={a=", metadata={"}, metadata={op_name="b"}',
        'x = f32[8] custom-call(p), custom_call_target=", backend_config=", channel_id=7',
    ],
)
def test_lines_of_many_kinds(line: str) -> None:
    assert_as_read_one_by_one(ENTRY.replace("LINE", line))


def test_elements_of_elements_are_found_in_any_order() -> None:
    lines = """a = f32[] get-tuple-element(b), index=1
  c = f32[] sine(a)
  b = (f32[8], f32[]) get-tuple-element(t), index=1
  u = f32[] get-tuple-element(v), index=1
  v = f32[] get-tuple-element(u), index=2
  w = f32[] sine(u)"""
    text = ENTRY.replace("LINE", lines)
    assert_as_read_one_by_one(text)
    graph = graph_of(parse_hlo(text))
    assert [view.element for view in graph.views] == [(1, 1), (1,), (), ()]
    assert [view.node for view in graph.views] == [1, 1, -1, -1]


def test_control_predecessors_may_be_elements() -> None:
    text = ENTRY.replace(
        "LINE",
        "g = f32[8] get-tuple-element(t), index=0\n"
        "  x = f32[8] sine(p), control-predecessors={g, %p, none}",
    )
    assert graph_of(parse_hlo(text)).controls == {2: (1, 0)}
