"""ModuleDump: one module with the dumps that belong to it; Dump: all that a path holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.model.hlo import HloModule
    from hlo_lens.text.dump_files import DumpKind
    from hlo_lens.text.errors import Gap


@dataclass(slots=True)
class ModuleDump:
    """One module and the files that belong to it.

    Attributes:
        name: Name of the module; of the file where the text names none.
        kind: Kind of the text.
        stage: Stage of compilation that the file name tells, such as ``cpu_after_optimizations``.
        files: The files, the one that `hlo` is read from first.
        read: Reads the HLO module when it is first asked for.
    """

    name: str
    kind: DumpKind
    stage: str | None = None
    files: tuple[str, ...] = ()
    read: Callable[[], HloModule | None] = field(default=lambda: None, repr=False)
    _hlo: list[HloModule | None] = field(default_factory=list, repr=False)

    @property
    def hlo(self) -> HloModule | None:
        """The HLO module of the latest stage there is, or None where there is no HLO text."""
        if not self._hlo:
            self._hlo.append(self.read())
        return self._hlo[0]

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What of the HLO text could not be read."""
        return () if self.hlo is None else self.hlo.gaps


@dataclass(frozen=True, slots=True)
class Dump:
    """All modules that a path holds.

    Attributes:
        path: The file or folder.
        modules: In order of the text, or of the file names.
    """

    path: str
    modules: tuple[ModuleDump, ...]

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What could not be read, in all modules."""
        return tuple(gap for module in self.modules for gap in module.gaps)
