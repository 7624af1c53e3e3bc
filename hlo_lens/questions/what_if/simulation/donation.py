"""Donations of arguments, simulated: other aliases, and the copies that XLA keeps for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.shape_tree import NODES
from hlo_lens.buffers.estimate.value_edit import ValueEdit
from hlo_lens.questions.what_if.donation import plan_donation
from hlo_lens.questions.what_if.simulation.alias_copies import AliasPair, EntryOrder
from hlo_lens.questions.what_if.simulation.alias_pairs import alias_pairs, parameter_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.buffers.estimate.values import Dataflow
    from hlo_lens.hlo.module import InputOutputAlias
    from hlo_lens.questions.what_if.edit import Change
    from hlo_lens.questions.what_if.simulation.simulator import Simulator


@dataclass(frozen=True, slots=True, kw_only=True)
class DonationEdit:
    """Aliases of a program with other donations.

    Attributes:
        aliases: All of them.
        values: Copies that are kept or no longer made.
        changes: One for each argument of the requests.
        pairs: Number of aliases that were not there, or are not there any more.
        copies: Name of each argument that XLA copies first, with the instruction that reads it.
        copied_bytes: Bytes of the copies in `values`.
        late_bytes: Bytes that further copies may take, or these at another place of the schedule.
        moved_bytes: Bytes that a changed schedule may save or add: the largest changed array.
        table_delta: Copies between memory spaces of a TPU that are added; negative for removed.
    """

    aliases: tuple[InputOutputAlias, ...]
    values: ValueEdit = field(default_factory=ValueEdit)
    changes: tuple[Change, ...] = ()
    pairs: int = 0
    copies: tuple[tuple[str, str], ...] = ()
    copied_bytes: int = 0
    late_bytes: int = 0
    moved_bytes: int = 0
    table_delta: int = 0


def simulated_donation(
    simulator: Simulator, donate: Iterable[str], undonate: Iterable[str]
) -> DonationEdit:
    """Return the aliases of a program with other donations, and what XLA copies for them.

    Args:
        simulator: The program.
        donate: Patterns of arguments to donate.
        undonate: Patterns of arguments that are no longer donated.
    """
    plan = plan_donation(simulator.arrays, donate=donate, undonate=undonate)
    old = {_key(one): one for one in simulator.aliases}
    before = alias_pairs(simulator.arrays, plan.before, simulator.flow)
    after = alias_pairs(simulator.arrays, plan.after, simulator.flow)
    known, wanted = ({_key(one): one for one in found} for found in (before, after))
    gone = known.keys() - wanted.keys()
    new = {key: one for key, one in wanted.items() if key not in known}
    kept = {key: one for key, one in old.items() if key not in gone}
    taken = {one.output_index for one in kept.values()}
    added = {key: one for key, one in new.items() if key not in kept and key[0] not in taken}
    removed = [one for key, one in old.items() if key in gone]
    if not added and not removed:
        return DonationEdit(aliases=simulator.aliases, changes=plan.changes)
    return _with_copies(
        simulator, tuple(kept.values()), tuple(added.values()), removed, plan.changes
    )


def _key(alias: InputOutputAlias) -> tuple[object, ...]:
    return alias.output_index, alias.parameter_number, alias.parameter_index


def _with_copies(
    simulator: Simulator,
    kept: tuple[InputOutputAlias, ...],
    added: tuple[InputOutputAlias, ...],
    removed: Sequence[InputOutputAlias],
    changes: tuple[Change, ...],
) -> DonationEdit:
    dropped = dict(_dropped(simulator, removed))
    flow = simulator.walked.flow(kept, ValueEdit(dropped=dropped))
    rows = {flow.values.places[copy] // NODES for copy in dropped}
    backend = simulator.rules.backend
    pairs = list(_pairs(flow, added))
    order = EntryOrder(flow, simulator.sharing, dropped=rows)
    unordered = order.copies(pairs)
    copies = unordered
    if backend != "cpu":
        later = EntryOrder(flow, simulator.sharing, dropped=rows, is_scheduled=True)
        copies = later.copies(pairs)
    parameters, results, readers, copied, late = {}, {}, [], 0, 0
    for pair, one, other in zip(pairs, copies, unordered, strict=True):
        row = flow.values.places[pair.parameter] // NODES
        size = flow.values.parts[pair.parameter].size_bytes
        late += size * (other.of_parameter + other.of_result)
        if backend == "tpu" and not one.is_product:
            late += size * (not other.of_parameter)  # as its fusions may not write in place
            continue  # most of these copies are not made: the schedule follows
        if one.of_parameter:
            parameters[pair.parameter] = min(order.instant_after(row), one.first)
            readers.append((row, one.reader))
        if one.of_result:
            results[pair.result] = max(order.instant_after(one.definition), one.last + 1)
        copied += size * (one.of_parameter + one.of_result)
    results |= _returned_parameters(flow, (*kept, *added))
    copied += sum(flow.values.parts[copy].size_bytes for copy in dropped)
    name = flow.table.module.columns.name
    return DonationEdit(
        aliases=(*kept, *added),
        values=ValueEdit(copied_parameters=parameters, copied_results=results, dropped=dropped),
        changes=changes,
        pairs=len(added) + len(removed),
        copies=tuple((name(row), "" if one is None else name(one)) for row, one in readers),
        copied_bytes=copied,
        late_bytes=late,
        moved_bytes=max(
            (
                flow.values.parts[one.parameter].size_bytes
                for one in (*pairs, *_pairs(flow, removed))
            ),
            default=0,
        ),
        table_delta=_table_delta(flow, pairs, removed) if backend == "tpu" else 0,
    )


def _pairs(flow: Dataflow, aliases: Iterable[InputOutputAlias]) -> Iterator[AliasPair]:
    """Yield the values of aliases."""
    root = flow.tree(flow.table.module.entry.root_row)
    for alias in aliases:
        value = parameter_value(flow, alias.parameter_number, alias.parameter_index)
        node = root.at(alias.output_index)
        if value is not None and node is not None:
            yield AliasPair(parameter=value, result=node)


def _returned_parameters(flow: Dataflow, aliases: Iterable[InputOutputAlias]) -> dict[int, int]:
    """Return the results that are arguments without being donated: XLA returns copies.

    Returns:
        Node of the result to the instant of the copy.
    """
    parameters = {flow.carried(one) for listed in flow.parameter_values.values() for one in listed}
    same = {(one.parameter, one.result) for one in _pairs(flow, aliases)}
    return {
        node: flow.end
        for node, value in enumerate(flow.output_values)
        if value in parameters and (value, node) not in same
    }


def _table_delta(
    flow: Dataflow, added: Iterable[AliasPair], removed: Iterable[InputOutputAlias]
) -> int:
    """Return by how many copies between HBM and VMEM a TPU program changes.

    A donated argument that is read from VMEM has its result written there and copied back; a
    result of its own is written to HBM at once. Observed with libtpu 0.0.51 and 0.0.52.
    """
    opcodes, links = flow.table.opcodes, flow.table.module.links

    def is_copied(node: int) -> bool:
        return opcodes[flow.values.places[flow.output_values[node]] // NODES] == "copy-start"

    gone = {one.result: one for one in _pairs(flow, removed) if is_copied(one.result)}
    found = -len(gone)
    for pair in added:
        row = flow.values.places[pair.parameter] // NODES
        readers = [user for user, _ in links.users_of(row)]
        users = {opcodes[user] for user in readers}
        found += users == {"copy-start"} and not is_copied(pair.result)
        is_moved = all(flow.tree(user).parts[0].color for user in readers)
        found += users == {"copy"} and is_moved  # to be written over, which a donated one may be
    return found


def _dropped(
    simulator: Simulator, removed: Iterable[InputOutputAlias]
) -> Iterator[tuple[int, int]]:
    """Yield copies in the text that only these aliases need, with what they copy."""
    flow = simulator.flow
    opcodes, links = flow.table.opcodes, flow.table.module.links
    root = flow.tree(flow.table.module.entry.root_row)
    outputs = set(flow.output_values)
    parameters = {flow.carried(one) for listed in flow.parameter_values.values() for one in listed}
    for alias in removed:
        value = parameter_value(flow, alias.parameter_number, alias.parameter_index)
        if value is not None:
            for user, _ in links.users_of(flow.values.places[value] // NODES):
                copy = flow.value_lists.get(user, [-1])[0]
                is_alone = copy >= 0 and len(flow.buffers[flow.buffer_of.get(copy, 0)]) == 1
                if opcodes[user] == "copy" and is_alone and copy not in outputs:
                    yield copy, value
        node = root.at(alias.output_index)
        if node is not None:
            yield from _copied_result(flow, flow.output_values[node], parameters)


def _copied_result(flow: Dataflow, copy: int, parameters: set[int]) -> Iterator[tuple[int, int]]:
    """Yield a result that is a copy, with what it copies, if that could be returned itself."""
    row = flow.values.places[copy] // NODES
    operands = flow.operands.get(row, [])
    if flow.table.opcodes[row] != "copy" or not operands:
        return
    source = flow.values_at(operands[0])[:1]
    made = flow.values.places[source[0]] // NODES if source else -1
    if not source or flow.table.opcodes[made] == "constant":
        return
    value = source[0]
    is_free = value not in parameters and value not in flow.output_values
    if is_free and len(flow.buffers[flow.buffer_of[value]]) == 1:
        yield copy, value
