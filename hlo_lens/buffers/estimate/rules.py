"""Backend rules of buffer assignment: sizes of shapes, alignments, heap packing.

Sizes: on CPU and GPU an array takes its elements, a tuple 8 bytes per element
(cpu_executable.cc, gpu_compiler.cc: ShapeSizeBytes). On TPU an array takes its tiles; an array
without tiles takes multiples of 1024 elements, except semaphores (space 2); a tuple takes 4 bytes
per element, rounded up as in `tuple_tables`. Compiler versions are inferred from marks in the text.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.heap_layout import LayoutRules, pack_in_time
from hlo_lens.shapes.shape import Layout
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.shape import Shape


TPU_PAGE = 16384
"""Alignment of a TPU heap; Compiled.memory_analysis() rounds temporaries up to it."""

SEMAPHORES = 2
"""Memory space of semaphores, for which asynchronous operations wait."""

_SPARSE_SPACES = range(7, 16)
"""Memory spaces of SparseCores."""

_TPU_STEPS = {SEMAPHORES: 4, 6: 512, **dict.fromkeys(_SPARSE_SPACES, 4)}
"""Alignment in other memory spaces than HBM and VMEM: semaphores, scalars (observed)."""

POINTER = 8
"""Bytes of a pointer in a tuple's table on CPU and GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRules:
    """Rules of one backend and compiler version.

    Attributes:
        backend: ``cpu``, ``gpu`` or ``tpu``.
        measure: Bytes of an array or of the table of a tuple; None where they are not known.
        layout: How its heaps are laid out.
        color: Memory space of an array.
        whole: Shape of a result that is no element of a tuple, from the printed one; None for the
            same.
        notes: Which rules are guesses.
    """

    backend: str
    measure: Callable[[Shape], int | None]
    layout: LayoutRules
    color: Callable[[Shape], int] = operator.attrgetter("memory_space")
    whole: Callable[[Shape], Shape] | None = None
    notes: tuple[str, ...] = ()


def backend_rules(module: HloModule, told: str | None, target: str | None = None) -> BackendRules:
    """Return the rules for a module, inferred from marks of compiler and chip in its text.

    A backend that is not told is taken as ``cpu``; `target` is libtpu's description of a TPU.
    """
    text = module.columns.source.text
    if told == "tpu":
        step, other = table_step(module, target)
        notes = []
        if step != other:
            chips = {_LARGE: "v4 and v5e", _SMALL: "v5p, v6e and tpu7x"}
            notes.append(
                f"tables of tuples are taken to be of {step} bytes, as on {chips[step]}, not "
                f"{other}, as on {chips[other]}: the text does not show the chip, and fits both "
                "(target_arguments.txt next to it decides)"
            )
        if not _is_new_libtpu(text):
            notes.append(
                "temp may be up to twice as much: libtpu before 0.0.51 counts fragmentation twice, "
                "and the text does not show a newer one"
            )
        return BackendRules(
            backend="tpu",
            measure=lambda shape: _tpu_bytes(shape, step),
            color=_tpu_color,
            whole=_tpu_whole,
            layout=LayoutRules(
                alignment=TPU_PAGE,
                alignments=_TPU_STEPS,
                pack=pack_in_time,
                reuses_outputs=_is_old_libtpu(text),
            ),
            notes=tuple(notes),
        )
    if told == "gpu":
        # kXlaAllocatedBufferAlignBytes went from 128 to 256 between jaxlib 0.5.3 and 0.6.2
        is_old = '"operation_queue_id"' in text and _GPU_OF_2025.search(text) is None
        return BackendRules(
            backend="gpu",
            measure=_plain_bytes,
            layout=LayoutRules(alignment=128 if is_old else 256),
        )
    note = () if told else ("the text does not show its backend; assumed to be cpu",)
    return BackendRules(
        backend="cpu",
        measure=_plain_bytes,
        layout=LayoutRules(alignment=16 if _is_old_cpu(text) else 64),
        notes=note,
    )


_GPU_OF_2025 = re.compile(
    r'"device_type"|"force_earliest_schedule":\w+,"reification_cost"'
    r'|"reification_cost":\[[^]]*\],"(?:force_earliest_schedule|operation_queue_id|wait_on_op)'
)
"""Keys of backend configs since jaxlib 0.6; 0.5.3 has the second one in those of collectives."""

_NUMBERED_FUSION = re.compile(r"^ *(?:ROOT )?%?fusion[\w.]* = ", re.MULTILINE)
_NAMED_FUSION = re.compile(r"^ *(?:ROOT )?%?[\w.\-]+_fusion[\w.]* = ", re.MULTILINE)


def _is_old_cpu(text: str) -> bool:
    """Whether a CPU text is of jaxlib 0.4.30 or before, which aligned to 16 bytes.

    By the names of fusions: numbers only; since 0.4.35 named after their operations (observed).
    """
    return _NAMED_FUSION.search(text) is None and _NUMBERED_FUSION.search(text) is not None


_NEW_LIBTPU = ('{"aliasing_operands"', '"dma_priority"', '"buffering_level"')
"""Keys of backend configs since libtpu 0.0.50; only dumps sort the first one first."""


def _is_new_libtpu(text: str) -> bool:
    return any(key in text for key in _NEW_LIBTPU)


def _is_old_libtpu(text: str) -> bool:
    """Whether a TPU text is of libtpu 0.0.42 or before, by keys of its backend configs."""
    return '"flag_configs":[' in text and not _is_new_libtpu(text)


def _plain_bytes(shape: Shape) -> int | None:
    if shape.is_tuple:
        return POINTER * len(shape.tuple_shapes)
    if shape.is_opaque:
        return POINTER
    size = shape.size_bytes
    if size is not None and any(shape.dynamic_dimensions):
        size += 4 * shape.rank  # the dimension sizes follow the data
    return size


def _tpu_color(shape: Shape) -> int:
    """Return the memory space of an array; ``Compiled.as_text()`` omits that of semaphores."""
    if shape.element_type == "u32" and shape.layout is None and not shape.rank:
        return SEMAPHORES
    return shape.memory_space


def _tpu_whole(shape: Shape) -> Shape:
    """Return a scalar with a layout: only semaphores, in tuples of async starts, have none."""
    if shape.is_tuple or shape.layout is not None or shape.rank or shape.element_type != "u32":
        return shape
    return dataclasses.replace(shape, layout=Layout(minor_to_major=()))


def _tpu_bytes(shape: Shape, step: int) -> int | None:
    if shape.is_tuple:
        return round_up(4 * len(shape.tuple_shapes), step)
    layout = shape.layout
    if shape.is_token or shape.is_opaque or _tpu_color(shape) in (SEMAPHORES, *_SPARSE_SPACES):
        return shape.size_bytes
    count, size = shape.element_count, shape.size_bytes
    if layout is not None and layout.tiles:
        return shape.padded_size_bytes
    if not count or size is None:
        return size
    return round_up(count, 1024) * (size // count)


def round_up(number: int, multiple: int) -> int:
    """Return a number rounded up to a multiple."""
    return -(-number // multiple) * multiple


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


def table_step(module: HloModule, target: str | None) -> tuple[int, int]:
    """Return the step of the tables of a TPU module: each has a multiple of it.

    The second one is possible too where the chip is not known, and else the same. `target` is
    libtpu's description of the chip.
    """
    found = _VERSION.search(target) if target else None
    step = _STEPS.get((found[1], found[2])) if found else None
    if step is None:
        step = _step_by_marks(module.columns.source.text)
    if step is not None:
        return step, step
    devices = module.num_partitions * module.replica_count
    is_v5p = devices in (_V5P_HOST, _CUBE) or devices > _OTHER_CHIPS
    is_small = is_v5p or _SWAPPED in module.columns.source.text
    return (_SMALL, _LARGE) if is_small else (_LARGE, _SMALL)


def _step_by_marks(text: str) -> int | None:
    if any(mark in text for mark in _OLDEST_MARKS):
        return _OLDEST
    if _V4_MARK in text:
        return _LARGE
    if any(mark in text for mark in _SMALL_MARKS) or _PRIORITY.search(text):
        return _SMALL
    if '"estimated_cycles"' not in text:
        return None
    if any(bounded_int(size) > _MOST_SCOPED for size in _SCOPED.findall(text)):
        return _SMALL
    shortest = min(map(int, _CYCLES.findall(text)), default=0)
    if shortest in _V5E_CYCLES:
        return _LARGE
    return _SMALL if shortest in _V6E_CYCLES else None
