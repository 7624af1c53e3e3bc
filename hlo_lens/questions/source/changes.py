"""Differences of what lines cost in two compiles.

A line of the base is that of the head in whose function expressions begin at the same columns
(`compiled_columns`); in order, so that inserted lines move those below them. Without columns it is
the line of the same number. Files are the same if their paths end alike (`portable_path`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.source.checkout import compiled_columns
from hlo_lens.questions.source.lines import Amounts
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.names import plain_name, portable_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.source.lines import SourceLine, SourceLines
    from hlo_lens.render.result import Row

_Place = tuple[str, int]
"""Portable path and line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """A line that costs more or less in the head; None of a side that does not know it."""

    source_file: Annotated[str, "file, as the head names it, else the base"]
    source_line: Annotated[int | None, "line of the head; null if only the base has it"]
    base_line: Annotated[int | None, "line of the base; null if only the head has it"]
    text: Annotated[str | None, "the line in the checkout"]
    base_peak_bytes: Annotated[int | None, Unit.BYTES, "bytes at the peak before"]
    peak_bytes: Annotated[int | None, Unit.BYTES, "bytes at the peak after"]
    base_wire_bytes: Annotated[int | None, Unit.BYTES, "bytes sent before"]
    wire_bytes: Annotated[int | None, Unit.BYTES, "bytes sent after"]
    base_flops: Annotated[int | None, Unit.FLOPS, "FLOP before"]
    flops: Annotated[int | None, Unit.FLOPS, "FLOP after"]
    gone: Annotated[tuple[str, ...], "codes of findings that are gone"]
    new: Annotated[tuple[str, ...], "codes of findings that are new"]
    checkout_line: Annotated[int | None, "line of the checkout that it is now"]

    def delta(self, measure: str) -> int | None:
        """Return the difference of a measure of `Amounts`; None if a side is not known."""
        before, after = getattr(self, f"base_{measure}"), getattr(self, measure)
        return None if before is None or after is None else after - before

    @property
    def is_changed(self) -> bool:
        """Whether a measure or the findings differ."""
        return bool(self.gone or self.new) or any(map(self.delta, Amounts._fields))


@dataclass(frozen=True, kw_only=True)
class LineChanges(Records[LineChange]):
    """Lines that cost more or less, by file and line.

    Attributes:
        lines: The lines.
        base: Lines of the base.
        head: Lines of the head.
    """

    KIND: ClassVar[str] = "source-diff"
    lines: tuple[LineChange, ...]
    base: SourceLines
    head: SourceLines

    def residual_rows(self) -> tuple[Row, ...]:
        """Return what has no line, or is in other files."""
        before, after = self.base.residuals, self.head.residuals
        amounts = {
            label: _both(before.get(label, Amounts()), after.get(label, Amounts()))
            for label in dict.fromkeys((*before, *after))
        }
        return tuple((k, *(None,) * 3, *both, (), (), None) for k, both in amounts.items())


def module_pairs(
    base: Sequence[ModuleDump], head: Sequence[ModuleDump]
) -> list[tuple[ModuleDump, ModuleDump]]:
    """Return the modules of two dumps with the same name; the only ones in any case."""
    if len(base) == len(head) == 1:
        return [(base[0], head[0])]
    before = {plain_name(one.name): one for one in reversed(base)}
    pairs = ((before.pop(plain_name(one.name), None), one) for one in head)
    return [(mine, yours) for mine, yours in pairs if mine is not None]


def changed_lines(
    base: ModuleDump, head: ModuleDump, before: SourceLines, after: SourceLines
) -> LineChanges:
    """Return the lines of two modules that cost more or less in the head.

    Args:
        base: The module before.
        head: The module after.
        before: Its lines before.
        after: Its lines after.
    """
    names = _names_in_head(base, head)
    taken = {*names.values()}
    mine: dict[tuple[str, int, bool], SourceLine] = {}
    for one in before.lines:
        place = (portable_path(one.source_file), one.source_line)
        mine[(*names.get(place, place), place not in names and place in taken)] = one
    yours = {(portable_path(one.source_file), one.source_line, False): one for one in after.lines}
    pairs = ((mine.get(place), yours.get(place)) for place in sorted({*mine, *yours}))
    changes = (_change(one, other, before, after) for one, other in pairs)
    return LineChanges(
        lines=tuple(one for one in changes if one.is_changed), base=before, head=after
    )


def _change(
    mine: SourceLine | None, yours: SourceLine | None, before: SourceLines, after: SourceLines
) -> LineChange:
    line = yours or mine
    assert line is not None
    amounts = [
        Amounts(*(None if one is None else 0 for one in whole))
        if one is None
        else Amounts(one.peak_bytes, one.wire_bytes, one.flops)
        for one, whole in ((mine, before.whole), (yours, after.whole))
    ]
    names = [name for field in Amounts._fields for name in (f"base_{field}", field)]
    codes = [set() if one is None else {*one.findings} for one in (mine, yours)]
    return LineChange(
        source_file=line.source_file,
        source_line=None if yours is None else yours.source_line,
        base_line=None if mine is None else mine.source_line,
        text=line.text,
        checkout_line=line.checkout_line,
        gone=tuple(sorted(codes[0] - codes[1])),
        new=tuple(sorted(codes[1] - codes[0])),
        **dict(zip(names, _both(*amounts), strict=True)),
    )


def _both(base: Amounts, head: Amounts) -> list[int | None]:
    return [one for pair in zip(base, head, strict=True) for one in pair]


def _names_in_head(base: ModuleDump, head: ModuleDump) -> Mapping[_Place, _Place]:
    """Return the line of the head for lines of the base that moved."""
    before, after = _tokens(base), _tokens(head)
    found: dict[_Place, _Place] = {}
    for file, lines in before.items():
        others = after.get(file, {})
        mine, yours = [*lines.items()], [*others.items()]
        matcher = SequenceMatcher(
            None, [token for _, token in mine], [token for _, token in yours], autojunk=False
        )
        for tag, first, end, to, to_end in matcher.get_opcodes():
            if tag != "insert" and end - first == to_end - to:  # equal, or edited in place
                pairs = zip(mine[first:end], yours[to:to_end], strict=False)
                found |= {(file, one): (file, other) for (one, _), (other, _) in pairs}
    return found


def _tokens(module: ModuleDump) -> dict[str, dict[int, tuple[object, ...]]]:
    """Return functions and columns of each line, by portable path and line."""
    found: dict[str, dict[int, list[object]]] = defaultdict(lambda: defaultdict(list))
    for file, functions in compiled_columns(hlo_text(module)).items():
        for function, lines in functions.items():
            for line, columns in lines.items():
                found[portable_path(file)][line].append((function, *sorted(columns)))
    return {
        file: {line: tuple(sorted(map(str, parts))) for line, parts in sorted(lines.items())}
        for file, lines in found.items()
    }
