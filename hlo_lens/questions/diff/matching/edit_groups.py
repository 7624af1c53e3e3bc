"""Groups of equal edits with their count, such as sixty layers that changed the same way.

Edits are equal if they have the same kind, opcode, role, operation path and changes, apart from
numbers in names and paths. For changed sizes, only the dimensions that changed count. Instructions
of a fusion or reducer that was itself added or removed are counted with its caller.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import Produced, opcode_traits
from hlo_lens.questions.diff.matching.edits import Added, Change, Edit, Moved, Removed
from hlo_lens.questions.diff.matching.graph import ProgramGraph, operation_path

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.questions.diff.matching.computation_roles import Role, Roles
    from hlo_lens.shapes.shape import Shape

_NUMBER = re.compile(r"\d+")
_NAMED = re.compile(r"(?:operand|name|control|called|to_apply|calls|condition|body|metadata)")
_EXAMPLES = 3
_CALL_DEPTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EditGroup:
    """Equal edits; fields without description are columns of `ProgramDiff`.

    Attributes:
        kind: ``added``, ``removed``, ``changed`` or ``moved``.
        count: Number of instructions.
        opcode: Their opcode; that of the base if it changed.
        changes: Their changes, in words; ``*`` for numbers that differ among them.
        result_bytes: In the head if they are there; None if any is unknown.
        base_names: Names of the first few in the base.
        head_names: Names of the first few in the head.
    """

    kind: str
    count: int
    inside: int
    opcode: str
    shape: str | None
    where: str
    changes: tuple[str, ...]
    op_name: str | None
    source: str | None
    result_bytes: int | None
    base_names: tuple[str, ...]
    head_names: tuple[str, ...]


@dataclass(slots=True)
class PlacedEdit:
    """An edit with its nodes; -1 for none.

    Attributes:
        edit: The edit.
        mine: Node of the base; -1 for none, and for a view.
        yours: Node of the head.
        owners: Its computations in base and head; -1 for none.
    """

    edit: Edit
    mine: int
    yours: int
    owners: tuple[int, int]


@dataclass(slots=True)
class _Group:
    """A group while edits are collected."""

    first: PlacedEdit
    role: tuple[Role | None, Role | None]
    paths: set[str]
    changes: tuple[Change, ...]
    texts: set[tuple[str, ...]] = field(default_factory=set)
    wheres: set[str] = field(default_factory=set)
    count: int = 0
    inside: int = 0
    result_bytes: int | None = 0
    base_names: list[str] = field(default_factory=list)
    head_names: list[str] = field(default_factory=list)


class EditGrouping:
    """Collector of edits into groups."""

    def __init__(self, base: ProgramGraph, head: ProgramGraph, roles: tuple[Roles, Roles]) -> None:
        self._graphs = (base, head)
        self._roles = roles
        self._groups: dict[Hashable, _Group] = {}
        self._of_node: dict[tuple[int, int], _Group] = {}
        self._bytes: dict[tuple[Produced, str], int | None] = {}
        self._general = cache(general_text)
        self._general_path = cache(partial(_NUMBER.sub, "*"))

    def groups(
        self, edits: Iterable[PlacedEdit], unmatched: Sequence[set[int]]
    ) -> tuple[EditGroup, ...]:
        """Return all edits in groups: by result bytes, then count, largest first, then name."""
        inner: list[tuple[int, int]] = []
        for placed in edits:
            side = self._side(placed.edit)
            if side is not None:
                caller = self._added_caller(placed.owners[side], side, unmatched[side])
                if caller >= 0:
                    inner.append((side, caller))
                    continue
            group = self._add(placed)
            for number, node in enumerate((placed.mine, placed.yours)):
                if node >= 0:
                    self._of_node[number, node] = group
        for key in inner:
            self._of_node[key].inside += 1
        return tuple(sorted(map(self._finished, self._groups.values()), key=_order))

    def _side(self, edit: Edit) -> int | None:
        """Return the only side that has an instruction: 0 base, 1 head, None for both."""
        if isinstance(edit, Removed):
            return 0
        return 1 if isinstance(edit, Added) else None

    def _added_caller(self, computation: int, side: int, unmatched: set[int]) -> int:
        """Return the caller that was added or removed with a whole computation, or -1."""
        role = self._roles[side].of(computation)
        found = -1
        for _ in range(_CALL_DEPTH):
            if not role.is_embedded or role.caller not in unmatched:
                break
            found = role.caller
            role = self._roles[side].of(self._graphs[side].owner[found])
        return found

    def _add(self, placed: PlacedEdit) -> _Group:
        edit = placed.edit
        kind, base, head, changes = parts_of(edit)
        instruction = head or base
        assert instruction is not None
        roles = tuple(
            None if owner < 0 else self._roles[side].of(owner)
            for side, owner in enumerate(placed.owners)
        )
        path = operation_path(instruction.computation.module.columns, instruction.row)
        general = tuple(map(self._general, changes))
        opcode = (base or instruction).opcode
        shape = instruction.shape_text if kind in ("added", "removed") else ""
        wheres = tuple("" if role is None else role.general for role in roles)
        key = (kind, opcode, wheres, self._general_path(path), general, shape)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(placed, (roles[0], roles[1]), set(), changes)
        group.count += 1
        group.paths.add(path)
        group.texts.add(tuple(map(str, changes)))
        group.wheres.add(_where(kind, roles))
        size = self._size(instruction, roles[1] or roles[0])
        known = group.result_bytes
        group.result_bytes = None if known is None or size is None else known + size
        for names, one in ((group.base_names, base), (group.head_names, head)):
            if one is not None and len(names) < _EXAMPLES:
                names.append(one.name)
        return group

    def _size(self, instruction: HloInstruction, role: Role | None) -> int | None:
        """Return the bytes that an instruction produces; 0 for views and inside fusions."""
        traits = opcode_traits(instruction.opcode)
        is_view = traits.is_end or (traits.is_view and not traits.is_start)
        if is_view or (role is not None and role.is_embedded):
            return 0
        key = traits.result_part, instruction.shape_text
        if key not in self._bytes:
            self._bytes[key] = _produced_bytes(instruction.shape, traits.result_part)
        return self._bytes[key]

    def _finished(self, group: _Group) -> EditGroup:
        kind, base, head, changes = parts_of(group.first.edit)
        instruction = head or base
        assert instruction is not None
        path = min(group.paths)
        if len(group.paths) > 1:
            path = _NUMBER.sub("*", path)
        exact = len(group.texts) == 1
        place = instruction.source_location
        shape = instruction.shape
        general = _where(kind, group.role, general=True)
        return EditGroup(
            kind=kind,
            count=group.count,
            inside=group.inside,
            opcode=(base or instruction).opcode,
            shape=None if shape is None else shape.to_text(layout=False),
            where=next(iter(group.wheres)) if len(group.wheres) == 1 else general,
            changes=tuple(str(c) if exact else general_text(c) for c in changes),
            op_name=path.replace("\\'", "'").replace('\\"', '"') or None,
            source=None if place is None else str(place),
            result_bytes=group.result_bytes,
            base_names=tuple(group.base_names),
            head_names=tuple(group.head_names),
        )


def _order(group: EditGroup) -> tuple[object, ...]:
    size, is_idle = group.result_bytes or 0, opcode_traits(group.opcode).is_idle
    return -size, is_idle, -group.count - group.inside, group.kind, group.opcode, group.where


def parts_of(
    edit: Edit,
) -> tuple[str, HloInstruction | None, HloInstruction | None, tuple[Change, ...]]:
    """Return the kind of an edit, its instructions in base and head, and its changes."""
    if isinstance(edit, Added):
        return "added", None, edit.head, ()
    if isinstance(edit, Removed):
        return "removed", edit.base, None, ()
    if isinstance(edit, Moved):
        return "moved", edit.base, edit.head, edit.changes
    return "changed", edit.base, edit.head, edit.changes


def _where(kind: str, roles: tuple[Role | None, ...], *, general: bool = False) -> str:
    texts = ["" if role is None else role.general if general else role.text for role in roles]
    if kind == "moved":
        return f"{texts[0]} -> {texts[1]}"
    return texts[1] or texts[0]


def _produced_bytes(shape: Shape | None, produced: Produced) -> int | None:
    """Return the bytes of the part of a result that is new."""
    if shape is None:
        return None
    if produced is not Produced.ALL and len(shape.tuple_shapes) > 1:
        shape = shape.tuple_shapes[produced.value - 1]
    return shape.size_bytes


def general_text(change: Change) -> str:
    """Return a change without the numbers that differ from layer to layer.

    >>> from hlo_lens.questions.diff.matching.edits import Change
    >>> general_text(Change(what="shape", base="[2,64]", head="[4,64]"))
    'dimension 0: 2 -> 4'
    >>> general_text(Change(what="operand 1", base="add add.7", head="copy copy.9"))
    'operand 1 add add.* -> copy copy.*'
    """
    if change.what == "shape" and (change.base or "").startswith("["):
        before = (change.base or "").strip("[]").split(",")
        after = (change.head or "").strip("[]").split(",")
        if len(before) == len(after):
            return ", ".join(
                f"dimension {place}: {a} -> {b}"
                for place, (a, b) in enumerate(zip(before, after, strict=True))
                if a != b
            )
    if change.what.startswith("backend_config") or _NAMED.match(change.what):
        left = _NUMBER.sub("*", change.base or "(none)")
        right = _NUMBER.sub("*", change.head or "(none)")
        return f"{change.what} {left} -> {right}"
    return str(change)
