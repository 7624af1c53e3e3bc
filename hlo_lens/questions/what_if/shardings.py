"""Shardings of arguments, results and intermediate values (constraints), edited in the text.

A constraint is a custom call ``Sharding``. Where it is dropped, its users get its operand; a line
drops those of the functions that it calls, too. Where it is added at a line, it comes between an
instruction of the line and its users on other lines. As in jax, the gradient of a value is
constrained too: in the parts of the program that ``transpose`` made, the operands that come from
another line to an instruction of this one.

What a loop saves for the gradients was chosen when the program was traced, and stays: jax saves a
value before and after a constraint apart, so temporaries of such a loop can differ by one of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.placement import custom_call_target
from hlo_lens.questions.what_if.arguments import EntryArrays, booleans, index_of, result_name
from hlo_lens.questions.what_if.edits import (
    FUNC_RESULT,
    ChangedPart,
    InapplicableError,
    is_result_call,
    part_of,
)
from hlo_lens.questions.what_if.meshes import MeshSharding, ProgramMeshes
from hlo_lens.questions.what_if.stored_arrays import pairs_of_text
from hlo_lens.shapes import shardy
from hlo_lens.shapes.named_sharding import (
    PartitionSpec,
    ShardingKind,
    partition_spec_text,
    read_partition_spec,
)
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import UsageError
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.questions.what_if.edits import TextEdits
    from hlo_lens.shapes.mesh import Mesh


# ---- constraints -------------------------------------------------------------------------------

_CONSTRAINT = re.compile(r"(?P<action>add|drop)[ ]+(?P<file>.+):(?P<line>\d+)(?:=(?P<spec>.+))?")
_TARGET = "Sharding"
_SHOWN = 4
_NO_ARRAYS = {"tuple", "parameter", "get-tuple-element", "constant"}


def _is_result(instruction: HloInstruction) -> bool:
    """Return whether an instruction takes a result of a call, loop or other tuple that is made."""
    made = instruction.producer(0) if instruction.opcode == "get-tuple-element" else None
    return made is not None and made[0].opcode not in _NO_ARRAYS


def edit_constraint(
    edits: TextEdits, requests: Iterable[str], meshes: Sequence[Mesh] = ()
) -> list[ChangedPart]:
    """Drop and add sharding constraints.

    Args:
        edits: Edits of the program before optimizations.
        requests: ``drop step.py:31`` or ``add step.py:31=P('data')``; a file by its last names.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If a request is malformed.
    """
    editor = _ConstraintEditor(edits, ProgramMeshes(edits.module, meshes))
    parts = []
    for text in requests:
        match = _CONSTRAINT.fullmatch(text.strip())
        if match is None or (match["action"] == "add") != (match["spec"] is not None):
            raise UsageError(
                f"not a constraint: {text!r}; write it like 'drop step.py:31' "
                "or \"add step.py:31=P('data')\""
            )
        line, spec = (
            _Line(match["file"], int(match["line"])),
            read_partition_spec(match["spec"] or ""),
        )
        drop, add = partial(editor.drop, line), partial(editor.add, line, spec)
        make = drop if match["action"] == "drop" else add
        parts.append(part_of("constraint", f"{line.file}:{line.number}", text, make))
    return parts


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the source; files match by last names."""

    file: str
    number: int

    def has(self, place: SourceLocation | None) -> bool:
        if place is None or place.line != self.number:
            return False
        return place.file == self.file or place.file.endswith(f"/{self.file}")

    def made(self, instruction: HloInstruction) -> bool:
        return self.has(instruction.source_location)


class _ConstraintEditor:
    """Edits of the constraints of one module."""

    def __init__(self, edits: TextEdits, meshes: ProgramMeshes) -> None:
        self.edits = edits
        self.module = edits.module
        self.meshes = meshes
        self.dropped: set[int] = set()
        self.transposed: dict[int, bool] = {}

    def drop(self, line: _Line) -> str:
        """Drop the constraints of a line, and of functions that it calls."""
        rows = self.module.columns.rows_with_attribute_text(f'custom_call_target="{_TARGET}"')
        calls = [
            call
            for call in map(self.module.instruction, rows)
            if call.opcode == "custom-call" and custom_call_target(call) == _TARGET
        ]
        dropped = [one for one in calls if line.made(one) or any(map(line.has, one.call_stack))]
        if not dropped:
            places = listed(list(dict.fromkeys(str(call.source) for call in calls)), _SHOWN)
            where = f"; there are at {places}" if places else "; the program has none"
            raise InapplicableError(f"there is no sharding constraint{where}")
        if any((call.op_name or "").endswith("shard_map") for call in dropped):
            raise InapplicableError("it belongs to a shard_map")
        self.dropped |= {call.row for call in dropped}
        for call in dropped:
            first = call  # of a chain of constraints that are dropped
            while (made := first.producer(0)) and made[0].row in self.dropped and not made[1]:
                first = made[0]
            operand = self.edits.operand(first, 0)
            for row, position in self.module.links.users_of(call.row):
                self.edits.line(self.module.instruction(row)).operands[position] = operand
            source = call.computation.instruction(operand.partition("#")[0])
            if call.is_root and source is not None:
                self.edits.line(source).is_root = True
            self.edits.line(call).is_removed = True
        return f"{len(dropped)} dropped"

    def add(self, line: _Line, spec: PartitionSpec) -> str:
        """Constrain the values that leave a line, and their gradients."""
        chosen = self.meshes.chosen(spec)
        here = [
            one
            for one in self.module.instructions
            if line.made(one) and (one.opcode not in _NO_ARRAYS or _is_result(one))
        ]
        if not here:
            raise InapplicableError("no array is computed at this line")
        constrained: set[tuple[int | None, ...]] = set()
        count, refusal = 0, InapplicableError("no value leaves this line")
        for one in here:
            users = [(user, k) for user, k in self._users(one) if not line.made(user)]
            shape = one.shape
            if self._is_transposed(one) or shape is None or shape.is_tuple:
                continue
            if users or one.is_root:
                try:
                    chosen.require_even(shape.dimensions)
                except InapplicableError as error:
                    refusal = error
                    continue
                self._constrain(one, chosen, users)
                constrained.add(shape.dimensions)
                count += 1
        if not count:
            raise refusal
        gradients = 0
        for one in here:
            if self._is_transposed(one):
                gradients += self._constrain_gradients(one, line, constrained, chosen)
        also = f" and {gradients} of gradients" if gradients else ""
        return f"{count} of {chosen} added{also}"

    def _users(self, one: HloInstruction) -> Iterator[tuple[HloInstruction, int]]:
        users = self.module.links.users_of(one.row)
        return ((self.module.instruction(row), position) for row, position in users)

    def _constrain(
        self,
        one: HloInstruction,
        chosen: MeshSharding,
        users: Iterable[tuple[HloInstruction, int]],
    ) -> None:
        """Add a constraint between an instruction and some of its users."""
        edits, rank = self.edits, 0 if one.shape is None else one.shape.rank
        name, write = edits.new_name(one), edits.reference
        mark, shardy_text = "", ""
        if one.is_root:
            mark, edits.line(one).is_root = "ROOT ", False
        if self.meshes.is_shardy:
            value = f"#sdy.sharding_per_value<[{chosen.shardy(rank)}]>"
            shardy_text = f', frontend_attributes={{{shardy.SHARDING}="{value}"}}'
        edits.line(one).after.append(
            f"{mark}{write(name)} = {one.shape_text} custom-call({write(one.name)}), "
            f'custom_call_target="{_TARGET}", sharding={chosen.hlo(rank)}{shardy_text}'
        )
        for user, position in users:
            edits.line(user).operands[position] = name

    def _constrain_gradients(
        self,
        one: HloInstruction,
        line: _Line,
        constrained: set[tuple[int | None, ...]],
        chosen: MeshSharding,
    ) -> int:
        """Constrain what comes from other lines to an instruction; return how many values."""
        count = 0
        for position in range(len(one.operands)):
            source, index = one.producer(position) or (None, ())
            if source is None or index or source.opcode in _NO_ARRAYS or source.source is None:
                continue
            shape = source.shape
            if shape is None or shape.dimensions not in constrained or line.made(source):
                continue
            if self.edits.operand(one, position) == source.name:  # not constrained yet
                self._constrain(source, chosen, self._users(source))
                count += 1
        return count

    def _is_transposed(self, one: HloInstruction) -> bool:
        """Return whether an instruction computes gradients, by its op_name or that of a caller."""
        if "transpose(" in (one.op_name or ""):
            return True
        place = one.computation.place
        if place not in self.transposed:
            self.transposed[place] = False  # for a computation that calls itself
            calls = self.module.links.calls.of_computation(place)
            self.transposed[place] = any(
                self._is_transposed(self.module.instruction(call.row)) for call in calls
            )
        return self.transposed[place]


# ---- arguments and results ---------------------------------------------------------------------

_TO = "allow_spmd_sharding_propagation_to_"
_ATTRIBUTE = re.compile(r'(xla\.sdy\.sharding=)"(?:[^"\\]|\\.)*"')
_MESH_NAME = re.compile(r"<@([\w.$-]+)")


def edit_sharding(
    edits: TextEdits, requests: Iterable[str], meshes: Sequence[Mesh] = ()
) -> list[ChangedPart]:
    """Shard arguments and results.

    A result that an argument is donated to gets the argument's sharding, unless a request names it.

    Args:
        edits: Edits of the program before optimizations.
        requests: ``PATTERN=P(..)``: arguments by pattern, a result as ``result{3}``.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If a request is malformed.
    """
    read = []
    for text in requests:
        pattern, sign, spec = text.rpartition("=")
        if not sign or not pattern:
            raise UsageError(
                f"not a sharding: {text!r}; write it like \"params['w']=P(None, 'x')\""
            )
        read.append((text, pattern, read_partition_spec(spec)))
    sharder = _Sharder(edits, ProgramMeshes(edits.module, meshes))
    arrays = sharder.arrays
    named = {place for _, pattern, _ in read for place in arrays.results_of(pattern)}
    sharder.followers = {
        argument: result
        for argument, result in pairs_of_text(arrays).outputs.items()
        if result not in named and result not in arrays.open_results
    }
    return [
        part
        for text, pattern, spec in read
        for part in arrays.parts(
            "shard",
            text,
            pattern,
            partial(sharder.shard_argument, spec=spec),
            partial(sharder.shard_result, spec=spec),
        )
    ]


class _Sharder:
    """Edits of the shardings of one module.

    Attributes:
        followers: Arguments with the results that get their shardings.
    """

    def __init__(self, edits: TextEdits, meshes: ProgramMeshes) -> None:
        self.edits = edits
        self.module = edits.module
        self.arrays = EntryArrays.of(edits.module)
        self.meshes = meshes
        self.is_shardy = meshes.is_shardy
        self.parameters = {one.parameter_number: one for one in self.module.entry.parameters}
        self.followers: dict[int, int] = {}

    def shard_argument(self, position: int, spec: PartitionSpec) -> str:
        """Shard an argument, and the result that has its memory."""
        value = self.arrays.arguments[position]
        chosen = self._chosen(value, spec)
        parameter = self.parameters[value.value.number]
        self.edits.line(parameter).attributes["sharding"] = chosen.hlo(_rank(value))
        if self.is_shardy:
            self._set_shardy(parameter, f"#sdy.sharding{chosen.shardy(_rank(value))}")
        self._close("parameters", position, len(self.arrays.arguments))
        if position not in self.followers:
            return str(chosen)
        self._set_result(self.followers[position], chosen)
        name = result_name(self.arrays.results[self.followers[position]])
        return f"{chosen}; {name}, which has its memory, follows"

    def shard_result(self, position: int, spec: PartitionSpec) -> str:
        """Shard a result."""
        chosen = self._chosen(self.arrays.results[position], spec)
        self._set_result(position, chosen)
        return str(chosen)

    def _chosen(self, value: ShardedValue, spec: PartitionSpec) -> MeshSharding:
        """Return the sharding over a mesh of the program."""
        shape = value.global_shape
        if shape is None or shape.is_token:
            raise InapplicableError("its shape is not known")
        if index_of(value) and value.value.kind == "parameter":
            raise InapplicableError("the arguments are passed as one tuple")
        if value.sharding is not None and value.sharding.kind is ShardingKind.MANUAL:
            raise InapplicableError("it is manual: its shape is that of one device")
        parameter = self.parameters.get(value.value.number)
        own = {} if parameter is None else parameter.frontend_attributes
        mesh_name = _MESH_NAME.search(own.get(shardy.SHARDING, ""))
        chosen = self.meshes.chosen(spec, None if mesh_name is None else mesh_name[1])
        chosen.require_even(shape.dimensions)
        new = HloSharding.from_partition_spec(chosen.mesh, spec, rank=shape.rank)
        if value.sharding is not None and value.sharding.equivalent(new):
            raise InapplicableError(f"it is sharded so: {partition_spec_text(spec)}")
        return chosen

    def _set_shardy(self, instruction: HloInstruction, text: str) -> None:
        """Give an instruction another sharding of Shardy, among its frontend attributes."""
        known = self.edits.attribute(instruction, "frontend_attributes") or "{}"
        entry = f'{shardy.SHARDING}="{text}"'
        new = _ATTRIBUTE.sub(lambda _: entry, known)
        if not _ATTRIBUTE.search(known):
            new = f"{{{entry}}}" if known == "{}" else f"{{{entry},{known[1:]}"
        self.edits.line(instruction).attributes["frontend_attributes"] = new

    def _close(self, which: str, position: int, count: int) -> None:
        """State that XLA does not choose the sharding of one argument or result."""
        flags = booleans(self.edits.header_value(_TO + which))
        flags = flags * count if len(flags) == 1 else flags
        if position < len(flags) and flags[position]:
            flags[position] = False
            shown = len(flags) > 1 or any(flags)  # XLA does not print {false}
            words = ",".join("true" if flag else "false" for flag in flags)
            self.edits.header[_TO + which] = f"{{{words}}}" if shown else ""

    def _set_result(self, position: int, chosen: MeshSharding) -> None:
        value, root = self.arrays.results[position], self.module.entry.root
        if root is None:
            return
        if root.opcode == "tuple" and index_of(value):
            self._set_element(root, position, chosen, _rank(value))
        else:
            self._set_single(root, chosen, _rank(value))
        self._close("output", position, len(self.arrays.results))

    def _set_element(
        self, root: HloInstruction, position: int, chosen: MeshSharding, rank: int
    ) -> None:
        """Edit the sharding of one element of the result."""
        if self.is_shardy:
            self._state_result(root, position, chosen, rank)
        known = self.edits.attribute(root, "sharding")
        if known is None and self.is_shardy:
            return
        words = ["{replicated}"] * (0 if root.shape is None else len(root.shape.tuple_shapes))
        elements = () if known is None else self.module.reader.sharding(known).elements
        words = [element.text for element in elements] or words
        words[position] = chosen.hlo(rank)
        self.edits.line(root).attributes["sharding"] = f"{{{', '.join(words)}}}"

    def _set_single(self, root: HloInstruction, chosen: MeshSharding, rank: int) -> None:
        """Edit the sharding of a result that is no tuple, as JAX writes it: taken from a tuple."""
        edits = self.edits
        if root.opcode == "get-tuple-element" and root.attribute("sharding") is not None:
            made = root.producer(0)
            edits.line(root).attributes["sharding"] = chosen.hlo(rank)
            if self.is_shardy and made is not None and made[0].opcode == "tuple":
                self._state_result(made[0], 0, chosen, rank)
            return
        shape, name = root.shape_text, root.name
        edits.line(root).is_root = False
        after, write = edits.last_of_entry().after, edits.reference
        if self.is_shardy:
            name = edits.new_name(root)
            after.append(self._result_call(name, root.name, shape, chosen, rank))
        pair, result = edits.new_name(root), edits.new_name(root)
        after.append(f"{write(pair)} = ({shape}) tuple({write(name)})")
        after.append(
            f"ROOT {write(result)} = {shape} get-tuple-element({write(pair)}), index=0, "
            f"sharding={chosen.hlo(rank)}"
        )

    def _state_result(
        self, root: HloInstruction, position: int, chosen: MeshSharding, rank: int
    ) -> None:
        """Edit the custom call that states the sharding of a result, or add one."""
        edits, made = self.edits, root.producer(position)
        if made is not None and not made[1] and is_result_call(made[0]):
            call = made[0]
            self._set_shardy(call, f"#sdy.sharding_per_value<[{chosen.shardy(rank)}]>")
            for user in self.module.entry.instructions:
                is_copy = user.opcode == "reshape" and user.operand_names == (call.name,)
                if is_copy and user.attribute("sharding") is not None:
                    edits.line(user).attributes["sharding"] = chosen.hlo(rank)
            return
        shapes = () if root.shape is None else root.shape.tuple_shapes
        name, operand = edits.new_name(root), edits.operand(root, position)
        line = self._result_call(name, operand, str(shapes[position]), chosen, rank)
        edits.line(root).before.append(line)
        edits.line(root).operands[position] = name

    def _result_call(
        self, name: str, operand: str, shape: str, chosen: MeshSharding, rank: int
    ) -> str:
        write = self.edits.reference
        sharding = f"#sdy.sharding_per_value<[{chosen.shardy(rank)}]>"
        return (
            f"{write(name)} = {shape} custom-call({write(operand)}), "
            f'custom_call_target="{FUNC_RESULT}", custom_call_has_side_effect=true, '
            f'frontend_attributes={{{shardy.SHARDING}="{sharding}"}}'
        )


def _rank(value: ShardedValue) -> int:
    return len(value.global_shape.dimensions) if value.global_shape else 0
