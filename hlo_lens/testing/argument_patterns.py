"""Patterns of argument names, and sizes as people write them."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.analysis.sharding.table import ShardedValue

_STEP = re.compile(
    r"""\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\]]*))\]|\.([^.\[]+)|([^.\[]+)"""
)
_SHOWN = 8


def steps_of(name: str) -> tuple[str, ...]:
    """Return the steps of an argument's path as jax writes it.

    >>> steps_of("params['layer_0']['kernel']"), steps_of("state.opt[0].mu")
    (('params', 'layer_0', 'kernel'), ('state', 'opt', '0', 'mu'))
    """
    return tuple(
        next(part for part in match.groups() if part is not None) for match in _STEP.finditer(name)
    )


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches an argument's path or a prefix of it.

    ``*`` matches one step or a part of it, ``**`` any number of steps.

    >>> matches("params", "params['a']['b']"), matches("params/*/b", "params['a']['b']")
    (True, True)
    >>> matches("param", "params['a']"), matches("**/b", "params['a']['b']")
    (False, True)
    """
    wanted = tuple(pattern.split("/")) if "[" not in pattern else steps_of(pattern)
    return _fits(wanted, steps_of(name)) or pattern == name


def _fits(wanted: Sequence[str], steps: Sequence[str]) -> bool:
    if not wanted:
        return True  # the pattern matches a prefix of the path
    if wanted[0] == "**":
        return len(wanted) == 1 or any(_fits(wanted[1:], steps[k:]) for k in range(len(steps)))
    return bool(steps) and fnmatchcase(steps[0], wanted[0]) and _fits(wanted[1:], steps[1:])


def find_arguments(known: ModuleAnalysis, pattern: str) -> tuple[list[ShardedValue], list[str]]:
    """Return the parameters that match a pattern, and the names of unused arguments that do.

    Raises:
        AssertionError: If neither exists.
    """
    __tracebackhide__ = True
    dump = known.dump
    if known.shardings is None:
        raise AssertionError(f"not known: the arguments of {dump.title}: there is no HLO text")
    parameters = known.shardings.table.parameters
    found = [value for value in parameters if matches(pattern, str(value.value.name))]
    unread = () if dump.framework is None else dump.framework.unused
    unused = [value.name for value in unread if matches(pattern, value.name)]
    if not found and not unused:
        names = [str(value.value.name) for value in parameters]
        there = listed(names, _SHOWN) or "none"
        raise AssertionError(f"no argument of {dump.title} is called {pattern!r}; there is {there}")
    return found, unused
