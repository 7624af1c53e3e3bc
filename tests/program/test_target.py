"""Target and toolchain from the files next to a dump."""

from __future__ import annotations

import io
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.load.devices import device_assignment
from hlo_lens.program.summary import own_target, target_notes
from hlo_lens.questions.diff.sides import snapshot

if TYPE_CHECKING:
    from pathlib import Path

KEY = "module_0000.jit_f.cl_123"
TARGET = """topology_args {{
  chip_config {{ version: {version}
    variant: "lite" }}
  chips_per_host_bounds {{ x: 2 y: 2 z: 1 }}
  host_bounds {{ x: 1 y: 2 z: 1 }}
}}
"""
HLO = """HloModule jit_f, is_scheduled=true

ENTRY main {
  p = f32[8]{0:T(256)} parameter(0)
  ROOT n = f32[8]{0:T(256)} negate(p)
}
"""


def _files(version: str) -> dict[str, str]:
    return {
        f"{KEY}.after_optimizations.txt": HLO,
        f"{KEY}.target_arguments.txt": TARGET.format(version=version),
    }


def _folder(path: Path, files: dict[str, str]) -> str:
    path.mkdir()
    for name, text in files.items():
        (path / name).write_text(text)
    return str(path)


def _tar(path: Path, files: dict[str, str], mode: str) -> str:
    with tarfile.open(path, f"w:{mode}") as tar:  # type: ignore[call-overload] # a mode of tarfile
        for name, text in files.items():
            member = tarfile.TarInfo(f"dump/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return str(path)


def _zip(path: Path, files: dict[str, str]) -> str:
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return str(path)


def _target(path: str) -> str | None:
    (module,) = snapshot(path).modules
    return module.target


def test_the_topology_is_known_however_a_dump_is_packed(tmp_path: Path) -> None:
    files = _files("TPU_V5")
    paths = [
        _folder(tmp_path / "d", files),
        str(tmp_path / "d" / f"{KEY}.after_optimizations.txt"),
        _tar(tmp_path / "a.tar", files, ""),
        _tar(tmp_path / "a.tar.gz", files, "gz"),
        _zip(tmp_path / "a.zip", files),
    ]
    assert {path: _target(path) for path in paths} == dict.fromkeys(
        paths, "TPU_V5 lite 2x4x1 chips"
    )


ONE = """tpu_topology_args {
  version: TPU_V5
  chips_per_host_bounds { x: 2 y: 2 z: 1 }
  host_bounds { x: 2 y: 2 z: 1 }
  wrap { WRAP }
}
"""


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (ONE, "TPU_V5 4x4x1 chips"),
        (ONE.replace("WRAP", "x: true y: true z: true"), "TPU_V5 4x4x1 chips, wrap xyz"),
        (ONE.replace("WRAP", "z: true x: false"), "TPU_V5 4x4x1 chips, wrap z"),
        (
            f"multislice_topology {{ {f'slice_info {{ {ONE} }} ' * 4} }} {ONE}",
            "TPU_V5 4 slices of 4x4x1 chips",
        ),
        (
            f"multislice_topology {{ {f'slice_info {{ {ONE} }} ' * 2} }}",
            "TPU_V5 2 slices of 4x4x1 chips",
        ),
        (f"multislice_topology {{ slice_info {{ {ONE} }} }} {ONE}", "TPU_V5 4x4x1 chips"),
        (
            f"slice_info {{ {ONE} }} slice_info {{ {ONE.replace('x: 2 y: 2 z: 1 }', 'x: 1 }')} }}",
            "TPU_V5 1 slice of 4x4x1 chips and 1 slice of 1x1x1 chips",
        ),
    ],
)
def test_chips_are_those_of_a_slice_and_wrap_is_part_of_the_target(
    text: str, target: str, tmp_path: Path
) -> None:
    files = _files("TPU_V5") | {f"{KEY}.target_arguments.txt": text}
    assert _target(_folder(tmp_path / "d", files)) == target


@pytest.mark.parametrize("mode", ["", "xz"])
def test_archives_of_two_topologies_are_incomparable(tmp_path: Path, mode: str) -> None:
    base = _tar(tmp_path / "a.tar", _files("TPU_V5"), mode)
    head = _tar(tmp_path / "b.tar", _files("TPU_V6"), mode)
    (module,) = hlo_lens.diff(base, head).modules
    assert module.differences == ("target TPU_V5 lite 2x4x1 chips -> TPU_V6 lite 2x4x1 chips",)


@pytest.mark.parametrize("count", ["x: word", "x: 0", "x: -1", f"x: {'9' * 5000}", "x:", ""])
def test_damaged_arguments_are_a_note(tmp_path: Path, count: str) -> None:
    files = _files("TPU_VERSION_VIPERFISH")
    name = f"{KEY}.target_arguments.txt"
    files[name] = files[name].replace("bounds { x: 2", f"bounds {{ {count}")
    (module,) = hlo_lens.load(_folder(tmp_path / "dump", files)).modules
    assert own_target(module) is None
    assert [*target_notes(module)] == [
        "target_arguments.txt is damaged or of an unknown device: its target is not known"
    ]
    assert snapshot(module) is not None


@pytest.mark.parametrize("device", ["word", "9" * 5000, ""])
def test_damaged_device_ids_are_not_known(tmp_path: Path, device: str) -> None:
    files = _files("TPU_VERSION_VIPERFISH")
    files[f"{KEY}.execution_options.txt"] = (
        f"device_assignment {{\n computation_devices {{\n replica_device_ids: {device}\n }}\n}}\n"
    )
    (module,) = hlo_lens.load(_folder(tmp_path / "dump", files)).modules
    assert device_assignment(module) is None
