"""Rules about collectives that send more than the program needs."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import opcode_traits, opcodes_where
from hlo_lens.program.origins import InstructionPlaces, origins
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import backend_of_dump, hlo_text
from hlo_lens.program.value_flow import COPIES, ENDS, TUPLES, Route, Value, value_flow
from hlo_lens.questions.collectives.collective import WIRE, collectives, end_of, run_sum
from hlo_lens.questions.findings.finding import Remedy, Saves, Severity, at
from hlo_lens.questions.findings.rule import module_rule
from hlo_lens.questions.findings.values import (
    Transfer,
    by_line,
    finding_of,
    has_shape_of_weight,
    is_cut_to_own_part,
    line_text,
    maker_of,
    operands_of,
    over,
    shape_of,
    subject,
    transfers,
    uses_of,
)
from hlo_lens.questions.memory.roles import BACKWARD, RECOMPUTED, WEIGHTS, argument_roles
from hlo_lens.questions.work.work import inputs_of, sharded_parameters
from hlo_lens.render.result import sum_of
from hlo_lens.shapes.named_sharding import (
    axes_of_entry,
    partition_spec_text,
    spec_of_axes,
    written_spec,
)
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloComputation, HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.value_flow import Use, ValueFlow
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.shapes.shape import ShapeIndex


# ---- C007 ----------------------------------------------------------------------------------------
@module_rule("C007")
def repeated_all_gather(known: ModuleDump) -> Iterator[Finding]:
    """The same value is gathered more than once.

    What: Two all-gathers of one computation have the same operand, dimension and groups: the second
    makes what the first made.
    Why it costs: The bytes of the second all-gather on the wire.
    Fix: Give the value its gathered sharding once, before its uses, with all other axes that divide
    it: y = jax.lax.with_sharding_constraint(x, P(None, "model")), and use y.
    Fine when: XLA gathers it again to save memory (``.remat`` in the name), or one is of the
    forward and one of the backward pass (fully sharded parameters are gathered again on purpose,
    since the gathered ones do not fit): those are no findings. The two are so far apart that
    keeping the result costs more memory than there is.
    """
    module, groups = hlo_text(known), defaultdict[object, list[Transfer]](list)
    for one in transfers(known):
        gather, path = one.collective, one.collective.op_name or ""
        made = maker_of(module, one.parts[0].operand) if len(one.parts) == 1 else None
        if gather.kind == "all-gather" and made is not None and ".remat" not in gather.name:
            shape = shape_of(module, one.parts[0].result)
            size = None if shape is None else (shape.element_type, shape.dimensions)
            is_again = any(word in path for word in (BACKWARD, RECOMPUTED, "checkpoint"))
            groups[gather.computation, made, size, gather.groups, is_again].append(one)
    for found in groups.values():
        if len(found) < 2:
            continue
        gathers = [one.collective for one in found]
        first = gathers[0]
        what = first.argument or "one value"
        shape = shape_of(module, found[0].parts[0].result)
        held = None if shape is None else shape.padded_size_bytes
        cost = "" if held is None else f"; gathered once, it takes {format_bytes(held)} meanwhile"
        made_once = finding_of(
            gathers[1:],
            f"{what} is gathered {len(found)} times{over(first)}, first by {first.name}{cost}",
            f"gather it once before its uses,{over(first)} alone: "
            f"y = jax.lax.with_sharding_constraint(x, {_spec(known, first)}), use y",
        )
        yield replace(made_once, has_cost=True)


def _spec(known: ModuleDump, gather: Collective) -> str:
    values = sharded_parameters(known)
    own = next((one.spec for one in values if one.value.name == gather.argument), None)
    if own is None or gather.axes is None:
        return f"its PartitionSpec without {gather.axis}"
    kept = [tuple(a for a in axes_of_entry(one) if a not in gather.axes) for one in own]
    return written_spec(spec_of_axes(kept))


# ---- C005 ----------------------------------------------------------------------------------------
_KEEP = (
    "keep the sharded dimension through the reshape, or give the sharding before and after it with "
    "jax.lax.with_sharding_constraint"
)
_EXCHANGE = (
    "exchange the parts instead of gathering all: jax.lax.all_to_all(x, axis, split_axis, "
    "concat_axis, tiled=True)"
)


@module_rule("C005")
def sliced_all_gather(known: ModuleDump) -> Iterator[Finding]:
    """A value is gathered and then cut into parts at once: it could not be resharded directly.

    What: Each use of an all-gather's result is a slice at an offset that depends on the device, or
    another all-gather of which this holds. Where the gathers reach all devices, the value is whole
    on every one of them: the partitioner warns of an "involuntary full rematerialization".
    Why it costs: The bytes of the whole value on the wire, and in memory, where an all-to-all, or a
    slice of what the device has, would do. Typical causes: a reshape that splits or merges a
    sharded dimension so that the wanted tiling is no regular part of it; a constraint that moves an
    axis to another dimension; jax.lax.all_gather of tokens in a shard_map, of which each device
    takes those of its experts.
    Fix: Keep the sharded dimension through the reshape (shard the part that stays major), or give
    the sharding with jax.lax.with_sharding_constraint before and after it. In a shard_map:
    jax.lax.all_to_all.
    Fine when: The value is small.
    """
    module, chains = hlo_text(known), defaultdict[object, list[list[Transfer]]](list)
    for chain in _chains(module, transfers(known)):
        chains[chain[-1].collective.source].append(chain)
    devices = module.num_partitions * module.replica_count
    for found in chains.values():
        gathers = [one.collective for chain in found for one in chain]
        last, size = gathers[-1], max(one.payload_bytes or 0 for one in gathers)
        sizes = [math.prod(one.collective.group_size or 0 for one in chain) for chain in found]
        whole = " whole on every device (involuntary full rematerialization)"
        is_asked = (last.op_name or "").endswith("/all_gather")
        made = finding_of(
            gathers,
            f"{plural(len(gathers), 'all-gather')}: up to {format_bytes(size)}"
            f"{whole * (devices in sizes)}, then cut into each device's part",
            _EXCHANGE if is_asked else _KEEP,
        )
        yield replace(made, saves=Saves.about(sent_bytes=made.saves.sent_bytes))


def _chains(module: HloModule, found: Sequence[Transfer]) -> Iterator[list[Transfer]]:
    """Yield chains of all-gathers, each the only use of the one before, the last only sliced."""
    gathers = {
        (one.collective.computation, one.collective.name): one
        for one in found
        if one.collective.kind == "all-gather" and len(one.parts) == 1
    }
    before: dict[tuple[str, str], tuple[str, str]] = {}
    ends = []
    for key, one in gathers.items():
        uses = uses_of(module, one.parts[0].result)
        if is_cut_to_own_part(module, one.parts[0].result):
            ends.append(key)
        elif uses and len(uses) == 1:
            user = module.instruction(uses[0].row)
            if (user.computation.name, user.name) in gathers:
                before[user.computation.name, user.name] = key
    for end in ends:
        chain = [end]
        while (first := before.get(chain[0])) is not None and first not in chain:
            chain.insert(0, first)
        yield [gathers[key] for key in chain]


# ---- C018 ----------------------------------------------------------------------------------------
@module_rule("C018")
def gathered_experts(known: ModuleDump) -> Iterator[Finding]:
    """Weights of experts are gathered in full, where their tokens could be sent to them.

    What: An axis divides the experts of a weight, the dimension that it shares with the tokens of a
    batched product, and all-gathers make the weight whole: each device computes all experts for
    tokens of its own.
    Why it costs: The weights of all experts on the wire and in memory of each device, and their
    gradients summed again, where an all-to-all would send each token to its expert once.
    Fix: Divide the tokens of the product by experts, too: a constraint on what is dispatched, xe =
    jax.lax.with_sharding_constraint(xe, P("expert", "data", None, None)), and on the result of the
    experts; the partitioner then exchanges tokens.
    Fine when: The tokens are more bytes than the weights of all experts.
    """
    if known.before is None:
        return
    experts = _expert_products(known.before)
    groups: dict[str, list[tuple[str, _Experts]]] = defaultdict(list)
    for one in sharded_parameters(known) if experts else ():
        number = one.value.number or 0
        sizes = () if one.global_shape is None else one.global_shape.dimensions
        if number in experts and argument_roles(known).of_number(number).role == WEIGHTS:
            for size, entry in zip(sizes, one.spec or (), strict=False):
                for axis in axes_of_entry(entry) if size == experts[number].experts else ():
                    groups[axis].append((one.value.name, experts[number]))
    for axis, weights in groups.items():
        names = [name for name, _ in weights]
        along = (one for one in collectives(known).collectives if axis in (one.axes or ()))
        found = [
            one
            for one in along
            if one.kind == "all-gather" and not set(names).isdisjoint(one.parameters)
        ]
        if not found:
            continue
        first = min((product for _, product in weights), key=lambda one: one.row)
        spec, wire, line = _token_spec(known, axis, first), run_sum(found, WIRE), first.place
        made = finding_of(
            found,
            f"{listed(names, 2)}: the weights of all experts are gathered over {axis}, which "
            "divides them by experts",
            f"after {line_text(line)}: x = jax.lax.with_sharding_constraint(x, {spec}), so that "
            "tokens are sent to their experts",
            saves=Saves.about(sent_bytes=None if wire is None else wire.most),
        )
        change = Remedy(kind="constraint", target=f"add {line_text(line)}={spec}")
        yield replace(made, **at(line), changes=(change,))


class _Experts(NamedTuple):
    """A product of tokens with the weights of experts, and the line that makes the tokens."""

    row: int
    experts: int
    place: SourceLocation
    tokens: tuple[int, ...]


_OF_WEIGHT = frozenset({"convert", "reshape", "copy", "transpose", "dynamic-slice"})


def _expert_products(before: HloModule) -> dict[int, _Experts]:
    """Return the first batched product that reads each parameter of the entry, by its number."""
    from hlo_lens.questions.collectives.operand_shardings import listed_numbers

    flow, places = value_flow(before), InstructionPlaces(before)
    found: dict[int, _Experts] = {}
    for row, opcode in enumerate(before.opcodes):
        instruction = before.instruction(row) if opcode == "dot" else None
        if instruction is None or instruction.attribute("lhs_batch_dims") is None:
            continue
        for position, side in ((0, "lhs"), (1, "rhs")):
            batch = listed_numbers(instruction, f"{side}_batch_dims")
            value, shape = flow.operand(row, position), instruction.operand_shape(position)
            while value is not None and before.opcodes[flow.definition(value).row] in _OF_WEIGHT:
                value = flow.operand(flow.definition(value).row, 0)
            tokens, other = flow.operand(row, 1 - position), instruction.operand_shape(1 - position)
            if value is None or shape is None or tokens is None or other is None or not batch:
                continue
            number = before.instruction(flow.definition(value).row).parameter_number
            place = places.innermost(flow.definition(tokens).row)
            if before.opcodes[flow.definition(value).row] != "parameter" or place is None:
                continue
            if number is not None and number not in found:
                tokens_of = tuple(n or 0 for n in other.dimensions)
                experts = shape.dimensions[batch[0]] or 0
                found[number] = _Experts(row, experts, place, tokens_of)
    return found


def _token_spec(known: ModuleDump, axis: str, product: _Experts) -> str:
    entries: list[tuple[str, ...]] = [()] * len(product.tokens)
    entries[product.tokens.index(product.experts)] = (axis,)
    for one in inputs_of(known):
        sizes = () if one.global_shape is None else one.global_shape.dimensions
        if one.spec and sizes and sizes[0] in product.tokens:
            place = product.tokens.index(sizes[0])
            rest = tuple(a for a in axes_of_entry(one.spec[0]) if a != axis)
            entries[place] = entries[place] or rest
    spec = spec_of_axes(entries)
    return partition_spec_text((*spec, *(None,) * (len(product.tokens) - len(spec))))


# ---- C004 ----------------------------------------------------------------------------------------
@module_rule("C004")
def sliced_all_reduce(known: ModuleDump) -> Iterator[Finding]:
    """The result of an all-reduce is cut to the device's own part at once.

    What: Each use of an all-reduce's result is a slice at an offset that depends on the device: a
    reduce-scatter that was not formed.
    Why it costs: An all-reduce sends 2(n-1)/n of its payload, a reduce-scatter half as much; and
    the whole result is in memory for a while.
    Fix: Ask for the divided result where it is made: with_sharding_constraint on the gradient with
    the sharding of its parameter, out_shardings of the step, or lax.psum_scatter in a shard_map.
    Fine when: The dump is of a CPU, whose compiler forms no reduce-scatter: TPU's and GPU's do,
    also behind this text. Then it is an info, and what-if --target shows it. So it is for the
    gradients of activations, which no line of the program makes.
    """
    module, before = hlo_text(known), known.before
    sliced = [
        one
        for one in transfers(known)
        if one.collective.kind == "all-reduce"
        and one.parts
        and all(is_cut_to_own_part(module, part.result) for part in one.parts)
    ]
    # reduce-scatters that the program asks for: XLA may perform them as all-reduce and slice
    rows = range(len(before.opcodes)) if before is not None and sliced else ()
    asked = {
        shape.dimensions
        for row in rows
        if before is not None and before.opcodes[row] == "reduce-scatter"
        if (shape := before.operand_shape(row, 0)) is not None
    }
    is_on_cpu = backend_of_dump(known) == "cpu"
    shapes = [(one, shape_of(module, one.parts[0].operand)) for one in sliced]
    found = (o.collective for o, shape in shapes if shape is None or shape.dimensions not in asked)
    for group in by_line(found):
        is_backward = any(BACKWARD in (one.op_name or "") for one in group)
        end = end_of(module, group[0]) if is_backward else None
        leaves = () if end is None or end.shape is None else end.shape.leaves()
        is_of_weight = any(has_shape_of_weight(known, leaf) for _, leaf in leaves)
        made = finding_of(
            group,
            f"{subject(group)}: each device uses only its own part of the result",
            "divide the result where it is made: with_sharding_constraint, or lax.psum_scatter",
            saved_share=0.5,
            severity=Severity.INFO if is_on_cpu or (is_backward and not is_of_weight) else None,
        )
        yield replace(made, axes=group[0].axes or ())


# ---- C003 ----------------------------------------------------------------------------------------
_MOST_STEPS = 500
_COPIED = Route(TUPLES | COPIES)


@module_rule("C003")
def invariant_collective(known: ModuleDump) -> Iterator[Finding]:
    """A collective in a loop has the same operand in every trip.

    What: All operands of a collective in the body of a loop are computed from values that the loop
    carries unchanged, and constants: each trip gets the same result.
    Why it costs: Its bytes on the wire in every trip but one.
    Fix: Do it before the loop: compute the value outside of the function that lax.scan or fori_loop
    runs, with the wanted sharding (jax.lax.with_sharding_constraint), and close over it.
    Fine when: The result is so large that it should not be in memory during the whole loop, as
    parameters that are gathered for each layer on purpose.
    """
    trips = {one.loop: one.trip_count for one in collectives(known).trips.loops}
    carried: dict[int, _Carried] = {}
    found: list[Collective] = []
    for one in transfers(known):
        count = trips.get(one.collective.loop_path[-1]) if one.collective.loop_path else None
        if count is not None and count > 1 and _is_invariant(hlo_text(known), one, carried):
            found.append(one.collective)
    for group in by_line(found):
        counts = [trips[one.loop_path[-1]] or 1 for one in group]
        wire = sum_of(
            None if (sent := one.wire_bytes_per_run) is None else sent - sent // count
            for one, count in zip(group, counts, strict=True)
        )
        yield finding_of(
            group,
            f"{subject(group)} in the loop {group[0].loop_path[-1]}: the same operands in each of "
            f"{max(counts)} trips",
            "compute it before the loop and close over the result",
            saves=Saves.up_to(sent_bytes=wire),
        )


class _Carried(NamedTuple):
    """Elements that a loop's body hands on unchanged, by their number in the carried tuple."""

    parameter: int
    numbers: frozenset[int]


def _is_invariant(module: HloModule, one: Transfer, carried: dict[int, _Carried]) -> bool:
    """Return whether all operands are the same in every trip of the innermost loop.

    Not those of constants alone, such as the zeros that the partitioner starts a windowed product
    with: the program has no value that could be made before the loop.
    """
    if not one.parts:
        return False
    place = module.links.owners[one.parts[0].operand.row]
    if not any(call.role == "body" for call in module.links.calls.of_computation(place)):
        return False
    if place not in carried:
        carried[place] = _carried(module, module.computations[place])
    waiting = [part.operand for part in one.parts]
    seen = set(waiting)
    is_carried = False
    while waiting:
        value = _passed(module, waiting.pop())
        if value.row == NOTHING or len(seen) > _MOST_STEPS:
            return False
        if value.row == carried[place].parameter and value.element[:1]:
            if value.element[0] not in carried[place].numbers:
                return False
            is_carried = True
            continue
        traits = opcode_traits(module.opcodes[value.row])
        if traits.is_impure or traits.is_control_flow or traits.opcode == "parameter":
            return False
        new = set(operands_of(module, value.row)) - seen
        seen |= new
        waiting += new
    return is_carried


def _carried(module: HloModule, body: HloComputation) -> _Carried:
    root, opcodes = body.root_row, module.opcodes
    parameters = [row for row in body.rows if opcodes[row] == "parameter"]
    if root == NOTHING or opcodes[root] != "tuple" or len(parameters) != 1:
        return _Carried(NOTHING, frozenset())
    (parameter,) = parameters
    results = enumerate(operands_of(module, root))
    same = (k for k, value in results if _passed(module, value) == (parameter, (k,)))
    return _Carried(parameter, frozenset(same))


def _passed(module: HloModule, value: Value) -> Value:
    flow = value_flow(module)
    before = None if value.row == NOTHING else value
    for _ in range(_MOST_STEPS):
        if before is None:
            break
        value, before = before, flow.before(before, _COPIED)
    return value


# ---- C015 ----------------------------------------------------------------------------------------
_PASSING = TUPLES | ENDS | opcodes_where(lambda traits: traits.is_moving)
_PASSING |= {"negate", "fusion", "call"}
"""Opcodes that hand a value on, as a whole or changed as its sum is."""

_CHANGING = ("multiply", "divide", "convert", "dynamic-update-slice")
"""Opcodes after which compilers keep an all-reduce in its loop."""

_BACK = Route(TUPLES | COPIES | {"convert", "reshape"}, frozenset({"fusion"}))


class _Sum(NamedTuple):
    """A loop that adds up a value, and the row of the addition.

    `is_plain`: the value itself is added, so that the compilers for TPU and GPU move it.
    """

    loop: int
    trips: int
    addition: int
    is_plain: bool


@module_rule("C015")
def accumulated_all_reduce(known: ModuleDump) -> Iterator[Finding]:
    """A loop adds up what all-reduces give in each trip: one after the loop would do.

    What: All uses of an all-reduce in a loop, scaled and moved at most, add it to a value that the
    loop carries: gradients of microbatches that are summed over devices in every trip, not once.
    Why it costs: Its bytes on the wire in every trip but one. The sum over devices of a sum over
    trips is the sum over trips of sums over devices, so the result is the same but for rounding.
    Fix: Let each device add up its own gradients, and sum over devices after the loop: run the loop
    in jax.shard_map over the data axes, with params = jax.lax.pcast(params, axes, to="varying")
    before jax.grad, and gradients = jax.lax.psum(total, axes) after lax.scan. --prove cannot apply
    it.
    Fine when: The gradients are kept divided (a reduce-scatter, which is no finding), or the
    compiler for TPU or GPU moves it out of the loop, which a dump of CPU does not show: there it is
    an info where the result is added as it is, and what-if --target shows it.
    """
    groups: dict[str, tuple[SourceLocation | None, list[Collective], list[_Sum]]] = {}
    for one in transfers(known):
        if one.collective.kind == "all-reduce" and one.collective.loop_path and one.parts:
            sums = [_sum(known, part.result) for part in one.parts]
            if sums[0] is not None and {one and one.loop for one in sums} == {sums[0].loop}:
                is_written = (one.collective.op_name or "").endswith("psum")
                row = one.parts[0].result.row if is_written else sums[0].addition
                place = origins(known).place(row)
                _, summed, found = groups.setdefault(str(place), (place, [], []))
                summed.append(one.collective)
                found.append(sums[0])
    for place, summed, found in groups.values():
        trips, wire = min(one.trips for one in found), run_sum(summed, WIRE)
        is_moved = backend_of_dump(known) == "cpu" and all(one.is_plain for one in found)
        once, saved = "", None
        if wire is not None:
            saved = wire.most - wire.most // trips
            once = f": one after it sends {format_bytes(wire.most // trips)}"
        made = finding_of(
            summed,
            f"{subject(summed)} in each of {trips} trips of a loop that only adds them up{once}",
            "add up the gradients of each device in the loop, in jax.shard_map with params = "
            'jax.lax.pcast(params, axes, to="varying"), and jax.lax.psum(total, axes) after it',
            saves=Saves.up_to(sent_bytes=saved),
            severity=Severity.INFO if is_moved else None,
        )
        note = "the compilers for TPU and GPU move it: hlo-lens what-if --target shows it"
        yield replace(made, **at(place), evidence=(*made.evidence, *[note] * is_moved))


def _sum(known: ModuleDump, value: Value) -> _Sum | None:
    module, flow = hlo_text(known), value_flow(hlo_text(known))
    found: dict[int, int] = {}
    waiting, seen = [value], {value}
    while waiting:
        one = waiting.pop()
        returned, uses = flow.returned(one), list(flow.uses(one))
        ahead = set() if returned is None else {returned}
        if returned is None and not uses:
            return None
        for use in uses:
            if flow.opcodes[use.row] == "add":
                found[_carrying_loop(module, use)] = use.row
            elif _is_passed(flow, use):
                ahead |= set(flow.after(use))
            else:
                return None
        waiting += ahead - seen
        seen |= ahead
        if len(seen) > _MOST_STEPS:
            return None
    loop = next(iter(found), NOTHING)
    trips = None if loop == NOTHING else call_counts(known).trip_count(module.instruction(loop))
    is_plain = {flow.opcodes[one.row] for one in seen}.isdisjoint(_CHANGING)
    return (
        _Sum(loop, trips, found[loop], is_plain)
        if len(found) == 1 and trips and trips > 1
        else None
    )


def _is_passed(flow: ValueFlow, use: Use) -> bool:
    """Return whether a use hands a value on, as a whole or scaled, also as a part of a stack."""
    opcode = flow.opcodes[use.row]
    if opcode == "dynamic-update-slice":
        return use.position == 1
    if opcode in ("multiply", "divide"):
        other = flow.operand(use.row, 1 - use.position)
        shape = None if other is None else flow.module.operand_shape(other.row, 0)
        is_scale = other is not None and flow.opcodes[other.row] in ("broadcast", "constant")
        return is_scale and (shape is None or shape.rank == 0)
    return opcode in _PASSING


def _carrying_loop(module: HloModule, use: Use) -> int:
    """Return the loop that carries the other operand of an addition, and its result in its place.

    The other operand may be reset in the first trip. `NOTHING` without such a loop.
    """
    flow = value_flow(module)
    other = flow.operand(use.row, 1 - use.position)
    for _ in range(_MOST_STEPS):
        if other is None:
            return NOTHING
        call = flow.caller(other.row)
        if flow.opcodes[other.row] == "parameter" and call is not None and call.role == "body":
            break
        is_reset = flow.opcodes[other.row] == "select"
        other = flow.operand(other.row, 2) if is_reset else flow.before(other, _BACK)
    else:
        return NOTHING
    root = flow.root(call.row, "body")
    made = None if root is None else maker_of(module, Value(root, other.element))
    while made is not None and flow.opcodes[made.row] == "convert":
        operand = flow.operand(made.row, 0)
        made = None if operand is None else maker_of(module, operand)
    if made is None or made.row != use.row:
        return NOTHING
    is_sum = _is_only_read_by(module, other, use.row) and root is not None
    is_sum = is_sum and _is_only_read_by(module, Value(use.row), root, other.element)
    return call.row if is_sum else NOTHING


def _is_only_read_by(
    module: HloModule, value: Value, reader: int | None, element: ShapeIndex = ()
) -> bool:
    """Return whether nothing in a loop reads a value but one instruction, as one of its elements.

    What only hands the value on, or resets it, does not count.
    """
    flow = value_flow(module)
    waiting, seen = [value], {value}
    while waiting:
        one = waiting.pop()
        returned = flow.returned(one)
        if returned is not None and returned not in seen:
            seen.add(returned)
            waiting.append(returned)
        for use in flow.uses(one):
            opcode = flow.opcodes[use.row]
            if use.row == reader and element in ((), (use.position,)):
                continue
            if opcode != "select" and not _is_passed(flow, use):
                return False
            ahead = {Value(use.row)} if opcode == "select" else set(flow.after(use))
            waiting += ahead - seen
            seen |= ahead
    return True
