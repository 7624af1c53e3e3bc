"""Whether the scanner and the grammar alone read the texts of a dump alike, and their times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping

EQUAL = "equal"
DIFFERENT = "different"
REFUSED = "refused"

VERDICTS: Mapping[str, str] = {
    EQUAL: "both readers give the same model",
    DIFFERENT: "they do not, or the grammar refuses a text that the scanner reads without a gap",
    REFUSED: "the grammar refuses the text, and the scanner notes gaps or other lines in it too",
}
"""Meaning of each verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadText:
    """One text, read by the scanner and by the grammar; fields are `ReaderComparison`'s columns.

    The verdict is one of `VERDICTS`; the grammar has no time if the scanner found nothing to read.
    """

    file: str
    kind: str
    characters: int
    verdict: str
    line: int | None = None
    place: str | None = None
    field: str | None = None
    scanner: str | None = None
    grammar: str | None = None
    scanner_seconds: float
    grammar_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class ReaderComparison(Result):
    """The texts of a dump, each read by the scanner and by the grammar alone."""

    KIND: ClassVar[str] = "reader-comparison"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("file", Unit.NONE, "name of the file"),
        Column("kind", Unit.NONE, "kind of the text"),
        Column("characters", Unit.COUNT, "length of the text"),
        Column("verdict", Unit.NONE, "equal, different or refused"),
        Column("line", Unit.NONE, "line of the first difference, or of the grammar's error"),
        Column("place", Unit.NONE, "part of the text where it differs"),
        Column("field", Unit.NONE, "field of that part"),
        Column("scanner", Unit.NONE, "value that the scanner read there, or its gaps"),
        Column("grammar", Unit.NONE, "value that the grammar read there, or its error"),
        Column("scanner_seconds", Unit.NONE, "time of the scanner"),
        Column("grammar_seconds", Unit.NONE, "time of the grammar"),
    )
    RECORDS: ClassVar[str] = "texts"
    texts: tuple[ReadText, ...]

    @property
    def counts(self) -> Mapping[str, int]:
        """Verdict to the number of its texts, all verdicts included."""
        found = Counter(text.verdict for text in self.texts)
        return {verdict: found[verdict] for verdict in VERDICTS}

    @property
    def is_different(self) -> bool:
        """Whether any text is read differently."""
        return self.counts[DIFFERENT] > 0
