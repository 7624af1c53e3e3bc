"""Arguments and results of a program's text: found by pattern, grouped by path."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.placement import (
    ShardedValue,
    ShardingTable,
    custom_call_target,
    module_shardings,
    sharding_table,
)
from hlo_lens.text.patterns import matches, steps_of
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.shapes.shape import Shape, ShapeIndex


FUNC_RESULT = "xla.sdy.FuncResultSharding"
"""Target of the custom call that states the sharding of a result for Shardy."""

_SHOWN = 8
_RESULT = re.compile(r"result(?:[\[{][\d,]*[\]}])?")
_PARAMETERS = "allow_spmd_sharding_propagation_to_parameters"
_OUTPUT = "allow_spmd_sharding_propagation_to_output"


@dataclasses.dataclass(frozen=True, kw_only=True)
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

    def arguments_of(self, pattern: str) -> list[int]:
        """Return the positions of the arguments whose name matches a pattern."""
        names = (str(value.value.name) for value in self.arguments)
        return [place for place, name in enumerate(names) if matches(pattern, name)]

    def results_of(self, pattern: str) -> list[int]:
        """Return the position of the result of a name: ``result{3}``, ``result[3]``, ``{3}``."""
        index = pattern.removeprefix("result").replace("[", "{").replace("]", "}")
        if not pattern.startswith(("result", "{")) or self.arguments_of(pattern):
            return []
        return [place for place, one in enumerate(self.results) if one.value.index == index]

    def nothing_matches(self, pattern: str) -> str:
        """Return the reason why a change of no argument does not apply."""
        if _RESULT.fullmatch(pattern):
            names = listed([result_name(value) for value in self.results], _SHOWN)
            return f"no result is called {pattern!r}; there is {names}"
        there = listed([str(value.value.name) for value in self.arguments], _SHOWN) or "none"
        return f"no argument is called {pattern!r}; there is {there}"

    @functools.cached_property
    def open_results(self) -> frozenset[int]:
        """Positions of the results whose sharding XLA chooses."""
        flags = self.flags(_OUTPUT)
        if len(flags) == 1:
            flags *= len(self.results)
        return frozenset(place for place, is_open in enumerate(flags) if is_open)

    def flags(self, name: str) -> tuple[bool, ...]:
        """Return the values of an attribute of the header that is a list of booleans."""
        words = self.module.header.get(name, "").strip("{}").split(",")
        return tuple(word.strip() == "true" for word in words if word.strip())


def index_of(value: ShardedValue) -> ShapeIndex:
    """Return the shape index of an argument or result."""
    words = value.value.index.strip("{}").split(",")
    return tuple(int(word) for word in words if word)


def result_name(value: ShardedValue) -> str:
    """Return the name of a result in requests: ``result{3}``; ``result`` for the only one."""
    return f"result{value.value.index}"


def element_text(root: HloInstruction, place: int) -> str:
    """Return the shape of one element of a tuple, with its layout."""
    shapes = () if root.shape is None else root.shape.tuple_shapes
    return str(shapes[place]) if place < len(shapes) else root.shape_text


def is_result_call(instruction: HloInstruction) -> bool:
    """Return whether an instruction states the sharding of a result for Shardy."""
    is_call = instruction.opcode == "custom-call"
    return is_call and custom_call_target(instruction) == FUNC_RESULT


def shape_of(value: ShardedValue, *, is_global: bool) -> Shape | None:
    """Return the whole shape of a value, or the shape of one device's part."""
    return value.global_shape if is_global else value.device_shape or value.global_shape


def positions(values: Sequence[ShardedValue]) -> dict[tuple[int | None, ShapeIndex], int]:
    """Return the position of each argument by parameter number and shape index."""
    return {(one.value.number, index_of(one)): place for place, one in enumerate(values)}


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
