"""Page of ``hlo-lens memory``: statement, values at an instant, groups, timeline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.analysis.memory.layout import DEFAULT_SPACE
from hlo_lens.analysis.memory.statement import space_name
from hlo_lens.analysis.result import row_objects
from hlo_lens.report.memory.facts import memory_facts, memory_notes
from hlo_lens.report.memory.objects import memory_object, peak_object, timeline_object
from hlo_lens.report.memory.tables import (
    groups_table,
    peak_table,
    statement_tables,
    timeline_tables,
    tree_table,
)
from hlo_lens.report.render.envelope import ModulePage, module_head
from hlo_lens.report.render.table import Section, Table
from hlo_lens.text.dump_kinds import TEXT_FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.analysis.memory.grouping import MemoryBy
    from hlo_lens.analysis.memory.op_tree import MemoryTree
    from hlo_lens.analysis.memory.peak import PeakMemory
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.analysis.memory.timeline import MemoryTimeline
    from hlo_lens.model.dump import ModuleDump


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """View of ``hlo-lens memory``.

    Attributes:
        by: Kind of groups; None for the values themselves.
        at: ``peak``, a number or an instruction.
        color: Memory space.
        timeline: Whether to show the occupied bytes over the schedule.
    """

    by: str | None = None
    at: str = "peak"
    color: int = DEFAULT_SPACE
    timeline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewedMemory:
    """Memory of a module as a view shows it.

    Attributes:
        results: Memory of the module.
        instant: Values alive at the instant; None without live ranges.
        groups: The same in groups; None where the view has none.
        tree: The groups as a tree of operation paths; None for other groups.
        timeline: Occupied bytes over the schedule; None if not shown or unknown.
    """

    results: MemoryResults
    instant: PeakMemory | None = None
    groups: MemoryBy | None = None
    tree: MemoryTree | None = None
    timeline: MemoryTimeline | None = None


def memory_page(
    dump: ModuleDump, viewed: ViewedMemory | None, single_texts: Sequence[Section] = ()
) -> ModulePage:
    """Return the page on the memory of a module.

    Args:
        dump: The module.
        viewed: Its memory; None if unknown.
        single_texts: Sections on the buffer-side texts of a module of unknown memory.
    """
    if viewed is None:
        missing = (Section(title=dump.title, notes=_no_memory(dump)),)
        sections = tuple(single_texts) or missing
    else:
        sections = (_section(dump, viewed),)
    return ModulePage(sections=sections, make_object=partial(_object, dump, viewed))


# ---- JSON --------------------------------------------------------------------------------------


def _object(dump: ModuleDump, viewed: ViewedMemory | None) -> Mapping[str, object]:
    found = {**module_head(dump), "name": dump.title, "memory": None}
    if viewed is None:
        return found
    found["memory"] = memory_object(viewed.results)
    found["instant"] = None if viewed.instant is None else peak_object(viewed.instant)
    if viewed.groups is not None:
        found["groups"] = row_objects(viewed.groups.COLUMNS, viewed.groups.all_rows())
    if viewed.tree is not None:
        found["tree"] = viewed.tree.objects()
    if viewed.timeline is not None:
        found["timeline"] = timeline_object(viewed.timeline)
    return found


# ---- text --------------------------------------------------------------------------------------


def memory_tables(results: MemoryResults, by_source: MemoryBy | None) -> Iterator[Table]:
    """Yield the tables of the first page: memory spaces, values at the peak, source lines."""
    yield from statement_tables(results)
    if results.peak is not None:
        yield peak_table(results, results.peak)
    if by_source is not None:
        yield Table.of(by_source, title="Bytes at the peak by source line")


def _section(dump: ModuleDump, viewed: ViewedMemory) -> Section:
    results, peak, timeline = viewed.results, viewed.instant, viewed.timeline
    tables: list[Table] = [*statement_tables(results)]
    if timeline is not None:
        tables.extend(timeline_tables(timeline, space_name(timeline.color, results.backend)))
    if peak is not None and viewed.tree is not None:
        tables.append(tree_table(peak, viewed.tree))
    elif peak is not None and viewed.groups is not None:
        tables.append(groups_table(peak, viewed.groups))
    elif peak is not None:
        tables.append(peak_table(results, peak))
    return Section(
        title=dump.title,
        facts=tuple(memory_facts(results, peak)),
        tables=tuple(tables),
        notes=tuple(memory_notes(results)),
    )


def _no_memory(dump: ModuleDump) -> tuple[str, ...]:
    module = dump.hlo
    if module is not None and not module.is_scheduled:
        return (
            "memory not known: there is no buffer assignment with this text, and the module is "
            f"not scheduled, so that nothing can be estimated; XLA writes both with {TEXT_FLAGS}",
        )
    return ("memory not known: there is no buffer assignment with this text",)
