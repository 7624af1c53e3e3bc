"""The JSON object of a module, whose names scripts rely on: more may come, none changes.

Bytes are integers. A key whose value is not known is there with null; 0 means zero.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.facts import coverage_facts, module_facts
from hlo_lens.analysis.program.entry_signature import EntrySignature
from hlo_lens.model.snapshot.writing import facts_object
from hlo_lens.report.collectives.objects import collectives_object
from hlo_lens.report.memory.objects import memory_object
from hlo_lens.report.sharding.objects import sharding_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.analysis.program.entry_values import EntryValue
    from hlo_lens.analysis.result import Result

RANKING = 100
"""Rows of an open-ended ranking; the number of all stands beside them."""


def module_object(analysis: ModuleAnalysis) -> Mapping[str, object]:
    """Return the JSON object of a module: its facts, and the rows that they are sums of."""
    module, signature = analysis.module, analysis.signature
    gaps = [{"line": gap.line, "column": gap.column, "message": gap.message} for gap in module.gaps]
    return {
        **_facts(analysis, name=analysis.summary.name or analysis.dump.name),
        "coverage": {**facts_object(coverage_facts(analysis.summary)), "rows": gaps},
        "collectives": collectives_object(analysis.collectives),
        "memory": memory_object(analysis.memory),
        "sharding": {
            "rows": [
                *({"kind": "form", **row} for row in _objects(analysis.sharding_forms)),
                *sharding_rows(analysis.shardings),
            ]
        },
        "parameter_rows": [_value_object(value) for value in signature.parameters],
        "output_rows": [_value_object(value) for value in signature.outputs],
        "largest_instructions": _ranking(analysis.largest),
        "source_bytes": _ranking(analysis.sources),
    }


def object_without_hlo(analysis: ModuleAnalysis) -> dict[str, object]:
    """Return the JSON object of a module without HLO text: its memory at most."""
    rows = ("sharding", "parameter_rows", "output_rows", "largest_instructions", "source_bytes")
    return {
        **_facts(analysis, name=analysis.dump.name),
        "memory": memory_object(analysis.memory),
        **dict.fromkeys((*rows, "log")),
    }


def _facts(analysis: ModuleAnalysis, *, name: str) -> dict[str, object]:
    """Return name, files and facts, in the order of the keys that scripts know."""
    head = dict.fromkeys(("name", "stage", "backend", "files"))
    found = facts_object(module_facts(analysis))
    return {**head, **found, "name": name, "files": list(analysis.dump.files)}


def _objects(result: Result) -> list[Mapping[str, object]]:
    """Return the rows of a result as objects."""
    names = [column.name for column in result.COLUMNS]
    return [dict(zip(names, row, strict=True)) for row in result.rows()]


def _ranking(result: Result) -> Mapping[str, object]:
    """Return the first rows of a ranking, how many there are in all, and the totals of all."""
    names = [column.name for column in result.COLUMNS]
    rows = islice(result.rows(), RANKING)
    return {
        "row_count": result.row_count,
        "totals": dict(result.totals()),
        "rows": [dict(zip(names, row, strict=True)) for row in rows],
        "residual_rows": [dict(zip(names, row, strict=True)) for row in result.residual_rows()],
    }


def _value_object(value: EntryValue) -> Mapping[str, object]:
    names = (column.name for column in EntrySignature.COLUMNS)
    return dict(zip(names, value.row(), strict=True))
