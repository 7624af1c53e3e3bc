"""Source files of a checkout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.text.source_files import Checkout

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("one\ntwo\n")
    (tmp_path / "eval.py").write_text("three\n")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "eval.py").write_text("other\n")
        (tmp_path / folder / "utils.py").write_text("")
    return Checkout(tmp_path)


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("/home/me/p/src/train.py", "src/train.py"),
        ("src/train.py", "src/train.py"),
        ("~src/train.py", "src/train.py"),
        ("/ci/eval.py", "eval.py"),
        ("/home/me/train.py", "src/train.py"),
        ("/home/me/utils.py", None),
        ("/home/me/b/utils.py", "b/utils.py"),
        ("../src/train.py", None),
    ],
)
def test_a_file_is_found_by_the_end_of_its_path(
    file: str, found: str | None, checkout: Checkout
) -> None:
    assert checkout.find(file) == found


def test_a_file_of_the_checkout_comes_before_one_outside(
    checkout: Checkout, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    for name in ("train.py", "elsewhere.py"):
        (outside / name).write_text("outside\n")
    assert checkout.line_of(str(outside / "train.py"), 1) == "one"
    assert checkout.line_of(str(outside / "elsewhere.py"), 1) == "outside"
    assert checkout.line_of("../outside/elsewhere.py", 1) is None


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
    assert Checkout.here().find("/home/train.py") == "train.py"


def test_folders_below_one_that_is_no_repository_are_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("x")
    monkeypatch.chdir(tmp_path)
    assert Checkout.here().find("/home/src/train.py") == "src/train.py"
    assert Checkout.here().find("/home/train.py") is None


def test_the_workspace_of_github_is_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app" / ".git").mkdir(parents=True)
    (tmp_path / "app" / "train.py").write_text("x")
    monkeypatch.chdir(tmp_path / "app")
    assert Checkout.here().find("train.py") == "train.py"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert Checkout.here().find("train.py") == "app/train.py"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "missing"))
    assert Checkout.here().find("train.py") == "train.py"
