"""The progress bar."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from hlo_lens.cli import output as progress

if TYPE_CHECKING:
    import pytest


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_bar_is_drawn_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with progress.progress_bar("reading") as report:
        assert report is None


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.progress_bar("reading") as report:
        assert report is not None
        report(1, 2)
    assert terminal.getvalue() == ""


def test_long_work_shows_a_bar_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0)
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress_bar("reading") as report:
        assert report is not None
        report(1, 2)
        report(2, 2)
    assert "reading" in terminal.getvalue()
