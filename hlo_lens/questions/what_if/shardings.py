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

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.placement import custom_call_target
from hlo_lens.questions.what_if.arguments import (
    FUNC_RESULT,
    EntryArrays,
    element_text,
    index_of,
    is_result_call,
    result_name,
)
from hlo_lens.questions.what_if.edits import Change, ProgramEdit, TextEdits
from hlo_lens.questions.what_if.meshes import MeshSharding, ProgramMeshes, why_uneven
from hlo_lens.questions.what_if.stored_types import donated_results
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
    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape


_REQUEST = re.compile(r"(add|drop)[ ]+(.+):(\d+)(?:=(.+))?")
_TARGET = "Sharding"
_SHOWN = 4
_NO_ARRAYS = {"tuple", "parameter", "get-tuple-element", "constant"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    action: str
    file: str
    line: int
    spec: PartitionSpec

    @property
    def target(self) -> str:
        return f"{self.file}:{self.line}"

    def is_line(self, place: SourceLocation | None) -> bool:
        """Return whether a place is on the line; files match by last names."""
        if place is None or place.line != self.line:
            return False
        return place.file == self.file or place.file.endswith(f"/{self.file}")


def edit_constraint(
    module: HloModule, requests: Iterable[str], *, meshes: Sequence[Mesh] = ()
) -> ProgramEdit:
    """Return the text's change for sharding constraints.

    Args:
        module: The program before optimizations.
        requests: ``drop step.py:31`` or ``add step.py:31=P('data')``; a file by its last names.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If a request is malformed.
    """
    editor = _Editor(module, meshes)
    changes = []
    for text, one in [(text, _request(text)) for text in requests]:
        change = editor.drop(one) if one.action == "drop" else editor.add(one)
        changes.append(change.for_request(text))
    return ProgramEdit(changes=tuple(changes), replacements=editor.edits.replacements())


def _request(text: str) -> _Request:
    match = _REQUEST.fullmatch(text.strip())
    if match is None or (match[1] == "add") != (match[4] is not None):
        raise UsageError(
            f"not a constraint: {text!r}; write it like 'drop step.py:31' "
            "or \"add step.py:31=P('data')\""
        )
    spec = read_partition_spec(match[4] or "")
    return _Request(action=match[1], file=match[2], line=int(match[3]), spec=spec)


class _Editor:
    """Edits of the constraints of one module."""

    def __init__(self, module: HloModule, given: Sequence[Mesh]) -> None:
        self.module = module
        self.edits = TextEdits(module)
        self.meshes = ProgramMeshes(module, given)
        self.dropped: dict[int, HloInstruction] = {}

    # ---- drop ----------------------------------------------------------------------------------

    def drop(self, request: _Request) -> Change:
        """Drop the constraints of a line."""
        calls = list(self._constraints())
        found = [call for call in calls if _is_at(call, request) or _is_below(call, request)]
        if not found:
            places = listed(list(dict.fromkeys(str(call.source) for call in calls)), _SHOWN)
            where = f"; there are at {places}" if places else "; the program has none"
            return self._refused(request, f"there is no sharding constraint{where}")
        if any((call.op_name or "").endswith("shard_map") for call in found):
            return self._refused(request, "it belongs to a shard_map")
        self.dropped |= {call.row: call for call in found}
        for call in found:
            self._replace(call, self._source(call))
            self.edits.remove(call)
        return self._changed(request, f"{len(found)} dropped")

    def _constraints(self) -> Iterator[HloInstruction]:
        rows = self.module.columns.rows_with_attribute_text(f'custom_call_target="{_TARGET}"')
        for row in rows:
            call = self.module.instruction(row)
            if call.opcode == "custom-call" and custom_call_target(call) == _TARGET:
                yield call

    def _source(self, call: HloInstruction) -> str:
        """Return the operand of a constraint, of the first one of a chain that is dropped."""
        made = call.producer(0)
        while made is not None and made[0].row in self.dropped and not made[1]:
            call = made[0]
            made = call.producer(0)
        return self.edits.operand(call, 0)

    def _replace(self, old: HloInstruction, new: str) -> None:
        """Give the users of an instruction another operand."""
        for row, position in self.module.links.users_of(old.row):
            self.edits.set_operand(self.module.instruction(row), position, new)
        if old.is_root:
            source = old.computation.instruction(new.partition("#")[0])
            if source is not None:
                self.edits.set_root(source)

    # ---- add -----------------------------------------------------------------------------------

    def add(self, request: _Request) -> Change:
        """Constrain the values that leave a line, and their gradients."""
        chosen = self.meshes.chosen(request.spec)
        if isinstance(chosen, str):
            return self._refused(request, chosen)
        here = [one for one in self._at(request) if one.opcode not in _NO_ARRAYS]
        if not here:
            return self._refused(request, "no array is computed at this line")
        forward = [one for one in here if not self._is_transposed(one)]
        fitting: dict[tuple[int | None, ...], Shape] = {}
        count, reason = 0, ""
        for one in forward:
            shape, users = one.shape, self._users_elsewhere(one, request)
            if shape is None or shape.is_tuple or not (users or one.is_root):
                continue
            reason = why_uneven(shape.dimensions, chosen)
            if not reason:
                self._constrain(one, shape, chosen, users)
                fitting[shape.dimensions] = shape
                count += 1
        if not count:
            return self._refused(request, reason or "no value leaves this line")
        backward = [one for one in here if self._is_transposed(one)]
        gradients = sum(self._constrain_gradient(one, request, fitting, chosen) for one in backward)
        also = f" and {gradients} of gradients" if gradients else ""
        return self._changed(request, f"{count} of {chosen} added{also}")

    def _at(self, request: _Request) -> Iterator[HloInstruction]:
        return (one for one in self.module.instructions if _is_at(one, request))

    def _users_elsewhere(
        self, one: HloInstruction, request: _Request
    ) -> list[tuple[HloInstruction, int]]:
        found = []
        for row, position in self.module.links.users_of(one.row):
            user = self.module.instruction(row)
            if not _is_at(user, request):
                found.append((user, position))
        return found

    def _constrain(
        self,
        one: HloInstruction,
        shape: Shape,
        chosen: MeshSharding,
        users: Sequence[tuple[HloInstruction, int]],
    ) -> None:
        edits = self.edits
        name, write = edits.new_name(one), edits.reference
        mark = "ROOT " if one.is_root else ""
        if mark:
            edits.remove_root(one)
        also = ""
        if self.meshes.is_shardy:
            value = f"#sdy.sharding_per_value<[{chosen.shardy(shape.rank)}]>"
            also = f', frontend_attributes={{{shardy.SHARDING}="{value}"}}'
        edits.insert_after(
            one,
            f"{mark}{write(name)} = {one.shape_text} custom-call({write(one.name)}), "
            f'custom_call_target="{_TARGET}", sharding={chosen.hlo(shape.rank)}{also}',
        )
        for user, position in users:
            edits.set_operand(user, position, name)

    def _constrain_gradient(
        self,
        one: HloInstruction,
        request: _Request,
        fitting: dict[tuple[int | None, ...], Shape],
        chosen: MeshSharding,
    ) -> int:
        """Constrain what comes from other lines to an instruction; return how many values."""
        done = 0
        for position in range(len(one.operands)):
            made = one.producer(position)
            source = None if made is None or made[1] else made[0]
            if source is None or source.opcode in _NO_ARRAYS or source.source is None:
                continue
            shape = source.shape
            if shape is None or shape.dimensions not in fitting or _is_at(source, request):
                continue
            if self.edits.operand(one, position) == source.name:  # not constrained yet
                users = self.module.links.users_of(source.row)
                to = [(self.module.instruction(row), place) for row, place in users]
                self._constrain(source, shape, chosen, to)
                done += 1
        return done

    def _is_transposed(self, one: HloInstruction) -> bool:
        """Return whether an instruction computes gradients, by its op_name or that of a caller."""
        if "transpose(" in (one.op_name or ""):
            return True
        return self._is_called_transposed(one.computation.place)

    @functools.cached_property
    def _transposed(self) -> dict[int, bool]:
        return {}

    def _is_called_transposed(self, place: int) -> bool:
        known = self._transposed
        if place not in known:
            known[place] = False  # for a computation that calls itself
            calls = self.module.links.calls.of_computation(place)
            known[place] = any(
                self._is_transposed(self.module.instruction(call.row)) for call in calls
            )
        return known[place]

    def _refused(self, request: _Request, why_not: str) -> Change:
        return Change.refused("constraint", request.target, why_not)

    def _changed(self, request: _Request, effect: str) -> Change:
        return Change(kind="constraint", target=request.target, effect=effect)


def _is_at(instruction: HloInstruction, request: _Request) -> bool:
    """Return whether an instruction is from a line of the source."""
    return request.is_line(instruction.source_location)


def _is_below(instruction: HloInstruction, request: _Request) -> bool:
    """Return whether a line calls the function that makes an instruction, or one around it."""
    return any(map(request.is_line, instruction.call_stack))


_TO = "allow_spmd_sharding_propagation_to_"
_ATTRIBUTE = re.compile(r'(xla\.sdy\.sharding=)"(?:[^"\\]|\\.)*"')
_MESH_NAME = re.compile(r"<@([\w.$-]+)")


def edit_sharding(
    module: HloModule, requests: Iterable[str], *, meshes: Sequence[Mesh] = ()
) -> ProgramEdit:
    """Return the text's change for shardings of arguments and results.

    A result that an argument is donated to gets the argument's sharding, unless a request names it.

    Args:
        module: The program before optimizations.
        requests: ``PATTERN=P(..)``: arguments by pattern, a result as ``result{3}``.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If a request is malformed.
    """
    sharder = _Sharder(EntryArrays.of(module), meshes)
    return sharder.edit([(text, *_requested(text)) for text in requests])


@dataclass(frozen=True, slots=True, kw_only=True)
class Resharded:
    """An argument or result with another sharding.

    Attributes:
        place: Its position among arguments, or among results.
        sharding: The sharding over a mesh of the program.
        is_result: Whether it is a result.
    """

    place: int
    sharding: MeshSharding
    is_result: bool = False


def _requested(text: str) -> tuple[str, PartitionSpec]:
    pattern, sign, spec = text.rpartition("=")
    if not sign or not pattern:
        raise UsageError(f"not a sharding: {text!r}; write it like \"params['w']=P(None, 'x')\"")
    return pattern, read_partition_spec(spec)


class _Sharder:
    """Edits of the shardings of one module."""

    def __init__(self, arrays: EntryArrays, given: Sequence[Mesh]) -> None:
        module = arrays.module
        self.arrays = arrays
        self.edits = TextEdits(module)
        self.module = module
        self.meshes = ProgramMeshes(module, given)
        self.is_shardy = self.meshes.is_shardy
        self.parameters = {one.parameter_number: one for one in module.entry.parameters}

    def edit(self, requests: Sequence[tuple[str, str, PartitionSpec]]) -> ProgramEdit:
        changes: list[Change] = []
        values: list[Resharded] = []
        followers = donated_results(self.arrays)
        named = {place for _, pattern, _ in requests for place in self.arrays.results_of(pattern)}
        for text, pattern, spec in requests:
            made: list[Change] = []
            for place in self.arrays.arguments_of(pattern):
                follower = followers.get(place)
                if follower in named or follower in self.arrays.open_results:
                    follower = None
                made.append(self._argument(place, spec, follower, values))
            made += [self._output(one, spec, values) for one in self.arrays.results_of(pattern)]
            if not made:
                reason = self.arrays.nothing_matches(pattern)
                made.append(Change.refused("shard", pattern, reason))
            changes += [change.for_request(text) for change in made]
        for one in values:
            self._apply(one)
        return ProgramEdit(changes=tuple(changes), replacements=self.edits.replacements())

    def _apply(self, one: Resharded) -> None:
        """Edit the sharding of one argument or result."""
        arrays = self.arrays
        value = (arrays.results if one.is_result else arrays.arguments)[one.place]
        rank = len(value.global_shape.dimensions) if value.global_shape else 0
        if one.is_result:
            self._set_result(one.place, one.sharding, rank)
        else:
            self._set(self.parameters[value.value.number], one.sharding, rank)
            self._close("parameters", one.place, len(arrays.arguments))

    # ---- applicability -------------------------------------------------------------------------

    def _chosen(self, value: ShardedValue, spec: PartitionSpec) -> MeshSharding | str:
        """Return the sharding over a mesh of the program, or why there is none."""
        shape = value.global_shape
        if shape is None or shape.is_token:
            return "its shape is not known"
        if index_of(value) and value.value.kind == "parameter":
            return "the arguments are passed as one tuple"
        if value.sharding is not None and value.sharding.kind is ShardingKind.MANUAL:
            return "it is manual: its shape is that of one device"
        chosen = self.meshes.chosen(spec, self._mesh_name(value))
        if isinstance(chosen, str):
            return chosen
        if reason := why_uneven(shape.dimensions, chosen):
            return reason
        new = HloSharding.from_partition_spec(chosen.mesh, spec, rank=shape.rank)
        if value.sharding is not None and value.sharding.equivalent(new):
            return f"it is sharded so: {partition_spec_text(spec)}"
        return chosen

    def _mesh_name(self, value: ShardedValue) -> str | None:
        source = self.parameters.get(value.value.number)
        text = "" if source is None else source.frontend_attributes.get(shardy.SHARDING, "")
        match = _MESH_NAME.search(text)
        return match[1] if match else None

    # ---- arguments -----------------------------------------------------------------------------

    def _argument(
        self, place: int, spec: PartitionSpec, follower: int | None, values: list[Resharded]
    ) -> Change:
        value = self.arrays.arguments[place]
        name = str(value.value.name)
        chosen = self._chosen(value, spec)
        if isinstance(chosen, str):
            return Change.refused("shard", name, chosen)
        values.append(Resharded(place=place, sharding=chosen))
        effect = str(chosen)
        if follower is not None:
            values.append(Resharded(place=follower, sharding=chosen, is_result=True))
            name_of_it = result_name(self.arrays.results[follower])
            effect += f"; {name_of_it}, which has its memory, follows"
        return Change(kind="shard", target=name, effect=effect)

    def _set(self, instruction: HloInstruction, chosen: MeshSharding, rank: int) -> None:
        self.edits.set_attribute(instruction, "sharding", chosen.hlo(rank))
        if self.is_shardy:
            self._set_shardy(instruction, f"#sdy.sharding{chosen.shardy(rank)}")

    def _set_shardy(self, instruction: HloInstruction, text: str) -> None:
        known = self.edits.attribute(instruction, "frontend_attributes")
        entry = f'{shardy.SHARDING}="{text}"'
        if known is None or known == "{}":
            new = f"{{{entry}}}"
        elif _ATTRIBUTE.search(known):
            new = _ATTRIBUTE.sub(lambda _: entry, known)
        else:
            new = f"{{{entry},{known[1:]}"
        self.edits.set_attribute(instruction, "frontend_attributes", new)

    def _close(self, which: str, place: int, count: int) -> None:
        """Say that XLA does not choose the sharding of one argument or result."""
        flags = _flags(self.edits.header(_TO + which))
        flags = flags * count if len(flags) == 1 else flags
        if place < len(flags) and flags[place]:
            flags[place] = False
            shown = len(flags) > 1 or any(flags)  # XLA does not print {false}
            words = ",".join("true" if flag else "false" for flag in flags)
            self.edits.set_header(_TO + which, f"{{{words}}}" if shown else "")

    # ---- results -------------------------------------------------------------------------------

    def _output(self, place: int, spec: PartitionSpec, values: list[Resharded]) -> Change:
        value = self.arrays.results[place]
        chosen = self._chosen(value, spec)
        if isinstance(chosen, str):
            return Change.refused("shard", result_name(value), chosen)
        values.append(Resharded(place=place, sharding=chosen, is_result=True))
        return Change(kind="shard", target=result_name(value), effect=str(chosen))

    def _set_result(self, place: int, chosen: MeshSharding, rank: int) -> None:
        root = self.module.entry.root
        if root is None:
            return
        if root.opcode == "tuple" and index_of(self.arrays.results[place]):
            self._set_element(root, place, chosen, rank)
        else:
            self._set_single(root, chosen, rank)
        self._close("output", place, len(self.arrays.results))

    def _set_element(
        self, root: HloInstruction, place: int, chosen: MeshSharding, rank: int
    ) -> None:
        """Edit the sharding of one element of the result."""
        if self.is_shardy:
            made = self._result_call(root, place, chosen, rank)
            if made is not None:
                self.edits.set_operand(root, place, made)
        known = self.edits.attribute(root, "sharding")
        if known is None and self.is_shardy:
            return
        shapes = root.shape.tuple_shapes if root.shape is not None else ()
        words = ["{replicated}"] * len(shapes)
        if known is not None:
            read = self.module.reader.sharding(known)
            if read.elements:
                words = [element.text for element in read.elements]
        words[place] = chosen.hlo(rank)
        self.edits.set_attribute(root, "sharding", f"{{{', '.join(words)}}}")

    def _set_single(self, root: HloInstruction, chosen: MeshSharding, rank: int) -> None:
        """Edit the sharding of a result that is no tuple, as JAX writes it: taken from a tuple."""
        edits = self.edits
        if root.opcode == "get-tuple-element" and root.attribute("sharding") is not None:
            made = root.producer(0)
            edits.set_attribute(root, "sharding", chosen.hlo(rank))
            if self.is_shardy and made is not None and made[0].opcode == "tuple":
                name = self._result_call(made[0], 0, chosen, rank)
                if name is not None:
                    edits.set_operand(made[0], 0, name)
            return
        shape, name = root.shape_text, root.name
        edits.remove_root(root)
        last = self.module.instruction(self.module.entry.rows[-1])
        if self.is_shardy:
            name = self._new_call(root, name, shape, chosen.shardy(rank))
        pair, result = edits.new_name(root), edits.new_name(root)
        write = edits.reference
        edits.insert_after(last, f"{write(pair)} = ({shape}) tuple({write(name)})")
        edits.insert_after(
            last,
            f"ROOT {write(result)} = {shape} get-tuple-element({write(pair)}), index=0, "
            f"sharding={chosen.hlo(rank)}",
        )

    def _result_call(
        self, root: HloInstruction, place: int, chosen: MeshSharding, rank: int
    ) -> str | None:
        """Edit the custom call behind a result; return the name of a new one, else None."""
        found = root.producer(place)
        if found is not None and not found[1] and is_result_call(found[0]):
            call = found[0]
            self._set_shardy(call, f"#sdy.sharding_per_value<[{chosen.shardy(rank)}]>")
            for user in self.module.entry.instructions:
                is_copy = user.opcode == "reshape" and user.operand_names == (call.name,)
                if is_copy and user.attribute("sharding") is not None:
                    self.edits.set_attribute(user, "sharding", chosen.hlo(rank))
            return None
        shape = element_text(root, place)
        return self._new_call(root, self.edits.operand(root, place), shape, chosen.shardy(rank))

    def _new_call(self, user: HloInstruction, operand: str, shape: str, sharding: str) -> str:
        """Add a custom call before its user that states the sharding of a result; return its name.

        A user that was the ROOT before, and the last instruction, gets it after itself.
        """
        edits = self.edits
        name = edits.new_name(user)
        line = (
            f"{edits.reference(name)} = {shape} custom-call({edits.reference(operand)}), "
            f'custom_call_target="{FUNC_RESULT}", custom_call_has_side_effect=true, '
            f'frontend_attributes={{{shardy.SHARDING}="#sdy.sharding_per_value<[{sharding}]>"}}'
        )
        if user.name == operand:
            edits.insert_after(self.module.instruction(user.computation.rows[-1]), line)
        else:
            edits.insert_before(user, line)
        return name


def _flags(text: str) -> list[bool]:
    return [word.strip() == "true" for word in text.strip("{}").split(",") if word.strip()]
