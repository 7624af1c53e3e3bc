"""Result: what every pass returns, as typed fields and as rows that every renderer can print."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, TypeAlias, Union

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


@dataclass(frozen=True, kw_only=True)
class Result(ABC):
    """Base of all results: exact, complete, in base units.

    Subclasses name themselves in KIND and their columns in COLUMNS. `rows` gives the rows in their
    final order. Where a column of rows sums to something, `totals` has the sum over `rows` and
    `residual_rows`, whose first cell is in brackets: ``[unattributed]``.
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

    def to_dict(self) -> dict[str, object]:
        """Return kind, columns, rows (as dictionaries), residual rows and totals."""
        names = [column.name for column in self.COLUMNS]
        return {
            "kind": self.KIND,
            "columns": [
                {"name": column.name, "unit": column.unit.value, "meaning": column.meaning}
                for column in self.COLUMNS
            ],
            "rows": [dict(zip(names, row, strict=True)) for row in self.rows()],
            "residual_rows": [dict(zip(names, row, strict=True)) for row in self.residual_rows()],
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
