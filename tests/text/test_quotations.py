"""Marks of a quotation before every line of a text."""

from __future__ import annotations

import pytest

from hlo_lens.text.quotations import without_quotation
from hlo_lens.text.source import clean


@pytest.mark.parametrize("mark", ["> ", "> > ", "# ", "// ", "  # ", ">> "])
def test_marks_of_all_lines_are_cut(mark: str) -> None:
    lines = ["main", "|-- f", "", "`-- g"]
    text = "".join(f"{mark}{line}".rstrip() + "\n" for line in lines)
    found = without_quotation(clean(text))
    assert found is not None
    assert found.text == "main\n|-- f\n\n`-- g\n"
    assert found.line_column(found.text.index("`"))[1] == len(mark) + 1


@pytest.mark.parametrize("text", ["", "\n", "a\nb\n", "> a\nb\n", "# a\n> b\n", "-- a\n--b\n"])
def test_text_with_other_lines_is_none(text: str) -> None:
    assert without_quotation(clean(text)) is None
