"""Outputs of notebooks as text, at their lines of the file."""

from __future__ import annotations

import json

from hlo_lens.text.notebook import notebook_outputs
from hlo_lens.text.source import clean

BOXES = ["┌───────┐\n", "│ CPU 0 │\n", "├───────┤\n", "│ CPU 1 │\n", "└───────┘\n"]
COLORED = '<pre><span style="color: #fff; background-color: #393b79">  CPU 0  </span>\n</pre>'


def notebook(*outputs: dict[str, object]) -> str:
    cells = [{"cell_type": "code", "source": ["f(x)\n", "y"], "outputs": list(outputs)}]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}, indent=1, ensure_ascii=False)


def text_of(file: str) -> str | None:
    found = notebook_outputs(clean(file))
    return None if found is None else found.text


def test_lines_of_an_output_are_those_of_the_file() -> None:
    file = notebook({"output_type": "stream", "name": "stdout", "text": ["a P('x')\n", *BOXES]})
    lines = (text_of(file) or "").split("\n")
    assert [line for line in lines if line] == ["a P('x')", *(line.rstrip() for line in BOXES)]
    at = next(k for k, line in enumerate(file.split("\n")) if "a P(" in line)
    assert lines[at] == "a P('x')"


def test_html_is_read_once_and_only_where_it_says_more() -> None:
    page = "<pre>" + "".join(BOXES) + "</pre>\n"
    plain = {"text/html": [page], "text/plain": BOXES}
    assert (text_of(notebook({"data": plain})) or "").count("CPU 0") == 1
    assert "<pre>" not in (text_of(notebook({"data": {"text/html": page}})) or "")
    assert (text_of(notebook({"data": {"text/html": page}})) or "").count("CPU 1") == 1


def test_colors_of_html_are_cut_like_those_of_a_terminal() -> None:
    file = notebook({"data": {"text/html": [COLORED], "text/plain": ["  CPU 0  \n"]}})
    found = notebook_outputs(clean(file))
    assert found is not None
    assert found.text.count("CPU 0") == 1
    assert found.cuts.offsets


def test_source_cells_and_other_json_are_no_outputs() -> None:
    assert (text_of(notebook({"output_type": "stream", "text": "out"})) or "").strip() == "out"
    assert text_of('{"nbformat": 4}') is None
    assert text_of("HloModule m\n") is None


def test_texts_of_several_outputs_have_lines_of_their_own() -> None:
    file = notebook({"text": "one"}, {"text": "two\nthree"}, {"text": ["four"]})
    assert (text_of(json.dumps(json.loads(file))) or "").split() == ["one", "two", "three", "four"]


def test_damaged_strings_make_no_notebook() -> None:
    assert text_of(notebook({"text": "a"}).replace('"a"', '"\\q"')) is None
    assert text_of(notebook({"text": "a"}).replace('"a"', '"\\ud800"')) is not None
