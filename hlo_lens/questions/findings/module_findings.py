"""Findings of all rules about one module: the same in every output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from hlo_lens.load.fact import fact
from hlo_lens.program.summary import hlo_text, instruction_table
from hlo_lens.questions.findings.findings import Findings, judged
from hlo_lens.questions.findings.registry import all_rules
from hlo_lens.questions.findings.rule import MEMORY, PEAK, ModuleRule
from hlo_lens.questions.memory.results import (
    is_estimate_left_out,
    memory_results,
    not_estimated_text,
)
from hlo_lens.text.errors import DumpSyntaxError, MissingDumpError

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding


@fact
def module_findings(module: ModuleDump) -> Findings:
    """Return the findings in one module, by the settings of its user if there are any."""
    given = module.given.findings
    return all_findings(module) if given is None else cast("Findings", given(module))


def all_findings(known: ModuleDump) -> Findings:
    """Return the findings of all rules in one module."""
    if not known.has_hlo:
        return Findings(findings=())
    hlo_text(known).links.all_operands()  # rules ask for those of most computations
    rules = [rule for rule in all_rules() if isinstance(rule, ModuleRule)]
    unknown = _unknown(known)
    found: list[Finding] = []
    undecided: list[tuple[str, str]] = []
    for rule in rules:
        if rule.needs in unknown:
            undecided.append((rule.code, unknown[rule.needs]))
            continue
        try:
            found += (replace(one, code=rule.code, name=rule.name) for one in rule.find(known))
        except (MissingDumpError, DumpSyntaxError) as error:
            undecided.append((rule.code, str(error)))
    return Findings(findings=judged(found, known), undecided=tuple(undecided))


def _unknown(known: ModuleDump) -> dict[str, str]:
    """Return what is not known of a module that rules need, each with the reason."""
    memory = memory_results(known)
    if memory is None:
        return dict.fromkeys((MEMORY, PEAK), f"memory is not known: {_why(known)}")
    return {} if memory.peak is not None else {PEAK: "the values at the peak are not known"}


def _why(known: ModuleDump) -> str:
    """Return why the memory of a module is not known."""
    if is_estimate_left_out(known):
        return not_estimated_text(len(hlo_text(known).columns), known.path, known.address)
    from hlo_lens.questions.memory.estimate import why_no_estimate

    return why_no_estimate(instruction_table(known)) or "the dump has no buffer assignment"
