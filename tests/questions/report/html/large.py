"""A module of many instructions with memory over its schedule, made without compiling."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_lens.load.fact import plant
from hlo_lens.load.programs import modules_of
from hlo_lens.questions.memory.layout import LaidAllocation, LaidValue, MemoryLayout
from hlo_lens.questions.memory.peak import peaks_of
from hlo_lens.questions.memory.results import MemoryResults, memory_results
from hlo_lens.questions.memory.statement import memory_statement
from hlo_lens.questions.report.html_pages import page_data, page_of
from hlo_lens.questions.report.html_views import Subject
from hlo_lens.render.table import RenderOptions, Report
from hlo_lens.render.to_json import envelope

_TEXT = "HloModule large, is_scheduled=true\n\nENTRY main {\n  ROOT p = f32[8] parameter(0)\n}\n"
_SLOT, _SLOTS, _STRIDE = 1 << 20, 512, 7919


def _memory(count: int) -> MemoryResults:
    """Return the memory of values that each live for some instants, slot by slot."""
    values = []
    for slot in range(_SLOTS):
        start = slot * 13
        while start < count:
            life = 1 + (start * _STRIDE + slot * 31) % 8000
            end = min(count, start + life)
            size = 1 + (start * 104729 + slot) % _SLOT
            name = f"fusion.{start}.{slot}"
            values.append(
                LaidValue(f"{name}{{}}", name, 0, slot * _SLOT, size, start, end, "f32[8]")
            )
            start = end + 1 + life % 17
    layout = MemoryLayout(
        source="buffer-assignment",
        allocations=(LaidAllocation(index=0, size=_SLOT * _SLOTS, color=0, category="temp"),),
        values=tuple(values),
        schedule=tuple(f"fusion.{k}" for k in range(count)),
    )
    peaks = peaks_of(layout)
    statement = memory_statement(layout, peaks, backend="gpu")
    return MemoryResults(layout=layout, statement=statement, peak=peaks[0], backend="gpu")


@page_of.register(Subject)
def _page(subject: Subject, report: Report, options: RenderOptions) -> Mapping[str, object]:
    del options
    return page_data(report.kind, subject.title, [(0, subject)])


def large_report(instructions: int) -> Report:
    """Return the report on a module of many instructions."""
    (analysis,) = modules_of(_TEXT)
    plant(analysis, memory_results, _memory(instructions))
    subject = Subject(analysis=analysis, title="large")
    return Report(
        kind="report",
        sections=(),
        data=envelope("report", modules=[{"name": "large"}]),
        subject=subject,
    )
