"""Source files of a checkout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.text.checkout import Checkout

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("one\ntwo\n")
    (tmp_path / "eval.py").write_text("three\n")
    return Checkout(tmp_path)


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("/home/me/p/src/train.py", "src/train.py"),
        ("src/train.py", "src/train.py"),
        ("~src/train.py", "src/train.py"),
        ("/ci/eval.py", "eval.py"),
        ("/home/me/train.py", None),
        ("../src/train.py", None),
    ],
)
def test_a_file_is_found_near_without_a_search(
    file: str, found: str | None, checkout: Checkout
) -> None:
    assert checkout.near(file) == found


def test_lines_by_number(checkout: Checkout, tmp_path: Path) -> None:
    assert checkout.line("src/train.py", 2) == "two"
    assert checkout.line(str(tmp_path / "eval.py"), 1) == "three"
    assert checkout.line("src/train.py", 3) is None
    assert checkout.line("nowhere.py", 1) is None
    assert checkout.line("src", 1) is None


def test_the_repository_is_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "train.py").write_text("x")
    monkeypatch.chdir(tmp_path / "src")
    assert Checkout.here().near("/home/train.py") == "train.py"
