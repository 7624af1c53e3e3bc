"""Number of exposed collectives in words."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.load.module import ModuleDump, already_read
from hlo_lens.questions.collectives.page import collectives_text
from hlo_lens.text.dump_kinds import DumpKind

HIDING = """HloModule m, is_scheduled=true, num_partitions=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[8,4] parameter(0)
  w = f32[4,16] parameter(1)
  s = f32[8,4] all-reduce-start(x), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=add
  m = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[8,4] all-reduce-done(s)
  ROOT r = (f32[8,4], f32[8,16]) tuple(d, m)
}
"""
DOT = "  m = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
"""The work that may hide the transfer."""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HIDING, "none of 1 surely exposed"),
        (
            HIDING.replace(DOT, "")
            .replace("(d, m)", "(d, x)")
            .replace("8,16]) tuple", "8,4]) tuple"),
            "1 of 1 exposed",
        ),
    ],
)
def test_what_work_may_hide_is_not_counted_as_exposed(text: str, words: str) -> None:
    module = hlo_lens.parse_hlo(text)
    dump = ModuleDump(
        name="m", kind=DumpKind.HLO, files=("f.txt",), module_text=already_read(module)
    )
    assert collectives_text(dump).endswith(f"per device, {words}")
