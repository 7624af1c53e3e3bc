"""The outer JSON object of reports, and pages of modules."""

from __future__ import annotations

from functools import partial

import hlo_lens
from hlo_lens.load.module import ModuleDump
from hlo_lens.program.pages import page_without_hlo
from hlo_lens.render.table import Section, Sections
from hlo_lens.render.to_json import ModulePage, report_of_pages
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.version import SCHEMA_VERSION


def test_report_has_version_kind_and_pages_in_order() -> None:
    pages = [
        ModulePage(sections=(Section(title=name),), make_object=partial(dict, name=name))
        for name in ("b", "a")
    ]
    report = report_of_pages("loops", pages)
    assert [section.title for section in report.sections] == ["b", "a"]
    assert report.to_dict() == {
        "schema_version": SCHEMA_VERSION,
        "kind": "loops",
        "tool_version": hlo_lens.__version__,
        "modules": [{"name": "b"}, {"name": "a"}],
    }


def test_sections_of_a_page_are_made_once_and_not_for_json() -> None:
    made = []

    def make() -> list[Section]:
        made.append(1)
        return [Section(title="a")]

    report = report_of_pages("loops", [ModulePage(sections=Sections(make), make_object=dict)])
    assert report.to_dict()["modules"] == [{}]
    assert not made
    assert [str(report), str(report)] == ["a\n", "a\n"]
    assert len(made) == 1


def test_page_without_hlo_names_the_flags() -> None:
    dump = ModuleDump(name="m", kind=DumpKind.HLO, stage="after", files=("f.txt",))
    report = report_of_pages("loops", [page_without_hlo(dump, loops=None)])
    assert "no HLO text; XLA writes it with --xla_dump_to=DIR" in str(report)
    assert report.to_dict()["modules"] == [
        {"name": "m", "stage": "after", "files": ["f.txt"], "loops": None}
    ]
