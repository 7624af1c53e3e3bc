"""Page of ``hlo-lens ls``: modules in groups, compiles, processes."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.load.module import SkippedFiles
from hlo_lens.program.summary import CUT
from hlo_lens.questions.dumps.groups import (
    DIFFERENT,
    MISSING,
    MOST_MEMORY,
    SAME,
    STEP,
    UNKNOWN,
    AcrossProcesses,
    ModuleGroup,
    ModuleGroups,
    across_processes,
    module_groups,
)
from hlo_lens.questions.memory.results import MOST_ESTIMATED
from hlo_lens.render.result import columns_of, rows_of
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.render.to_json import envelope
from hlo_lens.text.names import shell_word
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
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.load.module import Dump, ModuleDump
    from hlo_lens.questions.dumps.listing import ListingFacts
    from hlo_lens.render.result import Row

_PROBLEMS_SHOWN = 5

_ORDERS = {
    "peak": "largest peak first",
    "size": "most instructions first",
    "flops": "most arithmetic first",
    "name": "by name",
}


class ListedModules(NamedTuple):
    """Subject of the HTML page of a listing.

    Attributes:
        rows: Module of each row, and the number of its instructions.
    """

    rows: Sequence[tuple[ModuleDump, int | None]]


def ls_report(
    dump: Dump,
    modules: Sequence[ModuleDump],
    facts: Sequence[ListingFacts],
    *,
    sort: str = "peak",
    is_grouped: bool = True,
) -> Report:
    """Return the report that lists some modules of a dump."""
    groups = module_groups(facts, sort=sort, is_grouped=is_grouped)
    across = across_processes(facts) if len(groups.processes) > 1 else None
    odd = () if across is None else tuple(_difference_notes(across, dump.path))
    shown = (
        *("mark", "name"),
        *(("process",) if len(groups.processes) > 1 else ()),
        *("total_bytes", "peak_bytes", "flops", "instructions"),
        *(("compiles", "signatures") if is_grouped else ("number",)),
        "stages",
        *(("passes",) if any(module.passes for module in facts) else ()),
        "files",
    )
    tables = [modules_table(groups, f"Modules, {_ORDERS[sort]}", shown)]
    if across is not None:
        places = "processes" if across.are_processes else "folders"
        title = f"The same program in all {places}?"
        is_same = across.count(SAME) == len(across.programs)
        tables.append(Table.of(across, title=title, is_data_only=is_same))
    if dump.skipped:
        columns = columns_of(SkippedFiles)
        rows = [*rows_of(dump.skipped, columns)]
        title = "Files that are no texts of a module"
        tables.append(table_of("skipped", title, columns, rows, is_data_only=True))
    section = Section(
        title=dump.path,
        facts=tuple(_facts(dump, facts, groups, across)),
        tables=tuple(replace(table, module_column="name") for table in tables),
        notes=(*odd, *_notes(facts, groups)),
    )
    marks = {id(group.largest): group.mark for group in groups.groups if group.mark}
    data = envelope(
        "ls",
        path=dump.path,
        files=dump.files,
        skipped=[asdict(skipped) for skipped in dump.skipped],
        groups=groups.objects(),
        modules=[{**asdict(one), "mark": marks.get(id(one))} for one in facts],
        across_processes=None
        if across is None
        else {**across.to_dict(), "are_processes": across.are_processes, "notes": list(odd)},
    )
    dumps = dict(zip(map(id, facts), modules, strict=True))
    subject = ListedModules([(dumps[id(g.largest)], g.largest.instructions) for g in groups.groups])
    return Report(kind="ls", sections=(section,), data=data, subject=subject)


# ---- the head -----------------------------------------------------------------------------------


def _facts(
    dump: Dump,
    facts: Sequence[ListingFacts],
    groups: ModuleGroups,
    across: AcrossProcesses | None,
) -> Iterator[tuple[str, str]]:
    cut = [module.key for module in facts if module.is_cut]
    if cut:
        yield "cut", f"{listed(cut, _PROBLEMS_SHOWN)}: {CUT}"
    names = len({group.name for group in groups.groups})
    yield "modules", f"{plural(len(facts), 'module')} of {plural(names, 'name')}"
    skipped = ", ".join(f"{a.kind} ({format_count(a.count)})" for a in dump.skipped)
    read = plural(dump.files, "file")
    yield "files", f"{read}; skipped: {skipped}" if skipped else read
    step = groups.lead
    if step is not None and step.mark == STEP:
        yield "step", _step_text(step, groups)
    if across is not None:
        folders = f"{len(across.processes)}: {listed(across.processes, 4)}"
        if across.are_processes:
            yield "processes", folders
        else:
            yield "folders", f"{folders}; compared as if they were processes of one job"
        yield "same on all" if across.are_processes else "same in all", "; ".join(_verdicts(across))


def _step_text(step: ModuleGroup, groups: ModuleGroups) -> str:
    top = step.largest
    parts = [step.name if top.number is None else f"{step.name} (module_{top.number:04})"]
    if top.total_bytes is not None:
        total = Amount(top.total_bytes, Kind.ESTIMATE if top.is_estimated else Kind.EXACT)
        parts.append(f"{total.text(format_bytes)} needed")
    if top.flops is not None or top.flops_at_least:
        parts.append(_flops_amount(top).text(flops_text))
    larger = [g for g in groups.groups if g.mark == MOST_MEMORY and g.process == step.process]
    why = "the most arithmetic" if larger else "the largest module"
    where = "" if len(groups.processes) == 1 else f" of {step.process or 'its folder'}"
    beside = f"; {larger[0].name} is larger, without products" if larger else ""
    return f"{', '.join(parts)}; {why}{where}{beside}"


def _flops_amount(module: ListingFacts) -> Amount:
    if module.flops is None:
        return Amount(module.flops_at_least or 0, Kind.AT_LEAST)
    return Amount(module.flops, Kind.AT_MOST if module.flops_is_at_most else Kind.EXACT)


def _verdicts(across: AcrossProcesses) -> Iterator[str]:
    words = {
        SAME: "the same",
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


def _difference_notes(across: AcrossProcesses, path: str) -> Iterator[str]:
    program = next((one for one in across.programs if one.modules), None)
    if program is not None and program.odd is not None:
        folders = [str(Path(path, folder)) for folder in (program.having[0], program.odd)]
        if all(Path(folder).exists() for folder in folders):
            words = " ".join(map(shell_word, (*folders, "--module", program.name)))
            yield f"what differs in {program.name}: hlo-lens diff {words}"


# ---- tables -------------------------------------------------------------------------------------


def modules_table(groups: ModuleGroups, title: str, shown: Sequence[str]) -> Table:
    """Return the table of modules, with a mark before flops that are an upper bound."""
    place = groups.place_of("flops")

    def shown_rows() -> Iterator[Row]:
        for group, row in zip(groups.groups, groups.rows(), strict=True):
            flops = row[place]
            if flops is not None and group.largest.flops_is_at_most:
                flops = _flops_amount(group.largest).text(format_flops)
            yield (*row[:place], flops, *row[place + 1 :])

    return replace(Table.of(groups, title=title, shown=shown), read_shown=shown_rows)


# ---- notes --------------------------------------------------------------------------------------


def estimate_notes(facts: Iterable[ListingFacts]) -> Iterator[str]:
    """Yield the note that counts the modules whose memory is an estimate, if there are any."""
    count = sum(module.is_estimated for module in facts)
    if count:
        yield f"memory of {plural(count, 'module')} is an estimate: there is no buffer assignment"


def _notes(facts: Sequence[ListingFacts], groups: ModuleGroups) -> Iterator[str]:
    bad = [module for module in facts if module.problem]
    for module in bad[:_PROBLEMS_SHOWN]:
        yield f"{module.key}: {module.problem}"
    if len(bad) > _PROBLEMS_SHOWN:
        yield f"{len(bad) - _PROBLEMS_SHOWN} more modules have problems"
    gaps = [module.gaps for module in facts if module.gaps]
    if gaps:
        count = f"{plural(sum(gaps), 'gap')} in {plural(len(gaps), 'module')}"
        yield f"{count}; hlo-lens report shows where"
    left_out = sum(module.is_estimate_left_out for module in facts)
    if left_out:
        yield (
            f"memory of {plural(left_out, 'module')} of more than {MOST_ESTIMATED:,} instructions "
            "is not estimated; for an estimate: hlo-lens memory PATH --module NAME"
        )
    yield from estimate_notes(facts)
    undivided = [module for module in facts if module.undivided_devices > 1 and module.flops]
    if undivided:
        names = listed(sorted({module.name for module in undivided}), _PROBLEMS_SHOWN)
        yield (
            f"flops of {names}: before division over {undivided[0].undivided_devices} devices, "
            "because there is no later text"
        )
