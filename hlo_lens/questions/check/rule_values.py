"""Value of a rule's metric in a module: bounds of an estimate, outdated and weak figures."""

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

if TYPE_CHECKING:
    from hlo_lens.questions.check.rules import Rule
    from hlo_lens.questions.snapshots.facts import CoverageFacts, MemoryFacts, ModuleFacts
    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot

_PEAKS = ("memory.peak.bytes", "memory.spaces.peak_bytes")
_TOTALS = ("total_bytes", "temp_bytes")
_OUTPUTS = ("total_bytes", "output_bytes")
"""Figures of an estimate that are as inexact as its peak, its temporaries and its results."""


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
    return _with_bounds(rule.metric.value(module.facts), rule, module.facts)


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


def _with_bounds(value: Value, rule: Rule, facts: ModuleFacts) -> Value:
    """Return the value of a rule's metric with the bounds of an estimate of memory."""
    memory, number = facts.memory, value.number
    if rule.metric.root != "memory" or memory is None or number is None:
        return value
    if memory.is_exact or memory.range is None:
        return value
    path = rule.metric.field_path(facts)
    least, most = memory.range.temp_bytes
    if path == "memory.temp_bytes":
        return replace(value, least=least, most=most)
    space = next((space for space in memory.spaces if space.color == 0), None)
    if memory.source != "estimate" or space is None:
        return value
    name = path.rpartition(".")[2]
    known = _peak_or_total(memory, path, number, space.peak_bytes)
    if known is not None:
        return replace(value, least=known[0], most=known[1])
    if path.startswith("memory.spaces.") and number != getattr(space, name, None):
        return value
    below = above = 0
    if name in _TOTALS:
        below, above = max(0, memory.temp_bytes - least), max(0, most - memory.temp_bytes)
    if name in _OUTPUTS and memory.range.output_bytes is not None:
        least, most = memory.range.output_bytes
        below, above = below + memory.output_bytes - least, above + most - memory.output_bytes
    if not below and not above:
        return value
    return replace(value, least=max(0, number - below), most=number + above)


def _peak_or_total(
    memory: MemoryFacts, path: str, number: float, peak_bytes: int | None
) -> tuple[int, int] | None:
    """Return the bounds of the peak or of what must fit; None if a path is no such figure.

    Bounds that the figure is outside of are those of another one: somebody edited the snapshot.
    """
    known = None
    if memory.range is None:
        return None
    if path in _PEAKS and number == peak_bytes:
        known = memory.range.peak_bytes
    elif path.endswith(".total_bytes") and number == memory.total_bytes:
        known = memory.range.total_bytes
    return known if known is not None and known[0] <= number <= known[1] else None


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


def _memory_weakness(memory: MemoryFacts, coverage: CoverageFacts | None) -> str:
    if not memory.is_complete:
        return "the buffer texts are not complete"
    if memory.source == "estimate" and coverage is not None and coverage.problem:
        return coverage.problem
    if not memory.is_exact and memory.range is None:
        return "the estimate has no bound"
    return ""
