"""Causes of changes as text."""

from __future__ import annotations

from hlo_lens.questions.diff.causes import LineChanged
from hlo_lens.questions.diff.page import cause_text


def test_bytes_of_a_cause_name_the_figure_that_they_count() -> None:
    cause = LineChanged(
        sources=("a.py:1",), text="x", delta_bytes=1024, delta_bytes_of="peak_bytes"
    )
    assert cause_text(cause) == "a.py:1  +1.0KiB at the peak  x"
    cause = LineChanged(text="x", delta_bytes=1024, delta_bytes_of="total_bytes")
    assert cause_text(cause) == "+1.0KiB must fit  x"
