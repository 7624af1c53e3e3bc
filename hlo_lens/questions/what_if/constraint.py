"""Sharding constraints (``with_sharding_constraint``) at a source line, dropped or added.

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

from hlo_lens.questions.sharding.sources import custom_call_target
from hlo_lens.questions.what_if.edit import Change, ProgramEdit
from hlo_lens.questions.what_if.mesh_sharding import MeshSharding, ProgramMeshes, why_uneven
from hlo_lens.questions.what_if.text_edits import TextEdits
from hlo_lens.shapes import shardy
from hlo_lens.shapes.partition_spec import PartitionSpec, read_partition_spec
from hlo_lens.text.errors import UsageError
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
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
