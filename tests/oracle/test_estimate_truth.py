"""Estimates of memory against ``Compiled.memory_analysis()`` and XProf, over the whole corpus."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from hlo_lens.text.units import MARGIN
from tests.corpus import needs_corpus
from tests.estimate_table import TOPIC, all_cases, topic_text

if TYPE_CHECKING:
    from tests.estimate_cases import Case

NEWEST = ("b200", "cpu1", "h100x8", "tpu7x", "v5e1", "v5e8", "v5p4", "v6e8")
"""Sets of jax 0.12."""

pytestmark = [needs_corpus, pytest.mark.thorough]


@functools.cache
def _cases() -> list[Case]:
    return [case for case in all_cases() if case.found]


def test_no_error_exceeds_the_margin_of_budgets() -> None:
    """Temporaries of a libtpu before 0.0.51 excepted, which a note says."""
    new = [case for case in _cases() if "before" not in case.compiler]
    errors = [error for case in new for error in (case.error, case.peak_error or 0.0)]
    assert max(map(abs, errors)) < 100 * MARGIN


def test_estimates_are_equal_to_the_truth_as_often_as_before() -> None:
    assert sum(case.is_exact for case in _cases()) >= 1310


def test_estimates_of_new_compiles_are_equal_to_the_truth() -> None:
    new = [case for case in _cases() if case.backend in NEWEST]
    for is_compiled in (False, True):
        side = [case for case in new if case.is_compiled == is_compiled]
        assert sum(case.is_exact for case in side) >= 0.97 * len(side)


def test_the_table_of_the_handbook_is_that_of_the_corpus() -> None:
    topic = TOPIC.read_text("utf-8")
    assert topic == topic_text(topic, _cases()), "run `make estimates`"
