"""Texts that are no HLO and no buffer assignment: buffer texts, logs, StableHLO, call trees."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.questions.memory.page import buffer_text_sections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.call_trees.page import TitledTree
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.logs.log_analysis import LogAnalysis
    from hlo_lens.render.table import Section


class SingleTexts:
    """The texts of a module without HLO text and buffer assignment.

    Passes are imported with their first use, as most reports need none of them.

    Args:
        dump: The module.
    """

    def __init__(self, dump: ModuleDump) -> None:
        self.dump = dump

    @cached_property
    def log(self) -> LogAnalysis | None:
        """The log, None where the text is none."""
        if self.dump.log is None:
            return None
        from hlo_lens.logs.log_analysis import LogAnalysis

        return LogAnalysis(self.dump.name, self.dump.log)

    @cached_property
    def trees(self) -> tuple[TitledTree, ...]:
        """The call trees that the text draws."""
        if self.dump.call_trees is None:
            return ()
        from hlo_lens.call_trees.page import drawn_trees

        return tuple(drawn_trees(self.dump.name, self.dump.call_trees))

    def sections(self) -> Iterator[Section]:
        """Yield a section for each text."""
        yield from buffer_text_sections(self.dump)
        if self.log is not None:
            from hlo_lens.logs.page import log_sections

            yield from log_sections(self.log)
        yield from self._lowered_sections()
        if self.trees:
            from hlo_lens.call_trees.page import tree_section

            yield from map(tree_section, self.trees)

    def memory_sections(self) -> Iterator[Section]:
        """Yield the sections about memory, with those of a program that is not compiled."""
        yield from buffer_text_sections(self.dump)
        if self.log is not None and self.log.log.has_memory:
            from hlo_lens.logs.page import MEMORY, log_sections

            yield from log_sections(self.log, (MEMORY,))
        yield from self._lowered_sections()

    def sharding_sections(self) -> Iterator[Section]:
        """Yield the sections about shardings, with those of a program that is not compiled."""
        if self.log is not None and self.log.log.shardings is not None:
            from hlo_lens.logs.page import SHARDINGS, log_sections

            yield from log_sections(self.log, (SHARDINGS,))
        yield from self._lowered_sections()

    def _lowered_sections(self) -> Iterator[Section]:
        if self.dump.lowered is not None:
            from hlo_lens.questions.report.lowered import lowered_section

            yield lowered_section(self.dump, self.dump.lowered)

    def known_objects(self) -> dict[str, object]:
        """Return the JSON objects of the texts that there are."""
        return {key: found for key, found in self.objects().items() if found is not None}

    def objects(self) -> dict[str, object]:
        """Return the JSON objects of log and call trees."""
        found: dict[str, object] = {"log": None}
        if self.log is not None:
            from hlo_lens.logs.objects import log_object

            found["log"] = log_object(self.log)
        if self.dump.lowered is not None:
            from hlo_lens.questions.report.lowered import lowered_object

            found["lowered"] = lowered_object(self.dump.lowered)
        if self.dump.call_trees is not None:
            from hlo_lens.call_trees.page import trees_object

            found["call_trees"] = trees_object(self.dump.call_trees, self.trees)
        return found
