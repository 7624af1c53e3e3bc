"""A value is replicated over a mesh axis that could divide it.

What:
    All devices along a mesh axis hold the same argument or result, and the size of the axis divides
    one of its dimensions evenly.

Why it costs:
    Dividing the value over an axis of n devices leaves 1/n of its bytes on each device. The saving
    "of its own" is that of the value. Where the whole value is needed it is gathered, which takes
    memory for a while, and communication in each step: then less is saved. What is computed from
    it may be divided too: then more is saved, at most (n-1)/n of all memory. --prove compiles the
    program with it. Optimizer state is never needed whole (ZeRO stage 1). It is an
    info where less than a tenth of the memory is saved, and for values that are divided over
    another axis and not kept from step to step: the gathers may cost more.

Fix:
    Name the axis in the PartitionSpec of the value, in in_shardings and out_shardings, or where the
    value is created: NamedSharding(mesh, P("fsdp", None)).

Fine when:
    The program is data parallel on purpose and the weights are small next to the activations; the
    gathers would cost more time than the memory is worth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.findings.finding import Finding, Remedy, Saves, Severity
from hlo_lens.analysis.findings.places import argument_of, first_use, maker_place
from hlo_lens.analysis.findings.rule import ModuleRule
from hlo_lens.analysis.findings.whole import Whole
from hlo_lens.model.shapes.partition_spec import partition_spec_text
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.analysis.sharding.replicated_bytes import Saving
    from hlo_lens.analysis.sharding.table import ShardedValue

_MOST_SHOWN = 5
_LARGE = 0.1
"""Least share of the memory that a warning saves."""


def replicated_value(known: ModuleAnalysis) -> Iterator[Finding]:
    """Yield a finding for the values of one argument, shape and sharding, with their best axis."""
    if known.shardings is None or not known.shardings.is_complete:
        return
    best: dict[object, Saving] = {}
    for saving in known.shardings.replicated.savings:  # largest first
        entry = saving.value.value
        best.setdefault((entry.kind, entry.number, entry.index), saving)
    groups: dict[object, list[Saving]] = {}
    for saving in best.values():
        value = saving.value
        argument = argument_of(value.value.name or "") if value.value.kind == "parameter" else ""
        groups.setdefault((argument, value.device_shape, value.spec, saving.axis), []).append(
            saving
        )
    for savings in groups.values():
        yield _finding(known, savings)


def _finding(known: ModuleAnalysis, savings: Sequence[Saving]) -> Finding:
    first = savings[0]
    value, entry = first.value, first.value.value
    size = sum(one.saved_bytes for one in savings)
    names = tuple(_name(one) for one in savings)
    more = f" and {plural(len(savings) - 1, 'other')} of its shape" if len(savings) > 1 else ""
    spec = _spec(first)
    is_large = known.once(Whole.of).memory_share(size) >= _LARGE
    is_argument = entry.kind == "parameter"
    place = first_use(known, entry.number) if is_argument else maker_place(known, entry.name)
    return Finding(
        message=(
            f"{names[0]}{more} ({format_bytes(value.device_bytes or 0)}{' each' if more else ''}) "
            f"{'are' if more else 'is'} replicated over {first.axis} ({first.axis_size} copies)"
        ),
        fix=f"PartitionSpec {spec} divides dimension {first.dimension} over {first.axis}",
        place=place,
        values=names,
        evidence=tuple(
            f"{_name(one)}: {one.value.spec_text or 'replicated'}, "
            f"{format_bytes(one.value.device_bytes or 0)} on each device"
            for one in savings[:_MOST_SHOWN]
        ),
        saves=_saves(known, size, first.axis_size),
        severity=None if is_large and _is_lasting(value) else Severity.INFO,
        has_cost=True,
        remedies=tuple(Remedy(kind="shard", target=f"{n}={spec}") for n in names),
    )


def _saves(known: ModuleAnalysis, size: int, parts: int) -> Saves:
    """Return a saving; values computed from this one may be divided too, at best all of them."""
    memory = known.memory
    if memory is None or memory.statement.total_bytes is None:
        return Saves(own_bytes=size)
    bound = memory.statement.total_bytes * (parts - 1) // parts
    return Saves.at_most(max(bound, size), own_bytes=size)


def _is_lasting(value: ShardedValue) -> bool:
    """Return whether a value is kept from step to step, or divided over no axis at all.

    Others, such as a batch that is divided over its own axis, are gathered again where they are
    used.
    """
    return value.value.aliased_with is not None or not any(value.spec or ())


def _name(saving: Saving) -> str:
    """Return the name of an argument, or of a result as ``what-if`` takes it."""
    entry = saving.value.value
    return entry.name if entry.kind == "parameter" else f"result{entry.index}"


def _spec(saving: Saving) -> str:
    """Return the partition spec with the free axis on the longest dimension that it divides."""
    rank = len(saving.value.device_shape.dimensions) if saving.value.device_shape else 0
    entries = [*(saving.value.spec or ())]
    entries += [None] * (rank - len(entries))
    old = entries[saving.dimension]
    names = (old,) if isinstance(old, str) else old or ()
    entries[saving.dimension] = (*names, saving.axis) if names else saving.axis
    return partition_spec_text(tuple(entries))


RULE = ModuleRule("M003", replicated_value)
