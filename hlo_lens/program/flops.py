"""Sizes of a convolution: its labelled dimensions, and how window and input meet in each.

A TPU's batched products, and products that contract several dimensions, are convolutions whose
spatial dimensions are batches or contracted dimensions; `SpatialSize` distinguishes them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import OpcodeTraits, opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.program.runs import Branches, CallCounts, SumBounds, SumPart, bounded_sum, call_counts
from hlo_lens.program.summary import instruction_table
from hlo_lens.render.result import Records, Unit, sum_of
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.runs import CallCounts
    from hlo_lens.shapes.shape import Shape, ShapeIndex


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
_FLOPS_NUMBER = re.compile(r"\d+")


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
        return _flops_convolution(instruction, (0, 1, None))
    if instruction.opcode == "ragged-dot":
        return None
    target = _target(instruction)
    if target in _CONVOLUTIONS:
        return _flops_convolution(instruction, _CONVOLUTIONS[target])
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
    places = [int(number) for number in _FLOPS_NUMBER.findall(contracting)]
    if any(place >= len(left.dimensions) for place in places):
        return None
    return _product(2, *result.dimensions, *(left.dimensions[k] for k in places))


def _flops_convolution(
    instruction: HloInstruction, roles: tuple[int | None, int | None, int | None]
) -> int | None:
    """Return the FLOP of a convolution.

    Args:
        instruction: The instruction.
        roles: Numbers of the operands that are input, kernel and output; None for the result.
    """
    result = _first_array(instruction.shape)
    shapes = [result if role is None else instruction.operand_shape(role) for role in roles]

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


CUSTOM = "custom-call"

_IDLE_TARGETS = tuple(
    f'custom_call_target="{target}"'
    for target in (
        *("AllocateBuffer", "ConcatBitcast", "AsyncCollectiveStart", "AsyncCollectiveDone"),
        *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint"),
    )
)
"""Custom calls that do no work when they run."""

_UPDATED = {"dynamic-update-slice": 1, "scatter": 2}
"""Opcodes that overwrite a part of operand 0, and the number of the operand with that part."""


class Work(NamedTuple):
    """Work of instructions; None where not known.

    Attributes:
        size_bytes: Bytes read and written.
        flops: Multiplications and additions of products.
    """

    size_bytes: int | None
    flops: int | None

    def times(self, count: int | None) -> Work:
        """Return the work of several runs."""
        return Work(*(_instruction_work_product(amount, count) for amount in self))


NO_WORK = Work(0, 0)


def _instruction_work_product(amount: int | None, count: int | None) -> int | None:
    if amount == 0 or count == 0:
        return 0
    return None if amount is None or count is None else amount * count


def _least(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one, other)


def total_work(parts: Iterable[Work]) -> Work:
    """Return the sum of some work."""
    listed = list(parts)
    return Work(sum_of(one.size_bytes for one in listed), sum_of(one.flops for one in listed))


def _largest(parts: Sequence[Work]) -> Work:
    """Return the largest bytes and the largest FLOP of several; None if one is not known."""
    sizes = [one.size_bytes for one in parts if one.size_bytes is not None]
    flops = [one.flops for one in parts if one.flops is not None]
    return Work(
        max(sizes, default=0) if len(sizes) == len(parts) else None,
        max(flops, default=0) if len(flops) == len(parts) else None,
    )


class WorkFinder:
    """Finds the work of instructions; that of each computation is found once.

    Args:
        table: Table of the module.
        calls: Trip counts of its loops.
    """

    def __init__(self, table: InstructionTable, calls: CallCounts) -> None:
        self._table = table
        self._calls = calls
        self._links = table.module.links
        self._run: dict[int, Work] = {}
        self._fused: dict[int, Work] = {}

    def of(self, row: int) -> Work:
        """Return the work of one run of an instruction."""
        opcode = self._table.opcodes[row]
        traits = opcode_traits(opcode)
        if traits.is_collective or traits.phase or _is_idle(traits):
            return NO_WORK
        if opcode == CUSTOM and self._is_idle_call(row):
            return NO_WORK
        if opcode == "fusion":
            body = next(iter(self._called(row)), NOTHING)
            return Work(self._moved(row), None) if body == NOTHING else self._of_fusion(body)
        if traits.is_control_flow:
            return self._of_control(row, opcode)
        inside = [self._of_computation(place).flops for place in self._run_by(row, opcode)]
        return Work(self._moved(row), sum_of([self._flops(row, traits), *inside]))

    def _run_by(self, row: int, opcode: str) -> list[int]:
        """Return the computations of the text that a custom call runs."""
        return [one for one in self._called(row) if one != NOTHING] if opcode == CUSTOM else []

    def _is_idle_call(self, row: int) -> bool:
        text = self._table.module.columns.attributes_text(row)
        return any(target in text for target in _IDLE_TARGETS)

    def _called(self, row: int) -> list[int]:
        return [call.place for call in self._links.calls.of_row(row)]

    def _of_control(self, row: int, opcode: str) -> Work:
        """Return the work of a loop, a conditional or a call."""
        parts = [self._of_computation(place) for place in self._called(row)]
        if opcode == "conditional":
            return _largest(parts)
        if opcode != "while":
            return total_work(parts)
        return total_work(parts).times(self._calls.trip_count(self._table.instruction(row)))

    def _of_computation(self, place: int) -> Work:
        if place == NOTHING:
            return Work(None, None)
        if place not in self._run:
            self._run[place] = Work(None, None)  # seen by a computation that calls itself
            rows = self._table.module.computations[place].rows
            self._run[place] = total_work([self.of(row) for row in rows])
        return self._run[place]

    # ---- bytes ---------------------------------------------------------------------------------

    def _size(self, row: int) -> int | None:
        return None if row == NOTHING else self._table.result_bytes(row)

    def _element_size(self, row: int, element: ShapeIndex) -> int | None:
        """Return the bytes of an element of a tuple (``%w#1``), or of the whole result."""
        if not element or row == NOTHING:
            return self._size(row)
        shape = self._table.instruction(row).shape_of(element)
        return None if shape is None else shape.size_bytes

    def _operands(self, row: int) -> list[tuple[int, ShapeIndex]]:
        """Return the row of each operand and the tuple index into its result."""
        operands = self._links.operands_of(row)
        elements = self._links.elements_of(row) or repeat((), len(operands))
        return [*zip(operands, elements, strict=True)]

    def _moved(self, row: int) -> int | None:
        """Return the bytes that an instruction, no fusion, reads and writes."""
        opcode, operands = self._table.opcodes[row], self._operands(row)
        if opcode_traits(opcode).is_cut:
            return _instruction_work_product(self._size(row), 2)
        if opcode in _UPDATED:
            part = _UPDATED[opcode]
            return _instruction_work_product(
                self._element_size(*operands[part]) if part < len(operands) else None, 2
            )
        return sum_of([self._size(row), *(self._element_size(*one) for one in operands)])

    def _of_fusion(self, place: int) -> Work:
        """Return the work of a fusion, found once for each computation."""
        if place not in self._fused:
            self._fused[place] = Work(None, None)  # seen by a computation that calls itself
            self._fused[place] = self._of_body(place)
        return self._fused[place]

    def _of_body(self, place: int) -> Work:
        """Return the work of the computation of a fusion."""
        computation = self._table.module.computations[place]
        flops: list[int | None] = []
        read: list[int | None] = []
        for row, opcode in zip(
            computation.rows, self._table.opcodes.at(computation.rows), strict=True
        ):
            if opcode == "parameter":
                read.append(self._read(row))
            elif opcode == "fusion":
                flops.append(self.of(row).flops)
            elif (traits := opcode_traits(opcode)).is_product:
                flops.append(self._flops(row, traits))
        written = self._written(computation.root_row)
        return Work(sum_of([*read, written]), sum_of(flops))

    def _read(self, row: int, above: frozenset[int] = frozenset()) -> int | None:
        """Return the bytes of a value of a body that its users read, at most all.

        None if the value is one of those `above`, from which it is reached, as in a damaged text.
        """
        if row in above:
            return None
        whole, above = self._size(row), above | {row}
        total: int | None = 0
        for user, position in self._links.users_of(row):
            opcode = self._table.opcodes[user]
            traits = opcode_traits(opcode)
            used = self._element_size(*self._links.operand(user, position))
            if (traits.is_cut or opcode in _UPDATED) and position == 0:
                used = self._size(user) if traits.is_cut else 0
            elif opcode in ("bitcast", "get-tuple-element"):
                used = self._read(user, above)
            elif traits.is_collective or traits.is_view or self._is_carrying(user, opcode):
                used = 0
            total = sum_of([total, used])
        return None if total is None or whole is None else min(total, whole)

    def _is_carrying(self, row: int, opcode: str) -> bool:
        return opcode == CUSTOM and self._is_idle_call(row)

    def _written(self, row: int, above: frozenset[int] = frozenset()) -> int | None:
        """Return the bytes that the root of a body writes; None if it is one of those `above`."""
        if row == NOTHING or row in above:
            return None
        above |= {row}
        opcode = self._table.opcodes[row]
        operands = self._operands(row)
        traits = opcode_traits(opcode)
        if opcode == "tuple":
            return sum_of([self._written_part(*one, above) for one in operands])
        if opcode in ("bitcast", "opt-barrier") and operands:
            return self._written_part(*operands[0], above)
        if opcode == "get-tuple-element" and operands:
            return _least(self._written_part(*operands[0], above), self._size(row))
        if traits.is_collective or _is_idle(traits) or self._is_carrying(row, opcode):
            return 0
        if opcode in _UPDATED and _UPDATED[opcode] < len(operands):
            return self._element_size(*operands[_UPDATED[opcode]])
        return self._size(row)

    def _written_part(self, row: int, element: ShapeIndex, above: frozenset[int]) -> int | None:
        """Return the bytes that a body writes of a value or an element of it."""
        written = self._written(row, above)
        return _least(written, self._element_size(row, element)) if element else written

    # ---- FLOP ----------------------------------------------------------------------------------

    def _flops(self, row: int, traits: OpcodeTraits) -> int | None:
        if not traits.is_product:
            return 0
        try:
            return flops_of(self._table.instruction(row))
        except DumpSyntaxError:
            return None


def _is_idle(traits: OpcodeTraits) -> bool:
    """Return whether an opcode does nothing when it runs."""
    return traits.is_idle or (traits.is_view and not traits.is_runner)
