"""Rules of backends: sizes, alignments, tables of tuples."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.buffers.estimate.rules import backend_rules, table_step
from hlo_lens.hlo.module_reader import parse_hlo

TEXT = """HloModule m, is_scheduled=true

ENTRY e {
  p = f32[4096]{0} parameter(0)
  ROOT n = f32[4096]{0} negate(p), backend_config={CONFIG}
}
"""
QUEUE = '"operation_queue_id":"0","wait_on_operation_queues":[],"force_earliest_schedule":false'
COLLECTIVE = '"collective_backend_config":{"is_sync":true,"reification_cost":[]}'


@pytest.mark.parametrize(
    ("config", "alignment"),
    [
        (QUEUE, 128),
        (f"{QUEUE},{COLLECTIVE}", 128),
        (f'{QUEUE},"reification_cost":[]', 256),
        (f'"reification_cost":[],{QUEUE}', 256),
        (f'{QUEUE},"reification_cost":[],"device_type":"DEVICE_TYPE_INVALID"', 256),
    ],
)
def test_gpu_compilers_before_jaxlib_0_6_align_to_128_bytes(config: str, alignment: int) -> None:
    module = hlo_lens.parse_hlo(TEXT.replace("CONFIG", f"{{{config}}}"))
    assert backend_rules(module, "gpu").layout.alignment == alignment


LOOP = 'n = f32[8]{0:T(128)} negate(p), backend_config={"window_config":{"estimated_cycles":"%d"}}'
SCOPED = (
    'n = f32[8]{0:T(128)} negate(p), backend_config={"window_config":{"estimated_cycles":"9000"},'
    '"used_scoped_memory_configs":[{"memory_space":"1","offset":"0","size":"%d"}]}'
)
PRIORITY = 'n = f32[8]{0:T(128)} negate(p), backend_config={"dma_priority":%d}'
PRODUCT = "n = f32[8]{0:T(128)} negate(p), kind=kOutput, backend_config={%s}"


def step_of(line: str = "", *, devices: int = 8, target: str | None = None) -> tuple[int, int]:
    text = f"""HloModule m, is_scheduled=true, num_partitions={devices}

ENTRY e {{
  p = f32[8]{{0:T(128)}} parameter(0)
  {line}
  ROOT r = f32[8]{{0:T(128)}} negate(p)
}}
"""
    return table_step(parse_hlo(text), target)


def known(step: int) -> tuple[int, int]:
    return step, step


@pytest.mark.parametrize(
    ("version", "step"),
    [
        ("version: TPU_VERSION_PUFFERFISH", 512),
        ('version: TPU_VERSION_VIPERFISH\n  variant: "lite"', 512),
        ("version: TPU_VERSION_VIPERFISH\n  platform_type: HARDWARE", 32),
        ("version: TPU_VERSION_GHOSTLITE", 32),
        ("version: TPU_VERSION_6acc60406", 32),
    ],
)
def test_target_shows_the_step_against_any_mark(version: str, step: int) -> None:
    target = f"tpu_topology_args {{\n  {version}\n}}\n"
    assert step_of(target=target) == known(step)
    assert step_of(PRIORITY % 5, target=target) == known(step)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("n = f32[]{:T(256)} constant(1)", 1024),
        ("n = f32[8]{0:T(128)S(3)} negate(p)", 512),
        ("n = s32[]{:T(128)S(4)} constant(1)", 32),
        ("n = bf16[32,128]{1,0:T(16,128)(2,1)} constant(1)", 32),
        (PRIORITY % 5, 32),
        (LOOP % 1825, 512),
        (LOOP % 2120, 32),
        (SCOPED % 16990208, 32),
    ],
)
def test_marks_in_the_text_show_the_step(line: str, step: int) -> None:
    assert step_of(line) == known(step)


@pytest.mark.parametrize(
    "line",
    [
        "",
        PRIORITY % 1,
        LOOP % 4164,
        SCOPED % 15302656,
        PRODUCT % '"window_config":{"estimated_cycles":"1825"}',
    ],
)
def test_a_text_without_marks_leaves_two_steps(line: str) -> None:
    assert step_of(line) == (512, 32)


@pytest.mark.parametrize("devices", [4, 64, 512])
def test_numbers_of_devices_that_v5p_has_are_taken_as_v5p(devices: int) -> None:
    assert step_of(devices=devices) == (32, 512)


def test_an_unknown_version_is_no_evidence() -> None:
    assert step_of(target="version: TPU_VERSION_NEXT") == (512, 32)
