"""HloComputation: a list of instructions, one of which is its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from hlo_lens.model.hlo_columns import OPCODE, STRIDE
from hlo_lens.model.hlo_instruction import HloInstruction

if TYPE_CHECKING:
    from hlo_lens.model.hlo import HloModule

_HALF = 40
_MASK = (1 << _HALF) - 1


def _packed(start: int, end: int) -> int:
    """Return two numbers as one, 0 where nothing is between them: a tuple takes 120 bytes."""
    return start << _HALF | end if end > start else 0


class _Instructions(Sequence[HloInstruction]):
    """The instructions of a computation, made when they are asked for."""

    __slots__ = ("_computation",)

    def __init__(self, computation: HloComputation) -> None:
        self._computation = computation

    def __len__(self) -> int:
        return len(self._computation.rows)

    @overload
    def __getitem__(self, index: int) -> HloInstruction: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[HloInstruction]: ...
    def __getitem__(self, index: int | slice) -> HloInstruction | Sequence[HloInstruction]:
        computation = self._computation
        rows = computation.rows[index]
        if isinstance(rows, int):
            return HloInstruction(computation, rows)
        return [HloInstruction(computation, row) for row in rows]

    def __iter__(self) -> Iterator[HloInstruction]:
        computation = self._computation
        return (HloInstruction(computation, row) for row in computation.rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment] # equal content, and content is not hashed

    def __repr__(self) -> str:
        return f"<{len(self)} instructions>"


class HloComputation:
    """A computation: a list of instructions, one of which is its result.

    A large module has tens of thousands, so places are kept as one number each.

    Args:
        module: The module that holds it.
        name: Name without ``%``; empty where the text prints none.
        is_entry: Whether the program starts here.
        start: Offset in the text where it begins.
        is_complete: Whether its closing brace was found.

    Attributes:
        is_inline: Whether its body is printed inside the instruction that calls it.
    """

    __slots__ = (
        "_attributes",
        "_root_row",
        "_row_by_name",
        "_rows",
        "_signature",
        "is_complete",
        "is_entry",
        "is_inline",
        "module",
        "name",
        "start",
    )

    def __init__(
        self,
        *,
        module: HloModule,
        name: str,
        is_entry: bool = False,
        start: int = 0,
        is_complete: bool = True,
    ) -> None:
        self.module = module
        self.name = name
        self.is_entry = is_entry
        self.start = start
        self.is_complete = is_complete
        self.is_inline = False
        self._rows: int | tuple[int, ...] = 0
        self._signature = 0
        self._attributes = 0
        self._root_row: int | None = None
        self._row_by_name: dict[str, int] | None = None

    def __repr__(self) -> str:
        return f"<HloComputation {self.name} of {len(self.rows)} instructions>"

    @property
    def rows(self) -> Sequence[int]:
        """Its rows in the module's columns, in text order."""
        rows = self._rows
        return range(rows >> _HALF, rows & _MASK) if isinstance(rows, int) else rows

    @rows.setter
    def rows(self, rows: Sequence[int]) -> None:
        if isinstance(rows, range) and rows.step == 1:
            self._rows = _packed(rows.start, rows.stop)
        else:
            self._rows = tuple(rows)

    @property
    def signature_span(self) -> tuple[int, int]:
        """Where ``(parameters) -> shape`` stands; empty where it is not printed."""
        return self._signature >> _HALF, self._signature & _MASK

    @signature_span.setter
    def signature_span(self, span: tuple[int, int]) -> None:
        self._signature = _packed(*span)

    @property
    def attributes_span(self) -> tuple[int, int]:
        """Where attributes stand after the closing brace, with the leading comma."""
        return self._attributes >> _HALF, self._attributes & _MASK

    @attributes_span.setter
    def attributes_span(self, span: tuple[int, int]) -> None:
        self._attributes = _packed(*span)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HloComputation):
            return NotImplemented
        return (
            self.name == other.name
            and self.is_entry == other.is_entry
            and self.attributes_text == other.attributes_text
            and self.instructions == other.instructions
        )

    __hash__ = object.__hash__

    @property
    def signature_text(self) -> str:
        """``(parameters) -> shape`` as written; empty where it is not printed."""
        return self.module.columns.source.text[slice(*self.signature_span)]

    @property
    def attributes_text(self) -> str:
        """What stands after the closing brace, with its leading comma."""
        return self.module.columns.source.text[slice(*self.attributes_span)]

    @property
    def instructions(self) -> Sequence[HloInstruction]:
        """Instructions in text order; in a scheduled module the order of execution."""
        return _Instructions(self)

    @property
    def root_row(self) -> int:
        """Row of the result: the one marked ROOT, else the last; -1 for an empty computation."""
        if self._root_row is None:
            rows = self.rows
            last = rows[-1] if rows else -1
            self._root_row = self.module.columns.root_among(rows, last)
        return self._root_row

    @property
    def root(self) -> HloInstruction | None:
        """The result; None only where no instruction could be read."""
        return HloInstruction(self, self.root_row) if self.rows else None

    @property
    def parameters(self) -> tuple[HloInstruction, ...]:
        """Parameters by number; those that print no number come last, in text order."""
        text, spans = self.module.columns.source.text, self.module.columns.spans
        likely = (r for r in self.rows if text.startswith("parameter", spans[r * STRIDE + OPCODE]))
        those = (
            i for i in (HloInstruction(self, row) for row in likely) if i.opcode == "parameter"
        )
        found = [(i.parameter_number, i) for i in those]
        return tuple(i for _, i in sorted(found, key=lambda item: (item[0] is None, item[0] or 0)))

    @property
    def execution_thread(self) -> str:
        """Thread that runs it; ``main`` where the text does not say."""
        for name, value in self.module.reader.attributes(self.attributes_text):
            if name == "execution_thread":
                return self.module.reader.string(value)
        return "main"

    def instruction(self, name: str) -> HloInstruction | None:
        """Return the instruction of a name (with or without ``%``), or None.

        Of several with one name, which only hand-written text has, the last.
        """
        if self._row_by_name is None:
            name_of = self.module.columns.name
            self._row_by_name = {name_of(row): row for row in self.rows}
        row = self._row_by_name.get(name.removeprefix("%"))
        return None if row is None else HloInstruction(self, row)

    @property
    def callers(self) -> tuple[HloInstruction, ...]:
        """Instructions that call it, in text order."""
        return self.module.callers.get(self.name, ())
