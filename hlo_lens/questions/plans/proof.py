"""Proofs of findings: what the fix saves, by compiling the program with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Finding, Saves, SavingBasis, Severity
from hlo_lens.questions.findings.findings import Findings, judged, whole
from hlo_lens.questions.what_if.edits import Change
from hlo_lens.questions.what_if.recompiling import (
    Base,
    Compiler,
    Means,
    base_of,
    changed_module,
    compiled_base,
    variant_of,
)
from hlo_lens.text.units import flops_text, format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress

_NEAR = 0.01
"""Largest relative difference of a compile without changes to the dump, for a proof."""

LATE = "not proven: no time left (--minutes)"


def proven_findings(
    modules: Sequence[ModuleDump],
    found: Sequence[Findings],
    means: Means,
    *,
    targets: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[Findings]:
    """Return the findings of modules with proven savings where what-if can apply the fix.

    Args:
        modules: The modules.
        found: Findings of each.
        means: Interpreter that compiles, and the time for all compiles of all modules.
        targets: Device to compile for where the dump does not name its own; empty for none.
        progress: Called with compiles done and compiles in all.

    Raises:
        MissingPackageError: If the interpreter has no jax.
    """
    pool = Compiler(means.within(), progress)
    for findings in found:
        count = sum(map(_is_provable, findings.findings))
        pool.expect(count + bool(count))
    pairs = zip(modules, found, strict=True)
    return [_of_module(module, findings, targets, pool) for module, findings in pairs]


def _is_provable(finding: Finding) -> bool:
    return bool(finding.changes) and not finding.suppressed


def _of_module(
    module: ModuleDump, found: Findings, targets: Sequence[str], pool: Compiler
) -> Findings:
    if not module.has_program or not any(map(_is_provable, found.findings)):
        return found
    base = compiled_base(base_of(module, targets), pool)
    obstacle = _obstacle(base)

    def proven(finding: Finding) -> Finding:
        if obstacle:
            return _with_evidence(finding, f"not proven: {obstacle}")
        made = finding if pool.means.is_late else _proven(finding, module, base, pool)
        if made.saves.basis is not SavingBasis.COMPILED and pool.means.is_late:
            return _with_evidence(finding, LATE)
        return made

    findings = tuple(proven(one) if _is_provable(one) else one for one in found.findings)
    return replace(found, findings=judged(findings, module, is_kept=True))


def _obstacle(base: Base) -> str:
    """Return why compiles with changes prove nothing of a dump; empty if they do."""
    own, again = base.own, base.figures
    if again is None:
        return base.refusal.partition("\n")[0] or "the program cannot be compiled again"
    pairs = (
        (own.total_bytes, again.total_bytes),
        (own.wire_bytes_per_device, again.wire_bytes_per_device),
    )
    is_near = all(a is not None and b is not None and abs(a - b) <= _NEAR * a for a, b in pairs)
    if base.reproduction.is_equal is not False or is_near:
        return ""
    versions = ", ".join(base.reproduction.reasons) or "other versions or options"
    return f"compiled again without changes, the program has other figures ({versions})"


def _proven(finding: Finding, module: ModuleDump, base: Base, pool: Compiler) -> Finding:
    """Return a finding with the saving of its fix, compiled; with the reason if it cannot be.

    A fix that costs a larger share of communication than it saves of memory is an info.
    """
    changes = tuple(Change(kind=one.kind, target=one.target) for one in finding.changes)
    row = changed_module(base, variant_of(base, changes), pool)
    refused = [one.why_not for one in row.changes if not one.applies]
    before, after = base.figures or base.own, row.predicted
    if after is None:
        reasons = (row.refusal.partition("\n")[0], *refused, "the fix cannot be compiled")
        return _with_evidence(finding, f"not proven: {next(filter(None, reasons))}")
    saved = _less(before.total_bytes, after.total_bytes)
    sent = _less(before.wire_bytes_per_device, after.wire_bytes_per_device)
    work = _less(before.flops, after.flops)
    differences = _differences(saved, sent, work)
    proven = _with_evidence(finding, f"compiled again with the fix: {differences}")
    if refused:
        text = f"{plural(len(refused), 'change')} cannot be applied: {refused[0]}"
        proven = _with_evidence(proven, text)
    elif finding.saves.bytes is not None and saved is not None and not _gains(saved, sent, work):
        proven = replace(proven, fix=f"does not help: {differences} ({finding.fix})")
    program = whole(module)
    gain = program.memory_share(saved or 0) + max(0, work or 0)
    cost = max(0, -(sent or 0)) / program.traffic if program.traffic else 0.0
    return replace(
        proven,
        saves=Saves(bytes=saved, sent_bytes=sent, flops=work, basis=SavingBasis.COMPILED),
        severity=None if gain > cost or _gains(sent) else Severity.INFO,
    )


def _with_evidence(finding: Finding, text: str) -> Finding:
    """Return a finding with further evidence, which comes first."""
    return replace(finding, evidence=(text, *finding.evidence))


def _less(before: int | None, after: int | None) -> int | None:
    """Return the decrease of a figure; None if it is not known on either side."""
    return None if before is None or after is None else before - after


def _gains(*parts: int | None) -> bool:
    """Whether any figure decreases."""
    return any(part is not None and part > 0 for part in parts)


def _differences(saved: int | None, sent: int | None, work: int | None) -> str:
    """Return the differences of the compile with the fix."""
    parts = [
        f"{words} {show(abs(part))} {'more' if part < 0 else 'less'}"
        for words, part, show in (
            ("must fit", saved, format_bytes),
            ("sent in a run", sent, format_bytes),
            ("work", work, flops_text),
        )
        if part
    ]
    return ", ".join(parts) or "nothing changes"
