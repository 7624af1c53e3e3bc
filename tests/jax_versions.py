"""Run the tests of the bridge in the oldest, a middle and the newest jax, each in its own venv.

``make jax-versions`` calls it. Environments are made once, in .venv-jax-VERSION, from PyPI; one
that the machine's Pythons cannot have is skipped with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDS = (
    *("pytest>=8", "lark>=1.2.2", "networkx>=3.2", "protobuf>=4.25", "numpy>=1.26"),
    *("click>=8.1", "pandas>=2.1", "regex>=2023.12.25", "rich>=13.7"),
)


@dataclass(frozen=True, slots=True)
class Environment:
    """A version of jax, and the Pythons that can have it, preferred ones first."""

    jax: str
    pythons: tuple[str, ...]


ENVIRONMENTS = (
    Environment("0.4.30", ("python3.11", "python3.12")),
    Environment("0.6.2", ("python3.11", "python3.12", "python3.13")),
    Environment("0.12.0", ("python3.12", "python3.13", "python3.14")),
)


TESTS = (
    "tests/load/jax",
    "tests/testing/test_capture.py",
    "tests/questions/what_if/test_compiling.py",
)
"""Tests that need jax, of any version."""


def python_of(environment: Environment) -> str | None:
    """Return the first Python that runs here, of the path or of pyenv.

    A shim of pyenv on the path may name a Python that is installed but not chosen.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for name in environment.pythons:
        found = [Path(path)] if (path := shutil.which(name)) else []
        found += sorted(pyenv.glob(f"{name.removeprefix('python')}.*/bin/{name}"))
        for python in found:
            if not run(python, "--version").returncode:
                return str(python)
    return None


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the checkout and return its result."""
    return subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False
    )


def prepared(environment: Environment, python: str) -> Path | str:
    """Return the Python of a venv that has this jax, or why there is none."""
    folder = ROOT / f".venv-jax-{environment.jax}"
    inside, stamp = folder / "bin" / "python", folder / ".complete"
    if stamp.exists():
        return inside
    steps: tuple[tuple[str | Path, ...], ...] = (
        (python, "-m", "venv", "--clear", folder),
        (
            *(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *(f"jax=={environment.jax}", f"jaxlib=={environment.jax}", *NEEDS),
        ),
    )
    for step in steps:
        done = run(*step)
        if done.returncode:
            return f"{' '.join(map(str, step))}\n{done.stderr}"
    stamp.touch()
    return inside


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of the tests with one version of jax.

    Attributes:
        has_passed: Whether they passed; None if no Python here can have this version.
        text: Report for people.
    """

    has_passed: bool | None
    text: str


def outcome(environment: Environment) -> Outcome:
    """Run the tests of the bridge with one version of jax."""
    label = f"jax {environment.jax}"
    python = python_of(environment)
    if python is None:
        return Outcome(
            None, f"{label}: skipped: none of {', '.join(environment.pythons)} runs here"
        )
    start = time.perf_counter()
    inside = prepared(environment, python)
    if isinstance(inside, str):
        return Outcome(False, f"{label}: no environment: {inside}")
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "filterwarnings=")
    done = run(inside, *arguments, *TESTS)
    summary = next(reversed(done.stdout.splitlines()), "no output")
    text = f"{label}: {summary} ({time.perf_counter() - start:.0f} s in all)"
    details = f"\n{done.stdout}\n{done.stderr}" if done.returncode else ""
    return Outcome(not done.returncode, f"{text}{details}")


def main() -> int:
    """Return 1 if any version fails, or if none could be tried; two run at a time."""
    found = []
    with ThreadPoolExecutor(2) as pool:
        for one in pool.map(outcome, ENVIRONMENTS):
            sys.stdout.write(f"{one.text}\n")
            sys.stdout.flush()
            found.append(one.has_passed)
    return int(False in found or True not in found)


if __name__ == "__main__":
    sys.exit(main())
