"""Source files of libraries and of a checkout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.text.source_files import Checkout, is_library_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "path",
    [
        "/env/lib/python3.11/site-packages/flax/core/axes_scan.py",
        "/usr/lib/python3/dist-packages/jax/_src/lax/lax.py",
        "/usr/lib/python3.12/functools.py",
        "/usr/lib/python312.zip/functools.py",
        "C:\\Python311\\Lib\\runpy.py",
        "C:\\env\\Lib\\site-packages\\optax\\_src\\base.py",
        "<frozen runpy>",
        "<string>",
        "/src/jax/jax/_src/lax/control_flow/loops.py",
        "/src/optax/optax/losses/_classification.py",
        "third_party/py/flax/linen/module.py",
        "/build/third_party/py/flax/linen/module.py",
        "flax/linen/linear.py",
    ],
)
def test_installed_files_and_known_packages_are_libraries(path: str) -> None:
    assert is_library_file(path)


@pytest.mark.parametrize(
    "path",
    [
        "train.py",
        "/home/me/jax/train.py",
        "/home/me/flax/examples/lm1b/train.py",
        "/src/maxtext/MaxText/layers/models.py",
        "/deps/src/MaxText/train.py",
        "C:\\Users\\me\\train.py",
    ],
)
def test_all_others_are_of_the_user(path: str) -> None:
    assert not is_library_file(path)


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


def test_lines_by_number(checkout: Checkout) -> None:
    found = [checkout.line_of(*at) for at in (("src/train.py", 2), ("src/train.py", 3), ("no", 1))]
    assert found == ["two", None, None]


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
