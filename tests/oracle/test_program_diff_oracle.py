"""Texts of one program in several of XLA's printing styles are equal programs."""

from __future__ import annotations

import pytest

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.matching.program_diff import program_diff
from tests.corpus import SAMPLES, read
from tests.oracle import xla

STYLES: dict[str, tuple[str, dict[str, bool]]] = {
    "default": ("default", {}),
    "without layouts": ("default", {"include_layout_in_shapes": False}),
    "without metadata": ("default", {"print_metadata": False}),
    "without percent": ("default", {"print_percent": False}),
    "operand shapes": ("default", {"print_operand_shape": True}),
    "large constants": ("default", {"print_large_constants": True}),
}
TEXTS = ("cpu/tp_mlp",)  # others print asynchronous operations in another way


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("folder", TEXTS)
def test_another_style_of_xla_is_no_change(folder: str, style: str) -> None:
    (path,) = (SAMPLES / folder).glob("*after_optimizations.txt")
    text = read(path).decode()
    name, options = STYLES[style]
    module, other = parse_hlo(text), parse_hlo(xla.reprinted(text, name, **options))
    assert other.gaps == ()
    for base, head in ((module, other), (other, module)):
        found = program_diff(base, head)
        assert found.groups == ()
        assert found.identical
        assert found.unchanged + found.left_out_base == base.instruction_count


@pytest.mark.parametrize("folder", TEXTS)
def test_configs_that_are_left_out_of_a_style_that_prints_them_are_gone(folder: str) -> None:
    (path,) = (SAMPLES / folder).glob("*after_optimizations.txt")
    text = read(path).decode()
    other = xla.reprinted(text, "default", print_backend_config=False)
    found = program_diff(parse_hlo(text), parse_hlo(other))
    assert found.groups
    for group in found.groups:
        assert {change.split(".")[0].split(" ")[0] for change in group.changes} == {
            "backend_config"
        }
