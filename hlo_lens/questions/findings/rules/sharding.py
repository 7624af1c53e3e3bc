"""Rules about shardings that the program states: values left whole, axes moved, dimensions cut."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.origins import origins
from hlo_lens.program.summary import hlo_text
from hlo_lens.program.value_flow import Value, value_flow
from hlo_lens.questions.collectives.collective import COUNT, collectives, end_of, run_sum
from hlo_lens.questions.collectives.origin import member_paths
from hlo_lens.questions.findings.finding import Finding, Remedy, Saves, Severity, at
from hlo_lens.questions.findings.findings import WARNING_SHARE, whole
from hlo_lens.questions.findings.rule import NO_TEXT_BEFORE, module_rule
from hlo_lens.questions.findings.values import (
    argument_of,
    axes_dividing,
    dropping_constraints,
    finding_of,
    first_use,
    is_on_host,
    is_part,
    line_text,
    maker_place,
    of_weights,
    place_of,
)
from hlo_lens.questions.memory.peak import rows_of_names
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import BACKWARD, INPUTS, OTHER, STATE, WEIGHTS, argument_roles
from hlo_lens.questions.sharding.savings import (
    free_axes,
    resharded_arguments,
    result_growth,
    sharding_results,
)
from hlo_lens.questions.what_if.arguments import covering_patterns, index_of
from hlo_lens.questions.work.work import sharded_parameters
from hlo_lens.shapes.named_sharding import spec_of_axes, written_spec
from hlo_lens.text.dump_kinds import BEFORE
from hlo_lens.text.errors import MissingDumpError
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.collectives.operand_shardings import ChangedAxes, MovedAxis
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.questions.sharding.savings import Saving
    from hlo_lens.shapes.shape import Shape


# ---- M003 ----------------------------------------------------------------------------------------
_MOST_SHOWN = 5
_LARGE = 0.1
"""Least share of the memory that a warning saves."""


@module_rule("M003")
def replicated_value(known: ModuleDump) -> Iterator[Finding]:
    """A value is replicated over a mesh axis that could divide it.

    What: All devices along a mesh axis hold the same argument or result, and the size of the axis
    divides one of its dimensions evenly.
    Why it costs: Dividing the value over an axis of n devices leaves 1/n of its bytes on each
    device. Where the whole value is needed it is gathered, which takes memory for a while, and
    communication in each step: then less is saved; what is computed from it may be divided too:
    then more is. It is an info where less than a tenth of the memory is saved, and for results of
    products, collectives, loops and shard_map. Inputs over an axis that divides weights have no
    figure before a compile. Weights and optimizer state over an axis that divides inputs and no
    weights are data parallelism: they come last, unless the program does not fit.
    Fix: Name the axis in the PartitionSpec of the value, in in_shardings and out_shardings, or
    where the value is created: NamedSharding(mesh, P("fsdp", None)).
    Fine when: The program is data parallel on purpose and the weights are small next to the
    activations; the gathers would cost more time than the memory is worth.
    """
    shardings = sharding_results(known)
    if shardings is None or is_part(known):
        return
    if not shardings.is_complete:
        raise MissingDumpError("the text ends before the end of its entry computation")
    moved = {
        (one.value.kind, one.value.number, one.value.index)
        for pair in resharded_arguments(known)  # M002 has those that enter and leave in two ways
        for one in pair
    }
    best: dict[object, Saving] = {}
    for saving in shardings.replicated.savings:  # largest first
        entry = saving.value.value
        key = entry.kind, entry.number, entry.index
        if key not in moved and not is_on_host(known, saving.value):
            best.setdefault(key, saving)
    if shardings.replicated.no_axes and not best:
        size = sum(one.padded_device_bytes or 0 for one in shardings.replicated.replicated)
        if size >= 64 * 1024:
            raise MissingDumpError(f"{format_bytes(size)} are replicated over an unknown mesh")
    case = _Case(known)
    groups: dict[object, list[Saving]] = defaultdict(list)
    for saving in best.values():
        groups[case.group(saving)].append(saving)
    for savings in groups.values():
        yield from case.findings(savings)


class _Case:
    """What decides about values of one module that are replicated over an axis."""

    def __init__(self, known: ModuleDump) -> None:
        self.known = known
        shardings = sharding_results(known)
        self.table = () if shardings is None else shardings.table.values
        self.dividing: dict[str, set[str]] = defaultdict(set)
        for one in sharded_parameters(known):
            self.dividing[self.role(one)] |= axes_dividing(one)

    def role(self, value: ShardedValue) -> str:
        number = value.value.number
        return OTHER if number is None else argument_roles(self.known).of_number(number).role

    def is_parallel(self, saving: Saving) -> bool:
        role = self.role(saving.value)
        inputs = self.dividing[INPUTS] | self.dividing[OTHER]
        of_its_kind = self.dividing[WEIGHTS] | self.dividing[role]
        return role in (WEIGHTS, STATE) and saving.axis in inputs - of_its_kind

    def group(self, saving: Saving) -> object:
        entry, role = saving.value.value, self.role(saving.value)
        if entry.kind != "parameter":
            return saving.value.device_shape, saving.axis
        if role in (WEIGHTS, STATE):
            return saving.axis, self.is_parallel(saving)
        return argument_of(entry.name or ""), role, saving.axis

    def findings(self, savings: Sequence[Saving]) -> Iterator[Finding]:
        first = savings[0]
        size = sum(one.saved_bytes for one in savings)
        if whole(self.known).memory_share(size) < WARNING_SHARE:
            return
        memory = memory_results(self.known)
        fits = None if memory is None else memory.statement.fits
        if fits is not False and self.is_parallel(first):
            yield self._parallel(savings)
            return
        entry, names, role = first.value.value, [*map(_name, savings)], self.role(first.value)
        is_argument = entry.kind == "parameter"
        specs = [self._spec(one) for one in savings]
        is_open = role in (INPUTS, OTHER) and is_argument and entry.aliased_with is None
        is_claimed = not (is_open and first.axis in self.dividing[WEIGHTS])
        is_fault = is_claimed and any(self._is_fault(one, size) for one in savings)
        axes = (of_weights(first.axis),) if role in (STATE, WEIGHTS) else (first.axis,)
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
            saves=Saves.about(size) if is_claimed else Saves(),
            severity=None if is_fault else Severity.INFO,
            has_cost=True,
            axes=axes if is_argument else (),
            changes=self._changes(savings),
        )

    def _parallel(self, savings: Sequence[Saving]) -> Finding:
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
            saves=Saves.about(sum(one.saved_bytes for one in savings)),
            severity=Severity.INFO,
            has_cost=True,
            is_by_design=True,
            changes=self._changes(savings),
        )

    def _message(self, savings: Sequence[Saving]) -> str:
        first, count = savings[0].value, len(savings)
        held = format_bytes(sum(one.value.padded_device_bytes or 0 for one in savings))
        roles = dict.fromkeys(self.role(one.value) for one in savings)
        what = f"{held} of {' and '.join(roles)}" if OTHER not in roles else held
        names = f"{_name(savings[0])} ({what}) is"
        if count > 1:
            names = f"{_name(savings[0])} and {plural(count - 1, 'other')} ({what}) are"
        axes = {} if first.mesh is None else free_axes(first, first.mesh)
        copies = first.replication_factor or savings[0].axis_size
        return f"{names} replicated over {','.join(axes) or savings[0].axis} ({copies} copies)"

    def _changes(self, savings: Sequence[Saving]) -> tuple[Remedy, ...]:
        arguments = [one.value.name or "" for one in sharded_parameters(self.known)]
        by_spec: dict[str, list[str]] = defaultdict(list)
        for one in savings:
            by_spec[self._spec(one)].append(_name(one))
        return tuple(
            Remedy(kind="shard", target=f"{pattern}={spec}")
            for spec, names in by_spec.items()
            for pattern in covering_patterns(names, arguments)
        )

    def _spec(self, saving: Saving) -> str:
        """Return the spec of an argument of a result's shape that the axis divides; else the best.

        A result of this shape is its update, or is used beside it.
        """
        shape = saving.value.global_shape
        is_result = saving.value.value.kind != "parameter" and shape is not None
        for one in sharded_parameters(self.known) if is_result else ():
            own = one.global_shape
            is_divided = own is not None and saving.axis in axes_dividing(one)
            if is_divided and own and shape and _array(own) == _array(shape):
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


def _array(shape: Shape) -> object:
    return shape.element_type, shape.dimensions


def _name(saving: Saving) -> str:
    entry = saving.value.value
    return entry.name if entry.kind == "parameter" else f"result{entry.index}"


def _divided(saving: Saving) -> str:
    rank = len(saving.value.device_shape.dimensions) if saving.value.device_shape else 0
    entries = [*(saving.value.spec or ())]
    entries += [None] * (rank - len(entries))
    old = entries[saving.dimension]
    names = (old,) if isinstance(old, str) else old or ()
    entries[saving.dimension] = (*names, saving.axis) if names else saving.axis
    return written_spec(tuple(entries))


# ---- C014 ----------------------------------------------------------------------------------------
_NO_COMPILED_TEXT = "this is the text from before optimizations; the compiled one has the gathers"


@module_rule("C014")
def gathering_constraint(known: ModuleDump) -> Iterator[Finding]:
    """A sharding constraint makes an intermediate value whole along an axis that divides it.

    What: In the text before optimizations, a with_sharding_constraint on a computed value leaves
    out a mesh axis that divides its operand, and the partitioner gathers the value over this axis.
    Why it costs: The bytes of the gathered value on the wire, and the same computation on all
    devices of the axis from there on.
    Fix: Keep the axis in the constraint: P("fsdp", None, "model") for an activation whose last
    dimension model divides; or leave the constraint out. what-if --constraint "drop FILE:LINE"
    compiles the program without it.
    Fine when: The next operation needs the whole value, as in sequence parallelism, and the
    constraint chooses where it is gathered; or each device updates its part of a weight that all
    devices then hold whole, as in ZeRO-1.
    """
    gathers = [one for one in collectives(known).collectives if one.kind == "all-gather"]
    if not gathers:
        return
    if known.before is None:
        is_early = known.stage == BEFORE
        raise MissingDumpError(_NO_COMPILED_TEXT if is_early else NO_TEXT_BEFORE)
    dropped = dropping_constraints(known)
    groups: dict[SourceLocation | None, list[Collective]] = defaultdict(list)
    for one in gathers:
        cause = next((drop for drop in dropped if _is_cause(known, drop, one)), None)
        if cause is not None:
            groups[cause.place].append(one)
    for place, caused in groups.items():
        causes = [one for one in dropped if one.place == place]
        first, line = causes[0], line_text(place)
        axes, kept = ",".join(first.axes), written_spec(spec_of_axes([*first.kept]))
        runs, sums = run_sum(caused, COUNT), _of_sums(known, causes)
        is_looped = runs is not None and runs.most > len(caused)
        times = f", {runs.most} times in a run" if runs is not None and is_looped else ""
        what = first.origin if first.argument is not None else "the value"
        found = finding_of(
            caused,
            f"the sharding constraint leaves out {axes}, which divides {what}: it is gathered by "
            f"{plural(len(caused), 'all-gather')}{times}",
            f"keep {axes}: {kept} in with_sharding_constraint, or delete the constraint",
        )
        sent = None if found.saves.sent_bytes is None else found.saves.sent_bytes + sums
        grown = f"sums of its gradients over other axes send {format_bytes(sums)} more"
        yield replace(
            found,
            **at(place),
            axes=first.axes,
            saves=Saves.up_to(sent_bytes=sent),
            evidence=(
                *found.evidence,
                *[grown] * bool(sums),
                f"{first.name} of {first.operand}, before optimizations: {axes} divides it "
                f"(as {first.origin})",
            ),
            changes=(Remedy(kind="constraint", target=f"drop {line}"),) if line else (),
        )


def _is_cause(known: ModuleDump, dropped: ChangedAxes, gather: Collective) -> bool:
    """Return whether a constraint needs an all-gather; of an argument also by its elements."""
    is_along = not set(dropped.axes).isdisjoint(gather.axes or ())
    if not is_along or dropped.paths.isdisjoint(member_paths(gather.own_op_name or "")):
        return False
    is_part = dropped.argument is None or dropped.elements is None
    return is_part or dropped.elements in _elements(known, gather)


def _elements(known: ModuleDump, collective: Collective) -> list[int | None]:
    end = end_of(hlo_text(known), collective)
    leaves = () if end is None or end.shape is None else end.shape.leaves()
    return [leaf.element_count for _, leaf in leaves]


def _of_sums(known: ModuleDump, dropped: Sequence[ChangedAxes]) -> int:
    """Return the bytes by which sums over other axes grow: gradients are summed whole."""
    meshes, grown = collectives(known).meshes, 0.0
    for one in collectives(known).collectives if meshes else ():
        total = sum(n or 0 for n in _elements(known, one)) if one.kind == "all-reduce" else 0
        paths = {*member_paths(one.op_name or "")}
        for cause in dropped if total else ():
            is_other = cause.argument is None and set(cause.axes).isdisjoint(one.axes or ())
            elements = cause.elements or 0
            if is_other and 0 < elements <= total and cause.paths & paths:
                size = math.prod(meshes[0].mesh.sizes.get(axis, 1) for axis in cause.axes)
                grown += (one.wire_bytes_per_run or 0) * elements / total * (1 - 1 / size)
                break
    return int(grown)


# ---- C017 ----------------------------------------------------------------------------------------
_EXCHANGES = ("all-to-all", "collective-permute")
_MOST_STEPS = 500


@module_rule("C017")
def moved_axis(known: ModuleDump) -> Iterator[Finding]:
    """A sharding constraint moves a mesh axis to another dimension, and the parts are exchanged.

    What: Two constraints divide activations along different dimensions in turn, and nothing between
    them combines elements along the dimension that the first one makes whole: activations are
    exchanged back and forth between layers for nothing. Or a constraint takes an axis from the
    batch, the first dimension, and divides another one, while the values that it meets keep it.
    Why it costs: An all-to-all for each, again in the backward pass, and gathers where both
    divisions meet.
    Fix: Keep one division from layer to layer: the same PartitionSpec in all constraints on
    activations, with the batch over the data axes. what-if --constraint "drop FILE:LINE" compiles
    the program without a constraint.
    Fine when: The next operation needs the dimension whole, as attention over a sequence that is
    divided elsewhere (Ulysses), or experts whose tokens are sent to them: those are no findings.
    """
    before = known.before
    exchanges = [one for one in collectives(known).collectives if one.kind in _EXCHANGES]
    if before is None or not exchanges:
        return
    from hlo_lens.questions.collectives.operand_shardings import changed_axes

    meshes = collectives(known).meshes
    changed = [
        one
        for one in changed_axes(before, meshes[0].mesh if meshes else None)
        if one.moved and one.argument is None and one.place is not None
    ]
    forward = [one for one in changed if not any(BACKWARD in path for path in one.paths)]
    to_batch = {move.axis for one in forward for move in one.moved if move.after == 0}
    seen = set()
    for one in forward:
        for move in one.moved if one.place not in seen else ():
            back = _way_back(before, one, move, changed)
            caused = [two for two in exchanges if move.axis in (two.axes or ())]
            if back is not None:
                lines = {one.place, back.place}
                paths = {path for two in changed if two.place in lines for path in two.paths}
                caused = [o for o in caused if paths & {*member_paths(o.own_op_name or "")}]
            leaves_batch = move.before == 0 and move.axis not in to_batch
            if not caused or (back is None and not leaves_batch):
                continue
            seen.add(one.place)
            sent = plural(len(caused), "exchange")
            message = f"the sharding constraint moves {move.axis} from dimension {move.before} to "
            if back is None:
                message += f"{move.after}, away from the batch: {sent} over {move.axis}"
            else:
                message += f"{move.after}, and the one at {line_text(back.place)} moves it back: "
                message += f"{sent}, and nothing between needs it"
            fix = (
                f"keep {move.axis} at dimension {move.before} in the PartitionSpec, or drop the "
                "constraint"
            )
            change = Remedy(kind="constraint", target=f"drop {line_text(one.place)}")
            found = finding_of(caused, message, fix)
            yield replace(found, **at(one.place), changes=(change,))


def _way_back(
    before: HloModule, one: ChangedAxes, move: MovedAxis, changed: Sequence[ChangedAxes]
) -> ChangedAxes | None:
    for other in changed:
        is_back = (move.axis, move.after, move.before) in other.moved
        if is_back and other.origin == one.name:
            rows = rows_of_names(before, {one.name, other.name})
            if not _is_needed(before, rows, (one.name, other.name), move.before):
                return other
    return None


def _is_needed(
    module: HloModule, rows: Mapping[str, int], names: tuple[str, str], dimension: int
) -> bool:
    """Return whether something between two constraints combines elements along a dimension.

    True where it is not known: attention, loops, sorts, kernels.
    """
    flow = value_flow(module)
    first, last = (rows[name] for name in names)
    batch = module.instruction(first).shape
    waiting, seen = [Value(last)], {Value(last), Value(first)}
    while waiting:
        for operand in map(flow.definition, flow.operands(waiting.pop().row)):
            shape = module.instruction(operand.row).shape
            # an activation that is computed from the first has its batch
            is_array = shape is not None and batch is not None and not shape.is_tuple
            if operand in seen or not is_array or shape is None or batch is None:
                continue
            if not shape.rank or not batch.rank or shape.dimensions[0] != batch.dimensions[0]:
                continue
            if len(seen) > _MOST_STEPS or _combines(module, operand.row, dimension):
                return True
            seen.add(operand)
            waiting.append(operand)
    return False


def _combines(module: HloModule, row: int, dimension: int) -> bool:
    from hlo_lens.questions.collectives.operand_shardings import COMBINING, listed_numbers

    instruction, opcode = module.instruction(row), module.opcodes[row]
    if opcode == "dot":
        has_batch = instruction.attribute("lhs_batch_dims") is not None
        return has_batch or dimension in listed_numbers(instruction, "lhs_contracting_dims")
    if opcode == "reduce":
        return dimension in listed_numbers(instruction, "dimensions")
    return opcode in COMBINING or opcode == "while" or opcode_traits(opcode).is_contraction


# ---- C016 ----------------------------------------------------------------------------------------
_KINDS = ("all-to-all", "collective-permute", "all-gather")
_CUTS = ("split", "slice", "concatenate", "pad", "reshape")
"""Last steps of the operation paths of what cuts or joins; the last two in backward passes."""

_SPLIT = (
    "make what is split a dimension of its own that nothing divides: a weight (width, 3, heads, "
    "depth) with P(None, None, '{axis}'), or one weight for each part"
)
_RESHAPED = (
    "keep the dimension that {axis} divides through the reshape, the major one of those that it "
    "merges or makes"
)


@module_rule("C016")
def cut_dimension(known: ModuleDump) -> Iterator[Finding]:
    """Data moves because an array is cut or joined along a dimension that is divided.

    What: A split, slice or concatenation along a dimension that a mesh axis divides, so that each
    device has parts of several results: the partitioner sends the pieces around (all-to-all,
    collective-permute).
    Why it costs: The bytes of the pieces, in the forward and in the backward pass, where nothing
    would be sent if each device had the same part of each result.
    Fix: Make what is split a dimension of its own, that nothing divides: a weight of shape (width,
    3, heads, depth) with P(None, None, "model"), q, k, v = jnp.moveaxis(qkv, -3, 0); or one weight
    for each. --prove cannot apply it.
    Fine when: Few bytes are sent: a shift by one position along a divided sequence, or jnp.roll,
    which is no finding.
    """
    groups: dict[object, list[Collective]] = defaultdict(list)
    for one in collectives(known).collectives:
        *around, last = (one.op_name or "").split("/")
        is_cut = last in _CUTS and not any("roll" in step for step in around)
        if one.kind in _KINDS and one.axes and not one.moves_nothing and is_cut:
            groups[place_of(one)].append(one)
    if groups and known.before is None:
        raise MissingDumpError(NO_TEXT_BEFORE)
    for found in groups.values():
        forward = [one for one in found if BACKWARD not in (one.op_name or "")]
        if forward and _is_along(known, forward[0]):
            axis, last = forward[0].axis, (forward[0].op_name or "").rpartition("/")[2]
            yield finding_of(
                found,
                f"{last} along a dimension that {axis} divides: its pieces are sent by "
                f"{plural(len(found), 'collective')}",
                (_RESHAPED if last == "reshape" else _SPLIT).format(axis=axis),
            )


def _is_along(known: ModuleDump, one: Collective) -> bool:
    from hlo_lens.questions.collectives.operand_shardings import needing_operation

    meshes, before = collectives(known).meshes, known.before
    mesh = meshes[0].mesh if meshes else None
    if before is None or one.op_name is None:
        return False
    operation = needing_operation(before, one, mesh, {one.op_name: place_of(one)})
    return operation is not None and any(operation.uses_of(axis)[0] for axis in one.axes or ())
