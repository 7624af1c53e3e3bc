"""Memory of modules."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.load.module import ModuleDump
from hlo_lens.load.programs import Program, Progress, analysis_of, with_progress
from hlo_lens.program.summary import no_hlo_text
from hlo_lens.questions.dumps.single_texts import SingleTexts
from hlo_lens.questions.memory.grouping import memory_by, memory_tree
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.page import MemoryView, ViewedMemory, memory_page
from hlo_lens.questions.memory.peak import at_instant
from hlo_lens.questions.memory.plot import Timeline, plot_timelines, timeline_image
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import memory_roles, role_series
from hlo_lens.questions.memory.statement import space_name
from hlo_lens.questions.memory.timeline import loop_bands, memory_timeline
from hlo_lens.questions.report.leading import training_step_first
from hlo_lens.render.envelope import ModulePage, report_of_pages
from hlo_lens.text.errors import MissingDumpError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.render.table import Report


def memory(program: Program, *, module: str | None = None) -> MemoryResults:
    """Return the memory of a module: ``statement``, ``peak`` and their buffer layout.

    >>> import hlo_lens
    >>> memory = hlo_lens.memory("sample_dumps/tpu/tp_mlp")
    >>> memory.statement.argument_bytes, memory.peak.total_bytes, memory.peak.instruction
    (67141632, 159456768, 'copy-start.12')
    >>> memory.peak.to_frame()["value"].head(2).tolist()
    ['while.36{2}', 'while.36{4}']

    Raises:
        MissingDumpError: If nothing is known of it: no buffer assignment, and no schedule.
        DumpMismatchError: If texts of the module contradict one another.
    """
    known = analysis_of(program, module)
    results = memory_results(known)
    if results is None and known.lowered is not None:
        raise MissingDumpError(f"{known.name}: {no_hlo_text(known)}")
    if results is None:
        raise MissingDumpError(
            f"{known.title}: memory is not known: no buffer assignment next to the text, and "
            "no schedule in it (is_scheduled=true)"
        )
    return replace(results, make_chart=partial(_chart, known))


def memory_report(
    modules: Sequence[ModuleDump],
    view: MemoryView,
    *,
    plot: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Return the report on the memory of some modules.

    Args:
        modules: Modules in the order in which they are shown.
        view: What is shown.
        plot: File to draw the timelines to; None for none.
        progress: Called with modules done and modules in all.

    Raises:
        DumpMismatchError: If texts of one module contradict one another.
        UnknownNameError: If the schedule does not have what `view.at` names.
        UsageError: If the timelines cannot be drawn.
    """
    pages = (_page(one, view) for one in with_progress(modules, progress))
    report = report_of_pages("memory", pages, partial(training_step_first, modules))
    if plot is not None:
        plot_timelines(list(_timelines(modules, view.color)), plot)
    return report


def _timelines(modules: Iterable[ModuleDump], color: int) -> Iterator[Timeline]:
    """Yield the timelines of the modules whose live ranges are known."""
    for one in modules:
        memory, series = memory_results(one), role_series(one, color)
        if memory is None or series is None:
            continue
        bands = loop_bands(one)
        yield Timeline(
            name=one.name,
            space=space_name(color, memory.backend),
            series=series,
            bands=() if bands is None else bands.bands,
        )


def _chart(known: ModuleDump) -> str:
    """Return the picture of a module's memory as HTML; empty where it cannot be drawn."""
    return "".join(map(timeline_image, _timelines([known], DEFAULT_SPACE)))


def _page(known: ModuleDump, view: MemoryView) -> ModulePage:
    results = memory_results(known)
    if results is not None:
        return memory_page(known, _viewed(known, results, view))
    texts = SingleTexts(known)
    return memory_page(known, None, tuple(texts.memory_sections()), texts.known_objects)


def _viewed(known: ModuleDump, results: MemoryResults, view: MemoryView) -> ViewedMemory:
    """Return the memory of a module as a view shows it.

    Raises:
        UnknownNameError: If the module has nothing in the memory space.
    """
    colors = results.layout.colors
    if view.color not in colors:
        there = ", ".join(f"{c} ({space_name(c, results.backend)})" for c in colors)
        raise UnknownNameError(f"no memory space {view.color}; there is {there}")
    is_peak = view.at == "peak" and view.color == DEFAULT_SPACE
    instant = results.peak if is_peak else at_instant(results, view.at, color=view.color)
    groups = None
    if instant is not None and view.by is not None:
        roles = memory_roles(known) if view.by == "role" else None
        groups = memory_by(instant, view.by, roles)
    return ViewedMemory(
        results=results,
        instant=instant,
        groups=groups,
        tree=memory_tree(groups) if groups is not None and view.by == "op" else None,
        timeline=memory_timeline(results.layout, color=view.color) if view.timeline else None,
        roles=role_series(known, view.color) if view.timeline else None,
    )
