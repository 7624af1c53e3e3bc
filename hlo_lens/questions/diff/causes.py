"""Causes of the changes of a module.

A kind of cause is a type with its description and what it explains, and one function that finds it,
which stands in `FINDERS`: the ranking. `ranked_causes` puts each cause that another one explains
under that one. A new kind is one type, one function and one pair of dumps in the tests.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.questions.diff.edit_flow import (
    ARGUMENTS,
    INTO,
    NO_FLOW,
    SCANNED,
    TRIPS,
    UNROLLED,
    EditFlow,
    LoopChange,
)
from hlo_lens.questions.diff.line_edits import (
    CONSTRAINT,
    FEW,
    OPCODE,
    OPERATION_PROPERTIES,
    REWRITTEN,
    SHAPE,
    TYPE,
    LineEdits,
    edits_text,
    one_sided_text,
    opcodes_text,
)
from hlo_lens.questions.diff.shardings import (
    ADDED,
    REMOVED,
    RENAMED,
    RESHAPED,
    RESHARDED,
    label_of,
    renamed_component,
)
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.questions.diff.line_edits import LineRow, ProgramLines
    from hlo_lens.questions.diff.shardings import (
        DonationDiff,
        EntryRow,
        ShardingDiff,
        ShardingRow,
    )
    from hlo_lens.questions.snapshots.figures import EntryFact


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """A part of what a cause explains; the parts of a cause sum to its bytes."""

    what: str
    source: str | None = None
    delta_bytes: int | None = None
    delta_wire_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of the changes of a module; what changed is its type.

    Attributes:
        sources: Lines of the user's program; empty if it has none.
        names: Arguments and results that changed.
        affected: Arguments and results that it explains.
        reached: Further lines that it explains.
        delta_bytes: Increase of the memory that must fit, its consequences included; None if not
            known.
        delta_bytes_of: Figure that increases: ``total_bytes``; None without bytes.
        delta_wire_bytes: Increase of the bytes on the wire in one run that it explains.
        consequences: What follows from it.
    """

    sources: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    affected: frozenset[str] = frozenset()
    reached: frozenset[str] = frozenset()
    delta_bytes: int | None = None
    delta_bytes_of: str | None = None
    delta_wire_bytes: int | None = None
    consequences: tuple[Consequence, ...] = ()

    @property
    def what(self) -> str:
        """Its description."""
        raise NotImplementedError

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Return whether another cause follows from it."""
        del other, changes
        return False

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object."""
        names = ("sources", "what", "delta_bytes", "delta_bytes_of", "delta_wire_bytes")
        kind = re.sub(r"(?<!^)(?=[A-Z])", "-", type(self).__name__).lower()
        parts = [
            {name: getattr(one, name) for name in Consequence.__dataclass_fields__}
            for one in self.consequences
        ]
        return {"kind": kind, **{n: getattr(self, n) for n in names}, "consequences": parts}


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes of a module in which causes are found; None where they are not known.

    Attributes:
        program: Edits of the program by line.
        rows: Changes by line.
        shardings: Changes of arguments, results and annotations.
        donations: Aliases lost and gained.
        toolchain: Change of the compiler; empty for none.
        forms: Forms of the texts in which versions of JAX and XLA differ, in words.
        alike: What both sides name, and is the same: ``compiler``, ``flags``, ``target``.
        flags: Flags of XLA that differ, with both values.
        meshes: Meshes of base and head as text; None if not known.
        first_use: Returns the line that first uses an argument of the head.
        call_line: Line that calls the jitted function; None if it is not known.
        moved: Modules that only one side has, with operations that the other side has here.
    """

    program: ProgramLines | None = None
    rows: Sequence[LineRow] = ()
    shardings: ShardingDiff | None = None
    donations: DonationDiff | None = None
    toolchain: str = ""
    forms: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    flags: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    meshes: tuple[str | None, str | None] = (None, None)
    moved: tuple[MovedOutOfJit, ...] = ()
    first_use: Callable[[EntryFact], str | None] = lambda entry: None
    call_line: str | None = None

    @cached_property
    def row_of(self) -> Mapping[str | None, LineRow]:
        """Changes of each line."""
        return {row.source: row for row in self.rows}

    @property
    def lines(self) -> Mapping[str | None, LineEdits]:
        """Edits of each line."""
        return {} if self.program is None else self.program.lines

    def entries(self, kind: str) -> list[EntryRow]:
        """Return the changed arguments, or results."""
        found = () if self.shardings is None else self.shardings.entries
        return [row for row in found if row.kind == kind]

    def is_novel(self, cause: Cause) -> bool:
        """Return whether a line of a cause has operations that only one side has anywhere."""
        program = self.program
        if program is None:
            return False
        for source in cause.sources:
            edits = program.lines.get(source, LineEdits())
            found = {*edits.nets}
            found.update(program.new.get(source, ()), program.gone.get(source, ()))
            if found & program.novel or CONSTRAINT in found:
                return True
        return False

    def edits(self, source: str) -> LineEdits:
        """Return the edits of a line; none where it has none."""
        return self.lines.get(source) or LineEdits()

    def is_following(self, source: str) -> bool:
        """Return whether a line has only operations that come and go with types and shapes."""
        edits = self.edits(source)
        return edits.nets <= _FOLLOWING

    def is_reordered(self, cause: Cause) -> bool:
        """Return whether lines differ as by another order of arrays: JAX sorts them by name."""
        edits = [self.edits(source) for source in cause.sources]
        names = {what for one in edits for what, _, _ in one.changes}
        is_other = names & {TYPE, OPCODE, CONSTRAINT, *OPERATION_PROPERTIES} - {"slice_sizes"}
        return bool(edits) and not is_other and not any(one.nets for one in edits)

    def adapts(self, cause: Cause, *, has_others: bool) -> bool:
        """Return whether lines are computed from changed arguments, and have no new operations.

        Args:
            cause: Cause with the lines.
            has_others: Whether arguments came or went, with operations of their own.
        """
        program = self.program
        if program is None or (self.is_novel(cause) and not has_others):
            return isinstance(cause, LineChanged) and cause.is_constraint_alone
        edits = [self.edits(source) for source in cause.sources]
        own = sum(
            count
            for one in edits
            for kind in one.opcodes
            for opcode, count in one.net(kind).items()
            if opcode not in _FOLLOWING
        )
        is_small = has_others or 2 * own <= sum(one.count for one in edits)
        return is_small and program.flow.reached.get(ARGUMENTS, frozenset()).issuperset(
            cause.sources
        )

    def follows(self, cause: Cause, *others: str) -> bool:
        """Return whether lines of a cause are computed from other lines, and only adapt."""
        program = self.program
        if program is None:
            return False
        flow = program.flow.reached
        after: set[str] = set().union(*(flow.get(one, frozenset()) for one in others))
        sided = {*program.new, *program.gone}
        is_moved = self._is_moved(cause, others)
        return bool(cause.sources) and all(
            source in after
            and (
                is_moved
                or self.is_following(source)
                or (source in sided and not sided.isdisjoint(others))
            )
            for source in cause.sources
        )

    def _is_moved(self, cause: Cause, others: Iterable[str]) -> bool:
        """Return whether other lines gained the operations that lines of a cause lost."""
        own, there = ([self.edits(line) for line in lines] for lines in (cause.sources, [*others]))
        return all(
            sum(edits.net(kind)[opcode] for edits in own)
            <= sum(edits.net(other)[opcode] for edits in there)
            for kind, other in (("added", "removed"), ("removed", "added"))
            for opcode in set().union(*(edits.net(kind) for edits in own)) - _FOLLOWING
        )


_FOLLOWING = frozenset(
    {
        *("convert", "broadcast", "reshape", "transpose", "constant", "bitcast", "copy", "iota"),
        *("bitcast-convert", "reduce-precision", "pad", "slice", "concatenate"),
    }
)
"""Operations that JAX adds and leaves out with the types and shapes of operands."""


def ranked_causes(changes: Changes) -> list[Cause]:
    """Return the causes that no other explains, in the order of `FINDERS`."""
    found = [cause for find in FINDERS for cause in find(changes)]
    owner: dict[int, int] = {}
    for place, cause in enumerate(found):
        for other, candidate in enumerate(found):
            is_free = other != place and _top(other, owner) != place
            if other > place and cause.explains(candidate, changes):
                continue  # of two that explain each other the first in rank leads
            if is_free and candidate.explains(cause, changes):
                owner[place] = other
                break
    parts: dict[int, list[Cause]] = defaultdict(list)
    for place in owner:
        parts[_top(place, owner)].append(found[place])
    return [
        replace(
            cause,
            affected=cause.affected.union(*(one.names | one.affected for one in parts[place])),
            reached=cause.reached.union(*({*one.sources, *one.reached} for one in parts[place])),
            consequences=tuple(_consequence(one) for one in parts[place]),
        )
        for place, cause in enumerate(found)
        if place not in owner
    ]


def with_line(cause: Cause, changes: Changes) -> Cause:
    """Return a cause without line at that of the call, or of the first use of an argument."""
    if cause.sources:
        return cause
    line = changes.call_line if isinstance(cause, DonationChanged) else None
    if isinstance(cause, ArgumentsChanged | Resized) and changes.shardings is not None:
        rows = [row.head for row in changes.entries("parameter")]
        heads = [*rows, *(head for _, head in changes.shardings.pairs)]
        named = [one for one in heads if one is not None and label_of(one) in cause.names]
        named.sort(key=lambda one: bool(_STATE.search(one.name or "")))  # weights first
        line = next((place for one in named if (place := changes.first_use(one))), None)
    return cause if line is None else replace(cause, sources=(line,))


def _top(place: int, owner: Mapping[int, int]) -> int:
    while place in owner:
        place = owner[place]
    return place


def _consequence(cause: Cause) -> Consequence:
    return Consequence(what=cause.what, source=next(iter(cause.sources), None))


# ---- compiler, flags, sizes, mesh ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsChanged(Cause):
    """Another version of JAX or XLA, or other flags."""

    text: str

    @property
    def what(self) -> str:
        """Its description."""
        return self.text

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain lines without new operations: versions of JAX make others of one program."""
        return isinstance(other, LineChanged) and not changes.is_novel(other)


SAME_SOURCE = "none in the program: the texts from before optimizations are the same"
_TOOLS = ("compiler", "flags", "target")


def same_source_text(changes: Changes) -> str:
    """Return that the program is the same, and what of the compiler may differ."""
    others = [name for name in _TOOLS if name not in changes.alike]
    rest = f"; the same {' and '.join(changes.alike)}" if changes.alike else ""
    other = f"other {' or '.join(others)}" if others else "another machine"
    unknown = " (no text names its version)" if "compiler" in others else ""
    return f"{SAME_SOURCE}; {other}{unknown}{rest}"


def _tools(changes: Changes) -> Iterator[ToolsChanged]:
    if changes.toolchain:
        yield ToolsChanged(text=f"another compiler: {changes.toolchain}")
    elif changes.forms:
        yield ToolsChanged(text=f"another version of JAX or XLA: {'; '.join(changes.forms)}")
    flags = changes.flags
    if flags:
        texts = [f"{name} {_flag(one)} -> {_flag(other)}" for name, (one, other) in flags.items()]
        kinds = f"{plural(len(flags), 'flag')} of XLA changed: "
        yield ToolsChanged(text=kinds + listed(texts, FEW))


def _flag(value: str | None) -> str:
    return "(default)" if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized(Cause):
    """Sizes of dimensions of arguments changed: batch, sequence, vocabulary, layers, others."""

    sizes: tuple[tuple[str, int, int], ...]

    @property
    def what(self) -> str:
        """Its description."""
        texts = [f"{name} {before} -> {after}" for name, before, after in self.sizes]
        return f"{', '.join(texts)} ({plural(len(self.names), 'argument')})"

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain results and donations, trip counts of its sizes, and lines that adapt."""
        pairs = {(before, after) for _, before, after in self.sizes}
        if isinstance(other, LoopsChanged):
            return (other.loop.trips, other.loop.trips_after) in pairs
        if isinstance(other, LineChanged):
            return not changes.is_novel(other)
        return isinstance(other, ResultsChanged | DonationChanged)


_SHAPE = re.compile(r"\w+\[([\d,]*)\]")
_VOCABULARY = re.compile(r"(?i)emb|vocab|wte|lm_head|unemb|logits|token|\bout")


def _resized(changes: Changes) -> Iterator[Resized]:
    pairs: dict[tuple[int, int], list[tuple[EntryRow, int]]] = defaultdict(list)
    names = set()
    for row in changes.entries("parameter"):
        dims = [_dimensions(row.base_global_shape), _dimensions(row.head_global_shape)]
        if row.base is None or row.head is None or dims[0] == dims[1]:
            continue
        if len(dims[0]) != len(dims[1]):
            return
        names.add(label_of(row.head))
        for place, pair in enumerate(zip(*dims, strict=True)):
            if pair[0] != pair[1]:
                pairs[pair].append((row, place))
    loop = None if changes.program is None else changes.program.loop
    sizes = []
    for (before, after), rows in pairs.items():
        is_loop = loop is not None and loop.kind == TRIPS and loop.trips == before
        name = "layers" if is_loop and {place for _, place in rows} == {0} else _size_name(rows)
        sizes.append((name, before, after))
    if sizes:
        order = ("batch", "sequence", "vocabulary", "layers")
        sizes.sort(key=lambda one: (order.index(one[0]) if one[0] in order else len(order), one))
        yield Resized(sizes=tuple(sizes), names=frozenset(names))


def _dimensions(shape: str | None) -> tuple[int, ...]:
    match = _SHAPE.match(shape or "")
    return () if match is None or not match[1] else tuple(map(int, match[1].split(",")))


def _size_name(rows: Sequence[tuple[EntryRow, int]]) -> str:
    """Return the name of a size by the arguments that have it, and the place of the dimension."""
    inputs = [(row, place) for row, place in rows if row.head and row.head.aliased_with is None]
    integers = [place for row, place in inputs if (row.head_global_shape or "")[:1] in "su"]
    if integers and len(inputs) == len(rows):
        return {0: "batch", 1: "sequence"}.get(integers[0], "dimension")
    leaves = Counter(re.sub(r".*\[['\"]|['\"]\]$|.*\.", "", row.name or "") for row, _ in rows)
    if all(_VOCABULARY.search(row.name or "") for row, _ in rows) and len(leaves) <= FEW:
        return "vocabulary"
    if len(inputs) == len(rows) and {place for _, place in inputs} == {0}:
        return "batch"
    return f"dimension of {listed([name for name, _ in leaves.most_common()], 2)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshChanged(Cause):
    """Another mesh of devices."""

    base: str
    head: str

    @property
    def what(self) -> str:
        """Its description."""
        return f"mesh {self.base} -> {self.head}"

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain other divisions of arguments, results and annotations, and what follows."""
        if isinstance(other, ArgumentsChanged):
            return other.change == RESHARDED
        if isinstance(other, LineChanged):
            return not changes.is_novel(other) or other.is_constraint_alone
        return isinstance(other, ResultsChanged | DonationChanged)


def _mesh(changes: Changes) -> Iterator[MeshChanged]:
    base, head = changes.meshes
    if base is not None and head is not None:
        sizes = [re.findall(r"\d+", text) for text in (base, head)]
        if sizes[0] != sizes[1]:
            yield MeshChanged(base=base, head=head)


# ---- arguments, results, donations ---------------------------------------------------------------

RETYPED, REPLACED = "retyped", "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsChanged(Cause):
    """Arguments were added, removed, renamed, resharded, or have other shapes or types.

    Attributes:
        change: The gravest change.
        texts: All of them in words, with both values.
        rows: Arguments with equal changes, base and head; None where one has none.
    """

    change: str
    texts: tuple[str, ...]
    label: str = "argument"

    @property
    def what(self) -> str:
        """Its description."""
        names = sorted(self.names, key=lambda name: (len(name), name))
        return f"{plural(len(names), self.label)} {' and '.join(self.texts)}: {listed(names, 2)}"

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain donations of these arguments, results, and lines that are computed from them."""
        if isinstance(other, DonationChanged):
            return bool(self.names & other.names)
        if isinstance(other, LineChanged):
            is_renamed = any(text.startswith(RENAMED) for text in self.texts)
            if is_renamed and changes.is_reordered(other):
                return True
            return changes.adapts(other, has_others=self.change in (ADDED, REMOVED, REPLACED))
        if isinstance(other, ArgumentsChanged):  # another optimizer gives its arrays other names
            return self.change in (ADDED, REMOVED, REPLACED) and other.change == RENAMED
        return isinstance(other, ResultsChanged | ArgumentsReordered)


def _arguments(changes: Changes) -> Iterator[ArgumentsChanged]:
    alone: dict[str, list[EntryRow]] = defaultdict(list)
    groups: dict[tuple[str, ...], list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    before = (
        {}
        if changes.shardings is None
        else {label_of(h): label_of(b) for b, h in changes.shardings.pairs}
    )
    for row in changes.entries("parameter"):
        if row.base is None or row.head is None:
            alone[row.change].append(row)
        elif found := [*_entry_texts(row)]:
            kinds, texts = zip(*found, strict=True)
            groups[kinds].append((label_of(row.head), texts))
    known = {name for pairs in groups.values() for name, _ in pairs}
    for (old, new), names in _renames(changes).items():
        text = f"renamed, [{old}] -> [{new}]"
        if own := [(name, (text,)) for name in names if name not in known]:
            groups[RENAMED,] += own
    if alone:
        sizes = [
            f"{plural(len(rows), 'argument')} of {format_bytes(_bytes(rows))} {kind}"
            for kind, rows in sorted(alone.items())
        ]
        yield _AddedArguments(
            change=REPLACED if len(alone) > 1 else next(iter(alone)),
            texts=tuple(sizes),
            names=_labels(row for rows in alone.values() for row in rows),
        )
    order = (RESHARDED, RESHAPED, RETYPED, RENAMED)
    for kinds, pairs in sorted(groups.items(), key=lambda item: -len(item[1])):
        change = min(kinds, key=order.index)
        labels = frozenset(name for name, _ in pairs)
        yield ArgumentsChanged(
            change=change,
            texts=Counter(texts for _, texts in pairs).most_common(1)[0][0],
            names=labels,
            affected=frozenset(before.get(name, name) for name in labels),
            label=_label(labels) if change == RETYPED else "argument",
        )


def _labels(rows: Iterable[EntryRow]) -> frozenset[str]:
    return frozenset(label_of(one) for row in rows if (one := row.head or row.base))


class _AddedArguments(ArgumentsChanged):
    @property
    def what(self) -> str:
        """Its description."""
        names = sorted(self.names, key=lambda name: (len(name), name))
        return f"{', '.join(self.texts)}: {listed(names, FEW)}"


def _bytes(rows: Iterable[EntryRow]) -> int:
    return sum(abs(row.delta_bytes or 0) for row in rows)


_WEIGHT = re.compile(r"(?i)param|weight|kernel")
_STATE = re.compile(r"\b(?:mu|nu|m|v|trace|momentum|exp_avg\w*|opt\w*)\b")


def _label(names: Collection[str]) -> str:
    """Return the word for some arguments, as far as their names say what they are."""
    if all(map(_STATE.search, names)):
        return "optimizer array"
    return "parameter" if all(map(_WEIGHT.search, names)) else "argument"


def _entry_texts(row: EntryRow) -> Iterator[tuple[str, str]]:
    """Yield kind and text of the changes of an argument or result that both sides have."""
    base, head = row.base, row.head
    assert base is not None
    assert head is not None
    names = renamed_component(base.name, head.name)
    if row.kind == "parameter" and names is not None:
        yield RENAMED, f"renamed, [{names[0]}] -> [{names[1]}]"
    shapes = [base.global_shape or base.device_shape, head.global_shape or head.device_shape]
    types = [(shape or "").partition("[")[0] for shape in shapes]
    dims = [_dimensions(shape) for shape in shapes]
    if types[0] != types[1] and all(types):
        yield RETYPED, f"{types[1]} now, {_was(types[0])}"
    if len(dims[0]) != len(dims[1]):
        yield RESHAPED, f"reshaped, {shapes[0]} -> {shapes[1]}"
    if row.change == RESHARDED:
        parts = (base.device_shape, head.device_shape)
        pairs = ((base.spec, head.spec), parts, (base.sharding, head.sharding))
        pair = next(((b, h) for b, h in pairs if b and h and b != h), None)
        if pair is not None:
            on_each = " on each device" * (pair == parts)
            is_replicated = base.device_shape != head.device_shape == head.global_shape
            word = "replicated" if is_replicated else "resharded"
            yield RESHARDED, f"{word}, {pair[0]} -> {pair[1]}{on_each}"
    elif dims[0] == dims[1] and types[0] == types[1] and row.change == RESHAPED:
        yield RESHAPED, f"reshaped, {base.device_shape} -> {head.device_shape}"


def _was(text: str) -> str:
    return f"was {text}"


def _renames(changes: Changes) -> Mapping[tuple[str, str], list[str]]:
    """Return the arguments of which one part of the path has another name, by both names."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for base, head in () if changes.shardings is None else changes.shardings.pairs:
        names = renamed_component(base.name, head.name) if base.kind == "parameter" else None
        if names is not None:
            found[names].append(label_of(head))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsReordered(Cause):
    """Arguments have the same names in another order."""

    @property
    def what(self) -> str:
        """Its description."""
        names = sorted(self.names)
        return f"{plural(len(names), 'argument')} in another order: {listed(names, 1)}"


def _order(changes: Changes) -> Iterator[ArgumentsReordered]:
    names = [
        label_of(head)
        for base, head in (() if changes.shardings is None else changes.shardings.pairs)
        if base.kind == "parameter" and base.name and base.name == head.name
        if base.number != head.number
    ]
    if names and not _renames(changes):  # paths are sorted by name
        yield ArgumentsReordered(names=frozenset(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class DonationChanged(Cause):
    """Results no longer reuse the memory of arguments, or newly do.

    Temporaries change too, so that the total need not change by their size.
    """

    change: str
    size_bytes: int
    first: tuple[str, ...]

    @property
    def what(self) -> str:
        """Its description."""
        arguments = f"{plural(len(self.names), 'argument')} of {format_bytes(self.size_bytes)}"
        return f"donation {self.change} for {arguments}: {listed(self.first, FEW)}"


def _donations(changes: Changes) -> Iterator[DonationChanged]:
    donations = changes.donations
    for change in ("lost", "gained") if donations is not None else ():
        assert donations is not None
        names = donations.names_of(change)
        if names:
            size = donations.bytes_of(change)
            yield DonationChanged(
                change=change, names=frozenset(names), first=tuple(names), size_bytes=size
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsChanged(Cause):
    """Results were added, removed, resharded, or have other shapes or types."""

    change: str
    text: str
    size_bytes: int

    @property
    def what(self) -> str:
        """Its description."""
        names = sorted(self.names, key=lambda name: (len(name), name))
        text = (
            f" {self.text}" if self.text else f" of {format_bytes(self.size_bytes)} {self.change}"
        )
        return f"{plural(len(names), 'result')}{text}: {listed(names, 2)}"

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain donations that other results cannot take, and reshapes for added ones."""
        if self.change in (ADDED, REMOVED):
            is_line = isinstance(other, LineChanged) and not isinstance(other, Retyped)
            return is_line and all(map(changes.is_following, other.sources))
        if not isinstance(other, DonationChanged):
            return False
        donations = () if changes.donations is None else changes.donations.entries
        before = {row.base_output for row in donations} - {None}
        after = {row.head_output for row in donations} - {None}
        shapes = {row.device_shape for row in donations} - {None}  # JAX pairs them by shape
        return any(
            one is not None and (one.index in indices or one.device_shape in shapes)
            for row in changes.entries("output")
            for one, indices in ((row.base, before), (row.head, after))
        )


def _results(changes: Changes) -> Iterator[ResultsChanged]:
    groups: dict[str, list[tuple[EntryRow, str]]] = defaultdict(list)
    for row in changes.entries("output"):
        if row.base is None or row.head is None:
            groups[row.change].append((row, ""))
        else:
            for kind, text in _entry_texts(row):
                groups[kind].append((row, text))
    for change, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield ResultsChanged(
            change=change,
            text=Counter(text for _, text in found).most_common(1)[0][0],
            names=_labels(row for row, _ in found),
            size_bytes=_bytes(row for row, _ in found),
        )


# ---- loops and recomputation ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputationChanged(Cause):
    """Another policy of rematerialisation; numbers of instructions."""

    before: int
    after: int
    stacks: int
    stack_bytes: int

    @property
    def what(self) -> str:
        """Its description."""
        fewer = self.after < self.before
        way = "not computed again" if fewer else "computed again"
        if not self.after or not self.before:
            number = plural(max(self.before, self.after), "instruction")
            text = f"rematerialisation {'gone' if fewer else 'new'}: {number} {way}"
        else:
            number = plural(abs(self.before - self.after), "instruction")
            text = f"rematerialisation policy changed: {number} {'no longer' if fewer else 'newly'}"
            text = f"{text} computed again of {max(self.before, self.after)}"
        if self.stacks:
            values = plural(self.stacks, "stack")
            size = format_bytes(abs(self.stack_bytes))
            saved = "saved for the backward pass" if self.stack_bytes > 0 else "no longer saved"
            text += f"; {values} {saved}, {size}"
        return text

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain lines without new operations."""
        is_line = isinstance(other, LineChanged)
        return is_line and not changes.is_novel(other)


_MOST_OTHERS = 0.5
"""Largest share of lines with other operations of their own, beside those computed again."""


def _recomputation(changes: Changes) -> Iterator[RecomputationChanged]:
    program = changes.program
    before, after = (0, 0) if program is None else program.recomputed
    if before == after or program is None or program.loop is not None:
        return
    pure, others = [], 0
    for source, edits in program.lines.items():
        if source is None or not edits.again or not any(edits.again.values()):
            continue
        nets = edits.nets - _SAVING
        pure += [] if nets or source in program.new or source in program.gone else [source]
        others += bool(nets)
    is_all = not before or not after
    if not is_all and (not pure or others > _MOST_OTHERS * len(pure)):
        return
    if is_all and not pure and (program.new or program.gone):
        return
    rows = [row for row in changes.rows if row.recomputed and row.source is not None]
    barriers = {line for line, edits in program.lines.items() if _BARRIER in edits.nets}
    rows.sort(key=lambda r: (r.source not in barriers, -abs(r.recomputed or 0), r.source or ""))
    sources = tuple(row.source for row in rows if row.source is not None)
    yield RecomputationChanged(sources=sources, before=before, after=after, stacks=0, stack_bytes=0)


_BARRIER = "opt-barrier"
_SAVING = _FOLLOWING | {"opt-barrier", "dynamic-slice", "dynamic-update-slice", "add"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopsChanged(Cause):
    """Operations are in another loop than before, or their loop runs another number of times."""

    loop: LoopChange

    @property
    def what(self) -> str:
        """Its description."""
        kind, trips, after = self.loop.kind, self.loop.trips, self.loop.trips_after
        if kind == TRIPS:
            return f"loop of {after} iterations, was {trips}"
        if kind == UNROLLED:
            rest = f"; {after} iterations are left" if after != trips else ""
            return f"loop unrolled: its body appears {trips} times{rest}"
        if kind == SCANNED:
            return f"operations that appeared {trips} times are the body of a loop now"
        if self.loop.is_step:
            way = "runs in a loop of" if kind == INTO else "no longer runs in a loop of"
            return f"the step {way} {trips} microbatches (gradient accumulation)"
        way = "moved into a loop of" if kind == INTO else "moved out of a loop of"
        return f"{plural(len(self.loop.lines), 'line')} {way} {trips} iterations"

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain lines without new operations, and annotations in the loop."""
        if isinstance(other, LineChanged):
            return not changes.is_novel(other)
        return isinstance(other, ResultsChanged) and other.change not in (ADDED, REMOVED)


def _loops(changes: Changes) -> Iterator[LoopsChanged]:
    program = changes.program
    if program is not None and program.loop is not None:
        yield LoopsChanged(sources=program.loop_lines, loop=program.loop)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedOutOfJit(Cause):
    """Operations that the other side has in another module."""

    module: str
    is_out: bool
    opcodes: Counter[str]

    @property
    def what(self) -> str:
        """Its description."""
        way, has = ("out of", "has") if self.is_out else ("into", "had")
        opcodes = opcodes_text(self.opcodes)
        return f"moved {way} this jit: module {self.module} {has} the operations: {opcodes}"

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain all lines, and the arguments and results that went with them."""
        return not isinstance(other, ToolsChanged | MeshChanged | Resized | MovedOutOfJit)


_LEAST_MOVED = 0.5
"""Share of the operations of a module that another one must have lost, or gained."""


def moved_operations(
    program: ProgramLines, module: str, opcodes: Counter[str], *, is_out: bool
) -> MovedOutOfJit | None:
    """Return that the operations of a module of one side alone were, or are, in another module.

    Args:
        program: Edits of the other module.
        module: Name of the module that is new, or gone.
        opcodes: Opcodes of its operations.
        is_out: Whether it is new.
    """
    kind = "removed" if is_out else "added"
    lost = sum((edits.net(kind) for edits in program.lines.values()), Counter[str]())
    moved = lost & opcodes
    is_enough = moved.total() >= max(2, _LEAST_MOVED * opcodes.total())
    return MovedOutOfJit(module=module, is_out=is_out, opcodes=moved) if is_enough else None


def _moved(changes: Changes) -> Iterator[MovedOutOfJit]:
    yield from changes.moved


# ---- lines ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChanged(Cause):
    """Lines whose instructions changed by themselves."""

    text: str

    @property
    def what(self) -> str:
        """Its description."""
        return self.text

    @property
    def is_constraint_alone(self) -> bool:
        """Whether only sharding constraints changed."""
        return self.text.startswith(CONSTRAINT)

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain lines that adapt to its values, and results."""
        if isinstance(other, ResultsChanged):
            is_own = other.change not in (ADDED, REMOVED) or isinstance(self, Retyped)
            return is_own or not all(map(changes.is_following, self.sources))
        if not isinstance(other, LineChanged):
            return False
        is_same = other.text == self.text and self.is_constraint_alone
        return is_same or changes.follows(other, *self.sources)


class Retyped(LineChanged):
    """Activations, logits or other values have another element type, from some lines on."""


def _retyped(changes: Changes) -> Iterator[Retyped]:
    """Yield changes of the element type, of all lines with the same one together."""
    program = changes.program
    if program is None:
        return
    flow = program.flow
    sources = _typed_roots(changes, flow) if flow.is_known else _typed_lines(changes)
    for (base, head), lines in sources.items():
        reached = frozenset[str]().union(*(flow.reached.get(line, ()) for line in lines))
        nets = [
            (kind, sum(changes.edits(line).net(kind)["convert"] for line in lines))
            for kind in ("added", "removed")
        ]
        converts = [f"{opcodes_text(Counter(convert=n))} {kind}" for kind, n in nets if n]
        what = "values" if flow.of_products.isdisjoint(lines) else "logits"
        if any(changes.edits(line).products for line in (*lines, *reached)):
            what = "activations"
        text = f"{what} are {head}, were {base}{': ' * bool(converts)}{', '.join(converts)}"
        yield Retyped(sources=tuple(lines), text=text, reached=reached - {*lines})


class Reshaped(LineChanged):
    """Values have dimensions of other sizes, which no argument has: heads, groups, chunks."""


_SIZES = re.compile(r"\[([\d,]+)\]$")


def _reshaped(changes: Changes) -> Iterator[Reshaped]:
    """Yield changes of sizes alone, of all lines that share one together."""
    flow = NO_FLOW if changes.program is None else changes.program.flow
    found: dict[str, set[tuple[int, int]]] = {}
    for source in flow.roots:
        edits = changes.edits(source)
        pairs = {
            pair
            for what, *texts in edits.changes
            if what == SHAPE
            for pair in _size_pairs(*map(_SIZES.match, texts))
        }
        if pairs and edits.nets <= _FOLLOWING and not edits.changes_of(TYPE, OPCODE):
            found[source] = pairs
    while found:
        lead = max(found, key=lambda source: len(found[source]))  # the first of equal ones
        sources, sizes = [lead], found.pop(lead)
        for source in [*found]:
            if found[source] & sizes:
                sources.append(source)
                sizes |= found.pop(source)
        text = ", ".join(f"{before} -> {after}" for before, after in sorted(sizes))
        reached = frozenset[str]().union(*(flow.reached[one] for one in sources))
        kind = "dimensions" if len(sizes) > 1 else "dimension"
        yield Reshaped(sources=tuple(sources), text=f"{kind} {text}", reached=reached)


def _size_pairs(*shapes: re.Match[str] | None) -> set[tuple[int, int]]:
    """Return the sizes that differ between two shapes of as many dimensions."""
    sizes = [[] if one is None else [*map(int, one[1].split(","))] for one in shapes]
    if len(sizes[0]) != len(sizes[1]):
        return set()
    return {(a, b) for a, b in zip(*sizes, strict=True) if a != b}


Typed: TypeAlias = "dict[tuple[str, str], list[str]]"
"""Lines by the element types of base and head."""


def _typed_roots(changes: Changes, flow: EditFlow) -> Typed:
    found: Typed = defaultdict(list)
    for source in flow.roots:
        types: Counter[tuple[str, str]] = Counter()
        for line in (source, *flow.reached[source]):
            for (what, base, head), count in changes.edits(line).changes.items():
                types[base, head] += count * (what == TYPE)
        is_other = source == ARGUMENTS or _constraint_text(changes.edits(source), ())
        if types.total() and changes.is_following(source) and not is_other:
            found[types.most_common(1)[0][0]].append(source)
    return found


def _typed_lines(changes: Changes) -> Typed:
    """Return the lines most of whose instructions have another type, without dataflow."""
    found: Typed = defaultdict(list)
    rows = () if changes.entries("parameter") else changes.rows
    for row in sorted(rows, key=lambda r: (-abs(r.delta_peak_bytes or 0), -r.count)):
        pair = _main_type(changes.edits(row.source)) if row.source else None
        if row.source is not None and pair is not None:
            found[pair].append(row.source)
    return found


def _main_type(edits: LineEdits) -> tuple[str, str] | None:
    """Return the change of the element type of most instructions of a line; None for others."""
    if 2 * edits.changes_of(TYPE) <= edits.count - abs(edits.recomputed):
        return None
    pairs = Counter({(b, h): n for (what, b, h), n in edits.changes.items() if what == TYPE})
    return pairs.most_common(1)[0][0]


def _lines(changes: Changes) -> Iterator[LineChanged]:
    """Yield the lines with edits that follow from no other, in the order in which they run."""
    program = changes.program
    if program is None:
        return
    annotations = () if changes.shardings is None else changes.shardings.annotations
    flow = program.flow
    if flow.is_known:
        sources: Sequence[str] = [line for line in flow.roots if line != ARGUMENTS]
    else:
        order = sorted(changes.rows, key=lambda r: (-abs(r.delta_peak_bytes or 0), -r.count))
        sources = [row.source for row in order if row.source is not None]
        others = bool(changes.entries("parameter"))
        sources = [one for one in sources if _is_own(one, changes, others)]
    typed = {s for find in (_retyped, _reshaped) for one in find(changes) for s in one.sources}
    for source in sources:
        edits = program.lines.get(source)
        if edits is None or edits.is_recomputation or source in typed:
            continue
        constraint = _constraint_text(edits, annotations)
        text = constraint if edits.nets <= {CONSTRAINT} else ""
        text = text or one_sided_text(program, source) or constraint or edits_text(edits)
        if text not in ("", REWRITTEN):
            reached = flow.reached.get(source, frozenset())
            yield LineChanged(sources=(source,), text=text, reached=reached)


def _is_own(source: str, changes: Changes, has_others: bool) -> bool:
    """Return whether a line of a text from after optimizations changed by itself."""
    edits, row = changes.lines.get(source), changes.row_of.get(source)
    if edits is None or row is None or _is_placement(edits):
        return False
    names = {what for what, _, _ in edits.changes}.union(*edits.opcodes.values())
    if 2 * edits.changes_of(TYPE, OPCODE) > edits.count - abs(edits.recomputed):
        return not has_others
    return CONSTRAINT in names or not (row.is_small or (has_others and edits.follows))


_TRANSFERS = frozenset({"copy-start", "copy-done", "slice-start", "slice-done"})
_AROUND_TRANSFERS = frozenset({"bitcast", "copy", "custom-call", "fusion"})
"""Opcodes that come and go with the transfers of a value in parts."""


def _is_placement(edits: LineEdits) -> bool:
    """Return whether only the compiler's transfers between memories came or went."""
    if edits.changes_of(TYPE, OPCODE, "shape"):
        return False
    opcodes = {*edits.net("added"), *edits.net("removed")}
    started = opcodes & _TRANSFERS
    return bool(started) and opcodes - started <= _AROUND_TRANSFERS


def _constraint_text(edits: LineEdits, annotations: Sequence[ShardingRow]) -> str:
    """Return the change of sharding constraints with their specs; empty for other changes."""
    nets = {kind: edits.net(kind)[CONSTRAINT] for kind in ("added", "removed")}
    changed = edits.changes_of(CONSTRAINT)
    if not changed and not any(nets.values()):
        return ""
    if changed:
        rows = [row for row in annotations if row.change not in (ADDED, REMOVED)]
        specs = {(row.base_spec, row.head_spec) for row in rows}
        pair = next(iter(specs)) if len(specs) == 1 else None
        return f"{CONSTRAINT} {pair[0]} -> {pair[1]}" if pair else f"{CONSTRAINT} changed"
    kind = "added" if nets["added"] else "removed"
    rows = [row for row in annotations if row.change == (ADDED if nets["added"] else REMOVED)]
    found = {row.head_spec or row.base_spec for row in rows}
    spec = f" {next(iter(found))}" if len(found) == 1 else ""
    others = opcodes_text(edits.net(kind) - Counter({CONSTRAINT: nets[kind]}))
    return f"{CONSTRAINT}{spec} {'added' if nets['added'] else 'dropped'}" + (
        f"; {others} {kind}" if others else ""
    )


FINDERS: tuple[Callable[[Changes], Iterator[Cause]], ...] = (
    _tools,
    _moved,
    _mesh,
    _resized,
    _arguments,
    _order,
    _recomputation,
    _loops,
    _retyped,
    _reshaped,
    _lines,
    _results,
    _donations,
)
"""Functions that find causes, in the order of the ranking."""
