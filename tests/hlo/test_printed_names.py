"""Names found by the forms in which they are printed."""

from __future__ import annotations

import pytest

from hlo_lens.hlo.query import names_printed_as

NAMES = ("while.3", "add_fusion.12", "mul_fusion.12", "dot.1")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dot.1", ["dot.1"]),
        ("%dot.1", ["dot.1"]),
        ("while.3{}", ["while.3"]),
        ("while.3{0,1}", ["while.3"]),
        ("...l_fusion.12{}", ["mul_fusion.12"]),
        ("..._fusion.12", ["add_fusion.12", "mul_fusion.12"]),
        ("fusion.12", []),
        ("dot", []),
        ("a\nb", []),
    ],
)
def test_name_is_found_as_printed(text: str, found: list[str]) -> None:
    assert names_printed_as(text, NAMES) == found
