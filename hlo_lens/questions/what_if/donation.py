"""Donation of arguments to results, edited in the header of the text.

Arguments are paired with results as JAX pairs them (_set_up_aliases in jax/_src/interpreters/
mlir.py of jax 0.10.2): each result, in order, takes the first donated argument with the same shape
on one device, element type and memory space. ``input_output_alias`` names both if layouts are
equal and the program states the sharding of the result; otherwise, or if there is a result with as
many elements only, ``buffer_donor`` names the argument and XLA looks for a result.

A module of MLIR has no place for ``buffer_donor``: who translates the text must set
``jax.buffer_donor`` on these arguments, or XLA does not know of them.

If the header has the pairs that JAX makes of its donated arguments, all pairs are made again with
the change; else the others stay as they are.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.sources import index_text
from hlo_lens.questions.what_if.arguments import (
    EntryArrays,
    index_of,
    positions,
    result_name,
    shape_of,
)
from hlo_lens.questions.what_if.edit import Change, ProgramEdit, set_header

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.sharding.table import ShardedValue


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
