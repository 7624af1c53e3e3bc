"""What of a module's JSON object a snapshot keeps, and the text of a snapshot file."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.model.snapshot.facts import CollectiveFact, EntryFact, ModuleSnapshot

_DROPPED = frozenset(
    (
        *("name", "files", "parameter_rows", "output_rows"),
        *("largest_instructions", "source_bytes", "sharding"),
    )
)
_DROPPED_INSIDE = {
    "coverage": ("rows",),
    "collectives": ("rows", "loops", "data_movement"),
    "memory": ("missing",),
}
_PEAK = ("bytes", "color", "shared_bytes")
_TALL = ("modules", "rows", "peaks", "shardings")


def numbers_of(module: Mapping[str, object]) -> dict[str, object]:
    """Return a module's object without rows, names of instructions and files."""
    kept = {
        name: _without(value, _DROPPED_INSIDE.get(name, ()))
        for name, value in module.items()
        if name not in _DROPPED
    }
    memory = kept.get("memory")
    if isinstance(memory, dict) and isinstance(memory.get("peak"), dict):
        peak = memory["peak"]
        kept["memory"] = {**memory, "peak": {key: peak.get(key) for key in _PEAK}}
    return plain(kept)


def _without(value: object, names: tuple[str, ...]) -> object:
    if not isinstance(value, dict):
        return value
    return {key: part for key, part in value.items() if key not in names}


def report_of(module: ModuleSnapshot) -> dict[str, object]:
    """Return a module's object in the report, as far as a snapshot keeps it."""
    found: dict[str, object] = {"name": module.name, **module.report}
    collectives = module.section("collectives")
    if collectives is not None and module.collectives is not None:
        rows = [{**plain(_object_of(row)), "static_count": 1} for row in module.collectives]
        found["collectives"] = {**collectives, "rows": rows}
    if module.entries is not None:
        found["sharding"] = {"rows": [_object_of(row) for row in module.entries]}
    return found


def _object_of(row: CollectiveFact | EntryFact) -> dict[str, object]:
    return {field.name: getattr(row, field.name) for field in fields(row)}


def plain(value: object) -> dict[str, object]:
    """Return an object as it is when it is written as JSON and read again."""
    found: dict[str, object] = json.loads(json.dumps(value))
    return found


def snapshot_text(data: Mapping[str, object]) -> str:
    """Return the text of a snapshot file: ASCII, one row on each line."""
    return "".join(_pieces(data, "")) + "\n"


def _pieces(value: object, indent: str, *, is_tall: bool = True) -> Iterator[str]:
    deeper = f"{indent} "
    if isinstance(value, dict) and value and is_tall:
        yield "{\n"
        for place, (key, item) in enumerate(value.items()):
            yield f"{',' * (place > 0)}{'' if not place else chr(10)}{deeper}{json.dumps(key)}: "
            has_lines = isinstance(item, dict) or key in _TALL
            yield from _pieces(item, deeper, is_tall=has_lines)
        yield f"\n{indent}}}"
    elif isinstance(value, list) and value and is_tall:
        yield "[\n"
        for place, item in enumerate(value):
            yield f"{',' * (place > 0)}{'' if not place else chr(10)}{deeper}"
            yield from _pieces(item, deeper, is_tall=isinstance(item, dict))
        yield f"\n{indent}]"
    else:
        yield json.dumps(value)
