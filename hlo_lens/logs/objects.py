"""JSON object of a log; a rounded size is an object of its text and its range of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from hlo_lens.buffers.human_size import HumanSize
from hlo_lens.logs.compiled_stats import needed_bytes
from hlo_lens.logs.log import PrintedStats, PrintKind
from hlo_lens.logs.oom_message import MemoryShortage, missing_bytes
from hlo_lens.logs.sharding_trail import CHANGE_COLUMNS, CHECK_COLUMNS, VALUE_COLUMNS, value_cells
from hlo_lens.render.result import row_objects

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from hlo_lens.logs.log_analysis import LogAnalysis, ShardingLogResults
    from hlo_lens.logs.out_of_memory import CompileOutOfMemory
    from hlo_lens.questions.memory.oom_remedies import DumpShortage


def log_object(known: LogAnalysis) -> Mapping[str, object]:
    """Return the JSON object of a log: its messages, kind by kind, and its coverage."""
    log = known.log
    entries = log.buffers.entries if log.buffers is not None else ()
    dumped = known.dump_shortages or (None,) * len(log.compile_ooms)
    return {
        "compile_out_of_memory": [
            {**_compile_object(message, shortage), "dump": _dump_object(said)}
            for message, shortage, said in zip(
                log.compile_ooms, known.shortages, dumped, strict=True
            )
        ],
        "failed_allocations": [as_json(failure) for failure in log.failures],
        "allocators": [
            {**_fields(state), "pool_bytes": _exact(state.pool)} for state in log.allocators
        ],
        "rematerialization_limits": [as_json(limit) for limit in log.limits],
        "buffer_statistics": [
            {**_fields(entry), "groups": groups.objects()}
            for entry, groups in zip(entries, known.peak_buffers, strict=True)
        ],
        "warnings": known.warnings.objects(),
        "compiled_stats": [_stats_object(stats) for stats in log.stats],
        "shardings": None if known.shardings is None else _shardings_object(known.shardings),
        "coverage": {
            "lines": log.lines,
            "understood_lines": log.understood_lines,
            "passed_lines": log.passed_lines,
            "dump_lines": log.dump_lines,
            "gaps": len(log.gaps),
            "gap_lines": sum(gap.lines for gap in log.gaps),
            "rows": [{key: getattr(gap, key) for key in _GAP_KEYS} for gap in log.gaps],
        },
    }


def _stats_object(stats: PrintedStats) -> Mapping[str, object]:
    is_memory = stats.kind is PrintKind.MEMORY
    return {
        "line": stats.line,
        "of": stats.kind.value,
        "needed_bytes": needed_bytes(stats) if is_memory else None,
        "values": dict(stats.values),
    }


_GAP_KEYS = ("line", "column", "message")


def as_json(value: object) -> object:
    """Return a model value as JSON: its fields by name, sizes with their ranges."""
    if isinstance(value, HumanSize):
        return {"text": value.text, **_range((value.at_least, value.at_most))}
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, (tuple, list)):
        return [as_json(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _fields(value: DataclassInstance) -> dict[str, object]:
    return {
        field.name.removesuffix("_text"): as_json(getattr(value, field.name))
        for field in fields(value)
    }


def _compile_object(message: CompileOutOfMemory, shortage: MemoryShortage) -> Mapping[str, object]:
    missing = missing_bytes(message)
    return {
        **_fields(message),
        "allocations": [
            {**_fields(one), "instruction": one.instruction, "opcode": one.opcode}
            for one in message.allocations
        ],
        "missing": None if missing is None else _range(missing),
        "groups": shortage.objects(),
    }


def _dump_object(said: DumpShortage | None) -> Mapping[str, object] | None:
    """Return the facts of the dump on a message as JSON; None without a dump."""
    if said is None:
        return None
    return {
        "module": None if said.module is None else said.module.name,
        "candidates": list(said.candidates),
        "needed_bytes": None if said.module is None else said.module.needed_bytes,
        "agrees": said.agrees,
        "groups": None if said.shortage is None else said.shortage.objects(),
        "notes": list(said.notes),
    }


def _shardings_object(known: ShardingLogResults) -> Mapping[str, object]:
    log, trail = known.log, known.trail
    return {
        "trail": trail.objects(),
        "changes": row_objects(CHANGE_COLUMNS, (change.row for change in trail.changes)),
        "device_shapes": row_objects(CHECK_COLUMNS, (check.row for check in trail.checks)),
        "drawings": [
            {
                **_fields(drawing.boxes),
                **row,
                "agrees_with_lines": [value.line for value in drawing.agrees_with],
            }
            for row, drawing in zip(known.drawn.objects(), known.drawn.drawings, strict=True)
        ],
        "arrays": known.arrays.objects(),
        "values": [
            {"line": value.line, "label": value.label, "text": value.text, **cells}
            for value, cells in zip(
                log.values, row_objects(VALUE_COLUMNS, map(value_cells, log.values)), strict=True
            )
        ],
        "python_objects": {"count": log.dumps, "lines": log.dump_lines},
        "code_calls": log.code_calls,
    }


def _exact(size: HumanSize | None) -> int | None:
    """Return the bytes of a size that was printed exactly; None if it is rounded."""
    return None if size is None or size.at_least != size.at_most else size.at_least


def _range(bounds: tuple[int | None, int | None]) -> Mapping[str, int | None]:
    return {"at_least_bytes": bounds[0], "at_most_bytes": bounds[1]}
