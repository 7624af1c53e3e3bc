"""A value is replicated over a mesh axis that could divide it.

What:
    All devices along a mesh axis hold the same argument or result, and the size of the axis divides
    one of its dimensions evenly.

Why it costs:
    Dividing the value over an axis of n devices leaves 1/n of its bytes on each device. The saving
    is that of the value. Where the whole value is needed it is gathered, which takes
    memory for a while, and communication in each step: then less is saved. What is computed from
    it may be divided too: then more is saved. --prove compiles the
    program with it. Optimizer state is never needed whole (ZeRO stage 1). It is an
    info where less than a tenth of the memory is saved, for inputs, and for weights if the axis
    divides no other weight, as in a data parallel program: the gathers may cost more. So are
    results of products, collectives, loops and shard_map: XLA may need operands in parts, or the
    whole result before it is cut.

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
from hlo_lens.questions.findings.findings import whole
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import (
    argument_of,
    first_use,
    is_on_host,
    is_part,
    maker_place,
)
from hlo_lens.questions.memory.roles import (
    CACHES,
    OTHER,
    STATE,
    WEIGHTS,
    argument_roles,
)
from hlo_lens.questions.sharding.savings import result_growth, sharding_results
from hlo_lens.questions.what_if.arguments import index_of
from hlo_lens.shapes.named_sharding import axes_of_entry, partition_spec_text
from hlo_lens.text.errors import MissingDumpError
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.roles import ArgumentRoles
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.questions.sharding.savings import Saving

_MOST_SHOWN = 5
_LARGE = 0.1
"""Least share of the memory that a warning saves."""

_LEAST_BYTES = 64 * 1024
"""Least bytes of values over an unknown mesh that leave the rule undecided."""


def replicated_value(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for the values of one argument and role, with the axis that saves most.

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
    on_device = (one for one in replicated.savings if not is_on_host(known, one.value))
    for saving in on_device:  # largest first
        entry = saving.value.value
        best.setdefault((entry.kind, entry.number, entry.index), saving)
    if replicated.no_axes and not best:
        size = sum(one.padded_device_bytes or 0 for one in replicated.replicated)
        if size >= _LEAST_BYTES:
            raise MissingDumpError(f"{format_bytes(size)} are replicated over an unknown mesh")
    if not best:
        return
    roles = argument_roles(known)
    groups: dict[object, list[Saving]] = {}
    for saving in best.values():
        entry = saving.value.value
        if entry.kind != "parameter":
            groups.setdefault(("", saving.value.device_shape, saving.axis), []).append(saving)
            continue
        argument, role = argument_of(entry.name or ""), _role(roles, saving.value)
        dividing = len([one for one in saving.value.spec or () if one])
        groups.setdefault((argument, role, saving.axis, dividing > 0), []).append(saving)
    for savings in groups.values():
        yield _finding(known, savings, roles)


def _role(roles: ArgumentRoles, value: ShardedValue) -> str:
    """Return the role of an argument; that of others is not evident."""
    number = value.value.number
    return OTHER if number is None else roles.of_number(number).role


def _finding(known: ModuleDump, savings: Sequence[Saving], roles: ArgumentRoles) -> Finding:
    first = savings[0]
    value, entry = first.value, first.value.value
    size = sum(one.saved_bytes for one in savings)
    held = sum(one.value.padded_device_bytes or 0 for one in savings)
    names = tuple(_name(one) for one in savings)
    role = _role(roles, value)
    many = len(savings) > 1
    more = f" and {plural(len(savings) - 1, 'other')}" if many else ""
    what = f" of {role}" if role != OTHER else ""
    is_argument = entry.kind == "parameter"
    place = (
        first_use(known, entry.number)
        if is_argument
        else maker_place(known, entry.name, entry.index)
    )
    return Finding(
        message=(
            f"{names[0]}{more} ({format_bytes(held)}{what}) {'are' if many else 'is'} replicated "
            f"over {first.axis} ({value.replication_factor or first.axis_size} copies)"
        ),
        fix=f"PartitionSpec {_spec(first)} divides dimension {first.dimension} over {first.axis}",
        **at(place),
        values=names,
        evidence=tuple(
            f"{_name(one)}: {one.value.spec_text or 'replicated'}, "
            f"{format_bytes(one.value.padded_device_bytes or 0)} on each device"
            + (f"; {_spec(one)} divides it" if many else "")
            for one in savings[:_MOST_SHOWN]
        ),
        saves=Saves.up_to(size),
        severity=None if _is_fault(known, first, size, roles) else Severity.INFO,
        has_cost=True,
        axes=(first.axis,) if is_argument and role not in (STATE, WEIGHTS) else (),
        changes=tuple(
            Remedy(kind="shard", target=f"{name}={_spec(one)}")
            for name, one in zip(names, savings, strict=True)
        ),
    )


def _is_fault(known: ModuleDump, saving: Saving, size: int, roles: ArgumentRoles) -> bool:
    """Return whether dividing values saves much, and costs little or is what others do."""
    if whole(known).memory_share(size) < _LARGE:
        return False
    value, role = saving.value, _role(roles, saving.value)
    if value.value.kind != "parameter":
        return not result_growth(hlo_text(known), origins(known), index_of(value))
    if role == STATE:
        return True
    if role == CACHES:
        return value.value.aliased_with is not None
    shardings = sharding_results(known)
    if role != WEIGHTS or shardings is None:
        return role == OTHER and value.value.aliased_with is not None
    return any(
        saving.axis in _axes(one) and _role(roles, one) == WEIGHTS
        for one in shardings.table.values
        if one.value.kind == "parameter"
    )


def _axes(value: ShardedValue) -> set[str]:
    """Return the mesh axes that divide a value."""
    return {axis for entry in value.spec or () for axis in axes_of_entry(entry)}


def _name(saving: Saving) -> str:
    """Return the name of an argument, or of a result as ``what-if`` takes it."""
    entry = saving.value.value
    return entry.name if entry.kind == "parameter" else f"result{entry.index}"


def _spec(saving: Saving) -> str:
    """Return the partition spec with the free axis on the dimension that it divides best."""
    rank = len(saving.value.device_shape.dimensions) if saving.value.device_shape else 0
    entries = [*(saving.value.spec or ())]
    entries += [None] * (rank - len(entries))
    old = entries[saving.dimension]
    names = (old,) if isinstance(old, str) else old or ()
    entries[saving.dimension] = (*names, saving.axis) if names else saving.axis
    return partition_spec_text(tuple(entries))


RULE = ModuleRule("M003", replicated_value)
