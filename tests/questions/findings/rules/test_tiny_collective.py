"""C002: small collectives that run many times."""

from __future__ import annotations

import pytest

from hlo_lens.questions.findings.finding import Severity
from tests.questions.findings.programs import findings_of, looped

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
