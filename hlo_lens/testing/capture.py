"""Programs that jax compiles while a block runs, seen by hooks on the methods that compile."""

from __future__ import annotations

import functools
import importlib
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from hlo_lens.load.jax import dump_of_compile, import_jax
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.text.errors import HloLensError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hlo_lens.load.module import ModuleDump


if TYPE_CHECKING:
    Listener: TypeAlias = Callable[[Any, Any], None]
    """Called with jax's lowering and the executable that it was compiled to."""

_PLACES = (
    ("jax._src.interpreters.pxla", "MeshComputation"),
    ("jax._src.interpreters.pxla", "PmapComputation"),
)
_MARK = "_hlo_lens_original"

_of_context: ContextVar[tuple[Listener, ...]] = ContextVar("hlo_lens_listeners", default=())
_lock = threading.Lock()
_active = 0


def _install() -> tuple[str, ...]:
    """Wrap the methods that compile, unless they are wrapped; return notes on unseen compiles."""
    global _active  # one count for the process, as there is one jax
    with _lock:
        owners = _owners()
        for owner in owners:
            if not hasattr(owner.__dict__["compile"], _MARK):
                owner.compile = _wrapped(owner.__dict__["compile"])
        _active += 1
    return () if owners else ("this version of jax compiles in an unknown place: nothing is seen",)


def _uninstall() -> None:
    global _active  # as above
    with _lock:
        _active -= 1
        for owner in () if _active else _owners():
            original = getattr(owner.__dict__["compile"], _MARK, None)
            if original is not None:
                owner.compile = original


def _owners() -> list[Any]:
    import_jax()
    found = []
    for module, name in _PLACES:
        with suppress(ImportError):
            owner = getattr(importlib.import_module(module), name, None)
            if owner is not None and callable(owner.__dict__.get("compile")):
                found.append(owner)
    return found


def _wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A001 # it replaces that method
        before = getattr(self, "_executable", None)
        executable = original(self, *args, **kwargs)
        if executable is not before:  # else it had been compiled before
            for listener in _of_context.get():
                listener(self, executable)
        return executable

    setattr(compile, _MARK, original)
    return compile


class Capture:
    """Programs that jax compiled during a block, in order; each is read when first used.

    A program that was compiled before the block began is not compiled again, so it is not here.

    Attributes:
        notes: Compiles that could not be seen or read, with the reason.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._compiles: list[tuple[Any, Any]] = []
        self._dumps: dict[int, ModuleDump | None] = {}

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[ModuleDump]:
        return iter(self.modules)

    def __repr__(self) -> str:
        names = ", ".join(module.name for module in self.modules) or "none"
        counts = {kind: n for kind, n in self.collective_counts().items() if n} or "none"
        return f"<Capture of {len(self)} programs: {names}; collectives: {counts}>"

    @property
    def modules(self) -> tuple[ModuleDump, ...]:
        """The programs as dumps; `notes` names each that has no text."""
        for number, compile_ in enumerate(tuple(self._compiles)):
            if number not in self._dumps:
                self._dumps[number] = None
                try:
                    self._dumps[number] = dump_of_compile(*compile_)
                except HloLensError as error:
                    self.notes.append(str(error))
        return tuple(dump for _, dump in sorted(self._dumps.items()) if dump is not None)

    def collective_counts(self) -> dict[str, int]:
        """Return the number of collectives of each kind in all programs, each counted once.

        `hlo_lens.collectives` returns their axes, bytes and dynamic counts.
        """
        found: Counter[str] = Counter()
        for dump in self.modules:
            if dump.hlo is not None:
                found.update(collectives(dump).static_counts())
        return dict(found)

    def add(self, lowering: Any, executable: Any) -> None:
        if all(executable is not seen for _, seen in self._compiles):
            self._compiles.append((lowering, executable))


@contextmanager
def capture() -> Iterator[Capture]:
    """Record every program that jax compiles in this thread, or task, while the block runs.

    >>> with hlo_lens.capture() as c:  # doctest: +SKIP
    ...     train_step(state, batch)
    >>> c.collective_counts()  # doctest: +SKIP
    {'all-reduce': 2, 'all-gather': 1}

    Blocks may be nested: the outer one sees what the inner one sees. The hooks in jax are removed
    when the block ends, also after an exception.

    Raises:
        MissingPackageError: If jax is not installed.
    """
    found = Capture()
    found.notes += _install()
    _of_context.set((*_of_context.get(), found.add))
    try:
        yield found
    finally:
        _of_context.set(tuple(one for one in _of_context.get() if one != found.add))
        _uninstall()
