"""Shardings, meshes and drawings in logs, as JAX prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.logs.log import parse_log
from hlo_lens.logs.shardings import drawn_sharding, drawn_shardings, parse_value
from hlo_lens.text.errors import DumpSyntaxError
from tests import corpus
from tests.timing import cpu_seconds

if TYPE_CHECKING:
    from hlo_lens.logs.shardings import DrawnSharding, ShardingLog


def shardings(text: str) -> ShardingLog:
    found = parse_log(text).shardings
    assert found is not None
    return found


# ---- values ------------------------------------------------------------------------------------

MESHES = {
    "0.4": ("Mesh('x': 4, 'y': 2)", ""),
    "0.6": ("Mesh('x': 4, 'y': 2, axis_types=(Auto, Explicit))", "Auto, Explicit"),
    "repr 0.10": (
        "Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'), axis_types=(Auto, Manual))",
        "Auto, Manual",
    ),
    "more fields": ("Mesh('x': 4, 'y': 2, axis_types=(AxisType.Auto,), num_cores=None)", "Auto"),
    "sizes": ("OrderedDict([('x', 4), ('y', 2)])", ""),
    "sizes of Python 3.12": ("OrderedDict({'x': 4, 'y': 2})", ""),
}


@pytest.mark.parametrize(("text", "types"), MESHES.values(), ids=MESHES)
def test_meshes_of_all_versions_are_read(text: str, types: str) -> None:
    value = parse_value(text)
    assert value.mesh is not None
    assert (value.words, value.axis_types) == ("x=4, y=2", types)


SPECS = {
    "PartitionSpec('x', None)": "P('x', None)",
    "P('x',)": "P('x',)",
    "P(('x', 'y'), None)": "P(('x', 'y'), None)",
    "PartitionSpec()": "P()",
    'P("x", ())': "P('x', None)",
    "PartitionSpec(('x', 'y'), UNCONSTRAINED)": "P(('x', 'y'), UNCONSTRAINED)",
    "PartitionSpec(<UnconstrainedPartitionSingleton>, None)": "P(UNCONSTRAINED, None)",
    "P('x', unreduced={'y'}, reduced={'z'}, unreduced_kind=sum)": "P('x', unreduced={'y'})",
    "NamedSharding(mesh=Mesh('x': 4, 'y': 2), spec=P('x', 'y'), memory_kind=device)": (
        "P('x', 'y') over x=4, y=2"
    ),
    "NamedSharding(mesh={'dev': 8}, partition_spec=PartitionSpec(('dev',),))": (
        "P(('dev',),) over dev=8"
    ),
}


@pytest.mark.parametrize(("text", "words"), SPECS.items(), ids=SPECS)
def test_specs_and_shardings_are_read(text: str, words: str) -> None:
    assert parse_value(text).words == words


@pytest.mark.parametrize(
    "text",
    [
        "NamedSharding(mesh, PartitionSpec('x'))",
        "Mesh(devices, ('x', 'y'))",
        "Mesh('x': 4, 'x': 2)",
        "Mesh('x': 0)",
        "P(axis_names[0])",
        "P('x', other)",
    ],
)
def test_source_code_is_no_value(text: str) -> None:
    with pytest.raises(DumpSyntaxError):
        parse_value(text)
    found = shardings(f"x = {text}\ny: PartitionSpec('x',)\n")
    assert found.code_calls == 1
    assert found.values[-1].line == 2


# ---- logs --------------------------------------------------------------------------------------


def test_values_are_found_anywhere_in_a_line_with_the_text_before() -> None:
    log = shardings(
        "INFO a: NamedSharding(mesh=Mesh('x': 4), spec=P('x',)) and b = P(None, 'x'), "
        "then\nmesh=Mesh('x': 4)\n"
    )
    assert [(one.line, one.value.kind, one.label) for one in log.values] == [
        (1, "NamedSharding", "INFO a"),
        (1, "PartitionSpec", "and b"),
        (2, "Mesh", "mesh"),
    ]


def test_shardings_of_xla_are_read_in_lines_of_a_tracer() -> None:
    line = "f => arg_shardings : ({devices=[4,1]<=[4]}, {replicated})\n"
    log = shardings(f"PartitionSpec()\n{line}%x = f32[8] copy(%p), sharding={{replicated}}\n")
    assert [(one.line, one.value.words) for one in log.values[1:]] == [
        (2, "{devices=[4,1]<=[4]}"),
        (2, "{replicated}"),
    ]


def test_dumps_of_python_objects_are_skipped() -> None:
    line = "    \"mesh - <class 'Mesh'>\": \"Mesh('x': 4)\",\n"
    assert shardings(f"PartitionSpec()\n{{\n{line}}}\n").values[1:] == ()


@pytest.mark.parametrize(
    ("text", "is_mesh"),
    [
        ("mesh.shape: OrderedDict([('x', 4), ('y', 2)])\n", True),
        ("Created Mesh ('m'):\n  Shape: OrderedDict([('x', 4), ('y', 2)])\n", True),
        ("metrics: OrderedDict([('step', 4), ('epoch', 2)])\n", False),
        ("mesh of points: OrderedDict([('x', 0.5), ('y', 2)])\n", False),
        ("a mesh\n\n\n\nOrderedDict([('step', 4)])\n", False),
    ],
)
def test_sizes_of_axes_are_a_mesh_near_the_word(text: str, is_mesh: bool) -> None:
    values = shardings(f"PartitionSpec('x',)\n{text}").values[1:]
    assert [one.value.kind for one in values] == ["Mesh"] * is_mesh


# ---- drawings ----------------------------------------------------------------------------------

SQUARE = """\
┌──────────┬──────────┐
│          │          │
│ CPU 0,1  │ CPU 2,3  │
├──────────┼──────────┤
│ CPU 4,5  │ CPU 6,7  │
│          │          │
└──────────┴──────────┘
"""
WRAPPED = """\
┌────────┐
│  TPU   │
│0,1,2,3,│
│4,5,6,7,│
│8,9,10,1│
│   1    │
└────────┘
"""


@pytest.mark.parametrize("mark", ["", "# ", "> "])
def test_boxes_are_read(mark: str) -> None:
    text = "".join(f"{mark}{line}\n" for line in SQUARE.splitlines())
    (boxes,) = shardings(f"x:\n{text}end\n").boxes
    assert (boxes.rows, boxes.columns, boxes.texts[1]) == (2, 2, "CPU 2,3")
    assert boxes.devices == ((0, 1), (2, 3), (4, 5), (6, 7))
    sharding = drawn_sharding(boxes)
    assert sharding is not None
    assert sharding.text == "{devices=[2,2,2]<=[8] last_tile_dim_replicate}"


def test_ids_that_are_broken_over_lines_are_joined() -> None:
    (boxes,) = shardings(WRAPPED + "TPU: PartitionSpec()\n").boxes
    assert boxes.devices == (tuple(range(12)),)


@pytest.mark.parametrize(
    "text",
    [
        "┌──┐\n│ a\n└──┘\n",
        "┌──┐\n",
        "┌──┐\n└──┘\n",
        "┌──┐\n│ a│\n│ a long line│\n└──┘\n",
        "+---+\nnot a table\n+---+\n",
    ],
)
def test_other_boxes_are_skipped(text: str) -> None:
    assert shardings(f"PartitionSpec('x',)\n{text}").boxes == ()


# ---- agreement of drawings ---------------------------------------------------------------------

ROW = "┌───────┬───────┐\n│ CPU 0 │ CPU 1 │\n└───────┴───────┘\n"
COLUMN = "┌───────┐\n│ CPU 0 │\n├───────┤\n│ CPU 1 │\n└───────┘\n"
GRID = """\
┌───────┬───────┐
│ CPU 0 │ CPU 2 │
├───────┼───────┤
│ CPU 1 │ CPU 3 │
└───────┴───────┘
"""
MESH = "Mesh('a': 2)"


def drawn(text: str) -> DrawnSharding:
    (drawing,) = drawn_shardings(shardings(text)).drawings
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
    assert (drawing.agrees_with == 1) == agrees


def test_spec_without_a_mesh_is_over_the_only_mesh() -> None:
    mesh = "m = Mesh('x': 2, 'y': 2)\n"
    assert drawn(f"{mesh}a P('y', 'x')\n{GRID}").sharding_text == "P('y', 'x') over x=2, y=2"
    assert drawn(f"{mesh}a P('x', 'y')\n{GRID}").agrees_with is None
    assert drawn(f"{mesh}Mesh('x': 4)\na P('y', 'x')\n{GRID}").agrees_with is None


# ---- the seeds ---------------------------------------------------------------------------------

SEEDS = corpus.SHARED / "seeds"


@corpus.needs_corpus
def test_seed_of_a_custom_partitioning_has_its_drawings() -> None:
    (path,) = SEEDS.glob("000_*")
    log = parse_log(path.read_bytes(), path=str(path))
    found = log.shardings
    assert found is not None
    assert {one.value.words for one in found.values} == {
        "x=4, y=1",
        "P('x', None) over x=4, y=1",
        "P('x', 'y') over x=4, y=1",
        "{devices=[4,1]<=[4]}",
    }
    drawn = drawn_shardings(found).drawings
    assert [d.sharding for d in drawn] == [
        "{devices=[4,1]<=[4]}",
        "{devices=[1,4]<=[4]}",
        "{devices=[4,1]<=[4]}",
    ]
    assert [d.agrees_with for d in drawn] == [76, None, 1941]


HOSTILE = {
    "calls in calls": "P(" * 20_000,
    "names in names": "NamedSharding(" * 5000,
    "open strings": "P('" + "\\'" * 20_000,
    "shallow calls": "P((\n" * 20_000,
    "boxes without end": "┌──┐\n" * 5000,
    "a tall box": "┌" + "─" * 2000 + "┐\n" + ("│" + " " * 2000 + "│\n") * 1000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    assert cpu_seconds(lambda: shardings(f"{text}\nMesh('x': 4)\n")) < 4
