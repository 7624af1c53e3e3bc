"""Sizes of values that do not fit each other, which damaged buffer assignments have."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.questions.memory.layout import layout_of_dump

TEXT = """BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[1024]| at ShapeIndex {}, maybe-live-out:
 value: <1 w @0> (size=4096,offset=0): f32[1024]{0}
 value: <2 result @0> (size=4096,offset=0): f32[256]{0}
allocation 1: size 2048, preallocated-temp:
 value: <3 a @0> (size=1024,offset=0): f32[256]{0}
 value: <4 b @0> (size=1024,offset=1024): f32[256]{0}

Total bytes used: 6144 (6.0KiB)
"""


def test_a_result_in_the_place_of_a_larger_argument_has_its_size() -> None:
    assert layout_of_dump(hlo_lens.parse_buffer_assignment(TEXT)).misfits == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<1 w @0> (size=4096,offset=0): f32[1024]", "<1 w @0> (size=4096,offset=0): f32[256]"),
        ("<4 b @0> (size=1024", "<4 b @0> (size=512"),
        ("<3 a @0> (size=1024", "<3 a @0> (size=1536"),
        ("<2 result @0> (size=4096", "<2 result @0> (size=3096"),
    ],
)
def test_a_larger_value_alone_in_its_place_does_not_fit(old: str, new: str) -> None:
    assert old in TEXT
    layout = layout_of_dump(hlo_lens.parse_buffer_assignment(TEXT.replace(old, new)))
    assert layout.misfits
    assert not layout.is_complete
