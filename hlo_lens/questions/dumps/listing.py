"""Listing of the modules of a dump, read on all cores."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.load.fact import plant
from hlo_lens.load.programs import with_progress
from hlo_lens.questions.dumps.listing_facts import (
    ListingFacts,
    hashed_facts,
    listing_facts,
    named_facts,
)
from hlo_lens.questions.dumps.module_groups import module_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import Dump, ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.dumps.listing_page import Listing

_DIED = "the process that read it died; it may have run out of memory"


def list_modules(
    dump: Dump,
    modules: Sequence[ModuleDump],
    *,
    sort: str = "peak",
    is_grouped: bool = True,
    progress: Progress | None = None,
) -> Listing:
    """Return the listing of some modules of a dump.

    Args:
        dump: The dump.
        modules: Those of its modules to list.
        sort: Order of the groups: ``peak``, ``size``, ``flops`` or ``name``.
        is_grouped: Whether the compiles of one function are one row.
        progress: Called with modules done and modules in all.
    """
    from hlo_lens.questions.dumps.across_processes import across_processes, process_difference
    from hlo_lens.questions.dumps.listing_page import Listing  # reports use the facts alone

    facts = facts_of(modules, progress=progress)
    groups = module_groups(facts, sort=sort, is_grouped=is_grouped)
    across = across_processes(facts) if len(groups.processes) > 1 else None
    return Listing(
        dump=dump,
        facts=facts,
        sort=sort,
        is_grouped=is_grouped,
        groups=groups,
        across=across,
        difference=None if across is None else process_difference(across, modules),
    )


def known_listings(
    known: Sequence[ModuleDump], *, progress: Progress | None = None, on_all_cores: bool = False
) -> list[ListingFacts]:
    """Return the facts of modules, computed once; those of logs have names only.

    Args:
        known: The modules, whose results the facts are taken from.
        progress: Called with modules done and modules in all.
        on_all_cores: Whether to compute those of many modules on all cores, apart from `known`.
    """
    programs = [one for one in known if one.log is None]
    make = hashed_facts if needs_fingerprints(programs) else listing_facts
    if on_all_cores and _are_many(len(programs)):
        facts = facts_of(programs, progress=progress)
        for one, made in zip(programs, facts, strict=True):
            plant(one, make, made)
        progress = None
    return [
        named_facts(one) if one.log is not None else make(one)
        for one in with_progress(known, progress)
    ]


def _are_many(modules: int) -> bool:
    from hlo_lens.load.workers import FEW  # imports what starts processes

    return modules >= FEW


def needs_fingerprints(dumps: Sequence[ModuleDump]) -> bool:
    """Return whether findings compare the programs of modules: those of several processes."""
    if len({one.folder for one in dumps}) <= 1:
        return False
    from hlo_lens.questions.dumps.across_processes import has_processes

    return has_processes([*map(named_facts, dumps)])


def _limited(module: ModuleDump, *, with_fingerprint: bool) -> ListingFacts:
    """Return the facts of a module with limited estimates, and keep no others."""
    facts = hashed_facts if with_fingerprint else listing_facts
    return facts(module.stating(limits_estimate=True))


def facts_of(
    modules: Sequence[ModuleDump],
    *,
    progress: Progress | None = None,
    processes: int | None = None,
) -> list[ListingFacts]:
    """Return the facts of modules, in their order; of one that cannot be read, the problem.

    Args:
        modules: Modules of one dump.
        progress: Called with modules done and modules in all.
        processes: Number of worker processes; None for as many as help.
    """
    from hlo_lens.load.workers import map_modules

    folders = {module.folder for module in modules}
    function = partial(_limited, with_fingerprint=len(folders) > 1)
    found = map_modules(function, modules, progress=progress, processes=processes)
    return [
        named_facts(module, problem=_DIED) if facts is None else facts
        for module, facts in zip(modules, found, strict=True)
    ]
