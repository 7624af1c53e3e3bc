"""Page of one module in ``hlo-lens report``: its tables for CSV, and its JSON object.

People see a first page (`first_page`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.program.instructions import largest_instructions, opcodes, source_bytes
from hlo_lens.program.signature import EntrySignature, entry_signature
from hlo_lens.program.summary import hlo_text, summary
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.questions.collectives.page import collectives_object
from hlo_lens.questions.memory.grouping import peak_by_source
from hlo_lens.questions.memory.page import memory_notes, memory_object, memory_tables
from hlo_lens.questions.memory.results import is_estimate_left_out, memory_results
from hlo_lens.questions.report.head import memory_lines
from hlo_lens.questions.report.tables import GAP_COLUMNS, module_tables
from hlo_lens.questions.sharding.annotations import sharding_forms
from hlo_lens.questions.sharding.page import sharding_rows
from hlo_lens.questions.sharding.results import sharding_results
from hlo_lens.questions.snapshots.module_facts import module_facts
from hlo_lens.render.envelope import ModulePage
from hlo_lens.render.result import facts_object, row_objects, rows_of
from hlo_lens.render.table import Section, Sections
from hlo_lens.render.to_json import JoinedObjects, RowObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.signature import EntryValue


def module_page(analysis: ModuleDump) -> ModulePage:
    """Return the page of a module with HLO text."""
    return ModulePage(
        sections=Sections(lambda: (_section(analysis),)),
        make_object=partial(module_object, analysis),
    )


def _section(analysis: ModuleDump) -> Section:
    title = summary(analysis).name or analysis.name
    return Section(title=title, tables=tuple(module_tables(analysis)))


def page_of_texts(
    analysis: ModuleDump,
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


def _memory_section(analysis: ModuleDump) -> Section:
    """Return the section on the memory of a module without HLO text."""
    memory = memory_results(analysis)
    section = Section(
        title=analysis.name, facts=(("files", ", ".join(analysis.files)), *memory_lines(analysis))
    )
    if memory is None:
        return section
    tables = memory_tables(memory, peak_by_source(analysis))
    return replace(section, tables=tuple(tables), notes=tuple(memory_notes(memory)))


# ---- JSON ---------------------------------------------------------------------------------------


RANKING = 100
"""Rows of an open-ended ranking; ``row_count`` is the number of all."""


def module_object(analysis: ModuleDump) -> Mapping[str, object]:
    """Return the JSON object of a module: its facts, and the rows that they are sums of.

    Scripts rely on its names: names may be added, none changes. Bytes are integers. A key whose
    value is unknown is present with null; 0 means zero.
    """
    module, signature = hlo_text(analysis), entry_signature(analysis)
    gaps = row_objects(GAP_COLUMNS, rows_of(module.gaps, GAP_COLUMNS))
    return {
        **_facts_object(analysis, name=summary(analysis).name or analysis.name),
        "coverage": {**facts_object(summary(analysis).coverage), "rows": gaps},
        "collectives": collectives_object(collectives(analysis)),
        "memory": memory_object(memory_results(analysis)),
        "is_estimate_left_out": is_estimate_left_out(analysis),
        "sharding": {"rows": _sharding_rows(analysis)},
        "parameter_rows": None
        if signature.parameter_count is None
        else _values(signature.parameters),
        "output_rows": _values(signature.outputs) if signature.has_outputs else None,
        "opcode_rows": opcodes(analysis).objects(),
        "largest_instructions": largest_instructions(analysis).ranking(RANKING)
        if module.has_entry
        else None,
        "source_bytes": source_bytes(analysis).ranking(RANKING) if module.has_entry else None,
    }


def _sharding_rows(analysis: ModuleDump) -> JoinedObjects | None:
    """Return forms of shardings, then parameters and outputs; None if not all are known."""
    shardings = sharding_results(analysis)
    if shardings is None or not shardings.is_complete:
        return None
    forms = [{"kind": "form", **row} for row in sharding_forms(analysis).objects()]
    return JoinedObjects(forms, sharding_rows(shardings))


def object_without_hlo(analysis: ModuleDump) -> dict[str, object]:
    """Return the JSON object of a module without HLO text: its memory at most."""
    rows = "sharding parameter_rows output_rows opcode_rows largest_instructions source_bytes log"
    return {
        **_facts_object(analysis, name=analysis.name),
        "memory": memory_object(memory_results(analysis)),
        **dict.fromkeys(rows.split()),
    }


def _facts_object(analysis: ModuleDump, *, name: str) -> dict[str, object]:
    """Return name, files and facts, in the documented order of the keys."""
    head = dict.fromkeys(("name", "stage", "backend", "files"))
    found = facts_object(module_facts(analysis))
    return {**head, **found, "name": name, "files": list(analysis.files)}


def _values(values: Sequence[EntryValue]) -> RowObjects:
    return RowObjects(EntrySignature.COLUMNS, values)
