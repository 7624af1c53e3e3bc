"""Parts of the names of dump files, and the order of stages."""

from __future__ import annotations

import pytest

from hlo_lens.text.dump_kinds import DumpFileName, split_file_name
from tests import corpus


@pytest.mark.parametrize(
    ("name", "module", "number", "stage", "part"),
    [
        (
            "module_0000.jit_f.before_optimizations.txt",
            "module_0000.jit_f",
            0,
            "before_optimizations",
            "",
        ),
        (
            "module_0012.jit_f.cpu_after_optimizations.txt",
            "module_0012.jit_f",
            12,
            "cpu_after_optimizations",
            "",
        ),
        (
            "module_0012.jit_f.cpu_after_optimizations-buffer-assignment.txt",
            "module_0012.jit_f",
            12,
            "cpu_after_optimizations",
            "buffer-assignment",
        ),
        (
            "module_0012.jit_f.cpu_after_optimizations-buffer-assignment-values.txt.gz",
            "module_0012.jit_f",
            12,
            "cpu_after_optimizations",
            "buffer-assignment-values",
        ),
        (
            "module_0001.jit_f.sm_9.0a_gpu_after_optimizations-memory-usage-report.txt",
            "module_0001.jit_f",
            1,
            "sm_9.0a_gpu_after_optimizations",
            "memory-usage-report",
        ),
        (
            "module_0001.jit_f.gfx942_gpu_after_optimizations-live-range.txt",
            "module_0001.jit_f",
            1,
            "gfx942_gpu_after_optimizations",
            "live-range",
        ),
        (
            "module_0000.jit_f.cl_1003875606.after_optimizations.txt",
            "module_0000.jit_f.cl_1003875606",
            0,
            "after_optimizations",
            "",
        ),
        (
            "1700000000.module_0000.jit_f.after_optimizations_before_buffer_assignment.txt",
            "1700000000.module_0000.jit_f",
            0,
            "after_optimizations_before_buffer_assignment",
            "",
        ),
        ("module_0114.a.b.68.after_codegen.txt", "module_0114.a.b.68", 114, "after_codegen", ""),
        (
            "module_0003.jit_f.0005.algsimp.after_dce.before_cse.txt",
            "module_0003.jit_f",
            3,
            "0005.algsimp.after_dce.before_cse",
            "",
        ),
        (
            "module_12345.jit_f.after_spmd_partitioner.txt",
            "module_12345.jit_f",
            12345,
            "after_spmd_partitioner",
            "",
        ),
        ("compiled.txt", "compiled.txt", None, None, ""),
        ("some/folder/dump.hlo", "dump.hlo", None, None, ""),
        ("", "", None, None, ""),
    ],
)
def test_parts_of_a_file_name(
    name: str, module: str, number: int | None, stage: str | None, part: str
) -> None:
    assert split_file_name(name) == DumpFileName(
        module=module, number=number, stage=stage, part=part
    )


def test_names_of_the_samples_have_all_parts() -> None:
    names = [split_file_name(p.name) for p in corpus.SAMPLES.rglob("module_*")]
    assert names
    assert all(name.number is not None and name.stage for name in names)
    assert {name.part for name in names} == {
        "",
        "hlo-proto",
        "buffer-assignment",
        "buffer-assignment-values",
        "live-range",
        "memory-usage-report",
    }
