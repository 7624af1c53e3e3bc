"""The oldest Python that reads patterns right: stated once per place, refused below."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SYSTEM_PYTHON = Path("/usr/bin/python3")


def _system_version() -> tuple[int, ...]:
    code = "import sys; print(*sys.version_info[:3])"
    done = subprocess.run([SYSTEM_PYTHON, "-c", code], capture_output=True, text=True, check=True)
    return tuple(int(part) for part in done.stdout.split())


def test_every_place_states_the_same_oldest_python() -> None:
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    oldest = stated.removeprefix(">=")
    for place in (
        "README.md",
        "Makefile",
        "hlo_lens/manual/contributing.md",
        "hlo_lens/__init__.py",
    ):
        assert f"Python {oldest} or newer" in (ROOT / place).read_text(), place
    numbers = oldest.replace(".", ", ")
    for place in ("Makefile", "hlo_lens/__init__.py"):
        assert f"sys.version_info < ({numbers})" in (ROOT / place).read_text(), place


def test_possessive_groups_are_right_here() -> None:
    found = re.match("(?:ab?c)*+", "aca")  # gh-106052: 3.11.0 to 3.11.4 match all three letters
    assert found is not None
    assert found.group() == "ac"


def test_older_python_is_refused_with_the_reason() -> None:
    if not SYSTEM_PYTHON.exists() or not (3, 11) <= _system_version() < (3, 11, 5):
        pytest.skip("no Python of 3.11.0 to 3.11.4 at /usr/bin/python3")
    done = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import hlo_lens"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "needs Python 3.11.5 or newer" in done.stderr
    assert "gh-106052" in done.stderr


def test_this_python_is_not_refused() -> None:
    assert sys.version_info >= (3, 11, 5)
