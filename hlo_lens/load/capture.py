"""All programs that jax compiles while a block runs."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hlo_lens.load.jax.compile_hooks import listening
from hlo_lens.load.jax.programs import dump_of_compile
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.text.errors import HloLensError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump


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
        names = ", ".join(module.name for module in self.modules)
        counts = {kind: n for kind, n in self.collective_counts().items() if n}
        return (
            f"<Capture of {len(self)} programs: {names or 'none'}; collectives: {counts or 'none'}>"
        )

    @property
    def modules(self) -> tuple[ModuleDump, ...]:
        """The programs as dumps; `notes` names each that has no text."""
        for number, (lowering, executable) in enumerate(tuple(self._compiles)):
            if number not in self._dumps:
                self._dumps[number] = self._dump(lowering, executable)
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
        """Record a compile; the same executable counts once."""
        if all(executable is not seen for _, seen in self._compiles):
            self._compiles.append((lowering, executable))

    def _dump(self, lowering: Any, executable: Any) -> ModuleDump | None:
        try:
            return dump_of_compile(lowering, executable)
        except HloLensError as error:
            self.notes.append(str(error))
            return None


@contextmanager
def capture(*, all_threads: bool = False) -> Iterator[Capture]:
    """Record every program that jax compiles while the block runs.

    >>> with hlo_lens.capture() as c:  # doctest: +SKIP
    ...     train_step(state, batch)
    >>> c.collective_counts()  # doctest: +SKIP
    {'all-reduce': 2, 'all-gather': 1}

    Blocks may be nested: the outer one sees what the inner one sees. The hooks in jax are removed
    when the block ends, also after an exception.

    Args:
        all_threads: Whether compiles of other threads count too; else only those of the thread
            (or task) that runs the block.

    Raises:
        MissingPackageError: If jax is not installed.
    """
    found = Capture()
    with listening(found.add, all_threads=all_threads) as notes:
        found.notes.extend(notes)
        yield found
