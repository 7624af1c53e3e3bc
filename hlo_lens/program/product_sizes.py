"""Sizes of a matrix product: the batch, rows, columns and depth of a dot or convolution.

A product multiplies, for each element of the batch, a matrix of rows x depth with one of depth x
columns. Dimensions that a product treats alike (all contracted ones; all free ones of an operand)
are taken together, as when they are reshaped into one. A spatial dimension of a convolution, in
which a TPU's compiler keeps further dimensions of a product, is one of rows if the kernel has size
1 there, of the batch if each output position meets one element of the kernel, and of rows and depth
otherwise.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.shapes.shape import Shape

_NUMBER = re.compile(r"\d+")
_NUMBERS = re.compile(r'"([lr]hs_(?:contracting|batch)_dim)ensions":\[([^\]]*)\]')
_GROUPS = ("feature_group_count", "batch_group_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSizes:
    """Sizes of a product.

    Attributes:
        batch: Number of products of matrices.
        rows: Rows of the left matrix, and of the result.
        columns: Columns of the right matrix, and of the result.
        depth: Elements of each sum.
        are_rows_minor: Whether neighbours in the result's memory are of one column, not of one row;
            None if the text does not show it.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    are_rows_minor: bool | None = None

    @property
    def flops(self) -> int:
        """Two for each multiply and add."""
        return 2 * self.batch * self.rows * self.columns * self.depth


def product_sizes(
    instruction: HloInstruction, operands: tuple[Shape | None, Shape | None] | None = None
) -> ProductSizes | None:
    """Return the sizes of a dot, convolution or matrix product of cuBLAS.

    None for other instructions, for grouped convolutions, which need not be matrix products, and if
    a size is not in the text.

    Args:
        instruction: The instruction.
        operands: Shapes to take for those of the operands of a dot or matrix product.
    """
    if instruction.opcode == "convolution":
        return _convolution(instruction)
    config = _config(instruction)
    if instruction.opcode != "dot" and not config:
        return None
    shapes = operands or (instruction.operand_shape(0), instruction.operand_shape(1))
    left, right = _sizes(shapes[0]), _sizes(shapes[1])
    if left is None or right is None:
        return None
    names = ("lhs_contracting_dim", "lhs_batch_dim", "rhs_contracting_dim", "rhs_batch_dim")
    places = [config.get(name, instruction.attribute(f"{name}s")) for name in names]
    depth, batch = _of(left, places[0]), _of(left, places[1])
    right_depth, right_batch = _of(right, places[2]), _of(right, places[3])
    if not depth or not batch or not right_depth or not right_batch:
        return None
    outer = len(_NUMBER.findall(places[1] or ""))
    inner = len(left) - len(_NUMBER.findall(places[0] or ""))
    minor = _minor(instruction.shape)
    return ProductSizes(
        batch=batch,
        rows=math.prod(left) // (depth * batch),
        columns=math.prod(right) // (right_depth * right_batch),
        depth=depth,
        are_rows_minor=None if minor is None or minor < outer else minor < inner,
    )


def _config(instruction: HloInstruction) -> dict[str, str]:
    """Return the dimension numbers of a matrix product of cuBLAS; none of other instructions."""
    target = instruction.attribute("custom_call_target") or ""
    if not target.strip('"').startswith("__cublas$"):
        return {}
    text = (instruction.attribute("backend_config") or "").replace("\\", "").replace(" ", "")
    return dict(_NUMBERS.findall(text))


def _minor(shape: Shape | None) -> int | None:
    """Return the number of the most minor dimension of an array; None if not known."""
    layout = None if shape is None or shape.is_tuple else shape.layout
    return layout.minor_to_major[0] if layout is not None and layout.minor_to_major else None


def _sizes(shape: Shape | None) -> tuple[int, ...] | None:
    if shape is None or shape.is_tuple:
        return None
    known = tuple(size for size in shape.dimensions if size is not None)
    return known if len(known) == len(shape.dimensions) else None


def _of(sizes: Sequence[int], places: str | None) -> int | None:
    """Return the product of the sizes of some dimensions, 1 for none; None if there are fewer."""
    numbers = [int(number) for number in _NUMBER.findall(places or "")]
    if any(number >= len(sizes) for number in numbers):
        return None
    return math.prod(sizes[number] for number in numbers)


def _convolution(instruction: HloInstruction) -> ProductSizes | None:
    if any((instruction.attribute(name) or "1") != "1" for name in _GROUPS):
        return None
    shapes = (instruction.operand_shape(0), instruction.operand_shape(1), instruction.shape)
    from hlo_lens.program.convolution_sizes import convolution_sizes

    sizes = convolution_sizes(instruction, shapes)
    if sizes is None:
        return None
    batch, rows, depth = 1, sizes.output["b"], sizes.kernel["i"]
    minors: dict[str, bool | None] = {"b": True, "f": False}
    for number, one in enumerate(sizes.spatial):
        is_batch = one.kernel > 1 and one.meetings == one.output
        minors[str(number)] = None if is_batch else True
        batch *= one.output if is_batch else 1
        rows *= 1 if is_batch else one.output
        if one.kernel > 1 and not is_batch:
            depth *= max(1, -(-one.meetings // max(1, one.output)))
    minor = _minor(instruction.shape)
    label = None if minor is None else list(sizes.output)[minor]
    return ProductSizes(
        batch=batch,
        rows=rows,
        columns=sizes.output["f"],
        depth=depth,
        are_rows_minor=None if label is None else minors.get(label),
    )
