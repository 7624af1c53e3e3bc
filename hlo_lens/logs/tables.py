"""Cells and columns used by all pages on logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.logs.oom_message import Bounds, size_bounds
from hlo_lens.render.result import Column, Unit
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.buffers.human_size import HumanSize
    from hlo_lens.hlo.metadata import OpMetadata

BOUNDS = (
    Column("at_least_bytes", Unit.BYTES, "smallest number that rounds to the printed one"),
    Column("at_most_bytes", Unit.BYTES, "largest number that rounds to the printed one"),
)
OPERATOR = (
    Column("op_name", Unit.NONE, "operation path"),
    Column("source_file", Unit.NONE, "file of the program"),
    Column("source_line", Unit.NONE, "line in it"),
)


def line_text(line: int, repeats: Sequence[int]) -> str:
    """Return the line of a message, and those at which it is printed again."""
    again = f", again {plural(len(repeats), 'time')}: " if repeats else ""
    return f"{line}{again}{listed([str(one) for one in repeats], 4) if repeats else ''}"


def operator_cells(operator: OpMetadata | None) -> tuple[str | int | None, ...]:
    """Return the cells of the columns `OPERATOR`."""
    if operator is None:
        return None, None, None
    return operator.op_name, operator.source_file, operator.source_line


def bounds_text(bounds: Bounds) -> str:
    """Return a range of bytes as its middle and the distance of its ends."""
    least, most = bounds
    middle = (least + most + 1) // 2
    spread = most - middle
    return (
        format_bytes(middle) if not spread else f"{format_bytes(middle)} ± {format_bytes(spread)}"
    )


def size_text(size: HumanSize | None) -> str | None:
    """Return a size as printed, with its unit if it is exact."""
    if size is None:
        return None
    least, most = size_bounds(size)
    return format_bytes(least) if least == most else size.text


def bounds_of(size: HumanSize | None) -> tuple[int | None, int | None]:
    """Return the smallest and largest number of bytes that print as a size."""
    return (None, None) if size is None else size_bounds(size)
