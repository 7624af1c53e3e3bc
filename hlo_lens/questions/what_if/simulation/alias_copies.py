"""Copies that XLA keeps for a donated argument whose memory is written too early.

XLA adds a copy of each donated argument and of the result that gets its memory, and removes a copy
where the data flow alone orders the two: every reader of the argument runs before the instruction
that defines the result, or is that instruction and may write over its operand. There is no schedule
yet, so readers on which the result does not depend count as later.

* The copy of the result stays unless its definition depends on the argument.
* The copy of the argument stays unless all of its readers come before.

Source: xla/service/copy_insertion.cc (AddCopiesForAliasedInputOutputs, RemoveUnnecessaryCopies), as
of August 2026. What depends on what is read from the scheduled text, which is later.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.shape_tree import NODES
from hlo_lens.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hlo_lens.buffers.estimate.buffer_sharing import BufferSharing
    from hlo_lens.buffers.estimate.values import Dataflow


_PREFETCH = frozenset(("copy-start", "copy-done"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasPair:
    """A donated argument and the result that has its memory.

    Attributes:
        parameter: Value of the argument.
        result: Node of the entry's result.
    """

    parameter: int
    result: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasCopies:
    """Copies that one pair needs.

    Attributes:
        first: Instant of the first reader of the argument.
        last: Instant of its last reader.
        definition: Row of the entry's instruction that first writes the result's memory.
        of_parameter: Whether the argument is copied first.
        of_result: Whether the result is copied last.
        reader: Row of a reader that XLA cannot order before the result; None without copies.
        is_product: Whether the only such reader is a matrix product, fused with what defines the
            result.
    """

    first: int
    last: int
    definition: int
    of_parameter: bool
    of_result: bool
    reader: int | None
    is_product: bool = False


class EntryOrder:
    """Order and dependencies of the instructions of an entry computation.

    Args:
        flow: Values of the module.
        sharing: Results that may be written over operands.
        dropped: Rows of copies that are not made.
        is_scheduled: Whether copies are decided after the schedule, as on TPU: readers that run
            earlier are earlier.
    """

    def __init__(
        self,
        flow: Dataflow,
        sharing: BufferSharing,
        *,
        dropped: Collection[int] = (),
        is_scheduled: bool = False,
    ) -> None:
        self._flow = flow
        self._sharing = sharing
        self._dropped = frozenset(dropped)
        self._is_scheduled = is_scheduled
        self._links = flow.table.module.links
        self._opcodes = flow.table.opcodes
        self._rows = flow.table.module.entry.rows

    @cached_property
    def _instants(self) -> dict[int, int]:
        """Entry row to its instant."""
        rows = set(self._rows)
        return {row: at for at, row in enumerate(self._flow.schedule) if row in rows}

    @cached_property
    def _times(self) -> tuple[list[int], list[int]]:
        """Instants of the entry's instructions, ascending, and their rows."""
        pairs = sorted((at, row) for row, at in self._instants.items())
        return [at for at, _ in pairs], [row for _, row in pairs]

    def row_at(self, instant: int) -> int:
        """Return the instruction of the entry that runs at an instant, itself or by a call."""
        times, rows = self._times
        return rows[min(bisect.bisect_left(times, instant), len(rows) - 1)]

    @cached_property
    def _ready(self) -> list[int]:
        """Position of the last operand of each of the entry's instructions, in execution order."""
        rows = self._times[1]
        places = {row: place for place, row in enumerate(rows)}
        operands = self._links.operands_of
        return [max((places.get(one, 0) for one in operands(row)), default=-1) for row in rows]

    def instant_after(self, row: int) -> int:
        """Return the instant of an instruction that would be inserted with this one as operand."""
        times, rows = self._times
        place = bisect.bisect_left(times, self._instants[row])
        following = range(place + 1, len(rows) - 1)
        found = next((one for one in following if self._ready[one] > place), len(rows) - 1)
        return times[found - 1] + 1

    def readers(self, value: int) -> list[int]:
        """Return the entry's instructions that read a parameter, in execution order."""
        row, node = divmod(self._flow.values.places[value], NODES)
        found = set(self._users(row, node))
        return sorted(found, key=self._instants.__getitem__)

    def _users(self, row: int, node: int) -> Iterator[int]:
        """Yield the users of a part of a result, through instructions that forward it."""
        flow = self._flow
        seen = {(row, node)}
        waiting = [(row, node)]
        root = flow.table.module.entry.root_row
        while waiting:
            row, node = waiting.pop()
            for user, number in self._links.users_of(row):
                if user not in self._instants:
                    continue
                opcode = self._opcodes[user]
                if opcode == "get-tuple-element":
                    listed, own = flow.value_lists.get(user, []), flow.value_lists.get(row, [])
                    if node < len(own) and flow.carried(own[node]) not in map(flow.carried, listed):
                        continue
                    forwarded = (user, 0)
                elif opcode == "tuple":
                    tree = flow.tree(user)
                    children = tree.children(0)
                    place = children[number] + node if number < len(children) else 0
                    forwarded = (user, place if place < len(tree.parts) else 0)
                elif (
                    user in self._dropped
                    or (self._is_scheduled and opcode in _PREFETCH)
                    or (opcode_traits(opcode).is_forwarding and opcode != "copy")
                ):
                    forwarded = (user, node)
                else:
                    yield user
                    continue
                if user != root and forwarded not in seen:
                    seen.add(forwarded)
                    waiting.append(forwarded)

    def copies(self, pairs: Sequence[AliasPair]) -> list[AliasCopies]:
        """Return the copies that pairs need and the text does not have yet."""
        flow = self._flow
        readers = [self.readers(pair.parameter) for pair in pairs]
        defined = [self._definition(flow.output_values[pair.result]) for pair in pairs]
        bits: dict[int, int] = defaultdict(int)
        for listed in readers:
            for row in listed:
                bits.setdefault(row, 1 << len(bits))
        before = self._readers_before({row for row, _ in defined}, bits)
        found = []
        for pair, listed, (row, instant) in zip(pairs, readers, defined, strict=True):
            found.append(self._copies(pair, listed, row, instant, before.get(row, 0), bits))
        return found

    def _definition(self, value: int) -> tuple[int, int]:
        """Return the entry's instruction that first writes into a value's buffer, and when."""
        flow = self._flow
        members = flow.buffers[flow.buffer_of[value]]
        parameters = {flow.carried(v) for listed in flow.parameter_values.values() for v in listed}
        starts = [flow.values.starts[one] for one in members if one not in parameters]
        instant = min(starts, default=flow.values.starts[value])
        return self.row_at(instant), instant

    def _readers_before(self, wanted: set[int], bits: dict[int, int]) -> dict[int, int]:
        """Return the readers, as bits, on which some instructions depend, themselves included."""
        masks: dict[int, int] = {}
        for row in self._times[1]:
            mask = bits.get(row, 0)
            for operand in self._links.operands_of(row):
                mask |= masks.get(operand, 0)
            masks[row] = mask
        return {row: masks[row] for row in wanted}

    def _copies(
        self,
        pair: AliasPair,
        readers: Sequence[int],
        definition: int,
        instant: int,
        before: int,
        bits: dict[int, int],
    ) -> AliasCopies:
        at = self._instants
        if self._is_scheduled:
            late = [row for row in readers if at[row] > at[definition]]
            is_apart = False
        else:
            late = [row for row in readers if not before & bits[row]]
            is_apart = len(late) == len(readers)
        if definition in readers and not self._may_write(pair, definition):
            late.append(definition)
        return AliasCopies(
            first=at[readers[0]] if readers else instant,
            last=at[readers[-1]] if readers else 0,
            definition=definition,
            of_parameter=bool(late),
            of_result=bool(readers) and is_apart,
            reader=late[0] if late else None,
            is_product=late == [definition] and self._is_product(definition),
        )

    def _is_product(self, row: int) -> bool:
        """Whether a row is a matrix product fused with other than an addition."""
        bodies = self._flow.bodies
        if self._opcodes[row] != "fusion" or bodies.kind(row) != "kOutput":
            return False
        body = bodies.of(row)
        return body is not None and body.opcodes[body.root] not in ("add", "tuple")

    def _may_write(self, pair: AliasPair, row: int) -> bool:
        """Whether the definition of the result may be written over the argument."""
        flow = self._flow
        opcode = self._opcodes[row]
        if opcode == "copy" or opcode_traits(opcode).is_handing:
            return True
        if self._is_product(row):
            return False
        value = flow.output_values[pair.result]
        own, node = divmod(flow.values.places[value], NODES)
        if own != row:
            return True  # an operation in place, or a loop: decided where its state is made
        places = [
            place
            for place in flow.operands.get(row, ())
            if pair.parameter in flow.values_at(place)[:1]
        ]
        hidden = (-1 - place if place % NODES else place for place in places)
        return all(self._sharing.may_share(place, row, node) for place in hidden)
