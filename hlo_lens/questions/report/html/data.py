"""Data of the page: its modules with the data of their views, sections as text, strings once."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.questions.report.html import views
from hlo_lens.render.result import Unit
from hlo_lens.render.table import cut_table
from hlo_lens.text.errors import printable
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hlo_lens.load.devices import Topology
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.diff.module_diff import ModuleDiff
    from hlo_lens.questions.matching.program_diff import ComputationPair
    from hlo_lens.render.table import Section


class Subject(NamedTuple):
    """Module that a view shows.

    Attributes:
        analysis: The module; of a diff its head.
        title: Its name on the page, different from those of other modules.
        role: Its place among the modules of the dump, such as the training step.
        devices: Devices, mesh and kind of device, as the text report has them.
        command_tail: Path and module, as arguments of a command on it alone.
        base: The module before; None outside diffs, and if only a snapshot of it is known.
        diff: Changes of the module; None outside diffs.
        pair_tail: Paths of both sides, as arguments of ``hlo-lens diff``.
        objects: JSON objects of the module by command, where the JSON of the page is another one.
        verdict: Sentence below the title: whether it fits, or what changed; empty for none.
        fits: Whether it fits the device; None if not known.
        topology: Places of the devices that it was compiled for; None if not known.
    """

    analysis: ModuleDump
    title: str
    role: str = ""
    devices: str = ""
    command_tail: str = "PATH"
    base: ModuleDump | None = None
    diff: ModuleDiff | None = None
    pair_tail: str = "BASE HEAD"
    objects: Mapping[str, object] | None = None
    computations: Sequence[ComputationPair] = ()
    verdict: str = ""
    fits: bool | None = None
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


class View(NamedTuple):
    """A view of the page.

    Attributes:
        name: Name of its script, ``assets/scripts/views/NAME.js``.
        order: Place among the views.
        data: Makes the JSON object of the view of a module; None where it has nothing to show.
        kinds: Kinds of the reports that have it.
    """

    name: str
    order: int
    data: Callable[[Subject, Strings], Mapping[str, object] | None]
    kinds: tuple[str, ...] = ("report", "check", "ls")


@functools.cache
def all_views() -> tuple[View, ...]:
    """Return the views of all files of `hlo_lens.questions.report.html.views`, in their order."""
    names = [file.name for file in pkgutil.iter_modules(views.__path__)]
    files = [importlib.import_module(f"{views.__name__}.{name}") for name in names]
    return tuple(sorted((v for file in files for v in file.VIEWS), key=lambda view: view.order))


@functools.cache
def how_to_read() -> Mapping[str, Sequence[str]]:
    """Return the paragraphs that explain the page and each view, by name."""
    file = resources.files("hlo_lens.questions.report.html") / "assets" / "how_to_read.md"
    parts = file.read_text(encoding="utf-8").split("\n## ")[1:]
    named = (part.strip().split("\n\n") for part in parts)
    return {name: [" ".join(one.split()) for one in texts] for name, *texts in named}


def page_data(
    kind: str,
    title: str,
    subjects: Sequence[tuple[int, Subject]] = (),
    sections: Sequence[Mapping[str, object]] = (),
) -> Mapping[str, object]:
    """Return the data of a page, as `page.js` reads it.

    Args:
        kind: Kind of the report; ``report``, ``diff`` and ``check`` have views.
        title: Title of the page.
        subjects: Modules in the order of the page, each with its number in the JSON object.
        sections: Sections on all modules.
    """
    strings = Strings()
    modules: list[Mapping[str, object]] = []
    for number, subject in subjects:
        made = {v.name: v.data(subject, strings) for v in all_views() if kind in v.kinds}
        modules.append(
            {
                "title": subject.title,
                "role": subject.role,
                "devices": subject.devices,
                "verdict": {"text": subject.verdict, "fits": subject.fits},
                "command": subject.command_tail,
                "pair": subject.pair_tail,
                "number": number,
                "objects": subject.objects or {},
                "views": {name: data for name, data in made.items() if data is not None},
            }
        )
    return {
        "kind": kind,
        "title": title,
        "tool_version": __version__,
        "modules": modules,
        "sections": sections,
        "how": how_to_read(),
        "strings": strings.texts,
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
        "tables": [
            {
                "title": printable(table.title),
                "columns": [[c.name, c.meaning, c.unit is not Unit.NONE] for c in cut.columns],
                "rows": cut.rows,
                "tail": cut.tail,
                "notes": [printable(note) for note in table.notes],
                "command": table.command,
            }
            for table in section.shown_tables
            for cut in (cut_table(table, rows),)
        ],
        "notes": [printable(note) for note in section.notes],
    }
