"""Functions for notebooks: accepted arguments, errors, display."""

from __future__ import annotations

import dataclasses
import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import hlo_lens
from hlo_lens.load.programs import modules_of
from hlo_lens.questions.diff.sides import load_side
from hlo_lens.text.names import NamePattern
from tests.commands import output_of
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hlo_lens.render.result import Result

TPU = SAMPLES / "tpu" / "tp_mlp"
TEXT = SAMPLES / "cpu" / "tp_mlp" / "compiled.txt"
EVIL = """HloModule m, is_scheduled=true
ENTRY e {
  p = f32[8]{0} parameter(0), metadata={op_name="<script>1</script><img src=x onerror=alert(2)>"}
  ROOT n = f32[8]{0} negate(p), metadata={op_name="a&b\\"<b>" source_file="<i>.py" source_line=1}
}
"""
VOID = {"br", "img"}


class Tags(HTMLParser):
    """Collects the tags of a fragment; fails where they do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        is_chart = tag == "img" and (dict(attrs)["src"] or "").startswith("data:image/svg+xml;")
        self.seen |= set() if is_chart else {tag}
        assert all(not name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags_of(shown: Any) -> set[str]:
    """Return the tags that a notebook gets of an object."""
    html = shown._repr_html_()
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert tags.open == []
    return tags.seen


def test_every_type_of_program_is_accepted() -> None:
    module = hlo_lens.parse_hlo(TEXT.read_text("utf-8"))
    dump = hlo_lens.load(TEXT)
    programs = (str(TEXT), TEXT, TEXT.read_text("utf-8"), module, dump, dump.modules[0])
    counts = [hlo_lens.collectives(program).row_count for program in programs]
    assert counts == [4] * len(programs)


def test_other_types_are_refused() -> None:
    with pytest.raises(hlo_lens.UsageError, match="a compiled program of jax, found int"):
        hlo_lens.memory(7)  # type: ignore[arg-type] # that is the point


def test_one_of_several_modules_must_be_named() -> None:
    folder = SAMPLES / "cpu"
    with pytest.raises(hlo_lens.UsageError, match="choose one with module="):
        hlo_lens.memory(folder)
    names = [module.name for module in hlo_lens.modules_of(folder, module="collectives")]
    assert len(names) == 1
    assert hlo_lens.memory(folder, module="collectives").statement.temp_bytes > 0
    with pytest.raises(hlo_lens.UnknownNameError, match="no module matches 'nothing'"):
        hlo_lens.modules_of(folder, module="nothing")
    with pytest.raises(hlo_lens.UsageError, match="not a regular expression"):
        hlo_lens.modules_of(folder, module="(")


def test_unknown_memory_is_an_error() -> None:
    with pytest.raises(hlo_lens.MissingDumpError, match="memory is not known"):
        hlo_lens.memory("HloModule m\nENTRY e { ROOT p = f32[8] parameter(0) }\n")


def test_a_mesh_names_the_axes() -> None:
    found = hlo_lens.collectives(TEXT, mesh={"a": 2, "b": 4})
    assert {one.axes for one in found.collectives} == {("a",), ("b",)}
    table = hlo_lens.shardings(TEXT, mesh={"a": 2, "b": 4})
    assert "P(None, None, 'b')" in [value.spec_text for value in table.values]


RESULTS: tuple[Callable[..., Result | None], ...] = (
    hlo_lens.collectives,
    hlo_lens.loops,
    hlo_lens.shardings,
    hlo_lens.signature,
    lambda program: hlo_lens.memory(program).statement,
    lambda program: hlo_lens.memory(program).peak,
)


@pytest.mark.parametrize("question", RESULTS)
def test_results_have_frames_dictionaries_and_html(
    question: Callable[..., Result | None],
) -> None:
    result = question(TPU)
    assert result is not None
    frame = result.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == result.row_count
    assert list(frame.columns) == [column.name for column in result.COLUMNS]
    rows = json.loads(json.dumps(result.to_dict()))["rows"]
    assert len(rows) == result.row_count
    assert "table" in tags_of(result)


def test_memory_and_reports_are_shown_in_notebooks() -> None:
    memory = hlo_lens.memory(TPU)
    assert {"table", "h4"} <= tags_of(memory)
    assert memory.statement.to_frame()["name"].tolist()[0] == "HBM"
    assert json.dumps(memory.to_dict())
    assert {"h3", "h4", "table"} <= tags_of(hlo_lens.report_on(TPU))


def test_frame_of_memory_has_the_values_at_the_peak() -> None:
    memory = hlo_lens.memory(TPU)
    assert memory.peak is not None
    frame = memory.to_frame()
    assert frame["value"].tolist() == [value.value for value in memory.peak.live]
    assert list(frame) == [column.name for column in memory.peak.COLUMNS]
    without = dataclasses.replace(memory, peak=None).to_frame()
    assert (len(without), list(without)) == (0, list(frame))


def test_html_in_a_dump_is_escaped() -> None:
    module = hlo_lens.parse_hlo(EVIL)
    shown = (
        hlo_lens.report_on(module),
        hlo_lens.signature(module),
        hlo_lens.memory(module),
    )
    for one in shown:
        assert tags_of(one) & {"script", "i"} == set()
        assert "<img src=x" not in one._repr_html_()


def test_a_report_prints_as_the_command_does() -> None:
    report = hlo_lens.report_on(TPU)
    assert str(report) == output_of(["report", str(TPU)])
    assert report.to_markdown() == output_of(["report", str(TPU), "-f", "md"])
    assert report.to_dict() == json.loads(output_of(["report", str(TPU), "-f", "json"]))
    assert len(repr(report)) < 100


def public_names() -> list[str]:
    return [name for name in hlo_lens.__all__ if name != "__version__"]


def test_every_public_name_exists_and_has_a_docstring() -> None:
    for name in public_names():
        assert getattr(hlo_lens, name).__doc__, name
    assert set(hlo_lens.__all__) <= set(dir(hlo_lens))


@pytest.mark.parametrize(
    "name",
    [
        "memory",
        "collectives",
        "loops",
        "shardings",
        "signature",
        "report_on",
    ],
)
def test_functions_for_notebooks_have_examples(name: str) -> None:
    assert ">>> " in (getattr(hlo_lens, name).__doc__ or "")


def test_a_name_in_full_selects_one_module_and_a_pattern_all_that_match(tmp_path: Path) -> None:
    """The whole name wins over names that contain it; `FOLDER/NAME` is one of a subfolder."""
    for path in ("jit_f.txt", "jit_f.txt.txt", "sub/jit_f.txt", "m/m.jit_f.txt"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(EVIL)

    def addresses(pattern: str) -> list[str]:
        return [one.address for one in modules_of(str(tmp_path), module=pattern)]

    everything = ["jit_f.txt", "jit_f.txt.txt", "m/m.jit_f.txt", "sub/jit_f.txt"]
    assert sorted(addresses("jit_f")) == everything
    for one in everything:
        assert addresses(one) == [one]
    assert addresses("^jit_f.txt$") == ["jit_f.txt", "sub/jit_f.txt"]
    side = load_side(str(tmp_path), pattern=NamePattern("sub/jit_f.txt"))
    assert [one.dump and one.dump.address for one in side.modules] == ["sub/jit_f.txt"]
