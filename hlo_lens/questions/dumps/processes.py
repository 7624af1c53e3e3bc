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
It is described with both values: the header, the first instruction of the entry computation that
differs, one of another computation, the first line that differs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.questions.diff.matching.edits import Added, Edit, Moved, Removed
from hlo_lens.questions.diff.matching.program_diff import ProgramDiff, program_diff
from hlo_lens.questions.dumps.listing import (
    Line,
    are_processes,
    first_difference,
    process_of,
    processes_of,
)
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.text.units import format_count, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.diff.matching.program_diff import ProgramDiff
    from hlo_lens.questions.dumps.listing import ListingFacts


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
        are_processes=are_processes(modules, processes),
    )


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


TEXTS_COMPARED = (
    "ls compares texts, and counts other channel ids and another order of instructions as "
    "differences; hlo-lens diff compares programs, and may find no change"
)

_LINE = 80
_VALUE = 60


def difference_lines(found: ProcessDifference) -> Iterator[str]:
    """Yield the lines on the first difference of a program between two processes."""
    yield from _first_difference(found)
    yield TEXTS_COMPARED


def _first_difference(found: ProcessDifference) -> Iterator[str]:
    odd, diff = found.program, found.diff
    names = odd.processes[0], odd.odd or ""
    start = f"{odd.name}: {names[0]} and {names[1]} differ first"
    words = None if diff is None else _first(diff, names)
    if diff is not None and words is not None:
        yield f"{start} {words}"
        yield f"  in all: {_counts(diff, found.instructions)}"
        return
    if odd.verdict == SAME_BUT_NAMES:
        start += " in names,"
    elif diff is not None:
        noise = " and ".join(kind.meaning for kind in diff.ignored) or "the text alone"
        start += f" in {noise},"
    yield from _in_text(start, names, found)


def _first(found: ProgramDiff, names: tuple[str, str]) -> str | None:
    """Return the first difference in words; None where only the order differs."""
    if found.module_changes:
        change = found.module_changes[0]
        return f"in the header: {change.what} is {_values(change.base, change.head, names)}"
    if not found.edits:
        return None
    first = min(found.edits, key=_place)
    here = [edit for edit in found.edits if _place(edit) == _place(first)]
    gone = next((edit.base for edit in here if isinstance(edit, Removed)), None)
    new = next((edit.head for edit in here if isinstance(edit, Added)), None)
    if gone is not None and new is not None:
        return f"where {names[0]} has {_named(gone)}, {names[1]} has {_named(new)}"
    return _edit_words(first, names)


def _place(edit: Edit) -> tuple[bool, int, int]:
    """Return the place of an edit: the entry first, then by place in the text of its module."""
    one = edit.base if isinstance(edit, Removed) else edit.head
    computation = one.computation
    return not computation.is_entry, computation.rows[0], one.row - computation.rows[0]


def _edit_words(edit: Edit, names: tuple[str, str]) -> str:
    if isinstance(edit, Added):
        return f"at {_named(edit.head)}: only {names[1]} has it"
    if isinstance(edit, Removed):
        return f"at {_named(edit.base)}: only {names[0]} has it"
    if isinstance(edit, Moved):
        places = _values(edit.base.computation.name, edit.head.computation.name, names)
        return f"at {_named(edit.base)}: it is in {places}"
    changes = [f"{c.what} is {_values(c.base, c.head, names)}" for c in edit.changes]
    return f"at {_named(edit.base)}: {'; '.join(changes)}"


def _named(one: HloInstruction) -> str:
    """Return an instruction with its place and its source line."""
    kind = "entry computation" if one.computation.is_entry else "computation"
    source = one.source_location
    shape = _cut(one.shape.to_text(layout=False)) if one.shape is not None else ""
    words = f"{one.name} ({one.opcode} {shape}, in {kind} {one.computation.name}"
    return f"{words}, {source})" if source else f"{words})"


def _values(base: str | None, head: str | None, names: tuple[str, str]) -> str:
    ours, theirs = _apart(base or "absent", head or "absent")
    return f"{ours} in {names[0]}, {theirs} in {names[1]}"


def _apart(base: str, head: str) -> tuple[str, str]:
    """Return the parts of two texts around their first difference."""
    same = _common_length(base, head)
    start = max(0, same - _VALUE // 2) if max(len(base), len(head)) > _VALUE else 0
    lead = "..." if start else ""
    return lead + _cut(base[start:]), lead + _cut(head[start:])


def _common_length(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}..."


def _counts(found: ProgramDiff, whole: int) -> str:
    """Return the number of instructions that differ, names and order aside."""
    counts = {word: getattr(found, word) for word in ("changed", "added", "removed", "moved")}
    texts = [f"{format_count(count)} {word}" for word, count in counts.items() if count]
    return f"{', '.join(texts) or 'none'} of {plural(whole, 'instruction')}"


def _in_text(start: str, names: tuple[str, str], found: ProcessDifference) -> Iterator[str]:
    """Yield the first lines of two texts that are not the same."""
    if found.lines is None:
        return
    place = next((line.place for line in found.lines if line is not None), "")
    yield f"{start} at {place}:"
    texts = ["the module ends" if line is None else line.exact for line in found.lines]
    begin = max(0, _common_length(*texts) - _LINE // 2)
    for process, text in zip(names, texts, strict=True):
        lead = f"{text[: _LINE // 4]}..." if begin > _LINE // 4 else text[:begin]
        rest = text[begin:]
        yield f"  {process}: {lead}{rest[:_LINE]}{'...' * (len(rest) > _LINE)}"
