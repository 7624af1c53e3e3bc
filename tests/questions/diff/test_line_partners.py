"""Lines of the base paired with lines of the head."""

from __future__ import annotations

from collections import Counter

from hlo_lens.questions.diff.line_edits import line_partners


def lines(**operations: str) -> dict[str, frozenset[str]]:
    """Return the operations of lines of t.py: ``l3="dot add"`` are those of line 3."""
    return {f"t.py:{name[1:]}": frozenset(text.split()) for name, text in operations.items()}


def partners(
    votes: dict[tuple[int, int], int],
    before: dict[str, frozenset[str]],
    after: dict[str, frozenset[str]],
) -> dict[int, int]:
    counted = Counter({(f"t.py:{one}", f"t.py:{two}"): n for (one, two), n in votes.items()})
    found = line_partners(counted, before, after)
    mirrored = line_partners(
        Counter({(two, one): n for (one, two), n in counted.items()}), after, before
    )
    assert {(two, one) for one, two in mirrored.items()} == set(found.items())
    return {int(one.split(":")[1]): int(two.split(":")[1]) for one, two in found.items()}


def test_a_line_pairs_with_one_other_that_has_most_of_its_instructions() -> None:
    before = lines(l3="tanh", l4="dot", l5="dot")
    after = lines(l3="tanh", l4="dot")
    assert partners({(3, 3): 1, (4, 4): 2, (5, 4): 7}, before, after) == {3: 3, 5: 4}


def test_lines_of_equal_operations_pair_in_their_order() -> None:
    before = lines(l2="dot", l3="tanh", l4="add", l9="while")
    after = lines(l5="dot", l6="tanh", l7="add", l12="while")
    assert partners({(9, 12): 1}, before, after) == {2: 5, 3: 6, 4: 7, 9: 12}


def test_lines_between_two_pairs_of_one_shift_pair() -> None:
    before = lines(l2="dot", l3="while", l4="add", l5="tanh")
    after = lines(l4="dot", l5="pad", l7="tanh", l6="add")
    assert partners({(2, 4): 1, (5, 7): 1}, before, after) == {2: 4, 3: 5, 4: 6, 5: 7}


def test_another_operation_between_two_pairs_is_no_partner() -> None:
    before = lines(l2="dot", l3="exponential", l9="tanh")
    after = lines(l2="dot", l7="sort", l8="tanh")
    assert partners({(2, 2): 1, (9, 8): 1}, before, after) == {2: 2, 9: 8}
