"""Element types of stored arguments, and of the results that they become.

The parameter gets the new type and is converted at once; the result is converted last. So the
program computes as before, and only what is stored between two runs changes, as if the program
called ``astype`` on the argument first and on the result last.

The result that an argument becomes has its memory, or would have if all arguments were donated:
JAX pairs them in order (`donation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.questions.what_if.arguments import (
    EntryArrays,
    element_text,
    index_of,
    is_result_call,
    result_name,
)
from hlo_lens.questions.what_if.donation import becomes
from hlo_lens.questions.what_if.edit import Change, ProgramEdit
from hlo_lens.questions.what_if.text_edits import TextEdits
from hlo_lens.shapes.primitive_type import PRIMITIVE_TYPES, xla_name
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule


def edit_dtype(module: HloModule, requests: Iterable[str]) -> ProgramEdit:
    """Return the text's change for element types of arguments.

    Args:
        module: The program before optimizations.
        requests: ``PATTERN=bf16``: arguments by pattern, and a type by XLA's or numpy's name.

    Raises:
        UsageError: If a request is malformed, or its type is not known.
    """
    arrays = EntryArrays.of(module)
    found: dict[int, Retyped] = {}
    followers = becomes(arrays)
    changes: list[Change] = []
    for text, (pattern, element_type) in [(text, _request(text)) for text in requests]:
        places = arrays.arguments_of(pattern)
        made = []
        for place in places:
            one = _retyped(arrays, place, element_type, followers.get(place))
            if place in found:
                one = f"it is {element_type} already"
            if not isinstance(one, str):
                found[place] = one
            made.append(_change(arrays, place, one))
        if not places:
            made = [Change.refused("dtype", pattern, arrays.nothing_matches(pattern))]
        changes += [change.for_request(text) for change in made]
    caster = _Caster(arrays)
    for one in found.values():
        caster.change(one)
    return ProgramEdit(changes=tuple(changes), replacements=caster.edits.replacements())


@dataclass(frozen=True, slots=True, kw_only=True)
class Retyped:
    """An argument that is stored as another type.

    Attributes:
        place: Its position.
        old: Its element type.
        new: The type that is stored.
        result: Position of the result that it becomes; None for none.
    """

    place: int
    old: str
    new: str
    result: int | None


def _retyped(
    arrays: EntryArrays, place: int, element_type: str, follower: int | None
) -> Retyped | str:
    """Return an argument with its new type, or why it cannot have it."""
    value = arrays.arguments[place]
    shape = value.global_shape
    if value.value.number is None or index_of(value):
        return "the arguments are passed as one tuple"
    if shape is None:
        return "its shape is not known"
    old = shape.element_type
    if old == element_type:
        return f"it is {element_type} already"
    if _family(old) != _family(element_type):
        return f"{old} is not stored as {element_type}"
    if follower is not None and not _can_convert(arrays.module):
        return "the only result is not in a tuple"
    return Retyped(place=place, old=old, new=element_type, result=follower)


def _change(arrays: EntryArrays, place: int, one: Retyped | str) -> Change:
    name = str(arrays.arguments[place].value.name)
    if isinstance(one, str):
        return Change.refused("dtype", name, one)
    effect = f"{one.old} is stored as {one.new}"
    if one.result is not None:
        effect += f"; so is {result_name(arrays.results[one.result])}, which it becomes"
    return Change(kind="dtype", target=name, effect=effect)


def _can_convert(module: HloModule) -> bool:
    """Return whether the result can be converted: a tuple, or not given through one."""
    root = module.entry.root
    return root is not None and (root.opcode == "tuple" or root.attribute("sharding") is None)


def _request(text: str) -> tuple[str, str]:
    pattern, _, name = text.rpartition("=")
    element_type = xla_name(name.strip()) or name.strip()
    if not pattern or element_type not in PRIMITIVE_TYPES or _family(element_type) == "other":
        raise UsageError(f"not a type of arguments: {text!r}; write it like \"opt['mu']=bf16\"")
    return pattern, element_type


def _family(element_type: str) -> str:
    """Return ``float``, ``integer`` or ``other``: types convert within a family."""
    if element_type.startswith(("f", "bf")):
        return "float"
    if element_type[0] in "su" and element_type[1:].isdecimal():
        return "integer"
    return "other"


class _Caster:
    """Edits of the element types of one module."""

    def __init__(self, arrays: EntryArrays) -> None:
        self.module = arrays.module
        self.arrays = arrays
        self.edits = TextEdits(arrays.module)
        self.parameters = {one.parameter_number: one for one in arrays.module.entry.parameters}

    def change(self, one: Retyped) -> None:
        """Edit the type of an argument and of the result that it becomes."""
        parameter = self.parameters[self.arrays.arguments[one.place].value.number]
        stays_root = parameter.is_root and one.result is None
        self._store_argument(parameter, one.place, one.new, "ROOT " * stays_root)
        if one.result is not None:
            self._store_result(one.result, one.old, one.new)

    def _store_argument(self, parameter: HloInstruction, place: int, new: str, mark: str) -> None:
        """Give a parameter a new name and type; a conversion has its old ones."""
        edits, shape = self.edits, parameter.shape_text
        stored = edits.new_name(parameter)
        edits.set_name(parameter, stored)
        edits.set_type(parameter, 0, new)
        edits.set_entry_type(place, new, is_result=False)
        write = edits.reference
        edits.insert_after(
            parameter, f"{mark}{write(parameter.name)} = {shape} convert({write(stored)})"
        )
        if mark:
            edits.remove_root(parameter)

    def _store_result(self, place: int, old: str, new: str) -> None:
        root = self.module.entry.root
        if root is None:
            return
        edits = self.edits
        edits.set_entry_type(place, new, is_result=True)
        if root.opcode != "tuple":
            self._store_single(root, old, new)
            return
        made = root.producer(place)
        if made is not None and is_result_call(made[0]) and not made[1]:
            user, position = made[0], 0
            for other in (user, *self._copies(user)):
                edits.set_type(other, 0, new)
        else:
            user, position = root, place
        operand, write = edits.operand(user, position), edits.reference
        name = edits.new_name(user)
        shape = _typed(element_text(root, place), old, new)
        edits.insert_before(user, f"{write(name)} = {shape} convert({write(operand)})")
        edits.set_operand(user, position, name)
        edits.set_type(root, place, new)

    def _store_single(self, root: HloInstruction, old: str, new: str) -> None:
        edits = self.edits
        name, write = edits.new_name(root), edits.reference
        edits.remove_root(root)
        last = self.module.instruction(self.module.entry.rows[-1])
        shape = _typed(root.shape_text, old, new)
        edits.insert_after(last, f"ROOT {write(name)} = {shape} convert({write(root.name)})")

    def _copies(self, call: HloInstruction) -> list[HloInstruction]:
        """Return the reshapes of a result that jax leaves in the text; nothing uses them."""
        users = self.module.links.users_of(call.row)
        found = [self.module.instruction(row) for row, _ in users]
        return [one for one in found if one.opcode == "reshape"]


def _typed(shape: str, old: str, new: str) -> str:
    """Return the text of an array's shape with another element type."""
    return shape.replace(f"{old}[", f"{new}[", 1)
