"""Meshes printed in parts: sizes, types, ids of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.logs.logs_log import parse_log

if TYPE_CHECKING:
    from hlo_lens.logs.jax_values import JaxValue

SPEC = "PartitionSpec('x',)\n"
"""Signs by which a text is a log of shardings."""


def meshes(text: str) -> list[JaxValue]:
    shardings = parse_log(SPEC + text).shardings
    assert shardings is not None
    assert shardings.gaps == ()
    return [value for value in shardings.values if value.mesh is not None]


def one(text: str) -> JaxValue:
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
    value = one(text)
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
        "mesh: OrderedDict([('x', 999999999)])\n",
        "mesh: OrderedDict([('x', 4\n",
        "a mesh\n\n\n\nOrderedDict([('step', 4)])\n",
    ],
)
def test_other_dictionaries_are_no_mesh(text: str) -> None:
    assert meshes(text) == []


@pytest.mark.parametrize(
    ("words", "types"),
    [
        (", Types: (Explicit, Auto)", ("Explicit", "Auto")),
        (", axis_types=(AxisType.Auto, AxisType.Manual)", ("Auto", "Manual")),
        (", Types: (Auto,)", ()),
        (", types of (3, 4)", ()),
    ],
)
def test_types_of_the_axes_are_read_from_the_same_line(words: str, types: tuple[str, ...]) -> None:
    mesh = one(f"mesh OrderedDict([('x', 4), ('y', 2)]){words}\n").mesh
    assert mesh is not None
    assert mesh.axis_types == types


HEADS = {
    "sizes": "Mesh: OrderedDict([('x', 2), ('y', 3)])\n",
    "repr": "Mesh('x': 2, 'y': 3)\n",
}
TABLES = {
    "ids": "  Device IDs:\n[[0 2 4]\n [1 3 5]]\n",
    "ids on the line": "device_ids: [[0 2 4]\n [1 3 5]]\n",
    "repr of the ids": "device ids: array([[0, 2, 4],\n       [1, 3, 5]])\n",
    "devices": (
        "[[CpuDevice(id=0) CpuDevice(id=2) CpuDevice(id=4)]\n"
        " [CpuDevice(id=1) CpuDevice(id=3) CpuDevice(id=5)]]\n"
    ),
    "devices of a TPU": "Devices:\n["
    + "\n ".join(
        "["
        + "\n  ".join(
            f"TpuDevice(id={k}, process_index=0, coords=({k},0,0), core_on_chip=0)" for k in row
        )
        + "]"
        for row in ((0, 2, 4), (1, 3, 5))
    )
    + "]\n",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_ids_of_devices_below_a_mesh_are_its_own(head: str, table: str) -> None:
    value = one(head + table + "[[9 9 9]]\n")
    assert value.mesh is not None
    assert value.mesh.mesh.device_ids == (0, 2, 4, 1, 3, 5)
    assert value.mesh.text == "x=2, y=3 [0,2,4,1,3,5]"
    log = parse_log(SPEC + head + table + "end\n")
    assert log.understood_lines == 1 + (head + table).count("\n")


@pytest.mark.parametrize(
    "table",
    [
        "  Device IDs:\n[[0 1 2]\n [3 4 5]]\n",
        "  losses:\n[[0 2 4]\n [1 3 5]]\n",
        "  Device IDs:\n[[0 2 4]\n [1 3 4]]\n",
        "  Device IDs:\n[[0 2]\n [4 1]\n [3 5]]\n",
        "  Device IDs:\n[[0 2 4]\n [1 3]]\n",
        "  Device IDs:\n[[0 2 4]\n [1",
        "  Device IDs:\n",
        "\n\n\n  Device IDs:\n[[0 2 4]\n [1 3 5]]\n",
    ],
)
def test_other_arrays_are_not_the_ids_of_a_mesh(table: str) -> None:
    value = one(HEADS["sizes"] + table)
    assert value.mesh is not None
    assert value.mesh.mesh.device_ids == (0, 1, 2, 3, 4, 5)


def test_mesh_without_devices_has_no_ids() -> None:
    value = one("AbstractMesh('x': 2)\ndevices:\n[1 0]\n")
    assert value.mesh is not None
    assert value.mesh.mesh.device_ids == (0, 1)


def test_one_axis_of_devices_in_another_order() -> None:
    value = one("Mesh('x': 4)\ndevices: [3 2 1 0]\n")
    assert value.mesh is not None
    assert value.mesh.text == "x=4 [3,2,1,0]"


def test_long_lists_of_devices_are_shortened() -> None:
    ids = " ".join(map(str, reversed(range(20))))
    value = one(f"Mesh('x': 20)\ndevices: [{ids}]\n")
    assert value.mesh is not None
    assert value.mesh.text == ("x=20 [19,18,17,16,15,14,13,12,11,10,9,8,7,6,5,4,... 20 in all]")
