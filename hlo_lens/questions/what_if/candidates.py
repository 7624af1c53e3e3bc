"""Changes of a program that could lower its memory, with the bytes that its arrays shrink.

Donations are grouped by argument of the function, as ``donate_argnums`` names them. Shardings are
grouped by shape, type and present sharding, so that the moments of an optimizer are divided with
their parameter; further candidates divide all replicated values, or all optimizer state, over an
axis. Other element types change the numerics, so only those that the user allows are candidates.

The savings are those of arguments and results alone. Temporaries change too, in either direction:
only a compile shows the whole.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.questions.sharding.savings import (
    DonationStatus,
    donations,
    memory_pairs,
    replicated_bytes,
    ways_to_divide,
)
from hlo_lens.questions.what_if.arguments import (
    argument_root,
    common_pattern,
    covering_patterns,
    is_optimizer_state,
    result_name,
)
from hlo_lens.render.result import Records, Unit
from hlo_lens.shapes.named_sharding import axes_of_entry, partition_spec_text, spec_of_axes
from hlo_lens.shapes.shape import xla_name
from hlo_lens.text.errors import UsageError
from hlo_lens.text.patterns import matches
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.questions.sharding.placement import ShardedValue, ShardingTable
    from hlo_lens.questions.sharding.savings import Saving

_MOST_GROUPS = 8
_SMALL = 1000
"""Values that save less than this part of what an axis could are not divided with the others."""

_OTHER_DIMENSIONS = 2
"""Groups, the largest, of which a second dimension is a candidate too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One change: an option of ``what-if``, and its values, all given together."""

    kind: Annotated[str, "donate, shard or dtype"]
    change: Annotated[str, "description of the change"]
    values: Annotated[tuple[str, ...], "arguments and results that it changes"]
    requests: Annotated[tuple[str, ...], "values of the option of what-if"]
    saves_bytes: Annotated[int, Unit.BYTES, "bytes of each device that these arrays shrink"]

    def conflicts_with(self, other: Candidate) -> bool:
        """Whether both set the same property of a value."""
        return self.kind == other.kind and not set(self.values).isdisjoint(other.values)


@dataclass(frozen=True, kw_only=True)
class Candidates(Records[Candidate]):
    """Changes that could lower the memory of a program, largest saving first.

    Attributes:
        candidates: The changes.
        optimizer_state: Arguments that look like optimizer state in f32, by name: another element
            type is a candidate only if the user allows it.
        optimizer_bytes: Their bytes on each device.
        optimizer_pattern: Pattern that matches them; empty without any.
    """

    KIND: ClassVar[str] = "candidates"
    candidates: tuple[Candidate, ...]
    optimizer_state: tuple[str, ...] = ()
    optimizer_bytes: int = 0
    optimizer_pattern: str = ""


def candidates(table: ShardingTable, *, dtypes: Sequence[str] = ()) -> Candidates:
    """Return the changes that could lower the memory of a program.

    Args:
        table: Arguments and results, before optimizations or after.
        dtypes: Element types that are allowed: ``opt/**=bf16``.

    Raises:
        UsageError: If an element type is malformed.
    """
    retyped = [_dtype(table, text) for text in dtypes]
    changes = [*_donations(table), *_Divisions(table).candidates()]
    changes += [one for one in retyped if one.saves_bytes > 0]
    state = [value for value in table.parameters if _is_wide_state(value)]
    names = tuple(map(_name, state))
    return Candidates(
        candidates=tuple(sorted(changes, key=lambda one: -one.saves_bytes)),
        optimizer_state=names,
        optimizer_bytes=_bytes_of(state),
        optimizer_pattern=common_pattern(names),
    )


def _name(value: ShardedValue) -> str:
    return result_name(value) if value.value.kind == "output" else str(value.value.name)


def _bytes_of(values: Iterable[ShardedValue]) -> int:
    return sum(value.device_bytes or 0 for value in values)


def _is_wide_state(value: ShardedValue) -> bool:
    shape = value.global_shape or value.device_shape
    is_wide = shape is not None and shape.rank > 0 and shape.element_type in ("f32", "f64")
    return is_wide and is_optimizer_state(_name(value))


def _followers(table: ShardingTable) -> dict[str, ShardedValue]:
    """Return the results that are updated arguments but have memory of their own, by argument."""
    free = [value for value in table.parameters if value.value.aliased_with is None]
    return {_name(one): output for one, output in memory_pairs(free, table)}


# ---- donations and element types ---------------------------------------------------------------


def _donations(table: ShardingTable) -> Iterator[Candidate]:
    """Yield a candidate for each argument of the function that has donatable arrays."""
    groups: dict[str, list[ShardedValue]] = defaultdict(list)
    for one in donations(table).of(DonationStatus.DONATABLE):
        groups[argument_root(_name(one.value))].append(one.value)
    roots = sorted(groups, key=lambda root: -_bytes_of(groups[root]))
    titled: dict[str, tuple[str, ...]] = {
        f"donate {root}": (root,) for root in roots[:_MOST_GROUPS]
    }
    rest = tuple(roots[_MOST_GROUPS:])
    if rest:
        titled[f"donate {plural(len(rest), 'other argument')}"] = rest
    for title, requests in titled.items():
        values = [value for root in requests for value in groups[root]]
        yield Candidate(
            kind="donate",
            change=title,
            values=tuple(map(_name, values)),
            requests=requests,
            saves_bytes=_bytes_of(values),
        )


def _dtype(table: ShardingTable, text: str) -> Candidate:
    """Return the candidate for an element type that is allowed."""
    pattern, _, name = text.rpartition("=")
    if not pattern:
        raise UsageError(f"not an element type of arguments: {text!r}; write it like 'opt/**=bf16'")
    followers = _followers(table)
    chosen = [value for value in table.parameters if matches(pattern, str(value.value.name))]
    saved = 0
    for value in chosen:
        shape = value.device_shape or value.global_shape
        if shape is not None:
            new = replace(shape, element_type=xla_name(name.strip()) or name.strip()).size_bytes
            part = (shape.size_bytes or 0) - (new or 0)
            saved += part * (2 if _name(value) in followers else 1)
    return Candidate(
        kind="dtype",
        change=f"store {pattern} as {name.strip()}",
        values=tuple(map(_name, chosen)),
        requests=(text,),
        saves_bytes=saved,
    )


# ---- shardings ---------------------------------------------------------------------------------


class _Division(NamedTuple):
    """A value divided over further axes: each with the dimension that it divides."""

    value: ShardedValue
    axes: tuple[tuple[str, int], ...]
    saved_bytes: int

    @property
    def name(self) -> str:
        return _name(self.value)

    @property
    def spec_text(self) -> str:
        """The spec of the divided value."""
        shape, spec = self.value.global_shape, self.value.spec or ()
        axes = [axes_of_entry(entry) for entry in spec]
        axes += [()] * ((0 if shape is None else shape.rank) - len(axes))
        for axis, dimension in self.axes:
            axes[dimension] = (*axes[dimension], axis)
        return partition_spec_text(spec_of_axes(axes))


def _divided(saving: Saving, dimension: int | None = None) -> _Division:
    """Return the division of a saving, in another dimension if one is given."""
    place = saving.dimension if dimension is None else dimension
    return _Division(saving.value, ((saving.axis, place),), saving.saved_bytes)


def _over_all(savings: Sequence[Saving]) -> _Division:
    """Return a value divided over all its free axes, each where it saves most of what is left."""
    value = savings[0].value
    part = value.device_shape
    axes: list[tuple[str, int]] = []
    for one in sorted(savings, key=lambda one: -one.axis_size):
        ways = [] if part is None else ways_to_divide(part, one.axis_size)
        if ways:
            axes.append((one.axis, ways[0].dimension))
            part = ways[0].part
    sizes = [0 if s is None else s.padded_size_bytes or 0 for s in (value.device_shape, part)]
    return _Division(value, tuple(axes), sizes[0] - sizes[1])


class _Divisions:
    """Candidates that divide the replicated values of a program."""

    def __init__(self, table: ShardingTable) -> None:
        self.followers = _followers(table)
        self.names = [_name(value) for value in table.parameters]
        self.savings = [one for one in replicated_bytes(table).savings if one.saved_bytes > 0]

    def candidates(self) -> Iterator[Candidate]:
        """Yield candidates that divide groups alike, then all over an axis."""
        yield from self._alike()
        by_axis: dict[str, list[_Division]] = defaultdict(list)
        for one in self.savings:
            by_axis[one.axis].append(_divided(one))
        for axis, divisions in by_axis.items():
            total = sum(one.saved_bytes for one in divisions)
            large = [one for one in divisions if one.saved_bytes * _SMALL >= total]
            which = "all" if len(large) == len(divisions) else "large"
            if len(large) > 1:
                yield self._candidate(large, f"{which} replicated values over {axis}")
            state = [one for one in large if is_optimizer_state(one.name)]
            if 1 < len(state) < len(large):
                yield self._candidate(state, f"optimizer state over {axis}")

    def _alike(self) -> Iterator[Candidate]:
        """Yield candidates for values of equal shape, type and sharding."""
        groups: dict[object, dict[str, list[Saving]]] = defaultdict(lambda: defaultdict(list))
        for one in self.savings:
            shape = one.value.global_shape
            if shape is not None:
                alike = (shape.dimensions, shape.element_type, one.value.spec_text)
                groups[alike][one.axis].append(one)
        sized = [(kind, group) for kind, axes in groups.items() for group in axes.values()]
        sized.sort(key=lambda item: -sum(one.saved_bytes for one in item[1]))
        for place, (kind, group) in enumerate(sized[:_MOST_GROUPS]):
            yield self._candidate([_divided(one) for one in group])
            others = [one for one in group[0].dimensions if one != group[0].dimension]
            if others and place < _OTHER_DIMENSIONS:
                yield self._candidate([_divided(one, others[0]) for one in group])
            by_name: dict[str, list[Saving]] = defaultdict(list)
            for savings in groups.pop(kind, {}).values():
                for one in savings:
                    by_name[_name(one.value)].append(one)
            if any(len(savings) > 1 for savings in by_name.values()):
                yield self._candidate([_over_all(savings) for savings in by_name.values()])

    def _candidate(self, divisions: Sequence[_Division], title: str = "") -> Candidate:
        """Return the candidate that divides some values, and the results that they become."""
        first, specs, saved = divisions[0], dict[str, str](), 0
        for one in divisions:
            names, follower = [one.name], self.followers.get(one.name)
            if follower is not None and follower.sharding is not None:
                names.append(_name(follower))
            specs |= dict.fromkeys(names, one.spec_text)
            saved += one.saved_bytes * len(names)
        if not title:
            covering = covering_patterns([one.name for one in divisions], self.names)
            alike = f"{first.name} and {len(divisions) - 1} alike"
            axes = " and ".join(f"{axis} in dimension {place}" for axis, place in first.axes)
            title = f"{covering[0] if len(covering) == 1 else alike} over {axes}"
        by_spec: dict[str, list[str]] = defaultdict(list)
        for name, text in specs.items():
            by_spec[text].append(name)
        return Candidate(
            kind="shard",
            change=f"shard {title}",
            values=tuple(specs),
            requests=tuple(
                f"{pattern}={text}"
                for text, names in by_spec.items()
                for pattern in covering_patterns(names, self.names)
            ),
            saves_bytes=saved,
        )
