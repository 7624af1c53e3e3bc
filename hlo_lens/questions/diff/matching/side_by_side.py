"""Matched computations line by line: each instruction of the base next to its partner in the head.

Only computations with an edit are listed, and of these the edited lines with a few around them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.questions.diff.matching.edits import Added, Changed, Moved, Removed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.matching.difference import ProgramDiff
    from hlo_lens.questions.diff.matching.edits import Edit

CONTEXT = 2
"""Unedited lines that are kept before and after an edited one."""

_KINDS = {Added: "added", Removed: "removed", Changed: "changed", Moved: "moved"}


class Line(NamedTuple):
    """A line of two computations.

    Attributes:
        kind: ``same``, ``changed``, ``added``, ``removed``, ``moved``, or ``left out``.
        base: Row of the base; None for none. Of ``left out`` the number of lines.
        head: Row of the head; None for none.
    """

    kind: str
    base: int | None
    head: int | None


class ComputationPair(NamedTuple):
    """A computation of the base and the one that it matches in the head; empty for none."""

    base: str
    head: str
    lines: tuple[Line, ...]


def side_by_side(diff: ProgramDiff, base: HloModule, head: HloModule) -> list[ComputationPair]:
    """Return the computations with edits, in text order of the head, then those of the base alone.

    Args:
        diff: Changes between both programs.
        base: The program before.
        head: The program after.
    """
    kinds = _edit_kinds(diff.edits)
    partner_of = {yours: mine for mine, yours in diff.matched_computations.items()}
    names = [(partner_of.get(name, ""), name) for name in head.computation_names]
    names += [
        (name, "") for name in base.computation_names if name not in diff.matched_computations
    ]
    heads = diff.matched.rows
    found = []
    for mine, yours in names:
        rows = _rows(base, mine), _rows(head, yours)
        if not any((side, row) in kinds for side in (0, 1) for row in rows[side]):
            continue
        lines = _lines(*rows, heads, kinds)
        found.append(ComputationPair(mine, yours, tuple(_shortened(lines))))
    return found


def _edit_kinds(edits: Sequence[Edit]) -> dict[tuple[int, int], str]:
    """Return side (0 base, 1 head) and row of each edited instruction, with its kind."""
    found = {}
    for edit in edits:
        for side, one in enumerate((getattr(edit, "base", None), getattr(edit, "head", None))):
            if one is not None:
                found[side, one.row] = _KINDS[type(edit)]
    return found


def _rows(module: HloModule, name: str) -> Sequence[int]:
    computation = module.computation(name) if name else None
    return () if computation is None else computation.rows


def _lines(
    base: Sequence[int],
    head: Sequence[int],
    heads: Mapping[int, int],
    kinds: Mapping[tuple[int, int], str],
) -> list[Line]:
    """Return the lines: of partners at the place in the head, others where their text has them."""
    here = set(head)
    bases = {heads[row]: row for row in base if heads.get(row) in here}
    alone = iter([(k, row) for k, row in enumerate(base) if heads.get(row) not in here])
    place = {row: k for k, row in enumerate(base)}
    waiting = next(alone, None)
    found = []
    for row in head:
        partner = bases.get(row)
        while waiting is not None and partner is not None and waiting[0] < place[partner]:
            found.append(Line(kinds.get((0, waiting[1]), "removed"), waiting[1], None))
            waiting = next(alone, None)
        default = "added" if partner is None else "same"
        found.append(Line(kinds.get((1, row), default), partner, row))
    while waiting is not None:
        found.append(Line(kinds.get((0, waiting[1]), "removed"), waiting[1], None))
        waiting = next(alone, None)
    return found


def _shortened(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the edited lines with those around them, and the number of lines left out between."""
    edited = [k for k, line in enumerate(lines) if line.kind != "same"]
    kept = {
        k for at in edited for k in range(at - CONTEXT, at + CONTEXT + 1) if 0 <= k < len(lines)
    }
    skipped = 0
    for k, line in enumerate(lines):
        if k in kept:
            if skipped:
                yield Line("left out", skipped, None)
            skipped = 0
            yield line
        else:
            skipped += 1
    if skipped:
        yield Line("left out", skipped, None)
