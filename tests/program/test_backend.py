"""Backend of a module."""

from __future__ import annotations

import pytest

from hlo_lens.load.module import ModuleDump
from hlo_lens.program.backend import backend_of_dump, backend_of_text
from hlo_lens.text.dump_kinds import DumpKind
from tests.questions.texts import entry_of


@pytest.mark.parametrize(
    ("line", "backend"),
    [
        ("ROOT x = f32[8,128]{1,0:T(8,128)} parameter(0)", "tpu"),
        (
            'ROOT x = f32[8] iota(), iota_dimension=0, backend_config={"operation_queue_id":"0"}',
            "gpu",
        ),
        (
            "ROOT x = f32[8] iota(), iota_dimension=0, "
            'backend_config="{\\"operation_queue_id\\":0}"',
            "gpu",
        ),
        ('ROOT x = f32[8] custom-call(), custom_call_target="__cublas$gemm"', "gpu"),
        (
            "ROOT x = f32[8] iota(), iota_dimension=0, "
            'backend_config={"outer_dimension_partitions":["2"]}',
            "cpu",
        ),
        ("ROOT x = f32[8] parameter(0)", None),
    ],
)
def test_backend_is_found_in_the_text(line: str, backend: str | None) -> None:
    module = entry_of(line).module
    assert backend_of_text(module, range(len(module.columns))) == backend


@pytest.mark.parametrize(
    ("stage", "file", "backend"),
    [
        ("cpu_after_optimizations", "f.txt", "cpu"),
        ("sm_8.0_gpu_after_optimizations", "f.txt", "gpu"),
        ("after_optimizations", "module_0001.jit_f.cl_1003875606.after_optimizations.txt", "tpu"),
        ("after_optimizations", "f.txt", None),
        (None, "f.txt", None),
    ],
)
def test_backend_is_found_in_names(stage: str | None, file: str, backend: str | None) -> None:
    dump = ModuleDump(name="m", kind=DumpKind.HLO, stage=stage, files=(file,))
    assert backend_of_dump(dump) == backend
