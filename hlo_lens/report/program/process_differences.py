"""Where the programs of two processes differ first, in words, with both values.

That is the header, then the first instruction of the entry computation that is not the same in
both, then one of another computation. Programs too large to be matched instruction by instruction
are compared line by line.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from hlo_lens.analysis.dumps.across_processes import SAME_BUT_NAMES
from hlo_lens.analysis.dumps.text_comparison import first_difference
from hlo_lens.analysis.program_diff.edits import Added, Moved, Removed
from hlo_lens.report.render.units import format_count, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.analysis.dumps.across_processes import AcrossProcesses, SharedProgram
    from hlo_lens.analysis.program_diff.difference import ProgramDiff
    from hlo_lens.analysis.program_diff.edits import Edit
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.module import HloModule

_LINE = 80
_VALUE = 60
_MOST_DIFFED = 100_000
"""Instructions of the largest program that is matched instruction by instruction."""


def difference_lines(across: AcrossProcesses, modules: Sequence[ModuleDump]) -> tuple[str, ...]:
    """Return where the first program that is not the same in all processes differs first.

    Args:
        across: The programs.
        modules: The modules, in the order of the facts that they were compared by.
    """
    odd = next((p for p in across.programs if p.modules), None)
    if odd is None or odd.modules is None:
        return ()
    ours, theirs = (modules[k].hlo for k in odd.modules)
    if ours is None or theirs is None:
        return ()
    return tuple(_lines(odd, ours, theirs))


def _lines(odd: SharedProgram, ours: HloModule, theirs: HloModule) -> Iterator[str]:
    names = odd.processes[0], odd.odd or ""
    start = f"{odd.name}: {names[0]} and {names[1]} differ first"
    if odd.verdict == SAME_BUT_NAMES:
        yield from _in_text(f"{start} in what things are called,", names, ours, theirs)
    elif max(ours.instruction_count, theirs.instruction_count) > _MOST_DIFFED:
        yield from _in_text(start, names, ours, theirs)
    else:
        from hlo_lens.analysis.program_diff.difference import program_diff

        found = program_diff(ours, theirs)
        words = _first(found, names)
        if words is None:
            noise = " and ".join(kind.meaning for kind in found.ignored) or "the text alone"
            yield from _in_text(f"{start} in {noise},", names, ours, theirs)
        else:
            yield f"{start} {words}"
            yield f"  in all: {_counts(found, ours.instruction_count)}"


def _first(found: ProgramDiff, names: tuple[str, str]) -> str | None:
    """Return the first difference in words; None where there is none but order and the like."""
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
        return f"at {_named(edit.base)}: it stands in {places}"
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
    """Return two texts cut to where they differ."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(base, head, strict=False)))
    start = max(0, same - _VALUE // 2) if max(len(base), len(head)) > _VALUE else 0
    lead = "..." if start else ""
    return lead + _cut(base[start:]), lead + _cut(head[start:])


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}..."


def _counts(found: ProgramDiff, whole: int) -> str:
    """Return how many instructions differ, whatever they are called and in whatever order."""
    counts = {
        "changed": found.changed,
        "added": found.added,
        "removed": found.removed,
        "moved": found.moved,
    }
    texts = [f"{format_count(count)} {word}" for word, count in counts.items() if count]
    return f"{', '.join(texts) or 'none'} of {plural(whole, 'instruction')}"


def _in_text(
    start: str, names: tuple[str, str], ours: HloModule, theirs: HloModule
) -> Iterator[str]:
    """Yield the first lines of two texts that are not the same."""
    found = first_difference(ours, theirs, up_to_names=False)
    if found is None:
        return
    place = next((line.place for line in found if line is not None), "")
    yield f"{start} at {place}:"
    texts = ["the module ends" if line is None else line.exact for line in found]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    begin = max(0, same - _LINE // 2)
    for process, text in zip(names, texts, strict=True):
        lead = f"{text[: _LINE // 4]}..." if begin > _LINE // 4 else text[:begin]
        rest = text[begin:]
        yield f"  {process}: {lead}{rest[:_LINE]}{'...' * (len(rest) > _LINE)}"
