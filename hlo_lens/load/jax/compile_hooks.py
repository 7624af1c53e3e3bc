"""Hooks on the methods of jax that compile, so that a listener sees every compile.

Every compile of jit (called, lowered, or of a single operation such as ``jnp.ones``) goes through
one method, ``MeshComputation.compile``, in jax 0.4.30 to 0.12.0; pmap had one of its own until
0.7. While there is a listener these methods are wrapped; the last one to leave restores them,
also after an exception. Where a version of jax has none of them, the public
``jax.stages.Lowered.compile`` is wrapped instead, which does not see programs that are called
without ``lower``: a note says so.
"""

from __future__ import annotations

import functools
import importlib
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from hlo_lens.text.errors import MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Listener: TypeAlias = Callable[[Any, Any], None]
    """Called with jax's lowering and the executable that it was compiled to."""

_INNER = (
    ("jax._src.interpreters.pxla", "MeshComputation"),
    ("jax._src.interpreters.pxla", "PmapComputation"),
)
_OUTER = ("jax._src.stages", "Lowered")
_MARK = "_hlo_lens_original"

_of_context: ContextVar[tuple[Listener, ...]] = ContextVar("hlo_lens_listeners", default=())
_of_all_threads: list[Listener] = []
_lock = threading.Lock()
_active = 0


@contextmanager
def listening(listener: Listener, *, all_threads: bool) -> Iterator[tuple[str, ...]]:
    """Call a listener for each compile while the block runs; yield notes on unseen compiles.

    Args:
        listener: Called after each compile of a program that was not compiled before.
        all_threads: Whether it hears the compiles of all threads, or those of this thread (or
            task) only.

    Raises:
        MissingPackageError: If jax is not installed.
    """
    notes = _install()
    if all_threads:
        _of_all_threads.append(listener)
    else:
        _of_context.set((*_of_context.get(), listener))
    try:
        yield notes
    finally:
        if all_threads:
            _of_all_threads.remove(listener)
        else:
            _of_context.set(tuple(one for one in _of_context.get() if one != listener))
        _uninstall()


def _install() -> tuple[str, ...]:
    """Wrap the methods that compile, unless they are wrapped; return notes on unseen compiles."""
    global _active  # one count for the process, as there is one jax
    with _lock:
        targets, notes = _targets()
        for owner in targets:
            if not hasattr(owner.__dict__["compile"], _MARK):
                owner.compile = _wrapped(owner.__dict__["compile"])
        _active += 1
    return notes


def _uninstall() -> None:
    """Restore the methods when the last listener leaves; wrappers of others stay."""
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
    """Return the classes whose ``compile`` is wrapped, and notes on unseen compiles."""
    import_jax()
    inner = [owner for place in _INNER if (owner := _owner(*place)) is not None]
    if inner:
        return inner, ()
    outer = _owner(*_OUTER)
    note = "this version of jax compiles in an unknown place: only calls of .compile() are seen"
    return ([] if outer is None else [outer]), (note,)


def import_jax() -> Any:
    """Return the module jax; raises MissingPackageError if it is not installed."""
    try:
        return importlib.import_module("jax")
    except ImportError as error:
        raise MissingPackageError("jax is not installed: pip install 'hlo-lens[jax]'") from error


def _owner(module: str, name: str) -> Any:
    try:
        owner = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return owner if owner is not None and callable(owner.__dict__.get("compile")) else None


def _wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A001 # it replaces that method
        before = getattr(self, "_executable", None)
        executable = original(self, *args, **kwargs)
        if executable is not before:  # else it had been compiled before
            for listener in (*_of_context.get(), *_of_all_threads):
                listener(self, executable)
        return executable

    setattr(compile, _MARK, original)
    return compile
