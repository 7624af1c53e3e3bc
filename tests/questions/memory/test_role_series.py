"""Bytes of roles over the schedule sum to the bytes held."""

from __future__ import annotations

import pytest

from hlo_lens.load.programs import modules_of
from hlo_lens.questions.memory.layout import LaidAllocation, LaidValue, MemoryLayout
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import MemoryRoles, Role, role_series, series_of_roles
from tests.corpus import SAMPLES


def _series(*values: tuple[str, int, int, int, int]) -> dict[str, list[int]]:
    """Return the bytes of each role of (role, offset, size, start, end), all in one allocation."""
    laid = tuple(
        LaidValue(f"v{k}{{}}", f"v{k}", 0, offset, size, start, end, "f32[1]")
        for k, (_, offset, size, start, end) in enumerate(values)
    )
    layout = MemoryLayout(
        source="estimate",
        allocations=(LaidAllocation(index=0, size=100, color=0, category="temp"),),
        values=laid,
        schedule=tuple("abcdef"),
    )
    roles = MemoryRoles(
        layout=layout, values=[Role(role, "test") for role, *_ in values], allocations={}
    )
    found = series_of_roles(roles)
    assert found is not None
    series = {role: found.series(role) for role in found.changes}
    sums = [sum(one) for one in zip(*series.values(), strict=True)]
    assert sums == layout.held_series(0)
    return series


def test_a_value_counts_at_both_ends() -> None:
    assert _series(("gradients", 0, 8, 1, 3)) == {"gradients": [0, 8, 8, 8, 0, 0, 0]}


def test_shared_bytes_are_those_of_the_younger_value() -> None:
    found = _series(("gradients", 0, 8, 0, 2), ("weights", 0, 8, 2, 4))
    assert found == {"gradients": [8, 8, 0, 0, 0, 0, 0], "weights": [0, 0, 8, 8, 8, 0, 0]}


def test_an_older_value_that_lives_on_gets_its_bytes_back() -> None:
    found = _series(("gradients", 0, 8, 0, 5), ("weights", 2, 4, 2, 3))
    assert found == {"gradients": [8, 8, 4, 4, 8, 8, 0], "weights": [0, 0, 4, 4, 0, 0, 0]}


def test_three_values_of_the_same_bytes() -> None:
    found = _series(("gradients", 0, 8, 0, 5), ("weights", 0, 8, 1, 4), ("temporaries", 4, 8, 2, 3))
    assert found["temporaries"] == [0, 0, 8, 8, 0, 0, 0]
    assert found["weights"] == [0, 8, 4, 4, 8, 0, 0]


@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
@pytest.mark.parametrize("program", ["fsdp_transformer", "tp_mlp", "wasteful"])
def test_roles_sum_to_the_bytes_held(backend: str, program: str) -> None:
    for dump in modules_of(str(SAMPLES / backend / program)):
        memory = memory_results(dump)
        for color in () if memory is None else memory.layout.colors:
            series = role_series(dump, color)
            assert memory is not None
            assert series is not None
            columns = [series.series(role) for role in series.changes]
            sums = [sum(one) for one in zip(*columns, strict=True)] or [0] * series.length
            assert sums == memory.layout.held_series(color)
