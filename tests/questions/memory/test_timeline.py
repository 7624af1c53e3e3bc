"""Bytes held and in use over the schedule."""

from __future__ import annotations

from hlo_lens.questions.memory.timeline import memory_timeline
from tests.questions.memory.layouts import layout


def test_without_a_schedule_there_is_no_timeline() -> None:
    assert memory_timeline(layout(schedule=None)) is None


def test_timeline_has_one_instant_more_than_the_schedule() -> None:
    timeline = memory_timeline(layout())
    assert timeline is not None
    assert [one.held_bytes for one in timeline.instants] == [108, 148, 172, 172, 108]
    assert [one.occupied_bytes for one in timeline.instants] == [100, 140, 164, 172, 108]
    assert timeline.instants[-1] == (4, None, 108, 108)
