"""Judgement of a compile by rules, against a baseline or by itself."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from hlo_lens.analysis.gate.budget import read_budget
from hlo_lens.analysis.gate.judge import Candidate, Judgement, Sides, judge
from hlo_lens.analysis.gate.rules import default_rules, short_rule
from hlo_lens.api.changes import Diff, diff_sides
from hlo_lens.api.sides import LoadedSide, fingerprint_of, load_side, load_sides
from hlo_lens.load import read_source
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from hlo_lens.analysis.gate.rules import Rule
    from hlo_lens.api.modules import Progress
    from hlo_lens.api.sides import Side, SideModule

_SUBJECTS = ("memory", "collectives", "sharding")
"""Subjects that contributors to failures come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Verdicts of rules on a compile.

    Attributes:
        judgement: Verdict of each rule on each module.
        diff: Changes against the baseline; None without one.
        head: The compile.
    """

    judgement: Judgement
    diff: Diff | None
    head: LoadedSide


def check(
    head: Side,
    *,
    baseline: Side | None = None,
    budget: str | None = None,
    rules: Sequence[str] = (),
    pattern: re.Pattern[str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Checked:
    """Judge a compile.

    Args:
        head: The compile: a path, a program, a `Dump` or a `Snapshot`.
        baseline: The compile to compare with.
        budget: Path of a budget file; without it and without rules nothing may grow.
        rules: Further rules in short, such as ``memory.temp_bytes>+2%``.
        pattern: Modules in whose names this is found; None for all.
        force: Compare sides that cannot be compared, too.
        progress: Called with modules done and modules in all.

    Raises:
        UnreadableError: If a path cannot be read.
        DumpSyntaxError: If a dump cannot be parsed.
        UsageError: If a rule is not understood, or there is none.
    """
    given = [] if budget is None else [*read_budget(read_source(budget).text, budget)]
    given += [short_rule(rule) for rule in rules]
    if not given:
        if baseline is None:
            message = "nothing to judge by: give --budget FILE, --baseline FILE or both"
            raise UsageError(message)
        given = [*default_rules()]
    if baseline is None:
        side = load_side(head, pattern=pattern, progress=progress)
        return judge_sides(given, side, None, is_forced=force)
    base, side = load_sides(baseline, head, pattern=pattern, progress=progress, with_programs=False)
    compared = diff_sides(base, side, only=_SUBJECTS, is_forced=force)
    return judge_sides(given, side, compared, is_forced=force)


def judge_sides(
    rules: Sequence[Rule], head: LoadedSide, diff: Diff | None, *, is_forced: bool
) -> Checked:
    """Return the verdicts of rules on the modules of a side."""
    candidates = [Candidate(head=m.snapshot, place=place) for place, m in enumerate(head.modules)]
    if diff is None:
        judgement = judge(rules, Sides(candidates=candidates, has_baseline=False))
        return Checked(judgement=judgement, diff=None, head=head)
    for (one, other), found in zip(diff.places, diff.modules, strict=True):
        pair = diff.base.modules[one], head.modules[other]
        candidates[other] = dataclasses.replace(
            candidates[other], diff=found, is_same_program=cache(partial(_is_same_program, *pair))
        )
    copies = set(diff.copies[1])  # their programs are judged where they are paired
    sides = Sides(
        candidates=[candidate for candidate in candidates if candidate.place not in copies],
        has_baseline=True,
        gone=[module.name for module in diff.removed],
        is_forced=is_forced,
    )
    return Checked(judgement=judge(rules, sides), diff=diff, head=head)


def _is_same_program(base: SideModule, head: SideModule) -> bool:
    one = fingerprint_of(base)
    return one is not None and one == fingerprint_of(head)
