"""Memory of modules."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.analysis.memory.grouping import memory_by, memory_tree
from hlo_lens.analysis.memory.instants import at_instant
from hlo_lens.analysis.memory.layout import DEFAULT_SPACE
from hlo_lens.analysis.memory.statement import space_name
from hlo_lens.analysis.memory.timeline import memory_timeline
from hlo_lens.analysis.module_analysis import ModuleAnalysis, no_hlo_text
from hlo_lens.api.modules import Program, Progress, analysis_of, with_progress
from hlo_lens.api.report_pages import training_step_first
from hlo_lens.api.single_texts import SingleTexts
from hlo_lens.report.memory.page import MemoryView, ViewedMemory, memory_page
from hlo_lens.report.memory.timeline_picture import TimelinePicture, timeline_image
from hlo_lens.report.render.envelope import ModulePage, report_of_pages
from hlo_lens.text.errors import MissingDumpError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.report.render.table import Report


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
    if known.memory is None and known.dump.lowered is not None:
        raise MissingDumpError(f"{known.dump.name}: {no_hlo_text(known.dump)}")
    if known.memory is None:
        raise MissingDumpError(
            f"{known.dump.title}: memory is not known: no buffer assignment next to the text, and "
            "no schedule in it (is_scheduled=true)"
        )
    return replace(known.memory, make_chart=partial(_chart, known))


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
    known = [ModuleAnalysis(one) for one in modules]
    pages = (_page(one, view) for one in with_progress(known, progress))
    report = report_of_pages("memory", pages, partial(training_step_first, known))
    if plot is not None:
        from hlo_lens.report.memory.plot import plot_timelines

        plot_timelines(list(_pictures(known, view.color)), plot)
    return report


def _pictures(modules: Iterable[ModuleAnalysis], color: int) -> Iterator[TimelinePicture]:
    """Yield the pictures of the modules whose live ranges are known."""
    for one in modules:
        series = one.role_series(color)
        if one.memory is None or series is None:
            continue
        bands = one.loop_bands
        yield TimelinePicture(
            name=one.dump.name,
            space=space_name(color, one.memory.backend),
            series=series,
            bands=() if bands is None else bands.bands,
        )


def _chart(known: ModuleAnalysis) -> str:
    """Return the picture of a module's memory as HTML; empty where no live ranges are known."""
    pictures = list(_pictures([known], DEFAULT_SPACE))
    return timeline_image(pictures) if pictures else ""


def _page(known: ModuleAnalysis, view: MemoryView) -> ModulePage:
    if known.memory is not None:
        return memory_page(known.dump, _viewed(known, known.memory, view))
    texts = SingleTexts(known.dump)
    return memory_page(known.dump, None, tuple(texts.memory_sections()), texts.known_objects)


def _viewed(known: ModuleAnalysis, results: MemoryResults, view: MemoryView) -> ViewedMemory:
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
        roles = known.memory_roles if view.by == "role" else None
        groups = memory_by(instant, view.by, roles)
    return ViewedMemory(
        results=results,
        instant=instant,
        groups=groups,
        tree=memory_tree(groups) if groups is not None and view.by == "op" else None,
        timeline=memory_timeline(results.layout, color=view.color) if view.timeline else None,
        roles=known.role_series(view.color) if view.timeline else None,
    )
