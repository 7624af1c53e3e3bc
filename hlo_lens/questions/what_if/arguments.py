"""Arguments and results of a program's text: found by pattern, grouped by path."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.placement import (
    ShardedValue,
    ShardingTable,
    module_shardings,
    sharding_table,
)
from hlo_lens.questions.what_if.edits import ChangedPart, part_of
from hlo_lens.text.patterns import matches, steps_of
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.shape import ShapeIndex

_SHOWN = 8
_RESULT = re.compile(r"result(?:[\[{][\d,]*[\]}])?")
_OUTPUT = "allow_spmd_sharding_propagation_to_output"


@dataclass(frozen=True, kw_only=True)
class EntryArrays:
    """Arguments and results of a module before optimizations.

    Attributes:
        module: The module.
        table: Their shapes and shardings.
    """

    module: HloModule
    table: ShardingTable

    @classmethod
    def of(cls, module: HloModule) -> EntryArrays:
        """Return arguments and results of a module."""
        return cls(module=module, table=sharding_table(module_shardings(module, None)))

    @functools.cached_property
    def arguments(self) -> tuple[ShardedValue, ...]:
        """The arguments."""
        return self.table.parameters

    @functools.cached_property
    def results(self) -> tuple[ShardedValue, ...]:
        """The results."""
        return self.table.outputs

    @functools.cached_property
    def names(self) -> list[str]:
        """Names of the arguments."""
        return [str(value.value.name) for value in self.arguments]

    def arguments_of(self, pattern: str) -> list[int]:
        """Return the positions of the arguments whose name matches a pattern."""
        return [position for position, name in enumerate(self.names) if matches(pattern, name)]

    def results_of(self, pattern: str) -> list[int]:
        """Return the position of the result of a name: ``result{3}``, ``result[3]``, ``{3}``."""
        index = pattern.removeprefix("result").replace("[", "{").replace("]", "}")
        if not pattern.startswith(("result", "{")) or self.arguments_of(pattern):
            return []
        return [
            position for position, value in enumerate(self.results) if value.value.index == index
        ]

    def nothing_matches(self, pattern: str) -> str:
        """Return the reason why a change of no argument does not apply."""
        if _RESULT.fullmatch(pattern):
            names = listed([result_name(value) for value in self.results], _SHOWN)
            return f"no result is called {pattern!r}; there is {names}"
        return f"no argument is called {pattern!r}; there is {listed(self.names, _SHOWN) or 'none'}"

    def parts(
        self,
        kind: str,
        request: str,
        pattern: str,
        make: Callable[[int], str],
        make_result: Callable[[int], str] | None = None,
    ) -> list[ChangedPart]:
        """Return the parts of a change, of all arguments and results that match a pattern.

        Args:
            kind: Kind of the change.
            request: Target of the change.
            pattern: Pattern of arguments, or name of a result.
            make: Changes the argument at a position, as in `part_of`.
            make_result: Changes the result at a position; None where only arguments can change.
        """
        parts = [
            part_of(kind, self.names[position], request, functools.partial(make, position))
            for position in self.arguments_of(pattern)
        ]
        if make_result is not None:
            for position in self.results_of(pattern):
                name = result_name(self.results[position])
                parts.append(part_of(kind, name, request, functools.partial(make_result, position)))
        if parts:
            return parts
        why_not = self.nothing_matches(pattern)
        return [
            ChangedPart(kind=kind, target=pattern, request=request, applies=False, why_not=why_not)
        ]

    @functools.cached_property
    def open_results(self) -> frozenset[int]:
        """Positions of the results whose sharding XLA chooses."""
        flags = booleans(self.module.header.get(_OUTPUT, ""))
        if len(flags) == 1:
            flags *= len(self.results)
        return frozenset(position for position, is_open in enumerate(flags) if is_open)


def booleans(text: str) -> list[bool]:
    """Return the values of an attribute of the header: ``{true,false}``."""
    return [word.strip() == "true" for word in text.strip("{}").split(",") if word.strip()]


def index_of(value: ShardedValue) -> ShapeIndex:
    """Return the shape index of an argument or result."""
    words = value.value.index.strip("{}").split(",")
    return tuple(int(word) for word in words if word)


def result_name(value: ShardedValue) -> str:
    """Return the name of a result in requests: ``result{3}``; ``result`` for the only one."""
    return f"result{value.value.index}"


_ROOT = re.compile(r"(?:args|kwargs)(?:\[[^\]]*\])|[^.\[]+")

_OPTIMIZER = frozenset(
    (
        *("opt", "opt_state", "optimizer", "optimizer_state", "adam", "mu", "nu"),
        *("momentum", "trace", "exp_avg", "exp_avg_sq", "velocity", "accumulator"),
    )
)
"""Steps of paths to the state of an optimizer, as optax, flax and torch name them."""


def argument_root(name: str) -> str:
    """Return the argument of the function that an array belongs to.

    >>> argument_root("state['opt'][0].mu"), argument_root("args[0]['w']"), argument_root("x")
    ('state', 'args[0]', 'x')
    """
    root = _ROOT.match(name)
    return name if root is None else root[0]


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
    """Return few patterns that match some arguments and no others, as jax writes their paths.

    Args:
        chosen: Names of the arguments, and of results, which have no patterns.
        names: Names of all arguments.

    >>> covering_patterns(["s.mu['v']", "s.mu['w']", "y"], ["s.mu['v']", "s.mu['w']", "x", "y"])
    ["s['**']", 'y']
    >>> covering_patterns(["s.mu['w']", "s.nu['w']"], ["s.mu['w']", "s.nu['w']", "s.mu['b']"])
    ["s['**']['w']"]
    """
    known = set(names)
    left = dict.fromkeys(one for one in chosen if one in known)
    alike: dict[str, set[str]] = {}
    for name in left if len(left) > 1 else ():
        for pattern in _patterns_of(name):
            alike.setdefault(pattern, set()).add(name)
    patterns = []
    ranked = sorted(alike, key=lambda one: (-len(alike[one]), not one.endswith("['**']"), len(one)))
    for pattern in ranked:
        found = alike[pattern] & left.keys()
        if len(found) > 1 and not any(matches(pattern, one) for one in known - set(chosen)):
            patterns.append(pattern)
            left = dict.fromkeys(one for one in left if one not in found)
    return [*patterns, *(one for one in chosen if one in left or one not in known)]


_PART = re.compile(r"\[[^\]]*\]|\.?[^.\[]+")


def _patterns_of(name: str) -> Iterator[str]:
    """Yield the patterns of a path: a beginning of it, any steps, and an end of it or none."""
    steps = _PART.findall(name)
    for first in range(1, len(steps)):
        head = "".join(steps[:first])
        yield f"{head}['**']"
        for last in range(first + 1, len(steps)):
            tail = "".join(steps[last:])
            if tail.startswith(("[", ".")):
                yield f"{head}['**']{tail}"


def _common_prefix(paths: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the steps that all paths begin with."""
    steps = takewhile(lambda alike: len(set(alike)) == 1, zip(*paths, strict=False))
    return tuple(alike[0] for alike in steps)
