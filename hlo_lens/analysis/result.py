"""Result: what every pass returns, as typed fields and as rows that every renderer can print."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, TypeAlias, Union

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pandas as pd

Cell: TypeAlias = Union[str, int, float, bool, "tuple[Cell, ...]", None]
"""One value of a row, in the base unit of its column; None where it is not known."""

Row: TypeAlias = tuple[Cell, ...]

_HTML_ROWS = 20


class Unit(Enum):
    """What the numbers of a column count."""

    NONE = "none"
    BYTES = "bytes"
    BYTES_DELTA = "bytes-delta"
    COUNT = "count"
    RATIO = "ratio"
    FLOPS = "flops"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result.

    Attributes:
        name: Column heading, CSV header and JSON key alike.
        unit: Unit of its numbers; NONE for text.
        meaning: What it holds, in one phrase.
    """

    name: str
    unit: Unit
    meaning: str


def row_of(record: object, columns: Iterable[Column]) -> Row:
    """Return the row of a record whose fields have the names of the columns."""
    return tuple(getattr(record, column.name) for column in columns)


def row_objects(columns: Iterable[Column], rows: Iterable[Row]) -> list[dict[str, Cell]]:
    """Return rows as dictionaries (JSON objects) keyed by column name."""
    names = [column.name for column in columns]
    return [dict(zip(names, row, strict=True)) for row in rows]


@dataclass(frozen=True, kw_only=True)
class Result(ABC):
    """Base of all results: exact, complete, in base units.

    Subclasses set KIND and COLUMNS; `rows` yields the rows in their final order. Where a column
    adds up, `totals` has its sum over `rows` and `residual_rows`. The first cell of a residual row
    is a label in brackets: ``[unattributed]``.
    """

    KIND: ClassVar[str]
    COLUMNS: ClassVar[tuple[Column, ...]]

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Yield all rows, without residuals; each call starts anew."""

    @property
    def row_count(self) -> int:
        """Number of rows, without residuals."""
        return sum(1 for _ in self.rows())

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the bracketed rows that make the others add up to the totals."""
        return ()

    def totals(self) -> Mapping[str, int]:
        """Return column name to sum over all rows and residuals, for columns that have one."""
        return {}

    @classmethod
    def place_of(cls, name: str) -> int:
        """Return the position of a column in the rows."""
        return [column.name for column in cls.COLUMNS].index(name)

    def objects(self, most: int | None = None) -> list[dict[str, Cell]]:
        """Return the first `most` rows (None: all) as dictionaries, without residual rows."""
        return row_objects(self.COLUMNS, islice(self.rows(), most))

    def ranking(self, most: int) -> dict[str, object]:
        """Return the first `most` rows, and the number, residual rows and totals of all rows."""
        return {
            "row_count": self.row_count,
            "totals": dict(self.totals()),
            "rows": self.objects(most),
            "residual_rows": row_objects(self.COLUMNS, self.residual_rows()),
        }

    def to_dict(self) -> dict[str, object]:
        """Return kind, columns, rows (as dictionaries), residual rows and totals."""
        return {
            "kind": self.KIND,
            "columns": [
                {"name": column.name, "unit": column.unit.value, "meaning": column.meaning}
                for column in self.COLUMNS
            ],
            "rows": self.objects(),
            "residual_rows": row_objects(self.COLUMNS, self.residual_rows()),
            "totals": dict(self.totals()),
        }

    def to_frame(self) -> pd.DataFrame:
        """Return the rows, without residuals, as a pandas frame with the same columns."""
        import pandas as pd

        names = [column.name for column in self.COLUMNS]
        return pd.DataFrame.from_records(list(self.rows()), columns=names)

    def _repr_html_(self) -> str:
        """Return the result for a notebook: its name, its first and last rows, its totals."""
        from html import escape

        lead = (type(self).__doc__ or "").strip().partition("\n")[0]
        frame = self.to_frame().to_html(max_rows=_HTML_ROWS, escape=True, border=0)
        totals = "".join(
            f"<li>{escape(name)}: {total:,}</li>" for name, total in self.totals().items()
        )
        sums = f"<p>Totals, all rows and residuals:</p><ul>{totals}</ul>" if totals else ""
        return f"<p><b>{escape(self.KIND)}</b> {escape(lead)}</p>{frame}{sums}"
