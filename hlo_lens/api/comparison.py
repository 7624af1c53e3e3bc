"""Comparisons and verdicts on paths, as the commands ``diff`` and ``check`` print them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.module_diff import SUBJECTS
from hlo_lens.analysis.gate.rules import short_rule
from hlo_lens.api.changes import diff_sides
from hlo_lens.api.check import Checked, check, judge_sides
from hlo_lens.api.sides import load_sides
from hlo_lens.report.comparison.github_notes import check_annotations, diff_annotations
from hlo_lens.report.comparison.page import diff_report, listed_names
from hlo_lens.report.comparison.verdicts import check_report
from hlo_lens.report.render.table import Report

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping, Sequence

    from hlo_lens.api.changes import Diff
    from hlo_lens.api.modules import Progress
    from hlo_lens.report.render.to_github import Annotation


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two compiles compared, and judged by rules if there are any.

    Attributes:
        paths: Names of both, as the user wrote them.
        diff: Differences.
        checked: Verdicts on the rules; None without rules.
    """

    paths: tuple[str, str]
    diff: Diff
    checked: Checked | None

    def report(self) -> Report:
        """Return the report, the verdicts first."""
        report = diff_report(self.diff, self.paths)
        if self.checked is None:
            return report
        judged = check_report(self.checked.judgement)
        return Report(
            kind=report.kind,
            sections=(*judged.sections, *report.sections),
            data={**report.data, "rules": judged.data["rules"]},
            most_characters=report.most_characters,
        )

    def annotations(self) -> list[Annotation]:
        """Return the notes on failed rules, then on what got worse."""
        judged = [] if self.checked is None else check_annotations(self.checked.judgement)
        return [*judged, *diff_annotations(self.diff)]


def compare(
    base: str,
    head: str,
    *,
    pattern: re.Pattern[str] | None = None,
    only: Sequence[str] = SUBJECTS,
    heed: Sequence[str] = (),
    rules: Sequence[str] = (),
    force: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two paths and judge the differences by rules.

    Args:
        base: Path before.
        head: Path after.
        pattern: Modules to compare, by their names; None for all.
        only: Subjects to compare: ``memory``, ``collectives``, ``sharding``, ``program``.
        heed: Noise kinds to report as changes, such as ``names``.
        rules: Rules in short, such as ``memory.temp_bytes>+2%``.
        force: Compare an estimate of memory with what XLA assigned, too.
        progress: Called with modules done and modules in all.
    """
    parsed = [short_rule(rule) for rule in rules]
    is_limited = "program" in only and not parsed  # a rule may be about memory
    one, other = load_sides(
        base, head, pattern=pattern, progress=progress, limits_estimate=is_limited
    )
    diff = diff_sides(one, other, only=only, heed=heed, is_forced=force)
    checked = judge_sides(parsed, other, diff, is_forced=force) if parsed else None
    return Comparison(paths=(base, head), diff=diff, checked=checked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A compile judged by rules.

    Attributes:
        paths: Role to path: ``head``, and ``baseline`` and ``budget`` where given.
        checked: Verdicts on the rules.
    """

    paths: Mapping[str, str]
    checked: Checked

    def report(self) -> Report:
        """Return the report."""
        return check_report(self.checked.judgement, self._facts())

    def annotations(self) -> list[Annotation]:
        """Return the notes on failed rules."""
        return check_annotations(self.checked.judgement)

    def _facts(self) -> list[tuple[str, str]]:
        """Return the paths, and differences that may be the cause of a failure."""
        facts, diff = list(self.paths.items()), self.checked.diff
        if diff is None:
            return facts
        for label, name in (("toolchain", "toolchain"), ("pair", "note")):
            texts = dict.fromkeys(str(getattr(m, name)) for m in diff.modules if getattr(m, name))
            facts += [(label, text) for text in texts]
        apart = dict.fromkeys("; ".join(m.differences) for m in diff.modules if m.differences)
        facts += [("incomparable", text) for text in apart]
        alone = (("only in baseline", diff.removed), ("only in head", diff.added))
        return [*facts, *((label, listed_names(found)) for label, found in alone if found)]


def judge(
    head: str,
    *,
    baseline: str | None = None,
    budget: str | None = None,
    rules: Sequence[str] = (),
    pattern: re.Pattern[str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Judged:
    """Judge a path by rules; the arguments are those of `check`."""
    checked = check(
        head,
        baseline=baseline,
        budget=budget,
        rules=rules,
        pattern=pattern,
        force=force,
        progress=progress,
    )
    paths = {"head": head, "baseline": baseline, "budget": budget}
    given = {role: path for role, path in paths.items() if path is not None}
    return Judged(paths=given, checked=checked)
