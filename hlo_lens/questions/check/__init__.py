"""Rules on the figures of a compile, and verdicts on them, against a baseline or by itself.

Begin with `rules` (conditions, and budget files) and `judge` (verdicts). `metric` reads the paths
of rules in the facts of a module, `contributors` names what a failure is made of, `checked` joins
verdicts and two compiles, `page` prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.check.checked import Checked
    from hlo_lens.questions.diff.sides import Side
    from hlo_lens.text.names import NamePattern


def check(
    head: Side,
    *,
    baseline: Side | None = None,
    budget: str | Path | None = None,
    rules: Sequence[str] = (),
    pattern: NamePattern | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Checked:
    """Judge a compile.

    Args:
        head: The compile: a path, a program, a `Dump` or a `Snapshot`.
        baseline: The compile to compare with.
        budget: Path of a budget file; without it and without rules those of `default_rules`.
        rules: Further rules in short, such as ``memory.temp_bytes>+2%``.
        pattern: Modules in whose names this is found; None for all, or for the leading one where
            the others are helpers and no rule names a module.
        force: Compare sides that cannot be compared, too.
        progress: Called with modules done and modules in all.

    Raises:
        UnreadableError: If a path cannot be read.
        DumpSyntaxError: If a dump cannot be parsed.
        UsageError: If a rule is not understood, or there is none.
    """
    import dataclasses

    from hlo_lens.load import read_source
    from hlo_lens.questions.check.checked import judge_sides
    from hlo_lens.questions.check.rules import default_rules, read_budget, short_rule
    from hlo_lens.questions.diff.dump_diff import diff_sides
    from hlo_lens.questions.diff.sides import load_side, load_sides
    from hlo_lens.text.errors import UsageError

    given = [] if budget is None else [*read_budget(read_source(str(budget)).text, str(budget))]
    given += [short_rule(rule) for rule in rules]
    if not given and baseline is None:
        raise UsageError(
            "nothing to judge by: give --budget FILE, --baseline PATH or --fail-on RULE"
            if budget is None
            else f"{budget}: no rule in it: [lint] has settings of hlo-lens lint; add [[budget]] "
            'with metric = "memory.total_bytes" and max = "16GiB", or give --baseline PATH or '
            "--fail-on RULE"
        )
    names_none = pattern is None and all(rule.module is None for rule in given)
    compared = None
    if baseline is None:
        side = load_side(head, pattern=pattern, progress=progress)
        side = side.leading() if names_none else side
    else:
        base, side = load_sides(
            baseline, head, pattern=pattern, progress=progress, with_programs=False
        )
        if names_none and (lead := side.leading()).note:
            base, side = base.named_as(lead), lead
        subjects = ("memory", "collectives", "sharding")  # of contributors to failures
        compared = diff_sides(base, side, only=subjects, is_forced=force)
    checked = judge_sides(given or default_rules(), side, compared, is_forced=force)
    return dataclasses.replace(
        checked, budget=None if budget is None else str(budget), rules=tuple(rules)
    )
