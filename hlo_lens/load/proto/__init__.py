"""Protos of XLA (``.hlo.pb``) as the texts that XLA would print of them.

A proto is a HloModuleProto, a HloProto (a module with its buffer assignment and heap traces) or a
HloSnapshot (a HloProto with its arguments). It is printed as text, and the text is read like any
other: one model, one set of passes, and errors with a line and a column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hlo_lens.text.content_kind import proto_message
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from hlo_lens.buffers.assignment import HeapTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoTexts:
    """A proto as text.

    Attributes:
        message: Name of the message.
        hlo: HLO text.
        assignment: Text of the buffer assignment; None if the proto has none.
        traces: Heap traces of it.
    """

    message: str
    hlo: str
    assignment: str | None = None
    traces: tuple[HeapTrace, ...] = ()


def read_proto(data: bytes, path: str = "<proto>") -> ProtoTexts:
    """Return the texts of a proto.

    Raises:
        DumpSyntaxError: If it is no proto of these kinds, or is damaged.
        MissingPackageError: If the protobuf package is not installed.
    """
    name = proto_message(data)
    if name is None:
        raise DumpSyntaxError(
            "expected a HloProto, HloModuleProto or HloSnapshot, found other bytes", path=path
        )
    message = _decoded(name, data, path)
    proto = message.hlo if name == "HloSnapshot" else message
    module = proto if name == "HloModuleProto" else proto.hlo_module
    assignment = None if name == "HloModuleProto" else proto.buffer_assignment
    return texts_of(name, module, assignment, path)


def assignment_texts(module: bytes, assignment: bytes, name: str) -> ProtoTexts:
    """Return the texts of a module and of its buffer assignment, given as separate protos.

    Args:
        module: A HloModuleProto.
        assignment: A BufferAssignmentProto, or a HloProto that has one.
        name: Message of `assignment`: BufferAssignmentProto or HloProto.

    Raises:
        DumpSyntaxError: If they are damaged, or not of one compile.
        MissingPackageError: If the protobuf package is not installed.
    """
    path = "<compiled>"
    found = _decoded(name, assignment, path)
    own = _decoded("HloModuleProto", module, path)
    return texts_of(name, own, found.buffer_assignment if name == "HloProto" else found, path)


def _decoded(name: str, data: bytes, path: str) -> Any:
    """Return a decoded message; raises DumpSyntaxError if the bytes are damaged."""
    from hlo_lens.load.proto.schema import message_class

    message = message_class(name)()
    from google.protobuf.message import DecodeError

    try:
        message.ParseFromString(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise DumpSyntaxError(
            f"this {name} of {len(data)} bytes is damaged or cut off: it cannot be decoded",
            path=path,
        ) from error
    return message


def texts_of(name: str, module: Any, assignment: Any, path: str) -> ProtoTexts:
    """Return the texts of decoded messages; raises DumpSyntaxError.

    Args:
        name: Name of the outer message.
        module: A HloModuleProto.
        assignment: A BufferAssignmentProto, or None.
        path: Name for messages.
    """
    from hlo_lens.load.proto.buffers import BufferPrinter
    from hlo_lens.load.proto.modules import module_text

    try:
        text = module_text(module)
        if assignment is None or not assignment.buffer_allocations:
            return ProtoTexts(message=name, hlo=text)
        printer = BufferPrinter(assignment, module)
        return ProtoTexts(
            message=name, hlo=text, assignment=printer.text(), traces=printer.traces()
        )
    except ValueError as error:
        raise DumpSyntaxError(f"this {name} contradicts itself: {error}", path=path) from error
