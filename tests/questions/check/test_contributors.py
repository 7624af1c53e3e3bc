"""Contributors to metrics of memory and collectives."""

from __future__ import annotations

import dataclasses

import pytest

from hlo_lens.questions.check.judge import contributors
from hlo_lens.questions.check.metric import Metric
from hlo_lens.questions.diff.module_diff import module_diff
from tests.snapshots import collective, group, module, peak


def _listed(path: str, *, has_base: bool = False) -> list[tuple[str, int | None]]:
    base = module(peaks=(peak(group()),), collectives=(collective(),))
    head = module(
        peaks=(peak(group(op_name="a", size_bytes=9000), group(op_name="b", size_bytes=8)),),
        collectives=(collective(), collective(kind="all-gather", op_name="c")),
    )
    diff = module_diff(base, head) if has_base else None
    found = contributors(Metric.parse(path), head, diff).contributors
    return [(str(one.op_name), one.delta_bytes) for one in found]


def test_parts_below_a_thousandth_of_the_largest_are_left_out() -> None:
    assert _listed("memory.total_bytes") == [("a", 9000)]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("collectives.static.*", ["jit(f)/psum", "c"]),
        ("collectives.static.all-gather", ["c"]),
        ("collectives.rows[kind=all-reduce]", ["jit(f)/psum"]),
        ("instructions", []),
    ],
)
def test_a_value_is_attributed_to_the_collectives_that_it_counts(
    path: str, names: list[str]
) -> None:
    assert [name for name, _ in _listed(path)] == names


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("memory.total_bytes", ["a"]),
        ("memory.spaces[HBM].total_bytes", ["a"]),
        ("memory.spaces[VMEM].total_bytes", ["v"]),
        ("memory.spaces[1].peak_bytes", ["v"]),
        ("memory.spaces[*].total_bytes", ["a", "v"]),
    ],
)
@pytest.mark.parametrize("has_base", [False, True])
def test_memory_is_attributed_in_the_spaces_that_count(
    path: str, names: list[str], *, has_base: bool
) -> None:
    vmem = dataclasses.replace(peak(group(op_name="v", size_bytes=900)), color=1, name="VMEM")
    base = module(
        peaks=(
            peak(group(op_name="a", size_bytes=10)),
            dataclasses.replace(vmem, bytes=0, groups=()),
        )
    )
    head = module(peaks=(peak(group(op_name="a", size_bytes=9000)), vmem))
    diff = module_diff(base, head) if has_base else None
    found = contributors(Metric.parse(path), head, diff).contributors
    assert [one.op_name for one in found] == names


def test_a_change_is_attributed_to_increases() -> None:
    assert _listed("collectives.static.*", has_base=True) == [("c", 1536)]
    assert _listed("memory.peak.bytes", has_base=True) == [("a", 9000)]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("memory.spaces[default].fragmentation_bytes", []),
        ("memory.temp_bytes", ["t"]),
        ("memory.argument_bytes", ["a"]),
        ("memory.total_bytes", ["a", "t"]),
    ],
)
@pytest.mark.parametrize("has_base", [False, True])
def test_a_figure_is_attributed_to_the_memory_that_it_counts(
    path: str, names: list[str], *, has_base: bool
) -> None:
    argument = group(op_name="a", category="argument", size_bytes=900)
    base = module(peaks=(peak(),))
    head = module(peaks=(peak(argument, group(op_name="t", size_bytes=800)),))
    diff = module_diff(base, head) if has_base else None
    found = contributors(Metric.parse(path), head, diff).contributors
    assert [one.op_name for one in found] == names


@pytest.mark.parametrize("has_base", [False, True])
def test_an_upper_bound_is_marked(*, has_base: bool) -> None:
    head = module(collectives=(collective(is_at_most=True),))
    diff = module_diff(module(collectives=()), head) if has_base else None
    (found,) = contributors(Metric.parse("collectives.static.*"), head, diff).contributors
    assert found.is_at_most
