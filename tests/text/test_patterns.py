"""Patterns of users for arguments and names."""

from __future__ import annotations

import time

import pytest

from hlo_lens import UsageError
from hlo_lens.text.names import NamePattern, matches


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("state", "state", True),
        ("state", "state['a']", True),
        ("state", "state.opt[0].mu", True),
        ("state", "statement['a']", False),
        ("params/*/kernel", "params['layer_0']['kernel']", True),
        ("params/*/kernel", "params['a']['b']['kernel']", False),
        ("params/**/kernel", "params['a']['b']['kernel']", True),
        ("params/**", "params['a']['b']", True),
        ("**/kernel", "kernel", True),
        ("params/layer_[0-3]/w", "params['layer_2']['w']", False),
        ("params['a/b']", "params['a/b']", True),
        ("args[0]", "args[0]['w']", True),
        ("state.*", "state['a'][0]", True),
        ("state/**", "state.opt[0].mu", True),
        ("state/opt[0]/*", "state.opt[0].mu", True),
        ("state/opt[1]", "state.opt[0].mu", False),
        ("params/a.b", "params['a.b']", True),
        ("", "params", False),
    ],
)
def test_patterns_go_step_by_step(pattern: str, name: str, is_match: bool) -> None:
    assert matches(pattern, name) is is_match


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
