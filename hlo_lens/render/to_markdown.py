"""Report to Markdown, for a pull request or an issue, and annotations of GitHub Actions.

A report with a limit on its length has its tables folded, for a comment on a pull request. Parts
that do not fit are left out whole, and counted: first rows of tables, then tables, then sections
from the end on.

Source of the annotations: docs.github.com, "Workflow commands for GitHub Actions"; escapes as in
@actions/core's command.ts: %, CR and LF in messages, and : and , too in properties.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape as html_escape
from typing import TYPE_CHECKING, TextIO

from hlo_lens.render.result import Unit
from hlo_lens.render.table import RenderOptions, Report, Section, Table, cut_table, shorten
from hlo_lens.text.errors import printable
from hlo_lens.text.source_files import Checkout
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_ROWS = 20
_WIDEST = 120
_FEWER = (10, 5, 3, 1)
_LONGEST_TEXT = 2_000
"""Characters of a title, fact or note of a comment."""

_SPECIAL = re.compile(r"[\\`*|<~$]|(?<!\w)_|_(?!\w)|(?<=\])\(|&(?=#?\w+;)")
"""Characters with a meaning in Markdown; an underscore inside a word has none."""

_REFERENCE = re.compile(r"(?<!\w)([@#])(?=\w)")
"""Marks by which GitHub links people and issues, whether escaped or not."""
_NOTHING = "&#8203;"


def render_markdown(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write headings, facts as a list, and tables cut at `DEFAULT_ROWS` or the option."""
    rows = DEFAULT_ROWS if options.rows is None else options.rows
    if report.most_characters is not None:
        out.write(comment_text(report, rows, report.most_characters))
        return
    blocks = (block for section in report.pages for block in _section(section, rows))
    out.write("\n\n".join(blocks) + "\n")


def _section(section: Section, rows: int, level: str = "##") -> Iterator[str]:
    if section.title:
        yield f"{level} {_escaped(section.title)}"
    if section.facts:
        yield "\n".join(_fact(label, _escaped(text.strip())) for label, text in section.facts)
    if section.drawing:
        drawing = [printable(line).replace("```", r"\x60``") for line in section.drawing]
        yield "\n".join(("```text", *drawing, "```"))
    for table in section.shown_tables:
        yield from _table(table, rows)
    if section.notes:
        yield "\n".join(f"- {_escaped(note)}" for note in section.notes)
    if section.command:
        yield f"`{printable(section.command)}`"
    for part in section.parts:
        yield from _section(part, rows, "###")


def _table(table: Table, rows: int) -> Iterator[str]:
    if table.title:
        yield f"### {_escaped(table.title.strip())}"
    yield "\n".join(_table_lines(table, rows))
    if table.notes:
        yield "\n".join(_note_lines(table))
    if table.command:
        yield f"`{printable(table.command)}`"


def _fact(label: str, text: str) -> str:
    """Return a fact as an item of a list; one whose label is indented continues the item above."""
    name = f"**{_escaped(label.strip())}**: " if label.strip() else ""
    return f"{'  ' * label.startswith(' ')}- {name}{text}"


def _table_lines(table: Table, rows: int) -> Iterator[str]:
    cut = cut_table(table, rows)
    marks = ["---" if column.unit is Unit.NONE else "---:" for column in cut.columns]
    cells = ([_escaped(shorten(cell, _WIDEST)) for cell in row] for row in (*cut.rows, *cut.tail))
    for line in ([column.name for column in cut.columns], marks, *cells):
        yield f"| {' | '.join(line)} |"


def _note_lines(table: Table) -> Iterator[str]:
    return (f"{_escaped(note)}  " for note in table.notes)


def _escaped(text: str) -> str:
    """Return text without meaning to Markdown and GitHub."""
    return _unlinked(_SPECIAL.sub(r"\\\g<0>", printable(text)))


def _unlinked(text: str) -> str:
    return _REFERENCE.sub(rf"\1{_NOTHING}", text)


def comment_text(report: Report, rows: int, most_characters: int) -> str:
    """Return a report as Markdown of at most so many characters, at least some hundred.

    Its tables are folded, and have `rows` rows, 0 for all, or fewer to fit.
    """
    for number in (rows, *(n for n in _FEWER if not rows or n < rows)):
        text = "\n\n".join(_comment(section, number) for section in report.sections) + "\n"
        if len(text) <= most_characters:
            return text
    parts: list[str] = []
    left = most_characters - len(_left_out(len(report.sections))) - 4
    for place, section in enumerate(report.sections):
        number = 1 if place else _FEWER[0]  # the first: an overview
        tables = range(len(section.shown_tables) + 1)
        kept = bisect_right(tables, left - 2, key=lambda k: len(_comment(section, number, k))) - 1
        if kept < 0:  # not even its facts fit
            parts.append(_left_out(len(report.sections) - place))
            break
        parts.append(_comment(section, number, kept))
        left -= len(parts[-1]) + 2
    return "\n\n".join(parts) + "\n"


def _left_out(count: int) -> str:
    return f"*{plural(count, 'more section')} left out for length; -f json has all*"


def _comment(section: Section, rows: int, kept: int | None = None) -> str:
    blocks = [f"## {_short(section.title)}"]
    if section.facts:
        blocks.append("\n".join(_fact(label, _short(text)) for label, text in section.facts))
    tables = section.shown_tables
    for table in tables[:kept]:
        count = f" ({plural(table.row_count, 'row')})" if table.row_count else ""
        title = _unlinked(html_escape(printable(table.title), quote=False))
        lines = [f"<details><summary>{title}{count}</summary>", "", *_table_lines(table, rows), ""]
        if table.notes:
            lines += [*_note_lines(table), ""]
        blocks.append("\n".join((*lines, "</details>")))
    if kept is not None and kept < len(tables):
        blocks.append(f"*{plural(len(tables) - kept, 'table')} left out for length*")
    if section.notes:
        blocks.append("\n".join(f"- {_short(note)}" for note in section.notes))
    return "\n\n".join(blocks)


def _short(text: str) -> str:
    kept = text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."
    return _escaped(" ".join(kept.split()))


MOST_ANNOTATIONS = 10
"""Warnings, and errors, that GitHub shows of one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A message on one line of the user's program.

    Attributes:
        level: ``error``, ``warning`` or ``notice``.
        source: ``file:line`` as in the dump; None if unknown.
    """

    level: str
    title: str
    message: str
    source: str | None = None


def annotation_lines(annotations: Sequence[Annotation], root: Path | None = None) -> list[str]:
    """Return workflow commands, at most `MOST_ANNOTATIONS` of each level.

    `annotations` have the most important first; `root` is the folder of the repository, to which
    files are relative; None for `Checkout.here`.
    """
    checkout = Checkout.here() if root is None else Checkout(root)
    shown: Counter[str] = Counter()
    lines: list[str] = []
    for one in annotations:
        shown[one.level] += 1
        if shown[one.level] <= MOST_ANNOTATIONS:
            lines.append(_line(one, checkout))
    return lines


def _line(one: Annotation, checkout: Checkout) -> str:
    properties: list[tuple[str, str]] = []
    message = one.message
    if one.source is not None:
        file, _, line = one.source.rpartition(":")
        if not file or not line.isdecimal():
            file, line = one.source, ""
        found = checkout.find(file)
        if found is None:
            message = f"{message} (at {one.source})"
        else:
            properties += [("file", found), *([("line", line)] if line else [])]
    properties.append(("title", one.title))
    values = ((n, _data(text).replace(":", "%3A").replace(",", "%2C")) for n, text in properties)
    listed = ",".join(f"{name}={value}" for name, value in values)
    return f"::{one.level} {listed}::{_data(message)}"


def _data(text: str) -> str:
    codes = {"%": "%25", "\r": "%0D", "\n": "%0A"}
    return "".join(codes.get(character) or printable(character) for character in text)
