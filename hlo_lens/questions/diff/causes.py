"""Causes of the changes of a module.

A kind of cause is a type with what it explains, and one function that finds it, which stands in
`FINDERS`: the ranking. `ranked_causes` puts each cause that another one explains under that one. A
new kind is one type, one function and one pair of dumps in the tests.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
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
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.questions.diff.line_edits import LineRow, ProgramLines
    from hlo_lens.questions.diff.shardings import DonationDiff, EntryRow, ShardingDiff, ShardingRow
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

    `names` are arguments and results that changed, `affected` those that it explains, `reached`
    further lines that it explains. Bytes include its consequences; None where they are not known.
    `delta_bytes` is of the memory that must fit (`delta_bytes_of` names the figure).
    """

    what: str
    sources: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    affected: frozenset[str] = frozenset()
    reached: frozenset[str] = frozenset()
    delta_bytes: int | None = None
    delta_bytes_of: str | None = None
    delta_wire_bytes: int | None = None
    consequences: tuple[Consequence, ...] = ()

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Return whether another cause follows from it."""
        del other, changes
        return False

    def to_dict(self) -> dict[str, object]:
        names = ("sources", "what", "delta_bytes", "delta_bytes_of", "delta_wire_bytes")
        kind = re.sub(r"(?<!^)(?=[A-Z])", "-", type(self).__name__).lower()
        parts = [
            {name: getattr(one, name) for name in Consequence.__dataclass_fields__}
            for one in self.consequences
        ]
        return {"kind": kind, **{n: getattr(self, n) for n in names}, "consequences": parts}


_FOLLOWING = frozenset(
    {
        *("convert", "broadcast", "reshape", "transpose", "constant", "bitcast", "copy", "iota"),
        *("bitcast-convert", "reduce-precision", "pad", "slice", "concatenate"),
    }
)
"""Operations that JAX adds and leaves out with the types and shapes of operands."""

_BOTH_KINDS = (("added", "removed"), ("removed", "added"))


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes of a module in which causes are found; None where they are not known.

    `forms` are forms of the texts in which versions of JAX and XLA differ, in words; `alike` is
    what both sides name, and is the same (compiler, flags, target); `flags` of XLA differ, with
    both values; `moved` are modules of one side alone with operations that the other side has here.
    `first_use` returns the line that first uses an argument of the head.
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

    def entries(self, kind: str) -> list[EntryRow]:
        found = () if self.shardings is None else self.shardings.entries
        return [row for row in found if row.kind == kind]

    @property
    def argument_pairs(self) -> list[tuple[EntryFact, EntryFact]]:
        pairs = () if self.shardings is None else self.shardings.pairs
        return [pair for pair in pairs if pair[0].kind == "parameter"]

    @property
    def flow(self) -> EditFlow:
        return NO_FLOW if self.program is None else self.program.flow

    def edits(self, source: str | None) -> LineEdits:
        """Return the edits of a line; none where it has none."""
        lines = {} if self.program is None else self.program.lines
        return lines.get(source) or LineEdits()

    def is_novel(self, cause: Cause) -> bool:
        """Return whether a line of a cause has operations that only one side has anywhere."""
        program = self.program
        if program is None:
            return False
        sided = [side.get(one, ()) for one in cause.sources for side in (program.new, program.gone)]
        found = set().union(*sided, *(self.edits(one).nets for one in cause.sources))
        return CONSTRAINT in found or not found.isdisjoint(program.novel)

    def is_following(self, source: str) -> bool:
        """Return whether a line has only operations that come and go with types and shapes."""
        return self.edits(source).nets <= _FOLLOWING

    def is_reordered(self, cause: Cause) -> bool:
        """Return whether lines differ as by another order of arrays: JAX sorts them by name."""
        edits = [self.edits(source) for source in cause.sources]
        names = {what for one in edits for what, _, _ in one.changes}
        is_other = names & {TYPE, OPCODE, CONSTRAINT, *OPERATION_PROPERTIES} - {"slice_sizes"}
        return bool(edits) and not is_other and not any(one.nets for one in edits)

    def adapts(self, cause: Cause, *, has_others: bool) -> bool:
        """Return whether lines are computed from changed arguments, and have no new operations."""
        if self.program is None or (self.is_novel(cause) and not has_others):
            return isinstance(cause, LineChanged) and cause.is_constraint_alone
        edits = [self.edits(source) for source in cause.sources]
        nets = sum((one.net(kind) for one in edits for kind in one.opcodes), Counter[str]())
        own = sum(count for opcode, count in nets.items() if opcode not in _FOLLOWING)
        is_small = has_others or 2 * own <= sum(one.count for one in edits)
        return is_small and {*cause.sources} <= self.flow.reached.get(ARGUMENTS, frozenset())

    def follows(self, cause: Cause, *others: str) -> bool:
        """Return whether lines of a cause are computed from other lines, and only adapt."""
        program, flow = self.program, self.flow.reached
        if program is None or not cause.sources:
            return False
        own, there = ([self.edits(line) for line in lines] for lines in (cause.sources, others))
        is_moved = all(  # the other lines gained the operations that these lost
            sum(edits.net(kind)[opcode] for edits in own)
            <= sum(edits.net(other)[opcode] for edits in there)
            for kind, other in _BOTH_KINDS
            for opcode in set().union(*(edits.net(kind) for edits in own)) - _FOLLOWING
        )
        sided = {*program.new, *program.gone}
        are_sided = not sided.isdisjoint(others)
        after: set[str] = set().union(*(flow.get(one, frozenset()) for one in others))
        return all(
            one in after and (is_moved or self.is_following(one) or (are_sided and one in sided))
            for one in cause.sources
        )


def ranked_causes(changes: Changes) -> list[Cause]:
    """Return the causes that no other explains, in the order of `FINDERS`."""
    found = [cause for find in FINDERS for cause in find(changes)]
    owner: dict[int, int] = {}

    def top(place: int) -> int:
        while place in owner:
            place = owner[place]
        return place

    for place, cause in enumerate(found):
        for other, candidate in enumerate(found):
            is_free = other != place and top(other) != place
            if other > place and cause.explains(candidate, changes):
                continue  # of two that explain each other the first in rank leads
            if is_free and candidate.explains(cause, changes):
                owner[place] = other
                break
    parts: dict[int, list[Cause]] = defaultdict(list)
    for place in owner:
        parts[top(place)].append(found[place])
    return [
        replace(
            cause,
            affected=cause.affected.union(*(one.names | one.affected for one in parts[place])),
            reached=cause.reached.union(*({*one.sources, *one.reached} for one in parts[place])),
            consequences=tuple(
                Consequence(what=one.what, source=next(iter(one.sources), None))
                for one in parts[place]
            ),
        )
        for place, cause in enumerate(found)
        if place not in owner
    ]


def with_line(cause: Cause, changes: Changes) -> Cause:
    """Return a cause without line at that of the call, or of the first use of an argument."""
    if cause.sources:
        return cause
    line = changes.call_line if isinstance(cause, DonationChanged) else None
    if isinstance(cause, ArgumentsChanged | Resized):
        heads = [row.head for row in changes.entries("parameter")]
        heads += [head for _, head in changes.argument_pairs]
        named = [one for one in heads if one is not None and label_of(one) in cause.names]
        named.sort(key=lambda one: bool(_STATE.search(one.name or "")))  # weights first
        line = next((place for one in named if (place := changes.first_use(one))), None)
    return cause if line is None else replace(cause, sources=(line,))


class ToolsChanged(Cause):
    """Another version of JAX or XLA, or other flags."""

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain lines without new operations: versions of JAX make others of one program."""
        return isinstance(other, LineChanged) and not changes.is_novel(other)


SAME_SOURCE = "none in the program: the texts from before optimizations are the same"


def same_source_text(changes: Changes) -> str:
    """Return that the program is the same, and what of the compiler may differ."""
    others = [name for name in ("compiler", "flags", "target") if name not in changes.alike]
    rest = f"; the same {' and '.join(changes.alike)}" if changes.alike else ""
    other = f"other {' or '.join(others)}" if others else "another machine"
    unknown = " (no text names its version)" if "compiler" in others else ""
    return f"{SAME_SOURCE}; {other}{unknown}{rest}"


def _tools(changes: Changes) -> Iterator[ToolsChanged]:
    if changes.toolchain:
        yield ToolsChanged(what=f"another compiler: {changes.toolchain}")
    elif changes.forms:
        yield ToolsChanged(what=f"another version of JAX or XLA: {'; '.join(changes.forms)}")
    texts = [
        f"{name} {' -> '.join('(default)' if one is None else one for one in pair)}"
        for name, pair in changes.flags.items()
    ]
    if texts:
        yield ToolsChanged(
            what=f"{plural(len(texts), 'flag')} of XLA changed: {listed(texts, FEW)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized(Cause):
    """Sizes of dimensions of arguments changed: batch, sequence, vocabulary, layers, others."""

    sizes: frozenset[tuple[int, int]]

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain results and donations, trip counts of its sizes, and lines that adapt."""
        if isinstance(other, LoopsChanged):
            return (other.loop.trips, other.loop.trips_after) in self.sizes
        if isinstance(other, LineChanged):
            return not changes.is_novel(other)
        return isinstance(other, ResultsChanged | DonationChanged)


_SHAPE = re.compile(r"\w+\[([\d,]*)\]")
_VOCABULARY = re.compile(r"(?i)emb|vocab|wte|lm_head|unemb|logits|token|\bout")
_SIZES = ("batch", "sequence", "vocabulary", "layers")


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
        rank = _SIZES.index(name) if name in _SIZES else len(_SIZES)
        sizes.append((rank, name, before, after))
    if sizes:
        texts = [f"{name} {before} -> {after}" for _, name, before, after in sorted(sizes)]
        what = f"{', '.join(texts)} ({plural(len(names), 'argument')})"
        yield Resized(what=what, sizes=frozenset(pairs), names=frozenset(names))


def _dimensions(shape: str | None) -> tuple[int, ...]:
    match = _SHAPE.match(shape or "")
    return () if match is None or not match[1] else tuple(map(int, match[1].split(",")))


def _size_name(rows: Sequence[tuple[EntryRow, int]]) -> str:
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


class MeshChanged(Cause):
    """Another mesh of devices."""

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain other divisions of arguments, results and annotations, and what follows."""
        if isinstance(other, ArgumentsChanged):
            return other.change == RESHARDED
        if isinstance(other, LineChanged):
            return not changes.is_novel(other) or other.is_constraint_alone
        return isinstance(other, ResultsChanged | DonationChanged)


def _mesh(changes: Changes) -> Iterator[MeshChanged]:
    base, head = changes.meshes
    if base and head and re.findall(r"\d+", base) != re.findall(r"\d+", head):
        yield MeshChanged(what=f"mesh {base} -> {head}")


RETYPED, REPLACED = "retyped", "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsChanged(Cause):
    """Arguments were added, removed, renamed, resharded, or have other shapes or types."""

    change: str
    is_renamed: bool = False

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain donations of these arguments, results, and lines that are computed from them."""
        has_others = self.change in (ADDED, REMOVED, REPLACED)
        if isinstance(other, DonationChanged):
            return bool(self.names & other.names)
        if isinstance(other, LineChanged):
            is_reordered = self.is_renamed and changes.is_reordered(other)
            return is_reordered or changes.adapts(other, has_others=has_others)
        if isinstance(other, ArgumentsChanged):  # another optimizer gives its arrays other names
            return has_others and other.change == RENAMED
        return isinstance(other, ResultsChanged)


def _arguments(changes: Changes) -> Iterator[ArgumentsChanged]:
    alone: dict[str, list[EntryRow]] = defaultdict(list)
    groups: dict[tuple[str, ...], list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for row in changes.entries("parameter"):
        if row.base is None or row.head is None:
            alone[row.change].append(row)
        elif found := [*_entry_texts(row)]:
            kinds, texts = zip(*found, strict=True)
            groups[kinds].append((label_of(row.head), texts))
    known = {name for pairs in groups.values() for name, _ in pairs}
    for (old, new), renamed in _renames(changes).items():
        texts = (f"renamed, [{old}] -> [{new}]",)
        if own := [(name, texts) for name in renamed if name not in known]:
            groups[RENAMED,] += own
    if alone:
        sizes = [
            f"{plural(len(rows), 'argument')} of {format_bytes(_bytes(rows))} {kind}"
            for kind, rows in sorted(alone.items())
        ]
        names = _labels(row for rows in alone.values() for row in rows)
        yield ArgumentsChanged(
            what=f"{', '.join(sizes)}: {_names_text(names, FEW)}",
            change=REPLACED if len(alone) > 1 else next(iter(alone)),
            names=names,
        )
    before = {label_of(head): label_of(base) for base, head in changes.argument_pairs}
    order = (RESHARDED, RESHAPED, RETYPED, RENAMED)
    for kinds, pairs in sorted(groups.items(), key=lambda item: -len(item[1])):
        names = frozenset(name for name, _ in pairs)
        texts = Counter(texts for _, texts in pairs).most_common(1)[0][0]
        number = plural(len(names), "argument")
        yield ArgumentsChanged(
            what=f"{number} {' and '.join(texts)}: {_names_text(names, 2)}",
            change=min(kinds, key=order.index),  # the gravest
            is_renamed=RENAMED in kinds,
            names=names,
            affected=frozenset(before.get(name, name) for name in names),
        )


def _labels(rows: Iterable[EntryRow]) -> frozenset[str]:
    return frozenset(label_of(one) for row in rows if (one := row.head or row.base))


def _names_text(names: Iterable[str], most: int) -> str:
    return listed(sorted(names, key=lambda name: (len(name), name)), most)


def _bytes(rows: Iterable[EntryRow]) -> int:
    return sum(abs(row.delta_bytes or 0) for row in rows)


_STATE = re.compile(r"\b(?:mu|nu|m|v|trace|momentum|exp_avg\w*|opt\w*)\b")


def _entry_texts(row: EntryRow) -> Iterator[tuple[str, str]]:
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
        yield RETYPED, f"{types[1]} now, was {types[0]}"
    if len(dims[0]) != len(dims[1]):
        yield RESHAPED, f"reshaped, {shapes[0]} -> {shapes[1]}"
    parts = (base.device_shape, head.device_shape)
    if row.change == RESHARDED:
        pairs = ((base.spec, head.spec), parts, (base.sharding, head.sharding))
        pair = next(((b, h) for b, h in pairs if b and h and b != h), None)
        if pair is not None:
            on_each = " on each device" * (pair == parts)
            is_replicated = parts[0] != parts[1] == head.global_shape
            word = "replicated" if is_replicated else "resharded"
            yield RESHARDED, f"{word}, {pair[0]} -> {pair[1]}{on_each}"
    elif dims[0] == dims[1] and types[0] == types[1] and row.change == RESHAPED:
        yield RESHAPED, f"reshaped, {parts[0]} -> {parts[1]}"


def _renames(changes: Changes) -> Mapping[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for base, head in changes.argument_pairs:
        if names := renamed_component(base.name, head.name):
            found[names].append(label_of(head))
    return found


class DonationChanged(Cause):
    """Results no longer reuse the memory of arguments, or newly do.

    Temporaries change too, so that the total need not change by their size.
    """


def _donations(changes: Changes) -> Iterator[DonationChanged]:
    donations = changes.donations
    for change in ("lost", "gained") if donations is not None else ():
        assert donations is not None
        if names := donations.names_of(change):
            size = format_bytes(donations.bytes_of(change))
            arguments = f"{plural(len(names), 'argument')} of {size}: {listed(names, FEW)}"
            yield DonationChanged(what=f"donation {change} for {arguments}", names=frozenset(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsChanged(Cause):
    """Results were added, removed, resharded, or have other shapes or types."""

    change: str

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
        rows = [row for row, _ in found]
        text = Counter(text for _, text in found).most_common(1)[0][0]
        text = text or f"of {format_bytes(_bytes(rows))} {change}"
        names = _labels(rows)
        what = f"{plural(len(names), 'result')} {text}: {_names_text(names, 2)}"
        yield ResultsChanged(what=what, change=change, names=names)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputationChanged(Cause):
    """Another policy of rematerialisation; numbers of instructions."""

    before: int
    after: int

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain lines without new operations."""
        return isinstance(other, LineChanged) and not changes.is_novel(other)


_MOST_OTHERS = 0.5
"""Largest share of lines with other operations of their own, beside those computed again."""

_BARRIER = "opt-barrier"
_SAVING = _FOLLOWING | {_BARRIER, "dynamic-slice", "dynamic-update-slice", "add"}


def _recomputation(changes: Changes) -> Iterator[RecomputationChanged]:
    program = changes.program
    before, after = (0, 0) if program is None else program.recomputed
    if before == after or program is None or program.loop is not None:
        return
    pure, others = [], 0
    for source, edits in program.lines.items():
        if source is not None and any(edits.again.values()):
            nets = edits.nets - _SAVING
            pure += [] if nets or source in program.new or source in program.gone else [source]
            others += bool(nets)
    is_all = not before or not after
    if not is_all and (not pure or others > _MOST_OTHERS * len(pure)):
        return
    if is_all and not pure and (program.new or program.gone):
        return
    most, is_fewer = max(before, after), after < before
    number = plural(most if is_all else abs(before - after), "instruction")
    if is_all:
        way = f"{number} {'not ' * is_fewer}computed again"
        what = f"rematerialisation {'gone' if is_fewer else 'new'}: {way}"
    else:
        way = f"{number} {'no longer' if is_fewer else 'newly'} computed again of {most}"
        what = f"rematerialisation policy changed: {way}"
    rows = [row for row in changes.rows if row.recomputed]
    rows.sort(
        key=lambda r: (
            _BARRIER not in changes.edits(r.source).nets,
            *(-abs(r.recomputed or 0), r.source or ""),
        )
    )
    sources = tuple(row.source for row in rows if row.source is not None)
    yield RecomputationChanged(what=what, sources=sources, before=before, after=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopsChanged(Cause):
    """Operations are in another loop than before, or their loop runs another number of times."""

    loop: LoopChange

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain lines without new operations, and annotations in the loop."""
        if isinstance(other, LineChanged):
            return not changes.is_novel(other)
        return isinstance(other, ResultsChanged) and other.change not in (ADDED, REMOVED)


def _loops(changes: Changes) -> Iterator[LoopsChanged]:
    program = changes.program
    loop = None if program is None else program.loop
    if program is None or loop is None:
        return
    trips, after, is_into = loop.trips, loop.trips_after, loop.kind == INTO
    if loop.kind == TRIPS:
        what = f"loop of {after} iterations, was {trips}"
    elif loop.kind == UNROLLED:
        rest = f"; {after} iterations are left" if after != trips else ""
        what = f"loop unrolled: its body appears {trips} times{rest}"
    elif loop.kind == SCANNED:
        what = f"operations that appeared {trips} times are the body of a loop now"
    elif loop.is_step:
        way = "runs in a loop of" if is_into else "no longer runs in a loop of"
        what = f"the step {way} {trips} microbatches (gradient accumulation)"
    else:
        way = f"moved {'into' if is_into else 'out of'} a loop of"
        what = f"{plural(len(loop.lines), 'line')} {way} {trips} iterations"
    yield LoopsChanged(what=what, sources=program.loop_lines, loop=loop)


class MovedOutOfJit(Cause):
    """Operations that the other side has in another module."""

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain all lines, and the arguments and results that went with them."""
        return not isinstance(other, ToolsChanged | MeshChanged | Resized | MovedOutOfJit)


_LEAST_MOVED = 0.5


def moved_operations(
    program: ProgramLines, module: str, opcodes: Counter[str], *, is_out: bool
) -> MovedOutOfJit | None:
    """Return that the operations of a module of one side alone were, or are, in another module."""
    kind, way, has = ("removed", "out of", "has") if is_out else ("added", "into", "had")
    moved = sum((edits.net(kind) for edits in program.lines.values()), Counter[str]()) & opcodes
    if moved.total() < max(2, _LEAST_MOVED * opcodes.total()):
        return None
    text = f"moved {way} this jit: module {module} {has} the operations: {opcodes_text(moved)}"
    return MovedOutOfJit(what=text)


class LineChanged(Cause):
    """Lines whose instructions changed by themselves."""

    @property
    def is_constraint_alone(self) -> bool:
        return self.what.startswith(CONSTRAINT)

    def explains(self, other: Cause, changes: Changes) -> bool:
        """Explain lines that adapt to its values, and results."""
        if isinstance(other, ResultsChanged):
            is_own = other.change not in (ADDED, REMOVED) or isinstance(self, Retyped)
            return is_own or not all(map(changes.is_following, self.sources))
        if not isinstance(other, LineChanged):
            return False
        is_same = other.what == self.what and self.is_constraint_alone
        return is_same or changes.follows(other, *self.sources)


class Retyped(LineChanged):
    """Activations, logits or other values have another element type, from some lines on."""


Typed: TypeAlias = "dict[tuple[str, str], list[str]]"


def _retyped(changes: Changes) -> Iterator[Retyped]:
    flow = changes.flow
    sources = _typed_roots(changes) if flow.is_known else _typed_lines(changes)
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
        yield Retyped(sources=tuple(lines), what=text, reached=reached - {*lines})


def _typed_roots(changes: Changes) -> Typed:
    found: Typed = defaultdict(list)
    flow = changes.flow
    for source in flow.roots:
        types: Counter[tuple[str, str]] = Counter()
        for line in (source, *flow.reached[source]):
            types += changes.edits(line).types
        is_other = source == ARGUMENTS or _constraint_text(changes.edits(source), ())
        if types and changes.is_following(source) and not is_other:
            found[types.most_common(1)[0][0]].append(source)
    return found


def _typed_lines(changes: Changes) -> Typed:
    found: Typed = defaultdict(list)
    for source in [] if changes.entries("parameter") else _sources_by_bytes(changes):
        edits = changes.edits(source)
        if 2 * edits.changes_of(TYPE) > edits.count - abs(edits.recomputed):
            found[edits.types.most_common(1)[0][0]].append(source)
    return found


def _sources_by_bytes(changes: Changes) -> list[str]:
    rows = sorted(changes.rows, key=lambda r: (-abs(r.delta_peak_bytes or 0), -r.count))
    return [row.source for row in rows if row.source is not None]


class Reshaped(LineChanged):
    """Values have dimensions of other sizes, which no argument has: heads, groups, chunks."""


def _reshaped(changes: Changes) -> Iterator[Reshaped]:
    flow = changes.flow
    found: dict[str, set[tuple[int, int]]] = {}
    for source in flow.roots:
        edits = changes.edits(source)
        shapes = [
            (_sizes_of(base), _sizes_of(head))
            for what, base, head in edits.changes
            if what == SHAPE
        ]
        pairs = {
            (before, after)
            for one, other in shapes
            if len(one) == len(other)
            for before, after in zip(one, other, strict=True)
            if before != after
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
        yield Reshaped(sources=tuple(sources), what=f"{kind} {text}", reached=reached)


def _sizes_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text))) if re.match(r"\[[\d,]+\]$", text) else ()


def _lines(changes: Changes) -> Iterator[LineChanged]:
    program, flow = changes.program, changes.flow
    if program is None:
        return
    annotations = () if changes.shardings is None else changes.shardings.annotations
    if flow.is_known:
        sources = [line for line in flow.roots if line != ARGUMENTS]
    else:
        rows, others = {row.source: row for row in changes.rows}, bool(changes.entries("parameter"))
        sources = [
            one
            for one in _sources_by_bytes(changes)
            if one in program.lines and _is_own(program.lines[one], rows[one], others)
        ]
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
            yield LineChanged(sources=(source,), what=text, reached=reached)


_TRANSFERS = frozenset({"copy-start", "copy-done", "slice-start", "slice-done"})
_AROUND_TRANSFERS = frozenset({"bitcast", "copy", "custom-call", "fusion"})
"""Opcodes that come and go with the transfers of a value in parts."""


def _is_own(edits: LineEdits, row: LineRow, has_others: bool) -> bool:
    """Return whether a line of a text from after optimizations changed by itself."""
    started = edits.nets & _TRANSFERS
    is_transfer = started and edits.nets - started <= _AROUND_TRANSFERS  # of the compiler
    if is_transfer and not edits.changes_of(TYPE, OPCODE, SHAPE):
        return False
    names = {what for what, _, _ in edits.changes}.union(*edits.opcodes.values())
    if 2 * edits.changes_of(TYPE, OPCODE) > edits.count - abs(edits.recomputed):
        return not has_others
    return CONSTRAINT in names or not (row.is_small or (has_others and edits.follows))


def _constraint_text(edits: LineEdits, annotations: Sequence[ShardingRow]) -> str:
    if edits.changes_of(CONSTRAINT):
        rows = [row for row in annotations if row.change not in (ADDED, REMOVED)]
        specs = {(row.base_spec, row.head_spec) for row in rows}
        pair = next(iter(specs)) if len(specs) == 1 else None
        return f"{CONSTRAINT} {pair[0]} -> {pair[1]}" if pair else f"{CONSTRAINT} changed"
    for kind, word, change in (("added", "added", ADDED), ("removed", "dropped", REMOVED)):
        others = edits.net(kind)
        if others.pop(CONSTRAINT, 0):
            rows = [row for row in annotations if row.change == change]
            found = {row.head_spec or row.base_spec for row in rows}
            spec = f" {next(iter(found))}" if len(found) == 1 else ""
            rest = f"; {opcodes_text(others)} {kind}" if others else ""
            return f"{CONSTRAINT}{spec} {word}{rest}"
    return ""


FINDERS: tuple[Callable[[Changes], Iterable[Cause]], ...] = (
    _tools,
    lambda changes: changes.moved,
    _mesh,
    _resized,
    _arguments,
    _recomputation,
    _loops,
    _retyped,
    _reshaped,
    _lines,
    _results,
    _donations,
)
