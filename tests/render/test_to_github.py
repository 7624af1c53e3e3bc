"""Workflow commands for GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.render.to_markdown import MOST_ANNOTATIONS, Annotation, annotation_lines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("src/models/moe.py", "train.py", "a/utils.py", "b/utils.py", "x,y/odd.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def _line(source: str | None, repository: Path, message: str = "m", title: str = "t") -> str:
    one = Annotation(level="warning", title=title, message=message, source=source)
    return annotation_lines([one], repository)[0]


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("models/moe.py:212", "file=src/models/moe.py,line=212,"),
        ("app/train.py:3", "file=train.py,line=3,"),
        ("src/models/moe.py", "file=src/models/moe.py,"),
        ("~models/moe.py:5", "file=src/models/moe.py,line=5,"),
        ("x,y/odd.py:1", "file=x%2Cy/odd.py,line=1,"),
    ],
)
def test_a_file_is_found_by_the_end_of_its_path(source: str, place: str, repository: Path) -> None:
    assert _line(source, repository) == f"::warning {place}title=t::m"


@pytest.mark.parametrize("source", ["c/utils.py:1", "flax/linen.py:1"])
def test_a_missing_or_ambiguous_file_is_named_in_the_message(source: str, repository: Path) -> None:
    assert _line(source, repository) == f"::warning title=t::m (at {source})"


def test_a_path_out_of_the_repository_is_not_followed(repository: Path) -> None:
    inner = repository / "src"
    assert "file=" not in _line("../train.py:1", inner)


def test_special_characters_are_escaped(repository: Path) -> None:
    line = _line(None, repository, message="50%\r\nnext: a,b", title="a:b,c%\n")
    assert line == "::warning title=a%3Ab%2Cc%25%0A::50%25%0D%0Anext: a,b"
    assert "\n" not in line


def test_annotations_are_limited_to_those_github_shows(repository: Path) -> None:
    many = [Annotation(level="warning", title="t", message=str(k)) for k in range(30)]
    assert len(annotation_lines(many, repository)) == MOST_ANNOTATIONS
