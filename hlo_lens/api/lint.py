"""Findings of programs: what they waste, what the fix saves, what to write instead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.analysis.findings.findings import (
    Findings,
    dump_findings,
    judged,
    module_findings,
)
from hlo_lens.analysis.findings.registry import all_rules, find_rule
from hlo_lens.analysis.findings.selection import Selection, checked_codes, severity_of
from hlo_lens.analysis.module_analysis import ModuleAnalysis
from hlo_lens.api.modules import Program, Progress, modules_of, with_progress
from hlo_lens.report.findings.page import FindingsView, findings_page
from hlo_lens.report.findings.rules import rule_report, rules_report
from hlo_lens.report.render.envelope import report_of_pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.analysis.findings.finding import Finding
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.report.render.table import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """Findings of the modules of a program.

    Attributes:
        modules: Each module with its findings, in the order of the dump.
    """

    modules: tuple[FindingsView, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all modules that are not suppressed, those of each most saving first."""
        return tuple(one for module in self.modules for one in module.findings.counted)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def report(self) -> Report:
        """The output of ``hlo-lens lint``."""
        return report_of_pages("lint", map(findings_page, self.modules))

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that ``hlo-lens lint -f json`` prints."""
        return self.report.to_dict()

    def __str__(self) -> str:
        return str(self.report)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()  # the name that notebooks ask for


def lint(program: Program, *, module: str | None = None) -> Lint:
    """Return the findings of a program.

    >>> import hlo_lens
    >>> found = hlo_lens.lint("sample_dumps/cpu/wasteful")
    >>> found.findings[0].code, found.findings[0].saves.bytes
    ('M003', 12582912)

    Args:
        program: A path, HLO text, or what was read from either.
        module: Regular expression to find in the names of the modules wanted; None for all.
    """
    return lint_modules(modules_of(program, module=module))


def lint_modules(modules: Sequence[ModuleDump], *, progress: Progress | None = None) -> Lint:
    """Return the findings of some modules.

    Args:
        modules: The modules.
        progress: Called with modules done and modules in all.
    """
    known = [ModuleAnalysis(one) for one in modules]
    found = [one.once(module_findings) for one in with_progress(known, progress)]
    for place, others in dump_findings(known).items() if len(known) > 1 else ():
        found[place] = with_findings(found[place], others, known[place])
    several = len(modules) > 1
    return Lint(
        modules=tuple(
            FindingsView(
                name=dump.name,
                findings=one,
                path=dump.path,
                options=f"--module {dump.name}" if several else "",
                hidden={},
            )
            for dump, one in zip(modules, found, strict=True)
        )
    )


def with_findings(found: Findings, others: Sequence[Finding], known: ModuleAnalysis) -> Findings:
    """Return the findings of a module together with others, in their order."""
    return replace(found, findings=judged((*found.findings, *others), known))


def findings_at_least(
    known: ModuleAnalysis, severity: str, *, select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Return the findings of a module that count, of a severity or a graver one.

    Args:
        known: The module.
        severity: ``error``, ``warning`` or ``info``.
        select: Codes or beginnings of codes; empty for all.
        ignore: Codes or beginnings of codes that are left out.

    Raises:
        UsageError: If there is no such severity, or no rule of a code.
    """
    least = severity_of(severity)
    selection = Selection(select=checked_codes(select), ignore=checked_codes(ignore))
    return tuple(
        one
        for one in known.once(module_findings).counted
        if selection.wants(one) and (one.severity or least).rank <= least.rank
    )


def lint_report(modules: Sequence[ModuleDump], *, progress: Progress | None = None) -> Report:
    """Return the report on the findings in some modules."""
    return lint_modules(modules, progress=progress).report


def explanation(code: str | None) -> Report:
    """Return the description of a rule, or the list of rules for None.

    Raises:
        UnknownNameError: If there is no such rule.
    """
    return rules_report(all_rules()) if code is None else rule_report(find_rule(code))


def rule_codes() -> tuple[str, ...]:
    """Return the codes of all rules."""
    return tuple(rule.code for rule in all_rules())
