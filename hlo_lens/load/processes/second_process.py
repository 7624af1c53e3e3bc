"""A function that runs in a second process, next to this one.

The second process is a fork: it has all that this one has read, without a copy, and leaves the
pickled result in a file in memory, so that it never waits for this one. There is no result where a
fork is not safe, on one core, and if the second process dies; the first process then does the work
itself. If the first one is killed, the second one ends.
"""

from __future__ import annotations

import gc
import mmap
import os
import pickle
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar, cast

from hlo_lens.load.processes.forks import cores, is_fork_safe

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")

_DONE = b"."
"""Sent when the result is complete; the end of the process comes later."""

_CHECK_SECONDS = 1
"""Time between two checks, by the second process, whether the first one is alive."""

_are_two = False
"""Whether this process has a second one, or is one; neither starts a third one."""


class SecondProcess(Generic[R]):
    """A function and the process that runs it.

    Args:
        function: The function; its result can be pickled.

    Raises:
        OSError: If there is no memory, or there are too many processes or files.
    """

    def __init__(self, function: Callable[[], R]) -> None:
        global _are_two  # of a process, not of an object
        self._file = os.memfd_create("result")
        try:
            reading, writing = os.pipe()
        except OSError:
            os.close(self._file)
            raise
        _are_two = True
        first = os.getpid()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            self._process = os.fork()
            if self._process == 0:
                os.close(reading)
                _run(function, self._file, writing, first)
            self._pipe: int | None = reading
        except OSError:
            os.close(reading)
            os.close(self._file)
            _are_two = False
            raise
        finally:
            os.close(writing)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def result(self) -> R | None:
        """Return the result, at the first call; None if there is none. Waits for it."""
        if self._pipe is None:
            return None
        try:
            if os.read(self._pipe, len(_DONE)) != _DONE:  # it died
                return None
            with mmap.mmap(self._file, 0, access=mmap.ACCESS_READ) as data:
                return cast("R", pickle.loads(data))
        finally:
            self.end()

    def end(self) -> None:
        """End the process, and forget its result."""
        if self._pipe is not None:
            os.close(self._pipe)
            os.close(self._file)
            self._pipe = None
            self._wait()

    def _wait(self) -> None:
        """Kill the process if it still runs, and wait for its end."""
        global _are_two
        _are_two = False
        with suppress(OSError):  # where the caller ignores SIGCHLD, nothing is left to wait for
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)


def start_second(function: Callable[[], R]) -> SecondProcess[R] | None:
    """Return the second process that runs a function; None where there can be none."""
    if _are_two or _is_worker() or cores() < 2 or not is_fork_safe():
        return None
    try:
        return SecondProcess(function)
    except OSError:
        return None


def _is_worker() -> bool:
    """Return whether this is a process of a pool, which uses the other cores already."""
    known = sys.modules.get("multiprocessing.process")  # which takes long to import
    return known is not None and known.parent_process() is not None


def _run(function: Callable[[], object], file: int, pipe: int, first: int) -> NoReturn:
    """Run the function in the second process, and end it; it prints nothing."""

    def check(*_: object) -> None:
        if os.getppid() != first:
            os._exit(1)

    status = 1
    try:
        # Else whoever reads the output waits for this process too. Where standard streams are
        # closed, the file and the pipe may have their numbers.
        for stream in {0, 1, 2} - {file, pipe}:
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, check)
        signal.setitimer(signal.ITIMER_REAL, _CHECK_SECONDS, _CHECK_SECONDS)
        signals = {signal.SIGINT, signal.SIGTERM, signal.SIGALRM}
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        gc.disable()
        result = function()
        with os.fdopen(file, "wb") as stored:
            pickle.dump(result, stored, pickle.HIGHEST_PROTOCOL)
        os.write(pipe, _DONE)
        status = 0
    finally:
        os._exit(status)
