"""Agreement of drawn boxes with the shardings of a log."""

from __future__ import annotations

import pytest

from hlo_lens.logs.drawn_shardings import DrawnSharding, drawn_shardings, sharding_words
from hlo_lens.logs.logs_log import parse_log

ROW = "┌───────┬───────┐\n│ CPU 0 │ CPU 1 │\n└───────┴───────┘\n"
COLUMN = "┌───────┐\n│ CPU 0 │\n├───────┤\n│ CPU 1 │\n└───────┘\n"
SQUARE = """\
┌───────┬───────┐
│ CPU 0 │ CPU 2 │
├───────┼───────┤
│ CPU 1 │ CPU 3 │
└───────┴───────┘
"""
SHARED_ROW = "┌─────────┬─────────┐\n│ CPU 0,1 │ CPU 2,3 │\n└─────────┴─────────┘\n"
MESH = "Mesh('a': 2)"


def drawn(text: str) -> DrawnSharding:
    log = parse_log(text).shardings
    assert log is not None
    (drawing,) = drawn_shardings(log).drawings
    return drawing


@pytest.mark.parametrize(
    ("spec", "boxes", "agrees"),
    [
        ("P('a')", ROW, True),
        ("P('a',)", COLUMN, True),
        ("P('a', None)", COLUMN, True),
        ("P('a', None)", ROW, False),
        ("P(None, 'a')", ROW, True),
        ("P(None, 'a')", COLUMN, False),
        ("P()", ROW, False),
    ],
)
def test_a_row_of_boxes_is_a_value_of_one_dimension_too(
    spec: str, boxes: str, agrees: bool
) -> None:
    drawing = drawn(f"NamedSharding(mesh={MESH}, spec={spec})\n{boxes}")
    assert bool(drawing.agrees_with) == agrees


def test_spec_of_a_row_has_the_dimensions_of_what_it_agrees_with() -> None:
    one = drawn(f"NamedSharding(mesh={MESH}, spec=P('a',))\n{ROW}")
    two = drawn(f"NamedSharding(mesh={MESH}, spec=P(None, 'a'))\n{ROW}")
    assert (one.spec, two.spec) == ("P('a',)", "P(None, 'a')")
    assert one.sharding is not None
    assert one.sharding.text == "{devices=[2]<=[2]}"


def test_spec_without_a_mesh_is_over_the_only_mesh() -> None:
    mesh = "m = Mesh('x': 2, 'y': 2)\n"
    nearest = drawn(f"{mesh}a P('y', 'x')\n{SQUARE}").nearest
    assert nearest is not None
    assert sharding_words(nearest) == "P('y', 'x') over x=2, y=2"
    assert drawn(f"{mesh}a P('x', 'y')\n{SQUARE}").agrees_with == ()
    assert drawn(f"{mesh}Mesh('x': 4)\na P('y', 'x')\n{SQUARE}").agrees_with == ()


@pytest.mark.parametrize(
    ("spec", "boxes", "agrees"),
    [
        ("P('a')", ROW, True),
        ("P('a')", COLUMN, True),
        ("P('a', None)", ROW, False),
        ("P('a', 'b')", ROW, False),
        ("P('b', 'a')", SQUARE, True),
        ("P('a')", SQUARE, False),
        ("P('a')", SHARED_ROW, True),
        ("P('a')", "┌───────┐\n│ CPU 0 │\n└───────┘\n", False),
    ],
)
def test_spec_without_any_mesh_has_the_sizes_of_the_drawing(
    spec: str, boxes: str, agrees: bool
) -> None:
    drawing = drawn(f"s = NamedSharding(mesh, PartitionSpec{spec[1:]})\n{boxes}")
    assert bool(drawing.agrees_with) == agrees
    assert drawing.spec is None


@pytest.mark.parametrize("lead", ["# ", "> ", "    ", "> > ", "// "])
def test_drawings_behind_leads_are_read(lead: str) -> None:
    lines = f"NamedSharding(mesh={MESH}, spec=P('a',))\n{COLUMN}".splitlines()
    drawing = drawn("".join(f"{lead}{line}\n" for line in lines))
    assert drawing.boxes.line == 2
    assert drawing.agrees_with
