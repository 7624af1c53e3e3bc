"""Page of ``hlo-lens ls``: modules in groups, compiles, processes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.questions.dumps.groups import (
    MOST_MEMORY,
    STEP,
    ModuleGroup,
    ModuleGroups,
    module_groups,
)
from hlo_lens.questions.dumps.listing import facts_of
from hlo_lens.questions.dumps.processes import (
    DIFFERENT,
    MISSING,
    SAME,
    SAME_BUT_NAMES,
    UNKNOWN,
    AcrossProcesses,
    ProcessDifference,
    across_processes,
    difference_lines,
    process_difference,
)
from hlo_lens.questions.memory.results import MOST_ESTIMATED
from hlo_lens.render.envelope import envelope
from hlo_lens.render.result import Column, Row, Unit, rows_of
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.text.units import (
    Amount,
    Kind,
    flops_text,
    format_bytes,
    format_count,
    format_flops,
    listed,
    plural,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.load.module import Dump, ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.dumps.listing import ListingFacts

_PROBLEMS_SHOWN = 5
_PROCESSES_SHOWN = 4
_CHANGES_SHOWN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Modules of a dump with their facts, grouped and compared.

    Attributes:
        dump: The dump.
        facts: Facts of each module listed.
        sort: Order of the groups.
        is_grouped: Whether the compiles of one function are one row.
        groups: The modules in groups.
        across: Comparison of several processes; None for one process.
        difference: First difference between processes; None where there is none.
    """

    dump: Dump
    facts: Sequence[ListingFacts]
    sort: str
    is_grouped: bool
    groups: ModuleGroups
    across: AcrossProcesses | None = None
    difference: ProcessDifference | None = None


def list_modules(
    dump: Dump,
    modules: Sequence[ModuleDump],
    *,
    sort: str = "peak",
    is_grouped: bool = True,
    progress: Progress | None = None,
) -> Listing:
    """Return the listing of some modules of a dump.

    Args:
        dump: The dump.
        modules: Those of its modules to list.
        sort: Order of the groups: ``peak``, ``size``, ``flops`` or ``name``.
        is_grouped: Whether the compiles of one function are one row.
        progress: Called with modules done and modules in all.
    """
    facts = facts_of(modules, progress=progress)
    groups = module_groups(facts, sort=sort, is_grouped=is_grouped)
    across = across_processes(facts) if len(groups.processes) > 1 else None
    return Listing(
        dump=dump,
        facts=facts,
        sort=sort,
        is_grouped=is_grouped,
        groups=groups,
        across=across,
        difference=None if across is None else process_difference(across, modules),
    )


def ls_page(listing: Listing) -> Report:
    """Return the report that lists modules."""
    groups, across = listing.groups, listing.across
    odd = () if listing.difference is None else tuple(difference_lines(listing.difference))
    section = Section(
        title=listing.dump.path,
        facts=tuple(_facts(listing)),
        tables=tuple(replace(table, module_column="name") for table in _tables(listing)),
        notes=(*odd, *_notes(listing.facts, groups)),
    )
    data = envelope(
        "ls",
        path=listing.dump.path,
        files=listing.dump.files,
        skipped=[asdict(aside) for aside in listing.dump.skipped],
        groups=groups.to_dict()["rows"],
        modules=[_object(facts, groups) for facts in listing.facts],
        across_processes=None
        if across is None
        else {**across.to_dict(), "are_processes": across.are_processes, "notes": list(odd)},
    )
    return Report(kind="ls", sections=(section,), data=data)


def _object(facts: ListingFacts, groups: ModuleGroups) -> Mapping[str, object]:
    """Return the JSON object of one module, with the mark of its group if it is the largest."""
    mark = next((g.mark for g in groups.groups if g.mark and g.largest is facts), None)
    signature = None if facts.signature is None else list(facts.signature)
    return {**asdict(facts), "signature": signature, "mark": mark}


# ---- the head -----------------------------------------------------------------------------------


def _facts(listing: Listing) -> Iterator[tuple[str, str]]:
    dump, groups, across = listing.dump, listing.groups, listing.across
    names = len({group.name for group in groups.groups})
    yield "modules", f"{plural(len(listing.facts), 'module')} of {plural(names, 'name')}"
    aside = ", ".join(f"{a.kind} ({format_count(a.count)})" for a in dump.skipped)
    read = plural(dump.files, "file")
    yield "files", f"{read}; skipped: {aside}" if aside else read
    step = groups.lead
    if step is not None and step.mark == STEP:
        where = "" if len(groups.processes) == 1 else f" of {step.process or 'its folder'}"
        number = step.largest.number
        name = step.name if number is None else f"{step.name} (module_{number:04})"
        larger = [g for g in groups.groups if g.mark == MOST_MEMORY and g.process == step.process]
        why = "the most arithmetic" if larger else "the largest module"
        beside = f"; {larger[0].name} is larger, without products" if larger else ""
        yield "step", f"{name}{_measures(step)}; {why}{where}{beside}"
    if across is not None:
        folders = f"{len(across.processes)}: {listed(across.processes, _PROCESSES_SHOWN)}"
        if across.are_processes:
            yield "processes", folders
        else:
            yield "folders", f"{folders}; compared as if they were processes of one job"
        yield "same on all" if across.are_processes else "same in all", "; ".join(_verdicts(across))


def _measures(group: ModuleGroup) -> str:
    top = group.largest
    parts = []
    if top.total_bytes is not None:
        total = Amount(top.total_bytes, Kind.ESTIMATE if top.is_estimated else Kind.EXACT)
        parts.append(f"{total.text(format_bytes)} must fit")
    if top.flops is not None:
        parts.append(f"{'at most ' * top.flops_is_at_most}{flops_text(top.flops)}")
    elif top.flops_at_least:
        parts.append(f"at least {flops_text(top.flops_at_least)}")
    return f", {', '.join(parts)}" if parts else ""


def _verdicts(across: AcrossProcesses) -> Iterator[str]:
    """Yield the number of programs of each verdict, with an example."""
    words = {
        SAME: "the same",
        SAME_BUT_NAMES: "the same up to names",
        MISSING: "not in all processes" if across.are_processes else "not in all folders",
        DIFFERENT: "DIFFERENT",
        UNKNOWN: "not known",
    }
    for verdict, word in words.items():
        count = across.count(verdict)
        if count:
            odd = next(p for p in across.programs if p.verdict == verdict)
            name = f" ({odd.name} in {odd.odd})" if odd.odd and verdict != SAME else ""
            yield f"{plural(count, 'program')} {word}{name}"


# ---- tables -------------------------------------------------------------------------------------


def _tables(listing: Listing) -> Iterator[Table]:
    groups, across = listing.groups, listing.across
    has_processes = len(groups.processes) > 1
    has_passes = any(facts.passes for facts in listing.facts)
    shown = (
        "mark",
        "name",
        *(("process",) if has_processes else ()),
        "total_bytes",
        "peak_bytes",
        "flops",
        "instructions",
        *(("compiles", "signatures") if listing.is_grouped else ("number",)),
        "stages",
        *(("passes",) if has_passes else ()),
        "files",
    )
    yield modules_table(groups, f"Modules, {_ORDERS[listing.sort]}", shown)
    retraced = [g for g in groups.groups if len(g.modules) > 1] if listing.is_grouped else []
    if retraced:
        yield _retraces(retraced)
    if across is not None:
        yield Table.of(
            across,
            title=f"The same program in all {'processes' if across.are_processes else 'folders'}?",
            is_data_only=across.count(SAME) == len(across.programs),
        )
    if listing.dump.skipped:
        yield _skipped(listing.dump)


def modules_table(groups: ModuleGroups, title: str, shown: Sequence[str]) -> Table:
    """Return the table of modules, ``<=`` before flops that are an upper bound."""
    place = groups.place_of("flops")

    def shown_rows() -> Iterator[Row]:
        for group, row in zip(groups.groups, groups.rows(), strict=True):
            flops = group.largest.flops
            is_bound = flops is not None and group.largest.flops_is_at_most
            text = f"<={format_flops(flops or 0)}" if is_bound else flops
            yield (*row[:place], text, *row[place + 1 :])

    return replace(Table.of(groups, title=title, shown=shown), read_shown=shown_rows)


_ORDERS = {
    "peak": "largest peak first",
    "size": "most instructions first",
    "flops": "most arithmetic first",
    "name": "by name",
}

_RETRACE_COLUMNS = (
    Column("name", Unit.NONE, "name of the module"),
    Column("process", Unit.NONE, "folder of the process that compiled it"),
    Column("compiles", Unit.COUNT, "compiles for these shapes"),
    Column("differs", Unit.NONE, "parameters whose shapes are not those of the first compile"),
    Column("parameters", Unit.NONE, "shapes of all parameters"),
)


def _retraces(groups: Sequence[ModuleGroup]) -> Table:
    rows: list[Row] = [
        (group.name, group.process, count, _changes(group, shapes), shapes)
        for group in groups
        for shapes, count in group.signatures
    ]
    return table_of(
        "retraces",
        "Functions compiled more than once, by the shapes of their parameters",
        _RETRACE_COLUMNS,
        rows,
        shown=("name", "compiles", "differs"),
    )


def _changes(group: ModuleGroup, shapes: tuple[str, ...]) -> str:
    first = group.signatures[0][0]
    if shapes == first:
        return f"{plural(len(shapes), 'parameter')}, first compile"
    if len(shapes) != len(first):
        return f"{len(shapes)} parameters instead of {len(first)}"
    pairs = enumerate(zip(first, shapes, strict=True))
    return listed([f"{k}: {a} -> {b}" for k, (a, b) in pairs if a != b], _CHANGES_SHOWN)


_SKIPPED_COLUMNS = (
    Column("kind", Unit.NONE, "kind of file"),
    Column("count", Unit.COUNT, "number of files"),
    Column("example", Unit.NONE, "path of the first file"),
)


def _skipped(dump: Dump) -> Table:
    rows = [*rows_of(dump.skipped, _SKIPPED_COLUMNS)]
    title = "Files that are no texts of a module"
    return table_of("skipped", title, _SKIPPED_COLUMNS, rows, is_data_only=True)


# ---- notes --------------------------------------------------------------------------------------


def estimate_notes(facts: Iterable[ListingFacts]) -> Iterator[str]:
    """Yield the note that counts the modules whose memory is an estimate, if there are any."""
    count = sum(one.is_estimated for one in facts)
    if count:
        yield f"memory of {plural(count, 'module')} is an estimate: there is no buffer assignment"


def _notes(facts: Sequence[ListingFacts], groups: ModuleGroups) -> Iterator[str]:
    bad = [one for one in facts if one.problem]
    for one in bad[:_PROBLEMS_SHOWN]:
        yield f"{one.key}: {one.problem}"
    if len(bad) > _PROBLEMS_SHOWN:
        yield f"{len(bad) - _PROBLEMS_SHOWN} more modules have problems"
    gaps = [one for one in facts if one.gaps]
    if gaps:
        total = sum(one.gaps for one in gaps)
        where = plural(len(gaps), "module")
        yield f"{plural(total, 'gap')} in {where}; hlo-lens report shows where"
    left_out = sum(one.is_estimate_left_out for one in facts)
    if left_out:
        yield (
            f"memory of {plural(left_out, 'module')} of more than {MOST_ESTIMATED:,} instructions "
            "is not estimated; for an estimate: hlo-lens memory PATH --module NAME"
        )
    yield from estimate_notes(facts)
    if any(g.largest.flops is None and g.largest.flops_at_least is not None for g in groups.groups):
        yield (
            "flops are empty where a loop's trip count, a shape, a custom call or an opcode is "
            "unknown"
        )
    undivided = [one for one in facts if one.undivided_devices > 1 and one.flops]
    if undivided:
        names = listed(sorted({one.name for one in undivided}), _PROBLEMS_SHOWN)
        yield (
            f"flops of {names}: before division over {undivided[0].undivided_devices} devices, "
            "because there is no later text"
        )
    opaque = sum(one.opaque for one in facts)
    if opaque:
        yield f"{plural(opaque, 'custom call')} of unknown arithmetic"
