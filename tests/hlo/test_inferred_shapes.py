"""Shapes that a text leaves out, as XLA's parser infers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens import parse_hlo

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule

CALLED = """f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = add(a, b) }
g { a = f32[3] parameter(0)
  ROOT b = negate(a) }
"""


def _module(line: str, parameters: str) -> HloModule:
    lines = "\n".join(
        f"  p{number} = {shape} parameter({number})"
        for number, shape in enumerate(parameters.split())
    )
    return parse_hlo(f"HloModule m\n{CALLED}ENTRY e {{\n{lines}\n  ROOT r = {line}\n}}\n")


@pytest.mark.parametrize(
    ("line", "parameters", "shape"),
    [
        ("after-all()", "", "token[]"),
        ("after-all(p0)", "token[]", "token[]"),
        ("partition-id()", "", "u32[]"),
        ("negate(p0)", "f32[2,3]{0,1}", "f32[2,3]{0,1}"),
        ("add(p0, p0)", "bf16[4]", "bf16[4]"),
        ("compare(p0, p0), direction=LT", "f32[2]{0}", "pred[2]{0}"),
        ("select(p0, p1, p1)", "pred[] s32[5]", "s32[5]"),
        ("abs(p0)", "c64[2]", "f32[2]"),
        ("complex(p0, p0)", "f64[2]", "c128[2]"),
        ("tuple(p0, p1)", "f32[3] s32[]", "(f32[3], s32[])"),
        ("get-tuple-element(p0), index=1", "(f32[3],s32[])", "s32[]"),
        ("transpose(p0), dimensions={2,0,1}", "f32[2,3,4]", "f32[4,2,3]"),
        ("reduce(p0, p1), dimensions={0,2}, to_apply=f", "f32[2,3,4] f32[]", "f32[3]"),
        ("concatenate(p0, p0), dimensions={1}", "f32[2,3]", "f32[2,6]"),
        ("call(p0), to_apply=g", "f32[3]", "f32[3]"),
        ("map(p0, p0), dimensions={0}, to_apply=f", "s32[7]", "f32[7]"),
        (
            "dot(p0, p1), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
            "rhs_contracting_dims={1}",
            "f32[5,2,3] f32[5,3,7]",
            "f32[5,2,7]",
        ),
    ],
)
def test_shapes_follow_from_operands(line: str, parameters: str, shape: str) -> None:
    module = _module(line, parameters)
    assert not module.gaps
    assert module.entry.root is not None
    assert str(module.entry.root.shape) == shape


@pytest.mark.parametrize(
    ("line", "parameters"),
    [
        ("negate(q)", ""),
        ("convert(p0)", "f32[2]"),
        ("slice(p0), slice={[0:1]}", "f32[2]"),
        ("get-tuple-element(p0), index=9", "(f32[2])"),
        ("get-tuple-element(p0), index=-1", "(f32[2])"),
        ("transpose(p0), dimensions={7}", "f32[2]"),
        ("reduce(p0, p1), dimensions={7}, to_apply=f", "f32[2] f32[]"),
        ("dot(p0, p0), lhs_contracting_dims={5}, rhs_contracting_dims={0}", "f32[2]"),
        ("concatenate(p0, p1), dimensions={1}", "f32[2,2] f32[2]"),
        ("concatenate(p0, p1), dimensions={0}", "f32[<=2] f32[2]"),
        ("call(p0), to_apply=nothing", "f32[3]"),
        ("add(p0, p0)", "(f32[2])"),
        ("negate(r)", ""),
    ],
)
def test_others_are_not_known(line: str, parameters: str) -> None:
    root = _module(line, parameters).entry.root
    assert root is not None
    assert root.shape is None


def test_instructions_without_shapes_may_share_a_line() -> None:
    module = parse_hlo(
        "ENTRY e { p = f32[2] parameter(0) a = abs(p) b = negate(a) ROOT t = tuple(a, b) }"
    )
    assert not module.gaps
    assert [str(one.shape) for one in module.entry.instructions] == [
        "f32[2]",
        "f32[2]",
        "f32[2]",
        "(f32[2], f32[2])",
    ]


def test_the_grammar_infers_the_same() -> None:
    text = (
        f"HloModule m\n{CALLED}ENTRY e {{ p = f32[3] parameter(0) ROOT r = call(p), to_apply=g }}"
    )
    assert parse_hlo(text, reader="grammar") == parse_hlo(text)
