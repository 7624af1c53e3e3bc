"""Memory, communication and arithmetic of a whole program, with which savings are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.load.fact import fact
from hlo_lens.program.flops import flops
from hlo_lens.program.signature import entry_signature
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.results import memory_results

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding

_WIRE_TO_MEMORY = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Memory, communication and arithmetic of a program; None where not known."""

    memory_bytes: int | None
    wire_bytes: int | None
    flops: int | None

    @property
    def traffic(self) -> int:
        """Bytes that communication is compared with: all sent, or a sixteenth of memory."""
        return max(self.wire_bytes or 0, (self.memory_bytes or 0) // _WIRE_TO_MEMORY)

    def memory_share(self, size_bytes: int) -> float:
        """Return bytes as a share of what must fit; 0 if not known."""
        return size_bytes / self.memory_bytes if self.memory_bytes else 0.0

    def share(self, finding: Finding) -> float | None:
        """Return the largest share of the program that a finding saves; None if not known."""
        saves = finding.saves
        pairs = (
            (saves.weight_bytes, self.memory_bytes),
            (saves.wire_bytes, self.traffic),
            (saves.flops, self.flops),
        )
        shares = [part / whole for part, whole in pairs if part is not None and whole]
        return min(1.0, max(shares)) if shares else None


@fact
def whole(module: ModuleDump) -> Whole:
    """Return memory, communication and arithmetic of a module."""
    if module.hlo is None:
        return Whole(memory_bytes=None, wire_bytes=None, flops=None)
    memory, signature = memory_results(module), entry_signature(module)
    values = (*signature.parameters, *signature.outputs) if memory is None else ()
    size = sum(one.size_bytes or 0 for one in values)
    return Whole(
        memory_bytes=size if memory is None else memory.statement.total_bytes,
        wire_bytes=collectives(module).wire_bytes_per_device,
        flops=flops(module).total,
    )
