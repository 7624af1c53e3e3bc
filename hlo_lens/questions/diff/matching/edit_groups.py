"""Groups of equal edits: those of all layers as one row, with the role of their computation."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated

from hlo_lens.hlo.opcodes import Produced, opcode_traits
from hlo_lens.questions.diff.matching.edits import Added, Removed, in_base, in_head
from hlo_lens.questions.diff.matching.graphs import operation_path
from hlo_lens.render.result import Unit, sum_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence, Set

    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.questions.diff.matching.edits import Change, Edit
    from hlo_lens.questions.diff.matching.graphs import ProgramGraph

_DEEPEST = 64
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Role:
    """Role of a computation.

    Attributes:
        text: In words: ``entry``, ``body of while.3``, ``fusion in body of while.3``.
        general: The same without numbers and names of fusions, for grouping.
        loops: Names of the loops around it, outermost first.
        is_embedded: Whether it runs as part of its caller: a fusion, a reducer, a comparator.
        caller: The first node that calls it; -1 for none.
    """

    text: str
    general: str
    loops: tuple[str, ...] = ()
    is_embedded: bool = False
    caller: int = -1


class Roles:
    """Roles of the computations of one program, found when first asked for."""

    def __init__(self, graph: ProgramGraph) -> None:
        self.graph = graph
        self._roles: dict[int, Role] = {}
        self._callers: dict[int, tuple[int, str, int]] = {}
        for node in sorted(graph.callees):
            for place, (role, computation) in enumerate(graph.callees[node]):
                self._callers.setdefault(computation, (node, role, place))

    def of(self, computation: int) -> Role:
        """Return the role of a computation."""
        path: list[int] = []
        while computation not in self._roles:
            caller = self._callers.get(computation)
            is_entry = computation == self.graph.entry
            if caller is None or is_entry or len(path) > _DEEPEST:
                name = "entry" if is_entry else "not called"
                self._roles[computation] = Role(name, name)
                break
            if computation in path:
                self._roles[computation] = Role("calls itself", "calls itself")
                break
            path.append(computation)
            computation = self.graph.owner[caller[0]]
        for inner in reversed(path):
            if inner not in self._roles:
                self._roles[inner] = self._inside(*self._callers[inner])
            computation = inner
        return self._roles[computation]

    def _inside(self, node: int, role: str, place: int) -> Role:
        graph = self.graph
        outer, opcode = self._roles[graph.owner[node]], graph.opcode(node)
        name = graph.instruction(node).name
        traits, loops = opcode_traits(opcode), outer.loops
        if opcode == "while":
            text = f"{role} of {name}" + (f" in {outer.text}" if loops else "")
            general = _NUMBER.sub("*", text)
            loops = (*loops, name)
        elif opcode == "conditional":
            text = f"branch {place} of {name} in {outer.text}"
            general = f"branch of conditional in {outer.general}"
        else:
            what = opcode if traits.is_runner else f"{role} of {opcode}"
            text = f"{what} {name} in {outer.text}"
            general = f"{what} in {outer.general}"
        return Role(text, general, loops, is_embedded=not traits.is_control_flow, caller=node)

    def caller_in(self, computation: int, nodes: Set[int]) -> int:
        """Return the outermost of some nodes that came or went with a computation, or -1."""
        caller = -1
        for _ in range(_DEEPEST):
            role = self.of(computation)
            if not role.is_embedded or role.caller not in nodes:
                break
            caller, computation = role.caller, self.graph.owner[role.caller]
        return caller


_NAMED = re.compile(r"(?:operand|name|control|called|to_apply|calls|condition|body|metadata)")
_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EditGroup:
    """Equal edits.

    Attributes:
        changes: Their changes, in words; ``*`` for numbers that differ among them.
    """

    edit: Annotated[str, "added, removed, changed or moved"]
    instructions: Annotated[int, Unit.COUNT, "how many instructions, of this kind alone"]
    inside: Annotated[int, Unit.COUNT, "further ones in fusions that came or went with them"]
    opcode: Annotated[str, "their opcode"]
    shape: Annotated[str | None, "shape of the first, without layout"]
    what: Annotated[str | None, "what changed; the shape of what came or went"]
    where: Annotated[str, "entry, loop, branch or fusion that holds them"]
    op_name: Annotated[str | None, "operation path, with * for numbers that differ"]
    source: Annotated[str | None, "innermost place in the user's program"]
    result_bytes: Annotated[
        int | None, Unit.BYTES, "what they produce in memory, logical, once per run"
    ]
    base: Annotated[tuple[str, ...], "names in the base, the first few"]
    head: Annotated[tuple[str, ...], "names in the head, the first few"]
    changes: tuple[str, ...]


def edit_groups(
    graphs: Sequence[ProgramGraph], edits: Iterable[Edit], unmatched: Sequence[Set[int]]
) -> tuple[EditGroup, ...]:
    """Return edits in groups: by result bytes, then count, largest first, then name.

    Args:
        graphs: Graphs of base and head.
        edits: The edits.
        unmatched: Nodes of base and head without partner.
    """
    roles = Roles(graphs[0]), Roles(graphs[1])
    general, general_path = cache(general_text), cache(partial(_NUMBER.sub, "*"))
    members: dict[Hashable, list[Edit]] = {}
    key_of: dict[tuple[int, int], Hashable] = {}
    inner: list[tuple[int, int]] = []
    for edit in edits:
        first = in_base(edit)
        is_one_sided = isinstance(edit, Added | Removed)
        if is_one_sided:
            side = int(edit.base is None)
            caller = roles[side].caller_in(first.computation.place, unmatched[side])
            if caller >= 0:
                inner.append((side, graphs[side].rows[caller]))
                continue
        path = general_path(_path(in_head(edit)))
        changes = tuple(map(general, edit.changes))
        shape = first.shape_text if is_one_sided else ""
        wheres = tuple("" if role is None else role.general for role in _roles(edit, roles))
        key = edit.kind, first.opcode, wheres, path, changes, shape
        members.setdefault(key, []).append(edit)
        for side, instruction in enumerate((edit.base, edit.head)):
            if instruction is not None:
                key_of[side, instruction.row] = key
    inside = Counter(key_of[place] for place in inner)
    produced = _produced_bytes()
    groups = [_group(listed, inside[key], roles, produced) for key, listed in members.items()]
    return tuple(sorted(groups, key=_order))


def _group(
    edits: Sequence[Edit],
    inside: int,
    roles: tuple[Roles, Roles],
    produced: Callable[[HloInstruction], int | None],
) -> EditGroup:
    """Return the group of some edits with equal general texts."""
    first = edits[0]
    instruction = in_head(first)
    is_moved = first.kind == "moved"
    sizes: list[int | None] = []
    texts: set[tuple[str, ...]] = set()
    wheres: set[str] = set()
    generals: list[str] = []
    for edit in edits:
        of_edit = _roles(edit, roles)
        inner = of_edit[1] or of_edit[0]
        is_embedded = inner is not None and inner.is_embedded
        sizes.append(0 if is_embedded else produced(in_head(edit)))
        texts.add(tuple(map(str, edit.changes)))
        for listed, name in ((wheres.add, "text"), (generals.append, "general")):
            sides = ["" if role is None else getattr(role, name) for role in of_edit]
            listed(f"{sides[0]} -> {sides[1]}" if is_moved else sides[1] or sides[0])
    paths = {_path(in_head(edit)) for edit in edits}
    path = min(paths) if len(paths) == 1 else _NUMBER.sub("*", min(paths))
    words = str if len(texts) == 1 else general_text
    changes = tuple(map(words, first.changes))
    shape = None if instruction.shape is None else instruction.shape.to_text(layout=False)
    source = instruction.source_location
    names = [
        tuple(one.name for edit in edits if (one := getattr(edit, side)) is not None)[:_EXAMPLES]
        for side in ("base", "head")
    ]
    return EditGroup(
        edit=first.kind,
        instructions=len(edits),
        inside=inside,
        opcode=in_base(first).opcode,
        shape=shape,
        what="; ".join(changes) or shape,
        where=wheres.pop() if len(wheres) == 1 else generals[0],
        op_name=path.replace("\\'", "'").replace('\\"', '"') or None,
        source=None if source is None else str(source),
        result_bytes=sum_of(sizes),
        base=names[0],
        head=names[1],
        changes=changes,
    )


def _roles(edit: Edit, roles: tuple[Roles, Roles]) -> list[Role | None]:
    """Return the roles of the computations of an edit in base and head; None for none."""
    return [
        None if instruction is None else side.of(instruction.computation.place)
        for side, instruction in zip(roles, (edit.base, edit.head), strict=True)
    ]


def _path(instruction: HloInstruction) -> str:
    return operation_path(instruction.computation.module.columns, instruction.row)


def _produced_bytes() -> Callable[[HloInstruction], int | None]:
    """Return a function of the bytes of the new part of a result, found once for each shape."""
    sizes: dict[tuple[Produced, str], int | None] = {}

    def produced(instruction: HloInstruction) -> int | None:
        traits = opcode_traits(instruction.opcode)
        if traits.is_end or (traits.is_view and not traits.is_start):
            return 0
        key = traits.result_part, instruction.shape_text
        if key not in sizes:
            shape = instruction.shape
            if shape is not None and traits.result_part is not Produced.ALL:
                parts = shape.tuple_shapes
                shape = parts[traits.result_part.value - 1] if len(parts) > 1 else shape
            sizes[key] = None if shape is None else shape.size_bytes
        return sizes[key]

    return produced


def _order(group: EditGroup) -> tuple[object, ...]:
    size, is_idle = group.result_bytes or 0, opcode_traits(group.opcode).is_idle
    return -size, is_idle, -group.instructions - group.inside, group.edit, group.opcode, group.where


def general_text(change: Change) -> str:
    """Return a change without the numbers that differ from layer to layer.

    >>> from hlo_lens.questions.diff.matching.edits import Change
    >>> general_text(Change("shape", "[2,64]", "[4,64]"))
    'dimension 0: 2 -> 4'
    >>> general_text(Change("operand 1", "add add.7", "copy copy.9"))
    'operand 1 add add.* -> copy copy.*'
    """
    base, head = change.base or "", change.head or ""
    if change.what == "shape" and base.startswith("["):
        before, after = base.strip("[]").split(","), head.strip("[]").split(",")
        if len(before) == len(after):
            pairs = enumerate(zip(before, after, strict=True))
            return ", ".join(f"dimension {k}: {a} -> {b}" for k, (a, b) in pairs if a != b)
    if change.what.startswith("backend_config") or _NAMED.match(change.what):
        texts = (_NUMBER.sub("*", side or "(none)") for side in (base, head))
        return f"{change.what} {' -> '.join(texts)}"
    return str(change)
