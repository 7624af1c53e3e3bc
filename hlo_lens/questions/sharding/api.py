"""Shardings of parameters and outputs, their signature, and slices of one sharding."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.load.programs import Program, Progress, analyses_of, analysis_of, with_progress
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import no_hlo_text
from hlo_lens.questions.dumps.single_texts import SingleTexts
from hlo_lens.questions.report.leading import training_step_first
from hlo_lens.questions.sharding.page import sharding_page, sharding_page_of_texts
from hlo_lens.questions.sharding.results import sharding_results
from hlo_lens.render.envelope import ModulePage, report_of_pages
from hlo_lens.text.errors import DumpMismatchError, MissingDumpError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.signature import EntrySignature
    from hlo_lens.questions.sharding.page import ShardingView
    from hlo_lens.questions.sharding.placement import ShardingTable
    from hlo_lens.questions.sharding.shard import ShardView
    from hlo_lens.render.table import Report
    from hlo_lens.shapes.mesh import Mesh, MeshLike


def shardings(
    program: Program, *, module: str | None = None, mesh: MeshLike | None = None
) -> ShardingTable:
    """Return the shardings of the parameters and outputs of a module.

    >>> import hlo_lens
    >>> table = hlo_lens.shardings("sample_dumps/tpu/tp_mlp")
    >>> table.to_frame()[["name", "spec"]].iloc[2].tolist()
    ["params['w_in']", "P(None, None, 'model')"]

    Args:
        program: A path, HLO text, or what was read from either.
        module: Regular expression for the name of the module, where there are several.
        mesh: Mesh that names the axes; None for the one that arguments or texts name.
    """
    known = analysis_of(program, module, mesh)
    results = sharding_results(known)
    if results is None:
        raise MissingDumpError(f"{known.name}: {no_hlo_text(known)}")
    return results.table


def signature(program: Program, *, module: str | None = None) -> EntrySignature:
    """Return the parameters and outputs of a module; of one device if it is partitioned.

    >>> import hlo_lens
    >>> first = hlo_lens.signature("sample_dumps/tpu/tp_mlp").parameters[0]
    >>> first.name, first.shape, first.aliased_with
    ("params['b_in']", 'f32[4,1024]', '{0}')
    """
    return entry_signature(analysis_of(program, module))


def sharding_report(
    modules: Sequence[ModuleDump],
    view: ShardingView,
    *,
    mesh: Mesh | None = None,
    progress: Progress | None = None,
) -> Report:
    """Return the report on the sharding of some modules."""
    known = analyses_of(modules, mesh)
    pages = (_page(one, view) for one in with_progress(known, progress))
    return report_of_pages("sharding", pages, partial(training_step_first, known))


def _page(known: ModuleDump, view: ShardingView) -> ModulePage:
    if not known.has_hlo:
        texts = SingleTexts(known)
        sections = tuple(texts.sharding_sections())
        if sections:
            return sharding_page_of_texts(known, sections, texts.known_objects)
    return sharding_page(known, view)


def shard_report(view: ShardView) -> Report:
    """Return the report on one sharding.

    Raises:
        UsageError: If there is nothing to divide, or the sharding is for another number of
            dimensions.
    """
    from hlo_lens.questions.sharding.shard import device_slices, shard_page, sharding_spellings

    devices = view.mesh.device_ids if view.mesh is not None else None
    try:
        slices = device_slices(view.sharding, view.shape, devices=devices)
        spellings = sharding_spellings(view.sharding, view.mesh, rank=view.shape.rank)
    except DumpMismatchError as error:  # the request is wrong, not a dump
        raise UsageError(str(error)) from error
    return shard_page(view, slices, spellings)
