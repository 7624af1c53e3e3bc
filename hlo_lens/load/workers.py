"""The same work on many modules, on all cores, in the order of the modules.

Few or small modules are worked on in this process: a second one costs more than it saves. A process
that dies takes no other module's result with it: what it left is done again one by one, and the
module on which another one dies is told.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import CancelledError, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from multiprocessing.context import BaseContext

    from hlo_lens.model.dump import ModuleDump

    Progress = Callable[[int, int], None]

R = TypeVar("R")

FEW = 16
"""Modules that one process works on."""

SMALL = 4 << 20
"""Bytes of text that one process works on."""

_SECONDS_BETWEEN_COLLECTIONS = 0.5


def map_modules(
    function: Callable[[ModuleDump], R],
    modules: Sequence[ModuleDump],
    *,
    progress: Progress | None = None,
    processes: int | None = None,
) -> list[R | None]:
    """Return what a function makes of each module, in their order; None where its process died.

    Args:
        function: A function of a module's top level; its errors are raised here.
        modules: Not read yet.
        progress: Called with modules done and modules in all.
        processes: How many to use; None for as many as there are cores, or one for little work.
    """
    count = min(len(modules), processes or _processes(modules))
    if count <= 1:
        return _in_turn(function, modules, progress)
    found: dict[int, R] = {}
    dead: set[int] = set()
    while len(found) + len(dead) < len(modules):
        left = [k for k in range(len(modules)) if k not in found and k not in dead]
        try:
            _in_pool(function, modules, left, count, found, progress)
        except BrokenProcessPool:
            missing = [k for k in left if k not in found]
            if count == 1 and missing:
                dead.add(missing[0])
            count = 1  # one at a time, so that the module on which it dies is known
    return [found.get(k) for k in range(len(modules))]


def _processes(modules: Sequence[ModuleDump]) -> int:
    if len(modules) < FEW and sum(map(_size, modules)) < SMALL:
        return 1
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _size(module: ModuleDump) -> int:
    """Return the bytes of a module's files; of one in an archive, none that can be known."""
    sizes = 0
    for file in module.files:
        try:
            sizes += Path(file).stat().st_size
        except OSError:
            sizes += SMALL // FEW
    return sizes


def _in_turn(
    function: Callable[[ModuleDump], R], modules: Sequence[ModuleDump], progress: Progress | None
) -> list[R | None]:
    worker = _Worker(function)
    found: list[R | None] = []
    for done, module in enumerate(modules):
        if progress is not None:
            progress(done, len(modules))
        found.append(worker(module))
    return found


def _in_pool(
    function: Callable[[ModuleDump], R],
    modules: Sequence[ModuleDump],
    left: Sequence[int],
    count: int,
    found: dict[int, R],
    progress: Progress | None,
) -> None:
    """Put what a function makes of some of the modules into `found`; raises BrokenProcessPool."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, mp_context=_context(), initializer=_begin)
    futures: dict[Future[R], int] = {}
    try:
        worker = _Worker(function)
        for k in left:
            futures[pool.submit(worker, modules[k])] = k
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            if progress is not None:
                progress(len(found), len(modules))
    except BrokenProcessPool:
        _take_finished(futures, found)
        raise
    except BaseException:
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _take_finished(futures: dict[Future[R], int], found: dict[int, R]) -> None:
    """Keep the results of what was done before a process died."""
    for future, k in futures.items():
        if future.done() and not future.cancelled():
            try:
                found[k] = future.result()
            except (BrokenProcessPool, CancelledError):
                continue


def _context() -> BaseContext:
    """Return how processes are made: forked where that is safe, which starts them at once.

    It is not where there are threads: Python's own, or those that JAX starts outside of Python.
    """
    is_alone = threading.active_count() == 1 and "jaxlib" not in sys.modules
    if sys.platform == "linux" and is_alone:
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


def _begin() -> None:
    """Prepare a process: Control-C ends it without a word, and what it was born with stays."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()
    gc.freeze()


class _Worker(Generic[R]):
    """Calls a function, and now and then collects what its modules left behind.

    Modules hold themselves, so that only a collection frees them; the command line does none.
    """

    def __init__(self, function: Callable[[ModuleDump], R]) -> None:
        self._function = function

    def __call__(self, module: ModuleDump) -> R:
        result = self._function(module)
        _collect_now_and_then()
        return result


_last: list[float] = []
"""When this process last collected."""


def _collect_now_and_then() -> None:
    now = time.monotonic()
    if not _last:
        _last.append(now)
    elif now > _last[0] + _SECONDS_BETWEEN_COLLECTIONS:
        gc.collect()
        _last[0] = time.monotonic()
