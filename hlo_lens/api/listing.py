"""The facts of many modules, read on all cores."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.analysis.dumps.listing_facts import ModuleFacts, module_facts
from hlo_lens.load.workers import map_modules
from hlo_lens.text.dump_files import title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hlo_lens.model.dump import ModuleDump

    Progress = Callable[[int, int], None]

_DIED = "the process that read it died; it may have run out of memory"


def facts_of(
    modules: Sequence[ModuleDump],
    *,
    progress: Progress | None = None,
    processes: int | None = None,
) -> list[ModuleFacts]:
    """Return the facts of modules, in their order; of one that cannot be read, the problem.

    Args:
        modules: Of one dump.
        progress: Called with modules done and modules in all.
        processes: How many to use; None for as many as help.
    """
    folders = {module.folder for module in modules}
    function = partial(module_facts, with_fingerprint=len(folders) > 1)
    found = map_modules(function, modules, progress=progress, processes=processes)
    return [
        _dead(module) if facts is None else facts
        for module, facts in zip(modules, found, strict=True)
    ]


def _dead(module: ModuleDump) -> ModuleFacts:
    stages = module.stages
    return ModuleFacts(
        name=title_of(module.name) or module.name,
        key=module.name,
        number=module.number,
        folder=module.folder,
        stage=module.stage,
        stages=sum(stage.pass_number is None for stage in stages),
        passes=sum(stage.pass_number is not None for stage in stages),
        files=len(module.files),
        problem=_DIED,
    )
