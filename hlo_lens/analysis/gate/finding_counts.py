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

from hlo_lens.analysis.findings.changes import module_finding_changes
from hlo_lens.analysis.findings.registry import all_rules
from hlo_lens.analysis.gate.steps import Step, Value
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.model.snapshot.facts import ModuleFacts

ROOT = "findings"
_SEVERITIES = ("error", "warning", "info")
_CODE = re.compile(r"[A-Z]\d{0,3}")
_CHANGES = ("new", "gone")
_SHOWN = 3


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
    name = steps[1].name if len(steps) == 2 and not steps[1].selectors else ""
    if facts.findings is None:
        return Value(number=None, reason="findings are not known: no HLO text")
    if name in _CHANGES:
        found = None if base is None else module_finding_changes(base, facts)
        if found is None:
            return Value(number=None, reason=f"findings.{name} needs a baseline with findings")
        return Value(number=len(found.new if name == "new" else found.gone))
    counted = [one for one in facts.findings if not one.suppressed]
    if name in ("", "all"):
        return Value(number=len(counted))
    if name in _SEVERITIES:
        return Value(number=sum(one.severity == name for one in counted))
    if any(rule.code.startswith(name) for rule in all_rules()):
        return Value(number=sum(one.code.startswith(name) for one in counted))
    names = "new, gone, all, error, warning, info, or a code such as M001"
    return Value(number=None, reason=f"findings has no {name!r}; there is {names}")
