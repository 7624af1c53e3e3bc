"""The reader of parts of a module."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hlo_lens
from hlo_lens.hlo.text import HloReader
from hlo_lens.shapes.shape import REMEMBERED_LENGTH

LONG = f"({', '.join(['f32[2]{0}'] * (REMEMBERED_LENGTH // 10))})"


@pytest.mark.parametrize("text", ["f32[2]{0}", LONG], ids=["short", "long"])
def test_a_shape_is_parsed_once(text: str) -> None:
    reader = HloReader()
    assert reader.shape(text) is reader.shape(text)


def test_importing_the_package_loads_no_parser() -> None:
    code = "import hlo_lens, hlo_lens.shapes.sharding, sys; print('lark' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize("depth", [40, 41])
def test_computations_inside_one_another_have_a_limit(depth: int) -> None:
    inner = "ROOT c = f32[] constant(0)"
    for _ in range(depth):
        inner = f"ROOT c = f32[] call(), to_apply={{ {inner} }}"
    gaps = hlo_lens.parse_hlo(f"HloModule m\n\nENTRY e {{\n  {inner}\n}}\n").gaps
    messages = [gap.message for gap in gaps]
    deep = ["computations are printed inside one another deeper than 40"]
    assert messages == (deep if depth > 40 else [])
