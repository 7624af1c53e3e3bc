"""Names that a text uses and does not define."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.program.undefined_names import undefined_names
from tests.corpus import corpus_hlo, read, sample_hlo
from tests.strategies.modules import modules
from tests.strategies.printing import STYLES, print_module

if TYPE_CHECKING:
    from pathlib import Path

    from tests.strategies.programs import Module

TEXT = """HloModule m

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%then (c: f32[8]) -> f32[8] {
  ROOT %c = f32[8]{0} parameter(0)
}

ENTRY %main (p: f32[8], q: pred[]) -> f32[8] {
  %p = f32[8]{0} parameter(0), frontend_attributes={note="to, calls=%nobody, body=%none"}
  %q = pred[] parameter(1)
  %zero = f32[] constant(0)
  %cond = f32[8]{0} conditional(%q, %p, %p), branch_computations={%then, %then}
  %t = (f32[8]{0}, f32[8]{0}) tuple(%cond, %p)
  %r = f32[] reduce(f32[8]{0} %t#1, f32[] %zero), dimensions={0}, to_apply=%sum
  ROOT %b = f32[8]{0} broadcast(%r), dimensions={}
}
"""


def lost(text: str, *, with_operands: bool = True) -> tuple[str, ...]:
    return undefined_names(parse_hlo(text), with_operands=with_operands)


@pytest.mark.parametrize("sign", ["%", ""])
@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("", ()),
        ("  %zero = f32[] constant(0)\n", ("zero",)),
        ("  %t = (f32[8]{0}, f32[8]{0}) tuple(%cond, %p)\n", ("t",)),
        (TEXT[TEXT.index("%sum") : TEXT.index("%then")], ("sum",)),
        (TEXT[TEXT.index("%then") : TEXT.index("ENTRY")], ("then",)),
    ],
    ids=["nothing", "a constant", "a tuple", "a reducer", "a branch"],
)
def test_undefined_names_of_a_lost_part(line: str, names: tuple[str, ...], sign: str) -> None:
    assert line in TEXT
    text = TEXT.replace(line, "") if line else TEXT
    assert lost(text.replace("%", sign)) == names


def test_lost_result_is_listed_for_texts_printed_by_xla() -> None:
    line = "  ROOT %b = f32[8]{0} broadcast(%r), dimensions={}\n"
    printed = TEXT.replace("m\n", "m, entry_computation_layout={(f32[8], pred[])->f32[8]}\n", 1)
    assert lost(printed) == ()
    assert lost(printed.replace(line, "")) == ("ROOT of main",)
    assert lost(TEXT.replace(line, "")) == ()


def test_operands_are_looked_up_on_request() -> None:
    text = TEXT.replace("  %zero = f32[] constant(0)\n", "").replace("to_apply=%sum", "to_apply=%a")
    assert lost(text) == ("a", "zero")
    assert lost(text, with_operands=False) == ("a",)


@settings(max_examples=50, deadline=None)
@given(modules(), st.sampled_from(sorted(STYLES)))
def test_whole_modules_lack_nothing(module: Module, style: str) -> None:
    assert lost(print_module(module, STYLES[style])) == ()


@pytest.mark.parametrize("path", [*sample_hlo(), *corpus_hlo()], ids=lambda p: p.name[-40:])
def test_real_modules_lack_nothing(path: Path) -> None:
    assert lost(read(path).decode("utf-8", "replace")) == ()
