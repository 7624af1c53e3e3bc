"""Instants by the names that people paste."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.questions.memory.results import at_instant
from hlo_lens.text.errors import UnknownNameError
from tests.corpus import SAMPLES

RESULTS = hlo_lens.memory(str(SAMPLES / "tpu" / "tp_mlp"))
SCHEDULE = RESULTS.layout.schedule or ()


@pytest.mark.parametrize("name", [SCHEDULE[7], f"%{SCHEDULE[7]}", f"{SCHEDULE[7]}{{0}}"])
def test_instruction_is_found_in_any_printed_form(name: str) -> None:
    instant = at_instant(RESULTS, name)
    assert instant is not None
    assert instant.position == 7


def test_end_of_a_name_is_enough_if_only_one_has_it() -> None:
    ends = [name[3:] for name in SCHEDULE]
    k = next(k for k, end in enumerate(ends) if sum(one.endswith(end) for one in SCHEDULE) == 1)
    instant = at_instant(RESULTS, f"...{ends[k]}")
    assert instant is not None
    assert instant.position == k
    with pytest.raises(UnknownNameError, match="is the end of"):
        at_instant(RESULTS, "...1")


def test_value_that_is_not_in_the_schedule_means_its_first_instant() -> None:
    outside = [v for v in RESULTS.layout.values if v.instruction_name not in SCHEDULE]
    assert outside
    instant = at_instant(RESULTS, outside[0].name)
    assert instant is not None
    assert instant.position == (outside[0].start or 0)
