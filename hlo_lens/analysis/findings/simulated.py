"""Savings of findings by simulation: the fix made in our assignment of the program's buffers.

Only for changes that can be simulated, in programs that are not too large, for the findings that
save most. The others keep their upper bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.analysis.findings.finding import Finding, Saves, SavingBasis
from hlo_lens.analysis.findings.findings import Findings, judged
from hlo_lens.analysis.simulation.simulate import KINDS, WIRE, simulate
from hlo_lens.analysis.simulation.simulator import Simulator
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.analysis.simulation.simulate import Simulated

MOST_INSTRUCTIONS = 50_000
"""Instructions of the largest module that is simulated; one answer takes about 90 us for each."""

MOST_FINDINGS = 16
"""Findings of a module that are simulated, most saving first."""

TOTAL = "total_bytes"


def simulated_findings(known: ModuleAnalysis, found: Findings) -> Findings:
    """Return findings with simulated savings where that is possible, in their new order."""
    wanted = [one for one in found.findings if _can_be_simulated(one)][:MOST_FINDINGS]
    if not wanted or len(known.module.columns) > MOST_INSTRUCTIONS or known.memory is None:
        return found
    simulator = Simulator(known)
    if simulator.reason:
        return found
    changed = {id(one): _simulated(one, simulator) for one in wanted}
    findings = tuple(changed.get(id(one), one) for one in found.findings)
    return replace(found, findings=judged(findings, known, is_kept=True))


def _can_be_simulated(finding: Finding) -> bool:
    """Return whether all its changes can be simulated, and its saving is only bounded."""
    kinds = {one.kind for one in finding.remedies}
    is_bound = finding.saves.basis is SavingBasis.AT_MOST and finding.saves.bytes is not None
    return is_bound and bool(kinds) and kinds.issubset(KINDS)


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
        return _uncertain(finding, answer, saved)
    saves = Saves(
        bytes=saved, low=min(low, saved), high=max(high, saved), basis=SavingBasis.SIMULATED
    )
    return replace(finding, saves=saves, severity=None)


def _uncertain(finding: Finding, answer: Simulated, saved: int) -> Finding:
    """Return a finding whose fix may save nothing: its saving remains an upper bound."""
    wire = saving(answer.base, answer.predicted or {}, WIRE)
    more = wire is not None and wire < 0
    sent = f", and sends {format_bytes(-(wire or 0))} more in a run" if more else ""
    what = f"{format_bytes(saved)} or nothing" if saved > 0 else "nothing"
    return with_evidence(finding, f"simulated: saves {what}{sent}")


def with_evidence(finding: Finding, text: str) -> Finding:
    """Return a finding with further evidence, which comes first."""
    return replace(finding, evidence=(text, *finding.evidence))


def saving(base: Mapping[str, int | None], head: Mapping[str, int | None], name: str) -> int | None:
    """Return the decrease of a figure; None if it is not known on either side."""
    before, after = base.get(name), head.get(name)
    return None if before is None or after is None else before - after
