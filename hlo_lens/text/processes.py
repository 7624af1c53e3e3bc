"""Processes: where a fork is safe, and a function that runs in a forked process.

Fork copies the memory of a process but only one of its threads; locks that others hold stay locked
in the copy. So forks are for Linux, while there is no second thread (of the kernel, since BLAS
starts its own outside of Python), and not with JAX, which warns at every fork.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

R = TypeVar("R")


def is_fork_safe() -> bool:
    """Return whether a fork of this process can use all that it copies."""
    if sys.platform != "linux" or "jaxlib" in sys.modules:
        return False
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


class SecondProcess(Generic[R]):
    """A function that runs in a fork of this process, and its result, which can be pickled.

    The fork has all that this process has read, without a copy. It is killed with this process.

    Raises:
        OSError: If there is no memory, or there are too many processes or files.
    """

    def __init__(self, function: Callable[[], R]) -> None:
        import multiprocessing  # takes 12 ms

        context = multiprocessing.get_context("fork")
        self._results, sending = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_send, args=(function, sending, os.getpid()), daemon=True
        )
        try:
            self._process.start()
        except OSError:
            self._results.close()
            raise
        finally:
            sending.close()

    def result(self) -> R | None:
        """Return the result, at the first call; None if the process died. Waits for it."""
        if self._results.closed:
            return None
        try:
            return cast("R", self._results.recv())
        except EOFError:
            return None
        finally:
            self.end()

    def end(self) -> None:
        if not self._results.closed:
            self._results.close()
            self._process.kill()
            self._process.join()


_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Let this forked process end with its parent, and silently at Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # which was killed before that
            os._exit(1)


def _send(function: Callable[[], object], results: Connection, first: int) -> None:
    """Send the result of a function to the first process; an error prints nothing."""
    die_with(first)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # else whoever reads the output waits for this process too
        if stream != results.fileno():
            os.dup2(null, stream)
    sys.stdout = sys.stderr = None
    gc.disable()
    results.send(function())


def start_second(function: Callable[[], R]) -> SecondProcess[R] | None:
    """Return the process that runs a function; None where this process does the work itself.

    So it is where a fork is not safe, on one core, and where there are other processes already.
    """
    multiprocessing = sys.modules.get("multiprocessing")  # unless it is needed: it takes 12 ms
    if multiprocessing is not None and (
        multiprocessing.parent_process() is not None or multiprocessing.active_children()
    ):
        return None
    if cores() < 2 or not is_fork_safe():
        return None
    try:
        return SecondProcess(function)
    except OSError:
        return None
