"""Memory at other sizes of one dimension."""

from __future__ import annotations

import pytest

from hlo_lens.questions.plans.scaling import Check, Scaling, SizedTotal, predicted

MIB = 1 << 20


def total(size: int, mib: float, *, entry: float = 0, fast: float = 0) -> SizedTotal:
    return SizedTotal(
        size=size,
        total_bytes=round(mib * MIB),
        entry_bytes=round(entry * MIB),
        fast_bytes=round(fast * MIB),
    )


def scaling(*dumps: SizedTotal, limit: float | None = None, step: int = 1) -> Scaling:
    limit_bytes = None if limit is None else round(limit * MIB)
    return Scaling(
        name="f", unit="batch", dumps=dumps, values=(), step=step, limit_bytes=limit_bytes
    )


def test_total_is_on_a_line_and_exact_at_the_dumps() -> None:
    dumps = total(8, 18), total(16, 26)
    assert predicted(dumps, 32).estimate_bytes == 42 * MIB
    one = predicted(dumps, 16)
    assert one.low_bytes == one.estimate_bytes == one.high_bytes == 26 * MIB


def test_interval_grows_with_the_distance() -> None:
    dumps = total(8, 18), total(16, 26)
    near, far = predicted(dumps, 20), predicted(dumps, 200)
    assert near.low_bytes < near.estimate_bytes < near.high_bytes
    assert far.high_bytes - far.low_bytes > near.high_bytes - near.low_bytes


def test_three_dumps_on_a_line_have_a_smaller_interval_than_two() -> None:
    two = predicted((total(8, 18), total(16, 26)), 32)
    three = predicted((total(4, 14), total(8, 18), total(16, 26)), 32)
    assert three.high_bytes < two.high_bytes


def test_kink_between_three_dumps_widens_the_interval() -> None:
    one = predicted((total(8, 18), total(16, 26), total(32, 74)), 64)
    assert one.estimate_bytes == (74 + 3 * 32) * MIB
    assert one.low_bytes < (74 + 32) * MIB


def test_values_in_vmem_may_move_to_the_default_space() -> None:
    with_vmem = predicted((total(8, 18, fast=4), total(16, 18, fast=8)), 128)
    assert with_vmem.high_bytes > (18 + 64) * MIB


def test_memory_is_never_less_than_arguments_and_results() -> None:
    dumps = total(64, 10, entry=8), total(128, 40, entry=9)
    assert predicted(dumps, 16).estimate_bytes == round(7.25 * MIB)


def test_estimate_is_in_its_interval_where_memory_shrinks() -> None:
    one = predicted((total(8, 20), total(16, 18)), 64)
    assert one.low_bytes <= one.estimate_bytes <= one.high_bytes


def test_largest_size_that_fits_is_a_multiple_of_the_devices() -> None:
    found = scaling(total(8, 18), total(16, 26), limit=110.5, step=4)
    assert found.largest == 100
    low, high = found.largest_range
    assert low is not None
    assert high is not None
    assert low <= 100 <= high
    assert (found.fixed_bytes, found.bytes_per_unit) == (10 * MIB, MIB)


def test_no_size_fits_below_what_does_not_grow() -> None:
    assert scaling(total(8, 18), total(16, 26), limit=9).largest == 0


def test_program_that_does_not_grow_has_no_largest_size() -> None:
    assert scaling(total(8, 18), total(16, 18), limit=90).largest is None


def test_check_names_the_error() -> None:
    check = Check(predicted=predicted((total(8, 18), total(16, 26)), 32), actual=total(32, 40))
    assert check.error == pytest.approx(0.05)
    assert check.predicted.holds(40 * MIB)
