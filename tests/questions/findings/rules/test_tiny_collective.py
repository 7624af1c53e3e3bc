"""C002: small collectives that run many times."""

from __future__ import annotations

import pytest

from hlo_lens.questions.findings.finding import Severity
from tests.questions.findings.programs import findings_of, looped, with_lines

BODY = """
  r = f32[SIZE]{0} all-reduce(v), channel_id=1, replica_groups={{0,1},{2,3}},\
 use_global_device_ids=true, to_apply=add
"""


def test_a_small_reduction_in_each_trip_is_found() -> None:
    (found,) = findings_of(looped(BODY, size=64, trips=48), "C002")
    assert found.message == "all-reduce over axis_1 of at most 256B, 48 runs in a loop"


def test_few_runs_and_large_payloads_are_not() -> None:
    assert findings_of(looped(BODY, size=64, trips=8), "C002") == ()
    assert findings_of(looped(BODY, size=1 << 16, trips=48), "C002") == ()


@pytest.mark.parametrize(
    ("trips", "backend", "severity"),
    [
        (127, None, Severity.INFO),
        (128, None, Severity.WARNING),
        (128, "cpu", Severity.INFO),
    ],
)
def test_many_runs_are_a_warning_but_on_cpu(
    trips: int, backend: str | None, severity: Severity
) -> None:
    (found,) = findings_of(looped(BODY, size=64, trips=trips, backend=backend), "C002")
    assert found.severity is severity


def test_many_of_one_line_are_found_outside_of_loops() -> None:
    steps = "\n".join(
        f"  a{k} = f32[] all-reduce(t{k}), channel_id={k + 1}, replica_groups={{{{0,1,2,3}}}}, "
        f"use_global_device_ids=true, to_apply=add, @psum:7\n  t{k + 1} = f32[] tanh(a{k})"
        for k in range(24)
    )
    text = f"""HloModule m, is_scheduled=true, num_partitions=4

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

ENTRY main {{
  t0 = f32[] parameter(0)
{steps}
  ROOT o = f32[] negate(t24)
}}
"""
    (found,) = findings_of(with_lines(text), "C002")
    assert "24 all-reduces" in found.message
    assert found.message.endswith(" of at most 4B, one after another")
    assert (found.severity, found.source_line) == (Severity.INFO, 7)
