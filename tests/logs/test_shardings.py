"""Shardings, meshes, types and drawings in logs, as JAX prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.logs.log import parse_log
from hlo_lens.logs.sharding_facts import (
    drawn_sharding,
    drawn_shardings,
    logged_arrays,
    sharding_trail,
)
from hlo_lens.logs.shardings import CodeError, parse_value
from hlo_lens.text.errors import DumpSyntaxError
from tests import corpus
from tests.timing import cpu_seconds

if TYPE_CHECKING:
    from hlo_lens.logs.sharding_facts import DrawnSharding
    from hlo_lens.logs.shardings import JaxValue, ShardingLog

SAMPLE = corpus.SAMPLES / "logs" / "custom_partitioning_jax_0_6_2.txt"


def shardings(text: str) -> ShardingLog:
    found = parse_log(text).shardings
    assert found is not None
    return found


def one(text: str) -> JaxValue:
    value = parse_value(text)
    assert value is not None
    return value


# ---- values ------------------------------------------------------------------------------------

MESHES = {
    "0.4": ("Mesh('x': 4, 'y': 2)", ()),
    "0.6": ("Mesh('x': 4, 'y': 2, axis_types=(Auto, Explicit))", ("Auto", "Explicit")),
    "repr 0.10": (
        "Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'), axis_types=(Auto, Manual))",
        ("Auto", "Manual"),
    ),
    "abstract 0.10": (
        "AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto), device_kind=cpu, num_cores=None, "
        "platform=cpu)",
        ("Auto", "Auto"),
    ),
    "axis types of Python": (
        "Mesh('x': 4, 'y': 2, axis_types=(AxisType.Auto, AxisType.Explicit,))",
        ("Auto", "Explicit"),
    ),
}


@pytest.mark.parametrize(("text", "types"), MESHES.values(), ids=MESHES)
def test_meshes_of_all_versions_are_read(text: str, types: tuple[str, ...]) -> None:
    mesh = one(text).mesh
    assert mesh is not None
    assert (mesh.mesh.axis_names, mesh.mesh.axis_sizes) == (("x", "y"), (4, 2))
    assert mesh.axis_types == types
    assert mesh.mesh.device_ids == tuple(range(8))


SPECS = {
    "PartitionSpec('x', None)": ("x", None),
    "P('x',)": ("x",),
    "P(('x', 'y'), None)": (("x", "y"), None),
    "PartitionSpec()": (),
    'P("x", ())': ("x", None),
    "PartitionSpec(('x', 'y'), UNCONSTRAINED)": (("x", "y"), "UNCONSTRAINED"),
    "PartitionSpec(<UnconstrainedPartitionSingleton>, None)": ("UNCONSTRAINED", None),
    "jax.sharding.PartitionSpec('x')": ("x",),
}


@pytest.mark.parametrize(("text", "entries"), SPECS.items(), ids=SPECS)
def test_partition_specs_are_read(text: str, entries: tuple[object, ...]) -> None:
    spec = one(text).spec
    assert spec is not None
    assert spec.entries == entries


def test_unreduced_axes_of_a_spec_are_read_and_printed() -> None:
    spec = one("P('x', unreduced={'y'}, reduced={'z'}, unreduced_kind=sum)").spec
    assert spec is not None
    assert (spec.entries, spec.unreduced, spec.reduced) == (("x",), ("y",), ("z",))
    assert spec.text == "P('x', unreduced={'y'}, reduced={'z'})"


TYPES = {
    "ShapedArray(float32[8,4])": ("f32[8,4]", None, ()),
    "ShapedArray(float32[8@dp,4@mp])": ("f32[8,4]", ("dp", "mp"), ()),
    "ShapedArray(bfloat16[8@(dp,mp),4])": ("bf16[8,4]", (("dp", "mp"), None), ()),
    "ShapedArray(float32[2,3]{mp,dp})": ("f32[2,3]", None, ("mp", "dp")),
    "float32[2,3]{V:(x,y)}": ("f32[2,3]", None, ("x", "y")),
    "float32[2]{V:x}": ("f32[2]", None, ("x",)),
    "ShapedArray(int32[], weak_type=True)": ("s32[]", None, ()),
    "float8_e4m3fn[16]": ("f8e4m3fn[16]", None, ()),
    "bool[16@x]": ("pred[16]", ("x",), ()),
    "f32[20,16]{1,0}": ("f32[20,16]", None, ()),
}


@pytest.mark.parametrize(("text", "expected"), TYPES.items(), ids=TYPES)
def test_types_of_all_versions_are_read(text: str, expected: tuple[object, ...]) -> None:
    value = one(text)
    assert value.shape is not None
    entries = None if value.spec is None else value.spec.entries
    assert (value.shape.to_text(layout=False), entries, value.manual_axes) == expected


def test_struct_has_shape_sharding_and_the_part_of_a_device() -> None:
    value = one(
        "ShapeDtypeStruct(shape=(20, 16), dtype=bfloat16, sharding=NamedSharding(mesh=Mesh('x': 4, "
        "'y': 2), spec=P('x', 'y'), memory_kind=device))"
    )
    local = value.device_shape()
    assert local is not None
    assert local.to_text(layout=False) == "bf16[5,8]"
    assert (value.kind, value.memory_kind) == ("ShapeDtypeStruct", "device")


@pytest.mark.parametrize(
    "text",
    [
        "NamedSharding(mesh, P('x'))",
        "Mesh(devices, ('x', 'y'))",
        "P(axis_names[0])",
        "P('x', other)",
        "ShapedArray(shape, dtype)",
        "ShapeDtypeStruct((2, 3), jnp.float32)",
    ],
)
def test_source_code_is_no_value(text: str) -> None:
    with pytest.raises((CodeError, DumpSyntaxError)):
        parse_value(text)
    assert parse_log(f"x = {text}\ny: P('x',)\n").gaps == ()


# ---- logs --------------------------------------------------------------------------------------


def test_values_are_found_anywhere_in_a_line_with_the_text_before() -> None:
    log = shardings(
        "INFO a: NamedSharding(mesh=Mesh('x': 4), spec=P('x',)) and b = P(None, 'x'), "
        "then\nmesh=Mesh('x': 4)\n"
    )
    assert [(value.line, value.kind, value.label) for value in log.values] == [
        (1, "NamedSharding", "INFO a"),
        (1, "PartitionSpec", "and b"),
        (2, "Mesh", "mesh"),
    ]


def test_value_that_is_cut_off_is_a_gap() -> None:
    log = parse_log("a: P('x',)\nb: NamedSharding(mesh=Mesh('x': 4), spec=PartitionSpec('x'")
    assert [gap.line for gap in log.gaps] == [2]


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


def test_boxes_are_read() -> None:
    (boxes,) = shardings(f"x:\n{SQUARE}end\n").boxes
    assert (boxes.rows, boxes.columns, boxes.platform) == (2, 2, "CPU")
    assert [cell.devices for cell in boxes.cells] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    sharding = drawn_sharding(boxes)
    assert sharding is not None
    assert sharding.text == "{devices=[2,2,2]<=[8] last_tile_dim_replicate}"


def test_ids_that_are_broken_over_lines_are_joined() -> None:
    (boxes,) = shardings(WRAPPED + "TPU: P()\n").boxes
    assert boxes.cells[0].devices == tuple(range(12))


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
    assert shardings(f"P('x',)\n{text}").boxes == ()


# ---- the trail ---------------------------------------------------------------------------------


def test_trail_of_the_sample_has_the_calls_of_its_callbacks() -> None:
    trail = sharding_trail(shardings(SAMPLE.read_text("utf-8")))
    assert [(c.function, c.is_answer, c.times) for c in trail.calls] == [
        ("infer_sharding_from_operands", False, 4),
        ("OUT_infer_sharding_from_operands", True, 4),
        ("partition", False, 1),
        ("partition_OUTPUT", True, 1),
    ]
    (change,) = trail.changes
    assert (change.said, change.then) == ("P('x', 'y')", "P('x', None)")
    assert change.places_alike is False
    assert [check.agrees for check in trail.checks] == [True]


def test_axis_of_size_one_moves_no_element() -> None:
    text = (
        "f => result_sharding : NamedSharding(mesh=Mesh('x': 4, 'y': 1), spec=P('x', 'y'))\n"
        "g => result_sharding : NamedSharding(mesh=Mesh('x': 4, 'y': 1), spec=P('x', None))\n"
    )
    (change,) = sharding_trail(shardings(text)).changes
    assert change.places_alike is True


def test_device_shape_that_contradicts_the_sharding_is_reported() -> None:
    text = (
        "f => result_shape : ShapedArray(float32[20,16])\n"
        "f => result_sharding : NamedSharding(mesh=Mesh('x': 4), spec=P('x', None))\n"
        "f => tiled_results : [ShapedArray(float32[20,4])]\n"
    )
    (check,) = sharding_trail(shardings(text)).checks
    assert check.agrees is False
    assert check.expected == "f32[5,16]"


# ---- arrays ------------------------------------------------------------------------------------

ARRAYS = """\
a.sharding: NamedSharding(mesh=Mesh('dp': 4, 'mp': 2), spec=PartitionSpec('dp', 'mp'))
jax.typeof(a): ShapedArray(float32[8@dp,4@mp])
b.sharding: NamedSharding(mesh=Mesh('dp': 4, 'mp': 2), spec=PartitionSpec('dp', 'mp'))
jax.typeof(b): ShapedArray(float32[8,4])
Output c type: ShapedArray(bfloat16[8@dp,6])
"""


def test_type_and_sharding_of_one_array_are_joined() -> None:
    arrays = logged_arrays(shardings(ARRAYS)).arrays
    assert [(a.array, a.type_says) for a in arrays] == [
        ("a", "agrees"),
        ("b", "has no axes"),
        ("c", None),
    ]
    assert [a.device_shape for a in arrays] == [
        "f32[2,2]",
        "f32[2,2]",
        "bf16[2,6]",
    ]


# ---- meshes printed in parts -------------------------------------------------------------------

SPEC = "PartitionSpec('x',)\n"
"""Signs by which a text is a log of shardings."""


def meshes(text: str) -> list[JaxValue]:
    log = shardings(SPEC + text)
    assert log.gaps == ()
    return [value for value in log.values if value.mesh is not None]


def only_mesh(text: str) -> JaxValue:
    (value,) = meshes(text)
    return value


SIZES = {
    "Python 3.11": "mesh.shape: OrderedDict([('x', 4), ('y', 2)])\n",
    "Python 3.12": "mesh.shape: OrderedDict({'x': 4, 'y': 2})\n",
    "words before": "Created Mesh ('m'):\n  Shape: OrderedDict([('x', 4), ('y', 2)]), Names: ()\n",
    "in a sentence": "Using Mesh: ('x', 'y') with shape OrderedDict([('x', 4), ('y', 2)])\n",
}


@pytest.mark.parametrize("text", SIZES.values(), ids=SIZES)
def test_sizes_of_axes_are_a_mesh(text: str) -> None:
    value = only_mesh(text)
    assert value.mesh is not None
    assert value.mesh.text == "x=4, y=2"
    assert (value.kind, value.mesh.axis_types) == ("Mesh", ())
    assert value.line == 1 + text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "metrics: OrderedDict([('step', 4), ('epoch', 2)])\n",
        "mesh of points: OrderedDict([('x', 0.5), ('y', 2)])\n",
        "mesh: OrderedDict([('x', 4), ('x', 2)])\n",
        "mesh: OrderedDict([('x', 0)])\n",
        "a mesh\n\n\n\nOrderedDict([('step', 4)])\n",
    ],
)
def test_other_dictionaries_are_no_mesh(text: str) -> None:
    assert meshes(text) == []


HEADS = {
    "sizes": "Mesh: OrderedDict([('x', 2), ('y', 3)])\n",
    "repr": "Mesh('x': 2, 'y': 3)\n",
}
TABLES = {
    "ids": "  Device IDs:\n[[0 2 4]\n [1 3 5]]\n",
    "ids on the line": "device_ids: [[0 2 4]\n [1 3 5]]\n",
    "repr of the ids": "device ids: array([[0, 2, 4],\n       [1, 3, 5]])\n",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_ids_of_devices_below_a_mesh_are_its_own(head: str, table: str) -> None:
    value = only_mesh(head + table + "[[9 9 9]]\n")
    assert value.mesh is not None
    assert value.mesh.mesh.device_ids == (0, 2, 4, 1, 3, 5)
    assert value.mesh.text == "x=2, y=3 [0, 2, 4, 1, 3, 5]"
    log = parse_log(SPEC + head + table + "end\n")
    assert log.understood_lines == 1 + (head + table).count("\n")


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
    assert bool(drawing.agreeing) == agrees


def test_spec_without_a_mesh_is_over_the_only_mesh() -> None:
    mesh = "m = Mesh('x': 2, 'y': 2)\n"
    assert drawn(f"{mesh}a P('y', 'x')\n{GRID}").sharding_text == "P('y', 'x') over x=2, y=2"
    assert drawn(f"{mesh}a P('x', 'y')\n{GRID}").agreeing == ()
    assert drawn(f"{mesh}Mesh('x': 4)\na P('y', 'x')\n{GRID}").agreeing == ()


# ---- the seeds ---------------------------------------------------------------------------------

SEEDS = corpus.SHARED / "seeds"


@corpus.needs_corpus
def test_seed_of_a_custom_partitioning_has_its_changes() -> None:
    (path,) = SEEDS.glob("000_*")
    log = parse_log(path.read_bytes(), path=str(path))
    found = log.shardings
    assert found is not None
    assert log.gaps == ()
    assert found.dumps == 24
    trail = sharding_trail(found)
    assert [(c.function, c.times) for c in trail.calls] == [
        ("infer_sharding_from_operands", 3),
        ("OUT_custom_partitioning_infer_sharding_from_operands", 3),
        ("_custom_partitioning_partition", 1),
        ("partition_defined_function", 1),
        ("_custom_partitioning_partition_OUTPUT", 1),
    ]
    assert [c.places_alike for c in trail.changes] == [True, True]
    assert [c.agrees for c in trail.checks] == [True, True]
    drawn = drawn_shardings(found).drawings
    assert [d.sharding for d in drawn] == [
        "{devices=[4,1]<=[4]}",
        "{devices=[1,4]<=[4]}",
        "{devices=[4,1]<=[4]}",
    ]
    assert [bool(d.agreeing) for d in drawn] == [True, False, True]


@corpus.needs_corpus
def test_seed_of_a_tutorial_has_its_arrays() -> None:
    (path,) = SEEDS.glob("003_*")
    found = parse_log(path.read_bytes(), path=str(path)).shardings
    assert found is not None
    by_line = {array.line: array for array in logged_arrays(found).arrays}
    assert (by_line[353].array, by_line[353].type_says) == ("arr_sharded_explicit", "agrees")
    assert by_line[358].type_says == "has no axes"
    assert not any(array.type_says == "differs" for array in by_line.values())


HOSTILE = {
    "calls in calls": "P(" * 20_000,
    "names in names": "NamedSharding(" * 5000,
    "open strings": "P('" + "\\'" * 20_000,
    "dumps without end": "  \"a - <class 'x'>\": 1\n" * 20_000,
    "boxes without end": "┌──┐\n" * 5000,
    "a tall box": "┌" + "─" * 2000 + "┐\n" + ("│" + " " * 2000 + "│\n") * 1000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    assert cpu_seconds(lambda: shardings(f"{text}\nMesh('x': 4)\n")) < 4


def test_a_mesh_may_be_a_dictionary() -> None:
    text = "NamedSharding(mesh={'dev': 8}, partition_spec=PartitionSpec(('dev',),))"
    (value,) = shardings(text).values
    assert value.mesh is not None
    assert value.mesh.mesh.axis_sizes == (8,)
    assert value.spec is not None
    assert value.spec.entries == (("dev",),)


@pytest.mark.parametrize(
    ("before", "label"),
    [
        ("params/Dense_0/kernel: ", "params/Dense_0/kernel"),
        ("AttributeError: the sharding is ", ""),
        ("Please note that the compiler has now chosen for this array ", ""),
    ],
)
def test_a_sentence_is_no_name_of_an_array(before: str, label: str) -> None:
    (value,) = shardings(
        f"{before}NamedSharding(mesh=Mesh('x': 4), spec=PartitionSpec('x',))"
    ).values
    assert value.label == label
