"""Judgement of a compile by rules, against a baseline or by itself; two compiles compared."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from hlo_lens.questions.check.judge import FAIL, Candidate, Judgement, Sides, judge
from hlo_lens.questions.check.metric import ROOT as FINDINGS
from hlo_lens.questions.check.page import cause_annotations, check_annotations, check_report
from hlo_lens.questions.check.rules import Rule, short_rule
from hlo_lens.questions.diff.dump_diff import Diff, diff_sides
from hlo_lens.questions.diff.module_diff import SUBJECTS
from hlo_lens.questions.diff.page import MOST_CAUSES, cause_text, listed_names
from hlo_lens.questions.diff.sides import LoadedSide, SideModule, fingerprint_of, load_sides
from hlo_lens.text.names import shell_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.diff.causes import Cause
    from hlo_lens.render.table import Report
    from hlo_lens.render.to_markdown import Annotation
    from hlo_lens.text.names import NamePattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Verdicts of rules on a compile, with its changes against the baseline, if there is one.

    `budget` is the path of the budget file, `rules` are further ones in short. `causes` are those
    of the changes of modules with failures, by the place in the head.
    """

    judgement: Judgement
    diff: Diff | None
    head: LoadedSide
    budget: str | None = None
    is_forced: bool = False
    rules: tuple[str, ...] = ()
    causes: Mapping[int, tuple[Cause, ...]] = dataclasses.field(default_factory=dict)

    def report(self) -> Report:
        return dataclasses.replace(self.verdicts([*self._facts()]), subject=self)

    def verdicts(self, facts: Sequence[tuple[str, str]] = ()) -> Report:
        """Return the report on the verdicts alone, below some facts."""
        dumps = {
            place: f"{shell_word(one.dump.path)} {one.dump.module_option}".rstrip()
            for place, one in enumerate(self.head.modules)
            if one.dump is not None and one.dump.path
        }
        base = "" if self.diff is None else self.diff.base.source
        return check_report(self.judgement, facts, dumps=dumps, base=base, causes=self.causes)

    @property
    def command(self) -> str:
        """Command that prints the verdicts."""
        baseline = None if self.diff is None else self.diff.base.path
        options = [("--baseline", baseline), ("--budget", self.budget)]
        options += [("--fail-on", rule) for rule in self.rules]
        given = (f"{name} {shell_word(value)}" for name, value in options if value)
        return " ".join(("hlo-lens check", shell_word(self.head.path or "PATH"), *given))

    def annotations(self) -> list[Annotation]:
        return check_annotations(self.judgement, self.causes, self._diff_command)

    def _facts(self) -> Iterator[tuple[str, str]]:
        diff, rules = self.diff, [verdict.rule for verdict in self.judgement.verdicts]
        baseline, budget = None if diff is None else diff.base.path, self.budget
        if budget is not None and not any(rule.place.startswith(budget) for rule in rules):
            budget = f"{budget}: no rule in it"
        facts = [("head", self.head.path), ("baseline", baseline), ("budget", budget)]
        facts.append(("module", self.head.note))
        # findings of a snapshot are as saved
        if not self.head.is_snapshot and any(rule.metric.root == FINDINGS for rule in rules):
            from hlo_lens.questions.findings.settings import settings_text

            facts.append(("lint", settings_text()))
        if diff is not None:
            facts += [("toolchain", one.toolchain) for one in diff.modules]
            facts += [("pair", one.note) for one in diff.modules]
            facts += [("incomparable", "; ".join(one.differences)) for one in diff.modules]
            facts += [("only in baseline", listed_names(diff.removed) if diff.removed else "")]
            facts += [("only in head", listed_names(diff.added) if diff.added else "")]
        if diff is not None and self.judgement.is_failed:
            for place, causes in self.causes.items():
                name = self.head.modules[place].snapshot.name
                of = f" ({name})" if len(diff.modules) > 1 else ""
                facts += [("cause", f"{cause_text(one)}{of}") for one in causes[:MOST_CAUSES]]
            if any(one.program_problem for one in diff.modules):
                problems = dict.fromkeys(one.program_problem for one in diff.modules)
                basis = "; ".join(filter(None, problems))
                text = f"causes of arguments and donations only: no program of {basis}"
                facts.append(("basis", text))
            facts.append(("next", self._diff_command))
        yield from ((label, text) for label, text in dict.fromkeys(facts) if text)

    @property
    def _diff_command(self) -> str:
        """Command that compares the sides, or the only module that failed; empty without paths."""
        base, head = "" if self.diff is None else self.diff.base.source, self.head.source
        if not base or not head:
            return ""
        failed = {verdict.place for verdict in self.judgement.verdicts if verdict.is_failure}
        dumps = [self.head.modules[place].dump for place in failed if place is not None]
        options = [dump.module_option for dump in dumps if dump is not None and len(failed) == 1]
        words = ("hlo-lens diff", shell_word(base), shell_word(head), *options)
        return " ".join(filter(None, words))


def judge_sides(
    rules: Sequence[Rule], head: LoadedSide, diff: Diff | None, *, is_forced: bool
) -> Checked:
    """Return the verdicts of rules on the modules of a side."""
    candidates = [Candidate(head=m.snapshot, place=place) for place, m in enumerate(head.modules)]
    copies = head.copies() if diff is None else diff.copies[1]  # their programs are judged once
    if diff is not None:
        for (one, other), pair in zip(diff.places, diff.modules, strict=True):
            modules = diff.base.modules[one], head.modules[other]
            same = cache(partial(_is_same_program, *modules))
            candidates[other] = Candidate(
                head=modules[1].snapshot, place=other, diff=pair, is_same_program=same
            )
    sides = Sides(
        candidates=[candidate for candidate in candidates if candidate.place not in copies],
        has_baseline=diff is not None,
        gone=[] if diff is None else [module.name for module in diff.removed],
        is_forced=is_forced,
    )
    judgement = judge(rules, sides)
    causes = {} if diff is None else _failure_causes(judgement, diff, is_forced=is_forced)
    return Checked(judgement=judgement, diff=diff, head=head, is_forced=is_forced, causes=causes)


def _is_same_program(base: SideModule, head: SideModule) -> bool:
    one = fingerprint_of(base)
    return one is not None and one == fingerprint_of(head)


def _failure_causes(
    judgement: Judgement, diff: Diff, *, is_forced: bool
) -> dict[int, tuple[Cause, ...]]:
    """Return the causes of the changes of modules with failed rules.

    With the programs, where both sides have them: rules need none.
    """
    failed = {verdict.place for verdict in judgement.verdicts if verdict.status == FAIL}
    found: dict[int, tuple[Cause, ...]] = {}
    for (one, other), module in zip(diff.places, diff.modules, strict=True):
        lines = module.lines
        if other in failed and lines is None:
            pair = diff.base.with_only(one), diff.head.with_only(other)
            whole = diff_sides(*pair, is_forced=is_forced).modules
            lines = whole[0].lines if whole else None
        if other in failed and lines is not None and lines.causes:
            found[other] = lines.causes
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two compiles compared, and judged by rules if there are any."""

    diff: Diff
    checked: Checked | None

    def report(self, *, by: str | None = None) -> Report:
        """Return the report, the verdicts first."""
        report = self.diff.report(by=by)
        if self.checked is None:
            return report
        judged = self.checked.verdicts()
        return dataclasses.replace(
            report,
            sections=(*judged.sections, *report.sections),
            data={**report.data, "rules": judged.data["rules"]},
        )

    def annotations(self) -> list[Annotation]:
        """Return the notes on failed rules, then on causes that cost memory or bytes sent."""
        judged = [] if self.checked is None else self.checked.annotations()
        return [*judged, *cause_annotations(self.diff)]


def compare(
    base: str,
    head: str,
    *,
    pattern: NamePattern | None = None,
    only: Sequence[str] = SUBJECTS,
    heed: Sequence[str] = (),
    rules: Sequence[str] = (),
    force: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two paths and judge the differences by rules."""
    parsed = [short_rule(rule) for rule in rules]
    is_limited = "program" in only and not parsed  # a rule may be about memory
    one, other = load_sides(
        base, head, pattern=pattern, progress=progress, limits_estimate=is_limited
    )
    diff = diff_sides(one, other, only=only, heed=heed, is_forced=force)
    checked = judge_sides(parsed, other, diff, is_forced=force) if parsed else None
    return Comparison(diff=diff, checked=checked)
