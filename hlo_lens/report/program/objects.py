"""JSON object of a module. Scripts rely on its names: they may be added to, none changes.

Bytes are integers. A key whose value is unknown is present with null; 0 means zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.facts import coverage_facts, module_facts
from hlo_lens.analysis.program.entry_signature import EntrySignature
from hlo_lens.analysis.result import Cell, Column, Unit, row_objects, rows_of
from hlo_lens.model.snapshot.writing import facts_object
from hlo_lens.report.collectives.page import collectives_object
from hlo_lens.report.memory.page import memory_object
from hlo_lens.report.sharding.page import sharding_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.analysis.program.entry_values import EntryValue

GAP_COLUMNS = (
    Column("line", Unit.NONE, "1-based line of the file"),
    Column("column", Unit.NONE, "1-based column"),
    Column("message", Unit.NONE, "what was expected and found"),
    Column("lines", Unit.COUNT, "lines that were not understood"),
)

RANKING = 100
"""Rows of an open-ended ranking; ``row_count`` is the number of all."""


def module_object(analysis: ModuleAnalysis) -> Mapping[str, object]:
    """Return the JSON object of a module: its facts, and the rows that they are sums of."""
    module, signature = analysis.module, analysis.signature
    gaps = row_objects(GAP_COLUMNS, rows_of(module.gaps, GAP_COLUMNS))
    return {
        **_facts(analysis, name=analysis.summary.name or analysis.dump.name),
        "coverage": {**facts_object(coverage_facts(analysis.summary)), "rows": gaps},
        "collectives": collectives_object(analysis.collectives),
        "memory": memory_object(analysis.memory),
        "sharding": {
            "rows": [
                *({"kind": "form", **row} for row in analysis.sharding_forms.objects()),
                *sharding_rows(analysis.shardings),
            ]
        },
        "parameter_rows": _values(signature.parameters),
        "output_rows": _values(signature.outputs),
        "opcode_rows": analysis.opcodes.objects(),
        "largest_instructions": analysis.largest.ranking(RANKING),
        "source_bytes": analysis.sources.ranking(RANKING),
    }


def object_without_hlo(analysis: ModuleAnalysis) -> dict[str, object]:
    """Return the JSON object of a module without HLO text: its memory at most."""
    rows = "sharding parameter_rows output_rows opcode_rows largest_instructions source_bytes log"
    return {
        **_facts(analysis, name=analysis.dump.name),
        "memory": memory_object(analysis.memory),
        **dict.fromkeys(rows.split()),
    }


def _facts(analysis: ModuleAnalysis, *, name: str) -> dict[str, object]:
    """Return name, files and facts, in the documented order of the keys."""
    head = dict.fromkeys(("name", "stage", "backend", "files"))
    found = facts_object(module_facts(analysis))
    return {**head, **found, "name": name, "files": list(analysis.dump.files)}


def _values(values: Iterable[EntryValue]) -> list[dict[str, Cell]]:
    return row_objects(EntrySignature.COLUMNS, (value.row() for value in values))
