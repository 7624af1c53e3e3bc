"""Changes of a subject over the texts of the compiler's passes, read on all cores."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.load.workers import map_modules
from hlo_lens.program.summary import backend_of_dump, no_hlo_text
from hlo_lens.questions.dumps.pass_track import (
    NAME,
    PassTrack,
    Subject,
    measure,
    pass_track,
    subject_of,
    tracked_stages,
)
from hlo_lens.questions.dumps.passes_page import passes_page
from hlo_lens.render.envelope import report_of_pages
from hlo_lens.text.dump_kinds import TEXT_FLAGS
from hlo_lens.text.errors import MissingDumpError, UnknownNameError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.render.table import Report

_NAMES_SHOWN = 8
_FLAG = f"{TEXT_FLAGS} --xla_dump_hlo_pass_re=.*"


def passes_report(
    modules: Sequence[ModuleDump], words: Sequence[str], *, progress: Progress | None = None
) -> Report:
    """Return the report on the pass after which each subject appears or disappears.

    Args:
        modules: Modules; those without texts of passes are left out.
        words: Subjects: a kind of collective, an opcode, ``temp``, ``alias``, or the name of an
            instruction.
        progress: Called with texts done and texts in all, for each module.

    Raises:
        MissingDumpError: If no module has texts of passes.
        UnknownNameError: If a name is in no text.
    """
    subjects = [subject_of(word) for word in dict.fromkeys(words)]
    pages = (
        passes_page(module, track(module, subjects, progress=progress))
        for module in modules_with_passes(modules)
    )
    return report_of_pages("passes", pages)


def modules_with_passes(modules: Sequence[ModuleDump]) -> list[ModuleDump]:
    """Return the modules that have texts of passes, whole modules rather than parts.

    Raises:
        MissingDumpError: If there are none; the message names the flag.
    """
    found = [m for m in modules if any(stage.pass_number is not None for stage in m.stages)]
    whole = [m for m in found if any(stage.pass_number is None for stage in m.stages)]
    if not found and modules and all(module.module_text is None for module in modules):
        raise MissingDumpError(f"{modules[0].name}: {no_hlo_text(modules[0])}")
    if not found:
        names = sorted({stage.name for module in modules for stage in module.stages})
        there = f"there is {listed(names, _NAMES_SHOWN)}" if names else "its names show no stage"
        raise MissingDumpError(
            f"no texts of single passes in this dump ({there}); compile again with "
            f'XLA_FLAGS="{_FLAG}"'
        )
    return whole or found


def track(
    module: ModuleDump, subjects: Sequence[Subject], *, progress: Progress | None = None
) -> tuple[PassTrack, ...]:
    """Return the changes of each subject over the texts of a module.

    Raises:
        UnknownNameError: If a name is in no text.
    """
    stages = tracked_stages(module)
    dumps = [stage.dump.get() or module for stage in stages]
    function = partial(measure, subjects=tuple(subjects), backend=backend_of_dump(module))
    found = map_modules(function, dumps, progress=progress)
    tracks = []
    for place, subject in enumerate(subjects):
        measures = [None if one is None else one[place] for one in found]
        if subject.kind == NAME and not any(one is not None and one.count for one in measures):
            raise _unknown(subject, module, dumps)
        tracks.append(pass_track(subject, stages, measures))
    return tuple(tracks)


def _unknown(subject: Subject, module: ModuleDump, dumps: Sequence[ModuleDump]) -> UnknownNameError:
    names = {
        instruction.name
        for dump in (dumps[0], dumps[-1])
        if dump.hlo is not None
        for instruction in dump.hlo.instructions
    }
    hint = did_you_mean(subject.text, sorted(names))
    return UnknownNameError(
        f"{module.name}: {subject.text} is in no text: it is neither temp, alias, a collective or "
        f"other opcode, nor the name of an instruction{hint}"
    )
