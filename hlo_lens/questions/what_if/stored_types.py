"""Element types and donation of stored arguments, and of the results that they become.

The parameter gets the new type and is converted at once; the result is converted last. So the
program computes as before, and only what is stored between two runs changes, as if the program
called ``astype`` on the argument first and on the result last.

The result that an argument becomes has its memory, or would have if all arguments were donated:
JAX pairs them in order (`donation`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.placement import index_text
from hlo_lens.questions.what_if.arguments import (
    EntryArrays,
    element_text,
    index_of,
    is_result_call,
    positions,
    result_name,
    shape_of,
)
from hlo_lens.questions.what_if.edits import Change, ProgramEdit, TextEdits, set_header
from hlo_lens.shapes.shape import PRIMITIVE_TYPES, xla_name
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.questions.sharding.placement import ShardedValue


def edit_dtype(module: HloModule, requests: Iterable[str]) -> ProgramEdit:
    """Return the text's change for element types of arguments.

    Args:
        module: The program before optimizations.
        requests: ``PATTERN=bf16``: arguments by pattern, and a type by XLA's or numpy's name.

    Raises:
        UsageError: If a request is malformed, or its type is not known.
    """
    arrays = EntryArrays.of(module)
    found: dict[int, Retyped] = {}
    followers = becomes(arrays)
    changes: list[Change] = []
    for text, (pattern, element_type) in [(text, _request(text)) for text in requests]:
        places = arrays.arguments_of(pattern)
        made = []
        for place in places:
            one = _retyped(arrays, place, element_type, followers.get(place))
            if place in found:
                one = f"it is {element_type} already"
            if not isinstance(one, str):
                found[place] = one
            made.append(_change(arrays, place, one))
        if not places:
            made = [Change.refused("dtype", pattern, arrays.nothing_matches(pattern))]
        changes += [change.for_request(text) for change in made]
    caster = _Caster(arrays)
    for one in found.values():
        caster.change(one)
    return ProgramEdit(changes=tuple(changes), replacements=caster.edits.replacements())


@dataclass(frozen=True, slots=True, kw_only=True)
class Retyped:
    """An argument that is stored as another type.

    Attributes:
        place: Its position.
        old: Its element type.
        new: The type that is stored.
        result: Position of the result that it becomes; None for none.
    """

    place: int
    old: str
    new: str
    result: int | None


def _retyped(
    arrays: EntryArrays, place: int, element_type: str, follower: int | None
) -> Retyped | str:
    """Return an argument with its new type, or why it cannot have it."""
    value = arrays.arguments[place]
    shape = value.global_shape
    if value.value.number is None or index_of(value):
        return "the arguments are passed as one tuple"
    if shape is None:
        return "its shape is not known"
    old = shape.element_type
    if old == element_type:
        return f"it is {element_type} already"
    if _family(old) != _family(element_type):
        return f"{old} is not stored as {element_type}"
    if follower is not None and not _can_convert(arrays.module):
        return "the only result is not in a tuple"
    return Retyped(place=place, old=old, new=element_type, result=follower)


def _change(arrays: EntryArrays, place: int, one: Retyped | str) -> Change:
    name = str(arrays.arguments[place].value.name)
    if isinstance(one, str):
        return Change.refused("dtype", name, one)
    effect = f"{one.old} is stored as {one.new}"
    if one.result is not None:
        effect += f"; so is {result_name(arrays.results[one.result])}, which it becomes"
    return Change(kind="dtype", target=name, effect=effect)


def _can_convert(module: HloModule) -> bool:
    """Return whether the result can be converted: a tuple, or not given through one."""
    root = module.entry.root
    return root is not None and (root.opcode == "tuple" or root.attribute("sharding") is None)


def _request(text: str) -> tuple[str, str]:
    pattern, _, name = text.rpartition("=")
    element_type = xla_name(name.strip()) or name.strip()
    if not pattern or element_type not in PRIMITIVE_TYPES or _family(element_type) == "other":
        raise UsageError(f"not a type of arguments: {text!r}; write it like \"opt['mu']=bf16\"")
    return pattern, element_type


def _family(element_type: str) -> str:
    """Return ``float``, ``integer`` or ``other``: types convert within a family."""
    if element_type.startswith(("f", "bf")):
        return "float"
    if element_type[0] in "su" and element_type[1:].isdecimal():
        return "integer"
    return "other"


class _Caster:
    """Edits of the element types of one module."""

    def __init__(self, arrays: EntryArrays) -> None:
        self.module = arrays.module
        self.arrays = arrays
        self.edits = TextEdits(arrays.module)
        self.parameters = {one.parameter_number: one for one in arrays.module.entry.parameters}

    def change(self, one: Retyped) -> None:
        """Edit the type of an argument and of the result that it becomes."""
        parameter = self.parameters[self.arrays.arguments[one.place].value.number]
        stays_root = parameter.is_root and one.result is None
        self._store_argument(parameter, one.place, one.new, "ROOT " * stays_root)
        if one.result is not None:
            self._store_result(one.result, one.old, one.new)

    def _store_argument(self, parameter: HloInstruction, place: int, new: str, mark: str) -> None:
        """Give a parameter a new name and type; a conversion has its old ones."""
        edits, shape = self.edits, parameter.shape_text
        stored = edits.new_name(parameter)
        edits.set_name(parameter, stored)
        edits.set_type(parameter, 0, new)
        edits.set_entry_type(place, new, is_result=False)
        write = edits.reference
        edits.insert_after(
            parameter, f"{mark}{write(parameter.name)} = {shape} convert({write(stored)})"
        )
        if mark:
            edits.remove_root(parameter)

    def _store_result(self, place: int, old: str, new: str) -> None:
        root = self.module.entry.root
        if root is None:
            return
        edits = self.edits
        edits.set_entry_type(place, new, is_result=True)
        if root.opcode != "tuple":
            self._store_single(root, old, new)
            return
        made = root.producer(place)
        if made is not None and is_result_call(made[0]) and not made[1]:
            user, position = made[0], 0
            for other in (user, *self._copies(user)):
                edits.set_type(other, 0, new)
        else:
            user, position = root, place
        operand, write = edits.operand(user, position), edits.reference
        name = edits.new_name(user)
        shape = _typed(element_text(root, place), old, new)
        edits.insert_before(user, f"{write(name)} = {shape} convert({write(operand)})")
        edits.set_operand(user, position, name)
        edits.set_type(root, place, new)

    def _store_single(self, root: HloInstruction, old: str, new: str) -> None:
        edits = self.edits
        name, write = edits.new_name(root), edits.reference
        edits.remove_root(root)
        last = self.module.instruction(self.module.entry.rows[-1])
        shape = _typed(root.shape_text, old, new)
        edits.insert_after(last, f"ROOT {write(name)} = {shape} convert({write(root.name)})")

    def _copies(self, call: HloInstruction) -> list[HloInstruction]:
        """Return the reshapes of a result that jax leaves in the text; nothing uses them."""
        users = self.module.links.users_of(call.row)
        found = [self.module.instruction(row) for row, _ in users]
        return [one for one in found if one.opcode == "reshape"]


def _typed(shape: str, old: str, new: str) -> str:
    """Return the text of an array's shape with another element type."""
    return shape.replace(f"{old}[", f"{new}[", 1)


@dataclass(frozen=True, slots=True)
class DonatedPairs:
    """Donated arguments by position.

    Attributes:
        outputs: Argument to the result that has its memory.
        donors: Arguments whose memory XLA may use for any result.
        kinds: ``may-alias`` or ``must-alias`` of pairs that the text has.
    """

    outputs: dict[int, int] = field(default_factory=dict)
    donors: set[int] = field(default_factory=set)
    kinds: dict[int, str] = field(default_factory=dict, compare=False)

    @property
    def arguments(self) -> set[int]:
        """All donated arguments that a result can use."""
        return {*self.outputs, *self.donors}


def edit_donation(
    module: HloModule, *, donate: Iterable[str] = (), undonate: Iterable[str] = ()
) -> ProgramEdit:
    """Return the text's change for donated arguments.

    Args:
        module: The program before optimizations.
        donate: Patterns of arguments to donate.
        undonate: Patterns of arguments that are no longer donated.
    """
    arrays = EntryArrays.of(module)
    before = _pairs_of_text(arrays)
    wanted, unwanted = list(donate), list(undonate)
    chosen = [(pattern, arrays.arguments_of(pattern)) for pattern in wanted]
    left = [(pattern, arrays.arguments_of(pattern)) for pattern in unwanted]
    added = {place for _, places in chosen for place in places} - before.arguments
    removed = {place for _, places in left for place in places}
    after = _paired(arrays, before, added - removed, removed)
    changes: list[Change] = []
    for pattern, places in chosen:
        if not places:
            refused = Change.refused("donate", pattern, arrays.nothing_matches(pattern))
            changes.append(refused.for_request(pattern))
        for place in places:
            change = _donated(arrays, place, before, after, removed)
            changes.append(change.for_request(pattern))
    for pattern, places in left:
        if not places:
            refused = Change.refused("undonate", pattern, arrays.nothing_matches(pattern))
            changes.append(refused.for_request(pattern))
        changes += [_undonated(arrays, one, before).for_request(pattern) for one in places]
    if before == after:
        return ProgramEdit(changes=tuple(changes))
    return _edit(arrays, after, changes)


def renew_donation(module: HloModule) -> ProgramEdit:
    """Return the text's change for pairs that no longer agree, as after a change of shardings."""
    arrays = EntryArrays.of(module)
    before = _pairs_of_text(arrays)
    if all(_agree(arrays, *pair) for pair in before.outputs.items()):
        return ProgramEdit()
    after = _made(arrays, sorted(before.arguments), range(len(arrays.results)))
    after = DonatedPairs(after.outputs, after.donors, before.kinds)
    changes = []
    for place in sorted(before.arguments):
        name, now = str(arrays.arguments[place].value.name), "no result can have its memory"
        if place in after.arguments:
            now = _use(arrays, place, after)
        if now != _use(arrays, place, before):
            changes.append(Change(kind="donate", target=name, effect=f"donated before; now {now}"))
    return _edit(arrays, after, changes)


def _edit(arrays: EntryArrays, pairs: DonatedPairs, changes: Iterable[Change]) -> ProgramEdit:
    """Return the edit of the header to these pairs."""
    header = {
        "input_output_alias": _alias_text(arrays, pairs),
        "buffer_donor": _donor_text(arrays, pairs),
    }
    return ProgramEdit(changes=tuple(changes), replacements=set_header(arrays.module, header))


def _agree(arrays: EntryArrays, argument: int, output: int) -> bool:
    """Return whether an argument and a result are equal arrays on one device."""
    return _array(arrays.arguments[argument]) == _array(arrays.results[output])


def donated_results(arrays: EntryArrays) -> dict[int, int]:
    """Return the results that have the memory of an argument: position to position."""
    return _pairs_of_text(arrays).outputs


def becomes(arrays: EntryArrays) -> dict[int, int]:
    """Return the result that each argument becomes: its alias, else as if all were donated.

    Of several arguments of one shape, one with the sharding that the result has comes first.
    """
    found = dict(_pairs_of_text(arrays).outputs)
    unknown = arrays.open_results if arrays.module.num_partitions > 1 else frozenset[int]()
    for is_global in (False, True):
        rest = [place for place in range(len(arrays.arguments)) if place not in found]
        free = [place for place in range(len(arrays.results)) if place not in found.values()]
        if not is_global:
            free = [place for place in free if place not in unknown]
        found |= {
            argument: output
            for argument, output in _same(arrays, rest, free, is_global=is_global).items()
            if _whole(arrays.arguments[argument]) == _whole(arrays.results[output])
        }
    return found


# ---- pairs -------------------------------------------------------------------------------------


def _pairs_of_text(arrays: EntryArrays) -> DonatedPairs:
    """Return the pairs and donors in the header."""
    module = arrays.module
    numbers = positions(arrays.arguments)
    results = {index_of(value): place for place, value in enumerate(arrays.results)}
    found = DonatedPairs()
    for alias in module.input_output_alias:
        place = numbers.get((alias.parameter_number, alias.parameter_index))
        output = results.get(alias.output_index)
        if place is not None and output is not None:
            found.outputs[place] = output
            found.kinds[place] = alias.kind
    for number, index in module.buffer_donor:
        if (place := numbers.get((number, index))) is not None:
            found.donors.add(place)
    return found


def _paired(
    arrays: EntryArrays, before: DonatedPairs, added: Collection[int], removed: Collection[int]
) -> DonatedPairs:
    """Return the pairs with further donated arguments, and without some."""
    if not added and not before.arguments & set(removed):
        return before
    everything = range(len(arrays.results))
    if _made(arrays, sorted(before.arguments), everything) == before:
        made = _made(arrays, sorted({*before.arguments, *added} - set(removed)), everything)
        return DonatedPairs(made.outputs, made.donors, before.kinds)
    kept = {place: output for place, output in before.outputs.items() if place not in removed}
    free = [place for place in everything if place not in kept.values()]
    new = _made(arrays, sorted(added), free)
    donors = (before.donors - set(removed)) | new.donors
    return DonatedPairs({**kept, **new.outputs}, donors, before.kinds)


def _made(arrays: EntryArrays, donated: Sequence[int], free: Sequence[int]) -> DonatedPairs:
    """Return the pairs that JAX makes of donated arguments and free results."""
    unknown = arrays.open_results & set(free) if arrays.module.num_partitions > 1 else frozenset()
    same = _same(arrays, donated, free, unknown=unknown)
    made = DonatedPairs()
    for argument, output in same.items():
        fits = output not in unknown and _layouts(arrays, argument, output)
        if fits:
            made.outputs[argument] = output
        else:
            made.donors.add(argument)
    sizes: dict[object, list[int]] = defaultdict(list)
    for place in free:
        if place not in made.outputs.values():
            sizes[_elements(arrays.results[place], is_global=place in unknown)].append(place)
    for argument in donated:
        if argument in same:
            continue
        if unknown:
            made.donors.add(argument)
        elif (alike := sizes.get(_elements(arrays.arguments[argument]))) is not None and alike:
            alike.pop(0)
            made.donors.add(argument)
    return made


def _same(
    arrays: EntryArrays,
    arguments: Sequence[int],
    results: Sequence[int],
    *,
    unknown: Collection[int] = (),
    is_global: bool = False,
) -> dict[int, int]:
    """Return the result of equal shape and type that each argument is paired with, in order.

    Results of unknown sharding are compared by their whole shape.
    """
    waiting: dict[object, deque[int]] = defaultdict(deque)
    for place in arguments:
        if (key := _array(arrays.arguments[place], is_global=is_global)) is not None:
            waiting[key].append(place)
    found = {}
    for place in results:
        key = _array(arrays.results[place], is_global=is_global or place in unknown)
        if key is not None and waiting.get(key):
            found[waiting[key].popleft()] = place
    return found


def _array(value: ShardedValue, *, is_global: bool = False) -> object:
    shape = shape_of(value, is_global=is_global)
    if shape is None or shape.is_token:
        return None
    return shape.element_type, shape.dimensions, shape.memory_space


def _whole(value: ShardedValue) -> object:
    return _array(value, is_global=True)


def _elements(value: ShardedValue, *, is_global: bool = False) -> object:
    shape = shape_of(value, is_global=is_global)
    if shape is None or shape.is_token:
        return None
    return prod(size or 0 for size in shape.dimensions), shape.memory_space


def _layouts(arrays: EntryArrays, argument: int, output: int) -> bool:
    """Return whether the layouts of an argument and a result are equal."""
    return arrays.arguments[argument].value.layout == arrays.results[output].value.layout


# ---- changes -----------------------------------------------------------------------------------


def _donated(
    arrays: EntryArrays,
    place: int,
    before: DonatedPairs,
    after: DonatedPairs,
    removed: Collection[int],
) -> Change:
    name = str(arrays.arguments[place].value.name)
    if place in before.arguments and place not in removed:
        now = _use(arrays, place, before)
        return Change.refused("donate", name, f"already donated; {now}")
    if place in removed:
        return Change.refused("donate", name, "it is undonated too")
    if place not in after.arguments:
        return Change.refused("donate", name, "no free result has its shape or number of elements")
    return Change(kind="donate", target=name, effect=_use(arrays, place, after))


def _undonated(arrays: EntryArrays, place: int, before: DonatedPairs) -> Change:
    name = str(arrays.arguments[place].value.name)
    if place not in before.arguments:
        return Change.refused("undonate", name, "it is not donated")
    return Change(kind="undonate", target=name, effect="its memory is not reused for a result")


def _use(arrays: EntryArrays, place: int, pairs: DonatedPairs) -> str:
    """Return what becomes of a donated argument's memory."""
    if place not in pairs.outputs:
        return "XLA may use its memory for any result (buffer_donor)"
    return f"{result_name(arrays.results[pairs.outputs[place]])} has its memory"


# ---- the header --------------------------------------------------------------------------------


def _alias_text(arrays: EntryArrays, pairs: DonatedPairs) -> str:
    entries = []
    for argument, output in sorted(pairs.outputs.items(), key=lambda pair: pair[1]):
        value = arrays.arguments[argument]
        kind = pairs.kinds.get(argument, "may-alias")
        entries.append(
            f"{_index(arrays.results[output])}: ({value.value.number}, {_index(value)}, {kind})"
        )
    return f"{{ {', '.join(entries)} }}" if entries else ""


def _donor_text(arrays: EntryArrays, pairs: DonatedPairs) -> str:
    values = [arrays.arguments[place] for place in sorted(pairs.donors)]
    entries = [f"({value.value.number}, {_index(value)})" for value in values]
    return f"{{ {', '.join(entries)} }}" if entries else ""


def _index(value: ShardedValue) -> str:
    return index_text(index_of(value)) or "{}"
