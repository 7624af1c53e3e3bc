"""Findings of all rules about one module, with simulated savings: the same in every output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.analysis.findings.finding import Finding
from hlo_lens.analysis.findings.findings import Findings, judged
from hlo_lens.analysis.findings.registry import all_rules
from hlo_lens.analysis.findings.rule import MEMORY, PEAK, ModuleRule
from hlo_lens.analysis.module_analysis import (
    module_collectives,
    module_flops,
    not_estimated_text,
)
from hlo_lens.text.errors import DumpSyntaxError, MissingDumpError

if TYPE_CHECKING:
    from hlo_lens.analysis.module_analysis import ModuleAnalysis


def module_findings(known: ModuleAnalysis) -> Findings:
    """Return the findings in one module; `ModuleAnalysis.once` keeps them."""
    found = rule_findings(known)
    if not found.findings or known.memory is None:  # which is not simulated
        return found
    from hlo_lens.analysis.findings.simulated import simulated_findings  # imports the simulator

    return simulated_findings(known, found)


def rule_findings(known: ModuleAnalysis) -> Findings:
    """Return the findings as rules yield them: no saving is simulated."""
    if not known.has_hlo:
        return Findings(findings=())
    outcomes = _outcomes(known, is_on_memory=True)  # while a second process makes the others
    outcomes += known.once(other_outcomes)
    found = [one for findings, _ in outcomes for one in findings]
    undecided = sorted(reason for _, reason in outcomes if reason is not None)
    return Findings(findings=judged(found, known), undecided=tuple(undecided))


def begin_findings(known: ModuleAnalysis) -> None:
    """Let a second process make what takes longest of the findings of a large module."""
    known.begin(module_flops, module_collectives, other_outcomes)


Outcome: TypeAlias = tuple[tuple[Finding, ...], tuple[str, str] | None]
"""Findings of a rule; with its code and the reason where it is undecided, if only in part."""


def other_outcomes(known: ModuleAnalysis) -> list[Outcome]:
    """Return the outcomes of the rules that are not on memory."""
    return _outcomes(known, is_on_memory=False)


def _outcomes(known: ModuleAnalysis, *, is_on_memory: bool) -> list[Outcome]:
    rules = (rule for rule in all_rules() if isinstance(rule, ModuleRule))
    return [_outcome(rule, known) for rule in rules if rule.is_on_memory == is_on_memory]


def _outcome(rule: ModuleRule, known: ModuleAnalysis) -> Outcome:
    if rule.needs and (reason := _unknown(known).get(rule.needs)) is not None:
        return (), (rule.code, reason)
    found, undecided = list[Finding](), None
    try:
        for one in rule.find(known):
            found.append(replace(one, code=rule.code, name=rule.name))  # those before an error too
    except (MissingDumpError, DumpSyntaxError) as error:
        undecided = rule.code, str(error)
    return tuple(found), undecided


def _unknown(known: ModuleAnalysis) -> dict[str, str]:
    """Return what is not known of a module that rules need, each with the reason."""
    memory = known.memory
    if memory is None:
        return dict.fromkeys((MEMORY, PEAK), f"memory is not known: {_why(known)}")
    return {} if memory.peak is not None else {PEAK: "the values at the peak are not known"}


def _why(known: ModuleAnalysis) -> str:
    """Return why the memory of a module is not known."""
    if known.is_estimate_left_out:
        dump = known.dump
        return not_estimated_text(len(known.module.columns), dump.path, dump.address)
    from hlo_lens.analysis.memory.estimate import why_no_estimate  # imports the estimate

    return why_no_estimate(known.table) or "the dump has no buffer assignment"
