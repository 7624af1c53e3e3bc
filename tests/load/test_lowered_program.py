"""The program as lowered (``module.mlir``) in a dump: its meshes name the axes of collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hlo_lens
from tests.load.test_load import write

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """HloModule jit_f, is_scheduled=true, num_partitions=8

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  p = f32[8] parameter(0)
  q = f32[8] all-reduce(p), channel_id=1, replica_groups={{0,1},{2,3},{4,5},{6,7}},
    use_global_device_ids=true, to_apply=add
  ROOT m = f32[8] all-reduce(q), channel_id=2, replica_groups={{0,1,2,3},{4,5,6,7}},
    use_global_device_ids=true, to_apply=add
}
"""
MESHES = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["d"=2, "m"=4]>}}'
BEFORE = (
    f"HloModule jit_f, num_partitions=8, {MESHES}\n\nENTRY e {{\n  p = f32[8] parameter(0)\n}}\n"
)
LOWERED = """#loc = loc(unknown)
module @jit_f attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["d"=2, "m"=4]> loc(#loc)
  sdy.mesh @mesh_0 = <["p"=4, "q"=2]> loc(#loc)
  sdy.mesh @empty_mesh = <[]> loc(#loc)
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a dump whose HLO texts name one of two meshes."""
    return write(
        tmp_path,
        {
            "module_0000.jit_f.before_optimizations.txt": BEFORE,
            "module_0000.jit_f.cpu_after_optimizations.txt": TEXT,
            "module_0000.jit_f/module.mlir": LOWERED,
            "module_0001.jit_f/module.mlir": LOWERED.replace('"q"=2', '"other"=2'),
        },
    )


@pytest.mark.parametrize("name", ["", "module_0000.jit_f.cpu_after_optimizations.txt"])
def test_both_meshes_name_axes(folder: Path, name: str) -> None:
    found = hlo_lens.collectives(folder / name)
    assert [mesh.source for mesh in found.meshes] == ["before_optimizations", "module.mlir"]
    assert [one.axes for one in found.collectives] == [("q",), ("m",)]


def test_archive_has_both_meshes_too(folder: Path, tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for file in sorted(folder.rglob("*.*")):
            if file.is_file() and file.suffix != ".tar":
                archive.add(file, str(file.relative_to(folder)))
    found = hlo_lens.collectives(tmp_path / "a.tar")
    assert [one.axis for one in found.collectives] == ["q", "m"]


def test_lowered_program_of_a_module_that_xla_renumbered(folder: Path) -> None:
    text = folder / "module_0000.jit_f.cpu_after_optimizations.txt"
    text.rename(folder / "module_0003.jit_f.cpu_after_optimizations.txt")
    assert [one.axis for one in hlo_lens.collectives(folder).collectives] == ["q", "m"]


def test_lowered_program_alone_names_the_meshes(folder: Path) -> None:
    (folder / "module_0000.jit_f.before_optimizations.txt").unlink()
    found = hlo_lens.collectives(folder)
    assert [mesh.source for mesh in found.meshes] == ["module.mlir"] * 2
    table = hlo_lens.shardings(folder)
    assert [mesh.axis_names for mesh in table.meshes] == [("d", "m"), ("p", "q")]


def test_lowered_program_has_the_devices_of_all_slices(folder: Path) -> None:
    (folder / "module_0000.jit_f.before_optimizations.txt").unlink()
    text = folder / "module_0000.jit_f.cpu_after_optimizations.txt"
    text.write_text(TEXT.replace("num_partitions=8", "num_partitions=4"))
    assert hlo_lens.shardings(folder).num_devices == 8


def test_groups_by_mesh_axes_name_a_second_mesh(folder: Path) -> None:
    for path in folder.rglob("module.mlir"):
        path.unlink()
    text = folder / "module_0000.jit_f.cpu_after_optimizations.txt"
    printed = TEXT.replace("{{0,1},{2,3},{4,5},{6,7}}", "mesh['p'=4,'q'=2] {'q'}")
    text.write_text(printed.replace("{{0,1,2,3},{4,5,6,7}}", "mesh['d'=2,'m'=4] {'m'}"))
    found = hlo_lens.collectives(folder)
    assert [mesh.source for mesh in found.meshes] == ["before_optimizations", "replica groups"]
    assert [one.axes for one in found.collectives] == [("q",), ("m",)]
