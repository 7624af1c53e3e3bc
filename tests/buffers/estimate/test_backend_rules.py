"""Rules of buffer assignment by marks of the compiler in a text."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.buffers.estimate.rules import backend_rules

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
