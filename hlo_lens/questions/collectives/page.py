"""Page of ``hlo-lens collectives``: facts, groups, single collectives, explanations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.program.origins import INFERRED, is_inferred, marked
from hlo_lens.program.pages import module_head, page_without_hlo, with_marks
from hlo_lens.program.summary import cut_facts
from hlo_lens.program.trip_counts import trips_text
from hlo_lens.questions.collectives.collective import (
    COUNT,
    RING,
    UNCOVERED,
    Collective,
    Collectives,
    axis_text,
    collectives,
    known_sum,
    times_text,
)
from hlo_lens.questions.collectives.explanation import asked_collectives, explain_collectives
from hlo_lens.questions.collectives.loop_levels import KIND_AND_AXIS, collectives_by, loops
from hlo_lens.questions.sharding.mesh_axes import meshes_text
from hlo_lens.render.result import facts_object
from hlo_lens.render.table import Section, Table
from hlo_lens.render.to_json import ModulePage, RowObjects
from hlo_lens.render.to_text import without_arguments
from hlo_lens.text.units import (
    Amount,
    Kind,
    format_bytes,
    format_count,
    format_ratio,
    listed,
    plural,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.explanation import Why
    from hlo_lens.questions.collectives.loop_levels import CollectiveGroup, LoopLevel, Loops
    from hlo_lens.questions.collectives.transfer import DataMovement
    from hlo_lens.render.result import Row


CONVENTION = (
    "wire: bytes that leave each device in the ring algorithm; all-reduce 2(n-1)/n of the payload, "
    "all-gather, reduce-scatter and all-to-all (n-1)/n, collective-permute 1 x share of sources"
)

OVERLAP = (
    "overlap: the share of a transfer that work between start and end can cover, at most, 2 bytes "
    "or 50 FLOP of work for each byte on the wire; exposed: less than all of it"
)


def pages(
    modules: Iterable[ModuleDump],
    *,
    by: str | None = None,
    is_dynamic: bool = True,
    why: str | None = None,
) -> Iterator[ModulePage]:
    """Yield the page on the collectives of each module, or on the reasons for some of them.

    `by` is the kind of groups; None for kind and axis. Bytes are those of one run, or of the text.
    `why` names the collectives to explain; None for the page on all.
    """
    for module in modules:
        if not module.has_hlo:
            yield page_without_hlo(module, collectives=None)
            continue
        reasons = () if why is None else explain_collectives(module, why)
        if reasons:
            section = _why_section(module, reasons, why or "")
        elif by == "loop":
            groups = replace(groups_table(module, by, is_dynamic=is_dynamic), is_data_only=True)
            section = _loops_section(module)
            section = replace(section, tables=(*section.tables, groups))
        else:
            section = _section(module, by, is_dynamic)
        yield ModulePage(
            sections=(section,),
            make_object=partial(_object, module, by, is_dynamic, reasons),
        )


def _object(
    known: ModuleDump, by: str | None, is_dynamic: bool, reasons: Sequence[Why]
) -> Mapping[str, object]:
    table = collectives(known)
    groups = collectives_by(table.collectives, by or KIND_AND_AXIS, is_dynamic=is_dynamic)
    why = [
        {
            "name": reason.collective.name,
            "because": list(reason.sentences),
            "neighbours": reason.objects(),
        }
        for reason in reasons
    ]
    return {
        **module_head(known),
        "collectives": collectives_object(table),
        "by": by,
        "bytes_of": "run" if is_dynamic else "text",
        "groups": groups.objects(),
        **({"why": why} if why else {}),
    }


def _why_section(known: ModuleDump, reasons: Sequence[Why], name: str) -> Section:
    shown = ("role", "name", "opcode", "shape", "sharding", "op_name")
    return Section(
        title=known.title,
        facts=(
            *cut_facts(known),
            *(fact for reason in reasons for fact in _why_facts(reason)),
            *_others_of_kind(known, name),
        ),
        tables=tuple(
            Table.of(reason, title=f"Neighbours of {reason.collective.name}", shown=shown)
            for reason in reasons
        ),
    )


def _others_of_kind(known: ModuleDump, kind: str) -> Iterator[tuple[str, str]]:
    _, others = asked_collectives(collectives(known), kind)
    if others:
        sized = ((one.name, one.wire_bytes_per_run) for one in others)
        names = [n if size is None else f"{n} {format_bytes(size)}" for n, size in sized]
        yield "others", f"{plural(len(others), f'other {kind}')}: {listed(names, _OTHERS_SHOWN)}"


_OTHERS_SHOWN = 12


def _section(known: ModuleDump, by: str | None, is_dynamic: bool) -> Section:
    found = collectives(known)
    listed = [groups_table(known, by or KIND_AND_AXIS, is_dynamic=is_dynamic)]
    if by is None:
        listed.append(collectives_table(found, is_dynamic=is_dynamic))
    return Section(
        title=known.title,
        facts=tuple(_facts(known)),
        tables=(*listed, *movement_tables(found.movement)),
        notes=tuple(collectives_notes(found)),
    )


def _facts(known: ModuleDump) -> Iterator[tuple[str, str]]:
    found = collectives(known)
    yield from cut_facts(known)
    if known.stage:
        yield "stage", known.stage
    if found.collectives:
        yield "mesh", meshes_text(found.meshes) or "not known; name it with --mesh data=4,model=2"
    yield "collectives", collectives_text(known)
    loops = found.trips.loops
    if loops:
        counted = sum(loop.trip_count is not None for loop in loops)
        all_or_some = "all" if counted == len(loops) else f"{counted:,} of the"
        yield "loops", f"{len(loops):,}, {all_or_some} trip counts known"


_CUT = "ends before the end of the entry"


def collectives_text(known: ModuleDump, kinds: str = "") -> str:
    """Return the number of collectives in the text and in one run, their bytes, and exposure.

    `kinds` has the numbers of each kind in the text; empty to leave them out.
    """
    found = collectives(known)
    if not found.collectives:
        return "none" if found.is_complete else f"none before the end of the text, which {_CUT}"
    one = len(found.collectives)
    parts = [f"{one:,} in the text ({kinds})" if kinds else f"{one:,} in the text"]
    if found.is_complete:
        runs, wire = known_sum(found.collectives, COUNT), found.known_wire_bytes
        is_open = any(c.dynamic_count is None for c in found.collectives)
        size = wire.amount.text(format_bytes)
        as_known = "" if found.wire_bounds is not None else " as far as known"
        parts.append(f"{runs.amount}{' + x?' * is_open} in one run")
        parts.append(f"{size} on the wire per device{as_known}")
    else:
        parts.append(f"not known how many in one run: the text {_CUT}")
    judged = [c for c in found.collectives if c.is_exposed is not None and not c.moves_nothing]
    if judged:
        exposed = sum(c.is_exposed is True for c in judged)
        kind, of = Kind.AT_LEAST if exposed < len(judged) else Kind.EXACT, f"of {len(judged):,}"
        surely = f"{Amount(exposed, kind)} {of} exposed"
        parts.append(surely if exposed else f"none {of} surely exposed")
        if kind and exposed:
            uncovered = Amount(known_sum(found.collectives, UNCOVERED).least, kind)
            parts.append(f"{uncovered.text(format_bytes)} not covered by work")
    return ", ".join(parts)


def collectives_notes(found: Collectives) -> Iterator[str]:
    """Yield the notes on the numbers."""
    listed = found.collectives
    if not listed:
        return
    yield CONVENTION
    for holds, text in _MARKS:
        count = sum(holds(collective) for collective in listed)
        if count:
            yield text.format(plural(count, "collective"))
    if any(c.overlap_instructions for c in listed):
        yield OVERLAP
    if not found.is_scheduled:
        yield "the text is not scheduled, so that overlap is not known"
    if any(one.slices is not None and one.slices.is_assumed for one in found.meshes):
        yield (
            "mesh axes as if each slice had consecutive devices of the mesh: there is no device "
            "assignment"
        )
    if found.clones:
        yield f"{plural(found.clones, 'instruction')} left out: parts of counted collectives"


_MARKS: tuple[tuple[Callable[[Collective], bool], str], ...] = (
    (lambda c: c.moves_nothing, "{} over groups of one device: nothing is moved"),
    (
        lambda c: c.dynamic_count is None,
        "{} in loops of unknown trip count (x?): sums of one run leave them out or are blank",
    ),
    (
        lambda c: bool(c.branches),
        "{} in branches that may not be taken (<=): sums count the largest branch of each "
        "conditional",
    ),
    (lambda c: c.is_payload_at_most, "{} of sizes that are data: bytes are upper bounds (<=)"),
    (
        lambda c: c.performed_as == RING,
        "{} performed as a ring of permutes, with a product computed in steps beside them",
    ),
    (
        lambda c: c.crosses_slices,
        "{} between slices, by the multi-slice runtime: a send and a recv are one operation",
    ),
    (
        lambda c: is_inferred(c.origin_basis),
        "{} without a source line: ~ marks an inferred one (hlo-lens help source)",
    ),
)
"""Flags of a collective and the note printed for each."""


def groups_table(known: ModuleDump, by: str = KIND_AND_AXIS, *, is_dynamic: bool = True) -> Table:
    """Return the table of groups of collectives, those that move the most first."""
    groups = collectives_by(collectives(known).collectives, by, is_dynamic=is_dynamic)
    times = "one run" if is_dynamic else "the text, loops not multiplied"
    wire = "wire_bytes_per_run" if is_dynamic else "wire_bytes_per_device"
    shown = ["times" if is_dynamic else "static_count", "payload_bytes", wire, "exposed"]
    first = {
        "kind": ["kind", "axis"],
        "axis": ["axis", "kind"],
        KIND_AND_AXIS: ["kind", "axis", "group_size", "element_type"],
    }.get(by, ["group", "kind", "axis"])
    if not collectives(known).is_scheduled:
        shown.remove("exposed")
    last = ["where"] if by != "source" else []
    title = f"Collectives by {by}, bytes of {times}"
    table = Table.of(groups, title=title, shown=(*first, *shown, *last))
    name = "collectives-by-kind" if by == KIND_AND_AXIS else "collectives-by"
    texts = partial(_group_texts, by=by)
    return replace(_with_texts(table, groups.groups, texts), name=name, kept=(wire,))


R = TypeVar("R")


def _with_texts(
    table: Table, records: Iterable[R], texts_of: Callable[[R], Mapping[str, str | None]]
) -> Table:
    """Return a table that shows texts in place of some cells; None leaves a cell as it is."""

    def rows() -> Iterator[Row]:
        for record in records:
            texts = texts_of(record)
            yield tuple(texts.get(c.name) or getattr(record, c.name) for c in table.columns)

    return replace(table, read_shown=rows)


def _group_texts(group: CollectiveGroup, by: str) -> dict[str, str | None]:
    is_marked = by == "source" and group.is_inferred
    return {
        "axis": axis_text(group.axis),
        "payload_bytes": at_most_text(group.payload_bytes, group.payload_bytes_is_at_most),
        "wire_bytes_per_run": at_most_text(group.wire_bytes_per_run, group.wire_bytes_is_at_most),
        "group": f"{group.group} {INFERRED}" if is_marked else None,
    }


def at_most_text(size: int | None, is_at_most: bool) -> str | None:
    """Return bytes that are an upper bound as text; None for others."""
    amount = Amount(size or 0, Kind.AT_MOST)
    return amount.text(format_bytes) if size is not None and is_at_most else None


def collectives_table(found: Collectives, *, is_dynamic: bool = True) -> Table:
    """Return the table of single collectives, those that move the most first."""

    def measure(one: Collective) -> tuple[bool, int, str]:
        size = one.wire_bytes_per_run if is_dynamic else one.wire_bytes_per_device
        return size is not None, -(size or 0), one.name

    order = sorted(found.collectives, key=measure)
    ordered = replace(found, collectives=tuple(order))

    shown = ["kind", "axis", "element_type", "dynamic_count", "payload_bytes"]
    shown.append("wire_bytes_per_run" if is_dynamic else "wire_bytes_per_device")
    if found.is_scheduled:
        shown.append("covered_ratio")
    table = Table.of(
        ordered,
        title="Single collectives, those that move the most first",
        shown=(*shown, "loop_path", "name", "source", "parameters"),
    )
    is_in_name = all(collective.name.startswith(collective.kind) for collective in order)
    kept = () if is_in_name else ("kind",)
    return replace(_with_texts(table, order, _collective_texts), kept=kept)


def _collective_texts(collective: Collective) -> dict[str, str | None]:
    bound, each = collective.is_at_most, collective.is_payload_at_most
    return {
        "axis": axis_text(collective.axis),
        "dynamic_count": collective.times,
        "payload_bytes": at_most_text(collective.payload_bytes, each),
        "wire_bytes_per_device": at_most_text(collective.wire_bytes_per_device, each),
        "wire_bytes_per_run": at_most_text(collective.wire_bytes_per_run, bound),
        "covered_ratio": _overlap_text(collective),
        "loop_path": " > ".join(collective.loop_path),
        "source": marked(collective.source, collective.origin_basis),
    }


def _overlap_text(collective: Collective) -> str | None:
    if collective.moves_nothing:
        return "moves nothing"
    if collective.overlap_instructions is None:
        return None
    if not collective.overlap_instructions:
        return "exposed"
    ratio = collective.covered_ratio
    return "?" if ratio is None else f"up to {format_ratio(ratio)}"


def movement_tables(movement: DataMovement) -> Iterator[Table]:
    """Yield the table of copies between the memories of device and host, if there are any."""
    if movement.copies:
        table = Table.of(
            movement,
            title="Data movement between the memories of device and host",
            shown=("direction", "size_bytes", "dynamic_count", "loop_path", "name", "source"),
        )
        yield with_marks(
            _with_texts(
                table,
                movement.copies,
                lambda copy: {
                    "dynamic_count": times_text(copy.dynamic_count, is_at_most=copy.is_at_most),
                    "loop_path": " > ".join(copy.loop_path),
                },
            )
        )


def _why_facts(reason: Why) -> Iterator[tuple[str, str]]:
    one, times = reason.collective, reason.collective.times
    yield "collective", f"{one.name}: {one.kind} over {axis_text(one.axis)}"
    size, wire = one.payload_bytes, one.wire_bytes_per_device
    payload = "payload not known" if size is None else f"{one.element_type} {format_bytes(size)}"
    moved = "" if wire is None else f", {format_bytes(wire)} leave each device"
    yield "moves", f"{payload}{moved}, {times} time{'s' * (times != '1')} in one run"
    parts = {
        "loops": " > ".join(one.loop_path),
        "op_name": one.op_name,
        "source": marked(one.source, one.origin_basis),
        "stack": " < ".join(one.stack) if len(one.stack) > 1 else "",
    }
    yield from ((label, text) for label, text in parts.items() if text)
    for number, sentence in enumerate(reason.sentences):
        yield "" if number else "because", sentence


def collectives_object(found: Collectives) -> Mapping[str, object]:
    """Return counts per kind, bytes of one run, all collectives, loops; scripts rely on it."""
    return {
        **facts_object(found.figures),
        "rows": RowObjects(found.COLUMNS, found.collectives),
        "loops": found.trips.objects(),
        "data_movement": found.movement.objects(),
    }


def loop_pages(modules: Iterable[ModuleDump]) -> Iterator[ModulePage]:
    """Yield the page on the loops of each module."""
    for module in modules:
        if not module.has_hlo:
            yield page_without_hlo(module, loops=None)
            continue
        yield ModulePage(
            sections=(_loops_section(module),), make_object=partial(_loops_object, module)
        )


def _loops_object(known: ModuleDump) -> Mapping[str, object]:
    levels = loops(known)
    return {
        **module_head(known),
        "loops": [
            {**row, "collectives": level.groups.objects()}
            for row, level in zip(levels.objects(), levels.levels, strict=True)
        ],
    }


def _loops_section(known: ModuleDump) -> Section:
    levels = loops(known)
    return Section(
        title=known.title,
        facts=tuple(_facts(known)),
        drawing=tuple(tree_lines(levels)),
        tables=(Table.of(levels, title="Loops", is_data_only=True),),
        notes=tuple(loop_notes(levels)),
    )


def loop_notes(levels: Loops) -> Iterator[str]:
    """Yield that there are no loops, and why trip counts are not known."""
    if not levels.levels:
        yield "loops not known: the text has no entry"
    if len(levels.levels) == 1:
        yield "no loops and no conditionals"
    for level in levels.levels:
        if level.kind == "loop" and level.reason:
            trips = trips_text(level.trip_count, level.trips_at_most, format_count)
            yield f"{level.loop} {trips}: {level.reason}"


def tree_lines(levels: Loops) -> Iterator[str]:
    """Yield the levels as a tree: each loop with its trip count, below it its communication."""
    listed = levels.levels

    def has_more(depth: int, later: Sequence[int]) -> bool:  # before its parent ends
        return next((other for other in later if other <= depth), None) == depth

    for place, level in enumerate(listed):
        later = [other.depth for other in listed[place + 1 :]]
        above = range(1, level.depth)
        bars = "".join("│  " if has_more(depth, later) else "   " for depth in above)
        branch, below = ("├─ ", "│  ") if has_more(level.depth, later) else ("└─ ", "   ")
        if not level.depth:
            branch = below = ""
        yield f"{bars}{branch}{_title(level)}".rstrip()
        inside = "│  " if later and later[0] > level.depth else "   "
        for group in level.groups.groups:
            yield f"{bars}{below}{inside}{_line(group, level)}".rstrip()


def _title(level: LoopLevel) -> str:
    if level.kind == "entry":
        return f"{level.loop}  {plural(level.instructions, 'instruction')}"
    if level.kind == "branch":
        at_most = "" if level.times is None else "<= "
        return f"{level.loop} branch {level.branch}, {at_most}{_times(level.times)}"
    trips = trips_text(level.trip_count, level.trips_at_most, format_count)
    nested = level.depth > 1 and level.times not in (None, level.trip_count, level.trips_at_most)
    bound = "at most " * level.is_at_most
    total = f" ({bound}{_times(level.times)} in one run)" if nested else ""
    path = level.op_name and without_arguments(level.op_name)
    origin = " ".join(part for part in (path, marked(level.source, level.origin_basis)) if part)
    return f"{level.loop}  {trips}{total}  {origin}"


def _times(times: int | None) -> str:
    return "x?" if times is None else f"{format_count(times)}x"


def _line(group: CollectiveGroup, level: LoopLevel) -> str:
    kind = Kind.AT_MOST if group.wire_bytes_is_at_most else Kind.EXACT
    size = group.wire_bytes_per_run
    wire = "?" if size is None else Amount(size, kind).text(format_bytes)
    count = format_count(group.static_count)
    each = f"{count} each trip, {group.times} in one run" if level.kind == "loop" else group.times
    where = f"  {group.where}" if group.where else ""
    return f"{group.kind} {axis_text(group.axis)}  {each}, {wire} on the wire{where}"
