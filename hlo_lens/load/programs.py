"""Arguments of the API: the types a program may have, and the modules in it."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe, active_children, get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from hlo_lens.hlo.module import HloModule
from hlo_lens.load import load, load_log
from hlo_lens.load.module import Dump, ModuleDump, already_read
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.errors import UnknownNameError, UsageError
from hlo_lens.text.names import NamePattern, did_you_mean
from hlo_lens.text.processes import cores, die_with, is_fork_safe
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.process import BaseProcess


class Compiled(Protocol):
    """A compiled program of jax: what ``jax.jit(f).lower(...).compile()`` returns."""

    def as_text(self) -> str | None:
        """Return the optimized HLO text."""

    def memory_analysis(self) -> object:
        """Return the byte figures of the executable."""


Program: TypeAlias = str | Path | Dump | ModuleDump | HloModule | Compiled
"""A path, HLO text (more than one line), a dump or module read from either, a jax executable."""

Progress: TypeAlias = "Callable[[int, int], None]"
"""Called with the number done and the number in all."""

T = TypeVar("T")

_NAMES_SHOWN = 8


def modules_of(program: Program, *, module: str | None = None) -> tuple[ModuleDump, ...]:
    """Return the modules of a program.

    Args:
        program: A path, HLO text, a module or dump read from either, or an executable of jax.
        module: Regular expression to find in the names of the modules wanted; None for all.

    Raises:
        UnknownNameError: If no module has such a name.
        UsageError: If `program` is none of these, or `module` is no regular expression.
    """
    modules = _read(program)
    if module is None:
        return tuple(modules)
    return select_modules(modules, NamePattern(module))


def read_dump(path: str, *, progress: Progress | None = None) -> Dump:
    """Return the dump in a file, a folder or an archive; ``-`` is standard input."""
    return load(path, progress=progress)


def read_log(path: str) -> ModuleDump:
    """Return the log in a file."""
    return load_log(path)


def select_modules(
    modules: Sequence[ModuleDump], pattern: NamePattern | None
) -> tuple[ModuleDump, ...]:
    """Return the modules in whose name or title a pattern is found, all for None.

    A pattern that is the whole address of a module selects that one alone.

    Raises:
        UnknownNameError: If there are none.
    """
    if pattern is None:
        return tuple(modules)
    chosen = tuple(one for one in modules if one.address == pattern.text) or tuple(
        one for one in modules if pattern.found_in(one.name) or pattern.found_in(one.title)
    )
    if not chosen:
        raise no_module_matches(pattern, [one.address for one in modules])
    return chosen


def no_module_matches(pattern: NamePattern, names: Sequence[str]) -> UnknownNameError:
    """Return the error for a pattern that is found in none of some names."""
    return UnknownNameError(
        f"no module matches {pattern.text!r}; there is {listed(names, _NAMES_SHOWN)}"
        f"{did_you_mean(pattern.text, names) if len(names) > _NAMES_SHOWN else ''}"
    )


def with_progress(modules: Sequence[T], progress: Progress | None) -> Iterator[T]:
    """Yield modules; report the number done before each, if there are several."""
    for done, module in enumerate(modules):
        if progress is not None and len(modules) > 1:
            progress(done, len(modules))
        yield module


def _read(program: Program) -> Sequence[ModuleDump]:
    if isinstance(program, ModuleDump):
        return (program,)
    if isinstance(program, Dump):
        return program.modules
    if isinstance(program, HloModule):
        return (_dump_of(program),)
    if isinstance(program, str) and "\n" in program:
        from hlo_lens.hlo.module_reader import parse_hlo

        return (_dump_of(parse_hlo(program)),)
    if isinstance(program, str | Path):
        return load(program).modules
    if hasattr(program, "as_text") and hasattr(program, "memory_analysis"):
        from hlo_lens.load.jax import from_compiled

        return (from_compiled(program),)
    raise _no_program(program)


def _no_program(program: object) -> UsageError:
    hint = ""
    if hasattr(program, "lower"):
        hint = "; compile it: jax.jit(f).lower(*args).compile()"
    elif hasattr(program, "compile"):
        hint = "; add .compile(), or use hlo_lens.from_lowered for the program as it was lowered"
    return UsageError(
        "expected a path, HLO text, a module, a dump or a compiled program of jax, "
        f"found {type(program).__name__}{hint}"
    )


def _dump_of(module: HloModule) -> ModuleDump:
    return ModuleDump(
        name=module.name,
        kind=DumpKind.HLO,
        module_text=already_read(module),
        framework=module.framework,
    )


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
