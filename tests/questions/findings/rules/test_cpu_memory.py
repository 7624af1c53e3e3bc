"""X006: programs compiled for several CPU devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rules.cpu_memory import cpu_memory
from tests.corpus import SAMPLES
from tests.questions.findings.programs import analysis_of_text, listed

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump

CPU = 'backend_config={"outer_dimension_partitions":["2"]}'


def _program(size: int, config: str = CPU, partitions: int = 8) -> ModuleDump:
    head = f"HloModule jit_step, is_scheduled=true, num_partitions={partitions}"
    body = f"x = f32[{size}]{{0}} parameter(0)\n  ROOT y = f32[{size}]{{0}} negate(x), {config}"
    return analysis_of_text(f"{head}\n\nENTRY main {{\n  {body}\n}}\n")


def test_the_largest_program_of_a_dump_has_the_info() -> None:
    small, large = listed(_program(64), _program(4096))
    ((place, found),) = cpu_memory([small, replace(large, has_program=True)])
    assert place == 1
    assert found.message == "compiled for 8 CPU devices: memory is not that of a TPU or GPU"
    assert found.fix == "hlo-lens what-if DIR --target v5e:2x4"
    assert found.severity is Severity.INFO


def test_copies_that_only_cpu_makes_are_named_with_their_bytes() -> None:
    (found,) = hlo_lens.lint(SAMPLES / "plants" / "cpu" / "carried_clean.tar.xz", select=["X006"])
    assert found.message.endswith(
        "TPU or GPU, 257.06MiB at the peak are f32 copies of 16-bit values"
    )


def test_a_text_without_a_number_is_not_chosen_where_others_have_one() -> None:
    text, compiled = listed(_program(4096), _program(64))
    option = "--module a/module_0001.jit_step"
    compiled = replace(compiled, number=1, path="dump", module_option=option, has_program=True)
    ((place, found),) = cpu_memory([text, compiled])
    assert place == 1
    assert found.fix == f"hlo-lens what-if dump {option} --target v5e:2x4"


def test_without_the_text_that_is_compiled_again_no_command_is_named() -> None:
    ((_, found),) = cpu_memory(listed(_program(64)))
    assert found.fix.startswith("dump again with --xla_dump_hlo_as_text")
    path = str(SAMPLES / "pairs" / "cpu" / "lost_donation.tar.xz")
    (lost,) = hlo_lens.lint(path, select=["X006"]).findings
    assert lost.fix == found.fix
    (kept,) = hlo_lens.lint(str(SAMPLES / "cpu" / "tp_mlp"), select=["X006"]).findings
    assert kept.fix.startswith("hlo-lens what-if ")


def test_one_device_and_other_hardware_have_no_finding() -> None:
    assert list(cpu_memory(listed(_program(64, partitions=1)))) == []
    gpu = 'backend_config={"operation_queue_id":"0"}'
    assert list(cpu_memory(listed(_program(64, gpu)))) == []
    assert list(cpu_memory(listed(_program(64), _program(64, gpu)))) == []
