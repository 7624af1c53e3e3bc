"""Slices and spellings of one sharding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.sharding.device_slices import device_slices
from hlo_lens.analysis.sharding.spellings import sharding_spellings
from hlo_lens.report.sharding.one_value import ShardView, shard_page
from hlo_lens.text.errors import DumpMismatchError, UsageError

if TYPE_CHECKING:
    from hlo_lens.report.render.table import Report


def shard_report(view: ShardView) -> Report:
    """Return the report on one sharding.

    Raises:
        UsageError: If there is nothing to divide, or the sharding is for another number of
            dimensions.
    """
    devices = view.mesh.device_ids if view.mesh is not None else None
    try:
        slices = device_slices(view.sharding, view.shape, devices=devices)
        spellings = sharding_spellings(view.sharding, view.mesh, rank=view.shape.rank)
    except DumpMismatchError as error:  # the request is wrong, not a dump
        raise UsageError(str(error)) from error
    return shard_page(view, slices, spellings)
