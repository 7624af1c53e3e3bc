"""Measure of transfers and of the work that overlaps them, as long as seconds are not known.

The unit is the time in which the links of a device send one byte. Work lasts at most as long as the
slowest device known takes, compared with its links: on every accelerator since NVIDIA's V100 and
TPU v2 device memory moves at least 2 bytes, and the arithmetic units do at least 50 FLOP of any
type, in the time in which all links together send one byte. So the share of a transfer that work
covers is an upper bound, and a transfer that is not covered by this measure is exposed.

With a table of devices both become seconds; nothing else depends on the unit.

Sources: data sheets: V100 (900 GB/s of memory, 7.8 TFLOP/s in float64, 150 GB/s of NVLink each
way: 6 and 52), A100 (1555, 9.7, 300), H100 (3350, 34, 450), B200 (8000, 40, 900), TPU v2 to tpu7x
(cloud.google.com/tpu/docs: 2.4 and above; no float64).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hlo_lens.program.flops import Work

_BYTES_EACH = 2
_FLOPS_EACH = 50


class Duration(NamedTuple):
    """Time that work takes, at most.

    Attributes:
        known: Time of its known parts.
        is_whole: Whether nothing about it is unknown.
    """

    known: float
    is_whole: bool


def transfer_time(size_bytes: int) -> float:
    """Return the least time that a transfer of bytes takes."""
    return float(size_bytes)


def work_time(work: Work) -> Duration:
    """Return the most time that work takes; reading and computing happen at the same time."""
    size, flops = work
    known = max((size or 0) / _BYTES_EACH, (flops or 0) / _FLOPS_EACH)
    return Duration(known, size is not None and flops is not None)
