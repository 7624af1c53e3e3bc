"""What ``diff`` and ``check`` do alike: compare, judge, and leave with the right exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hlo_lens.analysis.gate.budget import short_rule
from hlo_lens.api.changes import diff_sides, estimate_limit
from hlo_lens.api.check import Checked, judge_sides
from hlo_lens.api.sides import load_sides
from hlo_lens.cli import exit_codes
from hlo_lens.report.comparison.github_notes import check_annotations, diff_annotations
from hlo_lens.report.comparison.page import diff_report, listed_names
from hlo_lens.report.comparison.verdicts import check_report, label_of
from hlo_lens.report.render.table import Report

NOTHING_DECIDED = "no rule could be decided, not even an informational one"

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.api.changes import Diff
    from hlo_lens.report.render.to_github import Annotation


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two sides compared.

    Attributes:
        paths: What the user called them.
        diff: What changed.
        checked: What became of rules; None where there are none.
    """

    paths: tuple[str, str]
    diff: Diff
    checked: Checked | None

    def report(self) -> Report:
        """Return the report, with the rules before all else."""
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
        """Return rules that failed, then what got worse."""
        judged = [] if self.checked is None else check_annotations(self.checked.judgement)
        return [*judged, *diff_annotations(self.diff)]


def compare_paths(
    paths: tuple[str, str],
    *,
    pattern: re.Pattern[str] | None,
    only: str,
    heed: str,
    rules: Sequence[str],
    is_forced: bool,
    progress: Callable[[int, int], None] | None,
) -> Compared:
    """Return two paths compared, and judged where there are rules."""
    parsed = [short_rule(rule) for rule in rules]
    subjects = _words(only)
    limit = None if parsed else estimate_limit(subjects)  # a rule may be about memory
    base, head = load_sides(*paths, pattern=pattern, progress=progress, most_estimated=limit)
    diff = diff_sides(base, head, only=subjects, heed=_words(heed), is_forced=is_forced)
    checked = judge_sides(parsed, head, diff, is_forced=is_forced) if parsed else None
    return Compared(paths=paths, diff=diff, checked=checked)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)


def finish(checked: Checked | None, diff: Diff | None = None) -> None:
    """Leave with the exit code of a judgement: 1 for a failed rule, 4 for one nobody can decide.

    Args:
        checked: What became of rules, if there are any.
        diff: What must not have changed, if anything must not.
    """
    is_changed = diff is not None and not diff.identical
    code = exit_codes.DONE
    if is_changed or (checked is not None and checked.judgement.is_failed):
        code = exit_codes.RULE_FAILED
    else:
        for text in (*_unknown(diff), *_undecided(checked)):
            code = exit_codes.UNPARSABLE
            click.echo(f"hlo-lens: error: {text}", err=True)
    click.get_current_context().exit(code)


def _unknown(diff: Diff | None) -> Iterator[str]:
    """Yield of which modules it is not known whether they changed."""
    for name, subjects in ({} if diff is None else diff.unknown).items():
        yield f"{name}: whether it changed is not known: {', '.join(subjects)}"


def _undecided(checked: Checked | None) -> Iterator[str]:
    """Yield the rules that cannot be decided, and why."""
    if checked is None or not checked.judgement.is_undecided:
        return
    undecided = [one for one in checked.judgement.verdicts if one.is_undecided]
    for verdict in undecided:
        where = f" of {verdict.module}" if verdict.module else ""
        text = f"{label_of(verdict)}{where} cannot be decided: {verdict.reason}"
        yield f"{verdict.rule.place}: {text}"
    if not undecided:
        yield NOTHING_DECIDED


def check_facts(
    checked: Checked, *, head: str, baseline: str | None, budget: str | None
) -> list[tuple[str, str]]:
    """Return what was judged by what, and what else changed that may be the cause."""
    facts = [("head", head)]
    facts += [("baseline", baseline)] if baseline is not None else []
    facts += [("budget", budget)] if budget is not None else []
    modules = () if checked.diff is None else checked.diff.modules
    for label in ("toolchain", "note"):
        texts = dict.fromkeys(str(getattr(m, label)) for m in modules if getattr(m, label))
        facts += [("pair" if label == "note" else label, text) for text in texts]
    apart = dict.fromkeys("; ".join(m.differences) for m in modules if m.differences)
    facts += [("incomparable", text) for text in apart]
    if checked.diff is not None:
        alone = (("only in baseline", checked.diff.removed), ("only in head", checked.diff.added))
        facts += [(label, listed_names(found)) for label, found in alone if found]
    return facts
