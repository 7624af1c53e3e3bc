"""All results on one log, each computed once, on first access."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.logs.repeated_messages import without_repeats
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.sharding.results import sharding_results
from hlo_lens.text.dump_files import title_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.logs.drawn_shardings import DrawnShardings
    from hlo_lens.logs.jax_values import ShardingLog
    from hlo_lens.logs.log import LogText
    from hlo_lens.logs.logged_arrays import LoggedArrays
    from hlo_lens.logs.oom_message import MemoryShortage
    from hlo_lens.logs.sharding_trail import ShardingTrail
    from hlo_lens.questions.dumps.warnings_in_dump import WarningJoins
    from hlo_lens.questions.memory.oom_remedies import DumpShortage, OomModule


class LogAnalysis:
    """Results of the passes on one log, each computed once, on first access.

    Args:
        name: Name of the log.
        log: The log.
        modules: Modules of the dump of the same compile; empty without a dump.
    """

    def __init__(self, name: str, log: LogText, modules: Sequence[ModuleDump] = ()) -> None:
        self.name = name
        self.log = without_repeats(log)
        self.modules = modules

    @cached_property
    def shortages(self) -> tuple[MemoryShortage, ...]:
        """Remedies for each program that was too large for its memory."""
        from hlo_lens.logs.oom_message import memory_shortage

        return tuple(map(memory_shortage, self.log.compile_ooms))

    @cached_property
    def dump_shortages(self) -> tuple[DumpShortage, ...]:
        """The same, from the dump of the same compile; empty without a dump."""
        if not self.modules or not self.log.compile_ooms:
            return ()
        from hlo_lens.questions.memory.oom_remedies import dump_shortage

        candidates = tuple(self._oom_modules())
        return tuple(dump_shortage(message, candidates) for message in self.log.compile_ooms)

    def _oom_modules(self) -> Iterator[OomModule]:
        """Yield the modules that messages may be of, with their memory."""
        from hlo_lens.questions.memory.oom_remedies import OomModule

        wanted = {message.module for message in self.log.compile_ooms}
        for dump in self.modules:
            name = title_of(dump.name) if dump.hlo is None else dump.hlo.name
            if dump.buffers.assignment is None or not {name, None} & wanted:
                continue
            memory = memory_results(dump)
            if memory is not None:
                yield OomModule(name=name, memory=memory, shardings=sharding_results(dump))

    @cached_property
    def peak_buffers(self) -> tuple[MemoryShortage, ...]:
        """Largest buffers at the peak, for each block of buffer statistics."""
        from hlo_lens.logs.oom_message import peak_buffer_groups

        entries = () if self.log.buffers is None else self.log.buffers.entries
        return tuple(peak_buffer_groups(entry.peak_buffers) for entry in entries)

    @cached_property
    def warnings(self) -> WarningJoins:
        """Compiler warnings with the instructions they are about."""
        from hlo_lens.questions.dumps.warnings_in_dump import warning_joins

        return warning_joins(self.log.warnings, self.modules)

    @cached_property
    def shardings(self) -> ShardingLogResults | None:
        """Results on shardings; None where the log has none."""
        return None if self.log.shardings is None else ShardingLogResults(self.log.shardings)


class ShardingLogResults:
    """Results of the passes on the shardings in a log, each computed once.

    Args:
        log: Shardings of the log.
    """

    def __init__(self, log: ShardingLog) -> None:
        self.log = log

    @cached_property
    def trail(self) -> ShardingTrail:
        """Calls of custom partitioning with their arguments and answers."""
        from hlo_lens.logs.sharding_trail import sharding_trail

        return sharding_trail(self.log)

    @cached_property
    def drawn(self) -> DrawnShardings:
        """Drawings with the shardings they show."""
        from hlo_lens.logs.drawn_shardings import drawn_shardings

        return drawn_shardings(self.log)

    @cached_property
    def arrays(self) -> LoggedArrays:
        """Arrays with type and sharding."""
        from hlo_lens.logs.logged_arrays import logged_arrays

        return logged_arrays(self.log)
