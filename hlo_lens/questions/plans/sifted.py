"""Findings of several modules by the user's settings, each module's own and those of all together.

Every command takes its findings from here, so that all print the same ones.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hlo_lens.load.module import ModuleDump
from hlo_lens.questions.dumps.listing import known_listings
from hlo_lens.questions.findings.dump_findings import dump_findings
from hlo_lens.questions.findings.finding import at
from hlo_lens.questions.findings.findings import Findings, together
from hlo_lens.questions.findings.module_findings import all_findings
from hlo_lens.questions.findings.places import call_place
from hlo_lens.questions.findings.run_settings import Sieve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.dumps.listing_facts import ListingFacts


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
