"""Changes between two dumps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.comparison.module_diff import ModuleDiff
    from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot


@dataclass(frozen=True, kw_only=True)
class DumpDiff:
    """Changes between two dumps.

    Attributes:
        modules: Changes of each pair of modules.
        places: Index in the base and in the head of each pair.
        added: Modules of the head alone.
        removed: Modules of the base alone.
        copies: Indices in the base and in the head of modules left out as copies of others.
    """

    modules: tuple[ModuleDiff, ...]
    places: tuple[tuple[int, int], ...]
    added: tuple[ModuleSnapshot, ...]
    removed: tuple[ModuleSnapshot, ...]
    copies: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def identical(self) -> bool:
        """Whether nothing changed."""
        return not self.added and not self.removed and all(m.identical for m in self.modules)

    @property
    def unknown(self) -> Mapping[str, tuple[str, ...]]:
        """Name of each module that could not be compared whole, to the subjects that could not."""
        return {m.head.name: m.unknown for m in self.modules if m.unknown}
