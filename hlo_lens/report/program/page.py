"""Page of one module in ``hlo-lens report``: its tables for CSV, and its JSON object.

People see a first page (`first_page`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.facts import coverage_facts, module_facts
from hlo_lens.analysis.program.entry_signature import EntrySignature
from hlo_lens.analysis.result import row_objects, rows_of
from hlo_lens.model.snapshot.writing import facts_object
from hlo_lens.report.collectives.page import collectives_object
from hlo_lens.report.memory.facts import memory_notes
from hlo_lens.report.memory.page import memory_object, memory_tables
from hlo_lens.report.program.head import memory_lines
from hlo_lens.report.program.tables import GAP_COLUMNS, module_tables
from hlo_lens.report.render.envelope import ModulePage
from hlo_lens.report.render.objects import JoinedObjects, RowObjects
from hlo_lens.report.render.table import Section, Sections
from hlo_lens.report.sharding.page import sharding_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.analysis.program.entry_values import EntryValue


def module_page(analysis: ModuleAnalysis) -> ModulePage:
    """Return the page of a module with HLO text."""
    return ModulePage(
        sections=Sections(lambda: (_section(analysis),)),
        make_object=partial(module_object, analysis),
    )


def _section(analysis: ModuleAnalysis) -> Section:
    title = analysis.summary.name or analysis.dump.name
    return Section(title=title, tables=tuple(module_tables(analysis)))


def page_of_texts(
    analysis: ModuleAnalysis,
    sections: Sequence[Section],
    make_objects: Callable[[], Mapping[str, object]],
) -> ModulePage:
    """Return the page of a module without HLO text.

    Args:
        analysis: The module.
        sections: Sections on its other texts.
        make_objects: Makes the JSON objects of these.
    """
    return ModulePage(
        sections=tuple(sections) or (_memory_section(analysis),),
        make_object=lambda: {**object_without_hlo(analysis), **make_objects()},
    )


def _memory_section(analysis: ModuleAnalysis) -> Section:
    """Return the section on the memory of a module without HLO text."""
    memory, dump = analysis.memory, analysis.dump
    section = Section(
        title=dump.name, facts=(("files", ", ".join(dump.files)), *memory_lines(analysis))
    )
    if memory is None:
        return section
    tables = memory_tables(memory, analysis.peak_by_source)
    return replace(section, tables=tuple(tables), notes=tuple(memory_notes(memory)))


# ---- JSON ---------------------------------------------------------------------------------------


RANKING = 100
"""Rows of an open-ended ranking; ``row_count`` is the number of all."""


def module_object(analysis: ModuleAnalysis) -> Mapping[str, object]:
    """Return the JSON object of a module: its facts, and the rows that they are sums of.

    Scripts rely on its names: names may be added, none changes. Bytes are integers. A key whose
    value is unknown is present with null; 0 means zero.
    """
    module, signature = analysis.module, analysis.signature
    gaps = row_objects(GAP_COLUMNS, rows_of(module.gaps, GAP_COLUMNS))
    return {
        **_facts_object(analysis, name=analysis.summary.name or analysis.dump.name),
        "coverage": {**facts_object(coverage_facts(analysis.summary)), "rows": gaps},
        "collectives": collectives_object(analysis.collectives),
        "memory": memory_object(analysis.memory),
        "is_estimate_left_out": analysis.is_estimate_left_out,
        "sharding": {"rows": _sharding_rows(analysis)},
        "parameter_rows": None
        if signature.parameter_count is None
        else _values(signature.parameters),
        "output_rows": _values(signature.outputs) if signature.has_outputs else None,
        "opcode_rows": analysis.opcodes.objects(),
        "largest_instructions": analysis.largest.ranking(RANKING) if module.has_entry else None,
        "source_bytes": analysis.sources.ranking(RANKING) if module.has_entry else None,
    }


def _sharding_rows(analysis: ModuleAnalysis) -> JoinedObjects | None:
    """Return forms of shardings, then parameters and outputs; None if not all are known."""
    shardings = analysis.shardings
    if shardings is None or not shardings.is_complete:
        return None
    forms = [{"kind": "form", **row} for row in analysis.sharding_forms.objects()]
    return JoinedObjects(forms, sharding_rows(shardings))


def object_without_hlo(analysis: ModuleAnalysis) -> dict[str, object]:
    """Return the JSON object of a module without HLO text: its memory at most."""
    rows = "sharding parameter_rows output_rows opcode_rows largest_instructions source_bytes log"
    return {
        **_facts_object(analysis, name=analysis.dump.name),
        "memory": memory_object(analysis.memory),
        **dict.fromkeys(rows.split()),
    }


def _facts_object(analysis: ModuleAnalysis, *, name: str) -> dict[str, object]:
    """Return name, files and facts, in the documented order of the keys."""
    head = dict.fromkeys(("name", "stage", "backend", "files"))
    found = facts_object(module_facts(analysis))
    return {**head, **found, "name": name, "files": list(analysis.dump.files)}


def _values(values: Sequence[EntryValue]) -> RowObjects:
    return RowObjects(EntrySignature.COLUMNS, values)
