"""Names that the framework gave to the arguments of a program, as ``op_name`` of parameters."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.module import HloModule


class ArgumentNames:
    """Names of the entry's parameters by row.

    A name that several parameters have is none: TensorFlow calls all of them ``XLA_Args``.
    """

    def __init__(self, module: HloModule) -> None:
        self._module = module

    @cached_property
    def by_row(self) -> Mapping[int, str]:
        """Return the name of each parameter that has one."""
        module = self._module
        if not module.has_entry:
            return {}
        rows = module.links.parameter_rows(module.entry.place) if module.entry.rows else []
        found = {row: name for row in rows if (name := self._printed(row))}
        counts = Counter(found.values())
        return {row: name for row, name in found.items() if counts[name] == 1}

    def _printed(self, row: int) -> str | None:
        module = self._module
        metadata = HloInstruction(module.entry, row).attribute("metadata")
        return metadata and module.reader.metadata_string(metadata, "op_name")
