"""The JSON object of a log. A size that was printed rounded is a text and a range of bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.logs.drawn_shardings import drawn_shardings
from hlo_lens.analysis.logs.logged_arrays import logged_arrays
from hlo_lens.analysis.logs.oom_message import memory_shortage, missing_bytes, peak_buffer_groups
from hlo_lens.analysis.logs.sharding_trail import sharding_trail, value_cells
from hlo_lens.analysis.logs.warnings_in_dump import warning_joins
from hlo_lens.model.buffers.human_size import HumanSize
from hlo_lens.report.logs.compile_oom import oom_modules

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from hlo_lens.analysis.logs.oom_message import MemoryShortage
    from hlo_lens.analysis.logs.oom_remedies import OomModule
    from hlo_lens.analysis.result import Result
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.model.logs.buffer_log import BufferLogEntry
    from hlo_lens.model.logs.jax_values import ShardingLog
    from hlo_lens.model.logs.log import LogText
    from hlo_lens.model.logs.out_of_memory import CompileOutOfMemory
    from hlo_lens.model.shapes.shape import Shape


def log_object(log: LogText, modules: Sequence[ModuleDump] = ()) -> Mapping[str, object]:
    """Return the JSON object of a log: what was found, kind by kind, and its coverage.

    Args:
        log: What was read of it.
        modules: Modules of the dump that belongs to it, with which its warnings are joined.
    """
    entries = log.buffers.entries if log.buffers is not None else ()
    dumped = oom_modules(log.compile_ooms, modules) if modules else None
    return {
        "compile_out_of_memory": [
            {**_compile_object(message), "dump": _dump_object(message, dumped)}
            for message in log.compile_ooms
        ],
        "failed_allocations": [as_json(failure) for failure in log.failures],
        "allocators": [as_json(state) for state in log.allocators],
        "rematerialization_limits": [as_json(limit) for limit in log.limits],
        "buffer_statistics": [_buffers_object(entry) for entry in entries],
        "warnings": _rows(warning_joins(log.warnings, modules)),
        "shardings": None if log.shardings is None else _shardings_object(log.shardings),
        "coverage": {
            "lines": log.lines,
            "understood_lines": log.understood_lines,
            "passed_lines": log.passed_lines,
            "dump_lines": log.dump_lines,
            "gaps": len(log.gaps),
            "gap_lines": sum(gap.lines for gap in log.gaps),
            "rows": [
                {"line": gap.line, "column": gap.column, "message": gap.message} for gap in log.gaps
            ],
        },
    }


def as_json(value: object) -> object:
    """Return a value of the model as JSON has it: its fields by name, sizes with their ranges."""
    if isinstance(value, HumanSize):
        return {
            "text": value.text,
            "at_least_bytes": value.at_least,
            "at_most_bytes": value.at_most,
        }
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, (tuple, list)):
        return [as_json(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _fields(value: DataclassInstance) -> dict[str, object]:
    return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}


def _compile_object(message: CompileOutOfMemory) -> Mapping[str, object]:
    missing = missing_bytes(message)
    return {
        **_fields(message),
        "allocations": [
            {**_fields(one), "instruction": one.instruction, "opcode": one.opcode}
            for one in message.allocations
        ],
        "missing": None if missing is None else _range(missing),
        "groups": _groups(memory_shortage(message)),
    }


def _dump_object(
    message: CompileOutOfMemory, modules: Sequence[OomModule] | None
) -> Mapping[str, object] | None:
    """Return what the dump of the same compile says of a message; None without a dump."""
    if modules is None:
        return None
    from hlo_lens.analysis.logs.oom_remedies import dump_shortage

    said = dump_shortage(message, modules)
    return {
        "module": None if said.module is None else said.module.name,
        "candidates": list(said.candidates),
        "needed_bytes": None if said.module is None else said.module.needed_bytes,
        "agrees": said.agrees,
        "groups": None if said.shortage is None else _groups(said.shortage),
        "notes": list(said.notes),
    }


def _buffers_object(entry: BufferLogEntry) -> Mapping[str, object]:
    return {**_fields(entry), "groups": _groups(peak_buffer_groups(entry.peak_buffers))}


def _shardings_object(log: ShardingLog) -> Mapping[str, object]:
    trail = sharding_trail(log)
    return {
        "trail": _rows(trail),
        "changes": [
            {
                "line": change.before.line,
                "said": change.before.text,
                "by": change.before_function,
                "next_line": change.after.line,
                "then": change.after.text,
                "next_by": change.after_function,
                "places_alike": change.places_alike,
            }
            for change in trail.changes
        ],
        "device_shapes": [
            {
                "line": check.line,
                "name": check.name,
                "printed": _shape_text(check.printed),
                "expected": _shape_text(check.expected),
                "agrees": check.agrees,
            }
            for check in trail.checks
        ],
        "drawings": [
            {
                **_fields(drawing.boxes),
                "sharding": None if drawing.sharding is None else drawing.sharding.text,
                "spec": drawing.spec,
                "agrees_with_lines": [value.line for value in drawing.agrees_with],
            }
            for drawing in drawn_shardings(log).drawings
        ],
        "arrays": _rows(logged_arrays(log)),
        "values": [
            {
                "line": value.line,
                "label": value.label,
                "text": value.text,
                **dict(zip(_VALUE_KEYS, value_cells(value), strict=True)),
            }
            for value in log.values
        ],
        "python_objects": {"count": log.dumps, "lines": log.dump_lines},
        "code_calls": log.code_calls,
    }


_VALUE_KEYS = ("kind", "value", "shape", "device_shape", "sharding")


def _shape_text(shape: Shape | None) -> str | None:
    return None if shape is None else shape.to_text(layout=False)


def _rows(result: Result) -> list[Mapping[str, object]]:
    names = [column.name for column in result.COLUMNS]
    return [dict(zip(names, row, strict=True)) for row in result.rows()]


def _groups(shortage: MemoryShortage) -> list[Mapping[str, object]]:
    return _rows(shortage)


def _range(bounds: tuple[int, int]) -> Mapping[str, int]:
    return {"at_least_bytes": bounds[0], "at_most_bytes": bounds[1]}
