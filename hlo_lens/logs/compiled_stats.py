"""Sections on printed results of ``memory_analysis()`` and ``cost_analysis()``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hlo_lens.logs.log import PrintKind
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Section, table_of
from hlo_lens.text.units import flops_text, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.logs.log import PrintedStats

_MEMORY = (
    ("arguments", "argument_size_in_bytes"),
    ("outputs", "output_size_in_bytes"),
    ("reused for outputs", "alias_size_in_bytes"),
    ("temp", "temp_size_in_bytes"),
    ("generated code", "generated_code_size_in_bytes"),
    ("peak", "peak_memory_in_bytes"),
)


def stats_section(title: str, stats: PrintedStats) -> Section:
    """Return the section on one print.

    Args:
        title: Its title.
        stats: The print.
    """
    facts = _memory_facts(stats) if stats.kind is PrintKind.MEMORY else _cost_facts(stats)
    rows: list[Row] = list(stats.values)
    return Section(
        title=title,
        facts=(("line", str(stats.line)), *facts),
        tables=(
            table_of(
                "printed-stats",
                "Numbers as printed",
                (
                    Column("name", Unit.NONE, "name as printed"),
                    Column("value", Unit.NONE, "bytes, operations or a share, as the name says"),
                ),
                rows,
            ),
        ),
    )


def needed_bytes(stats: PrintedStats) -> int | None:
    """Return what must fit: arguments, outputs without reused ones, temp; None if not printed."""
    sizes = [_bytes(stats, f"{name}_size_in_bytes") for name in ("argument", "output", "temp")]
    alias = _bytes(stats, "alias_size_in_bytes")
    known = [size for size in (*sizes, alias) if size is not None]
    return sum(known[:3]) - known[3] if len(known) == len(_NEEDED) else None


_NEEDED = ("argument", "output", "temp", "alias")


def _memory_facts(stats: PrintedStats) -> Iterator[tuple[str, str]]:
    needed = needed_bytes(stats)
    if needed is not None:
        code = _bytes(stats, "generated_code_size_in_bytes")
        extra = f", and {format_bytes(code)} of generated code" if code else ""
        yield "memory", f"{format_bytes(needed)} must fit on each device{extra}"
    for label, name in _MEMORY:
        size = _bytes(stats, name)
        if size is not None:
            yield label, format_bytes(size)


def _cost_facts(stats: PrintedStats) -> Iterator[tuple[str, str]]:
    flops, accessed = stats.value("flops"), stats.value("bytes accessed")
    if flops is not None:
        yield "work", f"{_flops(flops)} as XLA counts them, bodies of loops once"
    if accessed is not None and math.isfinite(accessed):
        yield "traffic", f"{format_bytes(int(accessed))} read and written by all instructions"
    if flops is not None and accessed and math.isfinite(flops / accessed):
        yield "intensity", f"{flops / accessed:.1f} FLOP per byte"


def _flops(number: float) -> str:
    return flops_text(int(number)) if math.isfinite(number) and number >= 0 else "unknown"


def _bytes(stats: PrintedStats, name: str) -> int | None:
    value = stats.value(name)
    return value if isinstance(value, int) else None
