"""Savings of findings by simulation: the fix made in our assignment of the program's buffers.

Only for changes that can be simulated, of findings that may be warnings, most saving first, within
the limits below, which are those of every output. The others keep their upper bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.findings.finding import Finding, Saves, SavingBasis, Severity
from hlo_lens.questions.findings.findings import WARNING_SHARE, Findings, judged
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.what_if.simulation.simulate import KINDS, simulate
from hlo_lens.questions.what_if.simulation.simulator import Simulator
from hlo_lens.text.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.load.module import ModuleDump

MOST_INSTRUCTIONS = 10_000
"""Instructions of the largest module that is simulated; the first answer takes 0.1 ms for each."""

MOST_WORK = 20_000
"""Most instructions times findings of a module: an answer takes 0.05 ms for each instruction."""

MOST_FINDINGS = 16
"""Findings of a module that are simulated, most saving first."""

TOTAL = "total_bytes"

SIMULATED = "simulated: "
"""Beginning of the evidence of a simulation that leaves a saving an upper bound."""


def simulated_findings(known: ModuleDump, found: Findings) -> Findings:
    """Return findings with simulated savings where that is possible, in their new order."""
    wanted = [one for one in found.findings if _can_be_simulated(one)]
    if not wanted or memory_results(known) is None:
        return found
    count = len(hlo_text(known).columns)
    if count > MOST_INSTRUCTIONS:
        limit = f"{format_count(count)} instructions, more than {format_count(MOST_INSTRUCTIONS)}"
        return replace(found, not_simulated=limit)
    simulator = Simulator(known)
    if simulator.reason:
        return replace(found, not_simulated=simulator.reason)
    chosen = wanted[: max(1, min(MOST_FINDINGS, MOST_WORK // count))]
    changed = {id(one): _simulated(one, simulator) for one in chosen}
    findings = tuple(changed.get(id(one), one) for one in found.findings)
    rest = len(wanted) - len(chosen)
    return replace(
        found,
        findings=judged(findings, known, is_kept=True),
        not_simulated=f"{rest} of {len(wanted)}, those that save least" if rest else "",
    )


def _can_be_simulated(finding: Finding) -> bool:
    """Return whether all its changes can be simulated, and its saving, only bounded, matters."""
    kinds = {one.kind for one in finding.remedies}
    is_bound = finding.saves.basis is SavingBasis.AT_MOST and finding.saves.bytes is not None
    is_large = (finding.share or 0.0) >= WARNING_SHARE
    return is_bound and is_large and bool(kinds) and kinds.issubset(KINDS)


def _simulated(finding: Finding, simulator: Simulator) -> Finding:
    answer = simulate(simulator, [(one.kind, one.target) for one in finding.remedies])
    if answer.predicted is None or answer.low is None or answer.high is None:
        why = next((one.why_not for one in answer.changes if one.why_not), None)
        return finding if why is None else with_evidence(finding, f"cannot be applied: {why}")
    saved = saving(answer.base, answer.predicted, TOTAL)
    low, high = saving(answer.base, answer.high, TOTAL), saving(answer.base, answer.low, TOTAL)
    if saved is None or low is None or high is None:
        return finding
    if low <= 0:
        return _uncertain(finding, saved, low, max(high, saved))
    saves = Saves(
        bytes=saved, low=min(low, saved), high=max(high, saved), basis=SavingBasis.SIMULATED
    )
    return replace(finding, saves=saves, severity=None)


def _uncertain(finding: Finding, saved: int, low: int, high: int) -> Finding:
    """Return a finding whose fix may save nothing: its saving remains an upper bound.

    It is an info where the simulation itself saves nothing.
    """
    bounds = f"{less_text(low, format_bytes)} to {less_text(high, format_bytes)}"
    text = f"{SIMULATED}must fit {less_text(saved, format_bytes)}, with bounds of {bounds}"
    saves, known = finding.saves, finding.saves.bytes or 0
    if high > known:
        saves = replace(saves, bytes=high, own_bytes=saves.own_bytes or known)
    return replace(
        with_evidence(finding, text),
        saves=saves,
        severity=finding.severity if saved > 0 else Severity.INFO,
    )


def less_text(part: int, show: Callable[[int], str]) -> str:
    """Return a decrease in words: ``12.00MiB less``, or ``3.00MiB more`` below zero."""
    return f"{show(abs(part))} {'more' if part < 0 else 'less'}"


def with_evidence(finding: Finding, text: str) -> Finding:
    """Return a finding with further evidence, which comes first."""
    return replace(finding, evidence=(text, *finding.evidence))


def saving(base: Mapping[str, int | None], head: Mapping[str, int | None], name: str) -> int | None:
    """Return the decrease of a figure; None if it is not known on either side."""
    before, after = base.get(name), head.get(name)
    return None if before is None or after is None else before - after
