"""Counts of findings, for rules.

    findings.M001      findings of a rule; findings.M of all rules whose codes begin so
    findings.warning   findings of a severity
    findings.all       all findings
    findings.new       findings that the baseline lacks, findings.gone those that only it has

Suppressed findings do not count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.questions.check.steps import Step, Value
from hlo_lens.questions.findings.changes import module_finding_changes
from hlo_lens.questions.findings.registry import all_rules
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.snapshots.facts import ModuleFacts

ROOT = "findings"
_SEVERITIES = ("error", "warning", "info")
_CODE = re.compile(r"[A-Z]\d{0,3}")
_NEW = "new"
_CHANGES = (_NEW, "gone")
_SHOWN = 3


def counts_new(steps: Sequence[Step]) -> bool:
    """Return whether a metric counts findings that the baseline lacks."""
    return counts_changes(steps) and steps[-1].name == _NEW


def counts_changes(steps: Sequence[Step]) -> bool:
    """Return whether a metric counts findings of one side alone."""
    return steps[0].name == ROOT and steps[-1].name in _CHANGES


def undecided_text(steps: Sequence[Step], facts: ModuleFacts) -> str:
    """Return which rules that a metric counts are undecided, and why; empty if none is."""
    name = steps[1].name if len(steps) == 2 else ""
    codes = [one for one in facts.undecided if not _CODE.fullmatch(name) or one.startswith(name)]
    return f"{listed(codes, _SHOWN)} not decided: {facts.undecided[codes[0]]}" if codes else ""


def finding_count(
    steps: Sequence[Step], facts: ModuleFacts, base: ModuleFacts | None = None
) -> Value:
    """Return the number of findings that a metric counts.

    Args:
        steps: Its path: ``findings``, and what is counted.
        facts: The module.
        base: Its partner in the baseline, for ``findings.new`` and ``findings.gone``.
    """
    found = counted_findings(steps, facts, base)
    if found is not None:
        return Value(number=len(found))
    name = _name(steps)
    if facts.findings is None:
        return Value(number=None, reason="findings are not known: no HLO text")
    if name in _CHANGES:
        return Value(number=None, reason=f"findings.{name} needs a baseline with findings")
    names = "new, gone, all, error, warning, info, or a code such as M001"
    return Value(number=None, reason=f"findings has no {name!r}; there is {names}")


def counted_findings(
    steps: Sequence[Step], facts: ModuleFacts, base: ModuleFacts | None = None
) -> tuple[Finding, ...] | None:
    """Return the findings that a metric counts, most saving first; None if they are not known.

    Args:
        steps: Its path.
        facts: The module.
        base: Its partner in the baseline, for ``findings.new`` and ``findings.gone``.
    """
    name = _name(steps)
    if facts.findings is None:
        return None
    if name in _CHANGES:
        changes = None if base is None else module_finding_changes(base, facts)
        if changes is None:
            return None
        return changes.new if name == _NEW else changes.gone
    counted = tuple(one for one in facts.findings if not one.suppressed)
    if name in ("", "all"):
        return counted
    if name in _SEVERITIES:
        return tuple(one for one in counted if one.severity == name)
    if any(rule.code.startswith(name) for rule in all_rules()):
        return tuple(one for one in counted if one.code.startswith(name))
    return None


def new_among(
    found: tuple[Finding, ...], facts: ModuleFacts, base: ModuleFacts
) -> tuple[Finding, ...]:
    """Return those of some findings of a module that its partner in the baseline lacks."""
    changes = module_finding_changes(base, facts)
    new = set() if changes is None else {id(one) for one in changes.new}
    return tuple(one for one in found if id(one) in new)


def _name(steps: Sequence[Step]) -> str:
    """Return what a metric counts: the last step, if it has no selectors."""
    return steps[1].name if len(steps) == 2 and not steps[1].selectors else ""
