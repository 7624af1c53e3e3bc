"""Patterns of users: found, refused, and bounded in time."""

from __future__ import annotations

import time

import pytest

from hlo_lens import UsageError
from hlo_lens.text.patterns import NamePattern


def test_pattern_is_found_anywhere_in_a_name() -> None:
    assert NamePattern("train.*step").found_in("jit_train_my_step_2")
    assert not NamePattern("^train").found_in("jit_train_step")


def test_broken_pattern_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"not a regular expression: '\('"):
        NamePattern("(")


def test_search_that_would_not_end_is_a_usage_error() -> None:
    start = time.perf_counter()
    with pytest.raises(UsageError, match="takes more than 1 s"):
        NamePattern(r"(?:a|a)*(?:a|a)*b(?<!b)|(a|a)+(?=c)").found_in("a" * 4000)
    assert time.perf_counter() - start < 30
