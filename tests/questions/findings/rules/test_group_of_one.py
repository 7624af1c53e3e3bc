"""C006: collectives whose groups are of one device."""

from __future__ import annotations

from hlo_lens.questions.findings.finding import Severity
from tests.questions.findings.programs import findings_of

TEXT = """HloModule m, is_scheduled=true, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[256]{0} parameter(0)
  ROOT r = f32[256]{0} all-reduce(x), channel_id=1, replica_groups=GROUPS,\
 use_global_device_ids=true, to_apply=add
}
"""


def test_a_reduction_within_one_device_is_found() -> None:
    (found,) = findings_of(TEXT.replace("GROUPS", "{{0},{1},{2},{3}}"), "C006")
    assert found.message == "all-reduce: each group is one device, nothing is moved"
    assert (found.values, found.severity) == (("r",), Severity.INFO)
    assert found.saves.sent_bytes is None


def test_a_reduction_between_devices_is_not() -> None:
    assert findings_of(TEXT.replace("GROUPS", "{{0,1},{2,3}}"), "C006") == ()
