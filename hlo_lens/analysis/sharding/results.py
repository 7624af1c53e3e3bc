"""Results of all sharding passes on one module."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.sharding.replicated_bytes import ReplicatedBytes, replicated_bytes
from hlo_lens.analysis.sharding.sources import ModuleShardings, module_shardings
from hlo_lens.analysis.sharding.table import ShardingTable, sharding_table

if TYPE_CHECKING:
    from hlo_lens.analysis.program.entry_signature import EntrySignature
    from hlo_lens.analysis.sharding.annotations import ShardingAnnotations
    from hlo_lens.analysis.sharding.donation import Donations
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.model.hlo.query import InstructionTable
    from hlo_lens.model.shapes.mesh import Mesh


@dataclass(frozen=True, kw_only=True)
class ShardingResults:
    """Results of the sharding passes on one module; `donations` and `annotations` run when read.

    Attributes:
        found: Sources of shardings and meshes.
        table: Parameters and outputs.
        replicated: Values held by several devices.
        mesh: Mesh named by the user.
    """

    found: ModuleShardings
    table: ShardingTable
    replicated: ReplicatedBytes
    mesh: Mesh | None

    @property
    def is_complete(self) -> bool:
        """Whether the table has all parameters and outputs: the text has the whole entry."""
        return self.found.own.signature.is_complete

    @functools.cached_property
    def donations(self) -> Donations:
        """Donation of arguments to results."""
        from hlo_lens.analysis.sharding.donation import donations

        before = self.found.before
        return donations(self.table, None if before is None else before.module)

    @functools.cached_property
    def annotations(self) -> ShardingAnnotations:
        """Sharding annotations inside the program."""
        from hlo_lens.analysis.sharding.annotations import sharding_annotations

        return sharding_annotations((self.found.before or self.found.own).table, self.mesh)


def sharding_results(
    dump: ModuleDump,
    mesh: Mesh | None = None,
    *,
    read_before: bool = True,
    known: tuple[InstructionTable, EntrySignature] | None = None,
) -> ShardingResults | None:
    """Return the results of the sharding passes; None without HLO text.

    Args:
        dump: The module.
        mesh: Mesh named by the user; None for the one that the texts name.
        read_before: Whether to read the text from before optimizations, which a program of one
            device does not need for its shapes.
        known: Table and signature of the module, if they exist already.
    """
    module = dump.hlo
    if module is None:
        return None
    before, lowered = (dump.before, dump.lowered_meshes) if read_before else (None, ())
    found = module_shardings(module, before, mesh, lowered=lowered, known=known)
    table = sharding_table(found)
    return ShardingResults(found=found, table=table, replicated=replicated_bytes(table), mesh=mesh)
