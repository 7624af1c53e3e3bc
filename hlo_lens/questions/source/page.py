"""The program's lines with their figures in the margin, and the differences of two dumps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.program.pages import module_head, page_without_hlo
from hlo_lens.program.summary import cut_facts, hlo_text
from hlo_lens.questions.findings.settings import with_sifted_findings
from hlo_lens.questions.source.lines import (
    OTHER_FILES,
    Amounts,
    changed_lines,
    in_checkout,
    module_pairs,
    own_lines,
    source_lines,
)
from hlo_lens.render.result import row_objects
from hlo_lens.render.table import Section, Table
from hlo_lens.render.to_json import ModulePage
from hlo_lens.text.errors import UnknownNameError, UsageError
from hlo_lens.text.names import portable_path
from hlo_lens.text.source_files import Checkout
from hlo_lens.text.units import flops_text, format_bytes, format_flops, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.source.lines import LineChange, LineChanges, SourceLine, SourceLines

_NEIGHBOURS = 2
"""Lines shown before and after one with figures."""

_MOST = 40
_LEAST = 0.001
"""Lines with figures that are shown at most, and the least share of a measure that they have."""

_CHANGED = "[changed since the compile]"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is shown of the lines."""

    file: str = ""
    is_whole: bool = False
    rows: int | None = None
    checkout: Checkout = field(default_factory=Checkout.here)

    def lines_of(self, module: ModuleDump) -> SourceLines:
        found = own_lines(module)
        if self.file:
            wanted = PurePath(self.file).parts
            found = source_lines(module).within(
                lambda file: PurePath(file).parts[-len(wanted) :] == wanted, OTHER_FILES
            )
        return in_checkout(found, hlo_text(module), self.checkout)


def pages(modules: Iterable[ModuleDump], view: View) -> Iterator[ModulePage]:
    """Yield the page on the lines of each module.

    Raises:
        UnknownNameError: If no module has a line in the file that is wanted.
    """
    listed = with_sifted_findings([*modules])
    _require_file(listed, view)
    for module in listed:
        if not module.has_hlo:
            yield page_without_hlo(module, rows=[])
            continue
        found = view.lines_of(module)
        shown = _most(found.lines, found.whole, view.rows)
        margin = [_margin(one, _cells(one)) for one in shown]
        hidden = len(found.lines) - len(shown)
        notes = [f"{plural(hidden, 'line')} with less not shown: -n 0"] if hidden else []
        facts = _facts(found.whole, found.residuals)
        drawing = _listing(margin, _HEADS, view)
        yield _page(module, found, facts, drawing, [*notes, *_notes(found)])


def change_pages(
    base: Sequence[ModuleDump], head: Sequence[ModuleDump], view: View
) -> Iterator[ModulePage]:
    """Yield the page on the lines of each module that cost more or less than in another dump.

    Raises:
        UnknownNameError: If no module has a line in the file that is wanted.
        UsageError: If no module of the head has the name of one of the base.
    """
    before, after = (with_sifted_findings([m for m in one if m.has_hlo]) for one in (base, head))
    pairs = module_pairs(before, after)
    if not pairs:
        raise UsageError("no module of the second dump has the name of one of the first")
    _require_file([*before, *after], view)
    for mine, yours in pairs:
        found = changed_lines(mine, yours, view.lines_of(mine), view.lines_of(yours))
        margin = [_margin(one, _deltas(one)) for one in found.lines]
        pairs_of_amounts = zip(found.base.whole, found.head.whole, strict=True)
        facts = [
            (label, f"{text(a)} -> {text(b)}")
            for (label, text), (a, b) in zip(_MEASURES, pairs_of_amounts, strict=True)
            if a is not None and b is not None
        ]
        drawing = _listing(margin, _CHANGE_HEADS, view)
        yield _page(yours, found, facts, drawing, [*_notes(found.head)])


def _require_file(modules: Sequence[ModuleDump], view: View) -> None:
    texts = [one for one in modules if one.has_hlo]
    if not view.file or any(view.lines_of(one).lines for one in texts):
        return
    files = {portable_path(line.source_file) for one in texts for line in source_lines(one).lines}
    raise UnknownNameError(
        f"{view.file}: neither a dump nor a file whose lines cost something; files: "
        f"{', '.join(sorted(files)) or 'none'}"
    )


def _page(
    module: ModuleDump,
    found: SourceLines | LineChanges,
    facts: Iterable[tuple[str, str]],
    drawing: Iterable[str],
    notes: Iterable[str],
) -> ModulePage:
    section = Section(
        title=module.title,
        facts=(*cut_facts(module), *facts),
        drawing=tuple(drawing),
        is_listing=True,
        tables=(Table.of(found, title="Lines of the program", is_data_only=True),),
        notes=tuple(notes),
    )
    rows = {
        "rows": found.objects(),
        "residual_rows": row_objects(found.COLUMNS, found.residual_rows()),
        "totals": dict(found.totals()),
    }
    head = {**module_head(module), "name": module.title}
    return ModulePage(sections=(section,), make_object=lambda: {**head, **rows})


_MEASURES = (("peak", format_bytes), ("sent", format_bytes), ("work", flops_text))
_HEADS = ("peak", "sent", "FLOP", "runs", "alike", "findings")
_CHANGE_HEADS = ("peak", "sent", "FLOP", "findings")


class _Margin(NamedTuple):
    """Cells beside a line, by its number in the checkout, or that compiled if it is not there."""

    file: str
    number: int
    is_lost: bool
    cells: list[str]


def _margin(line: SourceLine | LineChange, cells: list[str]) -> _Margin:
    number = line.checkout_line or line.source_line or getattr(line, "base_line", None) or 0
    return _Margin(line.source_file, number, line.checkout_line is None, cells)


def _most(lines: Sequence[SourceLine], whole: Amounts, rows: int | None) -> list[SourceLine]:
    """Return the lines with findings and those that cost most, in their order."""

    def share(line: SourceLine) -> float:
        parts = zip((line.peak_bytes, line.wire_bytes, line.flops), whole, strict=True)
        return max((one or 0) / total if total else 0.0 for one, total in parts)

    most = _MOST if rows is None else rows or len(lines)
    ranked = sorted(lines, key=lambda line: (not line.findings, -share(line)))
    kept = [one for one in ranked if rows is not None or one.findings or share(one) >= _LEAST]
    chosen = {id(one) for one in kept[:most]}
    return [one for one in lines if id(one) in chosen]


def _cells(line: SourceLine) -> list[str]:
    return [
        format_bytes(line.peak_bytes) if line.peak_bytes else "",
        format_bytes(line.wire_bytes) if line.wire_bytes else "",
        f"{line.flops_share:.0%}" if line.flops_share else "",
        f"x{line.times}" if (line.times or 1) > 1 else "",
        f"on {line.copies}" if line.repeated_flops and line.copies else "",
        " ".join(line.findings),
    ]


def _deltas(line: LineChange) -> list[str]:
    formats = (format_bytes, format_bytes, format_flops)
    texts = zip(map(line.delta, Amounts._fields), formats, strict=True)
    codes = [*(f"-{code}" for code in line.gone), *(f"+{code}" for code in line.new)]
    return [*(f"{'+' * (n > 0)}{text(n)}" if n else "" for n, text in texts), " ".join(codes)]


def _listing(margin: Sequence[_Margin], heads: Sequence[str], view: View) -> Iterator[str]:
    kept = [k for k in range(len(heads)) if any(one.cells[k] for one in margin)]
    by_file: dict[str, dict[tuple[int, bool], list[str]]] = defaultdict(dict)
    for one in margin:
        by_file[one.file][one.number, one.is_lost] = one.cells
    widths = {k: max(len(heads[k]), *(len(one.cells[k]) for one in margin)) for k in kept}
    digits = max((len(str(one.number)) + 1 for one in margin), default=0)

    def line(cells: Sequence[str], number: str, text: str) -> str:
        parts = [f"{cells[k]:>{widths[k]}}" for k in kept]
        return f"{' '.join(parts)} {number:>{digits}}  {text}".rstrip()

    blank = [""] * len(heads)
    for position, (file, lines) in enumerate(by_file.items()):
        if position:
            yield ""
        yield line(heads, "", portable_path(file))
        texts = [one.expandtabs() for one in view.checkout.lines_of(file)]
        places = sorted({*lines, *((n, False) for n in _shown(len(texts), lines, view))})
        shown = [texts[n - 1] for n, is_lost in places if not is_lost and texts[n - 1].strip()]
        indent = min((len(one) - len(one.lstrip()) for one in shown), default=0)
        previous = 0
        for number, is_lost in places:
            if texts and previous and number > previous + 1:
                yield line(blank, "", "...")
            text = (_CHANGED if texts else "") if is_lost else texts[number - 1][indent:]
            yield line(lines.get((number, is_lost), blank), str(number), text)
            previous = number


def _shown(count: int, lines: Iterable[tuple[int, bool]], view: View) -> Iterator[int]:
    if view.is_whole:
        yield from range(1, count + 1)
    for number, is_lost in lines:
        if not is_lost:
            first = max(1, number - _NEIGHBOURS)
            yield from range(first, min(number + _NEIGHBOURS, count) + 1)


def _facts(whole: Amounts, residuals: Mapping[str, Amounts]) -> Iterator[tuple[str, str]]:
    for k, (label, text) in enumerate(_MEASURES):
        total = whole[k]
        if total is not None:
            rest = [f"{text(one[k] or 0)} {name}" for name, one in residuals.items() if one[k]]
            yield label, ", ".join([text(total), *rest])


def _notes(found: SourceLines) -> Iterator[str]:
    """Yield what is not known, and which lines are no longer where they were."""
    unknown = [label for (label, _), one in zip(_MEASURES, found.whole, strict=True) if one is None]
    if unknown:
        yield f"of the whole program not known: {', '.join(unknown)}"
    files = dict.fromkeys(one.source_file for one in found.lines)
    there = {one.source_file for one in found.lines if one.checkout_line or one.is_changed}
    lost = [portable_path(one) for one in files if one not in there]
    if lost:
        yield f"not in the checkout (--root DIR), line numbers alone: {', '.join(lost)}"
    moved = [
        f"{one.checkout_line} was {one.source_line}"
        for one in found.lines
        if one.checkout_line not in (None, one.source_line)
    ]
    if moved:
        yield f"lines moved since the compile: {', '.join(moved)}"
    changed = sum(one.is_changed for one in found.lines)
    if changed:
        yield f"{plural(changed, 'line')} changed since the compile: numbers are those compiled"
