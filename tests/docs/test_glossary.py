"""The glossary has the words of the output: labels of page heads, rows of the memory statement."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

import pytest

from tests.corpus import ROOT
from tests.docs.documents import MANUAL, blocks, prose

if TYPE_CHECKING:
    from pathlib import Path

GOLDENS = sorted((ROOT / "tests" / "golden").glob("*.txt"))
_LABEL = re.compile(r"([a-z][a-z -]*?)(?:  +|, )\S.*")


def _terms() -> list[str]:
    """Return the bold terms that begin the entries of the glossary, without backticks."""
    lines = re.findall(r"^- (\*\*.*)", prose(MANUAL / "glossary.md"), re.MULTILINE)
    return [
        term.strip("`")
        for line in lines
        for bold in re.findall(r"\*\*([^*]+)\*\*", line)
        for term in bold.split(", ")
    ]


def _labels(golden: Path) -> set[str]:
    """Return the words that begin the lines of page heads: from a title to an empty line."""
    pages = re.split(r"\n\n+", golden.read_text("utf-8"))
    heads = [page.splitlines()[1:] for page in pages if _is_head(page)]
    return {match[1] for head in heads for line in head if (match := _LABEL.fullmatch(line))}


def _is_head(page: str) -> bool:
    """Whether a paragraph is a page's head: a name, then labelled lines; tables have titles."""
    first, *rest = page.splitlines() or [""]
    labelled = list(takewhile(lambda line: line.startswith(" ") or _LABEL.fullmatch(line), rest))
    return bool(rest) and labelled == rest and "  " not in first and not first[:1].isupper()


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda g: g.stem)
def test_labels_of_page_heads_are_in_the_glossary(golden: Path) -> None:
    assert _labels(golden) - set(_terms()) == set()


def test_rows_of_the_memory_statement_are_in_the_glossary() -> None:
    text = (ROOT / "tests" / "golden" / "memory_tpu_tp_mlp.txt").read_text("utf-8")
    table = text.partition("\nquantity ")[2].partition("\n\n")[0].splitlines()[1:]
    rows = {re.split(r"  +", line.strip())[0] for line in table if "  " in line}  # no notes
    assert len(rows) > 8
    assert rows - set(_terms()) == set()


def _headings(golden: Path) -> set[str]:
    """Return the column headings of a page's tables: the line below a title with a capital."""
    pages = [page.splitlines() for page in re.split(r"\n\n+", golden.read_text("utf-8"))]
    parts = ("Memory   ", "Sent ", "Work ")  # of first pages, without headings
    pages = [page for page in pages if not "".join(page[:1]).startswith(parts)]
    lines = [page[1] for page in pages if len(page) > 2 and page[0][:1].isupper()]
    return {word for line in lines for word in line.split() if "  " in line}


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda g: g.stem)
def test_column_headings_are_in_the_glossary_or_the_list_of_columns(golden: Path) -> None:
    (block,) = blocks(MANUAL / "columns.md")
    columns = {line.split()[0] for line in block.text.splitlines() if line.startswith("  ")}
    unknown = _headings(golden) - columns - set(_terms())
    begun = {word for word in unknown if any(one.startswith(f"{word}_") for one in columns)}
    assert unknown == begun  # these go on in the next line


def test_terms_occur_once() -> None:
    terms = _terms()
    assert len(terms) > 150
    assert sorted({t for t in terms if terms.count(t) > 1}) == []
