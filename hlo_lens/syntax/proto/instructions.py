"""Instructions of protos, as XLA prints them: the attributes of each opcode, then those of all.

Mirrors xla/hlo/ir/hlo_instructions.cc (PrintExtraAttributesImpl of each class) and
hlo_instruction.cc (PrintExtraAttributes, PrintWithCanonicalNameMap), as of August 2026. Async
instructions are printed as dumps have them since 2024, with the computation that they call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hlo_lens.syntax.proto.values import (
    ShapePrinter,
    groups_text,
    literal_text,
    numbers,
    sharding_text,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Attribute = tuple[str, str]

_ESCAPES = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
_ALGORITHMS = [
    "unset",
    "any_f8_any_f8_f32",
    "any_f8_any_f8_f32_fast_accum",
    "f16_f16_f16",
    "f16_f16_f32",
    "bf16_bf16_bf16",
    "bf16_bf16_f32",
    "bf16_bf16_f32_x3",
    "bf16_bf16_f32_x6",
    "tf32_tf32_f32",
    "tf32_tf32_f32_x3",
    "f32_f32_f32",
    "f64_f64_f64",
    "bf16_bf16_f32_x9",
    "bf16_bf16_fp8x3",
    "bf16_bf16_fp8x4",
]
_PRECISIONS = ("default", "high", "highest")
_API_VERSIONS = {
    2: "API_VERSION_STATUS_RETURNING",
    3: "API_VERSION_STATUS_RETURNING_UNIFIED",
    4: "API_VERSION_TYPED_FFI",
}
_TRANSPOSES = {1: "NO_TRANSPOSE", 2: "TRANSPOSE", 3: "ADJOINT"}
_NATURAL = re.compile(r"[us]\d|pred|c\d")


def quoted(data: bytes) -> str:
    """Return a string field in quotes, escaped as absl::CEscape does."""
    if data.isascii() and not re.search(rb"[\x00-\x1f\x7f\"'\\]", data):
        return f'"{data.decode("ascii")}"'
    return '"' + "".join(_escaped(byte) for byte in data) + '"'


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


class Names:
    """Names of a module's instructions and computations by id, and its table of payloads."""

    def __init__(self, module: Any) -> None:
        self.computations = {c.id: c for c in module.computations}
        self.instructions: dict[int, str] = {}
        for computation in module.computations:
            for instruction in computation.instructions:
                self.instructions[instruction.id] = words(instruction.name)
        self.payloads: Sequence[bytes] = module.payloads

    def computation(self, number: int) -> str:
        """Return the name of a computation; raises ValueError where there is none."""
        found = self.computations.get(number)
        if found is None:
            message = f"computation {number} is called, but it is not there"
            raise ValueError(message)
        return words(found.name)

    def instruction(self, number: int) -> str:
        """Return the name of an instruction; raises ValueError where there is none."""
        found = self.instructions.get(number)
        if found is None:
            message = f"instruction {number} is an operand, but it is not there"
            raise ValueError(message)
        return found

    def payload(self, message: Any) -> bytes:
        """Return the bytes of a payload, its own or those of the module's table."""
        if message.value:
            return bytes(message.value)
        return self.payloads[message.id - 1] if 0 < message.id <= len(self.payloads) else b""


class InstructionPrinter:
    """Prints the instructions of one module.

    Args:
        module: A HloModuleProto.
    """

    def __init__(self, module: Any) -> None:
        self.names = Names(module)
        self.shapes = ShapePrinter()
        self._metadata: dict[bytes, str] = {}
        self._shardings: dict[bytes, str] = {}
        self._configs: dict[bytes, str] = {}

    def line(self, instruction: Any, *, is_root: bool) -> str:
        """Return one line of a computation, without indentation."""
        head = (
            f"{'ROOT ' if is_root else ''}%{words(instruction.name)} = "
            f"{self.shapes.text(instruction.shape)} {words(instruction.opcode)}"
            f"({self._operands(instruction)})"
        )
        return head + "".join(f", {name}={value}" for name, value in self.attributes(instruction))

    def _operands(self, instruction: Any) -> str:
        if instruction.opcode == b"parameter":
            return str(instruction.parameter_number)
        if instruction.opcode == b"constant":
            return literal_text(instruction.literal) if instruction.HasField("literal") else "{...}"
        name = self.names.instruction
        return ", ".join(f"%{name(number)}" for number in instruction.operand_ids)

    def attributes(self, instruction: Any) -> Iterator[Attribute]:
        """Yield names and values of the attributes, in XLA's order."""
        yield from self._own(instruction)
        yield from self._called(instruction)
        yield from self._of_all(instruction)

    def _of_all(self, instruction: Any) -> Iterator[Attribute]:
        if instruction.HasField("sharding"):
            yield "sharding", self.sharding(instruction.sharding)
        yield from self._frontend(instruction)
        if instruction.control_predecessor_ids:
            listed = (self.names.instruction(n) for n in instruction.control_predecessor_ids)
            yield "control-predecessors", f"{{{', '.join(f'%{name}' for name in listed)}}}"
        if instruction.statistics_viz.statistics:
            yield "statistics", _statistics(instruction.statistics_viz)
        if instruction.HasField("result_accuracy"):
            text = _accuracy(instruction.result_accuracy)
            if text:
                yield "result_accuracy", text
        if instruction.HasField("metadata"):
            text = self.metadata(instruction.metadata)
            if text:
                yield "metadata", f"{{{text}}}"
        config = instruction.backend_config
        if not config and instruction.HasField("backend_config_payload"):
            config = self.names.payload(instruction.backend_config_payload)
        if config:
            yield "backend_config", self._config(config)

    def _config(self, data: bytes) -> str:
        """Return a backend config: as it is where it is an object, else in quotes."""
        if data not in self._configs:
            is_object = data[:1] == b"{" and data.rstrip()[-1:] == b"}"
            self._configs[data] = words(data) if is_object else quoted(data)
        return self._configs[data]

    def _frontend(self, instruction: Any) -> Iterator[Attribute]:
        pairs = instruction.frontend_attributes.map
        if pairs:
            yield "frontend_attributes", frontend_text(pairs)

    def sharding(self, sharding: Any) -> str:
        """Return an OpSharding, braces included."""
        key = sharding.SerializeToString(deterministic=True)
        if key not in self._shardings:
            self._shardings[key] = sharding_text(sharding, self.metadata)
        return self._shardings[key]

    def metadata(self, metadata: Any) -> str:
        """Return an OpMetadata, without braces; empty where it says nothing that is printed."""
        key = metadata.SerializeToString(deterministic=True)
        if key not in self._metadata:
            self._metadata[key] = self._metadata_text(metadata)
        return self._metadata[key]

    def _metadata_text(self, metadata: Any) -> str:
        payload = self.names.payload(metadata.metadata_payload)
        parts = [
            f"{name}={quoted(getattr(metadata, name))}"
            for name in ("op_type", "op_name", "source_file")
            if getattr(metadata, name)
        ]
        places = ("source_line", "source_end_line", "source_column", "source_end_column")
        parts += [f"{name}={n}" for name in places if (n := getattr(metadata, name))]
        if metadata.deduplicated_name and parts:
            parts.append(f"deduplicated_name={quoted(metadata.deduplicated_name)}")
        if metadata.scheduling_name:
            parts.append(f'scheduling_name="{words(metadata.scheduling_name)}"')
        if metadata.stack_frame_id:
            parts.append(f"stack_frame_id={metadata.stack_frame_id}")
        if payload:
            parts.append(f"metadata_payload={quoted(payload)}")
        return " ".join(parts)

    # ---- attributes of single opcodes ----------------------------------------------------------

    def _own(self, instruction: Any) -> Iterator[Attribute]:
        """Yield the attributes of an instruction's own class."""
        opcode = words(instruction.opcode)
        if opcode in _DIMENSIONS:
            yield "dimensions", numbers(instruction.dimensions)
        printers = _PRINTERS.get(opcode.removesuffix("-start"), ())
        for printer in printers:
            yield from printer(self, instruction)

    def _called(self, instruction: Any) -> Iterator[Attribute]:
        """Yield the computations that an instruction calls."""
        called = [f"%{self.names.computation(n)}" for n in instruction.called_computation_ids]
        opcode = words(instruction.opcode)
        if not called:
            return
        if opcode == "while" and len(called) == 2:
            yield "condition", called[1]
            yield "body", called[0]
        elif opcode == "select-and-scatter" and len(called) == 2:
            yield "select", called[0]
            yield "scatter", called[1]
        elif opcode == "conditional":
            yield from self._branches(instruction, called)
        elif opcode == "custom-call":
            yield "called_computations", f"{{{', '.join(called)}}}"
        elif opcode in ("fusion", "async-start"):
            yield "calls", ", ".join(called)
        elif opcode not in ("async-update", "async-done"):
            yield "to_apply", ", ".join(called)
            if instruction.is_composite:
                yield "is_composite", "true"

    def _branches(self, instruction: Any, called: list[str]) -> Iterator[Attribute]:
        number = next(iter(instruction.operand_ids), None)
        is_pred = len(called) == 2 and number in self._predicates()
        if is_pred:
            yield "true_computation", called[0]
            yield "false_computation", called[1]
        else:
            yield "branch_computations", f"{{{', '.join(called)}}}"

    def _predicates(self) -> set[int]:
        """Return the instructions whose result is one pred."""
        return {
            instruction.id
            for computation in self.names.computations.values()
            for instruction in computation.instructions
            if instruction.shape.element_type == 1
        }


def frontend_text(pairs: Iterable[Any]) -> str:
    """Return frontend attributes, sorted; a value that is an object stands as it is."""
    listed = sorted((words(pair.key), pair.value) for pair in pairs)
    texts = (f"{key}={_frontend_value(value)}" for key, value in listed)
    return f"{{{','.join(texts)}}}"


def _frontend_value(value: bytes) -> str:
    return words(value) if _is_object(value) else quoted(value)


_BRACES_AND_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)


def _is_object(value: bytes) -> bool:
    """Return whether a value is in braces that begin and end with it."""
    if value[:1] != b"{" or value[-1:] != b"}":
        return False
    depth = 0
    for match in _BRACES_AND_STRINGS.finditer(value):
        depth += {b"{": 1, b"}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end() == len(value)
    return False


def index_text(index: Iterable[int]) -> str:
    """Return a shape index."""
    return numbers(index)


def _aliasing(entries: Iterable[Any]) -> str:
    texts = (
        f"{index_text(entry.output_shape_index)}: "
        f"({entry.operand_index}, {index_text(entry.operand_shape_index)})"
        for entry in entries
    )
    return f"{{{', '.join(texts)}}}"


def _statistics(found: Any) -> str:
    listed = (f"{words(one.stat_name)}={one.stat_val:g}" for one in found.statistics)
    return f"{{visualizing_index={found.stat_index_to_visualize},{','.join(listed)}}}"


def _accuracy(accuracy: Any) -> str:
    if accuracy.HasField("tolerance"):
        found = accuracy.tolerance
        return f"{{tolerance={{atol={found.atol:g},rtol={found.rtol:g},ulps={found.ulps}}}}}"
    return "{mode=highest}" if accuracy.mode == 1 else ""


_DIMENSIONS = {
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
"""Opcodes that print their dimensions first; collectives do after the groups."""


def _iota(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    yield "iota_dimension", str(next(iter(one.dimensions), 0))


def _reshape(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    if one.dimensions:
        yield "inferred_dimension", str(one.dimensions[0])


def _tuple_index(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    yield "index", str(one.tuple_index)


def _slice(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    has_strides = any(dim.stride != 1 for dim in one.slice_dimensions)
    texts = (
        f"[{dim.start}:{dim.limit}{f':{dim.stride}' if has_strides else ''}]"
        for dim in one.slice_dimensions
    )
    yield "slice", f"{{{', '.join(texts)}}}"


def _dynamic_slice(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    yield "dynamic_slice_sizes", numbers(one.dynamic_slice_sizes)


def _pad(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    dims = one.padding_config.dimensions
    has_interior = any(dim.interior_padding for dim in dims)
    yield (
        "padding",
        "x".join(
            f"{dim.edge_padding_low}_{dim.edge_padding_high}"
            f"{f'_{dim.interior_padding}' if has_interior else ''}"
            for dim in dims
        ),
    )


def _window(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
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


def _dim_labels(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    if not one.HasField("convolution_dimension_numbers"):
        return
    n = one.convolution_dimension_numbers
    sides = (
        ("b", n.input_batch_dimension, "f", n.input_feature_dimension, n.input_spatial_dimensions),
        (
            *("o", n.kernel_output_feature_dimension, "i", n.kernel_input_feature_dimension),
            n.kernel_spatial_dimensions,
        ),
        (
            "b",
            n.output_batch_dimension,
            "f",
            n.output_feature_dimension,
            n.output_spatial_dimensions,
        ),
    )
    lhs, rhs, out = (_labels(*side) for side in sides)
    yield "dim_labels", f"{lhs}_{rhs}->{out}"


def _labels(first: str, at: int, second: str, other: int, spatial: Sequence[int]) -> str:
    places = {at: first, other: second, **{place: str(k) for k, place in enumerate(spatial)}}
    last = min(max(places, default=-1), 64)
    return "".join(places.get(place, "?") for place in range(last + 1))


def _group_counts(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    for name in ("feature_group_count", "batch_group_count"):
        if getattr(one, name) not in (0, 1):
            yield name, str(getattr(one, name))


def _precision(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    config = one.precision_config
    if any(config.operand_precision):
        listed = [_PRECISIONS[p] if p < 3 else str(p) for p in config.operand_precision]
        yield "operand_precision", f"{{{','.join(listed)}}}"
    if 0 < config.algorithm < len(_ALGORITHMS):
        yield "algorithm", f"dot_{_ALGORITHMS[config.algorithm]}"


def _dot(printer: InstructionPrinter, one: Any) -> Iterator[Attribute]:
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


def _gather(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    dims = one.gather_dimension_numbers
    for name in ("offset_dims", "collapsed_slice_dims", "start_index_map"):
        yield name, numbers(getattr(dims, name))
    for name in ("operand_batching_dims", "start_indices_batching_dims"):
        if getattr(dims, name):
            yield name, numbers(getattr(dims, name))
    yield "index_vector_dim", str(dims.index_vector_dim)
    yield "slice_sizes", numbers(one.gather_slice_sizes)
    if one.indices_are_sorted:
        yield "indices_are_sorted", "true"


def _scatter(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    dims = one.scatter_dimension_numbers
    for name in ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"):
        yield name, numbers(getattr(dims, name))
    for name in ("input_batching_dims", "scatter_indices_batching_dims"):
        if getattr(dims, name):
            yield name, numbers(getattr(dims, name))
    yield "index_vector_dim", str(dims.index_vector_dim)
    for name in ("indices_are_sorted", "unique_indices"):
        if getattr(one, name):
            yield name, "true"


def _compare(printer: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    del printer
    yield "direction", words(one.comparison_direction)
    kind = words(one.comparison_type)
    if kind == "TOTALORDER":
        yield "type", kind


def _fusion(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    yield "kind", words(one.fusion_kind)
    if one.output_operand_aliasing:
        yield "output_to_operand_aliasing", _aliasing(one.output_operand_aliasing)


def _channel(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    if one.channel_id > 0:
        yield "channel_id", str(one.channel_id)


def _collective(printer: InstructionPrinter, one: Any) -> Iterator[Attribute]:
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


def _permute(printer: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    yield from _channel(printer, one)
    pairs = ",".join(f"{{{p.source},{p.target}}}" for p in one.source_target_pairs)
    yield "source_target_pairs", f"{{{pairs}}}"


def _transfer(printer: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    yield from _channel(printer, one)
    if one.is_host_transfer:
        yield "is_host_transfer", "true"


def _custom_call(printer: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    yield from _window(printer, one)
    yield from _dim_labels(printer, one)
    yield from _group_counts(printer, one)
    yield from _precision(printer, one)
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
        yield "output_to_operand_aliasing", _aliasing(one.output_operand_aliasing)
    schedule = {1: "SCHEDULE_LATEST", 2: "SCHEDULE_EARLIEST"}.get(one.custom_call_schedule)
    if schedule:
        yield "schedule", schedule
    if one.custom_call_api_version in _API_VERSIONS:
        yield "api_version", _API_VERSIONS[one.custom_call_api_version]


def _flags(*names: str) -> Callable[[InstructionPrinter, Any], Iterator[Attribute]]:
    """Return a printer of booleans that are printed where they are true."""

    def printer(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
        for name in names:
            if getattr(one, name):
                yield name, "true"

    return printer


def _plain(*names: str) -> Callable[[InstructionPrinter, Any], Iterator[Attribute]]:
    """Return a printer of fields that are always printed."""

    def printer(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
        for name in names:
            value = getattr(one, name)
            if isinstance(value, bool):
                yield name, "true" if value else "false"
            else:
                yield name, f"{value:g}" if isinstance(value, float) else str(value)

    return printer


def _associative(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    told = {1: "true", 2: "false"}.get(one.is_associative)
    if told:
        yield "is_associative", told


def _domain(printer: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    # XLA prints the sharding on the exit side as that of the entry, and the other way round
    entry = printer.sharding(one.domain_exit_sharding)
    leave = printer.sharding(one.domain_entry_sharding)
    yield "domain", f'{{kind="sharding", entry={entry}, exit={leave}}}'


def _fft(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    yield "fft_type", ("FFT", "IFFT", "RFFT", "IRFFT")[one.fft_type & 3]
    yield "fft_length", numbers(one.fft_length)


def _triangular(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    options = one.triangular_solve_options
    for name in ("left_side", "lower", "unit_diagonal"):
        if getattr(options, name):
            yield name, "true"
    if options.transpose_a in _TRANSPOSES:
        yield "transpose_a", _TRANSPOSES[options.transpose_a]


def _cholesky(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    if one.cholesky_options.lower:
        yield "lower", "true"


def _rng(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    yield "distribution", {1: "rng_uniform", 2: "rng_normal"}.get(one.distribution, "rng_invalid")


def _rng_bits(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    names = {1: "rng_three_fry", 2: "rng_philox"}
    yield "algorithm", names.get(one.rng_algorithm, "rng_default")


def _parameter(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    leaves = one.parameter_replication.replicated_at_leaf_buffers
    if leaves:
        listed = ",".join("true" if leaf else "false" for leaf in leaves)
        yield "parameter_replication", f"{{{listed}}}"


def _copy_start(_: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    if one.opcode == b"copy-start" and one.HasField("cross_program_prefetch_index"):
        yield "cross_program_prefetch_index", str(one.cross_program_prefetch_index)


def _feeds(printer: InstructionPrinter, one: Any) -> Iterator[Attribute]:
    if one.opcode == b"outfeed":
        yield "outfeed_shape", printer.shapes.text(one.outfeed_shape)
    for name in ("infeed_config", "outfeed_config"):
        if getattr(one, name):
            yield name, quoted(getattr(one, name))


_PRINTERS: Mapping[str, Sequence[Callable[[InstructionPrinter, Any], Iterator[Attribute]]]] = {
    "iota": (_iota,),
    "reshape": (_reshape,),
    "get-tuple-element": (_tuple_index,),
    "slice": (_slice,),
    "dynamic-slice": (_dynamic_slice,),
    "pad": (_pad,),
    "convolution": (_window, _dim_labels, _group_counts, _precision),
    "reduce-window": (_window,),
    "select-and-scatter": (_window,),
    "dot": (_dot,),
    "ragged-dot": (_dot,),
    "scaled-dot": (_dot,),
    "gather": (_gather,),
    "scatter": (_scatter,),
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
"""Opcode, of async ones without ``-start``, to what prints its own attributes, in XLA's order."""
