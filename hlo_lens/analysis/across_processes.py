"""Whether all processes of a job compiled the same programs.

The k-th compile of a name in one process is held against the k-th of that name in the others: all
processes of one program trace the same functions in the same order. Modules that one process alone
compiles (its own logging, say) are told, but are no difference between programs that all have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.module_groups import process_of, processes_of
from hlo_lens.analysis.result import Column, Result, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.analysis.module_facts import ModuleFacts
    from hlo_lens.analysis.result import Row
    from hlo_lens.analysis.same_program import Fingerprint

SAME = "same"
SAME_BUT_NAMES = "same up to names"
DIFFERENT = "different"
MISSING = "not in all processes"
UNKNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedProgram:
    """One compile, over all processes.

    Attributes:
        name: Name of the module.
        compile: Which compile of that name, from 0.
        verdict: One of the words above.
        processes: Those that have it.
        odd: Of a difference: the first process that differs from the first of all.
        modules: Index of its module in the first process and in `odd` (or in the second).
    """

    name: str
    compile: int
    verdict: str
    processes: tuple[str, ...]
    odd: str | None
    modules: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class AcrossProcesses(Result):
    """The programs of a job, differences first.

    Attributes:
        programs: Each with its verdict.
        processes: All processes.
    """

    KIND: ClassVar[str] = "across-processes"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("module", Unit.NONE, "name of the module"),
        Column("compile", Unit.NONE, "which compile of that name, from 0"),
        Column("verdict", Unit.NONE, "same, different, or not in all processes"),
        Column("processes", Unit.COUNT, "how many have it"),
        Column("odd", Unit.NONE, "the first that differs, or that has it not"),
    )
    programs: tuple[SharedProgram, ...]
    processes: tuple[str, ...]

    def rows(self) -> Iterator[Row]:
        """Yield one row per compile."""
        for p in self.programs:
            yield p.name, p.compile, p.verdict, len(p.processes), p.odd

    def count(self, verdict: str) -> int:
        """Return how many compiles have a verdict."""
        return sum(program.verdict == verdict for program in self.programs)


_ORDER = (DIFFERENT, UNKNOWN, MISSING, SAME_BUT_NAMES, SAME)


def across_processes(modules: Sequence[ModuleFacts]) -> AcrossProcesses:
    """Return how the programs of several processes compare; facts must have fingerprints."""
    processes = processes_of(modules)
    compiles: dict[tuple[str, int], dict[str, int]] = {}
    seen: dict[tuple[str, str], int] = {}
    for place, module in enumerate(modules):
        if module.number is None:
            continue
        process = process_of(module)
        count = seen.get((process, module.name), 0)
        seen[process, module.name] = count + 1
        compiles.setdefault((module.name, count), {})[process] = place
    programs = [
        _program(name, count, places, modules, processes)
        for (name, count), places in compiles.items()
    ]
    programs.sort(key=lambda p: (_ORDER.index(p.verdict), p.name, p.compile))
    return AcrossProcesses(programs=tuple(programs), processes=processes)


def _program(
    name: str,
    count: int,
    places: dict[str, int],
    modules: Sequence[ModuleFacts],
    processes: tuple[str, ...],
) -> SharedProgram:
    own = sorted(places)
    prints = [modules[places[process]].fingerprint for process in own]
    odd = pair = None
    if any(one is None for one in prints):
        verdict = UNKNOWN
        odd = own[[one is None for one in prints].index(True)]
    elif len({one.exact for one in prints if one is not None}) == 1:
        verdict = SAME
    else:
        is_renamed = len({one.nameless for one in prints if one is not None}) == 1
        verdict = SAME_BUT_NAMES if is_renamed else DIFFERENT
        keys = [_key(one, is_renamed=is_renamed) for one in prints]
        odd = next(p for p, key in zip(own, keys, strict=True) if key != keys[0])
        pair = places[own[0]], places[odd]
    if verdict in (SAME, SAME_BUT_NAMES) and len(own) < len(processes):
        verdict = MISSING
        odd = next(process for process in processes if process not in places)
    return SharedProgram(
        name=name, compile=count, verdict=verdict, processes=tuple(own), odd=odd, modules=pair
    )


def _key(one: Fingerprint | None, *, is_renamed: bool) -> str | None:
    if one is None:
        return None
    return one.exact if is_renamed else one.nameless
