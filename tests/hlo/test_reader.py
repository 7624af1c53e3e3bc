"""The reader of a module: caches and errors."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
