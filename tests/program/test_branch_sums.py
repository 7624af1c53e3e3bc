"""Sums over branches that exclude each other."""

from __future__ import annotations

import pytest

from hlo_lens.program.branch_sums import SumBounds, SumPart, bounded_sum, shared_branches


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], (0, 0)),
        ([SumPart((), 3), SumPart((), 4)], (7, 7)),
        ([SumPart((), 3), SumPart((), 4, is_exact=False)], (3, 7)),
        ([SumPart(("e/c:0/2",), 3)], (0, 3)),
        ([SumPart(("e/c:0/2",), 3), SumPart(("e/c:1/2",), 5), SumPart((), 1)], (4, 6)),
        ([SumPart(("e/c:0/2",), 5), SumPart(("e/c:1/2",), 5)], (5, 5)),
        ([SumPart(("e/c:0/3",), 5), SumPart(("e/c:1/3",), 5)], (0, 5)),
        ([SumPart(("e/c:0/2",), 5), SumPart(("e/d:0/2",), 5)], (0, 10)),
        (
            [
                SumPart(("e/c:0/2",), 1),
                SumPart(("e/c:0/2", "b/d:0/2"), 2),
                SumPart(("e/c:0/2", "b/d:1/2"), 8),
                SumPart(("e/c:1/2",), 4),
            ],
            (3, 9),
        ),
    ],
)
def test_one_branch_of_each_conditional_counts(
    parts: list[SumPart], expected: tuple[int, int]
) -> None:
    assert bounded_sum(parts) == SumBounds(*expected)


def test_shared_branches_are_the_common_beginning() -> None:
    assert shared_branches([("a:0/2", "b:0/2"), ("a:0/2", "b:1/2")]) == ("a:0/2",)
    assert shared_branches([("a:0/2",), ()]) == ()
