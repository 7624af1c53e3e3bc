"""The JSON object of a module, whose names scripts rely on: more may come, none changes.

Bytes are integers. A key whose value is not known is there with null; 0 means zero.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hlo_lens.analysis.program.entry_signature import EntrySignature
from hlo_lens.report.collectives.objects import collectives_object
from hlo_lens.report.memory.objects import memory_object
from hlo_lens.report.render.envelope import module_head
from hlo_lens.report.sharding.objects import sharding_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.analysis.program.entry_values import EntryValue
    from hlo_lens.analysis.result import Result

NAMES_SHOWN = 5
"""Names of one kind that are listed where any number may be wrong."""

RANKING = 100
"""Rows of an open-ended ranking; the number of all stands beside them."""


def module_object(analysis: ModuleAnalysis) -> Mapping[str, object]:
    """Return the JSON object of a module: the keys that scripts rely on, and some more."""
    signature = analysis.signature
    return {
        **module_numbers(analysis),
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


def module_numbers(analysis: ModuleAnalysis) -> Mapping[str, object]:
    """Return what of the object is not a long list of parameters, instructions or shardings."""
    dump, module, facts = analysis.dump, analysis.module, analysis.summary
    return {
        "name": facts.name or dump.name,
        "stage": dump.stage,
        "backend": analysis.backend,
        "files": list(dump.files),
        "is_scheduled": facts.is_scheduled,
        "num_partitions": facts.num_partitions,
        "replica_count": facts.replica_count,
        "computations": facts.computations,
        "instructions": facts.instructions,
        "opcodes": {row[0]: row[1] for row in analysis.opcodes.counts},
        "unknown_opcodes": list(analysis.opcodes.unknown_opcodes),
        "unknown_attributes": list(module.unknown_attributes),
        "parameters": analysis.signature.parameter_count if module.computations else None,
        "coverage": {
            "instructions": facts.instructions,
            "gaps": facts.gaps,
            "gap_lines": facts.gap_lines,
            "ratio": facts.coverage,
            "passed_lines": facts.passed_lines,
            "is_truncated": facts.is_truncated,
            "undefined": len(facts.undefined),
            "undefined_names": list(facts.undefined[:NAMES_SHOWN]),
            "rows": [
                {"line": gap.line, "column": gap.column, "message": gap.message}
                for gap in module.gaps
            ],
        },
        "collectives": collectives_object(analysis.collectives),
        "memory": memory_object(analysis.memory),
    }


def object_without_hlo(analysis: ModuleAnalysis) -> dict[str, object]:
    """Return the JSON object of a module without HLO text: its memory at most."""
    keys = """
        name stage backend files is_scheduled num_partitions replica_count computations instructions
        opcodes unknown_opcodes unknown_attributes parameters coverage collectives memory sharding
        parameter_rows output_rows largest_instructions source_bytes log
    """
    return {
        **dict.fromkeys(keys.split()),
        **module_head(analysis.dump),
        "backend": analysis.backend,
        "memory": memory_object(analysis.memory),
    }


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
