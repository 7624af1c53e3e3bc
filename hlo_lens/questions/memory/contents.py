"""What large values are in the program: attention scores, logits, masks, repeated values.

From the text before optimizations. Values that are computed elementwise from one another, or move
as a whole, have the same number of elements and the same content; products end such a group. A
group is one of

* attention scores: a product with batch dimensions, or one used by another, and its softmax;
* logits: a product without, and its softmax, which no product of the forward pass uses;
* a one-hot table: positions compared with data for equality, for a product with an argument;
* a mask: positions compared with positions;
* repeated values: a broadcast that adds a dimension to an array, for a product.

A softmax is an exponential that a reduction adds up. Values of the compiled program belong to a
group by operation path and line, or by line and number of elements.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits, opcodes_where
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import origins, origins_of
from hlo_lens.program.summary import hlo_text, num_devices
from hlo_lens.program.value_flow import Value, value_flow
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import BACKWARD, RECOMPUTED, SCALAR, Differentiation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.origins import Origin

_MOST_ROWS = 100_000
"""Most instructions of a text that is searched."""

_LEAST_BYTES = 64 * 1024
"""Size of the smallest values whose content is sought."""

_MOST_VALUES = 200
"""Limit on the values at the peak that are examined, largest first."""

_MOVES = opcodes_where(lambda traits: traits.is_moving) | {"custom-call"}
_KEEPING = opcodes_where(lambda traits: traits.is_same) | {"convert", "select", "custom-call"}
"""Opcodes between the exponential of a softmax and its sum."""

_POSITIONAL = opcodes_where(lambda traits: traits.is_formatting) | {"add", "subtract", "multiply"}
"""Opcodes by which positions are computed from an iota."""


class ContentKind(StrEnum):
    """What a value is in the program."""

    SCORES = "attention scores"
    LOGITS = "logits"
    ONE_HOT = "a one-hot table"
    MASK = "a mask"
    REPEATED = "repeated values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a group of values is, and the line that makes its first value, if known."""

    kind: ContentKind
    dimensions: tuple[int, ...]  # in the program, on all devices
    copies: int  # number of times that an array is repeated
    place: SourceLocation | None


class Contents(NamedTuple):
    """Contents, with the number of elements on all devices, by operation path and line."""

    by_path: Mapping[tuple[str | None, str | None], tuple[int, Content]]
    by_line: Mapping[str, Sequence[tuple[int, Content]]]
    devices: int

    def of_value(self, origin: Origin, elements: int) -> Content | None:
        """Return the content of a value of so many elements on one device; None if not known."""
        found = self.by_path.get((origin.op_name, origin.source))
        if found is not None and elements >= found[0] // self.devices:
            total, content = found
            if elements <= total or content.kind is ContentKind.SCORES:  # which loops may stack
                return content
        for total, content in self.by_line.get(origin.source or "", ()):
            if total % elements == 0 and total // elements <= self.devices:
                return content
        return None


@fact
def contents(module: ModuleDump) -> Contents | None:
    """Return the contents of large values; None without the text from before optimizations."""
    before = module.before
    if before is None or len(before.columns) > _MOST_ROWS:
        return None
    by_path: dict[tuple[str | None, str | None], tuple[int, Content]] = {}
    by_line: dict[str, list[tuple[int, Content]]] = defaultdict(list)
    groups = _Groups(before)
    for group, content in groups.known():
        total = groups.elements(next(iter(group)))
        for value in group:
            path, place = groups.passes.path(value.row), groups.origins.places.innermost(value.row)
            for source in {None if one is None else str(one) for one in (place, content.place)}:
                by_path.setdefault((path, source), (total, content))
                if source is not None and (total, content) not in by_line[source]:
                    by_line[source].append((total, content))
    return Contents(by_path, by_line, num_devices(module))


@fact
def compiler_copies(module: ModuleDump) -> int:
    """Return the bytes at the peak of f32 values that the compiler converted from 16-bit ones.

    Those that the program converts have the operation path of its conversion.
    """
    memory = memory_results(module)
    peak = None if memory is None else memory.peak
    if peak is None:
        return 0
    found, steps, size = origins(module), value_flow(hlo_text(module)), 0
    for one in peak.live[:_MOST_VALUES]:
        made = peak.makers.get(one.value) if one.category == "temp" else None
        root = None if made is None else made.row
        if made is not None and made.opcode == "fusion":
            root = steps.root(made.row)
        if root is None or steps.opcodes[root] != "convert" or not one.shape.startswith("f32["):
            continue
        operand = hlo_text(module).operand_shape(root, 0)
        is_narrow = operand is not None and operand.element_type in ("bf16", "f16")
        path = found.places.op_name(root) or ""
        if is_narrow and not path.endswith("convert_element_type"):
            size += one.owned_bytes
    return size


class _Groups:
    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._opcodes = module.opcodes[:]
        self.origins = origins_of(module)
        self.steps = self.origins.steps
        self.passes = Differentiation(module, self.origins.places)
        self._found: dict[Value, set[Value]] = {}

    def known(self) -> Iterator[tuple[set[Value], Content]]:
        looks = {"reduce": self._softmax, "compare": self._table, "broadcast": self._repeated}
        done: set[Value] = set()
        for opcode, look in looks.items():
            for row, one in enumerate(self._opcodes):
                found = look(row) if one == opcode else None
                group = None if found is None else self.group(found[0])
                if found is not None and group is not None and done.isdisjoint(group):
                    done |= group
                    yield group, found[1]

    def elements(self, value: Value) -> int:
        shape = self.steps.shape(value)
        return 0 if shape is None or shape.is_tuple else shape.element_count or 0

    def group(self, value: Value) -> set[Value]:
        start = self.steps.definition(value)
        if start in self._found:
            return self._found[start]
        count, group, waiting = self.elements(start), {start}, [start]
        while waiting:
            one = waiting.pop()
            near = {user for user in self.steps.users(one) if not self._is_product(user.row)}
            if not self._is_product(one.row):
                near |= {*map(self.steps.definition, self.steps.operands(one.row))}
            new = {other for other in near - group if self.elements(other) == count}
            group |= new
            waiting += new
        self._found.update(dict.fromkeys(group, group))
        return group

    def _is_product(self, row: int) -> bool:
        return opcode_traits(self._opcodes[row]).is_contraction

    def _is_backward(self, row: int) -> bool:
        path = self.passes.path(row) or ""
        return BACKWARD in path and RECOMPUTED not in path

    def _products_of(self, group: set[Value]) -> list[int]:
        users = {user.row for value in group for user in self.steps.users(value)}
        return [row for row in users if self._is_product(row) and not self._is_backward(row)]

    def _content(self, kind: ContentKind, value: Value, copies: int = 1) -> Content:
        shape = self.steps.shape(value)
        sizes = () if shape is None else tuple(one or 1 for one in shape.dimensions)
        call, places = self.steps.caller(value.row), self.origins.places
        place = places.innermost(value.row)
        if place is None and call is not None:
            place = places.innermost(call.row)
        return Content(kind=kind, dimensions=sizes, copies=copies, place=place)

    def _back(self, value: Value | None, through: frozenset[str], wanted: str) -> Value | None:
        waiting, seen = [value], {value}
        while waiting:
            one = waiting.pop()
            if one is None:
                continue
            one = self.steps.definition(one)
            if self._opcodes[one.row] == wanted:
                return one
            if self._opcodes[one.row] in through:
                new = set(self.steps.operands(one.row)) - seen
                seen |= new
                waiting += new
        return None

    def _softmax(self, row: int) -> tuple[Value, Content] | None:
        operand = self.steps.operand(row, 0)
        if operand is None or self.steps.size(operand) < _LEAST_BYTES:
            return None
        found = self._back(operand, _KEEPING, "exponential")
        if found is None or self.elements(found) != self.elements(operand):
            return None
        made = sorted(one.row for one in self.group(found) if self._is_product(one.row))
        forward = [one for one in made if not self._is_backward(one)]
        if not forward:
            return None
        has_batch = self._module.instruction(forward[0]).attribute("lhs_batch_dims") is not None
        is_used = has_batch or bool(self._products_of(self.group(found)))
        kind = ContentKind.SCORES if is_used else ContentKind.LOGITS
        return found, self._content(kind, Value(forward[0]))

    def _table(self, row: int) -> tuple[Value, Content] | None:
        value = Value(row)
        if self.elements(value) < _LEAST_BYTES:
            return None
        sides = [
            self._back(self.steps.operand(row, k), _POSITIONAL, "iota") is not None for k in (0, 1)
        ]
        if all(sides):
            return value, self._content(ContentKind.MASK, value)
        if not any(sides):
            return None
        products = self._products_of(self.group(value))
        factors = (self.steps.operand(one, k) for one in products for k in (0, 1))
        is_lookup = any(self._back(one, _MOVES, "parameter") is not None for one in factors)
        is_equal = self._module.instruction(row).attribute("direction") == "EQ"
        is_table = is_equal and is_lookup
        return (value, self._content(ContentKind.ONE_HOT, value)) if is_table else None

    def _repeated(self, row: int) -> tuple[Value, Content] | None:
        value, operand = Value(row), self.steps.operand(row, 0)
        if operand is None or self.steps.size(value) < _LEAST_BYTES:
            return None
        copies = self.elements(value) // max(1, self.elements(operand))
        if self.steps.size(operand) <= SCALAR or copies < 2 or not self._is_moved_to_product(value):
            return None
        return value, self._content(ContentKind.REPEATED, value, copies)

    def _is_moved_to_product(self, value: Value) -> bool:
        """Return whether a value is an operand of a forward product, moved or converted at most."""
        waiting, seen = [value], {value}
        while waiting:
            for user in self.steps.users(waiting.pop()):
                opcode = self._opcodes[user.row]
                if self._is_product(user.row):
                    if not self._is_backward(user.row):
                        return True
                elif opcode in _MOVES and user not in seen:
                    seen.add(user)
                    waiting.append(user)
        return False
