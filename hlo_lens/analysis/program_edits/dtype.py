"""Element types of stored arguments, and of the results that they become.

The parameter gets the new type and is converted at once; the result is converted last. So the
program computes as before, and only what is stored between two runs changes, as if the program
called ``astype`` on the argument first and on the result last.

The result that an argument becomes has its memory, or would have if all arguments were donated:
JAX pairs them in order (`donation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.program_edits.arguments import (
    EntryArrays,
    element_text,
    index_of,
    is_result_call,
    result_name,
)
from hlo_lens.analysis.program_edits.donation import becomes
from hlo_lens.analysis.program_edits.edit import Change, ProgramEdit
from hlo_lens.analysis.program_edits.text_edits import TextEdits
from hlo_lens.model.shapes.primitive_type import PRIMITIVE_TYPES, xla_name
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.module import HloModule


def edit_dtype(module: HloModule, requests: Iterable[str]) -> ProgramEdit:
    """Return the text's change for element types of arguments.

    Args:
        module: The program before optimizations.
        requests: ``PATTERN=bf16``: arguments by pattern, and a type by XLA's or numpy's name.

    Raises:
        UsageError: If a request is malformed, or its type is not known.
    """
    caster = _Caster(module)
    changes: list[Change] = []
    for text, (pattern, element_type) in [(text, _request(text)) for text in requests]:
        places = caster.arrays.arguments_of(pattern)
        made = [caster.change(place, element_type) for place in places]
        if not places:
            made = [Change.refused("dtype", pattern, caster.arrays.nothing_matches(pattern))]
        changes += [change.for_request(text) for change in made]
    return ProgramEdit(changes=tuple(changes), replacements=caster.edits.replacements())


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

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.arrays = EntryArrays.of(module)
        self.edits = TextEdits(module)
        self.becomes = becomes(self.arrays)
        self.parameters = {one.parameter_number: one for one in module.entry.parameters}
        self.done: set[int] = set()

    def change(self, place: int, element_type: str) -> Change:
        value = self.arrays.arguments[place]
        name = str(value.value.name)
        parameter = self.parameters.get(value.value.number)
        shape = value.global_shape
        if parameter is None or index_of(value):
            return Change.refused("dtype", name, "the arguments are passed as one tuple")
        if shape is None:
            return Change.refused("dtype", name, "its shape is not known")
        old = shape.element_type
        if old == element_type or place in self.done:
            return Change.refused("dtype", name, f"it is {element_type} already")
        if _family(old) != _family(element_type):
            return Change.refused("dtype", name, f"{old} is not stored as {element_type}")
        follower = self.becomes.get(place)
        if follower is not None and not self._can_convert():
            return Change.refused("dtype", name, "the only result is not in a tuple")
        self.done.add(place)
        stays_root = parameter.is_root and follower is None
        self._store_argument(parameter, place, element_type, "ROOT " * stays_root)
        effect = f"{old} is stored as {element_type}"
        if follower is not None:
            self._store_result(follower, old, element_type)
            effect += f"; so is {result_name(self.arrays.results[follower])}, which it becomes"
        return Change(kind="dtype", target=name, effect=effect)

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

    def _can_convert(self) -> bool:
        """Return whether the result can be converted: a tuple, or not given through one."""
        root = self.module.entry.root
        return root is not None and (root.opcode == "tuple" or root.attribute("sharding") is None)

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
