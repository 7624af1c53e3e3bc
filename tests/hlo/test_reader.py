"""Readers: the one of parts, and the choice of scanner or grammar."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hlo_lens
from hlo_lens.hlo.text import HloReader
from hlo_lens.shapes.shape import REMEMBERED_LENGTH
from hlo_lens.text.errors import DumpSyntaxError, UsageError

LONG = f"({', '.join(['f32[2]{0}'] * (REMEMBERED_LENGTH // 10))})"


@pytest.mark.parametrize("text", ["f32[2]{0}", LONG], ids=["short", "long"])
def test_a_shape_is_parsed_once(text: str) -> None:
    reader = HloReader()
    assert reader.shape(text) is reader.shape(text)


def test_importing_the_package_loads_no_parser() -> None:
    code = "import hlo_lens, hlo_lens.shapes.sharding, sys; print('lark' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


MODULE = """HloModule m, is_scheduled=true

ENTRY %e (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0), sharding={devices=[2]<=[2]}
  ROOT %r = f32[8]{0} all-reduce(%p), replica_groups=[1,2]<=[2], to_apply=%add
}

"""


def test_a_wrong_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="reader is 'scanner' or 'grammar', found 'lark'"):
        hlo_lens.parse_hlo(MODULE, reader="lark")  # type: ignore[arg-type] # a wrong name


@pytest.mark.parametrize("depth", [40, 41])
def test_computations_inside_one_another_have_a_limit(depth: int) -> None:
    inner = "ROOT c = f32[] constant(0)"
    for _ in range(depth):
        inner = f"ROOT c = f32[] call(), to_apply={{ {inner} }}"
    text = f"HloModule m\n\nENTRY e {{\n  {inner}\n}}\n"
    if depth == 40:
        assert hlo_lens.parse_hlo(text, reader="grammar") == hlo_lens.parse_hlo(text)
        return
    with pytest.raises(DumpSyntaxError, match="printed inside one another deeper than 40"):
        hlo_lens.parse_hlo(text, reader="grammar")
    assert hlo_lens.parse_hlo(text).gaps
