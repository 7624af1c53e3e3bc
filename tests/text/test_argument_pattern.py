"""Patterns for arguments."""

from __future__ import annotations

import pytest

from hlo_lens.text.patterns import matches


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
