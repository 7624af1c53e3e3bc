"""Generated modules in every style: read completely, and alike by scanner and grammar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hlo_lens.hlo.module_reader import parse_hlo, parse_hlo_modules
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.source import clean
from tests.lark_alone import lark_alone
from tests.strategies.modules import modules, novelties
from tests.strategies.printing import LAYOUT_ONLY, STYLES, Style, print_module
from tests.strategies.programs import NAMING, Module

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule

MANY = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
FEW = settings(MANY, max_examples=15)

_COMMENT = re.compile(r"/\*.*?\*/|//.*")

Facts = tuple[object, ...]


def read(text: str) -> HloModule:
    """Return the module of a text; fails on a gap."""
    module = parse_hlo(text)
    assert [str(gap) for gap in module.gaps] == []
    return module


def facts(module: HloModule) -> Facts:
    """Return the content of a module, independent of its style."""
    return (
        module.name,
        dict(module.header),
        [
            (
                computation.name,
                computation.is_entry,
                [
                    (
                        i.name,
                        i.is_root,
                        i.shape,
                        i.opcode,
                        [(operand.name, operand.index) for operand in i.operands],
                        "" if i.operands else _COMMENT.sub("", i.operand_text).strip(),
                        [
                            (k, v.replace("%", "") if k in NAMING else v)
                            for k, v in i.attribute_list
                        ],
                        i.called_computations,
                        i.control_predecessors,
                    )
                    for i in computation.instructions
                ],
            )
            for computation in module.computations
        ],
    )


def meant(module: Module) -> Facts:
    """Return the same for a generated module."""
    calling = ("to_apply", "calls", "condition", "body", "branch_computations")

    def names(value: str) -> tuple[str, ...]:
        return tuple(value.strip("{}").replace("%", "").split(", "))

    return (
        module.name,
        dict(module.header),
        [
            (
                computation.name,
                computation.is_entry,
                [
                    (
                        i.name,
                        i.is_root,
                        Shape.parse(i.shape.text()),
                        i.opcode,
                        [
                            (name, tuple(map(int, index)))
                            for name, *index in (operand.split("#") for operand in i.operands)
                        ],
                        i.inner,
                        [(k, v.replace("%", "") if k in NAMING else v) for k, v in i.attributes],
                        tuple(n for k, v in i.attributes if k in calling for n in names(v)),
                        names(dict(i.attributes).get("control-predecessors", "{}"))
                        if "control-predecessors" in dict(i.attributes)
                        else (),
                    )
                    for i in computation.instructions
                ],
            )
            for computation in module.computations
        ],
    )


@MANY
@given(module=modules())
def test_what_was_printed_is_what_is_read(module: Module) -> None:
    assert facts(read(print_module(module))) == meant(module)


@MANY
@given(module=novelties())
def test_what_xla_does_not_know_yet_is_kept(module: Module) -> None:
    found = read(print_module(module))
    assert facts(found) == meant(module)
    assert found.unknown_attributes == tuple(
        sorted(
            {"made_up", "of_next_year"}
            | ({"operation"} if "novel.start" in _names(module) else set())
        )
    )


def _names(module: Module) -> set[str]:
    return {instruction.name for instruction in module.instructions}


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@FEW
@given(module=modules() | novelties())
def test_every_style_says_the_same(style: Style, module: Module) -> None:
    assert facts(read(print_module(module, style))) == meant(module)


LINE_ENDS = {name: style for name, style in LAYOUT_ONLY.items() if style.filler is None}


@pytest.mark.parametrize("style", LINE_ENDS.values(), ids=LINE_ENDS)
@FEW
@given(module=modules())
def test_modules_are_equal_whatever_ends_their_lines(style: Style, module: Module) -> None:
    one, other = read(print_module(module)), read(print_module(module, style))
    if style.line_end != " ":  # on one line there are no stack frame tables
        assert one.stack_frames == other.stack_frames
    other.stack_frames = one.stack_frames
    assert one == other
    assert one.entry_computation_layout == other.entry_computation_layout
    assert [c.signature_text == "" for c in one.computations] == [
        c.signature_text == "" for c in other.computations
    ]


ON_LINES = {name: s for name, s in STYLES.items() if s.filler is None and s.line_end != " "}


@pytest.mark.parametrize("style", ON_LINES.values(), ids=ON_LINES)
@FEW
@given(module=modules() | novelties())
def test_scanner_is_grammar(style: Style, module: Module) -> None:
    source = clean(print_module(module, style))
    (scanned,) = parse_hlo_modules(source)
    with lark_alone():
        assert parse_hlo_modules(source) == [scanned]
    assert scanned.gaps == ()


@MANY
@given(first=modules(), second=modules(), style=st.sampled_from(sorted(STYLES)))
def test_modules_one_after_the_other_are_read_as_each_alone(
    first: Module, second: Module, style: str
) -> None:
    text = print_module(first, STYLES[style]) + print_module(second, STYLES[style])
    found = parse_hlo_modules(clean(text))
    assert [facts(module) for module in found] == [meant(first), meant(second)]
    assert [module.gaps for module in found] == [(), ()]


@MANY
@given(module=modules())
def test_same_text_gives_equal_modules_and_another_name_does_not(module: Module) -> None:
    text = print_module(module)
    assert read(text) == read(text)
    name = module.computations[-1].instructions[-1].name
    assert read(text) != read(text.replace(f"%{name} =", f"%{name}.other ="))


@MANY
@given(module=modules())
def test_everything_that_is_read_on_demand_can_be_read(module: Module) -> None:
    found = read(print_module(module))
    for computation in found.computations:
        assert computation.root is not None
        for i in computation.instructions:
            assert computation.instruction(i.name) == i
            assert i.shape is not None
            assert i.shape.size_bytes is not None
            assert (i.sharding is None) == ("sharding" not in i.attributes)
            assert (i.device_list is None) == ("replica_groups" not in i.attributes)
            assert (i.metadata is None) == ("metadata" not in i.attributes)
            assert bool(i.frontend_attributes) == ("frontend_attributes" in i.attributes)
            if i.metadata is not None:
                assert i.metadata.op_name is not None
                assert i.metadata.other == {}
                assert i.metadata.stack_frame_id is None or i.source_location is not None
    numbers = [p.parameter_number for p in found.entry.parameters]
    assert numbers == list(range(len(module.computations[-1].parameters)))
    assert len(found.stack_frames.frames) == (3 if module.tables else 0)


@MANY
@given(module=modules(), style=st.sampled_from(sorted(STYLES)))
def test_spans_hold_the_instructions_in_text_order(module: Module, style: str) -> None:
    source = clean(print_module(module, STYLES[style]))
    (found,) = parse_hlo_modules(source)
    end = 0
    for i in found.instructions:
        assert end <= i.span.start < i.span.end
        end = i.span.end
        assert source.text[i.span.start :].startswith(i.name)
        assert i.line == source.text.count("\n", 0, i.span.start) + 1
