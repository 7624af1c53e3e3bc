"""Page of the growth of memory with one size: the largest that fits, by value, and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.render.envelope import envelope
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.text.shell_words import shell_word
from hlo_lens.text.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.plans.scaling import Prediction, Scaling

ESTIMATE = "estimate"
"""Basis of figures that no compile gave."""

_FACTORS = (0.5, 2, 4)
_SIZE_COLUMNS = (
    Column("size", Unit.COUNT, "the size"),
    Column("total_bytes", Unit.BYTES, "bytes of one device that must fit"),
    Column("low_bytes", Unit.BYTES, "lower end of the interval"),
    Column("high_bytes", Unit.BYTES, "upper end of the interval"),
    Column("source", Unit.NONE, "the dump, or estimate"),
)


def scaling_report(modules: Sequence[Scaling], paths: Sequence[str]) -> Report:
    """Return the report on the growth of some modules."""
    return Report(
        kind="fit",
        sections=tuple(_section(one, paths) for one in modules),
        data=envelope("fit", modules=[_object(one) for one in modules]),
    )


def _section(found: Scaling, paths: Sequence[str]) -> Section:
    return Section(
        title=found.name,
        facts=tuple(_facts(found, paths)),
        tables=(
            table_of("sizes", "Bytes that must fit, by size", _SIZE_COLUMNS, _size_rows(found)),
            Table.of(
                found,
                title=f"Values that differ between {found.unit} {found.dumps[0].size} and "
                f"{found.dumps[-1].size}",
            ),
        ),
        notes=tuple(_notes(found)),
    )


def _facts(found: Scaling, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    if found.limit_bytes is not None:
        yield "largest", _largest_text(found)
    per, fixed = round(found.bytes_per_unit), found.fixed_bytes
    rest = f", and {format_bytes(fixed)} that do not grow" if fixed > 0 else ""
    yield "growth", f"{format_bytes(per)} for each unit of {found.unit}{rest}"
    for check in found.checks:
        one, known = check.predicted, check.actual
        answer = "in the interval" if one.holds(known.total_bytes) else "outside the interval"
        yield (
            "check",
            f"{found.unit} {known.size}: {_interval(one)} predicted from the first two dumps, "
            f"{format_bytes(known.total_bytes)} in {known.path}: {check.error:+.1%}, {answer}",
        )
    yield "next", f"hlo-lens diff {' '.join(shell_word(path) for path in paths[:2])}"


def _interval(one: Prediction) -> str:
    return (
        f"{format_bytes(one.estimate_bytes)} ({format_bytes(one.low_bytes)} to "
        f"{format_bytes(one.high_bytes)})"
    )


def _largest_text(found: Scaling) -> str:
    limit, unit = format_bytes(found.limit_bytes or 0), found.unit
    source = f" ({found.limit_source})" if found.limit_source else ""
    largest, (low, high) = found.largest, found.largest_range
    if largest is None:
        return f"the memory does not grow with {unit}: any fits in {limit}{source}"
    if largest == 0:
        return f"no {unit} fits in {limit}{source}: {format_bytes(found.fixed_bytes)} do not grow"
    ends = f"{format_count(low or 0)} " + (
        "or more" if high is None else f"to {format_count(high)}"
    )
    step = f", in steps of {found.step}" if found.step > 1 else ""
    size = format_bytes(found.at(largest).estimate_bytes)
    return f"{unit} {format_count(largest)} by estimate ({ends}{step}): {size} of {limit}{source}"


def _size_rows(found: Scaling) -> list[Row]:
    rows: list[Row] = [
        (one.size, one.total_bytes, one.total_bytes, one.total_bytes, one.path or "dump")
        for one in found.dumps
    ]
    known = {one.size for one in found.dumps}
    for size in _shown_sizes(found):
        if size not in known:
            one = found.at(size)
            rows.append((size, one.estimate_bytes, one.low_bytes, one.high_bytes, ESTIMATE))
    return sorted(rows, key=lambda row: row[0] if isinstance(row[0], int) else 0)


def _shown_sizes(found: Scaling) -> list[int]:
    """Return sizes around the dumps, and the largest that fits."""
    last = found.dumps[-1].size
    sizes = {round(last * factor) // found.step * found.step for factor in _FACTORS}
    sizes |= {one for one in (found.largest, *found.largest_range) if one}
    return sorted(size for size in sizes if size > 0)


def _notes(found: Scaling) -> Iterator[str]:
    yield (
        "sizes between and beyond the dumps are estimates: linear in what grows; the interval "
        "allows for padding, other schedules and memory that VMEM cannot hold"
    )
    if found.is_moved:
        yield "the peaks of the dumps are at different instructions: growth may change again"
    last, largest = found.dumps[-1].size, found.largest
    if largest is not None and largest > 4 * last:
        yield (
            f"{found.unit} {format_count(largest)} is {largest / last:.0f} times the largest dump: "
            "compile one nearer to it"
        )


def _object(found: Scaling) -> dict[str, object]:
    low, high = found.largest_range
    return {
        "name": found.name,
        "fits": None if found.limit_bytes is None else found.largest != 0,
        "plans": [],
        "basis": ESTIMATE,
        "unit": found.unit,
        "step": found.step,
        "limit_bytes": found.limit_bytes,
        "limit_source": found.limit_source or None,
        "largest": found.largest,
        "largest_low": low,
        "largest_high": high,
        "bytes_per_unit": round(found.bytes_per_unit),
        "fixed_bytes": found.fixed_bytes,
        "sizes": [
            dict(zip((column.name for column in _SIZE_COLUMNS), row, strict=True))
            for row in _size_rows(found)
        ],
        "checks": [
            {
                "size": one.actual.size,
                "path": one.actual.path,
                "total_bytes": one.actual.total_bytes,
                "predicted_bytes": one.predicted.estimate_bytes,
                "low_bytes": one.predicted.low_bytes,
                "high_bytes": one.predicted.high_bytes,
                "holds": one.predicted.holds(one.actual.total_bytes),
            }
            for one in found.checks
        ],
        "values": found.objects(),
    }
