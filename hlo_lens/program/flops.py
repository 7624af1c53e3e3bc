"""FLOP and work: matrix products, convolutions and kernels, and the bytes that instructions move.

FLOP of one run of a program, on one device: counted are dot, scaled-dot, convolution and the matrix
products and convolutions of cuBLAS, cuDNN and oneDNN (``__cublas$gemm``, ``__cudnn$conv...``,
``__onednn$matmul``): two for each multiply and add, in every computation (fusions, calls, loops,
async computations), times the runs of the computation. A convolution counts only the positions
where window and input overlap, so that a TPU's batched products, which are convolutions over
padding, count once. Source: HloCostAnalysis::HandleDot and GetConvolutionFlops
(xla/service/hlo_cost_analysis.cc), which however count the body of a loop once.

Not counted: elementwise operations. The arithmetic of other custom calls (Pallas and Triton
kernels, LAPACK, callbacks) is known only where their backend_config prints a ``cost_estimate``,
which is the estimate of the kernel's author; the total is unknown if there are others that run, if
there are opcodes that XLA of August 2026 does not have, if a loop around a product has no known
trip count, or if a shape is not in the text; `at_least` is then the known part, without what such
loops run. Of the branches of a conditional the largest counts, and the total is an upper bound if
they differ.

Work of one instruction of a schedule: bytes are those of operands and result, as in
HloCostAnalysis: of a slice or gather what it takes, of an update what it writes; of a fusion each
parameter as far as the fused instructions use it. Work of loops counts trip count times, of a
conditional the largest branch. Views, starts and ends of asynchronous operations and collectives do
no work, and neither do the parts of a fusion that only carry a collective on (TPU:
``async_collective_fusion``). What is not known (the trip count of a loop, the arithmetic of a
kernel) is None.

Sizes of a matrix product: it multiplies, for each element of the batch, a matrix of rows x depth
with one of depth x columns. Dimensions that a product treats alike (all contracted ones; all free
ones of an operand) are taken together, as when they are reshaped into one. A spatial dimension of a
convolution, in which a TPU's compiler keeps further dimensions of a product, is one of rows if the
kernel has size 1 there, of the batch if each output position meets one element of the kernel, and
of rows and depth otherwise.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import OpcodeTraits, opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.program.runs import (
    Branches,
    CallCounts,
    SumBounds,
    SumPart,
    bounded_sum,
    call_counts,
    run_product,
)
from hlo_lens.program.summary import instruction_table
from hlo_lens.program.value_flow import post_order
from hlo_lens.render.result import Records, Unit, sum_of
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.runs import CallCounts
    from hlo_lens.shapes.shape import Shape, ShapeIndex


_LABELS = re.compile(r"(\w+)_(\w+)->(\w+)")
_LARGEST = 1 << 20
"""Size of a kernel whose positions are visited; damaged text has any."""

_FIELD = re.compile(r"(\w+)=(\S+?)(?=[\s}])")


class SpatialSize(NamedTuple):
    """One spatial dimension of a convolution; pairs of kernel and output position that meet."""

    kernel: int
    output: int
    meetings: int


class ConvolutionSizes(NamedTuple):
    """Sizes of a convolution by label: ``i``, ``o``, ``b``, ``f`` and spatial dimensions."""

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

    The shapes are those of input, kernel and output of the forward convolution.
    """
    labels = _LABELS.search(instruction.attribute("dim_labels") or "")
    labelled = []
    for shape, names, needed in zip(
        shapes, labels.groups() if labels else ((),) * 3, ("bf", "io", "bf"), strict=True
    ):
        if shape is None or len(shape.dimensions) != len(names) or not {*needed} <= {*names}:
            return None
        pairs = zip(names, shape.dimensions, strict=True)
        sizes = {label: size for label, size in pairs if size is not None}
        if len(sizes) != len(names):
            return None
        labelled.append(sizes)
    source, kernel, output = labelled
    spatial = sorted(label for label in kernel if label.isdigit())
    windows = _windows(instruction.attribute("window") or "", len(spatial))
    if windows is None or any(k not in source or k not in output for k in spatial):
        return None
    if any(kernel[k] > _LARGEST for k in spatial):
        return None
    positions = (
        SpatialSize(kernel[k], output[k], window.meetings(source[k], kernel[k], output[k]))
        for k, window in zip(spatial, windows, strict=True)
    )
    return ConvolutionSizes(kernel, output, tuple(positions))


class _Window(NamedTuple):
    """One spatial dimension of a convolution's window."""

    stride: int = 1
    pad_low: int = 0
    input_dilation: int = 1
    kernel_dilation: int = 1

    def meetings(self, input_size: int, kernel_size: int, output_size: int) -> int:
        """Return the number of pairs of kernel and output position on an input element."""
        total = 0
        common = math.gcd(self.input_dilation, self.stride)
        step = self.input_dilation // common
        inverse = pow(self.stride // common, -1, step)
        for kernel in range(kernel_size):
            # k in 0..output_size-1 with 0 <= start + k * stride < end, on an undilated element
            start = kernel * self.kernel_dilation - self.pad_low
            end = input_size * self.input_dilation
            if start % common:
                continue
            first = max(0, -(start // self.stride))
            last = min(output_size - 1, (end - 1 - start) // self.stride)
            first += (-(start // common) * inverse - first) % step
            total += max(0, (last - first) // step + 1)
        return total


def _windows(text: str, rank: int) -> list[_Window] | None:
    """Return the window of each spatial dimension; None if the text is damaged or of another rank.

    Strides and dilations are at least 1.
    """
    fields = {name: value.split("x") for name, value in _FIELD.findall(text.strip("{") + "}")}
    names = ("stride", "pad", "lhs_dilate", "rhs_dilate")
    try:
        numbers = {name: [int(one.split("_")[0]) for one in fields.get(name, ())] for name in names}
    except ValueError:
        return None
    is_least = all(n >= 1 for name in names if name != "pad" for n in numbers[name])
    if not is_least or any(len(values) != rank for values in fields.values()):
        return None
    defaults = _Window()
    columns = (
        numbers[name] or [default] * rank for name, default in zip(names, defaults, strict=True)
    )
    return [_Window(*values) for values in zip(*columns, strict=True)]


_NUMBER = re.compile(r"\d+")
_NUMBERS = re.compile(r'"([lr]hs_(?:contracting|batch)_dim)ensions":\[([^\]]*)\]')
_GROUPS = ("feature_group_count", "batch_group_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSizes:
    """Sizes of a product: a batch of matrices of rows x depth with those of depth x columns."""

    batch: int
    rows: int
    columns: int
    depth: int
    are_rows_minor: bool | None = None
    """Whether neighbours in the result's memory are of one column; None if it is not known."""

    @property
    def flops(self) -> int:
        """Two for each multiply and add."""
        return 2 * self.batch * self.rows * self.columns * self.depth


def product_sizes(
    instruction: HloInstruction, operands: tuple[Shape | None, Shape | None] | None = None
) -> ProductSizes | None:
    """Return the sizes of a dot, convolution or matrix product of cuBLAS.

    None for other instructions, for grouped convolutions, which need not be matrix products, and if
    a size is not in the text. Other shapes may be taken for those of the operands of a product.
    """
    if instruction.opcode == "convolution":
        return _convolution(instruction)
    config: dict[str, str] = {}
    if _target(instruction).startswith("__cublas$"):
        text = (instruction.attribute("backend_config") or "").replace("\\", "").replace(" ", "")
        config = dict(_NUMBERS.findall(text))
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
    numbers = [bounded_int(number) for number in _NUMBER.findall(places or "")]
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
    for number, (kernel, output, meetings) in enumerate(sizes.spatial):
        is_batch = kernel > 1 and meetings == output
        minors[str(number)] = None if is_batch else True
        if is_batch:
            batch *= output
            continue
        rows *= output
        if kernel > 1:
            depth *= max(1, -(-meetings // max(1, output)))
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
_MOST_DIGITS = 30
_FLOPS = re.compile(r'"flops":"?(\d+)')
"""FLOP of a kernel in its backend_config, as its author estimates them; a zero may be left out
(jax/_src/tpu_custom_call.py, CostEstimate)."""

_LHS_CONTRACTING = re.compile(r'"lhs_contracting_dimensions":\[([^\]]*)\]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One matrix product, convolution or kernel; None means not known."""

    name: Annotated[str, "the instruction"]
    opcode: Annotated[str, "its opcode"]
    computation: Annotated[str, "computation that contains it"]
    flops: Annotated[int | None, Unit.COUNT, "multiplications and additions of one execution"]
    times: Annotated[int | None, Unit.COUNT, "executions in one run of the program"]
    is_at_most: Annotated[bool, "whether a conditional decides"] = False
    is_estimate: Annotated[bool, "whether it is the estimate of a kernel's author"] = False
    is_opaque: bool = False
    branches: Branches = ()
    row: int = -1

    @property
    def run_flops(
        self,
    ) -> Annotated[int | None, Unit.COUNT, "multiplications and additions in one run"]:
        return run_product(self.flops, self.times)


@dataclass(frozen=True, kw_only=True)
class Flops(Records[Product]):
    """The products of a program: unknown ones first, then by FLOP, largest first.

    Their sum is not known if the text lacks a part of the entry (`is_complete`).
    """

    KIND: ClassVar[str] = "flops"
    products: tuple[Product, ...]
    is_complete: bool = True

    @property
    def total(self) -> int | None:
        """FLOP of one run, an upper bound if `is_at_most`; None if not known."""
        return None if self._bounds is None else self._bounds.most

    @property
    def is_at_most(self) -> bool:
        """Whether the total is an upper bound: branches of a conditional have different FLOP."""
        return self._bounds is not None and self._bounds.is_at_most

    @property
    def at_least(self) -> int | None:
        """Known FLOP of one run; a loop without known trip count may not run at all.

        None if the text does not show which products run.
        """
        if not self.is_complete:
            return None
        return bounded_sum(SumPart(p.branches, p.run_flops or 0) for p in self.products).least

    @property
    def is_estimate(self) -> bool:
        """Whether the total contains estimates of kernels' authors."""
        return any(product.is_estimate for product in self.products)

    @property
    def opaque(self) -> int:
        """Number of custom calls with unknown arithmetic."""
        return sum(product.is_opaque for product in self.products)

    @property
    def unknown_opcodes(self) -> tuple[str, ...]:
        """Opcodes of its instructions that XLA of August 2026 does not have, by name."""
        names = {product.opcode for product in self.products}
        return tuple(sorted(name for name in names if not opcode_traits(name).is_known))

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
    """Return the products of a module, and its instructions of unknown arithmetic."""
    table = instruction_table(module)
    rows = table.rows_where(
        lambda traits: traits.is_product or not (traits.is_known or traits.is_end)
    )
    calls = call_counts(module) if rows else None
    products = []
    for instruction in map(table.instruction, rows):
        is_kernel = instruction.opcode == "custom-call" and not _is_product(instruction)
        computation = instruction.computation
        if calls is None or (is_kernel and _is_silent(instruction)):
            continue
        runs = calls.at(computation.place)
        if runs.times is None and not calls.sites_at(computation.place):
            continue  # a reducer, or unused
        amount = _flops_or_none(table, instruction.row)
        products.append(
            Product(
                name=instruction.name,
                opcode=instruction.opcode,
                computation=computation.name,
                flops=amount,
                times=runs.times,
                is_estimate=is_kernel and amount is not None,
                is_opaque=is_kernel and amount is None,
                branches=runs.branches,
                is_at_most=bool(runs.branches),
                row=instruction.row,
            )
        )
    products.sort(
        key=lambda p: (p.run_flops is not None, -(p.run_flops or 0), p.computation, p.name)
    )
    return Flops(products=tuple(products), is_complete=table.module.has_whole_entry)


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

    None if a shape or a dimension is not in the text, for a kernel without ``cost_estimate``, for
    ragged-dot, whose group sizes are data, and for unknown opcodes. 0 for other instructions, and
    for custom calls that run computations of the text.
    """
    opcode, target = instruction.opcode, _target(instruction)
    if opcode == "ragged-dot" or not opcode_traits(opcode).is_known:
        return None
    if opcode in ("dot", "scaled-dot"):
        return _dot(instruction, instruction.attribute("lhs_contracting_dims") or "")
    roles = (0, 1, None) if opcode == "convolution" else _CONVOLUTIONS.get(target)
    if roles is not None:
        result = _first_array(instruction.shape)
        shapes = [result if role is None else instruction.operand_shape(role) for role in roles]
        sizes = convolution_sizes(instruction, shapes)
        return None if sizes is None else sizes.flops
    config = (instruction.attribute("backend_config") or "").replace("\\", "").replace(" ", "")
    if target in _ONEDNN:
        left = instruction.operand_shape(0)
        place = len(left.dimensions) - (2 if '"transpose_a":true' in config else 1) if left else -1
        return None if place < 0 else _dot(instruction, str(place))
    if target in _GEMMS:
        contracting = _LHS_CONTRACTING.search(config)
        return None if contracting is None else _dot(instruction, contracting[1])
    if opcode != "custom-call" or _is_silent(instruction):
        return 0
    estimate = _ESTIMATE.search(config)
    if estimate is None:
        return None
    estimated = _FLOPS.search(estimate[1])
    if estimated is not None and len(estimated[1]) > _MOST_DIGITS:
        return None
    return 0 if estimated is None else int(estimated[1])


def _dot(instruction: HloInstruction, contracting: str) -> int | None:
    """Return the FLOP of a product; None if a size is not known.

    The text has the numbers of the dimensions of operand 0 that are summed.
    """
    left, result = _sizes(instruction.operand_shape(0)), _sizes(_first_array(instruction.shape))
    depth = None if left is None else _of(left, contracting)
    return None if result is None or depth is None else 2 * math.prod(result) * depth


def _first_array(shape: Shape | None) -> Shape | None:
    """Return a shape, or the first element of a tuple: a matrix product also returns workspace."""
    if shape is None or not shape.is_tuple:
        return shape
    return shape.tuple_shapes[0] if shape.tuple_shapes else None


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

_WRITTEN_ALIKE = ("tuple", "get-tuple-element", "bitcast", "opt-barrier")
"""Roots of fusions that write what their operands do."""


class Work(NamedTuple):
    """Work of instructions: bytes read and written, FLOP of products; None where not known."""

    size_bytes: int | None
    flops: int | None


NO_WORK = Work(0, 0)
_UNKNOWN_WORK = Work(None, None)


class _Body(NamedTuple):
    """A computation that is run as a whole, or fused."""

    place: int
    is_fused: bool


class WorkFinder:
    """Finds the work of instructions; that of each computation is found once."""

    def __init__(self, table: InstructionTable, calls: CallCounts) -> None:
        self._table = table
        self._calls = calls
        self._links = table.module.links
        self._work: dict[_Body, Work] = {}

    def of(self, row: int) -> Work:
        """Return the work of one run of an instruction."""
        opcode = self._table.opcodes[row]
        if _is_workless(opcode):
            return NO_WORK
        if not opcode_traits(opcode).is_caller:
            return Work(self._moved(row), _flops_or_none(self._table, row))
        for below in self._bodies([row]):
            if below not in self._work:  # texts nest computations deep, and damaged ones in circles
                bodies = post_order(
                    [below],
                    lambda body: self._bodies(self._table.module.computations[body.place].rows),
                )
                for body in bodies:
                    if body not in self._work:
                        self._work[body] = self._of_body(body)
        return self._of(row)

    def _bodies(self, rows: Sequence[int]) -> Iterator[_Body]:
        """Yield the computations of the text that decide the work of some instructions."""
        for call in self._links.calls.of_rows(rows):
            opcode = self._table.opcodes[call.row]
            is_run = opcode == "custom-call" or opcode_traits(opcode).is_control_flow
            if call.place != NOTHING and (is_run or opcode == "fusion"):
                yield _Body(call.place, opcode == "fusion")

    def _of_body(self, body: _Body) -> Work:
        rows = self._table.module.computations[body.place].rows
        if not body.is_fused:
            return _total([self._of(row) for row in rows])
        flops: list[int | None] = []
        moved = [self._written(self._table.module.computations[body.place].root_row)]
        for row, opcode in zip(rows, self._table.opcodes.at(rows), strict=True):
            if opcode == "parameter":
                moved.append(self._read(row))
            elif opcode == "fusion":
                flops.append(self._of(row).flops)
            else:
                flops.append(_flops_or_none(self._table, row))
        return Work(sum_of(moved), sum_of(flops))

    def _of(self, row: int) -> Work:
        """Return the work of an instruction, by that of the bodies that are known."""
        opcode = self._table.opcodes[row]
        traits = opcode_traits(opcode)
        if _is_workless(opcode) or self._is_idle_call(row):
            return NO_WORK
        calls = self._links.calls.of_row(row)
        if opcode == "fusion":
            place = calls[0].place if calls else NOTHING
            unknown = Work(self._moved(row), None)
            return (
                unknown if place == NOTHING else self._work.get(_Body(place, True), _UNKNOWN_WORK)
            )
        parts = [self._work.get(_Body(call.place, False), _UNKNOWN_WORK) for call in calls]
        if opcode == "conditional":
            sizes, flops = zip(*parts, strict=True) if parts else ((), ())
            return Work(_largest(sizes), _largest(flops))
        if opcode == "while":
            total, trips = _total(parts), self._calls.trip_count(self._table.instruction(row))
            return Work(run_product(total.size_bytes, trips), run_product(total.flops, trips))
        if traits.is_control_flow:
            return _total(parts)
        own = _flops_or_none(self._table, row)
        inside = [
            part.flops
            for call, part in zip(calls, parts, strict=True)
            if opcode == "custom-call" and call.place != NOTHING
        ]
        return Work(self._moved(row), sum_of([own, *inside]))

    def _is_idle_call(self, row: int) -> bool:
        if self._table.opcodes[row] != "custom-call":
            return False
        text = self._table.module.columns.attributes_text(row)
        return any(target in text for target in _IDLE_TARGETS)

    # ---- bytes ---------------------------------------------------------------------------------

    def _size(self, row: int, element: ShapeIndex = ()) -> int | None:
        if row == NOTHING or not element:
            return None if row == NOTHING else self._table.result_bytes(row)
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
            return run_product(self._size(row), 2)
        if opcode in _UPDATED:
            part = _UPDATED[opcode]
            return run_product(self._size(*operands[part]) if part < len(operands) else None, 2)
        return sum_of([self._size(row), *(self._size(*operand) for operand in operands)])

    def _read(self, parameter: int) -> int | None:
        """Return the bytes of a parameter of a fused computation that its users read, at most all.

        None where a damaged text reaches a value from itself.
        """
        opcodes, read = self._table.opcodes, dict[int, int | None]()
        views = ("bitcast", "get-tuple-element")

        def users(row: int) -> Iterator[int]:
            yield from (user for user, _ in self._links.users_of(row) if opcodes[user] in views)

        for row in post_order([parameter], users):
            parts: list[int | None] = []
            for user, position in self._links.users_of(row):
                traits = opcode_traits(opcodes[user])
                if (traits.is_cut or traits.opcode in _UPDATED) and position == 0:
                    parts.append(self._size(user) if traits.is_cut else 0)
                elif traits.opcode in views:
                    parts.append(read.get(user))
                elif not (traits.is_collective or traits.is_view or self._is_idle_call(user)):
                    parts.append(self._size(*self._links.operand(user, position)))
            read[row] = _least(sum_of(parts), self._size(row))
        return read[parameter]

    def _written(self, root: int) -> int | None:
        """Return the bytes that the root of a fused computation writes; None in a circle."""
        opcodes, written = self._table.opcodes, dict[int, int | None]()

        def operands(row: int) -> Iterator[int]:
            count = None if opcodes[row] == "tuple" else 1
            listed = self._links.operands_of(row)[:count] if opcodes[row] in _WRITTEN_ALIKE else ()
            yield from (operand for operand in listed if operand != NOTHING)

        for row in () if root == NOTHING else post_order([root], operands):
            traits, own = opcode_traits(opcodes[row]), self._operands(row)
            if traits.opcode in _WRITTEN_ALIKE and (own or traits.opcode == "tuple"):
                parts = (
                    _least(written.get(operand), self._size(operand, element))
                    if element
                    else written.get(operand)
                    for operand, element in (own if traits.opcode == "tuple" else own[:1])
                )
                written[row] = sum_of(parts)
                if traits.opcode == "get-tuple-element":
                    written[row] = _least(written[row], self._size(row))
            elif traits.is_collective or _is_idle(traits) or self._is_idle_call(row):
                written[row] = 0
            else:
                part = _UPDATED.get(traits.opcode, len(own))
                written[row] = self._size(*own[part]) if part < len(own) else self._size(row)
        return written.get(root)


def _total(parts: Sequence[Work]) -> Work:
    return Work(sum_of(part.size_bytes for part in parts), sum_of(part.flops for part in parts))


def _largest(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return max(known, default=0) if len(known) == len(amounts) else None


def _least(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one, other)


def _is_idle(traits: OpcodeTraits) -> bool:
    return traits.is_idle or (traits.is_view and not traits.is_runner)


@functools.cache
def _is_workless(opcode: str) -> bool:
    """Return whether an opcode does no work of its own, or that of a transfer."""
    traits = opcode_traits(opcode)
    return traits.is_collective or bool(traits.phase) or _is_idle(traits)


def _flops_or_none(table: InstructionTable, row: int) -> int | None:
    traits = opcode_traits(table.opcodes[row])
    if not traits.is_product and traits.is_known:
        return 0
    try:
        return flops_of(table.instruction(row))
    except DumpSyntaxError:
        return None
