"""Records of logs as columns of tables and as JSON; a rounded size is its text and its range."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, get_args, get_origin, get_type_hints

from hlo_lens.buffers.human_size import HumanSize
from hlo_lens.render.result import Column, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator


def columns_of(record: type) -> tuple[Column, ...]:
    """Return a column for each annotated field: its name, unit and meaning."""
    return tuple(_columns(record))


def _columns(record: type) -> Iterator[Column]:
    for name, hint in get_type_hints(record, include_extras=True).items():
        if get_origin(hint) is Annotated:
            *units, meaning = get_args(hint)[1:]
            yield Column(name, units[0] if units else Unit.NONE, meaning)


def as_json(value: object) -> object:
    """Return a value of a record as JSON: fields by name, sizes with their ranges."""
    if isinstance(value, HumanSize):
        return {"text": value.text, **byte_range((value.at_least, value.at_most))}
    if isinstance(value, enum.Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return record_object(value)
    if isinstance(value, (tuple, list)):
        return [as_json(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def record_object(record: object) -> dict[str, object]:
    """Return the fields of a record as JSON."""
    return {
        one.name.removesuffix("_text"): as_json(getattr(record, one.name))
        for one in fields(record)  # type: ignore[arg-type] # a record is a dataclass
    }


def byte_range(bounds: tuple[int | None, int | None]) -> Mapping[str, int | None]:
    """Return the smallest and the largest number of bytes as JSON."""
    return {"at_least_bytes": bounds[0], "at_most_bytes": bounds[1]}
