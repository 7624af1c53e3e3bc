"""Attributes of single opcodes in protos, as XLA prints them.

Mirrors xla/hlo/ir/hlo_instructions.cc (PrintExtraAttributesImpl of each class) and
xla/window_util.cc, as of August 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_lens.load.proto.parts import PartPrinter, aliasing_text, quoted
from hlo_lens.load.proto.values import groups_text, literal_text, numbers, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Attribute = tuple[str, str]
    Printer = Callable[[PartPrinter, Any], Iterator[Attribute]]

_ALGORITHM_NAMES = """
    unset any_f8_any_f8_f32 any_f8_any_f8_f32_fast_accum f16_f16_f16 f16_f16_f32 bf16_bf16_bf16
    bf16_bf16_f32 bf16_bf16_f32_x3 bf16_bf16_f32_x6 tf32_tf32_f32 tf32_tf32_f32_x3 f32_f32_f32
    f64_f64_f64 bf16_bf16_f32_x9 bf16_bf16_fp8x3 bf16_bf16_fp8x4
"""
_ALGORITHMS = _ALGORITHM_NAMES.split()
_PRECISIONS = ("default", "high", "highest")
_API_VERSIONS = {
    2: "API_VERSION_STATUS_RETURNING",
    3: "API_VERSION_STATUS_RETURNING_UNIFIED",
    4: "API_VERSION_TYPED_FFI",
}
_TRANSPOSES = {1: "NO_TRANSPOSE", 2: "TRANSPOSE", 3: "ADJOINT"}

_DIMENSIONS_FIRST = """
    broadcast transpose reduce reverse concatenate map sort scan get-dimension-size
    set-dimension-size
"""
DIMENSIONS_FIRST = frozenset(_DIMENSIONS_FIRST.split())
"""Opcodes that print their dimensions first; collectives print them after the groups."""


def _true(found: Any, *names: str) -> Iterator[Attribute]:
    """Yield the booleans of a message that are true."""
    return ((name, "true") for name in names if getattr(found, name))


def _lists(found: Any, *names: str) -> Iterator[Attribute]:
    """Yield lists of numbers of a message."""
    return ((name, numbers(getattr(found, name))) for name in names)


def _full_lists(found: Any, *names: str) -> Iterator[Attribute]:
    """Yield the lists of numbers of a message that are not empty."""
    return _lists(found, *(name for name in names if getattr(found, name)))


def _flags(*names: str) -> Printer:
    """Return a printer of booleans that are printed only if true."""
    return lambda _, one: _true(one, *names)


def _plain(*names: str) -> Printer:
    """Return a printer of fields that are always printed."""
    return lambda _, one: ((name, _plain_text(getattr(one, name))) for name in names)


def _plain_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _slice_ranges(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    has_strides = any(dim.stride != 1 for dim in one.slice_dimensions)
    texts = (
        f"[{dim.start}:{dim.limit}{f':{dim.stride}' if has_strides else ''}]"
        for dim in one.slice_dimensions
    )
    yield "slice", f"{{{', '.join(texts)}}}"


def _padding(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    dims = one.padding_config.dimensions
    has_interior = any(dim.interior_padding for dim in dims)
    texts = (
        f"{dim.edge_padding_low}_{dim.edge_padding_high}"
        f"{f'_{dim.interior_padding}' if has_interior else ''}"
        for dim in dims
    )
    yield "padding", "x".join(texts)


def _window(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    dims = one.window.dimensions
    if not dims:
        return
    parts = [f"size={'x'.join(str(d.size) for d in dims)}"]

    def add(name: str, cells: list[str], plain: str) -> None:
        if any(cell != plain for cell in cells):
            parts.append(f"{name}={'x'.join(cells)}")

    add("stride", [str(d.stride) for d in dims], "1")
    add("pad", [f"{d.padding_low}_{d.padding_high}" for d in dims], "0_0")
    add("lhs_dilate", [str(d.base_dilation) for d in dims], "1")
    add("rhs_dilate", [str(d.window_dilation) for d in dims], "1")
    add("rhs_reversal", [str(int(d.window_reversal)) for d in dims], "0")
    yield "window", f"{{{' '.join(parts)}}}"


def _dim_labels(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    if not one.HasField("convolution_dimension_numbers"):
        return
    n = one.convolution_dimension_numbers
    spatial = n.input_spatial_dimensions, n.kernel_spatial_dimensions, n.output_spatial_dimensions
    lhs = _labels("b", n.input_batch_dimension, "f", n.input_feature_dimension, spatial[0])
    kernel = n.kernel_output_feature_dimension, n.kernel_input_feature_dimension
    rhs = _labels("o", kernel[0], "i", kernel[1], spatial[1])
    out = _labels("b", n.output_batch_dimension, "f", n.output_feature_dimension, spatial[2])
    yield "dim_labels", f"{lhs}_{rhs}->{out}"


def _labels(first: str, at: int, second: str, other: int, spatial: Sequence[int]) -> str:
    places = {at: first, other: second, **{place: str(k) for k, place in enumerate(spatial)}}
    last = min(max(places, default=-1), 64)
    return "".join(places.get(place, "?") for place in range(last + 1))


def _group_counts(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    for name in ("feature_group_count", "batch_group_count"):
        if getattr(one, name) not in (0, 1):
            yield name, str(getattr(one, name))


def _precision(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    config = one.precision_config
    if any(config.operand_precision):
        listed = [_PRECISIONS[p] if p < 3 else str(p) for p in config.operand_precision]
        yield "operand_precision", f"{{{','.join(listed)}}}"
    if 0 < config.algorithm < len(_ALGORITHMS):
        yield "algorithm", f"dot_{_ALGORITHMS[config.algorithm]}"


def _dot_dimensions(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    ragged = one.opcode == b"ragged-dot"
    found = one.ragged_dot_dimension_numbers if ragged else one
    dims = found.dot_dimension_numbers
    for side in ("lhs", "rhs"):
        batch = getattr(dims, f"{side}_batch_dimensions")
        if batch:
            yield f"{side}_batch_dims", numbers(batch)
        yield f"{side}_contracting_dims", numbers(getattr(dims, f"{side}_contracting_dimensions"))
    if ragged:
        yield "lhs_ragged_dims", numbers(found.lhs_ragged_dimensions)
        yield "rhs_group_dims", numbers(found.rhs_group_dimensions)
    yield from _precision(printer, one)


def _gather(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    dims = one.gather_dimension_numbers
    yield from _lists(dims, "offset_dims", "collapsed_slice_dims", "start_index_map")
    yield from _full_lists(dims, "operand_batching_dims", "start_indices_batching_dims")
    yield "index_vector_dim", str(dims.index_vector_dim)
    yield "slice_sizes", numbers(one.gather_slice_sizes)
    yield from _true(one, "indices_are_sorted")


def _scatter(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    dims = one.scatter_dimension_numbers
    yield from _lists(
        dims, "update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"
    )
    yield from _full_lists(dims, "input_batching_dims", "scatter_indices_batching_dims")
    yield "index_vector_dim", str(dims.index_vector_dim)
    yield from _true(one, "indices_are_sorted", "unique_indices")


def _iota(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield "iota_dimension", str(next(iter(one.dimensions), 0))


def _reshape(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    if one.dimensions:
        yield "inferred_dimension", str(one.dimensions[0])


def _compare(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield "direction", words(one.comparison_direction)
    if one.comparison_type == b"TOTALORDER":
        yield "type", "TOTALORDER"


def _fusion(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield "kind", words(one.fusion_kind)
    if one.output_operand_aliasing:
        yield "output_to_operand_aliasing", aliasing_text(one.output_operand_aliasing)


def _channel(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    if one.channel_id > 0:
        yield "channel_id", str(one.channel_id)


def _collective(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield from _channel(printer, one)
    yield "replica_groups", groups_text(one)
    is_last = one.opcode == b"reduce-scatter"
    if one.dimensions and not is_last:
        yield "dimensions", numbers(one.dimensions)
    yield from _true(one, "constrain_layout", "use_global_device_ids")
    if is_last:
        yield "dimensions", numbers(one.dimensions)


def _permute(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield from _channel(printer, one)
    pairs = ",".join(f"{{{p.source},{p.target}}}" for p in one.source_target_pairs)
    yield "source_target_pairs", f"{{{pairs}}}"


def _transfer(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield from _channel(printer, one)
    yield from _true(one, "is_host_transfer")


_CONVOLUTION = (_window, _dim_labels, _group_counts, _precision)


def _custom_call(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    for attributes in _CONVOLUTION:
        yield from attributes(printer, one)
    if one.padding_type:
        yield "padding_type", {1: "PADDING_VALID", 2: "PADDING_SAME"}.get(one.padding_type, "?")
    yield "custom_call_target", quoted(one.custom_call_target)
    if one.constrain_layout:
        shapes = [printer.shapes.text(shape) for shape in one.operand_shapes_with_layout]
        yield "operand_layout_constraints", f"{{{', '.join(shapes)}}}"
    yield from _true(one, "custom_call_has_side_effect")
    if one.HasField("literal"):
        shape = printer.shapes.text(one.literal.shape)
        yield "literal", f"{shape} {literal_text(one.literal)}"
    if one.output_operand_aliasing:
        yield "output_to_operand_aliasing", aliasing_text(one.output_operand_aliasing)
    schedule = {1: "SCHEDULE_LATEST", 2: "SCHEDULE_EARLIEST"}.get(one.custom_call_schedule)
    if schedule:
        yield "schedule", schedule
    if one.custom_call_api_version in _API_VERSIONS:
        yield "api_version", _API_VERSIONS[one.custom_call_api_version]


def _associative(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    if one.is_associative in (1, 2):
        yield "is_associative", "true" if one.is_associative == 1 else "false"


def _domain(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    # XLA prints the sharding on the exit side as that of the entry, and the other way round
    entry = printer.sharding(one.domain_exit_sharding)
    leave = printer.sharding(one.domain_entry_sharding)
    yield "domain", f'{{kind="sharding", entry={entry}, exit={leave}}}'


def _fft(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield "fft_type", ("FFT", "IFFT", "RFFT", "IRFFT")[one.fft_type & 3]
    yield "fft_length", numbers(one.fft_length)


def _triangular(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    options = one.triangular_solve_options
    yield from _true(options, "left_side", "lower", "unit_diagonal")
    if options.transpose_a in _TRANSPOSES:
        yield "transpose_a", _TRANSPOSES[options.transpose_a]


def _rng(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield "distribution", {1: "rng_uniform", 2: "rng_normal"}.get(one.distribution, "rng_invalid")


def _rng_bits(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    names = {1: "rng_three_fry", 2: "rng_philox"}
    yield "algorithm", names.get(one.rng_algorithm, "rng_default")


def _parameter(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    leaves = one.parameter_replication.replicated_at_leaf_buffers
    if leaves:
        listed = ",".join("true" if leaf else "false" for leaf in leaves)
        yield "parameter_replication", f"{{{listed}}}"


def _copy_start(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    if one.opcode == b"copy-start" and one.HasField("cross_program_prefetch_index"):
        yield "cross_program_prefetch_index", str(one.cross_program_prefetch_index)


def _feeds(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    if one.opcode == b"outfeed":
        yield "outfeed_shape", printer.shapes.text(one.outfeed_shape)
    for name in ("infeed_config", "outfeed_config"):
        if getattr(one, name):
            yield name, quoted(getattr(one, name))


OPCODE_PRINTERS: Mapping[str, Sequence[Printer]] = {
    "iota": (_iota,),
    "reshape": (_reshape,),
    "get-tuple-element": (lambda _, one: iter([("index", str(one.tuple_index))]),),
    "slice": (_slice_ranges,),
    "dynamic-slice": (lambda _, one: _lists(one, "dynamic_slice_sizes"),),
    "pad": (_padding,),
    "convolution": _CONVOLUTION,
    "reduce-window": (_window,),
    "select-and-scatter": (_window,),
    "dot": (_dot_dimensions,),
    "ragged-dot": (_dot_dimensions,),
    "scaled-dot": (_dot_dimensions,),
    "gather": (_gather,),
    "scatter": (_scatter,),
    "compare": (_compare,),
    "fusion": (_fusion,),
    **dict.fromkeys(
        ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all"),
        (_collective,),
    ),
    "collective-broadcast": (_collective,),
    "collective-permute": (_permute,),
    **dict.fromkeys(("send", "send-done", "recv", "recv-done"), (_transfer,)),
    "custom-call": (_custom_call,),
    "sort": (_flags("is_stable"),),
    "topk": (_plain("k", "largest"), _flags("is_stable")),
    "scan": (_flags("is_reverse"), _plain("num_carries"), _associative),
    "domain": (_domain,),
    "fft": (_fft,),
    "triangular-solve": (_triangular,),
    "cholesky": (lambda _, one: _true(one.cholesky_options, "lower"),),
    **dict.fromkeys(
        ("batch-norm-training", "batch-norm-inference", "batch-norm-grad"),
        (_plain("epsilon", "feature_index"),),
    ),
    "rng": (_rng,),
    "rng-bit-generator": (_rng_bits,),
    "rng-get-and-update-state": (_plain("delta"),),
    "reduce-precision": (_plain("exponent_bits", "mantissa_bits"),),
    "parameter": (_parameter,),
    "copy": (_copy_start,),
    "infeed": (_feeds,),
    "outfeed": (_feeds,),
}
"""Opcode (without ``-start``) to the printers of its own attributes, in XLA's order."""
