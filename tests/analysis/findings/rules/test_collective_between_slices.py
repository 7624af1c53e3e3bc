"""C008: transfers between slices."""

from __future__ import annotations

from hlo_lens.analysis.findings.finding import Severity
from tests.analysis.findings.programs import findings_of

TEXT = """HloModule m, num_partitions=4

ENTRY main {
  x = f32[1024,4] parameter(0)
  t = token[] after-all()
  s = (f32[1024,4], u32[], token[]) send(x, t), channel_id=2, is_host_transfer=true, \
frontend_attributes={_xla_host_transfer_handler_name="HANDLER",\
_xla_megascale_transfer_type="ALL_REDUCE"}
  ROOT e = token[] send-done(s), channel_id=2, is_host_transfer=true
}
"""


def test_a_transfer_of_the_multi_slice_runtime_is_found() -> None:
    (found,) = findings_of(TEXT.replace("HANDLER", "xla_megascale_runtime"), "C008")
    assert found.message == (
        "1 all-reduce between slices: 16.0KiB of one run on the data center network"
    )
    assert (found.values, found.severity) == (("s",), Severity.INFO)


def test_a_transfer_to_the_own_host_is_not() -> None:
    assert findings_of(TEXT.replace("HANDLER", "mine"), "C008") == ()
