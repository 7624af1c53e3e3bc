"""Changes between two compiles.

Modules are paired (`pairs`), their instructions matched (in `questions/matching`), and what differs
is described for each subject: `memory`, `collectives`, `shardings`, the program (`causes`).
Begin to read at `module_diff`. No file here reads a dump but `sides`; `page` computes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.questions.diff.dump_diff import Diff
    from hlo_lens.questions.diff.sides import Side


def diff(
    base: Side,
    head: Side,
    *,
    only: Sequence[str] = ("memory", "collectives", "sharding", "program"),
    heed: Sequence[str] = (),
    force: bool = False,
) -> Diff:
    """Return the changes between two compiles.

    Args:
        base: Before: a path (file, folder or snapshot), a program, a `Dump` or a `Snapshot`.
        head: After.
        only: Subjects to compare: ``memory``, ``collectives``, ``sharding``, ``program``.
        heed: Noise kinds to report as changes, such as ``names``.
        force: Compare an estimate of memory with what XLA assigned, too.

    Raises:
        UnreadableError: If a path cannot be read.
        DumpSyntaxError: If it cannot be parsed, or is a snapshot of a newer version.
        UsageError: If there is no such subject or noise kind.
    """
    from hlo_lens.questions.diff.dump_diff import diff_sides
    from hlo_lens.questions.diff.sides import load_sides

    sides = load_sides(base, head, limits_estimate="program" in only)
    return diff_sides(*sides, only=only, heed=heed, is_forced=force)
