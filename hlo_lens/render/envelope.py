"""The outer JSON object of a report, and the pages of single modules in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.render.table import Report, Section, Sections
from hlo_lens.render.to_json import Objects
from hlo_lens.text.version import SCHEMA_VERSION, __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulePage:
    """Text sections and JSON object of one module.

    Attributes:
        sections: Sections for people, and for CSV.
        make_object: Makes the JSON object, at each call anew.
    """

    sections: Sequence[Section]
    make_object: Callable[[], Mapping[str, object]]


def envelope(kind: str, **parts: object) -> dict[str, object]:
    """Return the JSON object of a report: schema version, kind, version of hlo-lens, its parts."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "tool_version": __version__,
        **parts,
    }


def report_of_pages(
    kind: str, pages: Iterable[ModulePage], order: Callable[[], Iterable[int]] | None = None
) -> Report:
    """Return the report made of the pages of some modules.

    Args:
        kind: Kind of the report.
        pages: Pages in the order of JSON and CSV.
        order: Returns the positions of the pages in the order for people; None for the same one.
    """
    made = list(pages)
    first = None
    if order is not None and len(made) > 1:
        first = Sections(lambda: (section for k in order() for section in made[k].sections))
    return Report(
        kind=kind,
        sections=Sections(lambda: (section for page in made for section in page.sections)),
        data=envelope(kind, modules=Objects([page.make_object for page in made])),
        first_page=first,
    )
