"""Bytes of the tables of tuples on a TPU: a multiple of a step that depends on the chip.

The steps are observed: v3 1024 bytes, v4 and v5e 512, v5p, v6e and tpu7x 32. The chip is printed in
libtpu's description of the target, next to a dump. A text alone shows it by marks, if at all: texts
of v5e and v6e may be equal byte for byte. `Compiled.as_text()` has more marks than a dump.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule

_OLDEST, _LARGE, _SMALL = 1024, 512, 32

_VERSION = re.compile(r'version: TPU_VERSION_(\w+)(?:\s+variant: "(\w+)")?')
_STEPS = {
    ("JELLYFISH", None): _LARGE,
    ("DRAGONFISH", None): _OLDEST,
    ("PUFFERFISH", None): _LARGE,
    ("VIPERFISH", "lite"): _LARGE,
    ("VIPERFISH", None): _SMALL,
    ("GHOSTLITE", None): _SMALL,
    ("6acc60406", None): _SMALL,
}
"""Version and variant in libtpu's description of a target: v2, v3, v4, v5e, v5p, v6e, tpu7x."""

_OLDEST_MARKS = ("f32[]{:T(256)", "s32[]{:T(256)")
_V4_MARK = "S(3)}"
"""CMEM, which v4 alone has."""

_SMALL_MARKS = (
    '"megacore_config"',  # v5p, printed by Compiled.as_text() only
    "S(8)}",  # SparseCore of v5p and tpu7x
    "S(11)}",
    '"sparsecore"',
    "[]{:T(128)S(4)}",  # v6e and tpu7x
    '"TpuAdvancedMOF"',
    "T(16,128)(2,1)",  # tpu7x
)
_PRIORITY = re.compile(r'"dma_priority":"?[4-9]')
"""Priority of copies of tpu7x; older chips have 1."""

_SCOPED = re.compile(r'"memory_space":"1","offset":"\d+","size":"(\d{8,})"')
_MOST_SCOPED = 16 << 20
"""Most bytes of VMEM that a v5e gives to one instruction; v6e and tpu7x give more."""

_CYCLES = re.compile(
    r'^(?!.*kind=kOutput).*"estimated_cycles":"(1[7-9]\d\d|2[01]\d\d)"', re.MULTILINE
)
_V5E_CYCLES = range(1700, 2100)
_V6E_CYCLES = range(2120, 2180)
"""Cycles of the shortest vector loops with a transfer (only in Compiled.as_text()): v5e 1817 and
more, v6e 2120 and more."""

_SWAPPED = "dim_labels=fb_oi->bf"
"""A product whose operands are swapped: in texts of v6e and tpu7x only, but no property of them."""

_OTHER_CHIPS = 256
"""Devices of the largest v5e slice."""

_CUBE = 64
"""Devices of the smallest v5p slice of more than one host rack: taken as v5p rather than v5e."""

_V5P_HOST = 4
"""Devices of the smallest v5p slice; a v5e slice of four is as possible, but rarer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStep:
    """Step of the sizes of tables.

    Attributes:
        step: Every table has a multiple of it.
        other: The step that is possible too; equal to `step` if the chip is known.
    """

    step: int
    other: int

    @property
    def is_known(self) -> bool:
        """Whether only one step is possible."""
        return self.step == self.other

    @property
    def note(self) -> tuple[str, ...]:
        """A sentence on the guess, if it is one."""
        if self.is_known:
            return ()
        chips = {_LARGE: "v4 and v5e", _SMALL: "v5p, v6e and tpu7x"}
        return (
            f"tables of tuples are taken to be of {self.step} bytes, as on {chips[self.step]}, not "
            f"{self.other}, as on {chips[self.other]}: the text does not show the chip, and fits "
            "both (target_arguments.txt next to it decides)",
        )


def table_step(module: HloModule, target: str | None) -> TableStep:
    """Return the step of the tables of a TPU module.

    Args:
        module: The module.
        target: libtpu's description of the target; None if there is none.
    """
    found = _VERSION.search(target) if target else None
    step = _STEPS.get((found[1], found[2])) if found else None
    if step is None:
        step = _step_by_marks(module.columns.source.text)
    if step is not None:
        return TableStep(step=step, other=step)
    devices = module.num_partitions * module.replica_count
    is_v5p = devices in (_V5P_HOST, _CUBE) or devices > _OTHER_CHIPS
    if is_v5p or _SWAPPED in module.columns.source.text:
        return TableStep(step=_SMALL, other=_LARGE)
    return TableStep(step=_LARGE, other=_SMALL)


def _step_by_marks(text: str) -> int | None:
    """Return the step of the chip that a text shows, or None."""
    if any(mark in text for mark in _OLDEST_MARKS):
        return _OLDEST
    if _V4_MARK in text:
        return _LARGE
    if any(mark in text for mark in _SMALL_MARKS) or _PRIORITY.search(text):
        return _SMALL
    if '"estimated_cycles"' not in text:
        return None
    if any(int(size) > _MOST_SCOPED for size in _SCOPED.findall(text)):
        return _SMALL
    shortest = min(map(int, _CYCLES.findall(text)), default=0)
    if shortest in _V5E_CYCLES:
        return _LARGE
    return _SMALL if shortest in _V6E_CYCLES else None
