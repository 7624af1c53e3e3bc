"""Proofs of findings: what the fix saves, by compiling the program with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.questions.findings.findings import (
    WARNING_SHARE,
    Findings,
    unproven_findings,
    whole,
    with_proofs,
)
from hlo_lens.questions.findings.proofs import Proof, keep, kept
from hlo_lens.questions.what_if.compiling import compile_threads, toolchain_of
from hlo_lens.questions.what_if.edits import Change
from hlo_lens.questions.what_if.recompiling import (
    Base,
    Compiler,
    Means,
    Recompiled,
    Variant,
    base_of,
    changed_module,
    compiled_base,
    variant_of,
)
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.findings.finding import Finding

MOST_PROOFS = 3
"""Fixes that ``lint`` compiles unless told otherwise."""

_NEAR = 0.01
"""Largest relative difference of a compile without changes to the dump, for a proof."""


def proven_findings(
    modules: Sequence[ModuleDump],
    means: Means,
    *,
    most: int | None = None,
    targets: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[Findings]:
    """Return the findings of modules with proven savings where what-if can apply the fix.

    Proofs that are in the cache already are all used.

    Args:
        modules: The modules.
        means: Interpreter that compiles, and the time for all compiles of all modules.
        most: Most fixes to compile, those of the largest module and the gravest first, that may
            save a hundredth; None for all, with the reason of each that cannot be compiled.
        targets: Device to compile for where the dump does not name its own; empty for none.
        progress: Called with compiles done and compiles in all.

    Raises:
        MissingPackageError: If the interpreter has no jax, or lacks what a module needs.
    """
    pool, left = Compiler(means.within(), progress), most
    proven: dict[int, Findings] = {}
    for place in sorted(range(len(modules)), key=lambda k: -(whole(modules[k]).memory_bytes or 0)):
        module, found = modules[place], unproven_findings(modules[place])
        provable = [one for one in found.findings if module.has_program and one.is_provable]
        if not provable:
            continue
        tools = toolchain_of(means.python)
        proofs: dict[Finding, Proof | str | None] = {one: kept(module, one) for one in provable}
        worth = [one for one in provable if most is None or (one.share or 1.0) >= WARNING_SHARE]
        chosen = [o for o in worth[:left] if getattr(proofs[o], "toolchain", None) != tools]
        left = None if left is None else max(0, left - len(worth))
        base = base_of(module, targets) if chosen else None
        if base is not None and not (base.refusal and most is not None):
            for finding, proof in _proofs(base, chosen, pool):
                if isinstance(proof, Proof):
                    keep(module, finding, replace(proof, toolchain=tools))
                proofs[finding] = proof if isinstance(proof, Proof) else proofs[finding] or proof
        proven[place] = _with_proofs(module, found, proofs)
    return [proven.get(k) or unproven_findings(module) for k, module in enumerate(modules)]


def _proofs(
    base: Base, chosen: Sequence[Finding], pool: Compiler
) -> Iterator[tuple[Finding, Proof | str]]:
    """Yield findings with a proof of the fix, or why there is none."""
    variants: dict[Finding, Variant] = {}
    for finding in chosen:
        changes = [Change(kind=one.kind, target=one.target) for one in finding.changes]
        try:
            variants[finding] = variant_of(base, changes)
        except UsageError as error:
            yield finding, str(error)
            continue
        refused = [one.why_not for one in variants[finding].changes if not one.applies]
        if base.refusal or refused:
            del variants[finding]
            yield finding, base.refusal or str(refused[0])
    if not variants:
        return
    pool.require(base.target)
    pool.expect(1 + len(variants))
    base = compiled_base(base, pool)
    if obstacle := _obstacle(base):
        yield from ((finding, obstacle) for finding in variants)
        return
    before = base.figures or base.own

    def compiled(variant: Variant) -> Recompiled | None:
        return None if pool.means.is_late else changed_module(base, variant, pool)

    with compile_threads() as threads:
        for finding, row in zip(variants, threads.map(compiled, variants.values()), strict=True):
            after = None if row is None else row.predicted
            if row is None or (after is None and pool.means.is_late):
                yield finding, "no time left (--minutes)"
            elif after is None:
                yield finding, row.refusal or "the fix cannot be compiled"
            else:
                yield (
                    finding,
                    Proof(
                        bytes=_less(before.total_bytes, after.total_bytes),
                        sent_bytes=_less(before.wire_bytes_per_device, after.wire_bytes_per_device),
                        flops=_less(before.flops, after.flops),
                    ),
                )


def _with_proofs(
    module: ModuleDump, found: Findings, proofs: Mapping[Finding, Proof | str | None]
) -> Findings:
    """Return findings with their proofs, or with why there is none as their first evidence."""
    pairs: list[tuple[Finding, Proof | None]] = []
    for one in found.findings:
        proof = proofs.get(one)
        if isinstance(proof, str):
            reason = proof.partition("\n")[0]
            one = replace(one, evidence=(f"not proven: {reason}", *one.evidence))
        pairs.append((one, proof if isinstance(proof, Proof) else None))
    return with_proofs(module, found, pairs)


def _obstacle(base: Base) -> str:
    """Return why compiles with changes prove nothing of a dump; empty if they do."""
    own, again = base.own, base.figures
    if again is None:
        return base.refusal or "the program cannot be compiled again"
    pairs = (
        (own.total_bytes, again.total_bytes),
        (own.wire_bytes_per_device, again.wire_bytes_per_device),
    )
    is_near = all(a is not None and b is not None and abs(a - b) <= _NEAR * a for a, b in pairs)
    if base.reproduction.is_equal is not False or is_near:
        return ""
    versions = ", ".join(base.reproduction.reasons) or "other versions or options"
    return f"compiled again without changes, the program has other figures ({versions})"


def _less(before: int | None, after: int | None) -> int | None:
    """Return the decrease of a figure; None if it is not known on either side."""
    return None if before is None or after is None else before - after
