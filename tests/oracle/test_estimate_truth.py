"""Estimates of memory against ``Compiled.memory_analysis()`` and XProf, over the whole corpus."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from hlo_lens.questions.memory.exact_forms import EXACT_FORMS
from tests.corpus import needs_corpus
from tests.estimate_table import TOPIC, all_cases, exact_forms, topic_text

if TYPE_CHECKING:
    from tests.estimate_cases import Case

NEWEST = ("b200", "cpu1", "h100x8", "tpu7x", "v5e1", "v5e8", "v5p4", "v6e8")
"""Sets of jax 0.12."""

pytestmark = needs_corpus


@functools.cache
def _cases() -> list[Case]:
    return [case for case in all_cases() if case.found]


def test_no_estimate_that_is_said_to_be_exact_is_wrong() -> None:
    claimed = [case for case in _cases() if case.is_claimed]
    assert len(claimed) > 500
    assert [case for case in claimed if not case.is_exact] == []


def test_every_truth_is_in_the_range_of_its_estimate() -> None:
    assert [case for case in _cases() if not case.is_in_range] == []


def test_estimates_of_new_compiles_are_equal_to_the_truth() -> None:
    new = [case for case in _cases() if case.backend in NEWEST]
    for is_compiled in (False, True):
        side = [case for case in new if case.is_compiled == is_compiled]
        assert sum(case.is_exact for case in side) >= 0.97 * len(side)


def test_shipped_forms_and_tables_are_those_of_the_corpus() -> None:
    cases = all_cases()
    forms = exact_forms(cases)
    assert forms == EXACT_FORMS, "run `make estimates`"
    topic = TOPIC.read_text("utf-8")
    assert topic == topic_text(topic, cases, forms), "run `make estimates`"
