"""Files of a folder are assigned to modules and stages, for all versions and flags of XLA."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from hlo_lens import HloLensError, load
from tests.load.test_load import STAGES, hlo, write

if TYPE_CHECKING:
    from pathlib import Path


def stages_of(path: Path) -> dict[str, list[str]]:
    """Return the stages of each module of a path."""
    return {m.name: [stage.name for stage in m.stages] for m in load(path).modules}


def test_stages_are_in_the_order_of_compilation(tmp_path: Path) -> None:
    more = {
        "module_0000.jit_f.0012.fusion.after_x.before_pipeline-end.txt": hlo("jit_f"),
        "module_0000.jit_f.0011.copy-insertion.after_adding_special-case_copies.txt": hlo("jit_f"),
        "module_0000.jit_f.before_config_assignment.txt": hlo("jit_f"),
    }
    write(tmp_path, {**STAGES, **more})
    assert stages_of(tmp_path) == {
        "module_0000.jit_f": [
            "before_optimizations",
            "0003.pass.after_a.before_b",
            "0011.copy-insertion.after_adding_special-case_copies",
            "0012.fusion.after_x.before_pipeline-end",
            "after_spmd_partitioner",
            "before_config_assignment",
            "cpu_after_optimizations_before_buffer_assignment",
            "cpu_after_optimizations",
            "after_codegen",
        ]
    }


@pytest.mark.parametrize(
    ("wanted", "opcode"),
    [
        ("before", "abs"),
        ("after", "negate"),
        ("3", "sine"),
        ("0003", "sine"),
        ("spmd", "cosine"),
        ("after_a.before_b", "sine"),
        ("cpu_after_optimizations_before_buffer_assignment", "tanh"),
        ("codegen", "sign"),
    ],
)
@pytest.mark.parametrize("start", ["", "module_0000.jit_f.after_codegen.txt"])
def test_stage_is_found_by_word_name_number_or_part(
    tmp_path: Path, wanted: str, opcode: str, start: str
) -> None:
    write(tmp_path, STAGES)
    (module,) = load(tmp_path / start).modules
    hlo_module = module.at_stage(wanted).hlo
    assert hlo_module is not None
    assert hlo_module.opcode_counts()[opcode] == 1


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("nonsense", "no stage 'nonsense'; there is before_optimizations, 0003.pass"),
        ("optimizations", "more than one stage matches 'optimizations'; there is before_opt"),
        ("7", "no stage '7'"),
    ],
)
def test_error_for_an_unknown_stage_lists_the_stages(
    tmp_path: Path, wanted: str, message: str
) -> None:
    write(tmp_path, STAGES)
    (module,) = load(tmp_path).modules
    with pytest.raises(HloLensError, match=message):
        module.at_stage(wanted)


def test_text_of_no_stage_has_none(tmp_path: Path) -> None:
    write(tmp_path, {"compiled.txt": hlo()})
    (module,) = load(tmp_path / "compiled.txt").modules
    assert module.stages == ()
    with pytest.raises(HloLensError, match="no stage 'before'; the file names have none"):
        module.at_stage("before")


def test_time_stamps_of_one_module_differ(tmp_path: Path) -> None:
    names = [f"17000000{k:02}.{name}" for k, name in enumerate(STAGES)]
    write(tmp_path, dict(zip(names, STAGES.values(), strict=True)))
    assert len(stages_of(tmp_path)["module_0000.jit_f"]) == len(STAGES)
    (module,) = load(tmp_path / names[0]).modules
    assert len(module.stages) == len(STAGES)
    (module,) = load(tmp_path / names[4]).modules
    assert module.before is not None


def test_second_run_with_time_stamps_is_a_module_of_its_own(tmp_path: Path) -> None:
    for start, opcode in (("1700000001", "abs"), ("1700000009", "sine")):
        name = f"{start}.module_0000.jit_f.before_optimizations.txt"
        write(tmp_path, {name: hlo("jit_f", opcode=opcode)})
    opcodes = [
        m.hlo.entry.root.opcode for m in load(tmp_path).modules if m.hlo and m.hlo.entry.root
    ]
    assert opcodes == ["abs", "sine"]


@pytest.mark.parametrize(
    "name", ["SyncTensorsGraph.105381", "SyncTensorsGraph.1053", "cluster_0__true__.56", "a.b.cl_x"]
)
def test_module_names_have_dots(tmp_path: Path, name: str) -> None:
    endings = [
        "before_optimizations.txt",
        "0003.spmd-partitioner.after_x.before_y.txt",
        "sm_8.0_gpu_after_optimizations.txt",
        "after_codegen.txt",
    ]
    write(tmp_path, {f"module_0007.{name}.{ending}": hlo(name) for ending in endings})
    assert stages_of(tmp_path) == {
        f"module_0007.{name}": [
            "before_optimizations",
            "0003.spmd-partitioner.after_x.before_y",
            "sm_8.0_gpu_after_optimizations",
            "after_codegen",
        ]
    }
    assert load(tmp_path).modules[0].number == 7


def test_module_renumbered_during_compilation_is_joined(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "module_0021.jit_f.before_optimizations.txt": hlo("jit_f", opcode="abs"),
            "module_0023.jit_f.cpu_after_optimizations.txt": hlo("jit_f", opcode="sine"),
            "module_0024.jit_f.before_optimizations.txt": hlo("jit_f", opcode="tanh"),
        },
    )
    assert stages_of(tmp_path) == {
        "module_0023.jit_f": ["before_optimizations", "cpu_after_optimizations"],
        "module_0024.jit_f": ["before_optimizations"],
    }


def test_parts_that_xla_wrote_separately_are_no_stages(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            **STAGES,
            "module_0000.jit_f.autotuner_0.dot.3.before.txt": hlo("dot.3"),
            "module_0000.jit_f.fusion.7.hlo": hlo("fusion.7"),
        },
    )
    dump = load(tmp_path)
    (module,) = dump.modules
    assert module.stage == "cpu_after_optimizations"
    assert [(a.kind, a.count) for a in dump.skipped] == [
        ("part of a module that XLA wrote separately", 2)
    ]


def test_numbers_beyond_four_digits_are_in_order(tmp_path: Path) -> None:
    names = ["module_9999.a", "module_10000.b", "module_0002.c"]
    write(tmp_path, {f"{n}.before_optimizations.txt": hlo() for n in names})
    assert [m.name for m in load(tmp_path).modules] == [names[2], names[0], names[1]]


def test_every_file_is_read_or_counted(tmp_path: Path) -> None:
    others: dict[str, str | bytes] = {
        "module_0000.jit_f.debug_options": 'xla_dump_to: "x"\n',
        "module_0000.jit_f/module.mlir": "module @jit_f {\n}\n",
        "module_0000.jit_f.ptx": ".version 8.3\n",
        "module_0000.jit_f.kernel.ir-no-opt.ll": "; ModuleID = 'x'\n",
        "module_0000.jit_f.thunk_metadata.txt": "thunk {\n a: 1\n}\n",
        "module_0000.jit_f.thunk_sequence.txt": "001: kGemm [source] x\n",
        "obj.o": b"\x7fELF\2\1\1\0" * 40,
        "empty": "",
    }
    dump = load(write(tmp_path, {**STAGES, **others}))
    assert dump.files == len(STAGES) + len(others)
    assert {(a.kind, a.count) for a in dump.skipped} == {
        ("text proto", 2),
        ("MLIR", 1),
        ("LLVM IR or PTX", 2),
        ("text of unknown kind", 1),
        ("binary data", 1),
        ("empty", 1),
    }


def test_stage_whose_content_is_of_another_kind_is_skipped(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            **STAGES,
            "module_0000.jit_f.cpu_after_optimizations-live-range.txt": hlo(),
            "module_0001.jit_g.before_optimizations.txt": "xla_dump_to: 3\n",
        },
    )
    assert list(stages_of(tmp_path)) == ["module_0000.jit_f"]


def _refuse(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make the system refuse to list a folder, as it does one without permission."""
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path) == str(folder):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_what_is_no_file_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, STAGES)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    (tmp_path / "elsewhere").symlink_to(tmp_path.parent)
    (tmp_path / "closed").mkdir()
    _refuse(monkeypatch, tmp_path / "closed")
    dump = load(tmp_path)
    assert {(skipped.kind, skipped.count) for skipped in dump.skipped} == {
        ("pipe, socket or device", 1),
        ("file that cannot be read", 1),
        ("link to a folder", 1),
        ("folder that cannot be read", 1),
    }
    assert dump.files == len(STAGES) + 4


def test_folder_without_permission_is_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _refuse(monkeypatch, tmp_path)
    with pytest.raises(HloLensError, match=r": cannot be read: Permission denied"):
        load(tmp_path)
