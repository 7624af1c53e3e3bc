"""Names of computations, and names and parameter numbers of a computation, that come twice.

XLA gives each name once, and refuses a text that repeats one ("instruction already exists"): lines
were pasted twice, or a line between two computations is lost.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import (
    NAME,
    NAME_END,
    OPCODE,
    OPERANDS,
    OPERANDS_END,
    STRIDE,
    InstructionColumns,
)
from hlo_lens.text.errors import Gap
from hlo_lens.text.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule

_MOST = 20
"""Repetitions that become gaps."""

_MOST_CHECKED = 100_000
"""Instructions of the largest module that is checked, which takes a microsecond for each."""


def repetitions(module: HloModule) -> list[Gap]:
    """Return a gap for each name or parameter number that comes twice; the first few."""
    rows = range(len(module.columns))
    if len(rows) > _MOST_CHECKED:
        return []
    return list(islice(_all_of(module, rows), _MOST))


def _all_of(module: HloModule, rows: range) -> Iterator[Gap]:
    yield from _of_module(module)
    columns, computations = module.columns, module.computation_columns
    has_names = len(set(columns.names(rows))) < len(rows)
    numbers = _parameter_numbers(columns)
    for place in range(len(computations)):
        own = computations.rows(place)
        if has_names:
            yield from _of_names(module, own)
        if numbers:
            yield from _of_numbers(module, own, numbers)


def _of_module(module: HloModule) -> Iterator[Gap]:
    """Yield a gap for each computation that has the name of one before it."""
    names = module.computation_names
    if len(set(names)) == len(names):
        return
    known: set[str] = set()
    for computation, name in zip(module.computations, names, strict=True):
        if name and name in known:
            start = computation.start
            message = f"expected another name: computation {name} is defined already"
            yield Gap.at(module.columns.source, Span(start, start + 1), message)
        known.add(name)


def _of_names(module: HloModule, rows: Sequence[int]) -> Iterator[Gap]:
    """Yield a gap for each instruction of a computation that has the name of one before it."""
    names: set[str] = set()
    for row, name in zip(rows, module.columns.names(rows), strict=True):
        if name in names:
            yield _gap(module, row, NAME, NAME_END, f"another name: {name} is defined already")
        names.add(name)


def _parameter_numbers(columns: InstructionColumns) -> dict[int, str]:
    """Return the printed numbers of the parameters, by row."""
    text = columns.source.text
    starts = enumerate(columns.column(OPCODE))
    rows = [row for row, start in starts if text.startswith("parameter(", start)]
    return {row: columns.text(row, OPERANDS, OPERANDS_END) for row in rows}


def _of_numbers(
    module: HloModule, rows: Sequence[int], numbers: Mapping[int, str]
) -> Iterator[Gap]:
    """Yield a gap for each parameter of a computation that has the number of one before it.

    Args:
        module: The module.
        rows: Rows of the computation.
        numbers: Numbers of the parameters of the module, by row.
    """
    own = [row for row in rows if row in numbers]
    if len({numbers[row] for row in own}) == len(own):
        return
    known: set[str] = set()
    for row in own:
        if numbers[row] in known:
            number = numbers[row]
            message = f"another parameter: the computation has a parameter {number} already"
            yield _gap(module, row, OPERANDS, OPERANDS_END, message)
        known.add(numbers[row])


def _gap(module: HloModule, row: int, first: int, last: int, message: str) -> Gap:
    columns = module.columns
    base = row * STRIDE
    start, end = columns.spans[base + first], columns.spans[base + last]
    return Gap.at(columns.source, Span(start, max(end, start + 1)), f"expected {message}")
