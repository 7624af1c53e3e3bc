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
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.text.processes import cores, is_fork_safe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    results: dict[int, R | None] = {}
    if count <= 1:
        for done, module in enumerate(modules):
            if progress is not None:
                progress(done, len(modules))
            results[done] = _run(function, module)
    while missing := [place for place in range(len(modules)) if place not in results]:
        if not _in_pool(function, modules, missing, count, results, progress):
            if count == 1:  # the module without a result that was processed first
                results[next(place for place in missing if place not in results)] = None
            count = 1  # one at a time, so that the module that kills it is known
    return [results[place] for place in range(len(modules))]


def _processes(modules: Sequence[ModuleDump]) -> int:
    """Return one process for few modules of small files; files in archives count a little each."""
    if len(modules) >= FEW:
        return cores()
    size = 0
    for file in (file for module in modules for file in module.files):
        try:
            size += Path(file).stat().st_size
        except OSError:
            size += SMALL // FEW
    return 1 if size < SMALL else cores()


def _in_pool(
    function: Callable[[ModuleDump], R],
    modules: Sequence[ModuleDump],
    places: Sequence[int],
    count: int,
    results: dict[int, R | None],
    progress: Progress | None,
) -> bool:
    """Add the results for the modules at some places; False if a process died."""
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("fork" if is_fork_safe() else "spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin)
    is_whole = True
    try:
        futures = {pool.submit(_run, function, modules[place]): place for place in places}
        for future in as_completed(futures):
            try:
                results[futures[future]] = future.result()
            except BrokenProcessPool:
                is_whole = False
            else:
                if progress is not None:
                    progress(len(results), len(modules))
    except BrokenProcessPool:  # from submitting
        is_whole = False
    except BaseException:
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return is_whole


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
