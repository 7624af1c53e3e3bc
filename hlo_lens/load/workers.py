"""A function applied to many modules on all cores, with results in the order of the modules.

Few or small modules are processed in this process: a second one would cost more than it saves. A
module whose worker dies is processed again alone; if that one dies, too, its result is None. There
is no thread and no lock: an interrupted thread of an executor can hold a lock for good.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time
import traceback
from multiprocessing import Pipe, active_children, get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hlo_lens.text.processes import cores, die_with, is_fork_safe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.process import BaseProcess

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
    """Return the result of a function for each module, in their order; None if its process died."""
    count = min(len(modules), processes or _processes(modules))
    results: dict[int, R | None] = {}
    if count <= 1:
        for done, module in enumerate(modules):
            if progress is not None:
                progress(done, len(modules))
            results[done] = _run(function, module)
        return [results[place] for place in range(len(modules))]
    others = set(active_children())
    try:
        died = _in_workers(function, modules, range(len(modules)), count, results, progress)
        for place in died:
            if _in_workers(function, modules, [place], 1, results, progress):
                results[place] = None
    finally:
        for child in set(active_children()) - others:
            child.kill()
            child.join()
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


def _in_workers(
    function: Callable[[ModuleDump], R],
    modules: Sequence[ModuleDump],
    places: Sequence[int],
    count: int,
    results: dict[int, R | None],
    progress: Progress | None,
) -> list[int]:
    """Add the results for the modules at some places; return those whose worker died."""
    waiting, died = list(reversed(places)), []
    at_work: dict[Connection, int] = {}
    ready: list[Connection] = []
    while waiting or at_work:
        while waiting and len(at_work) < count:
            worker = ready.pop() if ready else _worker(function, modules)
            at_work[worker] = waiting.pop()
            with contextlib.suppress(ConnectionError):  # which `recv` shows, too
                worker.send(at_work[worker])
        for worker in [one for one in wait(list(at_work)) if isinstance(one, Connection)]:
            place = at_work.pop(worker)
            try:
                result, error = worker.recv()
            except (EOFError, ConnectionError):
                died.append(place)
                worker.close()
                continue
            if error is not None:
                raise error
            ready.append(worker)
            results[place] = result
            if progress is not None:
                progress(len(results), len(modules))
    for worker in ready:
        worker.close()
    return died


def _worker(function: Callable[[ModuleDump], R], modules: Sequence[ModuleDump]) -> Connection:
    here, there = Pipe()
    arguments = (function, modules, there, os.getpid())
    context: Any = get_context("fork" if is_fork_safe() else "spawn")
    process: BaseProcess = context.Process(target=_work, args=arguments, daemon=True)
    mask = getattr(signal, "pthread_sigmask", None)  # none on Windows
    try:
        if mask is not None:  # a worker that has not begun would print a traceback
            mask(signal.SIG_BLOCK, {signal.SIGINT})
        process.start()
    finally:
        there.close()
        if mask is not None:
            mask(signal.SIG_UNBLOCK, {signal.SIGINT})
    return here


def _work(
    function: Callable[[ModuleDump], object],
    modules: Sequence[ModuleDump],
    pipe: Connection,
    parent: int,
) -> None:
    """Send the result for each place that comes; objects from before are not collected."""
    die_with(parent)
    gc.disable()
    gc.freeze()
    while True:
        try:
            place = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((_run(function, modules[place]), None))
        except Exception as error:  # whatever it is, it is raised in the first process
            error.add_note(traceback.format_exc())
            pipe.send((None, error))


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
