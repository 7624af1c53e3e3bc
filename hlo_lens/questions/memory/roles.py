"""Roles of values in memory, in the words of those who train models."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.buffers.assignment import parse_index
from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import origins
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import hlo_text
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.memory.peak import rows_of_names, values_of
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.statement import space_name
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.origins import InstructionPlaces
    from hlo_lens.program.signature import EntrySignature
    from hlo_lens.program.value_flow import ValueFlow
    from hlo_lens.questions.memory.layout import LaidAllocation, LaidValue, MemoryLayout
    from hlo_lens.questions.memory.peak import LiveValue
    from hlo_lens.questions.memory.results import MemoryResults


ROLES: Mapping[str, str] = {
    "weights": "arguments that products use and results replace",
    "optimizer state": "arguments that results replace and no product uses",
    "caches": "arguments that results replace in part",
    "inputs": "arguments that no result replaces",
    "constants": "constants of the program",
    "outputs": "results that have memory of their own",
    "gathered weights": "weights gathered from several devices",
    "copies of weights": "weights converted, sliced or in another layout",
    "copies of arguments": "the same of other arguments",
    "gradients": "values from which replaced arguments are computed elementwise",
    "saved activations": "values of the forward pass whose last use is in the backward pass",
    "temporaries": "all other temporary values",
    "other": "memory whose role is not evident",
}
"""Meaning of each role, in the order in which pictures stack them, lowest first."""

WEIGHTS, STATE, CACHES, INPUTS, CONSTANTS, OUTPUTS = list(ROLES)[:6]
GATHERED, COPIED_WEIGHTS, COPIED, GRADIENTS, SAVED, TEMPORARIES, OTHER = list(ROLES)[6:]


class Role(NamedTuple):
    """Role of a value, and the evidence for it."""

    role: str
    basis: str


NO_ROLE = Role(OTHER, "its role is not evident")


SCALAR = 16
"""Bytes of the largest value that is as insignificant as a scalar."""

_STEPS = 64
_MOVING = ("all-gather", "collective-permute")
"""Kinds of collectives whose result has only elements of the operand."""

_CONCATENATION = "ConcatBitcast"
"""Custom call of TPUs that joins the parts in which a value was copied on chip."""
_KERNEL_TARGET = re.compile(r"tpu_custom_call|mosaic|pallas|triton", re.IGNORECASE)
_MATMUL_TARGET = re.compile(r"gemm|matmul|dot|conv|cublas|cudnn", re.IGNORECASE)


class ArgumentCopy(NamedTuple):
    """Leaf of a parameter of the entry that a value is, or is a copy of."""

    argument: Value
    is_gathered: bool = False
    is_copied: bool = False


class ArgumentCopies:
    """Copies of the arguments of a module, each found when first asked for."""

    def __init__(self, module: HloModule, steps: ValueFlow) -> None:
        self.module = module
        self.steps = steps
        self.parameters = {one.row: one.parameter_number for one in module.entry.parameters}
        self._known: dict[Value, ArgumentCopy | None] = {}

    def of_value(self, value: Value) -> ArgumentCopy | None:
        """Return the argument that a value is, or is a copy of; None if it is computed."""
        path: list[tuple[Value, bool]] = []
        found: ArgumentCopy | None = None
        for _ in range(_STEPS):
            value = self.steps.definition(value)
            if value in self._known or value.row in self.parameters:
                found = self._known.setdefault(value, ArgumentCopy(value))
                break
            before, is_gathered = self.before(value)
            path.append((value, is_gathered))
            if before is None:
                break
            value = before
        for one, is_gathered in reversed(path):
            if found is not None:
                found = ArgumentCopy(found.argument, found.is_gathered or is_gathered, True)
            self._known[one] = found
        return found

    def before(self, value: Value) -> tuple[Value | None, bool]:
        """Return the value before one copy, None if there is none, and whether it is gathered."""
        row, index = value
        opcode = self.steps.opcodes[row]
        if opcode in ("fusion", "async-start"):
            root = self.steps.root(row)
            inner = index[1:] if opcode == "async-start" else index
            return (None if root is None else Value(root, inner)), False
        traits = opcode_traits(opcode)
        base = traits.base
        is_async_end = base == "async" and traits.is_end
        is_joined = opcode == "custom-call" and _CONCATENATION in self.target(row)
        if opcode_traits(base).is_moving or base in _MOVING or is_async_end or is_joined:
            return self.steps.operand(row, 0), base == "all-gather"
        return None, False

    def target(self, row: int) -> str:
        return self.module.instruction(row).attributes.get("custom_call_target", "")


BACKWARD = "transpose("
"""Part of the operation paths of the backward pass, as JAX writes them."""

RECOMPUTED = "rematted_computation"
"""Part of the paths of what ``jax.checkpoint`` computes again, for the backward pass."""

_Callers = tuple[str | None, bool | None]
"""Path of the first caller of a computation; whether a caller is of the forward pass."""


class Differentiation:
    """Passes and whole operation paths of the instructions of a module."""

    def __init__(self, module: HloModule, places: InstructionPlaces) -> None:
        self._module = module
        self._places = places
        text = module.columns.source.text
        self._has_backward = BACKWARD in text or RECOMPUTED in text

    def path(self, row: int) -> str | None:
        """Return the operation path from the program on; the text's own if no caller has one."""
        own = self._places.op_name(row)
        return None if own is None else self._whole_path(row, self._callers)

    def is_forward(self, row: int) -> bool | None:
        """Return whether an instruction is of the forward pass; None if no path decides it.

        Of a computation with several callers the forward pass counts.
        """
        return self._pass(row, self._callers) if self._has_backward else True

    def _pass(self, row: int, callers: dict[int, _Callers]) -> bool | None:
        own, owner = self._places.op_name(row), self._module.links.owners[row]
        if own is not None and (BACKWARD in own or RECOMPUTED in own):
            return False
        if owner == self._module.entry.place:
            return None if own is None else True
        if own is not None and self._is_whole(own):
            return True
        return callers.get(owner, (None, None))[1]

    def _is_whole(self, path: str) -> bool:
        return path.partition("/")[0] in self._programs

    @cached_property
    def _programs(self) -> frozenset[str]:
        """Beginnings of whole paths, those of the entry: ``jit(step)``."""
        names = map(self._places.op_name, self._module.entry.rows)
        paths = (name.partition("/") for name in names if name is not None)
        return frozenset(first for first, slash, _ in paths if slash and first.endswith(")"))

    @cached_property
    def _callers(self) -> dict[int, _Callers]:
        found: dict[int, _Callers] = {}
        calls, entry = self._module.links.calls, self._module.entry.place
        for place in reversed(range(len(self._module.computations))):  # callers come later
            if place == entry:
                continue
            rows = [call.row for call in calls.of_computation(place)]
            passes = {self._pass(row, found) for row in rows}
            is_known = True in passes or passes == {False}
            path = self._whole_path(rows[0], found) if rows else None
            found[place] = path, (True in passes if is_known else None)
        return found

    def _whole_path(self, row: int, callers: dict[int, _Callers]) -> str | None:
        own, owner = self._places.op_name(row), self._module.links.owners[row]
        above = callers.get(owner, (None, None))[0]
        if own is None or self._is_whole(own) or above is None:
            return own or above
        return f"{above}/{own}"


_MOST_VISITED = 200_000
_OPERANDS = 64


def _gradients(copies: ArgumentCopies, results: Iterable[Value]) -> set[Value]:
    """Return the values from which results are computed, back to products and reductions.

    Copies of arguments and scalars are left out.
    """
    steps, owners = copies.steps, copies.module.links.owners
    opcodes = enumerate(steps.opcodes)
    ending = {owners[row] for row, opcode in opcodes if opcode_traits(opcode).is_mixing}
    found: set[Value] = set()
    waiting = deque(results)
    seen = set(waiting)
    while waiting and len(seen) < _MOST_VISITED:
        for value in map(steps.definition, _summands(copies, ending, waiting.popleft())):
            if value in seen or steps.size(value) <= SCALAR:
                continue
            seen.add(value)
            if copies.of_value(value) is None:
                found.add(value)
                waiting.append(value)
    return found


def _summands(copies: ArgumentCopies, ending: set[int], value: Value) -> Sequence[Value]:
    """Return the values from which one is computed elementwise; none for products and reductions.

    Fusions that call a computation of `ending`, which has one of these, have none either.
    """
    steps, row = copies.steps, value.row
    opcode = steps.opcodes[row]
    if opcode == "while":
        written = steps.written(value)
        before = steps.operand(row, 0, value.element)
        return [one for one in (written, before) if one] if written is not None else []
    written = steps.update(value)
    if written is not None:
        return [written]
    if opcode == "fusion":
        places = [call.place for call in copies.module.links.calls.of_row(row)]
        is_passed = NOTHING not in places and ending.isdisjoint(places)
    else:
        traits = opcode_traits(opcode)
        base = opcode_traits(traits.base)
        is_passed = base.is_elementwise or base.is_moving or base.is_collective or traits.is_end
    return steps.operands(row, _OPERANDS) if is_passed else []


_NEAR = 4
_WORD = re.compile(r"[a-z]+")
_WEIGHT_WORDS = {
    *("param", "params", "parameter", "weight", "weights", "w", "kernel", "bias"),
    *("embedding", "embed", "scale", "gamma", "beta"),
}
_STATE_WORDS = {
    *("opt", "optimizer", "mu", "nu", "m", "v", "momentum", "velocity", "adam", "trace", "ema"),
    *("count", "step", "master", "acc", "accumulator", "squares", "avg"),
}
_INPUT_WORDS = {
    *("batch", "input", "inputs", "x", "y", "token", "tokens", "label", "labels", "target"),
    *("targets", "image", "images", "mask", "data", "positions", "ids", "segment", "example"),
}
_CACHE_WORDS = {"cache", "kv"}
_INTEGER = re.compile(r"(?:pred|[su]\d+)\[")
_FUNCTION_ARGUMENT = re.compile(r"args\[\d+\]|[A-Za-z_]\w*(?=[\[.]\D|\[)")


class _Leaf(NamedTuple):
    value: Value
    name: str
    shape: str | None
    output: Value | None
    is_aliased: bool

    @property
    def words(self) -> set[str]:
        return set(_WORD.findall(self.name.lower()))

    @property
    def function_argument(self) -> str:
        """The argument of the function that the leaf belongs to: ``base`` of ``base[0]['w']``."""
        found = _FUNCTION_ARGUMENT.match(self.name)
        return self.name if found is None else found[0]


class ArgumentRoles:
    """Roles of the leaves of a program's parameters."""

    def __init__(self, copies: ArgumentCopies, signature: EntrySignature) -> None:
        self.copies = copies
        self._steps = copies.steps
        self._rows = {number: row for row, number in copies.parameters.items()}
        self._leaves = {leaf.value: leaf for leaf in self._read(signature)}
        self._used: set[Value] = set()  # by products
        self._joined: set[Value] = set()  # by products with computed values
        self._forward: set[Value] = set()  # the same in the forward pass of a training step
        self._spread: set[Value] = set()  # by broadcasts
        self._in_kernels: set[Value] = set()  # of users, which may be products or not
        self._read_uses()
        replaced = {
            leaf.value: self._replaced_role(leaf, leaf.output)
            for leaf in self._leaves.values()
            if leaf.output is not None
        }
        self._is_training = any(one.role != CACHES for one in replaced.values())
        self._frozen = {
            leaf.function_argument
            for leaf in self._leaves.values()
            if leaf.value in self._forward and leaf.output is None
        }
        self._roles = {
            value: replaced.get(value) or self._kept_role(leaf)
            for value, leaf in self._leaves.items()
        }

    def of_leaf(self, value: Value) -> Role:
        return self._roles.get(value, NO_ROLE)

    def of_number(self, number: int) -> Role:
        row = self._rows.get(number)
        return NO_ROLE if row is None else self.of_leaf(Value(row))

    def is_leaf(self, value: Value) -> bool:
        return value in self._leaves

    def name_of(self, value: Value) -> str:
        leaf = self._leaves.get(value)
        return "an argument" if leaf is None else leaf.name

    def replacing(self) -> Iterator[Value]:
        """Yield the results that replace weights and optimizer state."""
        for leaf in self._leaves.values():
            if leaf.output is not None and self._roles[leaf.value].role in (WEIGHTS, STATE):
                yield self._steps.definition(leaf.output)

    def _read(self, signature: EntrySignature) -> Iterator[_Leaf]:
        leaves = {}
        for one in signature.parameters:
            if one.number in self._rows:
                value = Value(self._rows[one.number], parse_index(one.index))
                output = None if one.aliased_with is None else self._output(one.aliased_with)
                is_aliased = one.aliased_with is not None
                leaves[value] = _Leaf(value, one.name, one.shape, output, is_aliased)
        outputs = self._replacing_outputs(leaves, signature)
        for value, leaf in leaves.items():
            yield leaf if leaf.is_aliased else leaf._replace(output=outputs.get(value))

    def _output(self, index: str) -> Value | None:
        root = self.copies.module.entry.root_row
        return None if root == NOTHING else Value(root, parse_index(index))

    def _replacing_outputs(
        self, leaves: Mapping[Value, _Leaf], signature: EntrySignature
    ) -> dict[Value, Value]:
        """Return outputs without alias that are computed from an argument of their shape nearby.

        Only for programs with a backward pass or other aliases: the output of a residual block is
        computed from its input too.
        """
        aliased = {leaf.output for leaf in leaves.values() if leaf.is_aliased}
        if not aliased and BACKWARD not in self.copies.module.columns.source.text:
            return {}
        shapes = {
            value: leaf.shape
            for value, leaf in leaves.items()
            if not leaf.is_aliased and not leaf.words & _INPUT_WORDS
        }
        found: dict[Value, Value] = {}
        for one in signature.outputs:
            output = self._output(one.index)
            if output is None or output in aliased or (one.size_bytes or 0) <= SCALAR:
                continue
            for argument in self._nearby(output):
                if argument not in found and shapes.get(argument) == one.shape:
                    found[argument] = output
                    break
        return found

    def _nearby(self, output: Value) -> Iterator[Value]:
        waiting = [self._steps.definition(output)]
        seen = set(waiting)
        for _ in range(_NEAR):
            before = []
            for value in waiting:
                operands = self._steps.operands(value.row, _OPERANDS)
                for one in map(self._steps.definition, operands):
                    if one in seen:
                        continue
                    seen.add(one)
                    copy = self.copies.of_value(one)
                    if copy is not None:
                        yield copy.argument
                    elif self._steps.size(one) > SCALAR:
                        before.append(one)
            waiting = before[:_OPERANDS]

    def _read_uses(self) -> None:
        steps, columns = self._steps, self.copies.module.columns
        has_backward = BACKWARD in columns.source.text
        for row, opcode in enumerate(steps.opcodes):
            target = self.copies.target(row) if opcode == "custom-call" else ""
            if opcode == "broadcast":
                operands = steps.operands(row, 1)
                self._spread |= self._arguments(o for o in operands if steps.size(o) > SCALAR)
            if _KERNEL_TARGET.search(target):
                self._in_kernels |= self._arguments(steps.operands(row))
            if opcode_traits(opcode).is_contraction:
                operands = steps.operands(row, 2)
            elif opcode == "gather":
                operands = steps.operands(row, 1)
            elif _MATMUL_TARGET.search(target):
                operands = steps.operands(row)
            else:
                continue
            arguments = self._arguments(operands)
            self._used |= arguments
            if len(operands) == 1 or None in map(self.copies.of_value, operands):
                self._joined |= arguments
                if has_backward and BACKWARD not in columns.attributes_text(row):
                    self._forward |= arguments

    def _arguments(self, values: Iterable[Value]) -> set[Value]:
        return {copy.argument for one in values if (copy := self.copies.of_value(one)) is not None}

    def _kept_role(self, leaf: _Leaf) -> Role:
        is_joined = leaf.value in self._joined
        is_integer = leaf.shape is not None and _INTEGER.match(leaf.shape) is not None
        if is_integer and (self._is_training or not is_joined):  # but for quantized weights
            return Role(INPUTS, "integers that no result replaces")
        if leaf.words & _INPUT_WORDS:
            return Role(INPUTS, "no result replaces it; its name")
        if leaf.words & _WEIGHT_WORDS:
            return Role(WEIGHTS, "its name; no result replaces it")
        if self._is_training and leaf.function_argument in self._frozen:
            return Role(WEIGHTS, "a product of the forward pass uses it; no result replaces it")
        if self._is_training:
            return Role(INPUTS, "no result replaces it, as others")
        if is_joined:
            return Role(WEIGHTS, "a product joins it with a computed value")
        return Role(OTHER, "argument whose use does not show its role")

    def _replaced_role(self, leaf: _Leaf, output: Value) -> Role:
        computed = "a result of its shape is computed from it"
        how = "a result has its memory" if leaf.is_aliased else computed
        if leaf.words & _CACHE_WORDS or self._is_overwritten(leaf, output):
            return Role(CACHES, f"{how}: itself with a part overwritten")
        if leaf.value in self._used:
            return Role(WEIGHTS, f"{how}, and a product uses it")
        if leaf.words & _STATE_WORDS:
            return Role(STATE, f"{how}, no product uses it; its name")
        if leaf.words & _WEIGHT_WORDS:
            return Role(WEIGHTS, f"{how}; its name")
        if leaf.value in self._spread:
            return Role(WEIGHTS, f"{how}, and it is broadcast")
        if leaf.value in self._in_kernels:
            return Role(OTHER, f"{how}, and a kernel uses it")
        return Role(STATE, f"{how}, and no product uses it")

    def _is_overwritten(self, leaf: _Leaf, output: Value) -> bool:
        """Return whether an output is an argument with a part overwritten.

        Not what a loop fills that starts with other contents, as the gradients of stacked weights.
        """
        value: Value | None = self._steps.definition(output)
        if value is not None and self._steps.opcodes[value.row] == "while":
            first = self._steps.operand(value.row, 0, value.element)
            source = None if first is None else self.copies.of_value(first)
            if source is None or source.argument != leaf.value:
                return False
            value = self._steps.written(value)
        return value is not None and self._steps.update(value) is not None


@fact
def argument_roles(module: ModuleDump) -> ArgumentRoles:
    """Return the roles of the arguments of a module with HLO text."""
    copies = ArgumentCopies(hlo_text(module), origins(module).steps)
    return ArgumentRoles(copies, entry_signature(module))


@dataclass(frozen=True, kw_only=True)
class MemoryRoles:
    """Roles of the values and held allocations of a module, by their numbers in the layout."""

    layout: MemoryLayout = field(repr=False)
    values: Sequence[Role] = field(repr=False)
    allocations: Mapping[int, Role] = field(repr=False)

    def of_value(self, name: str, allocation: int) -> Role:
        held = self.allocations.get(allocation)
        return self._by_name.get(name, NO_ROLE) if held is None else held

    def of_live(self, value: LiveValue) -> str:
        return self.of_value(value.value, value.allocation).role

    @cached_property
    def _by_name(self) -> Mapping[str, Role]:
        pairs = zip(self.layout.values, self.values, strict=True)
        return {value.name: role for value, role in pairs}


@fact
def memory_roles(dump: ModuleDump) -> MemoryRoles | None:
    """Return the roles of values and held allocations; None where memory is not known.

    Without HLO text only the uses of allocations are known.
    """
    memory, module = memory_results(dump), dump.hlo
    if memory is None:
        return None
    layout = memory.layout
    allocations = [one for one in layout.allocations if one.is_held]
    if module is None or not module.has_entry:
        held = {one.index: _role_of_use(one) for one in allocations}
        nothing = Role(TEMPORARIES, "temporary; nothing more is known")
        roles = [held.get(one.allocation, nothing) for one in layout.values]
    else:
        of_text = _TextRoles(layout, dump)
        held = {one.index: of_text.of_allocation(one) for one in allocations}
        roles = [held.get(one.allocation) or of_text.of_temporary(one) for one in layout.values]
    return MemoryRoles(layout=layout, values=roles, allocations=held)


def _role_of_use(allocation: LaidAllocation) -> Role:
    if allocation.category == "constant":
        return Role(CONSTANTS, "constant of the program")
    if allocation.category == "output":
        return Role(OUTPUTS, "result with memory of its own")
    return NO_ROLE


class _TextRoles:
    def __init__(self, layout: MemoryLayout, dump: ModuleDump) -> None:
        self._layout, self._module, self._origins = layout, hlo_text(dump), origins(dump)
        self._steps = self._origins.steps
        self._values = values_of(self._module, (one.name for one in layout.values))
        self._arguments = argument_roles(dump)
        self._copies = self._arguments.copies
        self._gradients = _gradients(self._copies, self._arguments.replacing())
        self._leaves = {  # allocations that hold leaves of parameters that are tuples
            one.allocation: value
            for one in layout.values
            if (value := self._values.get(one.name)) is not None
            and value.element
            and self._arguments.is_leaf(value)
        }

    def of_allocation(self, allocation: LaidAllocation) -> Role:
        number = allocation.parameter_number
        if number is None:
            return _role_of_use(allocation)
        leaf = self._leaves.get(allocation.index)
        return self._arguments.of_number(number) if leaf is None else self._arguments.of_leaf(leaf)

    def of_temporary(self, value: LaidValue) -> Role:
        known = self._values.get(value.name)
        if known is None:
            return NO_ROLE
        copy = self._copies.of_value(known)
        if copy is not None and copy.is_copied:
            name = self._arguments.name_of(copy.argument)
            if self._arguments.of_leaf(copy.argument).role != WEIGHTS:
                return Role(COPIED, f"copy of {name}")
            if copy.is_gathered:
                return Role(GATHERED, f"gathered from {name}")
            return Role(COPIED_WEIGHTS, f"copy of {name}")
        if self._steps.definition(known) in self._gradients:
            return Role(GRADIENTS, "results that replace arguments are computed from it")
        if self._is_saved(value, known):
            return Role(SAVED, "made in the forward pass, last used in the backward pass")
        if self._steps.definition(known) in self._filled:
            return Role(SAVED, "becomes a saved activation: a loop fills it, or a copy is saved")
        return Role(TEMPORARIES, "temporary of none of the other roles")

    @cached_property
    def _filled(self) -> set[Value]:
        steps = self._steps
        waiting = [
            steps.definition(known)
            for value in self._layout.values
            if (known := self._values.get(value.name)) is not None and self._is_saved(value, known)
        ]
        found = set(waiting)
        while waiting:
            value = waiting.pop()
            before = [self._copies.before(value)[0]]
            if steps.opcodes[value.row] == "while":
                before = [steps.written(value), steps.operand(value.row, 0, value.element)]
            for one in (steps.definition(one) for one in before if one is not None):
                if one not in found and steps.size(one) > SCALAR:
                    found.add(one)
                    waiting.append(one)
        return found

    def _is_saved(self, value: LaidValue, known: Value) -> bool:
        end = value.end
        if end is None or end >= len(self._backward) or not self._backward[end]:
            return False
        row = self._origins.maker(known)
        if self._origins.opcode(row) == "constant":
            return False
        path = self._origins.places.op_name(row) or self._origins.of_value(known).op_name
        return path is not None and BACKWARD not in path

    @cached_property
    def _backward(self) -> list[bool]:
        """Whether each instant is in the backward pass; one without path is as the one before."""
        schedule = self._layout.schedule or ()
        if BACKWARD not in self._module.columns.source.text:
            return []
        rows = rows_of_names(self._module, set(schedule))
        found: list[bool] = []
        last = False
        for name in schedule:
            path = self._origins.places.op_name(rows[name]) if name in rows else None
            last = last if path is None else BACKWARD in path
            found.append(last)
        return found


_MOST_ELEMENTS = 4096
"""Elements of a tuple that are followed to their definitions."""


class InstructionValue(NamedTuple):
    """Value in memory of the result of an instruction."""

    instruction: Annotated[str, "the instruction"]
    value: Annotated[str, "instruction that defines it, and shape index"]
    size_bytes: Annotated[int, Unit.BYTES, "bytes it holds, padding included"]
    is_own: Annotated[bool, "whether the instruction defines it, or only passes it on"]
    space: Annotated[str, "memory space"]
    category: Annotated[str, "use of its allocation: argument, output, temp, ..."]
    role: Annotated[str, "role of the value"]
    basis: Annotated[str, "evidence for the role"]
    allocation: Annotated[int, "index of the allocation"]
    offset: Annotated[int, "first byte in its allocation"]
    start: Annotated[int | None, "first instant of its live range"]
    end: Annotated[int | None, "last instant, inclusive"]
    shape: Annotated[str, "its shape with layout"]


@dataclass(frozen=True, kw_only=True)
class InstructionValues(Records[InstructionValue]):
    """Values of the result of an instruction."""

    KIND: ClassVar[str] = "instruction-values"
    values: tuple[InstructionValue, ...]


def instruction_values(
    memory: MemoryResults, roles: MemoryRoles, instruction: HloInstruction, steps: ValueFlow
) -> InstructionValues:
    """Return the values of an instruction's result, in the order of its elements.

    Tuples, views, calls and loops pass values on; such a value is listed with the instruction that
    defines it (`ValueFlow.definition`). Instructions inside fusions and reducers have no memory.
    """
    laid = {value.name: value for value in memory.layout.values}
    allocations = {one.index: one for one in memory.layout.allocations}
    name_of = instruction.computation.module.columns.name
    names = dict.fromkeys(k for k, v in laid.items() if v.instruction_name == instruction.name)
    try:
        shape = instruction.shape
    except DumpSyntaxError:
        shape = None
    for index, _ in () if shape is None else islice(shape.leaves(), _MOST_ELEMENTS):
        maker = steps.definition(Value(instruction.row, index))
        names[f"{name_of(maker.row)}{{{','.join(map(str, maker.element))}}}"] = None
    values = []
    for value in (laid[name] for name in names if name in laid):
        allocation = allocations[value.allocation]
        values.append(
            InstructionValue(
                instruction.name,
                value.name,
                value.size,
                value.instruction_name == instruction.name,
                space_name(allocation.color, memory.backend),
                allocation.category,
                *roles.of_value(value.name, value.allocation),
                value.allocation,
                value.offset,
                value.start,
                value.end,
                value.shape_text,
            )
        )
    return InstructionValues(values=tuple(values))
