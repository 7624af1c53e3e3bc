"""Attributes of single opcodes in protos, as XLA prints them.

Mirrors xla/hlo/ir/hlo_instructions.cc (PrintExtraAttributesImpl of each class), as of August 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_lens.syntax.proto.attribute_texts import aliasing_text, quoted
from hlo_lens.syntax.proto.dimension_numbers import (
    dim_labels,
    dot_dimensions,
    dynamic_slice_sizes,
    gather_dimensions,
    group_counts,
    padding,
    precision,
    scatter_dimensions,
    slice_ranges,
    window,
)
from hlo_lens.syntax.proto.values import groups_text, literal_text, numbers, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.syntax.proto.parts import PartPrinter

    Attribute = tuple[str, str]
    Printer = Callable[[PartPrinter, Any], Iterator[Attribute]]

_API_VERSIONS = {
    2: "API_VERSION_STATUS_RETURNING",
    3: "API_VERSION_STATUS_RETURNING_UNIFIED",
    4: "API_VERSION_TYPED_FFI",
}
_TRANSPOSES = {1: "NO_TRANSPOSE", 2: "TRANSPOSE", 3: "ADJOINT"}

DIMENSIONS_FIRST = {
    "broadcast",
    "transpose",
    "reduce",
    "reverse",
    "concatenate",
    "map",
    "sort",
    "scan",
    "get-dimension-size",
    "set-dimension-size",
}
"""Opcodes that print their dimensions first; collectives print them after the groups."""


def _iota(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield "iota_dimension", str(next(iter(one.dimensions), 0))


def _reshape(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    if one.dimensions:
        yield "inferred_dimension", str(one.dimensions[0])


def _tuple_index(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield "index", str(one.tuple_index)


def _compare(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    del printer
    yield "direction", words(one.comparison_direction)
    kind = words(one.comparison_type)
    if kind == "TOTALORDER":
        yield "type", kind


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
    if one.constrain_layout:
        yield "constrain_layout", "true"
    if one.use_global_device_ids:
        yield "use_global_device_ids", "true"
    if is_last:
        yield "dimensions", numbers(one.dimensions)


def _permute(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield from _channel(printer, one)
    pairs = ",".join(f"{{{p.source},{p.target}}}" for p in one.source_target_pairs)
    yield "source_target_pairs", f"{{{pairs}}}"


def _transfer(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield from _channel(printer, one)
    if one.is_host_transfer:
        yield "is_host_transfer", "true"


def _custom_call(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    yield from window(printer, one)
    yield from dim_labels(printer, one)
    yield from group_counts(printer, one)
    yield from precision(printer, one)
    if one.padding_type:
        yield "padding_type", {1: "PADDING_VALID", 2: "PADDING_SAME"}.get(one.padding_type, "?")
    yield "custom_call_target", quoted(one.custom_call_target)
    if one.constrain_layout:
        shapes = [printer.shapes.text(shape) for shape in one.operand_shapes_with_layout]
        yield "operand_layout_constraints", f"{{{', '.join(shapes)}}}"
    if one.custom_call_has_side_effect:
        yield "custom_call_has_side_effect", "true"
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


def _flags(*names: str) -> Printer:
    """Return a printer of booleans that are printed only if true."""

    def printer(_: PartPrinter, one: Any) -> Iterator[Attribute]:
        for name in names:
            if getattr(one, name):
                yield name, "true"

    return printer


def _plain(*names: str) -> Printer:
    """Return a printer of fields that are always printed."""

    def printer(_: PartPrinter, one: Any) -> Iterator[Attribute]:
        for name in names:
            value = getattr(one, name)
            if isinstance(value, bool):
                yield name, "true" if value else "false"
            else:
                yield name, f"{value:g}" if isinstance(value, float) else str(value)

    return printer


def _associative(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    told = {1: "true", 2: "false"}.get(one.is_associative)
    if told:
        yield "is_associative", told


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
    for name in ("left_side", "lower", "unit_diagonal"):
        if getattr(options, name):
            yield name, "true"
    if options.transpose_a in _TRANSPOSES:
        yield "transpose_a", _TRANSPOSES[options.transpose_a]


def _cholesky(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    if one.cholesky_options.lower:
        yield "lower", "true"


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
    "get-tuple-element": (_tuple_index,),
    "slice": (slice_ranges,),
    "dynamic-slice": (dynamic_slice_sizes,),
    "pad": (padding,),
    "convolution": (window, dim_labels, group_counts, precision),
    "reduce-window": (window,),
    "select-and-scatter": (window,),
    "dot": (dot_dimensions,),
    "ragged-dot": (dot_dimensions,),
    "scaled-dot": (dot_dimensions,),
    "gather": (gather_dimensions,),
    "scatter": (scatter_dimensions,),
    "compare": (_compare,),
    "fusion": (_fusion,),
    "all-reduce": (_collective,),
    "all-gather": (_collective,),
    "reduce-scatter": (_collective,),
    "all-to-all": (_collective,),
    "ragged-all-to-all": (_collective,),
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
    "cholesky": (_cholesky,),
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
