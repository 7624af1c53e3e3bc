"""The order by which XLA numbers the instructions of a computation."""

from __future__ import annotations

from hlo_lens.analysis.buffer_assignment.post_order import post_order
from hlo_lens.analysis.buffer_assignment.shape_tree import NODES


def places(**operands: list[int]) -> dict[int, list[int]]:
    """Return row to the places of its operands, from ``r3=[1, 2]``."""
    return {
        int(row[1:]): [used * NODES for used in used_rows] for row, used_rows in operands.items()
    }


def test_operands_come_first_and_the_first_operand_before_the_second() -> None:
    assert post_order(range(4), places(r0=[], r1=[], r2=[], r3=[2, 0, 1]), {}) == [2, 0, 1, 3]


def test_control_predecessors_come_before_operands_the_last_one_first() -> None:
    operands = places(r0=[], r1=[], r2=[], r3=[0])
    assert post_order(range(4), operands, {3: [1, 2]}) == [2, 1, 0, 3]


def test_a_part_of_a_result_counts_as_the_result() -> None:
    operands = {0: [], 1: [], 2: [1 * NODES + 3, 0]}
    assert post_order(range(3), operands, {}) == [1, 0, 2]


def test_operands_in_a_circle_come_last_in_text_order() -> None:
    assert post_order(range(3), places(r0=[1], r1=[0], r2=[]), {}) == [2, 0, 1]
