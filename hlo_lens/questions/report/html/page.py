"""Data of a page: each module with the data of its views."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING, Protocol, cast

from hlo_lens.questions.report.html import views
from hlo_lens.questions.report.html.payload import Strings
from hlo_lens.questions.report.html.sections import page_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.questions.report.html.payload import Subject


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
