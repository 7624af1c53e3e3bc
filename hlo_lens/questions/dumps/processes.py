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
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.questions.dumps.listing import first_difference, has_processes, processes_of
from hlo_lens.questions.matching.edits import Added, Moved, Removed
from hlo_lens.questions.matching.program_diff import program_diff
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.units import format_count, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.dumps.listing import ListingFacts
    from hlo_lens.questions.matching.edits import Edit
    from hlo_lens.questions.matching.program_diff import ProgramDiff


SAME = "same"
SAME_BUT_NAMES = "same up to names"
DIFFERENT = "different"
MISSING = "not in all processes"
UNKNOWN = "not known"

_ORDER = (DIFFERENT, UNKNOWN, MISSING, SAME_BUT_NAMES, SAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedProgram:
    """One compile, over all processes.

    Attributes:
        having: Processes that have it.
        modules: Index of its module in the first process and in `odd`; None where these are the
            same, or are not known.
    """

    name: Annotated[str, "name of the module"]
    compile: Annotated[int, "index among the programs of that name, from 0"]
    verdict: Annotated[str, "same, different, or not in all processes"]
    processes: Annotated[int, Unit.COUNT, "number of processes that have it"]
    odd: Annotated[str | None, "the first process that differs, or lacks it"]
    having: tuple[str, ...]
    modules: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class AcrossProcesses(Records[SharedProgram]):
    """Programs of a job, differences first.

    Attributes:
        programs: Programs with their verdicts.
        processes: All processes.
        are_processes: Whether the folders have names of processes.
    """

    KIND: ClassVar[str] = "across-processes"
    programs: tuple[SharedProgram, ...]
    processes: tuple[str, ...]
    are_processes: bool = True

    def count(self, verdict: str) -> int:
        """Return the number of compiles with a verdict."""
        return sum(program.verdict == verdict for program in self.programs)


def across_processes(modules: Sequence[ListingFacts]) -> AcrossProcesses:
    """Return the comparison of the programs of several processes; facts must have fingerprints."""
    processes = processes_of(modules)
    by_name: dict[str, list[_Compiles]] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for place, module in enumerate(modules):
        if module.number is None:
            continue
        key = module.process, module.name
        alone = _Compiles(seen[key], module, {module.process: place})
        seen[key] += 1
        by_name.setdefault(module.name, []).append(alone)
    programs = [
        _program(name, count, joined.places, modules, processes)
        for name, alone in by_name.items()
        for count, joined in enumerate(_joined(alone))
    ]
    programs.sort(key=lambda p: (_ORDER.index(p.verdict), p.name, p.compile))
    return AcrossProcesses(
        programs=tuple(programs), processes=processes, are_processes=has_processes(modules)
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
    places: Mapping[str, int],
    modules: Sequence[ListingFacts],
    processes: Sequence[str],
) -> SharedProgram:
    having = sorted(places)
    prints = [modules[places[process]].fingerprint for process in having]
    odd = pair = None
    if None in prints:
        verdict, odd = UNKNOWN, having[prints.index(None)]
    elif len({one.exact for one in prints if one is not None}) == 1:
        verdict = SAME
    else:
        is_renamed = len({one.nameless for one in prints if one is not None}) == 1
        verdict = SAME_BUT_NAMES if is_renamed else DIFFERENT
        keys = [one and (one.exact if is_renamed else one.nameless) for one in prints]
        odd = next(p for p, key in zip(having, keys, strict=True) if key != keys[0])
        pair = places[having[0]], places[odd]
    if verdict in (SAME, SAME_BUT_NAMES) and len(having) < len(processes):
        verdict, odd = MISSING, next(process for process in processes if process not in places)
    return SharedProgram(
        name=name,
        compile=count,
        verdict=verdict,
        processes=len(having),
        odd=odd,
        having=tuple(having),
        modules=pair,
    )


# ---- the first difference -----------------------------------------------------------------------

TEXTS_COMPARED = (
    "ls compares texts, and counts other channel ids and another order of instructions as "
    "differences; hlo-lens diff compares programs, and may find no change"
)

_MOST_DIFFED = 100_000
"""Instructions of the largest program that is matched instruction by instruction."""

_LINE = 80
_VALUE = 60


def difference_lines(across: AcrossProcesses, modules: Sequence[ModuleDump]) -> Iterator[str]:
    """Yield lines on the first program that is not the same in all processes, if there is one.

    Args:
        across: The programs.
        modules: The modules, in the order of the facts that the programs were compared by.
    """
    program = next((p for p in across.programs if p.modules), None)
    if program is None or program.modules is None:
        return
    base, head = (modules[k].hlo for k in program.modules)
    if base is None or head is None:
        return
    names = program.having[0], program.odd or ""
    start = f"{program.name}: {names[0]} and {names[1]} differ first"
    diff = None
    largest = max(base.instruction_count, head.instruction_count)
    if program.verdict == SAME_BUT_NAMES:
        start += " in names,"
    elif largest <= _MOST_DIFFED:
        diff = program_diff(base, head)
    if diff is not None and not diff.identical:
        yield f"{start} {_first_change(diff, names)}"
        counts = {word: getattr(diff, word) for word in ("changed", "added", "removed", "moved")}
        texts = [f"{format_count(count)} {word}" for word, count in counts.items() if count]
        whole = plural(base.instruction_count, "instruction")
        yield f"  in all: {', '.join(texts) or 'none'} of {whole}"
    else:
        if diff is not None:
            noise = " and ".join(kind.meaning for kind in diff.ignored) or "the text alone"
            start += f" in {noise},"
        yield from _first_lines(start, names, base, head)
    yield TEXTS_COMPARED


def _first_change(diff: ProgramDiff, names: tuple[str, str]) -> str:
    """Return the first change in words: of the header, of the entry, of another computation."""
    if diff.module_changes:
        change = diff.module_changes[0]
        return f"in the header: {change.what} is {_values(change.base, change.head, names)}"
    first = min(diff.edits, key=_place)
    here = [edit for edit in diff.edits if _place(edit) == _place(first)]
    gone = next((edit.base for edit in here if isinstance(edit, Removed)), None)
    new = next((edit.head for edit in here if isinstance(edit, Added)), None)
    if gone is not None and new is not None:
        return f"where {names[0]} has {_named(gone)}, {names[1]} has {_named(new)}"
    if isinstance(first, Added):
        return f"at {_named(first.head)}: only {names[1]} has it"
    if isinstance(first, Removed):
        return f"at {_named(first.base)}: only {names[0]} has it"
    if isinstance(first, Moved):
        places = _values(first.base.computation.name, first.head.computation.name, names)
        return f"at {_named(first.base)}: it is in {places}"
    changes = [f"{c.what} is {_values(c.base, c.head, names)}" for c in first.changes]
    return f"at {_named(first.base)}: {'; '.join(changes)}"


def _place(edit: Edit) -> tuple[bool, int, int]:
    """Return the place of an edit: the entry first, then by place in the text of its module."""
    instruction = edit.base if isinstance(edit, Removed) else edit.head
    computation = instruction.computation
    return not computation.is_entry, computation.rows[0], instruction.row - computation.rows[0]


def _named(instruction: HloInstruction) -> str:
    """Return an instruction with its place and its source line."""
    shape, computation = instruction.shape, instruction.computation
    shape_text = "" if shape is None else _cut(shape.to_text(layout=False))
    kind = "entry computation" if computation.is_entry else "computation"
    parts = [f"{instruction.opcode} {shape_text}", f"in {kind} {computation.name}"]
    if instruction.source_location:
        parts.append(str(instruction.source_location))
    return f"{instruction.name} ({', '.join(parts)})"


def _values(base: str | None, head: str | None, names: tuple[str, str]) -> str:
    """Return the values of two processes, long ones around their first difference."""
    texts = base or "absent", head or "absent"
    start = max(0, _common_length(*texts) - _VALUE // 2) if max(map(len, texts)) > _VALUE else 0
    lead = "..." if start else ""
    ours, theirs = (lead + _cut(text[start:]) for text in texts)
    return f"{ours} in {names[0]}, {theirs} in {names[1]}"


def _common_length(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}..."


def _first_lines(
    start: str, names: tuple[str, str], base: HloModule, head: HloModule
) -> Iterator[str]:
    """Yield the first lines of two texts that are not the same."""
    lines = first_difference(base, head)
    if lines is None:
        return
    place = next((line.place for line in lines if line is not None), "")
    yield f"{start} at {place}:"
    texts = ["the module ends" if line is None else line.exact for line in lines]
    begin = max(0, _common_length(*texts) - _LINE // 2)
    for process, text in zip(names, texts, strict=True):
        lead = f"{text[: _LINE // 4]}..." if begin > _LINE // 4 else text[:begin]
        rest = text[begin:]
        yield f"  {process}: {lead}{rest[:_LINE]}{'...' * (len(rest) > _LINE)}"
