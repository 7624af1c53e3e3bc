"""A program as the framework lowered it to StableHLO, before XLA compiles it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape
    from hlo_lens.shapes.sharding import HloSharding
    from hlo_lens.text.errors import Gap


@dataclass(frozen=True, kw_only=True)
class LoweredValue:
    """An argument or result of a lowered program.

    Attributes:
        name: Name in the text, such as ``%arg0`` or the ``jax.result_info`` of a result.
        type_text: Type as written, such as ``tensor<8x4xbf16>``.
        shape: Global shape; None for a type that is no array.
        sharding_text: Sharding as written; None if there is none.
        sharding: The sharding; None if there is none, or if it cannot be read.
        is_donated: Whether its memory is donated (``jax.buffer_donor``, ``tf.aliasing_output``).
        output_number: Result that reuses its memory; None if none is chosen yet.
    """

    name: str
    type_text: str
    shape: Shape | None = None
    sharding_text: str | None = None
    sharding: HloSharding | None = None
    is_donated: bool = False
    output_number: int | None = None

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the whole array; None if not known."""
        return None if self.shape is None else self.shape.size_bytes

    @cached_property
    def device_bytes(self) -> int | None:
        """Bytes on each device; None if the sharding, or the size, is not known."""
        if self.shape is None or self.sharding is None:
            return None
        return self.sharding.shard_shape(self.shape).size_bytes


@dataclass(frozen=True, kw_only=True)
class LoweredModule:
    """A program in StableHLO: its signature, and counts of its operations.

    Attributes:
        name: Name of the module.
        num_partitions: Number of partitions; None if not printed.
        replica_count: Number of replicas; None if not printed.
        meshes: Meshes by name.
        arguments: Arguments of the main function; None if its signature cannot be read.
        results: Its results, likewise.
        operations: Number of operations by name, as written, in all functions; returns are none.
        custom_calls: Number of custom calls by target.
        gaps: Parts that could not be read.
    """

    name: str
    num_partitions: int | None = None
    replica_count: int | None = None
    meshes: Mapping[str, Mesh] = field(default_factory=dict)
    arguments: tuple[LoweredValue, ...] | None = None
    results: tuple[LoweredValue, ...] | None = None
    operations: Counter[str] = field(default_factory=Counter)
    custom_calls: Counter[str] = field(default_factory=Counter)
    gaps: tuple[Gap, ...] = ()
