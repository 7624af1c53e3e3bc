"""Bytes over the schedule: union, roles, loops, pictures."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

import hlo_lens
import hlo_lens.questions.report
from hlo_lens.load.programs import modules_of
from hlo_lens.questions.memory.layout import (
    LaidAllocation,
    LaidValue,
    MemoryLayout,
    Occupant,
    occupied_bytes,
    owned_bytes,
)
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import ROLES, MemoryRoles, Role
from hlo_lens.questions.memory.timeline import (
    COLORS,
    LoopBand,
    RoleSeries,
    Timeline,
    loop_bands,
    memory_timeline,
    plot_timelines,
    role_series,
    series_of_roles,
    thinned,
)
from tests.corpus import SAMPLES
from tests.questions.memory.layouts import layout
from tests.questions.memory.train_step import TRAIN_STEP, analysis_of_text


def test_without_a_schedule_there_is_no_timeline() -> None:
    assert memory_timeline(layout(schedule=None)) is None


def test_timeline_has_one_instant_more_than_the_schedule() -> None:
    timeline = memory_timeline(layout())
    assert timeline is not None
    assert [one.held_bytes for one in timeline.instants] == [108, 148, 172, 172, 108]
    assert [one.occupied_bytes for one in timeline.instants] == [100, 140, 164, 172, 108]
    assert timeline.instants[-1] == (4, None, 108, 108)


LENGTH = 12


occupants = st.lists(
    st.builds(
        lambda a, o, s, b, d: Occupant(a, o, s, b, b + d, 0),
        st.integers(0, 2),
        st.integers(0, 30),
        st.integers(0, 12),
        st.integers(0, LENGTH - 1),
        st.integers(0, LENGTH),
    ),
    max_size=14,
)


@given(occupants)
def test_equals_the_union_at_every_instant(found: list[Occupant]) -> None:
    expected = []
    for instant in range(LENGTH):
        alive = [o for o in found if o.start <= instant <= o.end]
        held = {(o.allocation, b) for o in alive for b in range(o.offset, o.offset + o.size)}
        expected.append(len(held))
    assert occupied_bytes(found, LENGTH) == expected


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10))))
def test_each_byte_belongs_to_the_first_that_holds_it(intervals: list[tuple[int, int]]) -> None:
    taken: set[int] = set()
    expected = []
    for offset, size in intervals:
        held = set(range(offset, offset + size))
        expected.append(len(held - taken))
        taken |= held
    assert owned_bytes(intervals) == expected
    assert sum(expected) == len(taken)


def _series(*values: tuple[str, int, int, int, int]) -> dict[str, list[int]]:
    """Return the bytes of each role of (role, offset, size, start, end), all in one allocation."""
    laid = tuple(
        LaidValue(f"v{k}{{}}", f"v{k}", 0, offset, size, start, end, "f32[1]")
        for k, (_, offset, size, start, end) in enumerate(values)
    )
    layout = MemoryLayout(
        source="estimate",
        allocations=(LaidAllocation(index=0, size=100, color=0, category="temp"),),
        values=laid,
        schedule=tuple("abcdef"),
    )
    roles = MemoryRoles(
        layout=layout, values=[Role(role, "test") for role, *_ in values], allocations={}
    )
    found = series_of_roles(roles)
    assert found is not None
    series = {role: found.series(role) for role in found.changes}
    sums = [sum(one) for one in zip(*series.values(), strict=True)]
    assert sums == layout.held_series(0)
    return series


def test_an_older_value_that_lives_on_gets_its_bytes_back() -> None:
    found = _series(("gradients", 0, 8, 0, 5), ("weights", 2, 4, 2, 3))
    assert found == {"gradients": [8, 8, 4, 4, 8, 8, 0], "weights": [0, 0, 4, 4, 0, 0, 0]}


@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
@pytest.mark.parametrize("program", ["fsdp_transformer", "tp_mlp", "wasteful"])
def test_roles_sum_to_the_bytes_held(backend: str, program: str) -> None:
    for dump in modules_of(str(SAMPLES / backend / program)):
        memory = memory_results(dump)
        for color in () if memory is None else memory.layout.colors:
            series = role_series(dump, color)
            assert memory is not None
            assert series is not None
            columns = [series.series(role) for role in series.changes]
            sums = [sum(one) for one in zip(*columns, strict=True)] or [0] * series.length
            assert sums == memory.layout.held_series(color)


def test_a_band_ends_at_its_loop_and_has_its_trip_count() -> None:
    (module,) = modules_of(str(SAMPLES / "tpu" / "fsdp_transformer"))
    bands, memory = loop_bands(module), memory_results(module)
    assert [(band.loop, band.trip_count, band.depth) for band in bands] == [
        ("while.35", 2, 0),
        ("while.34", 2, 0),
    ]
    assert memory is not None
    schedule = memory.layout.schedule or ()
    for band in bands:
        assert schedule[band.end] == band.loop
        assert band.start < band.end


def test_a_program_without_loops_has_no_bands() -> None:
    assert loop_bands(analysis_of_text(TRAIN_STEP)) == ()


STYLE = Path(hlo_lens.questions.report.__file__).parent / "assets" / "page.css"


def _timeline() -> Timeline:
    changes = {"weights": {0: 8}, "temporaries": {1: 4, 2: 100, 3: -104}}
    series = RoleSeries(length=4, changes=changes)
    band = LoopBand("<while$", 1, 3, None, 0)
    return Timeline(name="<b>$x$", space="HBM", series=series, bands=(band,))


def test_thinned_instants_keep_the_peak() -> None:
    held = [8] * 100_000
    held[7777] = 112
    assert 7777 in thinned(held)
    assert len(thinned(held)) < 2_000


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


def test_notebooks_show_the_tables() -> None:
    html = hlo_lens.memory(str(SAMPLES / "tpu" / "tp_mlp"))._repr_html_()
    assert html.count("<table") == 2
