"""Channel numbers are noise; the counterparts on a channel are not."""

from __future__ import annotations

import pytest

from tests.questions.diff.matching.programs import changes_between

TEXT = """HloModule m

ENTRY main {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  k = token[] after-all()
  s1 = (f32[8], u32[], token[]) send(a, k), channel_id=#0
  d1 = token[] send-done(s1), channel_id=#1
  s2 = (f32[8], u32[], token[]) send(b, k), channel_id=#2
  d2 = token[] send-done(s2), channel_id=#3
  r1 = (f32[8], u32[], token[]) recv(k), channel_id=#4
  e1 = (f32[8], token[]) recv-done(r1), channel_id=#5
  r2 = (f32[8], u32[], token[]) recv(k), channel_id=#6
  e2 = (f32[8], token[]) recv-done(r2), channel_id=#7
  g = f32[8] get-tuple-element(e1), index=0
  h = f32[8] get-tuple-element(e2), index=0
  ROOT r = f32[8] subtract(g, h)
}
"""


def text(channels: str) -> str:
    found = TEXT
    for place, channel in enumerate(channels):
        found = found.replace(f"#{place}", channel)
    return found


@pytest.mark.parametrize("channels", ["77557755", "22112211"])
def test_renumbered_channels_are_no_change(channels: str) -> None:
    assert changes_between(text("11221122"), text(channels)) == []


@pytest.mark.parametrize("channels", ["22111122", "11112222", "11223344"])
def test_sends_and_recvs_with_other_counterparts_are_changed(channels: str) -> None:
    found = changes_between(text("11221122"), text(channels))
    assert {change.split()[0] for change in found} == {"channel_id"}
