"""Findings of modules by the settings of the user, and proofs of them by compiling the fix.

Every command takes its findings from here, so that all print the same ones.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hlo_lens.load.module import ModuleDump
from hlo_lens.questions.dumps.listing import known_listings
from hlo_lens.questions.findings.dump_findings import dump_findings
from hlo_lens.questions.findings.finding import Finding, Saves, SavingBasis, Severity, at
from hlo_lens.questions.findings.findings import Findings, judged, together
from hlo_lens.questions.findings.module_findings import all_findings
from hlo_lens.questions.findings.places import call_place
from hlo_lens.questions.findings.run_settings import Sieve
from hlo_lens.questions.findings.whole import whole
from hlo_lens.questions.what_if.edits import Change
from hlo_lens.questions.what_if.recompiling import (
    Base,
    Compiler,
    Means,
    changed_module,
    compiled_base,
)
from hlo_lens.text.units import flops_text, format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.dumps.listing import ListingFacts
    from hlo_lens.questions.what_if.figures import Figures
    from hlo_lens.questions.what_if.recompiling import Recompiled


def with_sifted_findings(
    modules: Sequence[ModuleDump], sieve: Sieve | None = None
) -> list[ModuleDump]:
    """Return modules whose `module_findings` are sifted, with those about all modules together.

    Args:
        modules: The modules of a command.
        sieve: Settings; None for the nearest ones.
    """
    sifted = _Sifted(sieve or Sieve.usual())
    sifted.modules = [
        one.stating(findings=partial(sifted.of_module, place)) for place, one in enumerate(modules)
    ]
    return sifted.modules


class _Sifted:
    """Findings of some modules; those about all of them are made when first asked for."""

    def __init__(self, sieve: Sieve) -> None:
        self.modules: list[ModuleDump] = []
        self._sieve = sieve

    @cached_property
    def _others(self) -> Mapping[int, Findings]:
        return sifted_dump_findings(known_listings(self.modules), self.modules, self._sieve)

    def of_module(self, place: int, module: ModuleDump) -> Findings:
        """Return the findings of the module at a position."""
        own = sifted_module_findings(module, self._sieve)
        other = self._others.get(place)
        return own if other is None else together(own, other)


def sifted_module_findings(known: ModuleDump, sieve: Sieve) -> Findings:
    """Return the findings of a module alone."""
    return sieve.sift(all_findings(known), known.title)


def sifted_dump_findings(
    facts: Sequence[ListingFacts], dumps: Sequence[ModuleDump], sieve: Sieve
) -> dict[int, Findings]:
    """Return the findings about some modules together, by position of the module to blame."""
    found: dict[int, Findings] = {}
    for place, ones in dump_findings(facts).items():
        where = call_place(dumps[place])
        placed = tuple(one if one.source_file else replace(one, **at(where)) for one in ones)
        found[place] = sieve.sift(Findings(findings=placed), dumps[place].title, is_of_dump=True)
    return found


_NEAR = 0.01
"""Largest relative difference of a compile without changes to the dump, for a proof."""

LATE = "not proven: no time left (--minutes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Means of proving.

    Attributes:
        means: Interpreter that compiles, and the time for all compiles of all modules.
        targets: Device to compile for where the dump does not name its own; empty for none.
        progress: Called with compiles done and compiles in all.
    """

    means: Means = field(default_factory=lambda: Means(minutes=10.0))
    targets: Sequence[str] = ()
    progress: Progress | None = None


def proven_findings(
    modules: Sequence[ModuleDump], found: Sequence[Findings], proof: Proof
) -> list[Findings]:
    """Return the findings of modules with proven savings where what-if can apply the fix.

    Args:
        modules: The modules.
        found: Findings of each.
        proof: Time and progress.

    Raises:
        MissingPackageError: If the interpreter has no jax.
    """
    until = time.monotonic() + 60 * proof.means.minutes
    pool = Compiler(replace(proof.means, until=until), proof.progress)
    for findings in found:
        count = sum(map(_is_provable, findings.findings))
        pool.expect(count + bool(count))
    pairs = zip(modules, found, strict=True)
    return [_of_module(one, f, proof.targets, pool, until) for one, f in pairs]


def _is_provable(finding: Finding) -> bool:
    return bool(finding.changes) and not finding.suppressed


def _of_module(
    known: ModuleDump,
    found: Findings,
    targets: Sequence[str],
    pool: Compiler,
    until: float,
) -> Findings:
    wanted = [one for one in found.findings if _is_provable(one)]
    if not wanted or not known.has_program:
        return found
    base = compiled_base(known, targets, pool)
    obstacle = _obstacle(base)
    changed: dict[int, Finding] = {}
    for one in wanted:
        if obstacle:
            changed[id(one)] = _with_evidence(one, f"not proven: {obstacle}")
        elif time.monotonic() >= until:
            changed[id(one)] = _with_evidence(one, LATE)
        else:
            proven = _proven(one, known, base, pool)
            is_late = proven.saves.basis is not SavingBasis.PROVEN and time.monotonic() >= until
            changed[id(one)] = _with_evidence(one, LATE) if is_late else proven
    findings = tuple(changed.get(id(one), one) for one in found.findings)
    return replace(found, findings=judged(findings, known, is_kept=True))


def _obstacle(base: Base) -> str:
    """Return why compiles with changes prove nothing of a dump; empty if they do."""
    if base.figures is None:
        return base.refusal.partition("\n")[0] or "the program cannot be compiled again"
    if base.reproduction.is_equal is not False or _is_near(base.own, base.figures):
        return ""
    versions = ", ".join(base.reproduction.reasons) or "other versions or options"
    return f"compiled again without changes, the program has other figures ({versions})"


def _is_near(own: Figures, again: Figures) -> bool:
    """Return whether memory and communication of two compiles differ by little."""
    pairs = (
        (own.total_bytes, again.total_bytes),
        (own.wire_bytes_per_device, again.wire_bytes_per_device),
    )
    return all(a is not None and b is not None and abs(a - b) <= _NEAR * a for a, b in pairs)


def _proven(finding: Finding, known: ModuleDump, base: Base, pool: Compiler) -> Finding:
    """Return a finding with the saving of its fix, compiled; with the reason if it cannot be.

    A fix that costs a larger share of communication than it saves of memory is an info.
    """
    changes = tuple(Change(kind=one.kind, target=one.target) for one in finding.changes)
    row = changed_module(base, changes, pool)
    before, after = base.figures or base.own, row.predicted
    if after is None:
        return _with_evidence(finding, f"not proven: {_reason(row)}")
    refused = [one for one in row.changes if not one.applies]
    saved = _less(before.total_bytes, after.total_bytes)
    sent = _less(before.wire_bytes_per_device, after.wire_bytes_per_device)
    work = _less(before.flops, after.flops)
    differences = _differences(saved, sent, work)
    found = _with_evidence(finding, f"compiled again with the fix: {differences}")
    if refused:
        text = f"{plural(len(refused), 'change')} cannot be applied: {refused[0].why_not}"
        found = _with_evidence(found, text)
    elif _is_useless(finding, saved, sent, work):
        found = replace(found, fix=f"does not help: {differences} ({finding.fix})")
    program = whole(known)
    gain = program.memory_share(saved or 0) + (_gain(work) or 0)
    cost = max(0, -(sent or 0)) / program.traffic if program.traffic else 0.0
    is_worth = gain > cost or (sent or 0) > 0
    return replace(
        found,
        saves=Saves(
            bytes=None if saved is None else max(0, saved),
            basis=SavingBasis.PROVEN,
            wire_bytes=_gain(sent),
            flops=_gain(work),
        ),
        severity=None if is_worth else Severity.INFO,
    )


def _with_evidence(finding: Finding, text: str) -> Finding:
    """Return a finding with further evidence, which comes first."""
    return replace(finding, evidence=(text, *finding.evidence))


def _less(before: int | None, after: int | None) -> int | None:
    """Return the decrease of a figure; None if it is not known on either side."""
    return None if before is None or after is None else before - after


def _gain(part: int | None) -> int | None:
    return part if part is not None and part > 0 else None


def _reason(row: Recompiled) -> str:
    """Return why a fix has no figures."""
    reasons = [one.why_not for one in row.changes if one.why_not]
    return row.refusal.partition("\n")[0] or next(iter(reasons), "the fix cannot be compiled")


def _is_useless(finding: Finding, saved: int | None, sent: int | None, work: int | None) -> bool:
    """Return whether a fix that was to save memory saves nothing at all."""
    gains = (_gain(saved), _gain(sent), _gain(work))
    return finding.saves.bytes is not None and saved is not None and gains == (None, None, None)


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
