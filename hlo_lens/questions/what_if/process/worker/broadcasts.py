"""Broadcasts of dimensions of size 1, which XLA writes as three operations."""

from __future__ import annotations

from typing import Any


def join_broadcasts(module: Any) -> None:
    """Make one operation of each three that XLA wrote for a broadcast of dimensions of size 1.

    XLA's HLO of ``broadcast_in_dim`` from f32[8,1] to f32[8,64] is a broadcast to f32[8,1], a
    reshape to f32[8] and a broadcast; read again as three, the first is folded away, and the
    program is no longer the one that was compiled. Source: XlaBuilder::BroadcastInDim.
    """
    for operation in list(_broadcasts(module.operation)):
        reshape = _only_producer(operation, "stablehlo.reshape")
        first = None if reshape is None else _only_producer(reshape, "stablehlo.broadcast_in_dim")
        if reshape is None or first is None:
            continue
        kept, size = list(_dimensions(first)), list(first.results[0].type.shape)
        outer = list(operation.results[0].type.shape)
        shape = list(first.operands[0].type.shape)
        if len(size) != len(outer):
            continue
        stripped = [k for k in range(len(size)) if size[k] == 1 != outer[k]]
        left = [k for k in range(len(size)) if k not in stripped]
        is_one = (
            [size[k] for k in kept] == shape
            and list(_dimensions(operation)) == left
            and list(reshape.results[0].type.shape) == [size[k] for k in left]
        )
        if is_one:
            _replace(operation, first, (operation, reshape, first))


def _broadcasts(operation: Any) -> Any:
    """Yield the broadcasts in the regions of an operation, users after what they use."""
    for region in operation.regions:
        for block in region:
            for inner in block.operations:
                if inner.operation.name == "stablehlo.broadcast_in_dim":
                    yield inner.operation
                yield from _broadcasts(inner.operation)


def _dimensions(operation: Any) -> Any:
    return operation.attributes["broadcast_dimensions"]


def _only_producer(operation: Any, name: str) -> Any:
    """Return the operation that makes an operand for this operation only; None for others."""
    value = operation.operands[0]
    producer = getattr(value.owner, "operation", value.owner)
    if getattr(producer, "name", "") != name or len(list(producer.results[0].uses)) != 1:
        return None
    return producer


def _replace(operation: Any, first: Any, gone: tuple[Any, ...]) -> None:
    """Put a broadcast of the first operand in place of an operation; erase the others."""
    from jaxlib.mlir import ir

    made = ir.Operation.create(
        operation.name,
        results=[operation.results[0].type],
        operands=[first.operands[0]],
        attributes={"broadcast_dimensions": first.attributes["broadcast_dimensions"]},
        loc=operation.location,
        ip=ir.InsertionPoint(operation),
    )
    operation.results[0].replace_all_uses_with(made.results[0])
    for one in gone:
        one.erase()
