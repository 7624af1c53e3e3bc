"""Result: the answer of a pass, as typed fields and as rows that every renderer can print."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from inspect import get_annotations
from itertools import islice
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    ClassVar,
    ForwardRef,
    Generic,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from hlo_lens.text.errors import printable
from hlo_lens.text.units import (
    format_bytes,
    format_count,
    format_delta,
    format_flops,
    format_ratio,
    format_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pandas as pd
    from _typeshed import DataclassInstance

Cell: TypeAlias = Union[str, int, float, bool, "tuple[Cell, ...]", None]
"""One value of a row, in the base unit of its column; None if unknown."""

Row: TypeAlias = tuple[Cell, ...]


class Unit(Enum):
    """Unit of the numbers of a column."""

    NONE = "none"
    BYTES = "bytes"
    BYTES_DELTA = "bytes-delta"
    COUNT = "count"
    RATIO = "ratio"
    FLOPS = "flops"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result.

    Attributes:
        name: Column heading, CSV header and JSON key alike.
        unit: Unit of its numbers; NONE for text.
        meaning: Definition of its cells, in one phrase.
    """

    name: str
    unit: Unit
    meaning: str


def sum_of(parts: Iterable[int | None]) -> int | None:
    """Return the sum of some numbers; None if any is unknown."""
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def rows_of(records: Iterable[object], columns: Sequence[Column]) -> Iterator[Row]:
    """Yield the rows of records: tuples as they are, of others the fields named as the columns."""
    cells = attrgetter(*(column.name for column in columns))
    return (record if type(record) is tuple else cells(record) for record in records)


def row_objects(columns: Iterable[Column], rows: Iterable[Row]) -> list[dict[str, Cell]]:
    """Return rows as dictionaries (JSON objects) keyed by column name."""
    names = [column.name for column in columns]
    return [dict(zip(names, row, strict=True)) for row in rows]


@dataclass(frozen=True, kw_only=True)
class Result:
    """Base of all results: exact, complete, in base units.

    Subclasses set KIND and COLUMNS; `rows` yields the rows in their final order. RECORDS names the
    field with one record for each row, if there is one. TOTALS names the columns that add up:
    `totals` has their sums over `rows` and `residual_rows`. The first cell of a residual row is a
    label in brackets: ``[unattributed]``.
    """

    KIND: ClassVar[str]
    COLUMNS: ClassVar[tuple[Column, ...]]
    RECORDS: ClassVar[str] = ""
    TOTALS: ClassVar[tuple[str, ...]] = ()

    def rows(self) -> Iterator[Row]:
        """Yield all rows, without residuals; each call starts anew."""
        return rows_of(getattr(self, self.RECORDS), self.COLUMNS)

    @property
    def row_count(self) -> int:
        """Number of rows, without residuals."""
        return len(getattr(self, self.RECORDS)) if self.RECORDS else sum(1 for _ in self.rows())

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the bracketed rows that make the others add up to the totals."""
        return ()

    def totals(self) -> Mapping[str, float]:
        """Return column name to sum over all rows and residuals, for columns that have one."""
        if not self.TOTALS:
            return {}
        rows = [*self.rows(), *self.residual_rows()]
        places = [(name, self.place_of(name)) for name in self.TOTALS]
        return {n: sum(c for row in rows if isinstance(c := row[k], int)) for n, k in places}

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
        html: str = import_module("hlo_lens.render.to_html").result_html(self)
        return html


NOT_SAVED = {"is_saved": False}
"""Metadata of a field that neither JSON of records nor snapshots have."""


def saved_fields(value: DataclassInstance) -> Iterator[tuple[str, object]]:
    """Yield name and value of each field of a record that files have."""
    return ((name, getattr(value, name)) for name in saved_names(type(value)))


def saved_names(kind: type[DataclassInstance]) -> list[str]:
    """Return the names of the fields of a record that files have."""
    return [field.name for field in fields(kind) if field.metadata.get("is_saved", True)]


def facts_object(facts: DataclassInstance, *, leave_out: Collection[str] = ()) -> dict[str, object]:
    """Return facts as a JSON object, without the fields of some names."""
    return {
        name: plain_value(part, leave_out)
        for name, part in saved_fields(facts)
        if name not in leave_out
    }


def plain_value(value: object, leave_out: Collection[str] = ()) -> object:
    """Return a value as JSON has it: records and mappings as objects, tuples as lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return facts_object(value, leave_out=leave_out)
    if isinstance(value, Mapping):
        return {key: plain_value(part, leave_out) for key, part in value.items()}
    if isinstance(value, tuple):
        return [plain_value(one, leave_out) for one in value]
    return value.value if isinstance(value, Enum) else value


R = TypeVar("R")


class _ColumnsOfRecord:
    """The columns of the record of a class, found at their first use."""

    def __get__(self, result: object, owner: type) -> tuple[Column, ...]:
        bases = (one for base in owner.__mro__ for one in base.__dict__.get("__orig_bases__", ()))
        record = next(get_args(base)[0] for base in bases if get_origin(base) is Records)
        return columns_of(record)


class Records(Result, Generic[R]):
    """A result with a record for each row, in its first field.

    The columns are the annotated fields of the record, then its annotated properties:
    ``size_bytes: Annotated[int, Unit.BYTES, "bytes that it holds"]``. Other fields are no columns.
    """

    COLUMNS: ClassVar[tuple[Column, ...]] = cast("tuple[Column, ...]", _ColumnsOfRecord())

    @property
    def records(self) -> Sequence[R]:
        return cast("Sequence[R]", getattr(self, fields(self)[0].name))

    def rows(self) -> Iterator[Row]:
        return map(attrgetter(*(column.name for column in self.COLUMNS)), self.records)

    @property
    def row_count(self) -> int:
        return len(self.records)


@cache
def columns_of(record: type) -> tuple[Column, ...]:
    """Return the columns of a record: its annotated fields, then its annotated properties."""
    bases = record.__mro__[-2::-1]  # without object
    stored = [pair for base in bases for pair in get_annotations(base).items()]
    computed = [
        (name, value.fget.__annotations__.get("return"))
        for base in bases
        for name, value in vars(base).items()
        if isinstance(value, property) and value.fget is not None
    ]
    found = (_column(name, annotation) for name, annotation in (*stored, *computed))
    return tuple(column for column in found if column is not None)


def _column(name: str, annotation: object) -> Column | None:
    """Return the column of a field; None for a plain annotation.

    Annotations are read as text: types that are imported for type checking alone are not there.
    """
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    if not isinstance(text, str) or not text.startswith("Annotated["):
        return None
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Subscript)
    assert isinstance(node.slice, ast.Tuple)
    *units, meaning = node.slice.elts[1:]
    unit = Unit[ast.unparse(units[0]).removeprefix("Unit.")] if units else Unit.NONE
    return Column(name, unit, ast.literal_eval(meaning))


_FORMATS: Mapping[Unit, Callable[[float], str]] = {
    Unit.RATIO: format_ratio,
    Unit.SECONDS: format_seconds,
    Unit.BYTES: lambda number: format_bytes(round(number)),
    Unit.FLOPS: lambda number: format_flops(round(number)),
    Unit.BYTES_DELTA: lambda number: format_delta(round(number)),
    Unit.COUNT: lambda number: format_count(number) if isinstance(number, int) else str(number),
    Unit.NONE: str,
}


def format_cell(cell: Cell, unit: Unit) -> str:
    """Return a cell as readable text: empty for None, units for numbers, one line for text."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, (int, float)):
        return _FORMATS[unit](cell)
    if isinstance(cell, tuple):
        return ",".join(format_cell(item, unit) for item in cell)
    return printable(cell)
