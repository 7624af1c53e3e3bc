"""Memory, communication and arithmetic of a whole program, with which savings are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.analysis.findings.finding import Finding
    from hlo_lens.analysis.module_analysis import ModuleAnalysis

_WIRE_TO_MEMORY = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Memory, communication and arithmetic of a program; None where not known."""

    memory_bytes: int | None
    wire_bytes: int | None
    flops: int | None

    @classmethod
    def of(cls, known: ModuleAnalysis) -> Whole:
        """Return those of a module; `ModuleAnalysis.once` keeps them."""
        if not known.has_hlo:
            return cls(memory_bytes=None, wire_bytes=None, flops=None)
        memory = known.memory
        signature = (*known.signature.parameters, *known.signature.outputs)
        size = sum(one.size_bytes or 0 for one in signature) if memory is None else 0
        return cls(
            memory_bytes=size if memory is None else memory.statement.total_bytes,
            wire_bytes=known.collectives.wire_bytes_per_device,
            flops=known.flops.total,
        )

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
