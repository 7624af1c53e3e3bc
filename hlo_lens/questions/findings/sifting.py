"""Findings of modules as the settings, comments and baseline of the user leave them.

Every command takes its findings from here, so that all print the same ones.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from hlo_lens.questions.dumps.listing import known_listings
from hlo_lens.questions.findings.dump_findings import dump_findings
from hlo_lens.questions.findings.finding import at
from hlo_lens.questions.findings.findings import Findings, together
from hlo_lens.questions.findings.module_findings import all_findings
from hlo_lens.questions.findings.places import call_place
from hlo_lens.questions.findings.run_settings import Sieve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.dumps.listing import ListingFacts


def with_sifted_findings(
    modules: Sequence[ModuleDump], sieve: Sieve | None = None
) -> list[ModuleDump]:
    """Return modules whose `module_findings` are sifted, with those about all modules together.

    Args:
        modules: The modules of a command.
        sieve: Settings; None for the nearest ones.
    """
    given = sieve or Sieve.usual()
    stated: list[ModuleDump] = []

    @cache  # made when findings are first asked for
    def others() -> dict[int, Findings]:
        return sifted_dump_findings(known_listings(stated), stated, given)

    def of_module(place: int, module: ModuleDump) -> Findings:
        own, other = sifted_module_findings(module, given), others().get(place)
        return own if other is None else together(own, other)

    stated += [one.stating(findings=partial(of_module, place)) for place, one in enumerate(modules)]
    return stated


def sifted_module_findings(module: ModuleDump, sieve: Sieve) -> Findings:
    """Return the findings of a module alone."""
    return sieve.sift(all_findings(module), module.title)


def sifted_dump_findings(
    facts: Sequence[ListingFacts], dumps: Sequence[ModuleDump], sieve: Sieve
) -> dict[int, Findings]:
    """Return the findings about some modules together, by position of the module to blame."""
    sifted: dict[int, Findings] = {}
    for place, findings in dump_findings(facts).items():
        call = call_place(dumps[place])
        placed = tuple(one if one.source_file else replace(one, **at(call)) for one in findings)
        together_ = Findings(findings=placed)
        sifted[place] = sieve.sift(together_, dumps[place].title, is_of_dump=True)
    return sifted
