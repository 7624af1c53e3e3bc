"""Findings of several modules by the user's settings, each module's own and those of all together.

Every command takes its findings from here, so that all print the same ones.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hlo_lens.analysis.findings.dump_findings import dump_findings
from hlo_lens.analysis.findings.findings import Findings, together
from hlo_lens.analysis.findings.module_findings import module_findings
from hlo_lens.analysis.findings.places import call_place
from hlo_lens.analysis.module_analysis import ModuleAnalysis
from hlo_lens.api.findings.lint_settings import Sieve
from hlo_lens.api.listing import known_listings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.analysis.dumps.listing_facts import ListingFacts
    from hlo_lens.model.dump import ModuleDump


def with_sifted_findings(
    known: Sequence[ModuleAnalysis], sieve: Sieve | None = None
) -> list[ModuleAnalysis]:
    """Return analyses whose `module_findings` are sifted, with those about all modules together.

    Args:
        known: The modules of a command.
        sieve: Settings; None for the nearest ones.
    """
    together_ones = _Sifted(known, sieve or Sieve.usual())
    for place, one in enumerate(known):
        one.replace(module_findings, partial(together_ones.of_module, place))
    return list(known)


class _Sifted:
    """Findings of some modules; those about all of them are made when first asked for."""

    def __init__(self, known: Sequence[ModuleAnalysis], sieve: Sieve) -> None:
        self._known = known
        self._sieve = sieve

    @cached_property
    def _others(self) -> Mapping[int, Findings]:
        facts = known_listings(self._known)
        return sifted_dump_findings(facts, [one.dump for one in self._known], self._sieve)

    def of_module(self, place: int, known: ModuleAnalysis) -> Findings:
        """Return the findings of the module at a position."""
        own = sifted_module_findings(known, self._sieve)
        other = self._others.get(place)
        return own if other is None else together(own, other)


def sifted_module_findings(known: ModuleAnalysis, sieve: Sieve) -> Findings:
    """Return the findings of a module alone."""
    return sieve.sift(module_findings(known), known.dump.title)


def sifted_dump_findings(
    facts: Sequence[ListingFacts], dumps: Sequence[ModuleDump], sieve: Sieve
) -> dict[int, Findings]:
    """Return the findings about some modules together, by position of the module to blame."""
    found: dict[int, Findings] = {}
    for place, ones in dump_findings(facts).items():
        where = call_place(ModuleAnalysis(dumps[place]))
        placed = tuple(one if one.place else replace(one, place=where) for one in ones)
        found[place] = sieve.sift(Findings(findings=placed), dumps[place].title, is_of_dump=True)
    return found
