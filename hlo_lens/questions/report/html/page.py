"""Data of the page: its modules with the data of their views, sections as text, strings once."""

from __future__ import annotations

import base64
import functools
import gzip
import importlib
import json
import pkgutil
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from hlo_lens.load.devices import device_assignment, topology_of
from hlo_lens.program.summary import backend_of_dump, hlo_text
from hlo_lens.questions.dumps.groups import module_order
from hlo_lens.questions.report.html import views
from hlo_lens.questions.report.module_page import command_on, others_sections
from hlo_lens.questions.what_if.process.requests import own_target
from hlo_lens.render.result import Unit
from hlo_lens.render.table import RenderOptions, cut_table
from hlo_lens.text.errors import printable
from hlo_lens.text.units import plural
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hlo_lens.load.devices import Topology
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.diff.matching.program_diff import ComputationPair
    from hlo_lens.questions.diff.module_diff import ModuleDiff
    from hlo_lens.render.table import Report, Section, Table


LARGEST_PLAIN = 1 << 20
"""Bytes of the largest JSON text that is stored as it is; a larger one is compressed."""

GZIP = "gzip+base64"
"""Value of ``data-encoding`` for compressed data."""


class Subject(NamedTuple):
    """Module that a view shows.

    Attributes:
        analysis: The module; of a diff its head.
        title: Its name on the page, different from those of other modules.
        role: Its place among the modules of the dump, such as the training step.
        command_tail: Path and module, as arguments of a command on it alone.
        base: The module before; None outside diffs, and if only a snapshot of it is known.
        diff: Changes of the module; None outside diffs.
        pair_tail: Paths of both sides, as arguments of ``hlo-lens diff``.
        objects: JSON objects of the module by command, where the JSON of the page is another one.
        limit_bytes: Memory of the device it was compiled for; None if not known.
        limit_source: Source of that number.
        topology: Places of the devices that it was compiled for; None if not known.
    """

    analysis: ModuleDump
    title: str
    role: str = ""
    command_tail: str = "PATH"
    base: ModuleDump | None = None
    diff: ModuleDiff | None = None
    pair_tail: str = "BASE HEAD"
    objects: Mapping[str, object] | None = None
    computations: Sequence[ComputationPair] = ()
    limit_bytes: int | None = None
    limit_source: str = ""
    topology: Topology | None = None


class Strings:
    """Different strings of a page, without control characters; data has their numbers.

    The number of None is -1.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def number(self, text: str | None) -> int:
        """Return the number of a string, which is added if it is new."""
        return -1 if text is None else self._places.setdefault(printable(text), len(self._places))

    def numbers(self, texts: Iterable[str | None]) -> list[int]:
        """Return the numbers of strings."""
        return [self.number(text) for text in texts]

    @property
    def texts(self) -> list[str]:
        """The strings by number."""
        return list(self._places)


def printable_list(texts: Iterable[str]) -> list[str]:
    """Return texts without control characters."""
    return [printable(text) for text in texts]


def differences(numbers: Iterable[int]) -> list[int]:
    """Return ascending numbers as differences to the one before, which compress well.

    >>> differences([5, 6, 9])
    [5, 1, 3]
    """
    found, last = [], 0
    for number in numbers:
        found.append(number - last)
        last = number
    return found


class Encoded(NamedTuple):
    """Text of a script element, and its ``data-encoding``; empty for plain JSON."""

    text: str
    encoding: str = ""


def encoded(text: str, *, largest_plain: int = LARGEST_PLAIN) -> Encoded:
    r"""Return a JSON text for a script element, compressed if it is large.

    ``<`` is escaped, so that no string ends the element or begins a comment.

    >>> print(encoded('{"name": "</script>"}').text)
    {"name": "\u003c/script>"}
    """
    plain = text.replace("<", "\\u003c")
    if len(plain) <= largest_plain:
        return Encoded(plain)
    packed = gzip.compress(text.encode(), compresslevel=6, mtime=0)
    return Encoded(base64.b64encode(packed).decode(), GZIP)


def compact(data: Mapping[str, object]) -> str:
    """Return an object as JSON on one line."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True)


_ROWS = 20
"""Rows of a table where the user asks for no number."""


def page_of_sections(report: Report, options: RenderOptions) -> Mapping[str, object]:
    """Return the data of a page that has the sections of a report and no other view."""
    rows = _ROWS if options.rows is None else options.rows
    sections = [section_object(section, rows) for section in report.pages]
    title = report.pages[0].title if report.pages else report.kind
    return page_object(report.kind, title, modules=[], sections=sections, strings=[])


def page_object(
    kind: str,
    title: str,
    *,
    modules: list[Mapping[str, object]],
    sections: list[Mapping[str, object]],
    strings: list[str],
) -> Mapping[str, object]:
    """Return the data of a page, as `page.js` reads it.

    Args:
        kind: Kind of the report.
        title: Title of the page.
        modules: Title, role and views of each module.
        sections: Sections on all modules, or on none.
        strings: Strings that views refer to by number.
    """
    return {
        "kind": kind,
        "title": title,
        "tool_version": __version__,
        "modules": modules,
        "sections": sections,
        "strings": strings,
    }


def section_object(
    section: Section, rows: int, *, is_leading: bool = False, command: str = ""
) -> Mapping[str, object]:
    """Return a section: title, facts, drawing, tables, notes.

    Args:
        section: The section.
        rows: Rows of its tables.
        is_leading: Whether it precedes the views.
        command: Command that prints it; empty for none.
    """
    return {
        "command": command,
        "is_leading": is_leading,
        "title": printable(section.title),
        "facts": [[label, printable(text)] for label, text in section.facts],
        "drawing": list(section.drawing),
        "tables": [table_object(table, rows) for table in section.shown_tables(rows)],
        "notes": [printable(note) for note in section.notes],
    }


def table_object(table: Table, rows: int) -> Mapping[str, object]:
    """Return a table with its first rows as text."""
    cut = cut_table(table, rows)
    return {
        "title": printable(table.title),
        "columns": [[one.name, one.meaning, one.unit is not Unit.NONE] for one in cut.columns],
        "rows": cut.rows,
        "tail": cut.tail,
        "notes": [printable(note) for note in table.notes],
        "command": table.command,
    }


class View(Protocol):
    """A file of `hlo_lens.questions.report.html.views`."""

    ORDER: int
    KINDS: tuple[str, ...]

    def view_data(self, subject: Subject, strings: Strings, /) -> Mapping[str, object] | None:
        """Return the data of the view of a module; None where it has nothing to show."""


@functools.cache
def all_views() -> Mapping[str, View]:
    """Return the views by name, in the order of the page."""
    names = [one.name for one in pkgutil.iter_modules(views.__path__)]
    found = {name: importlib.import_module(f"{views.__name__}.{name}") for name in names}
    return {name: cast("View", found[name]) for name in sorted(found, key=lambda n: found[n].ORDER)}


def page_of_modules(
    kind: str,
    title: str,
    subjects: Sequence[tuple[int, Subject]],
    sections: Sequence[Mapping[str, object]] = (),
) -> Mapping[str, object]:
    """Return the data of a page on modules.

    Args:
        kind: ``report``, ``diff`` or ``check``.
        title: Title of the page.
        subjects: Modules in the order of the page, each with its number in the JSON object.
        sections: Sections on all modules.
    """
    strings = Strings()
    modules: list[Mapping[str, object]] = []
    for number, subject in subjects:
        data = {
            name: view.view_data(subject, strings)
            for name, view in all_views().items()
            if kind in view.KINDS
        }
        modules.append(
            {
                "title": subject.title,
                "role": subject.role,
                "command": subject.command_tail,
                "pair": subject.pair_tail,
                "number": number,
                "objects": subject.objects or {},
                "views": {name: one for name, one in data.items() if one is not None},
            }
        )
    return page_object(kind, title, modules=modules, sections=list(sections), strings=strings.texts)


MOST_MODULES = 24
"""Modules with views of their own on a page; the others are in a table."""

MOST_INSTRUCTIONS = 200_000
"""Instructions of all modules with views besides the first, which bound the size of the page."""

_HTML_PAGE_ROWS = 200
"""Rows of tables of other modules."""


def report_page(known: Sequence[ModuleDump], logs: Iterable[Section] = ()) -> Mapping[str, object]:
    """Return the data of the page on the modules of a report.

    Args:
        known: The modules.
        logs: Sections on logs.
    """
    shown = [k for k, one in enumerate(known) if one.log is None]
    sections = [section_object(one, _HTML_PAGE_ROWS) for one in logs]
    if not shown:
        title = str(sections[0]["title"]) if sections else "report"
        return page_of_modules("report", title, (), sections)
    subjects, others = module_subjects(known, shown)
    return page_of_modules("report", subjects[0][1].analysis.title, subjects, others + sections)


def module_subjects(
    known: Sequence[ModuleDump], shown: Sequence[int]
) -> tuple[list[tuple[int, Subject]], list[Mapping[str, object]]]:
    """Return the modules with views, the one to lead with first, and the sections on the others.

    Args:
        known: All modules.
        shown: Places of those that are modules, not logs.
    """
    order = module_order([known[k] for k in shown])
    places, lead = [shown[k] for k in order.places], order.lead
    chosen = _with_views(known, places)
    titles = dict(zip(chosen, unique_titles([known[k] for k in chosen]), strict=True))
    subjects = [
        (k, _subject(known[k], titles[k], lead.role if k == places[0] else "")) for k in chosen
    ]
    opened = [titles.get(shown[k]) for k in order.others]
    notes = _left_out_notes(known, places[len(chosen) :])
    others: list[Mapping[str, object]] = [
        {
            **section_object(replace(one, title="Other modules", notes=notes), _HTML_PAGE_ROWS),
            "opens": opened[:_HTML_PAGE_ROWS],
        }
        for one in others_sections(known[places[0]], lead)
    ]
    return subjects, others


def _with_views(known: Sequence[ModuleDump], places: Sequence[int]) -> list[int]:
    """Return the first modules, as many as a page has views of: the first one, others in limits."""
    chosen: list[int] = []
    left = MOST_INSTRUCTIONS
    for k in places[:MOST_MODULES]:
        if chosen:
            left -= len(hlo_text(known[k]).columns) if known[k].has_hlo else 0
            if left < 0:
                break
        chosen.append(k)
    return chosen


def _left_out_notes(known: Sequence[ModuleDump], left_out: Sequence[int]) -> tuple[str, ...]:
    """Return the command that makes a page with the views of a module that has none here."""
    if not left_out:
        return ()
    command = command_on("report", known[left_out[0]], "-f html -o page.html")
    return (
        f"{plural(len(left_out), 'module')} without views in this file; a page of the first: "
        f"{command}",
    )


def unique_titles(dumps: Sequence[ModuleDump]) -> list[str]:
    """Return the titles of modules, with folder and number where several have the same.

    Views and addresses refer to modules by title.
    """
    titles = [one.title for one in dumps]
    folders, names = [one.folder for one in dumps], [one.name for one in dumps]
    numbers = [f"number {k + 1}" for k in range(len(dumps))]
    for endings in (folders, names, numbers):
        counts = Counter(titles)
        titles = [
            title if counts[title] == 1 or not ending else f"{title}, {ending}"
            for title, ending in zip(titles, endings, strict=True)
        ]
    return titles


def _subject(known: ModuleDump, title: str, role: str) -> Subject:
    tail = command_on("", known).removeprefix("hlo-lens  ")
    target, devices = own_target(known, backend_of_dump(known)), device_assignment(known)
    return Subject(
        analysis=known,
        title=title,
        role=role,
        command_tail=tail,
        limit_bytes=None if target is None else target.memory_bytes,
        limit_source="" if target is None else target.memory_source,
        topology=None if target is None or devices is None else topology_of(target, devices),
    )
