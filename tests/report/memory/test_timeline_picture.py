"""Picture of memory over the schedule."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import hlo_lens
import hlo_lens.report.page
from hlo_lens.analysis.memory.loop_bands import LoopBand
from hlo_lens.analysis.memory.role_names import ROLES
from hlo_lens.analysis.memory.role_series import RoleSeries
from hlo_lens.report.memory.timeline_picture import COLORS, TimelinePicture, timeline_svg
from tests.corpus import SAMPLES

STYLE = Path(hlo_lens.report.page.__file__).parent / "assets" / "page.css"


def _picture(length: int = 4) -> TimelinePicture:
    changes = {"weights": {0: 8}, "temporaries": {1: 4, 2: 100, 3: -104}}
    series = RoleSeries(color=0, length=length, changes=changes)
    band = LoopBand("<while>", 1, 3, None, 0)
    return TimelinePicture(name="<b>", space="HBM", series=series, bands=(band,))


def test_layers_sum_to_the_bytes_held() -> None:
    picture = _picture()
    assert picture.held == [8, 12, 112, 8]
    assert picture.peak == 2
    *_, (_, low, high) = picture.stacks()
    assert high == picture.held
    assert low == [8, 8, 8, 8]


def test_thinned_instants_keep_the_peak() -> None:
    picture = _picture(length=100_000)
    assert picture.peak in picture.instants
    assert len(picture.instants) < 2_000


def test_the_picture_is_well_formed_whatever_the_names() -> None:
    text = timeline_svg([_picture(), _picture()])
    ElementTree.fromstring(text)
    assert "<b>" not in text
    assert "&lt;b&gt;, HBM: peak 112B at instant 2" in text


def test_colours_are_those_of_the_page() -> None:
    style = STYLE.read_text(encoding="utf-8").partition("@media")[0]
    found = dict(re.findall(r"--role-([a-z-]+): (#[0-9a-f]{6});", style))
    assert found == {role.replace(" ", "-"): color for role, color in COLORS.items()}
    assert list(COLORS) == list(ROLES)


def test_notebooks_show_the_picture_of_memory() -> None:
    html = hlo_lens.memory(str(SAMPLES / "tpu" / "tp_mlp"))._repr_html_()
    assert html.startswith("<svg ")
    assert "saved activations" in html
