"""Changes between two programs, instruction by instruction; equal edits are grouped.

One pipeline: labels and edges of two graphs (`labels`, `graphs`), hashes of them (`fingerprints`),
pairs (`matching`), changes and noise of partners (`comparison`), edits as types (`edits`), and here
their sums and groups. Every instruction of both texts is counted once: the base has ``unchanged +
changed + moved + removed`` instructions, the head the same with ``added``. Instructions that one
text prints and the other leaves out for the same program are among these, but no edit
(``left_out_base`` of the removed ones, ``left_out_head`` of the added ones).

*Moved* instructions are in another computation: in or out of a loop, a branch, a fusion. Another
position in the schedule of the same computation is noise, counted as `Noise.INSTRUCTION_ORDER`: it
follows from any change upstream, and its cost shows in memory and overlap.

Limits: attributes of get-tuple-elements are not compared. Literals that the dump prints as dots are
taken to be equal, and counted (`ProgramDiff.unseen_literals`). Repeated equal subgraphs are paired
in text order.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import compress, repeat
from operator import ge
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, TypeAlias

from hlo_lens.hlo.opcodes import Produced, opcode_traits
from hlo_lens.questions.matching.comparison import (
    Comparison,
    NoiseCount,
    match_views,
    name_kind,
    out_of_order,
)
from hlo_lens.questions.matching.edits import (
    Added,
    Change,
    Changed,
    Moved,
    Noise,
    Removed,
    in_base,
    in_head,
    module_changes,
)
from hlo_lens.questions.matching.graphs import graph_pair, operation_path
from hlo_lens.questions.matching.matching import matching
from hlo_lens.render.result import Records, Unit, sum_of
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.questions.matching.edits import Edit
    from hlo_lens.questions.matching.graphs import ProgramGraph
    from hlo_lens.questions.matching.matching import Matching


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


@dataclass(frozen=True, kw_only=True)
class ProgramDiff(Records[EditGroup]):
    """Changes between two programs. One row per group of equal edits."""

    KIND: ClassVar[str] = "program-diff"
    groups: tuple[EditGroup, ...] = field(repr=False)
    unchanged: int  # noise aside
    changed: int
    added: int
    removed: int
    moved: int  # into another computation
    left_out_base: int
    """Number of removed instructions that only the print style of the base shows."""
    left_out_head: int
    """Number of added ones that only that of the head shows."""
    edits: tuple[Edit, ...] = field(repr=False)
    """All edits in text order of the base, then added ones in that of the head."""
    module_changes: tuple[Change, ...]
    """Changes of the module's header: donations, partitions, other fields."""
    ignored: Mapping[Noise, int]
    """Number of instructions with each kind of noise."""
    matched_rows: Mapping[int, int] = field(repr=False)
    """Rows of instructions of the base to those of the head."""
    matched_computations: Mapping[str, str] = field(repr=False)
    """Computations of the base to those of the head, by name."""
    unseen_literals: int
    """Number of constants whose value at least one text leaves out."""

    @property
    def identical(self) -> bool:
        """Whether there is no difference except noise."""
        return not self.edits and not self.module_changes


def program_diff(base: HloModule, head: HloModule, *, heed: Collection[Noise] = ()) -> ProgramDiff:
    """Return the changes between two programs.

    ``program_diff(b, a)`` is the mirror image: added for removed. Some kinds of noise may count as
    changes.
    """
    mine, yours = graph_pair(base, head)
    matched = matching(mine, yours)
    found = _Edits(matched)
    kinds = Counter(edit.kind for edit in found.edits)
    noise = {kind: found.noise[kind] for kind in Noise if found.noise[kind]}
    return ProgramDiff(
        groups=_edit_groups((mine, yours), found.edits, found.unmatched),
        unchanged=found.unchanged,
        changed=kinds["changed"],
        added=kinds["added"] + found.left_out[1],
        removed=kinds["removed"] + found.left_out[0],
        moved=kinds["moved"],
        left_out_base=found.left_out[0],
        left_out_head=found.left_out[1],
        edits=tuple(found.edits),
        module_changes=(
            *module_changes(mine, yours, matched.base.partner),
            *(
                Change(kind.value, None, plural(noise[kind], "time"))
                for kind in noise
                if kind in heed
            ),
        ),
        ignored={kind: number for kind, number in noise.items() if kind not in heed},
        matched_rows=found.pairs,
        matched_computations={
            base.computation_names[computation]: head.computation_names[partner]
            for computation, partner in enumerate(matched.base.computation)
            if partner >= 0
        },
        unseen_literals=_unseen_literals(mine, yours, matched.base.partner),
    )


def _unseen_literals(base: ProgramGraph, head: ProgramGraph, head_of: Sequence[int]) -> int:
    """Return the number of matched constants whose value a text leaves out."""
    if base.labels.counted.literals:
        return 0
    constants = {k for k, parts in enumerate(base.labels.parts) if parts.opcode == "constant"}
    return sum(
        "{...}" in (base.instruction(mine).operand_text, head.instruction(yours).operand_text)
        for mine, yours in enumerate(head_of)
        if yours >= 0 and base.label[mine] in constants
    )


class _Edits:
    """Edits and noise between two programs."""

    def __init__(self, matched: Matching) -> None:
        self._matched = matched
        self._graphs = matched.base.graph, matched.head.graph
        self._modules = self._graphs[0].module, self._graphs[1].module
        self._noise = NoiseCount(matched)
        self.noise = self._noise.counts
        self.left_out = [0, 0]
        self.edits: list[Edit] = []
        self.unchanged = 0
        self.pairs: dict[int, int] = {}  # rows of base and head, views included
        self.unmatched = [
            {node for node, partner in enumerate(side.partner) if partner < 0}
            for side in matched.sides
        ]
        self._compare_nodes()
        self._compare_views()
        for side, nodes in enumerate(self.unmatched):
            self._add_alone(side, map(self._graphs[side].rows.__getitem__, sorted(nodes)))
        self.noise[Noise.PRINTING] += sum(self.left_out)
        base, head = self._modules
        partners = [(c, d) for c, d in enumerate(matched.base.computation) if d >= 0]
        names = [(base.computation_names[c], head.computation_names[d]) for c, d in partners]
        for before, after in ((base.name, head.name), *names):
            if before != after:
                self.noise[name_kind(before, after)] += 1
        self.noise[Noise.COMPUTATION_ORDER] += len(out_of_order([d for _, d in partners]))

    # ---- partners ------------------------------------------------------------------------------

    def _compare_nodes(self) -> None:
        """Compare all partners: most together, those that may differ one by one."""
        base, head = self._graphs
        head_of = self._matched.base.partner
        mine = list(compress(range(len(head_of)), map(ge, head_of, repeat(0))))
        yours = list(map(head_of.__getitem__, mine))
        rows = list(map(base.rows.__getitem__, mine)), list(map(head.rows.__getitem__, yours))
        self.pairs.update(zip(*rows, strict=True))
        comparison = Comparison(self._matched)
        moved = self._matched.moved
        for computation, partner in enumerate(self._matched.base.computation):
            if partner >= 0 and computation not in self._matched.whole:
                places = [head_of[node] for node in base.nodes[computation]]
                inside = [place for place in places if place in head.nodes[partner]]
                self.noise[Noise.INSTRUCTION_ORDER] += len(out_of_order(inside))
        self._noise.count(rows, (mine, yours))
        for node in sorted(comparison.suspects() | moved):
            other = head_of[node]
            changes = [*comparison.changes(node, other)]
            if changes or node in moved:
                a, b = base.instruction(node), head.instruction(other)
                kind = Moved if node in moved else Changed
                self.edits.append(kind(base=a, head=b, changes=tuple(changes)))
        self.unchanged += len(mine) - len(self.edits)

    def _compare_views(self) -> None:
        """Count get-tuple-elements, of which attributes are not compared.

        Those that only one text prints are left out.
        """
        pairs, *alone = match_views(self._matched)
        if pairs:
            base_rows, head_rows = zip(*pairs, strict=True)
            self._noise.count((base_rows, head_rows), ((), ()))
        self.pairs.update(pairs)
        self.unchanged += len(pairs)
        for side, views in enumerate(alone):
            other = self._graphs[1 - side]
            # a compact text prints elements as %tuple#1, and only roots as instructions
            is_compact = bool(other.indices) and all(
                other.module.instruction(view.row).is_root
                and not other.module.links.users_of(view.row)
                for view in other.views
            )
            if is_compact:
                self.left_out[side] += len(views)
            else:
                self._add_alone(side, [view.row for view in views])

    # ---- no partner ----------------------------------------------------------------------------

    def _add_alone(self, side: int, rows: Iterable[int]) -> None:
        """Add the edits of added or removed rows."""
        for row in rows:
            instruction = self._modules[side].instruction(row)
            self.edits.append(Added(head=instruction) if side else Removed(base=instruction))


# ---- groups of equal edits ---------------------------------------------------------------------

_DEEPEST = 64
_EXAMPLES = 3
_NUMBER = re.compile(r"\d+")
_NAMED = re.compile(r"(?:operand|name|control|called|to_apply|calls|condition|body|metadata)")
"""Properties whose values have names, with numbers that differ from layer to layer."""


class _Role(NamedTuple):
    """Role of a computation, in words: ``entry``, ``fusion in body of while.3``."""

    text: str
    general: str  # without numbers and names of fusions, for grouping
    is_in_loop: bool = False
    is_embedded: bool = False  # runs as part of its caller: a fusion, a reducer, a comparator
    caller: int = -1  # the first node that calls it


_Member: TypeAlias = "tuple[Edit, tuple[_Role, ...]]"
"""An edit with the role of its computation; both of a moved instruction."""


class _Roles:
    """Roles of the computations of one program, found when first asked for."""

    def __init__(self, graph: ProgramGraph) -> None:
        self._graph = graph
        self._roles: dict[int, _Role] = {}
        self._callers: dict[int, tuple[int, str, int]] = {}
        for node in graph.callers:
            for place, (role, computation) in enumerate(graph.callees[node]):
                self._callers.setdefault(computation, (node, role, place))

    def of(self, computation: int, depth: int = 0) -> _Role:
        """Return the role of a computation."""
        if computation not in self._roles:
            caller = self._callers.get(computation)
            if computation == self._graph.entry:
                role = _Role("entry", "entry")
            elif caller is None or depth > _DEEPEST:
                role = _Role("not called", "not called")
            else:  # its own callers may ask for it again
                self._roles[computation] = _Role("calls itself", "calls itself")
                role = self._inside(self.of(self._graph.owner[caller[0]], depth + 1), *caller)
            self._roles[computation] = role
        return self._roles[computation]

    def _inside(self, outer: _Role, node: int, role: str, place: int) -> _Role:
        opcode, name = self._graph.opcode(node), self._graph.instruction(node).name
        traits, is_in_loop = opcode_traits(opcode), outer.is_in_loop
        if opcode == "while":
            text = f"{role} of {name}" + (f" in {outer.text}" if is_in_loop else "")
            general, is_in_loop = _NUMBER.sub("*", text), True
        elif opcode == "conditional":
            text = f"branch {place} of {name} in {outer.text}"
            general = f"branch of conditional in {outer.general}"
        else:
            what = opcode if traits.is_runner else f"{role} of {opcode}"
            text = f"{what} {name} in {outer.text}"
            general = f"{what} in {outer.general}"
        return _Role(text, general, is_in_loop, not traits.is_control_flow, node)

    def caller_in(self, computation: int, nodes: Set[int]) -> int:
        """Return the outermost of some nodes that came or went with a computation, or -1.

        A damaged text may call in a circle, which has no outermost.
        """
        caller = -1
        for _ in range(_DEEPEST):
            role = self.of(computation)
            if not role.is_embedded or role.caller not in nodes:
                return caller
            caller, computation = role.caller, self._graph.owner[role.caller]
        return -1


def _edit_groups(
    graphs: tuple[ProgramGraph, ProgramGraph], edits: Iterable[Edit], unmatched: Sequence[Set[int]]
) -> tuple[EditGroup, ...]:
    """Return edits in groups: by result bytes, then count, largest first, then name."""
    roles = _Roles(graphs[0]), _Roles(graphs[1])
    general = cache(general_text)
    members: dict[Hashable, list[_Member]] = {}
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
        own = [
            found.of(instruction.computation.place)
            for found, instruction in zip(roles, (edit.base, edit.head), strict=True)
            if instruction is not None
        ]
        wheres = tuple(role.general for role in own)
        path = _NUMBER.sub("*", _path(in_head(edit)))
        changes = tuple(map(general, edit.changes))
        shape = first.shape_text if is_one_sided else ""
        key = edit.kind, first.opcode, wheres, path, changes, shape
        shown = own if isinstance(edit, Moved) else own[-1:]
        members.setdefault(key, []).append((edit, tuple(shown)))
        for side, instruction in enumerate((edit.base, edit.head)):
            if instruction is not None:
                key_of[side, instruction.row] = key
    inside = Counter(key_of[place] for place in inner)
    sizes: dict[tuple[str, str], int | None] = {}
    groups = []
    for equal, listed in members.items():
        parts: list[int | None] = []
        for edit, where in listed:
            instruction = in_head(edit)
            kind = instruction.opcode, instruction.shape_text
            if kind not in sizes:
                sizes[kind] = _produced_bytes(instruction)
            parts.append(0 if where[-1].is_embedded else sizes[kind])
        groups.append(_group(listed, inside[equal], sum_of(parts)))

    def order(group: EditGroup) -> tuple[object, ...]:
        size, is_idle = group.result_bytes or 0, opcode_traits(group.opcode).is_idle
        count = group.instructions + group.inside
        return -size, is_idle, -count, group.edit, group.opcode, group.where

    return tuple(sorted(groups, key=order))


def _produced_bytes(instruction: HloInstruction) -> int | None:
    """Return the bytes of the new part of a result."""
    traits, shape = opcode_traits(instruction.opcode), instruction.shape
    if traits.is_end or (traits.is_view and not traits.is_start):
        return 0
    if shape is not None and traits.result_part is not Produced.ALL:
        parts = shape.tuple_shapes
        shape = parts[traits.result_part.value - 1] if len(parts) > 1 else shape
    return None if shape is None else shape.size_bytes


def _group(listed: Sequence[_Member], inside: int, result_bytes: int | None) -> EditGroup:
    first = listed[0][0]
    instruction = in_head(first)
    texts = {tuple(map(str, edit.changes)) for edit, _ in listed}
    words = str if len(texts) == 1 else general_text
    changes = tuple(map(words, first.changes))
    paths = {_path(in_head(edit)) for edit, _ in listed}
    path = min(paths) if len(paths) == 1 else _NUMBER.sub("*", min(paths))
    wheres = {" -> ".join(role.text for role in roles) for _, roles in listed}
    general = " -> ".join(role.general for role in listed[0][1])
    shape = None if instruction.shape is None else instruction.shape.to_text(layout=False)
    source = instruction.source_location
    base = [edit.base.name for edit, _ in listed if edit.base is not None]
    head = [edit.head.name for edit, _ in listed if edit.head is not None]
    return EditGroup(
        edit=first.kind,
        instructions=len(listed),
        inside=inside,
        opcode=in_base(first).opcode,
        shape=shape,
        what="; ".join(changes) or shape,
        where=wheres.pop() if len(wheres) == 1 else general,
        op_name=path.replace("\\'", "'").replace('\\"', '"') or None,
        source=None if source is None else str(source),
        result_bytes=result_bytes,
        base=tuple(base[:_EXAMPLES]),
        head=tuple(head[:_EXAMPLES]),
        changes=changes,
    )


def _path(instruction: HloInstruction) -> str:
    return operation_path(instruction.computation.module.columns, instruction.row)


def general_text(change: Change) -> str:
    """Return a change without the numbers that differ from layer to layer.

    >>> from hlo_lens.questions.matching.edits import Change
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


# ---- both texts side by side -------------------------------------------------------------------

_CONTEXT = 2
"""Unedited lines that are kept before and after an edited one."""


class Line(NamedTuple):
    """A line of two computations, by its rows; of ``left out`` ``base`` is the number of lines.

    Kinds are ``same``, ``changed``, ``added``, ``removed``, ``moved``, ``left out``.
    """

    kind: str
    base: int | None
    head: int | None


class ComputationPair(NamedTuple):
    """A computation of the base and the one that it matches in the head; empty for none."""

    base: str
    head: str
    lines: tuple[Line, ...]


def side_by_side(diff: ProgramDiff, base: HloModule, head: HloModule) -> list[ComputationPair]:
    """Return the computations with edits, in text order of the head, then those without partner."""
    kinds = {
        (side, instruction.row): edit.kind
        for edit in diff.edits
        for side, instruction in enumerate((edit.base, edit.head))
        if instruction is not None
    }
    partner_of = {yours: mine for mine, yours in diff.matched_computations.items()}
    names = [(partner_of.get(name, ""), name) for name in head.computation_names]
    names += [
        (name, "") for name in base.computation_names if name not in diff.matched_computations
    ]
    pairs = []
    for mine, yours in names:
        rows, others = _rows(base, mine), _rows(head, yours)
        if any((0, row) in kinds for row in rows) or any((1, row) in kinds for row in others):
            lines = _lines(rows, others, diff.matched_rows, kinds)
            pairs.append(ComputationPair(mine, yours, tuple(_shortened(lines))))
    return pairs


def _rows(module: HloModule, name: str) -> Sequence[int]:
    computation = module.computation(name) if name else None
    return () if computation is None else computation.rows


def _lines(
    base: Sequence[int],
    head: Sequence[int],
    heads: Mapping[int, int],
    kinds: Mapping[tuple[int, int], str],
) -> list[Line]:
    """Return the lines: of partners at the place in the head, others where their text has them."""
    here = set(head)
    bases = {heads[row]: row for row in base if heads.get(row) in here}
    place = {row: k for k, row in enumerate(base)}
    alone = [row for row in reversed(base) if heads.get(row) not in here]
    lines = []
    for row in (*head, None):
        partner = None if row is None else bases.get(row)
        while alone and (
            row is None or (partner is not None and place[alone[-1]] < place[partner])
        ):
            lines.append(Line(kinds.get((0, alone[-1]), "removed"), alone.pop(), None))
        if row is not None:
            default = "added" if partner is None else "same"
            lines.append(Line(kinds.get((1, row), default), partner, row))
    return lines


def _shortened(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the edited lines with those around them, and the number of lines left out between."""
    edited = [k for k, line in enumerate(lines) if line.kind != "same"]
    kept = {k for at in edited for k in range(at - _CONTEXT, at + _CONTEXT + 1)}
    skipped = 0
    for k, line in enumerate((*lines, None)):
        if line is not None and k not in kept:
            skipped += 1
            continue
        if skipped:
            yield Line("left out", skipped, None)
        skipped = 0
        if line is not None:
            yield line
