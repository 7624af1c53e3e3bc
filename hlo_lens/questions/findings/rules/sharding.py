"""Rules about shardings that the program states: values left whole, axes moved, dimensions cut."""

from __future__ import annotations

import math
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
    dropping_constraints,
    finding_of,
    first_use,
    is_on_host,
    is_part,
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
from hlo_lens.shapes.named_sharding import axes_of_entry, spec_of_axes, written_spec
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
    from hlo_lens.shapes.mesh import Mesh


# ---- M003 ----------------------------------------------------------------------------------------


_MOST_SHOWN = 5
_LARGE = 0.1
"""Least share of the memory that a warning saves."""

_LEAST_BYTES = 64 * 1024
"""Least bytes of values over an unknown mesh that leave the rule undecided."""


@module_rule("M003")
def replicated_value(known: ModuleDump) -> Iterator[Finding]:
    """A value is replicated over a mesh axis that could divide it.

    What:
        All devices along a mesh axis hold the same argument or result, and the size of the axis
        divides one of its dimensions evenly.

    Why it costs:
        Dividing the value over an axis of n devices leaves 1/n of its bytes on each device. The
        saving is that of the value. Where the whole value is needed it is gathered, which takes
        memory for a while, and communication in each step: then less is saved. What is computed
        from it may be divided too: then more is saved. --prove compiles the program with it. It is
        an info where less than a tenth of the memory is saved, and for results of products,
        collectives, loops and shard_map: XLA may need operands in parts, or the whole result before
        it is cut. Inputs over an axis that divides weights have no figure before a compile:
        tensor-parallel products need them whole. Weights and optimizer state over an axis that
        divides inputs and no weights are data parallelism: they come last, unless the program does
        not fit. Optimizer state is never needed whole (ZeRO stage 1).

    Fix:
        Name the axis in the PartitionSpec of the value, in in_shardings and out_shardings, or where
        the value is created: NamedSharding(mesh, P("fsdp", None)).

    Fine when:
        The program is data parallel on purpose and the weights are small next to the activations;
        the gathers would cost more time than the memory is worth.
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
            saves=Saves.about(size) if is_claimed else Saves(),
            severity=None if is_fault else Severity.INFO,
            has_cost=True,
            axes=(of_weights(first.axis),)
            if role in (STATE, WEIGHTS)
            else (first.axis,) * is_argument,
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
            saves=Saves.about(sum(one.saved_bytes for one in savings)),
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
            f"replicated over {','.join(axes) or savings[0].axis} "
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


# ---- C014 ----------------------------------------------------------------------------------------


_NO_COMPILED_TEXT = "this is the text from before optimizations; the compiled one has the gathers"


@module_rule("C014")
def gathering_constraint(known: ModuleDump) -> Iterator[Finding]:
    """A sharding constraint makes an intermediate value whole along an axis that divides it.

    What:
        In the text before optimizations, a with_sharding_constraint on a computed value leaves out
        a mesh axis that divides its operand, and the partitioner gathers the value over this axis.

    Why it costs:
        The bytes of the gathered value on the wire, and the same computation on all devices of the
        axis from there on. Often the constraint was written before the axis was added to the mesh,
        or copied from a value with other dimensions.

    Fix:
        Keep the axis in the constraint: P("fsdp", None, "model") for an activation whose last
        dimension model divides; or leave the constraint out. what-if --constraint "drop FILE:LINE"
        compiles the program without it.

    Fine when:
        The next operation needs the whole value, as in sequence parallelism, and the constraint
        chooses where it is gathered; or each device updates its part of a weight that all devices
        then hold whole, as in ZeRO-1.
    """
    gathers = [one for one in collectives(known).collectives if one.kind == "all-gather"]
    if not gathers:
        return
    if known.before is None:
        is_early = known.stage == BEFORE
        raise MissingDumpError(_NO_COMPILED_TEXT if is_early else NO_TEXT_BEFORE)
    found = collectives(known)
    mesh = found.meshes[0].mesh if found.meshes else None
    dropped = dropping_constraints(known)
    groups: dict[SourceLocation | None, list[Collective]] = {}
    for one in gathers:
        cause = next((drop for drop in dropped if _is_cause(known, drop, one)), None)
        if cause is not None:
            groups.setdefault(cause.place, []).append(one)
    for place, caused in groups.items():
        causes = [one for one in dropped if one.place == place]
        yield _gathering_finding(
            known, causes, caused, 0 if mesh is None else _of_sums(known, causes, mesh)
        )


def _is_cause(known: ModuleDump, dropped: ChangedAxes, gather: Collective) -> bool:
    """Return whether a constraint needs an all-gather; of an argument also by its elements."""
    if dropped.paths.isdisjoint(_gathering_paths(gather.own_op_name)) or set(
        dropped.axes
    ).isdisjoint(gather.axes or ()):
        return False
    is_part = dropped.argument is None or dropped.elements is None
    return is_part or dropped.elements in _elements(known, gather)


def _gathering_paths(path: str | None) -> list[str]:
    from hlo_lens.questions.collectives.origin import member_paths

    return member_paths(path or "")


def _elements(known: ModuleDump, collective: Collective) -> list[int | None]:
    """Return the elements of the results of a collective."""
    end = end_of(hlo_text(known), collective)
    leaves = () if end is None or end.shape is None else end.shape.leaves()
    return [leaf.element_count for _, leaf in leaves]


def _of_sums(known: ModuleDump, dropped: Sequence[ChangedAxes], mesh: Mesh) -> int:
    """Return the bytes by which sums over other axes grow: gradients are summed whole."""
    grown = 0.0
    for one in collectives(known).collectives:
        parts, total = one.axes or (), sum(n or 0 for n in _elements(known, one))
        for cause in dropped if one.kind == "all-reduce" else ():
            is_other = cause.argument is None and set(cause.axes).isdisjoint(parts)
            if (
                is_other
                and total >= (cause.elements or total + 1)
                and cause.paths & {*_gathering_paths(one.op_name)}
            ):
                size = math.prod(mesh.sizes.get(axis, 1) for axis in cause.axes)
                share = (cause.elements or 0) / total * (1 - 1 / size)
                grown += (one.wire_bytes_per_run or 0) * share
                break
    return int(grown)


def _gathering_finding(
    known: ModuleDump, causes: Sequence[ChangedAxes], caused: Sequence[Collective], sums: int
) -> Finding:
    first, place = causes[0], causes[0].place
    axes = ",".join(first.axes)
    kept = written_spec(spec_of_axes([*first.kept]))
    runs = run_sum(caused, COUNT)
    times = f", {runs.most} times in a run" if runs is not None and runs.most > len(caused) else ""
    what = first.origin if first.argument is not None else "the value"
    found = finding_of(
        caused,
        f"the sharding constraint leaves out {axes}, which divides {what}: it is gathered by "
        f"{plural(len(caused), 'all-gather')}{times}",
        f"keep {axes}: {kept} in with_sharding_constraint, or delete the constraint",
    )
    sent = None if found.saves.sent_bytes is None else found.saves.sent_bytes + sums
    grown = f"sums of its gradients over other axes send {format_bytes(sums)} more"
    line = "" if place is None else f"{place.file.rpartition('/')[2]}:{place.line}"
    return replace(
        found,
        **at(place),
        axes=first.axes,
        saves=Saves.up_to(sent_bytes=sent),
        evidence=(
            *found.evidence,
            *((grown,) if sums else ()),
            f"{first.name} of {first.operand}, before optimizations: {axes} divides it "
            f"(as {first.origin})",
        ),
        changes=(Remedy(kind="constraint", target=f"drop {line}"),) if line else (),
    )


# ---- C017 ----------------------------------------------------------------------------------------


_EXCHANGES = ("all-to-all", "collective-permute")
_MOST_STEPS = 500


@module_rule("C017")
def moved_axis(known: ModuleDump) -> Iterator[Finding]:
    """A sharding constraint moves a mesh axis to another dimension, and the parts are exchanged.

    What:
        Two constraints divide activations along different dimensions in turn, and nothing between
        them combines elements along the dimension that the first one makes whole: activations are
        exchanged back and forth between layers for nothing. Or a constraint takes an axis from the
        batch, the first dimension, and divides another one, while the values that it meets keep it.

    Why it costs:
        An all-to-all for each, again in the backward pass, and gathers where both divisions meet.

    Fix:
        Keep one division from layer to layer: the same PartitionSpec in all constraints on
        activations, with the batch over the data axes. what-if --constraint "drop FILE:LINE"
        compiles the program without a constraint.

    Fine when:
        The next operation needs the dimension whole, as attention over a sequence that is divided
        elsewhere (Ulysses), or experts whose tokens are sent to them: those are no findings.
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
    seen = set()
    for one in changed:
        is_forward = not any(BACKWARD in path for path in one.paths)
        for move in one.moved if is_forward and one.place not in seen else ():
            back = _way_back(before, one, move, changed)
            along = [two for two in exchanges if move.axis in (two.axes or ())]
            caused = along
            if back is not None:
                lines = {one.place, back.place}
                paths = {path for two in changed if two.place in lines for path in two.paths}
                caused = [two for two in along if not paths.isdisjoint(_moved_paths(two))]
            if caused and (back is not None or _leaves_batch(move, changed)):
                seen.add(one.place)
                yield _moved_finding(one, move, back, caused)


def _moved_paths(one: Collective) -> list[str]:
    return member_paths(one.own_op_name or "")


def _leaves_batch(move: MovedAxis, changed: Sequence[ChangedAxes]) -> bool:
    """Return whether an axis leaves the first dimension, and no constraint moves it back."""
    is_moved_back = any(
        other.axis == move.axis and other.after == 0
        for one in changed
        if not any(BACKWARD in path for path in one.paths)
        for other in one.moved
    )
    return move.before == 0 and not is_moved_back


def _way_back(
    before: HloModule, one: ChangedAxes, move: MovedAxis, changed: Sequence[ChangedAxes]
) -> ChangedAxes | None:
    """Return the next constraint that undoes a move, if nothing between needs what it frees."""
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
    waiting, seen = [Value(last)], {Value(last), Value(first)}
    while waiting:
        for operand in map(flow.definition, flow.operands(waiting.pop().row)):
            if operand in seen or not _is_as_large(module, operand, first):
                continue
            if len(seen) > _MOST_STEPS or _combines(module, operand.row, dimension):
                return True
            seen.add(operand)
            waiting.append(operand)
    return False


def _is_as_large(module: HloModule, value: Value, row: int) -> bool:
    """Return whether a value may be an activation computed from another: it has its batch."""
    shape, other = module.instruction(value.row).shape, module.instruction(row).shape
    if shape is None or other is None or shape.is_tuple or not shape.rank or not other.rank:
        return False
    return shape.dimensions[0] == other.dimensions[0]


def _combines(module: HloModule, row: int, dimension: int) -> bool:
    from hlo_lens.questions.collectives.operand_shardings import COMBINING, listed_numbers

    instruction, opcode = module.instruction(row), module.opcodes[row]
    if opcode == "dot":
        has_batch = instruction.attribute("lhs_batch_dims") is not None
        return has_batch or dimension in listed_numbers(instruction, "lhs_contracting_dims")
    if opcode == "reduce":
        return dimension in listed_numbers(instruction, "dimensions")
    return opcode in COMBINING or opcode == "while" or opcode_traits(opcode).is_contraction


def _moved_finding(
    one: ChangedAxes, move: MovedAxis, back: ChangedAxes | None, caused: Sequence[Collective]
) -> Finding:
    line, sent = _line(one), plural(len(caused), "exchange")
    away = f"from dimension {move.before} to {move.after}"
    if back is None:
        message = (
            f"the sharding constraint moves {move.axis} {away}, away from the batch: "
            f"{sent} over {move.axis}"
        )
    else:
        message = (
            f"the sharding constraint moves {move.axis} {away}, and the one at {_line(back)} moves "
            f"it back: {sent}, and nothing between needs it"
        )
    fix = (
        f"keep {move.axis} at dimension {move.before} in the PartitionSpec, or drop the constraint"
    )
    return replace(
        finding_of(caused, message, fix),
        **at(one.place),
        changes=(Remedy(kind="constraint", target=f"drop {line}"),),
    )


def _line(one: ChangedAxes) -> str:
    place = one.place
    return "" if place is None else f"{place.file.rpartition('/')[2]}:{place.line}"


# ---- C016 ----------------------------------------------------------------------------------------


_KINDS = ("all-to-all", "collective-permute", "all-gather")
_CUTS = ("split", "slice", "concatenate", "pad", "reshape")
"""Last steps of the operation paths of what cuts or joins; the last two in backward passes."""

_ROLLED = "roll"

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

    What:
        A split, slice or concatenation along a dimension that a mesh axis divides, so that each
        device has parts of several results: the partitioner sends the pieces around (all-to-all,
        collective-permute). The usual case is one product for queries, keys and values whose result
        is split, with a weight of P(None, "model").

    Why it costs:
        The bytes of the pieces, in the forward and in the backward pass, where nothing would be
        sent if each device had the same part of each result.

    Fix:
        Make what is split a dimension of its own, that nothing divides: a weight of shape (width,
        3, heads, depth) with P(None, None, "model"), q, k, v = jnp.moveaxis(qkv, -3, 0); or one
        weight for each. Checkpoints with the fused layout can be reshaped when they are read.
        --prove cannot apply it.

    Fine when:
        Few bytes are sent: a shift by one position along a divided sequence, or jnp.roll, which is
        no finding.
    """
    groups: dict[object, list[Collective]] = {}
    for one in collectives(known).collectives:
        if one.kind in _KINDS and one.axes and not one.moves_nothing and _is_cut(one.op_name or ""):
            groups.setdefault(place_of(one), []).append(one)
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
    """Return whether the operation cuts or joins along a dimension that the axes divide."""
    from hlo_lens.questions.collectives.operand_shardings import needing_operation

    meshes, before = collectives(known).meshes, known.before
    mesh = meshes[0].mesh if meshes else None
    if before is None or one.op_name is None:
        return False
    operation = needing_operation(before, one, mesh, {one.op_name: place_of(one)})
    return operation is not None and any(operation.uses_of(axis)[0] for axis in one.axes or ())


def _is_cut(op_name: str) -> bool:
    """Return whether an operation path is of a cut or join that the program asks for."""
    *around, last = op_name.split("/")
    return last in _CUTS and not any(_ROLLED in step for step in around)
