"""Choice of the module that a report leads with: the likely training step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.questions.dumps.listing import known_listings
from hlo_lens.questions.dumps.module_groups import Lead, module_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress


def training_step_first(known: Sequence[ModuleDump]) -> list[int]:
    """Return the positions of modules, that of the likely training step first, logs last."""
    logs = [k for k, one in enumerate(known) if one.log is not None]
    rest = [k for k, one in enumerate(known) if one.log is None]
    place, _ = lead_of([known[k] for k in rest], None)
    return [*rest[place : place + 1], *rest[:place], *rest[place + 1 :], *logs]


class ModuleOrder(NamedTuple):
    """Order of the modules of a dump for people.

    Attributes:
        places: Positions of all modules: the one to lead with, then as in the listing, which has
            the largest first.
        lead: The first module's place among the others.
        others: Position of the largest module of each of the other groups, in their order.
    """

    places: list[int]
    lead: Lead
    others: list[int]


def lead_of(known: Sequence[ModuleDump], progress: Progress | None) -> tuple[int, Lead]:
    """Return the position of the module to lead with, and its place among the others."""
    order = module_order(known, progress)
    return next(iter(order.places), 0), order.lead


def module_order(known: Sequence[ModuleDump], progress: Progress | None = None) -> ModuleOrder:
    """Return the order of some modules for people."""
    all_places = list(range(len(known)))
    if len(known) < 2:
        return ModuleOrder(all_places, Lead(), [])
    facts = known_listings(known, progress=progress, on_all_cores=True)
    groups = module_groups(facts)
    best = groups.lead
    if best is None:
        return ModuleOrder(all_places, Lead(), [])
    place_of = {id(one): k for k, one in enumerate(facts)}
    listed = (place_of[id(one)] for group in groups.groups for one in group.modules)
    others = tuple(group for group in groups.groups if group is not best)
    return ModuleOrder(
        list(dict.fromkeys((place_of[id(best.largest)], *listed, *all_places))),
        Lead(group=best, others=replace(groups, groups=others)),
        [place_of[id(group.largest)] for group in others],
    )
