"""Compiles that tests of several rooms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache of compiles for the whole run, so that a program is compiled once as it is."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def compiles(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the compiles of a test in the shared cache, and not in that of the user."""
    monkeypatch.setenv("HLO_LENS_CACHE", str(shared_cache))
    return shared_cache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("HLO_LENS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
