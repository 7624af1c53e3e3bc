"""A function that runs in a second process, next to this one.

The second process is a fork: it has all that this one has read, without a copy, and sends back the
pickled result. There is no result where a fork is not safe, on one core, and if the second process
dies; the first process then does the work itself.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar, cast

from hlo_lens.processes.forks import cores, is_fork_safe

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")

_is_second = False
"""Whether this process is a second one, which starts no third one."""


class SecondProcess(Generic[R]):
    """A function and the process that runs it.

    Args:
        function: The function; its result can be pickled.

    Raises:
        OSError: If there is no memory, or there are too many processes or files.
    """

    def __init__(self, function: Callable[[], R]) -> None:
        reading, writing = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            self._process = os.fork()
            if self._process == 0:
                _run(function, writing)
            self._pipe: int | None = reading
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def result(self) -> R | None:
        """Return the result, at the first call; None if there is none. Waits for it."""
        pipe, self._pipe = self._pipe, None
        if pipe is None:
            return None
        try:
            with os.fdopen(pipe, "rb") as file:
                data = file.read()
        finally:
            self._wait()
        try:
            return cast("R", pickle.loads(data))
        except (EOFError, pickle.UnpicklingError):  # it died before it had sent all
            return None

    def end(self) -> None:
        """End the process, if the result was not asked for."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            os.close(pipe)
            self._wait()

    def _wait(self) -> None:
        """Kill the process if it still runs, and wait for its end."""
        with suppress(OSError):  # where the caller ignores SIGCHLD, nothing is left to wait for
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)


def start_second(function: Callable[[], R]) -> SecondProcess[R] | None:
    """Return the second process that runs a function; None where there can be none."""
    if _is_second or _is_worker() or cores() < 2 or not is_fork_safe():
        return None
    try:
        return SecondProcess(function)
    except OSError:
        return None


def _is_worker() -> bool:
    """Return whether this is a process of a pool, which uses the other cores already."""
    known = sys.modules.get("multiprocessing.process")  # which takes long to import
    return known is not None and known.parent_process() is not None


def _run(function: Callable[[], object], pipe: int) -> NoReturn:
    """Run the function in the second process, and end it; it prints nothing."""
    global _is_second  # of a process, not of an object
    status = 1
    try:
        _is_second = True
        for stream in range(3):  # or whoever reads the output waits for this process too
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
        gc.disable()
        data = pickle.dumps(function(), pickle.HIGHEST_PROTOCOL)
        with os.fdopen(pipe, "wb") as file:
            file.write(data)
        status = 0
    finally:
        os._exit(status)
