"""The arithmetic of a convolution is what XLA's own cost analysis counts."""

from __future__ import annotations

import random

import pytest

from hlo_lens.program.flops import flops
from tests.oracle import xla
from tests.questions.texts import module_of


def some_convolution(seed: int) -> str:
    """Return a module with one convolution of two spatial dimensions, its window random."""
    pick = random.Random(seed).randint
    groups = pick(1, 2)
    batch, channels, features = pick(1, 3), pick(1, 3), groups * pick(1, 3)
    fields: dict[str, list[str]] = {}
    source, kernel, output = [], [], []
    for _ in range(2):
        size, window, stride = pick(1, 9), pick(1, 5), pick(1, 3)
        low, high, base, dilation = pick(0, 4), pick(0, 4), pick(1, 3), pick(1, 2)
        room = (size - 1) * base + 1 + low + high - ((window - 1) * dilation + 1)
        high += max(0, -room)
        source.append(size)
        kernel.append(window)
        output.append(max(0, room) // stride + 1)
        values = (window, stride, f"{low}_{high}", base, dilation)
        names = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate")
        for name, value in zip(names, values, strict=True):
            fields.setdefault(name, []).append(str(value))
    text = " ".join(f"{name}={'x'.join(values)}" for name, values in fields.items())
    return f"""HloModule m
ENTRY e {{
  p0 = f32[{batch},{source[0]},{source[1]},{groups * channels}] parameter(0)
  p1 = f32[{kernel[0]},{kernel[1]},{channels},{features}] parameter(1)
  ROOT r = f32[{batch},{output[0]},{output[1]},{features}] convolution(p0, p1), window={{{text}}},
    dim_labels=b01f_01io->b01f, feature_group_count={groups}
}}
"""


@pytest.mark.parametrize("seed", range(200))
def test_convolution_costs_what_xla_says(seed: int) -> None:
    text = some_convolution(seed)
    found = flops(module_of(text)).total
    assert found == xla.flops(text)
