"""Digests of programs whose async operations are printed as sugar, or as async-starts."""

from __future__ import annotations

import pytest

from hlo_lens.questions.matching.fingerprints import program_fingerprint
from tests.questions.matching.programs import parsed

SUGAR = """HloModule m

ENTRY e {
  p = f32[8] parameter(0)
  s = ((f32[8]), f32[4], s32[]) slice-start(p), slice={[0:4]}, backend_config={"queue":"1"}
  n = f32[8] negate(p)
  d = f32[4] slice-done(s)
  ROOT t = (f32[8], f32[4]) tuple(n, d)
}
"""
WRAPPED = """HloModule m

w {
  q = f32[8] parameter(0)
  ROOT r = f32[4] slice(q), slice={[0:4]}
}

ENTRY e {
  p = f32[8] parameter(0)
  s = ((f32[8]), f32[4], s32[]) async-start(p), calls=w, backend_config={"queue":"1"}
  n = f32[8] negate(p)
  d = f32[4] async-done(s)
  ROOT t = (f32[8], f32[4]) tuple(n, d)
}
"""
PERMUTE = """HloModule m, num_partitions=2

ENTRY e {
  p = f32[8] parameter(0)
  s = ((f32[8]), f32[8]) collective-permute-start(p), channel_id=1, source_target_pairs={{0,1}}
  ROOT d = f32[8] collective-permute-done(s)
}
"""
WRAPPED_PERMUTE = """HloModule m, num_partitions=2

w {
  q = f32[8] parameter(0)
  ROOT r = f32[8] collective-permute(q), channel_id=1, source_target_pairs={{0,1}}
}

ENTRY e {
  p = f32[8] parameter(0)
  s = ((f32[8]), f32[8]) async-start(p), calls=w
  ROOT d = f32[8] async-done(s)
}
"""


def _digest(text: str) -> str | None:
    return program_fingerprint(parsed(text), with_sugar=True)


@pytest.mark.parametrize(("one", "other"), [(SUGAR, WRAPPED), (PERMUTE, WRAPPED_PERMUTE)])
def test_async_operations_of_both_spellings_have_one_digest(one: str, other: str) -> None:
    assert _digest(one) == _digest(other)
    assert program_fingerprint(parsed(one)) != program_fingerprint(parsed(other))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("slice={[0:4]}", "slice={[4:8]}"),
        ("negate", "abs"),
        ('{"queue":"1"}', '{"queue":"2"}'),
        ("HloModule m", "HloModule m, num_partitions=2"),
    ],
)
def test_a_change_of_either_spelling_has_another_digest(before: str, after: str) -> None:
    known = _digest(SUGAR)
    assert known not in (
        _digest(SUGAR.replace(before, after)),
        _digest(WRAPPED.replace(before, after)),
    )
    assert _digest(SUGAR.replace(before, after)) == _digest(WRAPPED.replace(before, after))
