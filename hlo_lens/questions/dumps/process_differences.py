"""First difference between the programs of two processes, in words, with both values.

The order is: the header, the first instruction of the entry computation that differs, one of
another computation, the first line that differs.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.matching.edits import Added, Edit, Moved, Removed
from hlo_lens.questions.dumps.across_processes import SAME_BUT_NAMES, ProcessDifference
from hlo_lens.text.units import format_count, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.questions.diff.matching.program_diff import ProgramDiff

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
