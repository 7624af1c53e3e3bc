"""Pictures of memory over the schedule."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import hlo_lens
import hlo_lens.questions.report.html
from hlo_lens.questions.memory.roles import ROLES, RoleSeries
from hlo_lens.questions.memory.timeline import COLORS, LoopBand, Timeline, plot_timelines
from tests.corpus import SAMPLES

STYLE = Path(hlo_lens.questions.report.html.__file__).parent / "assets" / "page.css"


def _timeline(length: int = 4) -> Timeline:
    changes = {"weights": {0: 8}, "temporaries": {1: 4, 2: 100, 3: -104}}
    series = RoleSeries(length=length, changes=changes)
    band = LoopBand("<while$", 1, 3, None, 0)
    return Timeline(name="<b>$x$", space="HBM", series=series, bands=(band,))


def test_thinned_instants_keep_the_peak() -> None:
    timeline = _timeline(length=100_000)
    assert timeline.held[:4] == [8, 12, 112, 8]
    assert timeline.peak == 2 in timeline.instants
    assert len(timeline.instants) < 2_000


def test_the_picture_is_well_formed_whatever_the_names(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="drawing needs the extra plot")
    target = tmp_path / "memory.svg"
    plot_timelines([_timeline(), _timeline()], str(target))
    text = target.read_text("utf-8")
    ElementTree.fromstring(text)
    assert "&lt;b&gt;$x$, HBM: peak 112B at instant 2" in text
    assert "&lt;while$ x?" in text


def test_colours_are_those_of_the_page() -> None:
    style = STYLE.read_text(encoding="utf-8").partition("@media")[0]
    found = dict(re.findall(r"--role-([a-z-]+): (#[0-9a-f]{6});", style))
    assert found == {role.replace(" ", "-"): color for role, color in COLORS.items()}
    assert list(COLORS) == list(ROLES)


def test_notebooks_show_the_picture_of_memory_as_an_image() -> None:
    pytest.importorskip("matplotlib", reason="drawing needs the extra plot")
    html = hlo_lens.memory(str(SAMPLES / "tpu" / "tp_mlp"))._repr_html_()
    assert re.match(
        r'<img alt="[^"]*peak 152.07MiB at instant 155" [^>]*src="data:image/png;base64,', html
    )
    assert "<script" not in html


def test_notebooks_without_matplotlib_show_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hlo_lens.questions.memory.timeline.find_spec", lambda _: None)
    html = hlo_lens.memory(str(SAMPLES / "tpu" / "tp_mlp"))._repr_html_()
    assert html.startswith("<p><b>memory</b>")
