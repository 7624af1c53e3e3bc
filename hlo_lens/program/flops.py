"""FLOP of matrix products and convolutions in one run of a program, on one device.

Counted are dot, scaled-dot, convolution and the matrix products and convolutions of cuBLAS, cuDNN
and oneDNN (``__cublas$gemm``, ``__cudnn$conv...``, ``__onednn$matmul``): two for each multiply and
add, in every computation (fusions, calls, loops, async computations), times the runs of the
computation. A convolution counts only the positions where window and input overlap, so that a TPU's
batched products, which are convolutions over padding, count once. Source:
HloCostAnalysis::HandleDot and GetConvolutionFlops (xla/service/hlo_cost_analysis.cc), which however
count the body of a loop once.

Not counted: elementwise operations. The arithmetic of other custom calls (Pallas and Triton
kernels, LAPACK, callbacks) is known only where their backend_config prints a ``cost_estimate``,
which is the estimate of the kernel's author; the total is unknown if there are others that run, if
a loop around a product has no known trip count, or if a shape is not in the text; `at_least` is
then the known part, without what such loops run. Of the branches of a conditional the largest
counts, and the total is an upper bound if they differ.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.load.fact import fact
from hlo_lens.program.branch_sums import Branches, SumBounds, SumPart, bounded_sum
from hlo_lens.program.call_counts import CallCounts, call_counts
from hlo_lens.program.hlo_text import instruction_table
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.shapes.shape import Shape

_GEMMS = ("__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8")
_CONVOLUTIONS = {
    "__cudnn$convForward": (0, 1, None),
    "__cudnn$convBiasActivationForward": (0, 1, None),
    "__cudnn$convForwardGraph": (0, 1, None),
    "__cudnn$convBackwardInput": (None, 1, 0),
    "__cudnn$convBackwardFilter": (0, None, 1),
}
"""Target to the numbers of the operands that are input, kernel and output of the forward
convolution; None for the result."""

_ONEDNN = ("__onednn$matmul",)

_SILENT_NAMES = """
    Pin Unpin GetRngSeed cu_threefry2x32 cu_threefry2x32_ffi __cudnn$norm
    AllocateBuffer AssumeGatherIndicesInBound GatherScatterIndicesBitpacked ConcatBitcast
    AsyncCollectiveStart AsyncCollectiveDone X64Combine X64SplitLow X64SplitHigh SliceId Sharding
    SPMDFullToShardShape SPMDShardToFullShape PartialReduce TopK __gpu$TopK
    annotate_device_placement MoveToHost MoveToDevice
    MegaScaleCollectiveOutputStart MegaScaleCollectiveOutputDone
    MegaScaleCollectiveInputStart MegaScaleCollectiveInputDone xla.sdy.GlobalToLocalShape
    xla.sdy.LocalToGlobalShape xla.sdy.FuncResultSharding LayoutConstraint ZeroCrop
"""
_SILENT = frozenset(_SILENT_NAMES.split())
"""Targets of custom calls without products."""

_ESTIMATE = re.compile(r'"cost_estimate":\{([^{}]*)\}')
_FLOPS = re.compile(r'"flops":"?(\d+)')
"""FLOP of a kernel in its backend_config, as its author estimates them; a zero may be left out
(jax/_src/tpu_custom_call.py, CostEstimate)."""

_LHS_CONTRACTING = re.compile(r'"lhs_contracting_dimensions":\[([^\]]*)\]')
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One matrix product, convolution or kernel; its fields are columns of `Flops`.

    None means not known. `known_times` is the number of runs with one trip of each loop without
    known trip count; `branches` as in `branch_sums`.
    """

    name: Annotated[str, "the instruction"]
    opcode: Annotated[str, "its opcode"]
    computation: Annotated[str, "computation that contains it"]
    flops: Annotated[int | None, Unit.COUNT, "multiplications and additions of one execution"]
    times: Annotated[int | None, Unit.COUNT, "executions in one run of the program"]
    is_at_most: Annotated[bool, "whether a conditional decides"] = False
    is_estimate: Annotated[bool, "whether it is the estimate of a kernel's author"] = False
    is_opaque: bool = False
    branches: Branches = ()
    known_times: int = 1

    @property
    def run_flops(
        self,
    ) -> Annotated[int | None, Unit.COUNT, "multiplications and additions in one run"]:
        """FLOP of one run; None if not known."""
        if self.flops == 0 or self.times == 0:
            return 0
        return None if self.flops is None or self.times is None else self.flops * self.times


@dataclass(frozen=True, kw_only=True)
class Flops(Records[Product]):
    """The products of a program.

    Attributes:
        products: Unknown ones first, then by FLOP, largest first.
        is_complete: Whether the text has the whole entry; else their sum is not known.
    """

    KIND: ClassVar[str] = "flops"
    products: tuple[Product, ...]
    is_complete: bool = True

    @property
    def total(self) -> int | None:
        """FLOP of one run, an upper bound if `is_at_most`; None if not known."""
        bounds = self._bounds
        return None if bounds is None else bounds.most

    @property
    def is_at_most(self) -> bool:
        """Whether the total is an upper bound: branches of a conditional have different FLOP."""
        bounds = self._bounds
        return bounds is not None and bounds.is_at_most

    @property
    def at_least(self) -> int | None:
        """Known FLOP of one run; a loop without known trip count may not run at all.

        None if the text does not show which products run.
        """
        if not self.is_complete:
            return None
        return bounded_sum(SumPart(p.branches, p.run_flops or 0) for p in self.products).least

    @property
    def of_single_trips(self) -> int | None:
        """Known FLOP of a run with one trip of each loop without known trip count.

        None if the trip counts of all loops around products are known.
        """
        if all(product.times is not None for product in self.products):
            return None
        parts = (SumPart(p.branches, (p.flops or 0) * p.known_times) for p in self.products)
        return bounded_sum(parts).least

    @property
    def is_estimate(self) -> bool:
        """Whether the total contains estimates of kernels' authors."""
        return any(product.is_estimate for product in self.products)

    @property
    def opaque(self) -> int:
        """Number of custom calls with unknown arithmetic."""
        return sum(product.is_opaque for product in self.products)

    @property
    def _bounds(self) -> SumBounds | None:
        amounts = [product.run_flops for product in self.products]
        known = [amount for amount in amounts if amount is not None]
        if len(known) < len(amounts) or not self.is_complete:
            return None
        branches = (product.branches for product in self.products)
        return bounded_sum(map(SumPart, branches, known))


@fact
def flops(module: ModuleDump) -> Flops:
    """Return the products of a module."""
    table = instruction_table(module)
    rows = table.rows_where(lambda traits: traits.is_product)
    if not rows:
        return Flops(products=(), is_complete=table.module.has_whole_entry)
    calls = call_counts(module)
    made = (_product_of(table.instruction(row), calls) for row in rows)
    products = [product for product in made if product is not None]
    products.sort(
        key=lambda p: (p.run_flops is not None, -(p.run_flops or 0), p.computation, p.name)
    )
    return Flops(products=tuple(products), is_complete=table.module.has_whole_entry)


def _product_of(instruction: HloInstruction, calls: CallCounts) -> Product | None:
    """Return a product or kernel.

    None for custom calls without products, and if nothing calls its computation (a reducer, or
    unused).
    """
    is_kernel = instruction.opcode == "custom-call" and not _is_product(instruction)
    if is_kernel and _is_silent(instruction):
        return None
    computation = instruction.computation
    runs = calls.at(computation.place)
    if runs.times is None and not calls.sites_at(computation.place):
        return None
    flops = _known_flops(instruction)
    return Product(
        name=instruction.name,
        opcode=instruction.opcode,
        computation=computation.name,
        flops=flops,
        times=runs.times,
        is_estimate=is_kernel and flops is not None,
        is_opaque=is_kernel and flops is None,
        branches=runs.branches,
        is_at_most=bool(runs.branches),
        known_times=runs.of_single_trips,
    )


def _known_flops(instruction: HloInstruction) -> int | None:
    try:
        return flops_of(instruction)
    except DumpSyntaxError:
        return None


def _target(instruction: HloInstruction) -> str:
    return (instruction.attribute("custom_call_target") or "").strip('"')


def _is_product(instruction: HloInstruction) -> bool:
    target = _target(instruction)
    return target in _GEMMS or target in _CONVOLUTIONS or target in _ONEDNN


def _is_silent(instruction: HloInstruction) -> bool:
    """Return whether a custom call has no arithmetic but that of the computations it runs."""
    module = instruction.computation.module
    if _target(instruction) in _SILENT:
        return True
    return any(module.computation(name) is not None for name in instruction.called_computations)


def flops_of(instruction: HloInstruction) -> int | None:
    """Return the FLOP of a dot, convolution, matrix product or kernel.

    None if a shape or a dimension is not in the text, for a kernel without ``cost_estimate``, and
    for ragged-dot, whose group sizes are data. 0 for other instructions, and for custom calls that
    run computations of the text.
    """
    if instruction.opcode in ("dot", "scaled-dot"):
        return _dot(instruction, instruction.attribute("lhs_contracting_dims") or "")
    if instruction.opcode == "convolution":
        return _convolution(instruction, (0, 1, None))
    if instruction.opcode == "ragged-dot":
        return None
    target = _target(instruction)
    if target in _CONVOLUTIONS:
        return _convolution(instruction, _CONVOLUTIONS[target])
    config = (instruction.attribute("backend_config") or "").replace("\\", "").replace(" ", "")
    if target in _ONEDNN:
        left = instruction.operand_shape(0)
        place = len(left.dimensions) - (2 if '"transpose_a":true' in config else 1) if left else -1
        return None if place < 0 else _dot(instruction, str(place))
    if target not in _GEMMS:
        is_silent = instruction.opcode != "custom-call" or _is_silent(instruction)
        return 0 if is_silent else _estimated(config)
    contracting = _LHS_CONTRACTING.search(config)
    return None if contracting is None else _dot(instruction, contracting[1])


def _estimated(config: str) -> int | None:
    """Return the FLOP of a kernel's ``cost_estimate``; None without one."""
    estimate = _ESTIMATE.search(config)
    if estimate is None:
        return None
    flops = _FLOPS.search(estimate[1])
    return 0 if flops is None else int(flops[1])


def _dot(instruction: HloInstruction, contracting: str) -> int | None:
    left = instruction.computation.module.links.operand_shape(instruction.row, 0)
    result = _first_array(instruction.shape)
    if left is None or result is None:
        return None
    places = [int(number) for number in _NUMBER.findall(contracting)]
    if any(place >= len(left.dimensions) for place in places):
        return None
    return _product(2, *result.dimensions, *(left.dimensions[k] for k in places))


def _convolution(
    instruction: HloInstruction, roles: tuple[int | None, int | None, int | None]
) -> int | None:
    """Return the FLOP of a convolution.

    Args:
        instruction: The instruction.
        roles: Numbers of the operands that are input, kernel and output; None for the result.
    """
    result = _first_array(instruction.shape)
    shapes = [result if role is None else instruction.operand_shape(role) for role in roles]
    from hlo_lens.program.convolution_sizes import convolution_sizes

    sizes = convolution_sizes(instruction, shapes)
    return None if sizes is None else sizes.flops


def _product(*sizes: int | None) -> int | None:
    """Return a product; None if a size is not known."""
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def _first_array(shape: Shape | None) -> Shape | None:
    """Return a shape, or the first element of a tuple: a matrix product also returns workspace."""
    if shape is None or not shape.is_tuple:
        return shape
    return shape.tuple_shapes[0] if shape.tuple_shapes else None
