"""Protos of XLA (``.hlo.pb``): the module as XLA prints it, and the buffer assignment.

A proto is a HloModuleProto, a HloProto (a module with its buffer assignment) or a
HloSnapshot (a HloProto with its arguments). jaxlib prints the module; the buffer assignment, which
jaxlib cannot print, is printed here. Both texts are then read like those of a dump.

A proto has the allocation of each value, but no phis and no other positions: used values with
positions and uses are in texts only.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hlo_lens.load.module import BufferTexts, Lazy
from hlo_lens.shapes.shape import Layout, Shape, Tile
from hlo_lens.text.dump_kinds import proto_message
from hlo_lens.text.errors import DumpSyntaxError, MissingPackageError
from hlo_lens.text.source import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hlo_lens.hlo.module import HloModule

_MISSING = "reading protos needs jaxlib and protobuf: pip install 'hlo-lens[proto]'"

_SCHEMA = """
HloSnapshot
  bytes: hlo=1
HloProto
  bytes: hlo_module=1
  BufferAssignmentProto: buffer_assignment=3
HloModuleProto
  int64: entry_computation_id=6
  HloComputationProto: computations=3*
  DeviceAssignmentProto: device_assignment=15
HloComputationProto
  int64: id=5
  HloInstructionProto: instructions=2*
HloInstructionProto
  bytes: name=1 opcode=2
  int64: parameter_number=9 id=35
  ShapeProto: shape=3
ShapeProto
  int32: element_type=2
  int64: dimensions=3*
  bool: is_dynamic_dimension=6*
  ShapeProto: tuple_shapes=4*
  LayoutProto: layout=5
LayoutProto
  int64: minor_to_major=1* element_size_in_bits=7 memory_space=8
  TileProto: tiles=6*
TileProto
  int64: dimensions=1*
DeviceAssignmentProto
  int32: replica_count=1 computation_count=2
BufferAssignmentProto
  LogicalBufferProto: logical_buffers=1*
  BufferAllocationProto: buffer_allocations=3*
LogicalBufferProto
  int64: id=1 size=2 color=4
  Location: defined_at=3
Location
  bytes: instruction_name=2
  int64: instruction_id=4 shape_index=3*
BufferAllocationProto
  int64: index=1 size=2 parameter_number=6 parameter_shape_index=10* color=8
  bool: is_thread_local=3 is_entry_computation_parameter=5 is_constant=12 maybe_live_out=7
  Assigned: assigned=9*
Assigned
  int64: logical_buffer_id=1 offset=2 size=3
"""
"""A message, then by type its fields: name, number, and ``*`` for a list.

Sources: xla/service/hlo.proto and xla/xla_data.proto as of August 2026, and the descriptors in
jaxlib 0.4.30, 0.10.2 and 0.12.0. Numbers never change. Strings are read as bytes, since one bad
byte in a name would else refuse the whole file; so are messages that jaxlib reads.
"""

_SCALARS = {"int64": 3, "int32": 5, "bool": 8, "bytes": 12}
"""Source: google/protobuf/descriptor.proto, FieldDescriptorProto.Type."""


def read_proto(
    data: bytes, path: str = "<proto>", *, progress: Callable[[int, int], None] | None = None
) -> tuple[HloModule, BufferTexts]:
    """Return the module of a proto and its buffer assignment with heap traces.

    Raises:
        DumpSyntaxError: If it is no proto of these kinds, is damaged, or contradicts itself.
        MissingPackageError: If jaxlib or protobuf is not installed.
    """
    from hlo_lens.hlo.module_reader import parse_hlo_modules

    kind = proto_message(data)
    if kind is None:
        raise DumpSyntaxError(
            "expected a HloProto, HloModuleProto or HloSnapshot, found other bytes", path=path
        )
    assignment = None
    if kind == "HloSnapshot":
        data = _decoded("HloSnapshot", data, path).hlo
    if kind != "HloModuleProto":
        proto = _decoded("HloProto", data, path)
        data, assignment = proto.hlo_module, proto.buffer_assignment
    text = _printed(data, path)
    report = None if progress is None else lambda offset: progress(offset, len(text))
    module = parse_hlo_modules(clean(text, path), progress=report)[0]
    if assignment is None:
        return module, BufferTexts()
    return module, _buffers(assignment, data, path)


def compiled_buffers(kind: str, data: bytes, module: bytes) -> BufferTexts:
    """Return the buffer assignment of an executable of JAX.

    Raises:
        DumpSyntaxError: If they are damaged, or not of one compile.
        MissingPackageError: If protobuf is not installed.
    """
    path = "<compiled>"
    message = _decoded(kind, data, path)
    assignment = message.buffer_assignment if kind == "HloProto" else message
    return _buffers(assignment, module, path)


@functools.cache
def _classes() -> dict[str, Any]:
    """Return the class of each message and of the error; MissingPackageError without protobuf."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise MissingPackageError(_MISSING) from error
    file: Any = descriptor_pb2.FileDescriptorProto(
        name="hlo_lens/hlo.proto", package="hlo_lens.xla", syntax="proto2"
    )
    for block in re.split(r"\n(?=\S)", _SCHEMA.strip()):
        name, *words = block.split()
        message, kind = file.message_type.add(name=name), ""
        for word in words:
            label, is_field, number = word.partition("=")
            if not is_field:
                kind = label.rstrip(":")
                continue
            field = message.field.add(name=label, number=int(number.rstrip("*")))
            field.label = 3 if number.endswith("*") else 1  # repeated, optional
            field.type = _SCALARS.get(kind, 11)  # a message
            if kind not in _SCALARS:
                field.type_name = f".hlo_lens.xla.{kind}"
    pool = descriptor_pool.DescriptorPool()  # our own: others may have XLA's protos in theirs
    pool.Add(file)
    descriptors = pool.FindFileByName(file.name).message_types_by_name
    classes = {name: message_factory.GetMessageClass(d) for name, d in descriptors.items()}
    return {**classes, _DECODE_ERROR: DecodeError}


_DECODE_ERROR = "DecodeError"


def _decoded(kind: str, data: bytes, path: str) -> Any:
    classes = _classes()
    message = classes[kind]()
    try:
        message.ParseFromString(data)
    except (classes[_DECODE_ERROR], ValueError, RuntimeError) as error:
        raise DumpSyntaxError(_damage(kind, data), path=path) from error
    return message


def _damage(kind: str, data: bytes) -> str:
    return f"this {kind} of {len(data)} bytes is damaged or cut off: it cannot be decoded"


_HOMES = ("jaxlib._hlo", "jaxlib._jax", "jaxlib.xla_extension")
"""Modules that have had the binding of HloModule since jaxlib 0.4.30."""


_LARGEST_NUMBER = 1 << 26
"""Largest number of an instruction in its computation; XLA would count to one of damaged bytes."""


def _printed(data: bytes, path: str) -> str:
    """Return the text of a HloModuleProto, as XLA prints it.

    XLA takes the numbers of partitions and replicas from the options of a compile, which a proto
    lacks; the device assignment has them.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # else XLA prints its stack at each error
    for home in _HOMES:
        with suppress(ImportError, AttributeError):
            read = importlib.import_module(home).HloModule.from_serialized_hlo_module_proto
            break
    else:
        raise MissingPackageError(_MISSING)
    module = _decoded("HloModuleProto", data, path)
    numbers = (i.id & 0xFFFFFFFF for c in module.computations for i in c.instructions)
    if max(numbers, default=0) > _LARGEST_NUMBER:
        raise DumpSyntaxError(_damage("HloModuleProto", data), path=path)
    assigned = module.device_assignment
    try:
        text: str = read(data).to_string()
    except (RuntimeError, ValueError, TypeError) as error:
        reason = next(iter(str(error).splitlines()), "")
        raise DumpSyntaxError(
            f"{_damage('HloModuleProto', data)} by XLA: {reason}", path=path
        ) from error
    header, line_end, rest = text.partition("\n")
    if assigned.replica_count > 1 and "replica_count=" not in header:
        header += f", replica_count={assigned.replica_count}"
    if assigned.computation_count > 1 and "num_partitions=" not in header:
        header += f", num_partitions={assigned.computation_count}"
    return header + line_end + rest


def _buffers(assignment: Any, module: bytes, path: str) -> BufferTexts:
    from hlo_lens.buffers.assignment_reader import parse_buffer_assignment

    if not assignment.buffer_allocations:
        return BufferTexts()
    try:
        buffers = _Buffers(assignment, _decoded("HloModuleProto", module, path))
        text = buffers.text()
    except ValueError as error:
        raise DumpSyntaxError(
            f"this buffer assignment contradicts itself: {error}", path=path
        ) from error
    return BufferTexts(
        assignment=Lazy(partial(parse_buffer_assignment, clean(text, path))),
    )


class _Buffers:
    """A BufferAssignmentProto with the module whose instructions define its values.

    Raises ValueError where a value, an instruction or a part of a shape is missing. Mirrors
    xla/service/buffer_assignment.cc (BufferAllocation::ToString), as of August 2026.
    """

    def __init__(self, assignment: Any, module: Any) -> None:
        self._assignment = assignment
        self._buffers = {buffer.id: buffer for buffer in assignment.logical_buffers}
        instructions = [i for computation in module.computations for i in computation.instructions]
        self._by_id = {instruction.id: instruction for instruction in instructions}
        self._by_name = {instruction.name: instruction for instruction in instructions}
        self._texts: dict[tuple[bytes, bool], str] = {}
        self._parameters: dict[int, Any] = {}
        for computation in module.computations:
            if computation.id == module.entry_computation_id:
                self._parameters = {
                    i.parameter_number: i
                    for i in computation.instructions
                    if i.opcode == b"parameter"
                }

    def text(self) -> str:
        lines = ["BufferAssignment:"]
        for allocation in self._assignment.buffer_allocations:
            items = [f"allocation {allocation.index}: size {allocation.size}"]
            if allocation.color:
                items.append(f"color {allocation.color}")
            if allocation.is_entry_computation_parameter:
                number, index = allocation.parameter_number, allocation.parameter_shape_index
                shape = "<unknown shape>"
                if number in self._parameters:
                    part = _subshape(self._parameters[number].shape, index)
                    shape = self._shape_text(part, layout=False)
                items.append(f"parameter {number}, shape |{shape}| at ShapeIndex {_index(index)}")
            flags = (
                ("constant", allocation.is_constant),
                ("thread-local", allocation.is_thread_local),
                ("maybe-live-out", allocation.maybe_live_out),
            )
            items += [name for name, is_set in flags if is_set]
            if not allocation.is_entry_computation_parameter and not any(dict(flags).values()):
                items.append("preallocated-temp")
            lines.append(f"{', '.join(items)}:")
            for assigned in sorted(allocation.assigned, key=lambda a: a.logical_buffer_id):
                if assigned.logical_buffer_id not in self._buffers:
                    raise ValueError(f"value {assigned.logical_buffer_id} is assigned, but missing")
                buffer = self._buffers[assigned.logical_buffer_id]
                instruction, index = self._defining(buffer), buffer.defined_at.shape_index
                name = instruction.name.decode("utf-8", "replace")
                if instruction.shape.element_type == _TUPLE:
                    name += _index(index)
                lines.append(
                    f" value: <{buffer.id} {name} @{buffer.color}> "
                    f"(size={assigned.size},offset={assigned.offset}): "
                    f"{self._shape_text(_subshape(instruction.shape, index))}"
                )
        return "\n".join([*lines, ""])

    def _shape_text(self, shape: Any, *, layout: bool = True) -> str:
        key = (shape.SerializeToString(deterministic=True), layout)
        if key not in self._texts:
            self._texts[key] = _shape(shape).to_text(layout=layout)
        return self._texts[key]

    def _defining(self, buffer: Any) -> Any:
        location = buffer.defined_at
        by_id = self._by_id.get(location.instruction_id)
        instruction = self._by_name.get(location.instruction_name, by_id)
        if instruction is None:
            raise ValueError(f"value {buffer.id} has no instruction")
        return instruction


def _index(index: Iterable[int]) -> str:
    return f"{{{','.join(map(str, index))}}}"


_TUPLE, _BUFFER = 13, 34
_TYPES = {
    **{1: "pred", 30: "s1", 26: "s2", 21: "s4", 2: "s8", 3: "s16", 4: "s32", 5: "s64"},
    **{31: "u1", 27: "u2", 22: "u4", 6: "u8", 7: "u16", 8: "u32", 9: "u64"},
    **{10: "f16", 11: "f32", 16: "bf16", 12: "f64", 15: "c64", 18: "c128"},
    **{19: "f8e5m2", 28: "f8e4m3", 20: "f8e4m3fn", 23: "f8e4m3b11fnuz", 29: "f8e3m4"},
    **{24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 32: "f4e2m1fn", 33: "f8e8m0fnu"},
    **{35: "f6e3m2fn", 36: "f6e2m3fn", 14: "opaque", 17: "token"},
}
"""Source: PrimitiveType of xla_data.proto."""


def _subshape(shape: Any, index: Iterable[int]) -> Any:
    """Return a part of a ShapeProto; raises ValueError if there is none."""
    for number in index:
        if not 0 <= number < len(shape.tuple_shapes):
            raise ValueError(f"a value at index {_index(index)} of a shape that has no such part")
        shape = shape.tuple_shapes[number]
    return shape


def _shape(proto: Any) -> Shape:
    """Return the shape of a ShapeProto; raises ValueError for an array of unknown type."""
    if proto.element_type == _TUPLE:
        return Shape.tuple_of([_shape(part) for part in proto.tuple_shapes])
    if proto.element_type == _BUFFER and len(proto.tuple_shapes) == 1:
        return replace(_shape(proto.tuple_shapes[0]), is_buffer=True)
    if proto.element_type not in _TYPES:
        raise ValueError(f"an array of unknown type {proto.element_type}")
    flags = [*proto.is_dynamic_dimension, *[False] * len(proto.dimensions)]
    layout = proto.layout
    has_layout = proto.HasField("layout") and (proto.dimensions or str(_layout(layout)) != "{}")
    return Shape(
        element_type=_TYPES[proto.element_type],
        dimensions=_sizes(proto.dimensions),
        dynamic_dimensions=tuple(flags[: len(proto.dimensions)]),
        layout=_layout(layout) if has_layout else None,
    )


def _sizes(dimensions: Iterable[int]) -> tuple[int | None, ...]:
    return tuple(None if size < 0 else size for size in dimensions)


def _layout(proto: Any) -> Layout:
    return Layout(
        minor_to_major=tuple(proto.minor_to_major),
        tiles=tuple(Tile(dimensions=_sizes(tile.dimensions)) for tile in proto.tiles),
        memory_space=proto.memory_space,
        element_size_in_bits=proto.element_size_in_bits,
    )
