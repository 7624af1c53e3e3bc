"""Findings of rules in HLO texts, for the tests of rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.analysis.findings.findings import module_findings
from hlo_lens.analysis.module_analysis import ModuleAnalysis
from hlo_lens.model.dump import ModuleDump, given
from hlo_lens.text.dump_kinds import DumpKind

if TYPE_CHECKING:
    from hlo_lens.analysis.findings.finding import Finding


def analysis_of_text(text: str, before: str | None = None, name: str = "m") -> ModuleAnalysis:
    """Return the analysis of a module's text, which has no gaps."""
    module = hlo_lens.parse_hlo(text)
    assert module.gaps == ()
    dump = ModuleDump(
        name=name,
        kind=DumpKind.HLO,
        module_text=given(module),
        before_text=None if before is None else given(hlo_lens.parse_hlo(before)),
    )
    return ModuleAnalysis(dump)


def findings_of(text: str, code: str, before: str | None = None) -> tuple[Finding, ...]:
    """Return the findings of one rule in a module's text; the rule must be decided."""
    found = module_findings(analysis_of_text(text, before))
    assert code not in dict(found.undecided)
    return tuple(one for one in found.findings if one.code == code)
