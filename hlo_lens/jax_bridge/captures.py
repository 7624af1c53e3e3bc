"""All programs that jax compiles while a block runs.

Every compile of jit (called, lowered, or of a single operation such as ``jnp.ones``) goes through
one method, ``MeshComputation.compile``, in jax 0.4.30 to 0.12.0; pmap had one of its own until
0.7. While a capture is active these methods are wrapped, and put back with the last capture,
whatever ends it. Where a version of jax has none of them, the public ``jax.stages.Lowered.compile``
is wrapped instead, which programs that are just called do not pass: `Capture.notes` says so.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from hlo_lens.jax_bridge.programs import dump_of
from hlo_lens.jax_bridge.texts import FAILURES, Program
from hlo_lens.text.errors import HloLensError, MissingDumpError, MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hlo_lens.model.dump import ModuleDump

_INNER = (
    ("jax._src.interpreters.pxla", "MeshComputation"),
    ("jax._src.interpreters.pxla", "PmapComputation"),
)
_OUTER = ("jax._src.stages", "Lowered")
_MARK = "_hlo_lens_original"


class Capture:
    """The programs that were compiled, in order; read when they are asked for.

    A program that was compiled before the block began is not compiled again, so it is not here.

    Attributes:
        notes: What could not be seen or read, in words.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._seen: list[tuple[Any, Any]] = []
        self._read: dict[int, ModuleDump | None] = {}

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[ModuleDump]:
        return iter(self.modules)

    def __repr__(self) -> str:
        names = ", ".join(module.name for module in self.modules)
        counts = {kind: n for kind, n in self.collective_counts().items() if n}
        return (
            f"<Capture of {len(self)} programs: {names or 'none'}; collectives: {counts or 'none'}>"
        )

    @property
    def modules(self) -> tuple[ModuleDump, ...]:
        """The programs as dumps; one that does not give its text is in `notes` instead."""
        for number, (lowering, executable) in enumerate(tuple(self._seen)):
            if number not in self._read:
                self._read[number] = self._dump(lowering, executable)
        return tuple(dump for _, dump in sorted(self._read.items()) if dump is not None)

    def collective_counts(self) -> dict[str, int]:
        """Return how many collectives of each kind stand in all programs, each once.

        See `hlo_lens.collectives` for axes, bytes, and how often each runs.
        """
        from hlo_lens.analysis.collectives.collectives import collectives
        from hlo_lens.model.hlo.query import tabulate

        found: Counter[str] = Counter()
        for dump in self.modules:
            if dump.hlo is not None:
                found.update(collectives(tabulate(dump.hlo)).static_counts())
        return dict(found)

    def note(self, lowering: Any, executable: Any) -> None:
        """Take down a compile; the same program counts once."""
        if all(executable is not seen for _, seen in self._seen):
            self._seen.append((lowering, executable))

    def _dump(self, lowering: Any, executable: Any) -> ModuleDump | None:
        is_stage = not hasattr(executable, "xla_executable") and hasattr(executable, "args_info")
        donated = getattr(lowering, "_donated_invars", None)
        program = Program(
            executable=getattr(executable, "_executable", executable) if is_stage else executable,
            stage=executable if is_stage else None,
            before=functools.partial(_text_before, lowering),
            donated=tuple(donated) if isinstance(donated, (tuple, list)) else None,
        )
        try:
            return dump_of(program)
        except HloLensError as error:
            self.notes.append(str(error))
            return None


def _text_before(lowering: Any) -> str:
    """Return the HLO text of what was compiled, from before optimizations."""
    try:
        if hasattr(lowering, "hlo"):
            return str(lowering.hlo().as_hlo_text())
        return str(lowering.as_text(dialect="hlo"))
    except FAILURES as error:
        message = f"jax cannot give the HLO text of this program: {error}"
        raise MissingDumpError(message) from error


_own: ContextVar[tuple[Capture, ...]] = ContextVar("hlo_lens_captures", default=())
_of_all: list[Capture] = []
_lock = threading.Lock()
_active = 0


@contextmanager
def capture(*, all_threads: bool = False) -> Iterator[Capture]:
    """Take down every program that jax compiles while the block runs.

    >>> with hlo_lens.capture() as c:  # doctest: +SKIP
    ...     train_step(state, batch)
    >>> c.collective_counts()  # doctest: +SKIP
    {'all-reduce': 2, 'all-gather': 1}

    Blocks may be nested: the outer one sees what the inner one sees. jax is as before when the
    block ends, also by an exception.

    Args:
        all_threads: Whether compiles of other threads count too; else only those of the thread
            (or task) that runs the block.

    Raises:
        MissingPackageError: If jax is not installed.
    """
    found = Capture()
    notes = _install()
    found.notes.extend(notes)
    before = _own.get()
    if all_threads:
        _of_all.append(found)
    else:
        _own.set((*before, found))
    try:
        yield found
    finally:
        if all_threads:
            _of_all.remove(found)
        else:
            _own.set(tuple(one for one in _own.get() if one is not found))
        _uninstall()


def _install() -> tuple[str, ...]:
    """Wrap the methods that compile; the first of several captures does. Return what is missing."""
    global _active  # one count for the process, as there is one jax
    with _lock:
        targets, notes = _targets()
        for owner in targets:
            if not hasattr(owner.__dict__["compile"], _MARK):
                owner.compile = _wrapped(owner.__dict__["compile"])
        _active += 1
    return notes


def _uninstall() -> None:
    """Put the methods back when no capture is left; what others put over them stays."""
    global _active  # as above
    with _lock:
        _active -= 1
        if _active:
            return
        for owner in _targets()[0]:
            original = getattr(owner.__dict__["compile"], _MARK, None)
            if original is not None:
                owner.compile = original


def _targets() -> tuple[list[Any], tuple[str, ...]]:
    """Return the classes whose ``compile`` is wrapped, and what this version of jax lacks."""
    try:
        importlib.import_module("jax")
    except ImportError as error:
        message = "jax is not installed: pip install 'hlo-lens[jax]'"
        raise MissingPackageError(message) from error
    inner = [owner for place in _INNER if (owner := _owner(*place)) is not None]
    if inner:
        return inner, ()
    outer = _owner(*_OUTER)
    note = "this jax compiles in a place unknown to hlo-lens: only calls of .compile() are seen"
    return ([] if outer is None else [outer]), (note,)


def _owner(module: str, name: str) -> Any:
    try:
        owner = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return owner if owner is not None and callable(owner.__dict__.get("compile")) else None


def _wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A001 # it stands for that one
        before = getattr(self, "_executable", None)
        executable = original(self, *args, **kwargs)
        if executable is not before:  # else it had been compiled before
            for one in (*_own.get(), *_of_all):
                one.note(self, executable)
        return executable

    setattr(compile, _MARK, original)
    return compile
