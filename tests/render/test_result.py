"""Base class of results: rows as objects, rankings, frames and HTML."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

import pytest

from hlo_lens.program.instructions import largest_instructions, opcodes, source_bytes
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import summary
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.render.result import (
    Column,
    Records,
    Result,
    Row,
    Unit,
    columns_of,
    format_cell,
)
from tests.questions.texts import LOOP, module_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.render.result import Cell


@dataclass(frozen=True, kw_only=True)
class Sizes(Result):
    """Sizes of operations."""

    KIND: ClassVar[str] = "sizes"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", Unit.NONE, "operation"),
        Column("size_bytes", Unit.BYTES, "its size"),
    )
    RECORDS: ClassVar[str] = "sizes"
    sizes: tuple[tuple[str, int], ...]

    def residual_rows(self) -> tuple[Row, ...]:
        return (("[unknown]", 0),)

    def totals(self) -> dict[str, int]:
        return {"size_bytes": sum(size for _, size in self.sizes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: Annotated[str, "operation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized(Named):
    inside: str = ""
    size_bytes: Annotated[int, Unit.BYTES, "its size, padding included"]

    @property
    def half_bytes(self) -> Annotated[int, Unit.BYTES, "half of it"]:
        return self.size_bytes // 2


class SizedTuple(NamedTuple):
    name: Annotated[str, "operation"]
    size_bytes: Annotated[int, Unit.BYTES, "its size"] = 0


@dataclass(frozen=True, kw_only=True)
class SizedRecords(Records[Sized]):
    """Sizes of operations."""

    KIND: ClassVar[str] = "sizes"
    TOTALS: ClassVar[tuple[str, ...]] = ("size_bytes",)
    sizes: tuple[Sized, ...]
    lost: int = 0

    def residual_rows(self) -> tuple[Row, ...]:
        return (("[lost]", self.lost, None),)


def test_columns_are_the_annotated_fields_of_the_record_then_its_properties() -> None:
    assert (
        Column("name", Unit.NONE, "operation"),
        Column("size_bytes", Unit.BYTES, "its size, padding included"),
        Column("half_bytes", Unit.BYTES, "half of it"),
    ) == SizedRecords.COLUMNS
    assert [one.name for one in columns_of(SizedTuple)] == ["name", "size_bytes"]


def test_rows_and_totals_follow_from_the_records() -> None:
    found = SizedRecords(
        sizes=(Sized(name="a", size_bytes=8), Sized(name="b", size_bytes=2)), lost=5
    )
    assert [*found.rows()] == [("a", 8, 4), ("b", 2, 1)]
    assert (found.row_count, found.totals()) == (2, {"size_bytes": 15})
    assert found.objects()[1] == {"name": "b", "size_bytes": 2, "half_bytes": 1}


PASSES = (
    collectives,
    entry_signature,
    largest_instructions,
    opcodes,
    source_bytes,
    summary,
)


@pytest.mark.parametrize("run", PASSES)
def test_rows_fit_the_columns_and_sum_to_the_totals(
    run: Callable[[ModuleDump], Result],
) -> None:
    result = run(module_of(LOOP))
    rows = list(result.rows())
    names = [column.name for column in result.COLUMNS]
    assert result.row_count == len(rows)
    assert all(len(row) == len(names) for row in (*rows, *result.residual_rows()))
    for name, total in result.totals().items():
        place = names.index(name)
        cells = [row[place] for row in (*rows, *result.residual_rows())]
        assert sum(cell for cell in cells if isinstance(cell, int)) == total


def test_ranking_counts_the_rows_that_it_leaves_out() -> None:
    result = opcodes(module_of(LOOP))
    ranking = result.ranking(2)
    assert ranking["rows"] == result.objects()[:2]
    assert ranking["row_count"] == result.row_count > 2
    assert ranking["totals"] == dict(result.totals())


def test_to_frame_has_the_same_columns_and_rows() -> None:
    result = source_bytes(module_of(LOOP))
    frame = result.to_frame()
    assert list(frame.columns) == [column.name for column in result.COLUMNS]
    assert frame["result_bytes"].tolist() == [512, 9]


def test_notebooks_show_sizes_in_readable_units_and_count_other_rows() -> None:
    rows = tuple((f"op{k}", k << 20) for k in range(22))
    html = Sizes(sizes=rows)._repr_html_()
    assert '<td style="text-align: right">19.00MiB</td>' in html
    assert "20.00MiB" not in html
    assert "[2 others]" in html
    assert ">231.00MiB<" in html
    assert "[unknown]" in html


def test_passes_do_not_import_pandas() -> None:
    code = (
        "import sys, hlo_lens.questions.report.module_page; "
        "print(sorted({'pandas', 'networkx', 'rich', 'click'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize(
    ("cell", "unit", "text"),
    [
        (None, Unit.BYTES, ""),
        (True, Unit.NONE, "yes"),
        (False, Unit.NONE, "no"),
        (2048, Unit.BYTES, "2.0KiB"),
        (2048, Unit.COUNT, "2,048"),
        (2048, Unit.NONE, "2048"),
        (0.5, Unit.RATIO, "50%"),
        (("a", 1), Unit.NONE, "a,1"),
        ("caf\u00e9", Unit.NONE, "caf\u00e9"),
        ("a\nb\x1b[31m", Unit.NONE, "a\\nb\\x1b[31m"),
    ],
)
def test_cell_is_one_harmless_line(cell: Cell, unit: Unit, text: str) -> None:
    assert format_cell(cell, unit) == text
