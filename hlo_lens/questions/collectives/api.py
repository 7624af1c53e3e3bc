"""Collectives and loops of modules."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.load.programs import Program, Progress, analyses_of, analysis_of, with_progress
from hlo_lens.questions.collectives.explanation import explain_collectives
from hlo_lens.questions.dumps.leading import training_step_first
from hlo_lens.render.envelope import report_of_pages
from hlo_lens.text.errors import UnknownNameError
from hlo_lens.text.nearest_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.loops import Loops
    from hlo_lens.questions.collectives.page import CollectivesView
    from hlo_lens.questions.collectives.results import Collectives
    from hlo_lens.render.table import Report
    from hlo_lens.shapes.mesh import Mesh, MeshLike


def collectives(
    program: Program, *, module: str | None = None, mesh: MeshLike | None = None
) -> Collectives:
    """Return the collectives of a module, each logical operation once.

    >>> import hlo_lens
    >>> found = hlo_lens.collectives("sample_dumps/tpu/tp_mlp")
    >>> found.to_frame()[["name", "kind", "axes"]].iloc[0].tolist()
    ['all-reduce.11', 'all-reduce', ('model',)]
    >>> found.collectives[0].dynamic_count, found.collectives[0].payload_bytes
    (4, 16777216)

    Args:
        program: A path, HLO text, or what was read from either.
        module: Regular expression for the name of the module, where there are several.
        mesh: Mesh that names the axes, where no text does: ``{"data": 2, "model": 4}``.
    """
    from hlo_lens.questions.collectives import collectives as facts

    return facts.collectives(analysis_of(program, module, mesh))


def loops(program: Program, *, module: str | None = None) -> Loops:
    """Return the loops and branches of a module with their communication.

    >>> import hlo_lens
    >>> hlo_lens.loops("sample_dumps/cpu/tp_mlp/compiled.txt").to_frame()["loop"].tolist()
    ['main.10_spmd', 'while.30', 'while.35']
    """
    from hlo_lens.questions.collectives import loops as facts

    return facts.loops(analysis_of(program, module))


def collectives_report(
    modules: Sequence[ModuleDump],
    view: CollectivesView,
    *,
    mesh: Mesh | None = None,
    progress: Progress | None = None,
) -> Report:
    """Return the report on the collectives of some modules, to explain one of those that have it.

    Raises:
        UnknownNameError: If no module has the collective to explain.
    """
    from hlo_lens.questions.collectives.page import collectives_page

    known = analyses_of(modules, mesh)
    reasons = [() if view.why is None else explain_collectives(one, view.why) for one in known]
    if view.why is not None and not any(reasons):
        names = [name for one in known for name in _names(one)]
        hint = did_you_mean(view.why.removeprefix("%"), names)
        raise UnknownNameError(
            f"no collective is named {view.why!r}{hint or '; see hlo-lens collectives PATH -n 0'}"
        )
    pairs = [(one, why) for one, why in zip(known, reasons, strict=True) if why or not view.why]
    pages = (collectives_page(one, view, why) for one, why in with_progress(pairs, progress))
    shown = [one for one, _ in pairs]
    return report_of_pages("collectives", pages, partial(training_step_first, shown))


def _names(known: ModuleDump) -> list[str]:
    return [one.name for one in collectives(known).collectives] if known.has_hlo else []


def loops_report(
    modules: Sequence[ModuleDump], *, mesh: Mesh | None = None, progress: Progress | None = None
) -> Report:
    """Return the report on the loops of some modules."""
    from hlo_lens.questions.collectives.loops_page import loops_page

    known = analyses_of(modules, mesh)
    pages = map(loops_page, with_progress(known, progress))
    return report_of_pages("loops", pages, partial(training_step_first, known))
