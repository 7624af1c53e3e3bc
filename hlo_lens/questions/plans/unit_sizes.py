"""Sizes of the dimension that differs between the entry parameters of several dumps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot
    from hlo_lens.questions.snapshots.rows import EntryFact

_DIMENSIONS = re.compile(r"\[([\d,]*)\]")
_WRITE = "give them: --scale batch=8,16"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSizes:
    """Sizes of one dimension in several dumps.

    Attributes:
        sizes: One for each dump.
        step: Devices that the dimension is divided over; 1 if not known.
        arguments: Names of arguments that have it.
    """

    sizes: tuple[int, ...]
    step: int
    arguments: tuple[str, ...]


def unit_sizes(modules: Sequence[ModuleSnapshot]) -> UnitSizes:
    """Return the sizes of the dimension that differs between dumps of one program.

    Of several dimensions that grow by the same factor the smallest is taken: ``batch`` rather than
    ``batch * length``.

    Raises:
        UsageError: If no dimension of a parameter differs, or some by other factors.
    """
    found: dict[tuple[int, ...], list[tuple[str, int]]] = {}
    for parameters in zip(*(_parameters(one) for one in modules), strict=False):
        shapes = [_dimensions(one.global_shape or one.device_shape) for one in parameters]
        parts = _dimensions(parameters[0].device_shape)
        if len({len(shape) for shape in shapes}) != 1:
            raise UsageError(f"the ranks of {_name(parameters[0])} differ; {_WRITE}")
        for place, sizes in enumerate(zip(*shapes, strict=True)):
            if len(set(sizes)) > 1:
                part = parts[place] if place < len(parts) else sizes[0]
                step = sizes[0] // part if part and sizes[0] % part == 0 else 1
                found.setdefault(sizes, []).append((_name(parameters[0]), step))
    if not found:
        raise UsageError(f"no dimension of a parameter differs between the dumps; {_WRITE}")
    least = min(found)
    for sizes in found:
        if any(a * least[0] != b * sizes[0] for a, b in zip(sizes, least, strict=True)):
            shown = ", ".join(" and ".join(map(str, one)) for one in sorted(found)[:3])
            raise UsageError(f"several dimensions differ by other factors: {shown}; {_WRITE}")
    if len(set(least)) < len(least):
        raise UsageError(f"two dumps have one size: {', '.join(map(str, least))}")
    return UnitSizes(
        sizes=least,
        step=max(step for _, step in found[least]),
        arguments=tuple(dict.fromkeys(name for name, _ in found[least])),
    )


def _parameters(module: ModuleSnapshot) -> list[EntryFact]:
    return [one for one in module.entries or () if one.kind == "parameter"]


def _dimensions(shape: str | None) -> tuple[int, ...]:
    found = None if shape is None else _DIMENSIONS.search(shape)
    return () if found is None else tuple(int(word) for word in found[1].split(",") if word)


def _name(entry: EntryFact) -> str:
    return entry.name or f"parameter {entry.number}"
