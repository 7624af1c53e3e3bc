"""Arguments and results of a program's text: by pattern and path; donation and element types.

A parameter of another type is converted at once, its result last. So the program computes as
before, and only what is stored between two runs changes, as if the program called ``astype`` on the
argument first and on the result last.

The result that an argument becomes has its memory, or would have if all arguments were donated:
JAX pairs them in order (jax/_src/interpreters/mlir.py, _set_up_aliases).
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.placement import (
    ShardedValue,
    index_text,
    module_shardings,
    sharding_table,
)
from hlo_lens.questions.what_if.edits import (
    Change,
    InapplicableError,
    TextEdits,
    is_result_call,
    part_of,
)
from hlo_lens.shapes.shape import PRIMITIVE_TYPES, xla_name
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import matches, steps_of
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.shapes.shape import Shape, ShapeIndex

_SHOWN = 8
_RESULT = re.compile(r"result(?:[\[{][\d,]*[\]}])?")


class EntryArrays:
    """Arguments and results of a module before optimizations; `table` has their shardings.

    Attributes:
        open_results: Positions of the results whose sharding XLA chooses.
    """

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.table = sharding_table(module_shardings(module, None))
        self.arguments, self.results = self.table.parameters, self.table.outputs
        self.names = [str(value.value.name) for value in self.arguments]
        self._parameters = {one.parameter_number: one for one in module.entry.parameters}
        flags = booleans(module.header.get("allow_spmd_sharding_propagation_to_output", ""))
        flags *= len(self.results) if len(flags) == 1 else 1
        self.open_results = frozenset(k for k, is_open in enumerate(flags) if is_open)

    def parameter(self, value: ShardedValue) -> HloInstruction:
        """Return the instruction of an argument."""
        return self._parameters[value.value.number]

    def arguments_of(self, pattern: str) -> list[int]:
        """Return the positions of the arguments whose name matches a pattern."""
        return [position for position, name in enumerate(self.names) if matches(pattern, name)]

    def results_of(self, pattern: str) -> list[int]:
        """Return the position of the result of a name: ``result{3}``, ``result[3]``, ``{3}``."""
        index = pattern.removeprefix("result").replace("[", "{").replace("]", "}")
        if not pattern.startswith(("result", "{")) or self.arguments_of(pattern):
            return []
        return [place for place, value in enumerate(self.results) if value.value.index == index]

    def parts(
        self,
        kind: str,
        request: str,
        pattern: str,
        make: Callable[[int], str],
        make_result: Callable[[int], str] | None = None,
    ) -> list[Change]:
        """Return the parts of a change, of all arguments and results that match a pattern.

        `make` changes the argument at a position, as in `part_of`, `make_result` a result; None
        where only arguments can change.
        """
        parts = [
            part_of(kind, self.names[position], request, partial(make, position))
            for position in self.arguments_of(pattern)
        ]
        if make_result is not None:
            parts += [
                part_of(kind, result_name(self.results[k]), request, partial(make_result, k))
                for k in self.results_of(pattern)
            ]
        return parts or [part_of(kind, pattern, request, partial(self._nothing_matches, pattern))]

    def _nothing_matches(self, pattern: str) -> str:
        kind, names = "argument", self.names
        if _RESULT.fullmatch(pattern):
            kind, names = "result", [result_name(value) for value in self.results]
        there = listed(names, _SHOWN) or "none"
        raise InapplicableError(f"no {kind} is called {pattern!r}; there is {there}")


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


_PART = re.compile(r"\[[^\]]*\]|\.?[^.\[]+")


def covering_patterns(chosen: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return few patterns that match chosen ones of all arguments and no others, as jax writes.

    Results among the chosen have no patterns.

    >>> covering_patterns(["s.mu['v']", "s.mu['w']", "y"], ["s.mu['v']", "s.mu['w']", "x", "y"])
    ["s['**']", 'y']
    >>> covering_patterns(["s.mu['w']", "s.nu['w']"], ["s.mu['w']", "s.nu['w']", "s.mu['b']"])
    ["s['**']['w']"]
    """
    known = set(names)
    left = dict.fromkeys(one for one in chosen if one in known)
    alike: dict[str, set[str]] = defaultdict(set)
    for name in left if len(left) > 1 else ():
        steps = _PART.findall(name)
        for first in range(1, len(steps)):  # a beginning of the path, any steps, an end or none
            tails = ["".join(steps[last:]) for last in range(first + 1, len(steps))]
            for tail in ("", *(tail for tail in tails if tail.startswith(("[", ".")))):
                alike[f"{''.join(steps[:first])}['**']{tail}"].add(name)
    patterns = []
    ranked = sorted(alike, key=lambda one: (-len(alike[one]), not one.endswith("['**']"), len(one)))
    for pattern in ranked:
        found = alike[pattern] & left.keys()
        if len(found) > 1 and not any(matches(pattern, one) for one in known - set(chosen)):
            patterns.append(pattern)
            left = dict.fromkeys(one for one in left if one not in found)
    return [*patterns, *(one for one in chosen if one in left or one not in known)]


@dataclass(slots=True)
class DonatedPairs:
    """Donated arguments by position: the results that have their memory, or any (`donors`).

    `kinds` has ``may-alias`` or ``must-alias`` of pairs in the text.
    """

    outputs: dict[int, int] = field(default_factory=dict)
    donors: set[int] = field(default_factory=set)
    kinds: dict[int, str] = field(default_factory=dict, compare=False)

    @property
    def arguments(self) -> set[int]:
        """All donated arguments that a result can use."""
        return {*self.outputs, *self.donors}

    def use(self, arrays: EntryArrays, position: int) -> str:
        """Return what becomes of a donated argument's memory."""
        if position not in self.outputs:
            return "XLA may use its memory for any result (buffer_donor)"
        return f"{result_name(arrays.results[self.outputs[position]])} has its memory"


def pairs_of_text(arrays: EntryArrays) -> DonatedPairs:
    """Return the pairs and donors in the header."""
    numbers = {(one.value.number, index_of(one)): k for k, one in enumerate(arrays.arguments)}
    results = {index_of(one): k for k, one in enumerate(arrays.results)}
    donors = {numbers[one] for one in arrays.module.buffer_donor if one in numbers}
    pairs = DonatedPairs(donors=donors)
    for alias in arrays.module.input_output_alias:
        position = numbers.get((alias.parameter_number, alias.parameter_index))
        output = results.get(alias.output_index)
        if position is not None and output is not None:
            pairs.outputs[position] = output
            pairs.kinds[position] = alias.kind
    return pairs


def becomes(arrays: EntryArrays) -> dict[int, int]:
    """Return the result that each argument becomes: its alias, else as if all were donated.

    Of several arguments of one shape, one with the sharding that the result has comes first.
    """
    pairs = pairs_of_text(arrays).outputs
    unknown = arrays.open_results if arrays.module.num_partitions > 1 else frozenset[int]()
    for is_global in (False, True):
        rest = [k for k in range(len(arrays.arguments)) if k not in pairs]
        free = [k for k in range(len(arrays.results)) if k not in pairs.values()]
        if not is_global:
            free = [k for k in free if k not in unknown]
        for argument, output in _same(arrays, rest, free, is_global=is_global).items():
            values = arrays.arguments[argument], arrays.results[output]
            if len({_array(value, is_global=True) for value in values}) == 1:
                pairs[argument] = output
    return pairs


def _same(
    arrays: EntryArrays,
    arguments: Iterable[int],
    results: Iterable[int],
    *,
    unknown: Collection[int] = (),
    is_global: bool = False,
) -> dict[int, int]:
    """Return the result of equal shape and type that each argument is paired with, in order.

    Results of unknown sharding are compared by their whole shape.
    """
    waiting: dict[object, deque[int]] = defaultdict(deque)
    for position in arguments:
        if (key := _array(arrays.arguments[position], is_global=is_global)) is not None:
            waiting[key].append(position)
    pairs = {}
    for position in results:
        key = _array(arrays.results[position], is_global=is_global or position in unknown)
        if key is not None and waiting.get(key):
            pairs[waiting[key].popleft()] = position
    return pairs


def _paired(arrays: EntryArrays, donated: Sequence[int], free: Sequence[int]) -> DonatedPairs:
    """Return the pairs that JAX makes of donated arguments and free results."""
    is_divided = arrays.module.num_partitions > 1
    unknown = arrays.open_results & set(free) if is_divided else frozenset[int]()
    same = _same(arrays, donated, free, unknown=unknown)
    pairs = DonatedPairs()
    for argument, output in same.items():
        layouts = arrays.arguments[argument].value.layout, arrays.results[output].value.layout
        if output not in unknown and layouts[0] == layouts[1]:
            pairs.outputs[argument] = output
        else:
            pairs.donors.add(argument)
    sizes: dict[object, int] = defaultdict(int)  # free results by number of elements
    for position in free:
        if position not in pairs.outputs.values():
            sizes[_elements(arrays.results[position], is_global=position in unknown)] += 1
    for argument in (one for one in donated if one not in same):
        size = _elements(arrays.arguments[argument])
        if unknown or sizes[size]:
            pairs.donors.add(argument)
            sizes[size] -= 1
    return pairs


def _paired_again(
    arrays: EntryArrays, before: DonatedPairs, added: set[int], removed: set[int]
) -> DonatedPairs:
    everything = range(len(arrays.results))
    if _paired(arrays, sorted(before.arguments), everything) == before:  # as JAX pairs them
        return _paired(arrays, sorted((before.arguments | added) - removed), everything)
    kept = {k: output for k, output in before.outputs.items() if k not in removed}
    free = [position for position in everything if position not in kept.values()]
    new = _paired(arrays, sorted(added), free)
    return DonatedPairs(kept | new.outputs, (before.donors - removed) | new.donors)


def _shape(value: ShardedValue, *, is_global: bool = False) -> Shape | None:
    shape = value.global_shape if is_global else value.device_shape or value.global_shape
    return None if shape is None or shape.is_token else shape


def _array(value: ShardedValue, *, is_global: bool = False) -> object:
    shape = _shape(value, is_global=is_global)
    return shape and (shape.element_type, shape.dimensions, shape.memory_space)


def _elements(value: ShardedValue, *, is_global: bool = False) -> object:
    shape = _shape(value, is_global=is_global)
    return shape and (prod(size or 0 for size in shape.dimensions), shape.memory_space)


def edit_donation(
    edits: TextEdits, donate: Sequence[str] = (), undonate: Sequence[str] = ()
) -> list[Change]:
    """Donate the arguments of some patterns, and those of others no longer."""
    arrays = EntryArrays(edits.module)
    before = pairs_of_text(arrays)
    removed = {position for pattern in undonate for position in arrays.arguments_of(pattern)}
    asked = {position for pattern in donate for position in arrays.arguments_of(pattern)}
    added, after = asked - before.arguments - removed, before
    if added or removed & before.arguments:
        after = _paired_again(arrays, before, added, removed)

    def donated(position: int) -> str:
        if position in before.arguments:
            raise InapplicableError(f"already donated; {before.use(arrays, position)}")
        if position not in after.arguments:
            raise InapplicableError("no free result has its shape or number of elements")
        return after.use(arrays, position)

    def undonated(position: int) -> str:
        if position not in before.arguments:
            raise InapplicableError("it is not donated")
        return "its memory is not reused for a result"

    patterns = [("donate", one, donated) for one in donate]
    patterns += [("undonate", one, undonated) for one in undonate]
    parts = [part for kind, one, make in patterns for part in arrays.parts(kind, one, one, make)]
    if before != after:
        _write(edits, arrays, after, before.kinds)
    return parts


def renew_donation(edits: TextEdits) -> None:
    """Pair donated arguments again where they no longer agree, as after a change of shardings."""
    arrays = EntryArrays(edits.module)
    before = pairs_of_text(arrays)
    pairs = [(arrays.arguments[a], arrays.results[b]) for a, b in before.outputs.items()]
    if any(_array(argument) != _array(output) for argument, output in pairs):
        after = _paired(arrays, sorted(before.arguments), range(len(arrays.results)))
        _write(edits, arrays, after, before.kinds)


def _write(
    edits: TextEdits, arrays: EntryArrays, pairs: DonatedPairs, kinds: dict[int, str]
) -> None:
    def index(value: ShardedValue) -> str:
        return index_text(index_of(value)) or "{}"

    def address(position: int) -> str:
        value = arrays.arguments[position]
        return f"({value.value.number}, {index(value)}"

    aliases = [
        f"{index(arrays.results[output])}: {address(position)}, {kinds.get(position, 'may-alias')})"
        for position, output in sorted(pairs.outputs.items(), key=lambda pair: pair[1])
    ]
    donors = [f"{address(position)})" for position in sorted(pairs.donors)]
    for name, entries in (("input_output_alias", aliases), ("buffer_donor", donors)):
        edits.header[name] = f"{{ {', '.join(entries)} }}" if entries else ""


def edit_dtype(edits: TextEdits, requests: Iterable[str]) -> list[Change]:
    """Store arguments, and the results that they become, as other types: ``PATTERN=bf16``.

    Raises:
        UsageError: If a request is malformed, or its type is not known.
    """
    editor = _TypeEditor(edits)
    parts = []
    for text in requests:
        pattern, _, name = text.rpartition("=")
        new = xla_name(name.strip()) or name.strip()
        if not pattern or new not in PRIMITIVE_TYPES or _family(new) == "other":
            raise UsageError(f"not a type of arguments: {text!r}; write it like \"opt['mu']=bf16\"")
        parts += editor.arrays.parts("dtype", text, pattern, partial(editor.store, new=new))
    return parts


def _family(element_type: str) -> str:
    """Return ``float``, ``integer`` or ``other``: types convert within a family."""
    if element_type.startswith(("f", "bf")):
        return "float"
    is_integer = element_type[0] in "su" and element_type[1:].isdecimal()
    return "integer" if is_integer else "other"


class _TypeEditor:
    """Edits of the element types of one module."""

    def __init__(self, edits: TextEdits) -> None:
        self.edits, self.module = edits, edits.module
        self.arrays = EntryArrays(edits.module)
        self.becomes = becomes(self.arrays)
        self.stored: set[int] = set()

    def store(self, position: int, new: str) -> str:
        value, root = self.arrays.arguments[position], self.module.entry.root
        if value.value.number is None or index_of(value):
            raise InapplicableError("the arguments are passed as one tuple")
        if value.global_shape is None:
            raise InapplicableError("its shape is not known")
        old = value.global_shape.element_type
        if old == new or position in self.stored:
            raise InapplicableError(f"it is {new} already")
        if _family(old) != _family(new):
            raise InapplicableError(f"{old} is not stored as {new}")
        result = self.becomes.get(position)
        is_single = root is None or (root.opcode != "tuple" and root.attribute("sharding"))
        if result is not None and is_single:
            raise InapplicableError("the only result is not in a tuple")
        self.stored.add(position)
        self._store_argument(position, new, stays_root=result is None)
        if result is None:
            return f"{old} is stored as {new}"
        self._store_result(result, old, new)
        name = result_name(self.arrays.results[result])
        return f"{old} is stored as {new}; so is {name}, which it becomes"

    def _store_argument(self, position: int, new: str, *, stays_root: bool) -> None:
        """Give a parameter a new name and type; a conversion has its old ones."""
        edits, write = self.edits, self.edits.reference
        parameter = self.arrays.parameter(self.arrays.arguments[position])
        line, stored = edits.line(parameter), edits.new_name(parameter)
        line.name = stored
        line.types[0] = edits.parameter_types[position] = new
        line.is_root = False if parameter.is_root and stays_root else None
        mark = "ROOT " * (line.is_root is False)
        shape = parameter.shape_text
        line.after.append(f"{mark}{write(parameter.name)} = {shape} convert({write(stored)})")

    def _store_result(self, position: int, old: str, new: str) -> None:
        """Convert a result last: before the tuple, or before what states its sharding."""
        edits, write, root = self.edits, self.edits.reference, self.module.entry.root
        assert root is not None  # checked by `store`
        edits.result_types[position] = new
        user, operand_number = root, position
        if root.opcode != "tuple":
            name, shape = edits.new_name(root), root.shape_text.replace(f"{old}[", f"{new}[", 1)
            edits.line(root).is_root = False
            convert = f"ROOT {write(name)} = {shape} convert({write(root.name)})"
            edits.last_of_entry().after.append(convert)
            return
        made = root.producer(position)
        if made is not None and is_result_call(made[0]) and not made[1]:
            user, operand_number = made[0], 0
            edits.line(user).types[0] = new
            for row, _ in self.module.links.users_of(user.row):
                copy = self.module.instruction(row)
                if copy.opcode == "reshape":  # jax leaves it in the text; nothing uses it
                    edits.line(copy).types[0] = new
        shapes = () if root.shape is None else root.shape.tuple_shapes
        shape = str(shapes[position]).replace(f"{old}[", f"{new}[", 1)
        name, operand = edits.new_name(user), edits.operand(user, operand_number)
        edits.line(user).before.append(f"{write(name)} = {shape} convert({write(operand)})")
        edits.line(user).operands[operand_number] = name
        edits.line(root).types[position] = new
