"""Value of a rule's metric in a module: estimates and bounds, outdated and weak figures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.questions.check.finding_counts import (
    ROOT as FINDINGS,
    counts_changes,
    finding_count,
    undecided_text,
)
from hlo_lens.questions.check.steps import Value
from hlo_lens.questions.memory.statement import memory_amount, most_temp_bytes
from hlo_lens.text.amount import Kind

if TYPE_CHECKING:
    from hlo_lens.program.summary import Coverage
    from hlo_lens.questions.check.rules import Rule
    from hlo_lens.questions.snapshots.facts import MemoryFacts, ModuleFacts
    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot


def rule_value(rule: Rule, module: ModuleSnapshot, partner: ModuleSnapshot | None = None) -> Value:
    """Return the value of a rule's metric, unknown if a snapshot lacks its present meaning.

    Args:
        rule: The rule.
        module: The module.
        partner: Its partner in the baseline, for counts of new findings.
    """
    base = partner if counts_changes(rule.metric.steps) else None
    outdated = _outdated(rule, module) or ("" if base is None else _outdated(rule, base))
    if outdated:
        return Value(number=None, reason=outdated)
    if rule.metric.root == FINDINGS:
        return finding_count(rule.metric.steps, module.facts, None if base is None else base.facts)
    return _marked(rule.metric.value(module.facts), rule, module.facts)


def _outdated(rule: Rule, module: ModuleSnapshot) -> str:
    """Return why the figure of a rule's metric is outdated in a snapshot; empty if it is not."""
    path = f"{rule.metric.field_path(module.facts)}." if module.outdated else ""
    outdated = next((name for name in module.outdated if path.startswith(f"{name}.")), None)
    if outdated is None:
        return ""
    return (
        f"the snapshot was saved by a version without {outdated}, or with another definition of "
        "it: save it again"
    )


def _marked(value: Value, rule: Rule, facts: ModuleFacts) -> Value:
    """Return a value, marked if it is a figure of memory that is an estimate or a bound."""
    memory, number = facts.memory, value.number
    if memory is None or number is None or rule.metric.root != "memory":
        return value
    path = rule.metric.field_path(facts)
    if not rule.metric.is_bytes or path.startswith("memory.memory_analysis"):
        return value
    if memory.source != "estimate" and path != "memory.temp_bytes":
        return value
    figure = path.rpartition(".")[2].removesuffix("_bytes")
    amount = memory_amount(memory, figure, int(number), memory.memory_analysis)
    end = most_temp_bytes(memory) if amount.kind is Kind.AT_LEAST else None
    return replace(value, kind=amount.kind, end=end)


def weakness(rule: Rule, facts: ModuleFacts) -> str:
    """Return why a known value cannot be relied on; empty if it can."""
    root = rule.metric.root
    if root == "coverage":
        return ""
    if root == "memory" and facts.memory is not None:
        return _memory_weakness(facts.memory, facts.coverage)
    gaps = "" if facts.coverage is None else facts.coverage.problem
    if gaps or root == FINDINGS:
        return gaps or undecided_text(rule.metric.steps, facts)
    if root != "collectives" or facts.collectives is None:
        return ""
    unknown = facts.collectives.unknown_opcodes
    names = ", ".join(sorted(unknown))
    return (
        f"opcodes named like collectives are not known, and not counted: {names}" if names else ""
    )


def _memory_weakness(memory: MemoryFacts, coverage: Coverage | None) -> str:
    if not memory.is_complete:
        return "the buffer texts are not complete"
    if memory.source == "estimate" and coverage is not None and coverage.problem:
        return coverage.problem
    return ""
