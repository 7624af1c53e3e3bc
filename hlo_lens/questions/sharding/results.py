"""Results of all sharding passes on one module."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.load.fact import fact
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import instruction_table, num_devices
from hlo_lens.questions.sharding.replicated_bytes import ReplicatedBytes, replicated_bytes
from hlo_lens.questions.sharding.sources import ModuleShardings, module_shardings
from hlo_lens.questions.sharding.table import ShardingTable, sharding_table

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.sharding.annotations import ShardingAnnotations
    from hlo_lens.questions.sharding.donation import Donations
    from hlo_lens.shapes.mesh import Mesh


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
        from hlo_lens.questions.sharding.donation import donations

        before = self.found.before
        return donations(self.table, None if before is None else before.module)

    @functools.cached_property
    def annotations(self) -> ShardingAnnotations:
        """Sharding annotations inside the program."""
        from hlo_lens.questions.sharding.annotations import sharding_annotations

        return sharding_annotations((self.found.before or self.found.own).table, self.mesh)


@fact
def sharding_results(module: ModuleDump) -> ShardingResults | None:
    """Return the results of the sharding passes; None without HLO text.

    The text from before optimizations gives shapes and shardings of the whole program, which a
    program of one device does not need.
    """
    if module.hlo is None:
        return None
    reads_before = not module.given.is_quick or num_devices(module) > 1
    mesh = module.given.mesh
    found = module_shardings(
        module.hlo,
        module.before if reads_before else None,
        mesh,
        lowered=module.lowered_meshes if reads_before else (),
        known=(instruction_table(module), entry_signature(module)),
    )
    table = sharding_table(found)
    return ShardingResults(found=found, table=table, replicated=replicated_bytes(table), mesh=mesh)
