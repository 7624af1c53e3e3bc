"""A compile judged by rules, against a baseline or by itself."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from hlo_lens.analysis.gate.budget import default_rules, read_budget, short_rule
from hlo_lens.analysis.gate.judge import Candidate, Judgement, Sides, judge
from hlo_lens.api.changes import Diff, diff_sides
from hlo_lens.api.sides import LoadedSide, fingerprint_of, load_side, load_sides
from hlo_lens.load import read_source
from hlo_lens.text.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from hlo_lens.analysis.gate.budget import Rule
    from hlo_lens.api.sides import Progress, Side, SideModule

_SUBJECTS = ("memory", "collectives", "sharding")
"""What rules are explained by; instructions are in no rule's explanation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What became of rules.

    Attributes:
        judgement: Verdict on each rule and module.
        diff: What changed; None without a baseline.
        head: What was judged.
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
        head: What is judged: a path, a `Dump` or a `Snapshot`.
        baseline: What it is compared with.
        budget: Path of a budget file; without it and without rules nothing may grow.
        rules: Further rules in short, such as ``memory.temp_bytes>+2%``.
        pattern: Modules in whose names this is found; None for all.
        force: Compare what cannot be compared.
        progress: Called with modules done and modules in all.

    Raises:
        UnreadableError: If a path cannot be read.
        DumpSyntaxError: If a dump cannot be parsed.
        UsageError: If a rule makes no sense, or there is nothing to judge by.
    """
    given = [] if budget is None else [*read_budget(read_source(budget).text, budget)]
    given += [short_rule(rule) for rule in rules]
    if not given:
        if baseline is None:
            message = "nothing to judge by: give --budget FILE, --baseline FILE or both"
            raise UsageError(message)
        given = [*default_rules()]
    if baseline is None:
        side = load_side(head, progress=progress).selected(pattern)
        if pattern is not None and not side.modules:
            message = f"no module matches {pattern.pattern!r}"
            raise UnknownNameError(message)
        return judge_sides(given, side, None, is_forced=force)
    base, side = load_sides(baseline, head, pattern=pattern, progress=progress, with_programs=False)
    compared = diff_sides(base, side, only=_SUBJECTS, is_forced=force)
    return judge_sides(given, side, compared, is_forced=force)


def judge_sides(
    rules: Sequence[Rule], head: LoadedSide, diff: Diff | None, *, is_forced: bool
) -> Checked:
    """Return what became of rules on the modules of a head that has been read."""
    if diff is None:
        alone = [
            Candidate(head=module.snapshot, place=place)
            for place, module in enumerate(head.modules)
        ]
        judgement = judge(rules, Sides(candidates=alone, has_baseline=False))
        return Checked(judgement=judgement, diff=None, head=head)
    partners = {
        other: (one, found) for (one, other), found in zip(diff.places, diff.modules, strict=True)
    }
    candidates: list[Candidate] = []
    copies = set(diff.copies[1])  # their programs are judged where they are paired
    for place, module in enumerate(head.modules):
        if place in copies:
            continue
        candidate = Candidate(head=module.snapshot, place=place)
        if place in partners:
            one, found = partners[place]
            base = diff.base.modules[one]
            candidate = dataclasses.replace(
                candidate,
                diff=found,
                is_same_program=cache(partial(_is_same_program, base, module)),
            )
        candidates.append(candidate)
    sides = Sides(
        candidates=candidates,
        has_baseline=True,
        gone=[module.name for module in diff.removed],
        is_forced=is_forced,
    )
    return Checked(judgement=judge(rules, sides), diff=diff, head=head)


def _is_same_program(base: SideModule, head: SideModule) -> bool:
    one = fingerprint_of(base)
    return one is not None and one == fingerprint_of(head)
