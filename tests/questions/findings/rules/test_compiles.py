"""Tests of rules about how a program was compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.load.module import already_read
from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rules.compiles import (
    cpu_memory,
    different_hosts,
    mesh_topology,
    recompiled_function,
)
from tests.corpus import SAMPLES
from tests.questions.findings.programs import analysis_of_text, listed

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump


# ---- X001: functions that were compiled several times --------------------------------------------


def _compile(size: int, number: int, steps: int = 120) -> ModuleDump:
    shape = f"f32[{size},8]{{1,0}}"
    lines = [f"  v{n} = {shape} negate(v{n - 1})" for n in range(1, steps)]
    head = f"HloModule jit_step, is_scheduled=true\n\nENTRY main {{\n  v0 = {shape} parameter(0)\n"
    last = f"\n  ROOT y = {shape} cosine(v{steps - 1})\n}}\n"
    known = analysis_of_text(head + "\n".join(lines) + last, name=f"module_{number:04}.jit_step")
    known.number = number
    return known


def test_compiles_for_different_shapes_are_one_finding_at_the_last() -> None:
    modules = [_compile(size, number) for number, size in enumerate((8, 16, 32, 32))]
    ((place, found),) = recompiled_function(listed(*modules))
    assert place == 3
    assert found.message == "jit_step was compiled 4 times, for 3 different shapes"
    assert found.evidence == ("parameter 0: f32[8,8], f32[16,8], f32[32,8]",)
    assert found.severity is Severity.INFO


def test_equal_shapes_other_processes_and_small_functions_have_no_finding() -> None:
    assert list(recompiled_function(listed(*(_compile(8, number) for number in range(5))))) == []
    small = [_compile(8 * number, number, steps=20) for number in range(1, 6)]
    assert list(recompiled_function(listed(*small))) == []
    others = [_compile(8 * number, number) for number in range(1, 6)]
    for number, one in enumerate(others):
        one.folder = f"host_{number}"
    assert list(recompiled_function(listed(*others))) == []


# ---- X006: programs compiled for several CPU devices ---------------------------------------------


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


# ---- X004: topologies without wraparound ---------------------------------------------------------


TOPOLOGY_TEXT = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[64]{0} parameter(0)
  ROOT y = f32[64]{0} negate(x)
}
"""
ARGUMENTS = """tpu_topology_args {
  version: TPU_VERSION_VIPERFISH
  chip_config_name: "megacore"
  chips_per_host_bounds { x: 2 y: 2 z: 1 }
  host_bounds { x: 2 y: 2 z: 4 }
  wrap { }
}
"""


def _findings(arguments: str) -> list[tuple[str, Severity | None]]:
    known = analysis_of_text(TOPOLOGY_TEXT)
    known.settings = {"target_arguments.txt": already_read(arguments)}
    return [(one.fix, one.severity) for one in mesh_topology(known)]


def test_a_large_slice_without_wraparound_is_found() -> None:
    fix = 'get_topology_desc("v5p:4x4x4", "tpu", wrap=(True, True, True))'
    assert _findings(ARGUMENTS) == [(fix, Severity.INFO)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("wrap { }", "wrap { x: true y: true z: true }"),
        ("host_bounds { x: 2 y: 2 z: 4 }", "host_bounds { x: 1 y: 2 z: 4 }"),
        ("VIPERFISH", 'VIPERFISH\n  variant: "lite"'),
    ],
)
def test_a_torus_and_a_smaller_slice_have_no_finding(old: str, new: str) -> None:
    assert _findings(ARGUMENTS.replace(old, new)) == []


# ---- X005: programs that differ between processes ------------------------------------------------


HOSTS_TEXT = """HloModule jit_step, is_scheduled=true

ENTRY main {
  x = f32[64]{0} parameter(0)
  ROOT y = f32[64]{0} negate(x)
}
"""


def _of_process(text: str, folder: str) -> ModuleDump:
    known = analysis_of_text(text, name="module_0000.jit_step")
    known.number, known.folder = 0, folder
    return known


def test_a_program_that_differs_is_an_error_of_the_odd_process() -> None:
    odd = HOSTS_TEXT.replace("negate", "cosine")
    modules = [
        _of_process(HOSTS_TEXT, "host_0"),
        _of_process(odd, "host_1"),
        _of_process(HOSTS_TEXT, "host_2"),
    ]
    ((place, found),) = different_hosts(listed(*modules))
    assert place == 1
    assert found.message == "jit_step of host_1 is not that of host_0"
    assert found.severity is Severity.ERROR


def test_equal_programs_have_no_finding() -> None:
    modules = [_of_process(HOSTS_TEXT, "host_0"), _of_process(HOSTS_TEXT, "host_1")]
    assert list(different_hosts(listed(*modules))) == []
