"""A function applied to many modules on all cores, with results in the order of the modules.

Few or small modules are processed in this process: a second one would cost more than it saves. If a
worker process dies, the modules without a result are processed again one by one; the module that
kills a worker gets the result None.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import time
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.load.processes.forks import cores, is_fork_safe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.context import BaseContext

    from hlo_lens.load.module import ModuleDump

    Progress = Callable[[int, int], None]

R = TypeVar("R")

FEW = 16
"""Fewer modules than this are processed in one process if they are small."""

SMALL = 4 << 20
"""Modules with fewer bytes of text than this are small."""

_SECONDS_BETWEEN_COLLECTIONS = 0.5


def map_modules(
    function: Callable[[ModuleDump], R],
    modules: Sequence[ModuleDump],
    *,
    progress: Progress | None = None,
    processes: int | None = None,
) -> list[R | None]:
    """Return the result of a function for each module, in their order; None if its process died.

    Args:
        function: Function at the top level of a Python module; its errors are raised here.
        modules: Modules that have not been read yet.
        progress: Called with modules done and modules in all.
        processes: Number of processes; None means one per core, or one for little work.
    """
    count = min(len(modules), processes or _processes(modules))
    if count <= 1:
        results: list[R | None] = []
        for done, module in enumerate(modules):
            if progress is not None:
                progress(done, len(modules))
            results.append(_run(function, module))
        return results
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
            count = 1  # one at a time, so that the module that kills it is known
    return [found.get(k) for k in range(len(modules))]


def _processes(modules: Sequence[ModuleDump]) -> int:
    if len(modules) < FEW and sum(map(_size, modules)) < SMALL:
        return 1
    return cores()


def _size(module: ModuleDump) -> int:
    """Return the bytes of a module's files; a small constant for files in archives."""
    sizes = 0
    for file in module.files:
        try:
            sizes += Path(file).stat().st_size
        except OSError:
            sizes += SMALL // FEW
    return sizes


def _in_pool(
    function: Callable[[ModuleDump], R],
    modules: Sequence[ModuleDump],
    left: Sequence[int],
    count: int,
    found: dict[int, R],
    progress: Progress | None,
) -> None:
    """Add the results for the modules in `left` to `found`; raises BrokenProcessPool."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, mp_context=_context(), initializer=_begin)
    futures: dict[Future[R], int] = {}
    try:
        for k in left:
            futures[pool.submit(_run, function, modules[k])] = k
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
    for future, k in futures.items():
        if future.done() and not future.cancelled():
            try:
                found[k] = future.result()
            except (BrokenProcessPool, CancelledError):
                continue


def _context() -> BaseContext:
    """Return the start method of processes: fork where it is safe, since it is fast."""
    if is_fork_safe():
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


def _begin() -> None:
    """Prepare a worker: Ctrl-C ends it silently, and objects from before are not collected."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()
    gc.freeze()


_last: list[float] = []
"""Time of the last collection in this process."""


def _run(function: Callable[[ModuleDump], R], module: ModuleDump) -> R:
    """Return a function's result, and run the garbage collector from time to time.

    Modules have reference cycles, which only the collector frees; the command line turns it off.
    """
    result = function(module)
    now = time.monotonic()
    if not _last:
        _last.append(now)
    elif now > _last[0] + _SECONDS_BETWEEN_COLLECTIONS:
        gc.collect()
        _last[0] = time.monotonic()
    return result
