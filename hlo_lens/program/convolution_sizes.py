"""Sizes of a convolution: its labelled dimensions, and how window and input meet in each.

A TPU's batched products, and products that contract several dimensions, are convolutions whose
spatial dimensions are batches or contracted dimensions; `SpatialSize` distinguishes them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.shapes.shape import Shape

_LABELS = re.compile(r"(\w+)_(\w+)->(\w+)")
_LARGEST = 1 << 20
"""Size of a kernel whose positions are visited; damaged text has any."""

_FIELD = re.compile(r"(\w+)=(\S+?)(?=[\s}])")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpatialSize:
    """One spatial dimension of a convolution.

    Attributes:
        kernel: Size of the kernel.
        output: Size of the output.
        meetings: Number of pairs of kernel and output position on an input element.
    """

    kernel: int
    output: int
    meetings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionSizes:
    """Sizes of a convolution, by label.

    Attributes:
        source: Sizes of the input: ``b``, ``f`` and spatial dimensions.
        kernel: Sizes of the kernel: ``i``, ``o`` and spatial dimensions.
        output: Sizes of the output: ``b``, ``f`` and spatial dimensions.
        spatial: The spatial dimensions.
    """

    source: Mapping[str, int]
    kernel: Mapping[str, int]
    output: Mapping[str, int]
    spatial: tuple[SpatialSize, ...]

    @property
    def flops(self) -> int:
        """Two for each multiply and add, where window and input overlap."""
        meetings = math.prod(one.meetings for one in self.spatial)
        return 2 * self.kernel["i"] * self.output["f"] * self.output["b"] * meetings


def convolution_sizes(
    instruction: HloInstruction, shapes: Sequence[Shape | None]
) -> ConvolutionSizes | None:
    """Return the sizes of a convolution; None if a size or label is not in the text, or damaged.

    Args:
        instruction: The instruction, for its ``dim_labels`` and ``window``.
        shapes: Shapes of input, kernel and output of the forward convolution.
    """
    labels = _LABELS.search(instruction.attribute("dim_labels") or "")
    sizes = _labelled(shapes, labels.groups()) if labels is not None else None
    if sizes is None:
        return None
    source, kernel, output = sizes
    spatial = sorted(label for label in kernel if label.isdigit())
    windows = _windows(instruction.attribute("window") or "", len(spatial))
    if windows is None or any(k not in source or k not in output for k in spatial):
        return None
    if any(kernel[k] > _LARGEST for k in spatial):
        return None
    found = tuple(
        SpatialSize(
            kernel=kernel[k],
            output=output[k],
            meetings=window.meetings(source[k], kernel[k], output[k]),
        )
        for k, window in zip(spatial, windows, strict=True)
    )
    return ConvolutionSizes(source=source, kernel=kernel, output=output, spatial=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """One spatial dimension of a convolution's window."""

    stride: int = 1
    pad_low: int = 0
    input_dilation: int = 1
    kernel_dilation: int = 1

    def meetings(self, input_size: int, kernel_size: int, output_size: int) -> int:
        """Return the number of pairs of kernel and output position on an input element."""
        total = 0
        for kernel in range(kernel_size):
            start = kernel * self.kernel_dilation - self.pad_low
            total += self._hits(start, input_size * self.input_dilation, output_size)
        return total

    def _hits(self, start: int, end: int, count: int) -> int:
        """Count k in 0..count-1 with 0 <= start + k * stride < end, on an undilated element."""
        first = max(0, -(start // self.stride))
        last = min(count - 1, (end - 1 - start) // self.stride)
        common = math.gcd(self.input_dilation, self.stride)
        if start % common:
            return 0
        step = self.input_dilation // common
        hit = -(start // common) * pow(self.stride // common, -1, step)
        first += (hit - first) % step
        return max(0, (last - first) // step + 1)


def _labelled(
    shapes: Sequence[Shape | None], labels: Sequence[str]
) -> tuple[dict[str, int], dict[str, int], dict[str, int]] | None:
    """Return the size of each labelled dimension of input, kernel and output; None if unknown."""
    found = []
    for shape, names, needed in zip(shapes, labels, ("bf", "io", "bf"), strict=True):
        if shape is None or len(shape.dimensions) != len(names):
            return None
        sizes = {
            k: size for k, size in zip(names, shape.dimensions, strict=True) if size is not None
        }
        if len(sizes) != len(names) or any(label not in sizes for label in needed):
            return None
        found.append(sizes)
    return found[0], found[1], found[2]


def _windows(text: str, rank: int) -> list[_Window] | None:
    """Return the window of each spatial dimension; None if the text is damaged or of another rank.

    Strides and dilations are at least 1.
    """
    fields = {name: value.split("x") for name, value in _FIELD.findall(text.strip("{") + "}")}
    if any(len(values) != rank for values in fields.values()):
        return None

    def numbers(name: str, default: int) -> list[int]:
        values = fields.get(name)
        return [default] * rank if values is None else [int(v.split("_")[0]) for v in values]

    try:
        lows = numbers("pad", 0)
        steps = [numbers(name, 1) for name in ("stride", "lhs_dilate", "rhs_dilate")]
    except ValueError:
        return None
    if any(number < 1 for listed in steps for number in listed):
        return None
    return [
        _Window(stride=stride, pad_low=low, input_dilation=base, kernel_dilation=dilation)
        for low, stride, base, dilation in zip(lows, *steps, strict=True)
    ]
