"""Whether all processes of a job compiled the same programs, and the first difference.

Compiles of one name are compared. They are paired first by equal text, then by equal text up to
names, then by equal parameter shapes; of the rest, the k-th of one process with the k-th of
another. So an extra compile in one process (a retrace, its own logging) is reported as such and
shifts no others.

Each folder counts as a process. The result also states whether the folders have names of processes
(``rank_0``, ``host3``, a number, an address, XLA's ``MODULE/HOST_PID``): dumps of experiments in
one folder are compared in the same way, but are no processes of one job.

For the first difference, programs are matched instruction by instruction. Their lines are compared
instead where a program is too large for that, or where the programs differ in names or text alone.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.questions.diff.matching.program_diff import ProgramDiff, program_diff
from hlo_lens.questions.dumps.module_groups import process_of, processes_of
from hlo_lens.questions.dumps.text_comparison import Line, first_difference
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.text.dump_kinds import without_archive_end

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.dumps.listing_facts import ListingFacts

SAME = "same"
SAME_BUT_NAMES = "same up to names"
DIFFERENT = "different"
MISSING = "not in all processes"
UNKNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedProgram:
    """One compile, over all processes; other fields are columns of `AcrossProcesses`.

    Attributes:
        name: Name of the module.
        processes: Processes that have it.
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
    """Programs of a job, differences first.

    Attributes:
        programs: Programs with their verdicts.
        processes: All processes.
        are_processes: Whether the folders have names of processes.
    """

    KIND: ClassVar[str] = "across-processes"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", Unit.NONE, "name of the module"),
        Column("compile", Unit.NONE, "index among the programs of that name, from 0"),
        Column("verdict", Unit.NONE, "same, different, or not in all processes"),
        Column("processes", Unit.COUNT, "number of processes that have it"),
        Column("odd", Unit.NONE, "the first process that differs, or lacks it"),
    )
    programs: tuple[SharedProgram, ...]
    processes: tuple[str, ...]
    are_processes: bool = True

    def rows(self) -> Iterator[Row]:
        """Yield one row per compile."""
        for p in self.programs:
            yield p.name, p.compile, p.verdict, len(p.processes), p.odd

    def count(self, verdict: str) -> int:
        """Return the number of compiles with a verdict."""
        return sum(program.verdict == verdict for program in self.programs)


_ORDER = (DIFFERENT, UNKNOWN, MISSING, SAME_BUT_NAMES, SAME)


def across_processes(modules: Sequence[ListingFacts]) -> AcrossProcesses:
    """Return the comparison of the programs of several processes; facts must have fingerprints."""
    processes = processes_of(modules)
    own: dict[str, list[_Compiles]] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for place, module in enumerate(modules):
        if module.number is None:
            continue
        process = process_of(module)
        order = seen[process, module.name]
        seen[process, module.name] += 1
        own.setdefault(module.name, []).append(_Compiles(order, module, {process: place}))
    programs = [
        _program(name, count, one.places, modules, processes)
        for name, alone in own.items()
        for count, one in enumerate(_joined(alone))
    ]
    programs.sort(key=lambda p: (_ORDER.index(p.verdict), p.name, p.compile))
    return AcrossProcesses(
        programs=tuple(programs),
        processes=processes,
        are_processes=_are_processes(modules, processes),
    )


def has_processes(modules: Sequence[ListingFacts]) -> bool:
    """Return whether the folders of modules are those of several processes of one job."""
    processes = processes_of(modules)
    return len(processes) > 1 and _are_processes(modules, processes)


@dataclass(slots=True)
class _Compiles:
    """Compiles of several processes that are the same program.

    Attributes:
        order: Index of the first compile among those of its name in its process.
        module: One of them.
        places: Index of the module by process.
    """

    order: int
    module: ListingFacts
    places: dict[str, int]


_LIKENESS: tuple[Callable[[ListingFacts], Hashable], ...] = (
    lambda module: module.fingerprint and module.fingerprint.exact,
    lambda module: module.fingerprint and module.fingerprint.nameless,
    lambda module: module.signature,
    lambda module: "",
)
"""Keys by which compiles of one name are the same program, strongest first; None matches none."""


def _joined(alone: list[_Compiles]) -> list[_Compiles]:
    """Return the compiles of one name; those of different processes are joined into one."""
    for likeness in _LIKENESS:
        found: dict[Hashable, _Compiles] = {}
        used: Counter[Hashable] = Counter()
        for one in sorted(alone, key=lambda one: one.order):
            what = likeness(one.module)
            if what is None:
                found[id(one)] = one
                continue
            number = max(used[what, process] for process in one.places)
            for process in one.places:
                used[what, process] = number + 1
            first = found.setdefault((what, number), one)
            if first is not one:
                first.places.update(one.places)
        alone = list(found.values())
    return sorted(alone, key=lambda one: (one.order, min(one.places.values())))


_PROCESS = re.compile(
    r"(?:.*[^a-z])?(?:host|rank|proc(?:ess)?|worker|node|task|pod|w|p|pid|machine|slice)"
    r"(?:id|name)?[-_. ]?\d+(?:[-_.]\d+)*|\d+|\d+(?:[.-]\d+){3}",
    re.IGNORECASE,
)


def _are_processes(modules: Sequence[ListingFacts], processes: Sequence[str]) -> bool:
    """Whether folders have names of processes, or names that XLA gives to them."""
    paths = [one.split("/") for one in processes]
    while all(len(path) > 1 for path in paths) and len({path[-1] for path in paths}) == 1:
        paths = [path[:-1] for path in paths]
    if all(_PROCESS.fullmatch(without_archive_end(path[-1])) for path in paths):
        return True
    numbered = [module for module in modules if module.number is not None]
    return all({m.name, m.key} & set(m.folder.split("/")) for m in numbered)


def _program(
    name: str,
    count: int,
    places: dict[str, int],
    modules: Sequence[ListingFacts],
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
        keys = [one and (one.exact if is_renamed else one.nameless) for one in prints]
        odd = next(p for p, key in zip(own, keys, strict=True) if key != keys[0])
        pair = places[own[0]], places[odd]
    if verdict in (SAME, SAME_BUT_NAMES) and len(own) < len(processes):
        verdict = MISSING
        odd = next(process for process in processes if process not in places)
    return SharedProgram(
        name=name, compile=count, verdict=verdict, processes=tuple(own), odd=odd, modules=pair
    )


_MOST_DIFFED = 100_000
"""Instructions of the largest program that is matched instruction by instruction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessDifference:
    """Difference of one program between the first process and the first that differs from it.

    Attributes:
        program: The program, over all processes.
        instructions: Instructions in the first process.
        diff: Differences of the instructions; None where they were not matched.
        lines: First lines that differ, None past the end of a module; None where `diff` has edits
            or changes of the header, or no line differs.
    """

    program: SharedProgram
    instructions: int
    diff: ProgramDiff | None
    lines: tuple[Line | None, Line | None] | None


def process_difference(
    across: AcrossProcesses, modules: Sequence[ModuleDump]
) -> ProcessDifference | None:
    """Return the difference of the first program that is not the same in all processes.

    Args:
        across: The programs.
        modules: The modules, in the order of the facts that the programs were compared by.
    """
    odd = next((p for p in across.programs if p.modules), None)
    if odd is None or odd.modules is None:
        return None
    ours, theirs = (modules[k].hlo for k in odd.modules)
    if ours is None or theirs is None:
        return None
    diff = None
    largest = max(ours.instruction_count, theirs.instruction_count)
    if odd.verdict != SAME_BUT_NAMES and largest <= _MOST_DIFFED:
        diff = program_diff(ours, theirs)
    is_text = diff is None or not (diff.module_changes or diff.edits)
    return ProcessDifference(
        program=odd,
        instructions=ours.instruction_count,
        diff=diff,
        lines=first_difference(ours, theirs) if is_text else None,
    )
