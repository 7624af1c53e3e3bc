"""Picture of memory over the schedule."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from xml.etree import ElementTree

import hlo_lens
import hlo_lens.questions.report.html
from hlo_lens.questions.memory.loop_bands import LoopBand
from hlo_lens.questions.memory.role_names import ROLES
from hlo_lens.questions.memory.role_series import RoleSeries
from hlo_lens.questions.memory.timeline_picture import (
    COLORS,
    LabelPlace,
    TimelinePicture,
    timeline_svg,
)
from tests.corpus import SAMPLES

STYLE = Path(hlo_lens.questions.report.html.__file__).parent / "assets" / "page.css"


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


def test_notebooks_show_the_picture_of_memory_as_an_image() -> None:
    html = hlo_lens.memory(str(SAMPLES / "tpu" / "tp_mlp"))._repr_html_()
    found = re.match(r'<img alt="([^"]*)" [^>]*src="data:image/svg\+xml;base64,([^"]*)">', html)
    assert found is not None
    assert "peak 152.07MiB at instant 155" in found[1]
    svg = base64.b64decode(found[2]).decode()
    ElementTree.fromstring(svg)
    assert ">saved activations</text>" in svg
    assert "<script" not in html
    assert "<svg" not in html


def test_names_of_layers_are_where_they_are_high_and_wide() -> None:
    (place,) = _picture(length=4).label_places(lambda one: one.role == "weights")
    assert (place.start, place.end, place.middle_bytes, place.least_bytes) == (0, 3, 4, 8)
    asked: list[tuple[int, int, int]] = []

    def refuse(one: LabelPlace) -> bool:
        asked.append((one.start, one.end, one.least_bytes))
        return False

    assert list(_picture(length=4).label_places(refuse)) == []
    assert asked[3:] == [(2, 2, 104)] * 3


def test_ticks_are_powers_of_two() -> None:
    assert _picture().tick_step == 32
