"""HloComputation: a list of instructions with one result."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import OPCODE, SIGNATURE, STRIDE, TAIL, TITLE, ComputationColumns
from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.hlo.name_index import NameIndex
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.text.source import Span


_FEW_ROWS = 128
"""Rows of a computation up to which a dictionary of names is faster than a `NameIndex`."""

_SMALL_INDEXES = 64
"""Number of such dictionaries in the cache; each takes 200 bytes a name."""


class HloComputation:
    """A computation: a list of instructions with one result. A view over columns, cheap to make.

    Args:
        module: The module.
        place: Its place among the module's computations.
        columns: Columns that hold it, if not the module's.
    """

    __slots__ = ("_columns", "_name", "_place", "module")

    def __init__(
        self, module: HloModule, place: int, columns: ComputationColumns | None = None
    ) -> None:
        self.module = module
        self._place = place
        self._columns = module.computation_columns if columns is None else columns
        self._name: str | None = None

    def __repr__(self) -> str:
        return f"<HloComputation {self.name} of {len(self.rows)} instructions>"

    @property
    def place(self) -> int:
        """Its place among the module's computations."""
        return self._place

    @property
    def name(self) -> str:
        """Name without ``%``; empty where the text prints none."""
        if self._name is None:
            known = self._columns.names.get(self._place)
            self._name = self._text(TITLE) if known is None else known
        return self._name

    @property
    def is_entry(self) -> bool:
        """Whether it is the entry of the module."""
        return self._columns.is_entry(self._place)

    @property
    def is_complete(self) -> bool:
        """Whether its closing brace was found."""
        return self._columns.is_complete(self._place)

    @property
    def is_inline(self) -> bool:
        """Whether its body is printed inside the instruction that calls it."""
        return self._columns.is_inline(self._place)

    @property
    def start(self) -> int:
        """Its offset in the text."""
        return self._columns.start(self._place)

    @property
    def rows(self) -> Sequence[int]:
        """Its rows in the module's columns, in text order."""
        return self._columns.rows(self._place)

    def _text(self, column: int) -> str:
        start, end = self._columns.span(self._place, column)
        return self.module.columns.source.text[start:end]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HloComputation):
            return NotImplemented
        if self._columns is other._columns and self._place == other._place:
            return True
        return (
            self.name == other.name
            and self.is_entry == other.is_entry
            and self.attributes_text == other.attributes_text
            and self.instructions == other.instructions
        )

    def __hash__(self) -> int:
        return hash((self.name, len(self.rows)))

    @property
    def signature_text(self) -> str:
        """``(parameters) -> shape`` as written; empty where it is not printed."""
        return self._text(SIGNATURE)

    @property
    def signature_span(self) -> Span:
        """Where `signature_text` is in the text."""
        from hlo_lens.text.source import Span

        return Span(*self._columns.span(self._place, SIGNATURE))

    @property
    def attributes_text(self) -> str:
        """The text after the closing brace, with its leading comma."""
        return self._text(TAIL)

    @property
    def instructions(self) -> Sequence[HloInstruction]:
        """Instructions in text order; in a scheduled module the order of execution."""
        return Rows(functools.partial(HloInstruction, self), self.rows)

    @property
    def root_row(self) -> int:
        """Row of the result: the one marked ROOT, else the last; -1 where there is none.

        Without a mark, a computation that is cut off has lost its result.
        """
        rows = self.rows
        marked = self.module.columns.root_among(rows)
        return rows[-1] if marked < 0 and rows and self.is_complete else marked

    @property
    def root(self) -> HloInstruction | None:
        """The result; None for an empty computation, and for one that was cut off before it."""
        row = self.root_row
        return None if row < 0 else HloInstruction(self, row)

    @property
    def parameters(self) -> tuple[HloInstruction, ...]:
        """Parameters by number; those without a printed number come last, in text order."""
        text, spans = self.module.columns.source.text, self.module.columns.spans
        likely = (r for r in self.rows if text.startswith("parameter", spans[r * STRIDE + OPCODE]))
        those = (
            i for i in (HloInstruction(self, row) for row in likely) if i.opcode == "parameter"
        )
        found = [(i.parameter_number, i) for i in those]
        return tuple(i for _, i in sorted(found, key=lambda item: (item[0] is None, item[0] or 0)))

    @property
    def execution_thread(self) -> str:
        """Thread that runs it; ``main`` if not printed."""
        for name, value in self.module.reader.attributes(self.attributes_text):
            if name == "execution_thread":
                return self.module.reader.string(value)
        return "main"

    def instruction(self, name: str) -> HloInstruction | None:
        """Return the instruction of a name (with or without ``%``), or None.

        If several have the name, as in hand-written text, the last one.
        """
        indexes = self._columns.name_indexes
        index = indexes.get(self._place) or self._columns.small_indexes.get(self._place)
        if index is None:
            index = self._name_index()
        row = index.get(name.removeprefix("%"))
        return None if row is None else HloInstruction(self, row)

    def _name_index(self) -> NameIndex | dict[str, int]:
        """Return a new index of the rows by name, and remember it: that of few rows for a while."""
        rows, columns, all_columns = self.rows, self._columns, self.module.columns
        if len(rows) > _FEW_ROWS:
            index = NameIndex(rows, all_columns.name, all_columns.names(rows))
            columns.name_indexes[self._place] = index
            return index
        if len(columns.small_indexes) >= _SMALL_INDEXES:
            columns.small_indexes.clear()
        small = dict(zip(all_columns.names(rows), rows, strict=True))
        columns.small_indexes[self._place] = small
        return small

    @property
    def callers(self) -> tuple[HloInstruction, ...]:
        """Instructions that call it, in text order."""
        module = self.module
        named = module.computation(self.name)
        calls = () if named is None else module.links.calls.of_computation(named.place)
        return tuple(map(module.instruction, dict.fromkeys(call.row for call in calls)))
