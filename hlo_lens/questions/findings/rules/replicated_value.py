"""A value is replicated over a mesh axis that could divide it.

What:
    All devices along a mesh axis hold the same argument or result, and the size of the axis divides
    one of its dimensions evenly.

Why it costs:
    Dividing the value over an axis of n devices leaves 1/n of its bytes on each device. The saving
    is that of the value. Where the whole value is needed it is gathered, which takes
    memory for a while, and communication in each step: then less is saved. What is computed from
    it may be divided too: then more is saved. --prove compiles the
    program with it. It is an info where less than a tenth of the memory is saved, and for results
    of products, collectives, loops and shard_map: XLA may need operands in parts, or the whole
    result before it is cut. Inputs over an axis that divides weights have no figure before a
    compile: tensor-parallel products need them whole. Weights and optimizer state over an axis that
    divides inputs and no weights are data parallelism: they come last, unless the program does not
    fit. Optimizer state is never needed whole (ZeRO stage 1).

Fix:
    Name the axis in the PartitionSpec of the value, in in_shardings and out_shardings, or where the
    value is created: NamedSharding(mesh, P("fsdp", None)).

Fine when:
    The program is data parallel on purpose and the weights are small next to the activations; the
    gathers would cost more time than the memory is worth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.origins import origins
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.findings.finding import Finding, Remedy, Saves, Severity, at
from hlo_lens.questions.findings.findings import WARNING_SHARE, whole
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import (
    argument_of,
    first_use,
    is_on_host,
    is_part,
    maker_place,
)
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import INPUTS, OTHER, STATE, WEIGHTS, argument_roles
from hlo_lens.questions.sharding.savings import (
    free_axes,
    resharded_arguments,
    result_growth,
    sharding_results,
)
from hlo_lens.questions.what_if.arguments import covering_patterns, index_of
from hlo_lens.shapes.named_sharding import axes_of_entry, written_spec
from hlo_lens.text.errors import MissingDumpError
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.questions.sharding.savings import Saving

_MOST_SHOWN = 5
_LARGE = 0.1
"""Least share of the memory that a warning saves."""

_LEAST_BYTES = 64 * 1024
"""Least bytes of values over an unknown mesh that leave the rule undecided."""


def replicated_value(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for values of one role, with the axis that saves most.

    Raises:
        MissingDumpError: If the text ends before its entry, or values are replicated over a mesh
            that is not known.
    """
    shardings = sharding_results(known)
    if shardings is None or is_part(known):
        return
    if not shardings.is_complete:
        raise MissingDumpError("the text ends before the end of its entry computation")
    replicated = shardings.replicated
    best: dict[object, Saving] = {}
    moved = {
        (one.value.kind, one.value.number, one.value.index)
        for pair in resharded_arguments(known)
        for one in pair
    }
    on_device = (one for one in replicated.savings if not is_on_host(known, one.value))
    for saving in on_device:  # largest first
        entry = saving.value.value
        key = entry.kind, entry.number, entry.index
        if key not in moved:  # M002 has those that enter and leave in two ways
            best.setdefault(key, saving)
    if replicated.no_axes and not best:
        size = sum(one.padded_device_bytes or 0 for one in replicated.replicated)
        if size >= _LEAST_BYTES:
            raise MissingDumpError(f"{format_bytes(size)} are replicated over an unknown mesh")
    if not best:
        return
    case = _Case(known)
    groups: dict[object, list[Saving]] = {}
    for saving in best.values():
        groups.setdefault(case.group(saving), []).append(saving)
    for savings in groups.values():
        yield from case.findings(savings)


class _Case:
    """What decides about values of one module that are replicated over an axis."""

    def __init__(self, known: ModuleDump) -> None:
        self.known = known
        self.roles = argument_roles(known)
        shardings = sharding_results(known)
        self.table = () if shardings is None else shardings.table.values
        self.dividing: dict[str, set[str]] = {}
        for one in self.table:
            if one.value.kind == "parameter":
                self.dividing.setdefault(self.role(one), set()).update(_axes(one))

    def role(self, value: ShardedValue) -> str:
        """Return the role of an argument; that of others is not evident."""
        number = value.value.number
        return OTHER if number is None else self.roles.of_number(number).role

    def is_parallel(self, saving: Saving) -> bool:
        """Return whether an axis divides inputs and no weights: plain data parallelism."""
        role = self.role(saving.value)
        of_its_kind = self.dividing.get(WEIGHTS, set()) | self.dividing.get(role, set())
        inputs = self.dividing.get(INPUTS, set()) | self.dividing.get(OTHER, set())
        is_data = saving.axis in inputs and saving.axis not in of_its_kind
        return role in (WEIGHTS, STATE) and is_data

    def group(self, saving: Saving) -> object:
        """Return the key of the finding: weights and optimizer state together, else an argument."""
        entry, role = saving.value.value, self.role(saving.value)
        if entry.kind != "parameter":
            return saving.value.device_shape, saving.axis
        if role in (WEIGHTS, STATE):
            return saving.axis, self.is_parallel(saving)
        return argument_of(entry.name or ""), role, saving.axis

    def findings(self, savings: Sequence[Saving]) -> Iterator[Finding]:
        """Yield the finding about the values of a group, if it is worth one."""
        first = savings[0]
        size = sum(one.saved_bytes for one in savings)
        if whole(self.known).memory_share(size) < WARNING_SHARE:
            return
        memory = memory_results(self.known)
        fits = None if memory is None else memory.statement.fits
        if fits is not False and self.is_parallel(first):
            yield self._parallel(savings)
            return
        value, entry, names = first.value, first.value.value, [*map(_name, savings)]
        role = self.role(value)
        is_argument = entry.kind == "parameter"
        specs = [self._spec(one) for one in savings]
        is_open = role in (INPUTS, OTHER) and is_argument and value.value.aliased_with is None
        is_claimed = not (is_open and first.axis in self.dividing.get(WEIGHTS, set()))
        is_fault = is_claimed and any(self._is_fault(one, size) for one in savings)
        place = (
            first_use(self.known, entry.number)
            if is_argument
            else maker_place(self.known, entry.name, entry.index)
        )
        yield Finding(
            message=self._message(savings),
            fix=f"PartitionSpec {specs[0]} divides dimension {first.dimension} over {first.axis}"
            + ", as its argument is" * (not is_argument and specs[0] != _divided(first)),
            **at(place),
            values=tuple(names),
            evidence=tuple(
                f"{name}: {written_spec(one.value.spec or ())}, "
                f"{format_bytes(one.value.padded_device_bytes or 0)} on each device"
                + f"; {spec} divides it"
                * (len(savings) > 1)
                for name, one, spec in zip(names, savings, specs, strict=True)
            )[:_MOST_SHOWN],
            saves=Saves.up_to(size) if is_claimed else Saves(),
            severity=None if is_fault else Severity.INFO,
            has_cost=True,
            axes=(first.axis,) if is_argument and role not in (STATE, WEIGHTS) else (),
            changes=self._changes(savings),
        )

    def _parallel(self, savings: Sequence[Saving]) -> Finding:
        """Return the finding about plain data parallelism, which is by design."""
        held = sum(one.value.padded_device_bytes or 0 for one in savings)
        roles = dict.fromkeys(self.role(one.value) for one in savings)
        way = "optimizer state (ZeRO)" if STATE in roles else "weights (FSDP)"
        return Finding(
            message=(
                f"{plural(len(savings), 'array')} of {' and '.join(roles)} ({format_bytes(held)}) "
                f"{'are' if len(savings) > 1 else 'is'} whole along {savings[0].axis}, as data "
                "parallelism has it"
            ),
            fix=f"if memory is short, divide {way} over {savings[0].axis} too",
            values=tuple(map(_name, savings)),
            saves=Saves.up_to(sum(one.saved_bytes for one in savings)),
            severity=Severity.INFO,
            has_cost=True,
            is_by_design=True,
            changes=self._changes(savings),
        )

    def _message(self, savings: Sequence[Saving]) -> str:
        """Return which values are replicated over which axes."""
        first = savings[0].value
        held = sum(one.value.padded_device_bytes or 0 for one in savings)
        more = f" and {plural(len(savings) - 1, 'other')}" if len(savings) > 1 else ""
        roles = dict.fromkeys(self.role(one.value) for one in savings)
        what = f" of {' and '.join(roles)}" if OTHER not in roles else ""
        axes = {} if first.mesh is None else free_axes(first, first.mesh)
        return (
            f"{_name(savings[0])}{more} ({format_bytes(held)}{what}) {'are' if more else 'is'} "
            f"replicated over {' and '.join(axes) or savings[0].axis} "
            f"({first.replication_factor or savings[0].axis_size} copies)"
        )

    def _changes(self, savings: Sequence[Saving]) -> tuple[Remedy, ...]:
        """Return the changes that divide some values, those of one spec by patterns."""
        arguments = [one.value.name or "" for one in self.table if one.value.kind == "parameter"]
        by_spec: dict[str, list[str]] = {}
        for one in savings:
            by_spec.setdefault(self._spec(one), []).append(_name(one))
        return tuple(
            Remedy(kind="shard", target=f"{pattern}={spec}")
            for spec, names in by_spec.items()
            for pattern in covering_patterns(names, arguments)
        )

    def _spec(self, saving: Saving) -> str:
        """Return the spec of an argument of a result's shape that the axis divides; else the best.

        A result of this shape is its update, or is used beside it.
        """
        value = saving.value
        for one in self.table if value.value.kind != "parameter" else ():
            is_alike = one.global_shape is not None and one.value.kind == "parameter"
            if is_alike and saving.axis in _axes(one) and _is_same_array(one, value):
                return written_spec(one.spec or ())
        return _divided(saving)

    def _is_fault(self, saving: Saving, size: int) -> bool:
        """Return whether dividing values saves much, and costs little or is what others do."""
        known, value, role = self.known, saving.value, self.role(saving.value)
        if whole(known).memory_share(size) < _LARGE:
            return False
        if value.value.kind != "parameter":
            return not result_growth(hlo_text(known), origins(known), index_of(value))
        if role == WEIGHTS:
            return saving.axis in self.dividing[WEIGHTS]
        return role == STATE or (role != INPUTS and value.value.aliased_with is not None)


def _is_same_array(one: ShardedValue, other: ShardedValue) -> bool:
    """Return whether two values have the same dimensions and element type."""
    first, second = one.global_shape, other.global_shape
    if first is None or second is None:
        return False
    return (first.element_type, first.dimensions) == (second.element_type, second.dimensions)


def _axes(value: ShardedValue) -> set[str]:
    """Return the mesh axes that divide a value."""
    return {axis for entry in value.spec or () for axis in axes_of_entry(entry)}


def _name(saving: Saving) -> str:
    """Return the name of an argument, or of a result as ``what-if`` takes it."""
    entry = saving.value.value
    return entry.name if entry.kind == "parameter" else f"result{entry.index}"


def _divided(saving: Saving) -> str:
    """Return the partition spec with the free axis on the dimension that it divides best."""
    rank = len(saving.value.device_shape.dimensions) if saving.value.device_shape else 0
    entries = [*(saving.value.spec or ())]
    entries += [None] * (rank - len(entries))
    old = entries[saving.dimension]
    names = (old,) if isinstance(old, str) else old or ()
    entries[saving.dimension] = (*names, saving.axis) if names else saving.axis
    return written_spec(tuple(entries))


RULE = ModuleRule("M003", replicated_value)
