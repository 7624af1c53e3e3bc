"""Rules about work: products that devices repeat, compute again, or have in many copies."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import tabulate
from hlo_lens.program.flops import flops, flops_of
from hlo_lens.program.origins import InstructionPlaces, origins, origins_of
from hlo_lens.program.runs import CallCounts, SumPart, bounded_sum
from hlo_lens.program.summary import hlo_text, instruction_table, num_devices
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.collectives.collective import WIRE, collectives, known_sum, run_sum
from hlo_lens.questions.collectives.origin import member_paths
from hlo_lens.questions.findings.finding import Finding, Remedy, Saves, Severity, at
from hlo_lens.questions.findings.rule import MEMORY, module_rule
from hlo_lens.questions.findings.rules.sharding import replicated_value
from hlo_lens.questions.findings.values import (
    axes_dividing,
    dropping_constraints,
    finding_of,
    first_use,
    line_text,
    of_weights,
)
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import (
    BACKWARD,
    RECOMPUTED,
    WEIGHTS,
    Differentiation,
    argument_roles,
)
from hlo_lens.questions.work.lost_axis import Loss, LostAxis, is_stated_for_features, lost_axis
from hlo_lens.questions.work.work import (
    inputs_of,
    is_input,
    mesh_axes,
    sharded_parameters,
    work,
)
from hlo_lens.shapes.named_sharding import axes_of_entry, partition_spec_text, spec_of_axes
from hlo_lens.text.source_files import is_library_file
from hlo_lens.text.units import flops_text, format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.questions.work.work import RepeatedProduct, Work


# ---- W001 ----------------------------------------------------------------------------------------
_LEAST_SHARE, _LEAST_OF_WEIGHTS = 0.05, 0.15
"""Share of a device's FLOP below which repeating them is by design; if the axis divides weights
alone."""

_ERROR_SHARE = 0.25


@module_rule("W001", is_root=True)
def repeated_work(known: ModuleDump) -> Iterator[Finding]:
    """Devices along a mesh axis compute the same products.

    What: The axis divides an input of the program, or nothing, and matrix products whose operands
    are the same on all devices along it: each device computes what the others do.
    Why it costs: With an axis of n devices, a repeated product takes n times the share of the time
    that it needs, and its operands and results take n times their memory.
    Fix: Name the axis again after the first value that has lost it: x =
    jax.lax.with_sharding_constraint(x, P("fsdp", None, None)). An axis is lost where another
    sharding takes its place (a table P("model", "fsdp") that tokens divided over fsdp are looked up
    in), in a reshape that merges dimensions, a gather along the batch, a constraint P() left from
    debugging, specs of shard_map without the axis, or in_shardings without the batch.
    Fine when: The axis divides weights only, and values between blocks are whole on purpose, as in
    tensor parallelism: what is repeated then is small.
    """
    for axis, products in _repeated(known).items():
        yield _repeated_finding(known, work(known), axis, products)


def _repeated(known: ModuleDump) -> dict[str, list[RepeatedProduct]]:
    found = work(known)
    by_axis: dict[str, list[RepeatedProduct]] = defaultdict(list)
    for product in found.products if found.flops and found.repeated_flops else ():
        for axis in product.axis.split(",") if product.axis else ():
            by_axis[axis].append(product)
    of_inputs = {axis for one in inputs_of(known) for axis in axes_dividing(one)}
    only_weights = _axes_of_weights(known) - of_inputs
    return {
        axis: products
        for axis, products in by_axis.items()
        if _repeated_flops(known, axis, products)
        >= (found.flops or 0) * (_LEAST_OF_WEIGHTS if axis in only_weights else _LEAST_SHARE)
    }


def _repeated_flops(known: ModuleDump, axis: str, products: Sequence[RepeatedProduct]) -> int:
    size = mesh_axes(known).sizes[axis]
    parts = (SumPart(one.branches, one.flops * (size - 1) // size) for one in products)
    return bounded_sum(parts).most


def _axes_of_weights(known: ModuleDump) -> set[str]:
    parameters = sharded_parameters(known)
    others = (one for one in parameters if not is_input(known, one.value.number))
    return {axis for one in others for axis in axes_dividing(one)}


def _repeated_finding(
    known: ModuleDump, found: Work, axis: str, products: Sequence[RepeatedProduct]
) -> Finding:
    size, repeated = mesh_axes(known).sizes[axis], _repeated_flops(known, axis, products)
    lost = lost_axis(known, axis, {one.row: one.repeated_flops for one in products})
    if lost is not None and lost.loss is Loss.INPUT:
        dropped = (one for one in dropping_constraints(known) if axis in one.axes)
        place = next((one.place for one in dropped if one.argument is not None), None)
        if place is not None:  # it makes weights whole that the axis divides
            lost = LostAxis(loss=Loss.CONSTRAINT, place=place)
    inputs = [] if lost is None else _undivided_inputs(known, axis, lost.inputs)
    place = None if lost is None else lost.place
    if inputs:
        place = first_use(known, inputs[0].value.number)
    share, all_flops = found.equal_share_flops, found.flops or 0
    change, fix = _fix(known, axis, lost, inputs)
    loss = _UNKNOWN_LOSS if lost is None else _LOSSES[lost.loss]
    loss = loss.format(axis=axis, line=line_text(place) or "here")
    alike = f"{size} devices compute {flops_text(repeated)} of {flops_text(all_flops)} alike"
    evidence = (
        *([f"an equal share is {flops_text(share)}"] if share is not None else ()),
        *_lines(known, products, size),
    )
    severity = Severity.ERROR if repeated >= _ERROR_SHARE * all_flops else Severity.WARNING
    if inputs and axis in _axes_of_weights(known):
        # weights that are whole along an axis that divides other weights
        of_axis = (one for one in replicated_value(known) if one.axes == (of_weights(axis),))
        whole = next((one for one in of_axis if one.severity is None and one.changes), None)
        if whole is not None:
            return replace(
                whole,
                message=f"{whole.message}: {alike}",
                evidence=(*evidence, *whole.evidence),
                saves=replace(whole.saves, flops=repeated),
                severity=severity,
            )
    return Finding(
        message=f"{loss}: {alike}",
        fix=fix,
        **at(place),
        axes=(axis, *[of_weights(axis)] * bool(inputs)),
        values=tuple(one.value.name or "" for one in inputs) or tuple(one.name for one in products),
        evidence=evidence,
        changes=() if change is None else (change,),
        saves=Saves.up_to(flops=repeated),
        severity=severity,
    )


_LOSSES = {
    Loss.OPERATION: "from {line} on, values are not divided over {axis}",
    Loss.CONSTRAINT: "the constraint leaves {axis} out",
    Loss.SHARD_MAP: "the specs of shard_map leave {axis} out",
    Loss.INPUT: "no input is divided over {axis}",
}
_UNKNOWN_LOSS = "operands of products are not divided over {axis}"


def _undivided_inputs(known: ModuleDump, axis: str, numbers: Sequence[int]) -> list[ShardedValue]:
    size = mesh_axes(known).sizes[axis]
    found = [
        one
        for one in sharded_parameters(known)
        if one.value.number in numbers and one.device_shape and one.device_shape.dimensions
        if (one.device_shape.dimensions[0] or 1) % size == 0
    ]
    return sorted(found, key=lambda one: -(one.device_bytes or 0))


def _fix(
    known: ModuleDump, axis: str, lost: LostAxis | None, inputs: Sequence[ShardedValue]
) -> tuple[Remedy | None, str]:
    if inputs:
        name = inputs[0].value.name or ""
        first, *rest = [*map(axes_of_entry, inputs[0].spec or ())] or [()]
        divided = spec_of_axes([(*first, axis), *rest])
        rank = 0 if inputs[0].device_shape is None else inputs[0].device_shape.rank
        spec = partition_spec_text((*divided, *(None,) * (rank - len(divided))))
        return Remedy(kind="shard", target=f"{name}={spec}"), f"in_shardings of {name}: {spec}"
    if lost is None or lost.place is None:
        return None, f"divide the values between products over {axis}"
    line = line_text(lost.place)
    if lost.loss is Loss.SHARD_MAP:
        return None, f"name {axis} in in_specs and out_specs of shard_map at {line}"
    if lost.loss is Loss.CONSTRAINT:
        return Remedy(kind="constraint", target=f"drop {line}"), (
            f"name {axis} in the PartitionSpec of with_sharding_constraint at {line}, or drop it"
        )
    spec = _spec_after(known, axis, lost.place)
    return Remedy(kind="constraint", target=f"add {line}={spec}"), (
        f"after {line}: x = jax.lax.with_sharding_constraint(x, {spec})"
    )


def _spec_after(known: ModuleDump, axis: str, place: SourceLocation) -> str:
    """Return the spec that divides the batch of the largest value of a line.

    The batch is the dimension that has the size of the one which the axis divides in an input, at
    the same position if there are several; else the first.
    """
    before, size = known.before, mesh_axes(known).sizes[axis]
    batches = [
        (number, value.global_shape.dimensions[number])
        for value in inputs_of(known)
        for number, entry in enumerate(value.spec or ())
        if axis in axes_of_entry(entry) and value.global_shape is not None
    ]
    arrays: list[tuple[int | None, ...]] = []
    if before is not None:
        places = InstructionPlaces(before)
        rows = (row for row in range(len(before.columns)) if places.innermost(row) == place)
        shapes = (before.instruction(row).shape for row in rows)
        arrays = [one.dimensions for one in shapes if one is not None and not one.is_tuple]
    sizes = max(arrays, key=lambda one: math.prod(n or 0 for n in one) if one else 0, default=())
    if not sizes:
        return partition_spec_text((axis,))
    likely = [n for n, length in batches if n < len(sizes) and sizes[n] == length]
    likely += [n for _, length in batches for n, one in enumerate(sizes) if one == length]
    likely += [n for n, one in enumerate(sizes) if (one or 1) % size == 0]
    number = likely[0] if likely else 0
    return partition_spec_text((*(None,) * number, axis, *(None,) * (len(sizes) - number - 1)))


def _lines(known: ModuleDump, products: Sequence[RepeatedProduct], size: int) -> tuple[str, ...]:
    lines: dict[str, int] = defaultdict(int)
    for one in products:
        place = origins(known).place(one.row)
        lines["[no source line]" if place is None else str(place)] += one.flops
    ordered = sorted(lines.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        f"{line}: {flops_text(flops * (size - 1) // size)} of {flops_text(flops)} alike"
        for line, flops in ordered[:4]
    )


# ---- W003 ----------------------------------------------------------------------------------------
_LEAST_SENT = 0.05
"""Share of all bytes sent below which partial sums are by design."""

_PRODUCTS = ("dot_general", "conv_general_dilated")
"""Last steps of the operation paths of products."""


@module_rule("W003", is_root=True)
def lost_batch_axis(known: ModuleDump) -> Iterator[Finding]:
    """Activations lose the axis that divides the batch, and products are split along it instead.

    What: The axis divides the batch, the first dimension of an input. On the way it is lost, as in
    a lookup in a table that it divides too, and the products that follow are divided along the
    dimension that they contract: the devices along it hold the whole batch, and sum their parts.
    Why it costs: Each of these products sends the partial sums of activations of the whole batch,
    where weights would be gathered; and the activations take as many times their memory as the axis
    has devices. The saving is at most all that is sent over the axis.
    Fix: Name the axis again after the line that loses it: x = jax.lax.with_sharding_constraint(x,
    P("fsdp", None, None)). Weights that it divides are then gathered for each layer (FSDP).
    Fine when: The batch is so small that sums of activations are less than the weights, as in
    decoding, or a constraint divides another dimension of activations over the axis on purpose:
    those are no findings.
    """
    every = collectives(known).known_wire_bytes.most
    firsts = (one.spec[0] for one in inputs_of(known) if one.spec)
    of_batch = {axis for entry in firsts for axis in axes_of_entry(entry)}
    for axis in sorted(of_batch - _repeated(known).keys()):
        sums = [one for one in collectives(known).collectives if _is_partial_sum(one, axis)]
        wire, places = run_sum(sums, WIRE), origins(known).places
        sent = 0 if wire is None else wire.most
        if not sums or wire is None or sent < max(_LEAST_SENT * every, _gathered(known, axis)):
            continue
        if is_stated_for_features(known, axis):
            continue
        paths = {path for one in sums for path in member_paths(one.op_name or "")}
        products = {
            one.row: one.run_flops or 0
            for one in flops(known).products
            if places.op_name(one.row) in paths
        }
        lost = lost_axis(known, axis, products)
        if lost is None or lost.loss not in (Loss.OPERATION, Loss.CONSTRAINT):
            continue
        change, fix = _fix(known, axis, lost, ())
        along = (one for one in collectives(known).collectives if axis in (one.axes or ()))
        start = f"from {line_text(lost.place) or 'here'} on, activations lose the batch axis {axis}"
        if lost.loss is Loss.CONSTRAINT:
            start = f"the constraint leaves out {axis}, which divides the batch"
        found = finding_of(
            sums,
            f"{start}: products are divided along what they contract, and sum their parts by "
            f"{plural(len(sums), sums[0].kind)} of the whole batch, {format_bytes(sent)} sent",
            fix,
            saves=Saves.up_to(sent_bytes=known_sum(along, WIRE).most),
            severity=Severity.ERROR if sent >= _ERROR_SHARE * every else Severity.WARNING,
        )
        changes = () if change is None else (change,)
        yield replace(found, **at(lost.place), axes=(axis,), changes=changes)


def _is_partial_sum(one: Collective, axis: str) -> bool:
    paths = member_paths(one.op_name or "")
    return (
        one.kind in ("all-reduce", "reduce-scatter")
        and axis in (one.axes or ())
        and any(path.endswith(_PRODUCTS) and BACKWARD not in path for path in paths)
    )


def _gathered(known: ModuleDump, axis: str) -> int:
    return sum(
        (one.device_bytes or 0) * (mesh_axes(known).sizes.get(axis, 1) - 1)
        for one in sharded_parameters(known)
        if argument_roles(known).of_number(one.value.number or 0).role == WEIGHTS
        and axis in axes_dividing(one)
    )


# ---- W002 ----------------------------------------------------------------------------------------
_MOST_ROWS = 100_000
"""Most instructions of a text that is searched."""


@module_rule("W002", needs=MEMORY)
def recomputed_forward(known: ModuleDump) -> Iterator[Finding]:
    """The forward pass is computed again, though its values would fit into memory.

    What: jax.checkpoint (nn.remat) computes half or more of the products of the forward pass again
    for the backward pass, and twice the bytes that it computes again would fit into what the device
    has free. Decided where the memory of the device is known: from a log, the dump or --limit.
    Why it costs: Up to a third more arithmetic: forward and backward pass are three units of work,
    with the forward pass again four.
    Fix: Leave jax.checkpoint away, or let it keep the results of products: jax.checkpoint(block,
    policy=jax.checkpoint_policies.dots_saveable). --prove cannot apply it: what is computed again
    is decided when JAX differentiates.
    Fine when: The batch is to grow, or other programs share the device. Below a tenth of the FLOP,
    and where the program takes less than a twentieth of the device, it is an info.
    """
    memory, before, total = memory_results(known), known.before, flops(known).total
    limit = None if memory is None else memory.statement.limit_bytes
    if memory is None or limit is None or before is None or total is None:
        return
    is_recomputed = RECOMPUTED in before.columns.source.text
    if not is_recomputed or len(before.columns) > _MOST_ROWS:
        return
    free = limit - memory.statement.total_bytes
    origins, runs = origins_of(before), CallCounts(tabulate(before))
    passes = Differentiation(before, origins.places)

    def times(row: int) -> int:
        return runs.at(before.links.owners[row]).times or 1

    def flops_of_products(rows: Iterable[int]) -> int:
        products = (row for row in rows if opcode_traits(before.opcodes[row]).is_contraction)
        return sum((flops_of(before.instruction(row)) or 0) * times(row) for row in products)

    rows = range(len(before.columns))
    again = [row for row in rows if RECOMPUTED in (passes.path(row) or "")]
    held = (row for row in again if not opcode_traits(before.opcodes[row]).is_formatting)
    size = sum(origins.steps.size(Value(row)) * times(row) for row in held) // num_devices(known)
    own, forward = flops_of_products(again), flops_of_products(filter(passes.is_forward, rows))
    if own < 0.5 * max(1, forward) or 2 * size > free:  # twice, to be safe
        return
    share = own / max(1, flops_of_products(rows))
    # the loop or the call around all of it
    calls = (origins.steps.caller(row) for row in again)
    outer = (origins.places.innermost(call.row) for call in calls if call is not None)
    place = next(filter(None, outer), None)
    is_grave = share >= 0.1 and free < 0.95 * limit
    yield Finding(
        message=(
            f"{own / max(1, forward):.0%} of the forward pass is computed twice, "
            f"{flops_text(int(total * share))} of {flops_text(total)}, though "
            f"{format_bytes(free)} of the device are free"
        ),
        fix="leave jax.checkpoint away, or keep products: jax.checkpoint(block, "
        "policy=jax.checkpoint_policies.dots_saveable)",
        **at(place or next(filter(None, map(origins.places.innermost, again)), None)),
        evidence=(f"what is computed again has about {format_bytes(size)} on each device",),
        saves=Saves.up_to(flops=int(total * share)),
        severity=Severity.WARNING if is_grave else Severity.INFO,
    )


# ---- X002 ----------------------------------------------------------------------------------------
_LEAST, _MANY = 8, 16
"""Fewest copies of a finding, and of a warning."""

_MANY_INSTRUCTIONS = 5000
_MOST_PRODUCTS = 5_000
"""Products of the largest program that is looked at."""

_DIGITS = re.compile(r"\d+")


@module_rule("X002")
def unrolled_computation(known: ModuleDump) -> Iterator[Finding]:
    """The same computation is in the program many times instead of in a loop.

    What: Products of one line of the program and one shape occur eight times or more outside of
    each other's loop, as a Python loop over layers makes them.
    Why it costs: Time to compile, which grows with the number of instructions, and the size of the
    program's code.
    Fix: Stack the parameters of the layers and use jax.lax.scan over them, in flax nn.scan.
    Fine when: It compiles fast enough. Below 16 copies, or in programs of less than 5,000
    instructions, it is an info.
    """
    names = {one.name: (one.flops, one.times) for one in flops(known).products if one.flops}
    if not _LEAST <= len(names) <= _MOST_PRODUCTS:
        return
    groups: dict[tuple[SourceLocation, str, object], list[str]] = {}
    for row in instruction_table(known).rows_where(lambda traits: traits.is_product):
        name = hlo_text(known).columns.name(row)
        path = origins(known).places.op_name(row) if name in names else None
        if path is None or BACKWARD in path or RECOMPUTED in path:
            continue
        place = origins(known).places.innermost(row)
        if place is not None and not is_library_file(place.file):
            groups.setdefault((place, _DIGITS.sub("#", path), names[name]), []).append(name)
    place, *_ = max(groups, key=lambda key: len(groups[key]), default=(None,))
    copies = max(groups.values(), key=len, default=[])
    if len(copies) < _LEAST:
        return
    count = len(hlo_text(known).columns)
    is_large = len(copies) >= _MANY and count >= _MANY_INSTRUCTIONS
    lines = sum(len(one) >= _LEAST for one in groups.values())
    yield Finding(
        message=(
            f"{len(copies)} equal products of one line: the computation is unrolled "
            f"({count:,} instructions)"
        ),
        fix="stack the parameters of the layers and use jax.lax.scan over them, in flax nn.scan",
        **at(place),
        values=tuple(copies),
        evidence=(f"{plural(lines, 'product')} of the program unrolled in this way",),
        severity=Severity.WARNING if is_large else Severity.INFO,
    )
