"""Matrix units of TPUs.

Figures of a chip: size of the unit, FLOP of bf16 and bytes of its memory in one second, at most.
Source: jax/_src/tpu_info.py (August 2026).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixUnit:
    """The matrix unit of a TPU.

    Attributes:
        side: Rows and columns of the unit.
        peak_flops: FLOP of bf16 that a chip does in one second.
        memory_bandwidth: Bytes that a chip reads from its memory in one second.
    """

    side: int
    peak_flops: float
    memory_bandwidth: float

    @property
    def flops_per_byte(self) -> float:
        """FLOP done in the time in which one byte is read."""
        return self.peak_flops / self.memory_bandwidth


MATRIX_UNITS = {
    "v2": MatrixUnit(side=128, peak_flops=4.6e13, memory_bandwidth=7.16e11),
    "v3": MatrixUnit(side=128, peak_flops=1.40e14, memory_bandwidth=8.25e11),
    "v4": MatrixUnit(side=128, peak_flops=2.75e14, memory_bandwidth=1.23e12),
    "v5e": MatrixUnit(side=128, peak_flops=1.97e14, memory_bandwidth=8.20e11),
    "v5p": MatrixUnit(side=128, peak_flops=4.59e14, memory_bandwidth=2.46e12),
    "v6e": MatrixUnit(side=256, peak_flops=9.20e14, memory_bandwidth=1.64e12),
    "tpu7x": MatrixUnit(side=256, peak_flops=2.31e15, memory_bandwidth=7.40e12),
}
"""Matrix unit of each kind of `targets.TPU_KINDS`, by name."""

SMALLEST_SIDE = min(unit.side for unit in MATRIX_UNITS.values())
"""Side of the unit of a TPU that is not known."""

SUBLANES = 8
"""Rows of the matrix that is multiplied by one in the unit: ``[8, 128] @ [128, 128]``."""
