"""Findings of all rules about the modules of a dump together, from their facts in a listing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.questions.findings.registry import all_rules
from hlo_lens.questions.findings.rule import DumpRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.questions.dumps.listing import ListingFacts
    from hlo_lens.questions.findings.finding import Finding


def dump_findings(modules: Sequence[ListingFacts]) -> dict[int, tuple[Finding, ...]]:
    """Return the findings by position of the module to blame.

    Args:
        modules: Facts of the modules; with fingerprints, if they are in several folders.
    """
    found: dict[int, list[Finding]] = {}
    for rule in all_rules():
        if isinstance(rule, DumpRule):
            for place, one in rule.find(modules):
                named = replace(one, code=rule.code, name=rule.name)
                found.setdefault(place, []).append(named)
    return {place: tuple(ones) for place, ones in found.items()}
