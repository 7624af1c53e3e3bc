"""Groups of arguments by their paths: by argument of the function, optimizer state, patterns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.text.argument_pattern import matches, steps_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT = re.compile(r"(?:args|kwargs)(?:\[[^\]]*\])|[^.\[]+")

_OPTIMIZER = frozenset(
    word
    for words in (
        ("opt", "opt_state", "optimizer", "optimizer_state", "adam", "mu", "nu"),
        ("momentum", "trace", "exp_avg", "exp_avg_sq", "velocity", "accumulator"),
    )
    for word in words
)
"""Steps of paths to the state of an optimizer, as optax, flax and torch name them."""


def argument_root(name: str) -> str:
    """Return the argument of the function that an array belongs to.

    >>> argument_root("state['opt'][0].mu"), argument_root("args[0]['w']"), argument_root("x")
    ('state', 'args[0]', 'x')
    """
    found = _ROOT.match(name)
    return name if found is None else found[0]


def is_optimizer_state(name: str) -> bool:
    """Return whether the path of an argument is one of optimizer state.

    >>> is_optimizer_state("state['opt'][0].mu['w']"), is_optimizer_state("params['mu_scale']")
    (True, False)
    """
    return not _OPTIMIZER.isdisjoint(steps_of(name))


def common_pattern(names: Sequence[str]) -> str:
    """Return a pattern that matches some arguments, and perhaps others; empty for none.

    >>> common_pattern(["s.opt[0].mu", "s.opt[0].nu"])
    's/opt/0/**'
    """
    head = _common_prefix([steps_of(name) for name in names])
    return "/".join((*head, "**")) if names else ""


def covering_patterns(chosen: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return one pattern that matches some arguments and no others; else their names.

    Args:
        chosen: Names of the arguments, and of results, which have no patterns.
        names: Names of all arguments.

    >>> covering_patterns(["s.mu['w']", "s.nu['w']"], ["s.mu['w']", "s.nu['w']", "s.mu['b']"])
    ['s/**/w']
    """
    known = set(names)
    arguments = [name for name in chosen if name in known]
    rest = [name for name in chosen if name not in known]
    if len(arguments) < 2:
        return list(chosen)
    paths = [steps_of(name) for name in arguments]
    head = _common_prefix(paths)
    tail = _common_prefix([path[len(head) :][::-1] for path in paths])[::-1]
    pattern = "/".join((*head, "**", *tail))
    matched = {name for name in names if matches(pattern, name)}
    return [pattern, *rest] if matched == set(arguments) else list(chosen)


def _common_prefix(paths: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the steps that all paths begin with."""
    found = []
    for steps in zip(*paths, strict=False):
        if len(set(steps)) > 1:
            break
        found.append(steps[0])
    return tuple(found)
