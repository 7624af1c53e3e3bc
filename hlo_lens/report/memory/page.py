"""Memory of modules for people and for scripts: statement, peak, groups, timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.memory.grouping import memory_by
from hlo_lens.analysis.memory.layout import DEFAULT_SPACE
from hlo_lens.analysis.memory.op_tree import memory_tree
from hlo_lens.analysis.memory.results import at_instant, memory_results
from hlo_lens.analysis.memory.statement import space_name
from hlo_lens.analysis.memory.timeline import memory_timeline
from hlo_lens.analysis.program.backend import backend_of_dump
from hlo_lens.analysis.result import row_objects
from hlo_lens.report.memory.facts import memory_facts, memory_notes
from hlo_lens.report.memory.objects import memory_object, peak_object, timeline_object
from hlo_lens.report.memory.single_texts import texts_alone
from hlo_lens.report.memory.tables import (
    groups_table,
    peak_table,
    statement_tables,
    timeline_tables,
    tree_table,
)
from hlo_lens.report.render.envelope import SCHEMA_VERSION
from hlo_lens.report.render.table import Report, Section, Table
from hlo_lens.text.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.memory.peak import PeakMemory
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.model.dump import ModuleDump


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """What ``hlo-lens memory`` shows.

    Attributes:
        by: What the bytes are grouped by; None for the values themselves.
        at: ``peak``, a number or an instruction.
        color: Memory space.
        timeline: Whether to show the occupied bytes over the schedule.
    """

    by: str | None = None
    at: str = "peak"
    color: int = DEFAULT_SPACE
    timeline: bool = False


def memory_report(
    modules: Sequence[ModuleDump],
    view: MemoryView,
    *,
    tool_version: str,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Return the report on the memory of some modules.

    Raises:
        DumpMismatchError: If texts of one module contradict one another.
        UnknownNameError: If the schedule does not have what `view.at` names.
    """
    sections: list[Section] = []
    objects: list[Mapping[str, object]] = []
    for done, dump in enumerate(modules):
        if progress is not None and len(modules) > 1:
            progress(done, len(modules))
        results = memory_results(dump, backend=backend_of_dump(dump))
        alone = tuple(texts_alone(dump)) if results is None else ()
        sections.extend(alone or (_section(dump, results, view),))
        objects.append(_object(dump, results, view))
    data = {
        "schema_version": SCHEMA_VERSION,
        "kind": "memory",
        "tool_version": tool_version,
        "modules": objects,
    }
    return Report(kind="memory", sections=tuple(sections), data=data)


# ---- for scripts -------------------------------------------------------------------------------


def _object(
    dump: ModuleDump, results: MemoryResults | None, view: MemoryView
) -> Mapping[str, object]:
    found: dict[str, object] = {
        "name": dump.title,
        "stage": dump.stage,
        "files": list(dump.files),
        "memory": memory_object(results),
    }
    if results is None:
        return found
    _check_space(results, view)
    instant = _instant(results, view)
    instant = _instant(results, view)
    found["instant"] = None if instant is None else peak_object(instant)
    if view.by is not None and instant is not None:
        groups = memory_by(instant, view.by)
        found["groups"] = row_objects(groups.COLUMNS, groups.all_rows())
        if view.by == "op":
            found["tree"] = memory_tree(groups).objects()
    if view.timeline and (timeline := memory_timeline(results.layout, color=view.color)):
        found["timeline"] = timeline_object(timeline)
    return found


# ---- for people --------------------------------------------------------------------------------


def memory_tables(results: MemoryResults) -> Iterator[Table]:
    """Yield the tables of the first page: memory spaces, values at the peak, source lines."""
    yield from statement_tables(results)
    if results.peak is not None:
        yield peak_table(results, results.peak)
        by = memory_by(results.peak, "source")
        yield Table.of(by, title="Bytes at the peak by source line")


def _instant(results: MemoryResults, view: MemoryView) -> PeakMemory | None:
    if view.at == "peak" and view.color == DEFAULT_SPACE:
        return results.peak
    return at_instant(results, view.at, color=view.color)


def _section(dump: ModuleDump, results: MemoryResults | None, view: MemoryView) -> Section:
    if results is None:
        return Section(title=dump.title, notes=_no_memory(dump))
    _check_space(results, view)
    tables: list[Table] = [*statement_tables(results)]
    peak = _instant(results, view)
    if view.timeline:
        timeline = memory_timeline(results.layout, color=view.color)
        if timeline is not None:
            tables.extend(timeline_tables(timeline, space_name(view.color, results.backend)))
    if peak is not None and view.by == "op":
        tables.append(tree_table(peak, memory_tree(memory_by(peak, "op"))))
    elif peak is not None and view.by is not None:
        tables.append(groups_table(peak, memory_by(peak, view.by)))
    elif peak is not None:
        tables.append(peak_table(results, peak))
    return Section(
        title=dump.title,
        facts=tuple(memory_facts(results, peak)),
        tables=tuple(tables),
        notes=tuple(memory_notes(results)),
    )


def _check_space(results: MemoryResults, view: MemoryView) -> None:
    """Raise UnknownNameError if the module has nothing in the memory space that is asked for."""
    colors = results.layout.colors
    if view.color not in colors:
        there = ", ".join(f"{c} ({space_name(c, results.backend)})" for c in colors)
        message = f"no memory space {view.color}; there is {there}"
        raise UnknownNameError(message)


def _no_memory(dump: ModuleDump) -> tuple[str, ...]:
    module = dump.hlo
    if module is not None and not module.is_scheduled:
        return (
            "memory not known: there is no buffer assignment beside this text, and the module is "
            "not scheduled, so that nothing can be estimated; XLA writes both with "
            "--xla_dump_to=DIR --xla_dump_hlo_as_text",
        )
    return ("memory not known: there is no buffer assignment beside this text",)
