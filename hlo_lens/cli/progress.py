"""Progress bar on standard error, for long work, on a terminal only."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress, TaskID

_QUIET_SECONDS = 0.5
_SECONDS_BETWEEN = 0.1


class _Bar:
    """Bar that appears after half a second of work; rich is imported then."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._next = time.monotonic() + _QUIET_SECONDS
        self._shown: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _SECONDS_BETWEEN
        if self._shown is None:
            self._shown = self._start(total)
        bar, task = self._shown
        bar.update(task, completed=done, total=total)

    def _start(self, total: int) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            transient=True,
        )
        bar.start()
        return bar, bar.add_task(self._title, total=total)

    def stop(self) -> None:
        """Remove the bar from the screen."""
        if self._shown is not None:
            self._shown[0].stop()


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """Provide a callback for progress (done, total); None where there is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(title)
    try:
        yield bar
    finally:
        bar.stop()
