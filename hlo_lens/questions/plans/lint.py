"""Findings of programs: what they waste, what the fix saves, what to write instead."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.load import load
from hlo_lens.load.files import read_source
from hlo_lens.load.programs import Program, Progress, with_progress
from hlo_lens.program.pages import meant_modules
from hlo_lens.program.summary import (
    assumed_target,
    backend_of_dump,
    cut_facts,
    no_hlo_text,
    own_target,
    summary,
)
from hlo_lens.questions.diff.sides import load_side
from hlo_lens.questions.findings.findings import (
    WARNING_SHARE,
    Findings,
    Proof,
    keep,
    kept,
    module_findings,
    unproven_findings,
    whole,
    with_proofs,
)
from hlo_lens.questions.findings.page import (
    FindingsView,
    Trial,
    finding_annotations,
    lint_report,
    rule_object,
)
from hlo_lens.questions.findings.rule import all_rules
from hlo_lens.questions.findings.settings import (
    Selection,
    Sieve,
    checked_codes,
    nearest_settings,
    severity_of,
    with_options,
    with_sifted_findings,
)
from hlo_lens.questions.findings.values import call_place
from hlo_lens.questions.matching.fingerprints import text_copies
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.snapshots.snapshot_file import LINT, read_findings
from hlo_lens.questions.what_if.compiling import Means, compile_threads, toolchain_of
from hlo_lens.questions.what_if.edits import Change
from hlo_lens.questions.what_if.recompiling import (
    Base,
    Compiler,
    Figures,
    Recompiled,
    base_of,
    changed_module,
    compiled_base,
    variant_of,
)
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import plain_name
from hlo_lens.text.source_files import Checkout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding, Severity
    from hlo_lens.render.table import Report
    from hlo_lens.render.to_markdown import Annotation

Prove: TypeAlias = "Callable[[Sequence[ModuleDump]], list[Findings]]"
"""Returns the findings of modules, those whose fixes it compiled proven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """Findings of the modules of a program, in the order of the dump."""

    modules: tuple[FindingsView, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all modules that are not suppressed, those of each gravest first."""
        return tuple(one for module in self.modules for one in module.findings.counted)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def report(self) -> Report:
        """The output of ``hlo-lens lint``."""
        report = lint_report(self.modules)
        codes = dict.fromkeys(o.code for m in self.modules for o in m.findings.findings)
        rules = [rule_object(rule) for rule in all_rules() if rule.code in codes]
        return replace(report, data={**report.data, "rules": rules})

    @property
    def annotations(self) -> list[Annotation]:
        """Notes on the lines of the program, for GitHub."""
        return [note for module in self.modules for note in finding_annotations(module)]

    @property
    def open_questions(self) -> tuple[str, ...]:
        """Why findings are not known, or some of them, each with its module; empty if all are."""
        return tuple(f"{m.name}: {text}" for m in self.modules for text in m.open_questions)

    def reaches(self, severity: Severity) -> bool:
        """Return whether a finding that counts is of a severity or a graver one."""
        return any((one.severity or severity).rank <= severity.rank for one in self.findings)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that ``hlo-lens lint -f json`` prints."""
        return self.report.to_dict()

    def __str__(self) -> str:
        return str(self.report)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()  # the name that notebooks ask for


def lint(
    program: Program,
    *,
    module: str | None = None,
    select: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    min_saving: str | None = None,
    baseline: str | None = None,
    config: str | None = None,
    prove: bool | int = False,
    minutes: float = 10.0,
    python: str = sys.executable,
    target: str | None = None,
) -> Lint:
    """Return the findings of a program.

    >>> import hlo_lens
    >>> found = hlo_lens.lint("sample_dumps/cpu/wasteful")
    >>> found.findings[1].code, found.findings[1].saves.bytes
    ('M003', 15728640)

    Args:
        program: A path, HLO text, or what was read from either.
        module: Regular expression to find in the names of the modules wanted; None for all.
        select: Codes of the only rules wanted, or beginnings of codes; a text is one
            code; empty for those of the settings, else all.
        ignore: Codes of rules that are left out, or beginnings of codes.
        min_saving: Least saving: ``1%``, ``64MiB``; None for that of the settings.
        baseline: Output of ``lint -f json``, snapshot or dump, whose findings do not count.
        config: Settings; None for the nearest hlo-lens.toml with a table ``[lint]``.
        prove: Whether to compile the program again with each fix, where `what_if` can; a number
            for the first ones. Proofs of earlier runs are used in any case.
        minutes: Time for these compiles.
        python: Interpreter whose jax compiles.
        target: Device to compile for where the dump does not name its own.

    Raises:
        MissingPackageError: If `prove` finds no jax.
        UsageError: If there is no rule of a code, or settings are not understood.
    """
    sieve = sieve_of(config, baseline, select, ignore, min_saving=min_saving)
    targets = () if target is None else (target,)

    def proven(modules: Sequence[ModuleDump]) -> list[Findings]:
        means, most = Means(python=python, minutes=minutes), None if prove is True else prove
        return proven_findings(modules, means, most=most, targets=targets)

    modules = meant_modules(program, module)
    return lint_modules(modules, sieve=sieve, targets=targets, prove=proven if prove else None)


def lint_modules(
    modules: Sequence[ModuleDump],
    *,
    sieve: Sieve,
    progress: Progress | None = None,
    targets: Sequence[str] = (),
    prove: Prove | None = None,
) -> Lint:
    """Return the findings of some modules; `prove` compiles fixes, None for no compile."""
    copies = text_copies(modules)
    programs = [one for k, one in enumerate(modules) if k not in copies]
    stated = with_sifted_findings(programs, sieve)
    for one in with_progress(stated, progress):
        unproven_findings(one)  # which its module keeps
    findings = list(map(module_findings, stated)) if prove is None else prove(stated)
    views = (_view(one, its, targets) for one, its in zip(stated, findings, strict=True))
    none, shown = Findings(findings=()), list[FindingsView]()
    for k, one in enumerate(modules):
        if k in copies:
            of = modules[copies[k]].address
            shown.append(
                FindingsView(name=one.name, findings=none, address=one.address, copy_of=of)
            )
        else:
            shown.append(next(views))
    return Lint(modules=tuple(shown))


def _view(known: ModuleDump, found: Findings, targets: Sequence[str]) -> FindingsView:
    return FindingsView(
        name=known.name,
        findings=found,
        address=known.address,
        path=known.path,
        options=known.module_option,
        trial=_trial(known, targets),
        place=call_place(known) if known.has_hlo else None,
        problem="" if known.has_hlo else no_hlo_text(known),
        cut=tuple(cut_facts(known)),
        gap=summary(known).coverage.problem if known.has_hlo else "",
    )


def _trial(known: ModuleDump, targets: Sequence[str]) -> Trial:
    """Return what ``what-if`` can do with the dump of a module, whose last stage it reads."""
    stages = [stage.name for stage in known.stages]
    if known.stage in stages[:-1]:
        known = known.at_stage(stages[-1])
    return Trial(
        has_program=known.has_program,
        has_device=own_target(known) is not None
        or (not targets and assumed_target(known) is not None),
        target=next(iter(targets), ""),
        example="h100_sxm" if backend_of_dump(known) == "gpu" else "v5e:2x4",
    )


def findings_at_least(
    known: ModuleDump,
    severity: str,
    *,
    select: str | Iterable[str] = (),
    ignore: str | Iterable[str] = (),
) -> tuple[Finding, ...]:
    """Return the findings of a module that count, of a severity or a graver one.

    Raises:
        UsageError: If there is no such severity, or no rule of a code.
    """
    least = severity_of(severity)
    selection = Selection(select=checked_codes(select), ignore=checked_codes(ignore))
    return tuple(
        one
        for one in module_findings(with_sifted_findings([known])[0]).counted
        if selection.wants(one.code) and (one.severity or least).rank <= least.rank
    )


def sieve_of(
    config: str | None,
    baseline: str | None,
    select: str | Sequence[str],
    ignore: str | Sequence[str],
    *,
    min_saving: str | None,
    fail_on: str | None = None,
) -> Sieve:
    """Return settings, comments and baseline; what is given takes the place of the settings."""
    settings = with_options(
        nearest_settings(config),
        select=select,
        ignore=ignore,
        min_saving=min_saving,
        fail_on=fail_on,
    )
    if baseline is None and settings.baseline is not None:
        baseline = str(Path(settings.path).parent / settings.baseline)
    return Sieve(
        settings=settings,
        checkout=Checkout.here(),
        known=None if baseline is None else read_baseline(baseline),
        baseline=baseline or "",
    )


def read_baseline(path: str) -> dict[str, tuple[Finding, ...]]:
    """Return the findings of a baseline, by module name.

    It is output of ``hlo-lens lint -f json``, a snapshot or a dump.

    Raises:
        UnreadableError: If it cannot be read.
        DumpSyntaxError: If it is damaged, or of a newer version.
    """
    data = None
    with suppress(ValueError, RecursionError):
        data = json.loads(read_source(path).text) if Path(path).is_file() else None
    if isinstance(data, dict) and data.get("kind") == LINT:
        found = read_findings(data, path)
    else:
        modules = [one.snapshot for one in load_side(path).modules]
        found = [(module.name, module.facts.findings or ()) for module in modules]
    baseline: dict[str, tuple[Finding, ...]] = {}
    for name, findings in found:
        known = (replace(one, suppressed=False) for one in findings)  # by an older baseline
        baseline[plain_name(name)] = (*baseline.get(plain_name(name), ()), *known)
    return baseline


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

    At most `most` fixes are compiled, those of the largest module and the gravest first, that may
    save a hundredth; None for all, with the reason of each that cannot be. Kept proofs are used.

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
    variants: dict[Finding, Recompiled] = {}
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

    def compiled(variant: Recompiled) -> Recompiled | None:
        return None if pool.means.is_late else changed_module(base, variant, pool)

    with compile_threads() as threads:
        for finding, row in zip(variants, threads.map(compiled, variants.values()), strict=True):
            after = None if row is None else row.predicted
            if row is None or (after is None and pool.means.is_late):
                yield finding, "no time left (--minutes)"
            elif after is None:
                yield finding, row.refusal or "the fix cannot be compiled"
            else:
                left, pairs = _left(base.dump, row), _pairs(before, after)
                saved = [None if a is None or b is None else a - b for a, b in pairs]
                fits = None if left is None else row.fits
                proof = Proof(
                    bytes=saved[0], sent_bytes=saved[1], flops=saved[2], fits=fits, left=left
                )
                yield finding, proof


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
    pairs = _pairs(own, again)[:2]
    is_near = all(a is not None and b is not None and abs(a - b) <= _NEAR * a for a, b in pairs)
    if base.reproduction.is_equal is not False or is_near:
        return ""
    versions = ", ".join(base.reproduction.reasons) or "other versions or options"
    return f"compiled again without changes, the program has other figures ({versions})"


def _left(dump: ModuleDump, row: Recompiled) -> dict[str, int] | None:
    """Return the most that a finding saves with a fix, by code; None if it fits without the fix."""
    memory = memory_results(dump)
    if memory is None or memory.statement.fits is not False or row.dump is None:
        return None
    left: dict[str, int] = {}
    for module in load(row.dump).modules if row.fits is not True else ():
        for one in unproven_findings(module).findings:
            left[one.code] = max(left.get(one.code, 0), one.saves.bytes or 0)
    return left


def _pairs(before: Figures, after: Figures) -> list[tuple[int | None, int | None]]:
    names = ("total_bytes", "wire_bytes_per_device", "flops")
    return [(getattr(before, name), getattr(after, name)) for name in names]
