"""C003: collectives in loops that compute the same in each trip."""

from __future__ import annotations

from hlo_lens.questions.findings.finding import SavingBasis
from tests.questions.findings.programs import findings_of, looped

BODY = """
  g = f32[SIZE]{0} negate(OPERAND)
  r = f32[SIZE]{0} all-reduce(g), channel_id=1, replica_groups={{0,1},{2,3}},\
 use_global_device_ids=true, to_apply=add
"""


def test_a_collective_of_a_value_that_the_loop_carries_unchanged_is_found() -> None:
    (found,) = findings_of(looped(BODY.replace("OPERAND", "k"), size=1 << 16, trips=4), "C003")
    assert (
        found.message
        == "all-reduce over axis_1 in the loop loop: the same operands in each of 4 trips"
    )
    assert found.saves.sent_bytes == 3 * 4 * (1 << 16)
    assert found.saves.basis is SavingBasis.UP_TO


def test_a_collective_of_a_value_that_each_trip_changes_is_not() -> None:
    assert findings_of(looped(BODY.replace("OPERAND", "v"), size=1 << 16, trips=4), "C003") == ()


def test_a_single_trip_is_not() -> None:
    assert findings_of(looped(BODY.replace("OPERAND", "k"), size=1 << 16, trips=1), "C003") == ()


def test_constants_that_the_partitioner_sends_are_not() -> None:
    zeros = """
  zero = f32[] constant(0)
  zeros = f32[SIZE]{0} broadcast(zero), dimensions={}
"""
    body = zeros + BODY.replace("OPERAND", "zeros")
    assert findings_of(looped(body, size=1 << 16, trips=4), "C003") == ()
