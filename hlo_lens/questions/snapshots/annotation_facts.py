"""Sharding annotations of a module as facts of a snapshot: one row for each value.

The wording changes from version to version of JAX: shard_map of 0.4 to 0.6 has pairs of GSPMD's
custom calls (a ``Sharding`` of the global value, then one that is manual), 0.7 to 0.10 Shardy's
``GlobalToLocalShape`` of all operands with their shardings, 0.12 a ``Sharding`` for each operand
and a manual ``GlobalToLocalShape``. So that they can be compared, tuples are split into their
values, shardings are printed as tiles of devices, and operands have their global shape.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.annotations import Annotation
from hlo_lens.shapes import shardy
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.portable_names import portable_source, split_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.hlo.text_reader import HloReader
    from hlo_lens.questions.sharding.annotations import Annotation
    from hlo_lens.questions.sharding.savings import ShardingResults
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape
    from hlo_lens.shapes.sharding import HloSharding

_RESULT = "xla.sdy.FuncResultSharding"
"""Annotation of a result's sharding, which the rows of outputs have."""

_ENTERING = "xla.sdy.GlobalToLocalShape"
"""Annotation whose shape is that of one device, and its sharding that of the operand."""

_SPECS = re.compile(r", (?=P\(|\?)")


def annotation_facts(results: ShardingResults) -> tuple[Annotation, ...] | None:
    """Return the annotations of a program; None if the text that has them is not there."""
    found = results.found
    if found.before is None and found.is_per_device:
        return None
    module = (found.before or found.own).module
    meshes = shardy.shardy_meshes(module.frontend_attributes.get(shardy.MESHES, ""))
    reader = _Reader(module.reader, meshes)
    return tuple(
        fact
        for one in results.annotations.annotations
        if one.annotation != _RESULT
        for fact in reader.facts(one)
    )


class _Reader:
    """Reader of the values of annotations that parses each distinct text once."""

    def __init__(self, reader: HloReader, meshes: Mapping[str, Mesh]) -> None:
        self._reader = reader
        self._meshes = meshes
        self._shardings: dict[str, tuple[HloSharding | None, ...]] = {}
        self._shapes: dict[str, tuple[Shape, ...]] = {}

    def facts(self, one: Annotation) -> Iterator[Annotation]:
        """Yield the values of an annotation; the annotation itself if they cannot be told apart."""
        whole = dataclasses.replace(one, source=portable_source(*split_source(one.source)))
        shapes = self._shapes_of(one.shape)
        shardings = self._shardings_of(one.sharding)
        specs: list[str | None] = [*_SPECS.split(one.spec)] if one.spec else []
        specs = specs or [None] * len(shardings)
        if not len(shapes) == len(shardings) == len(specs):
            yield whole
            return
        for shape, sharding, spec in zip(shapes, shardings, specs, strict=True):
            if sharding is None:
                yield dataclasses.replace(whole, shape=shape.to_text(layout=False), spec=spec)
                continue
            if one.annotation == _ENTERING:
                shape = _global_shape(shape, sharding)
            yield dataclasses.replace(
                whole,
                shape=shape.to_text(layout=False),
                sharding=sharding.to_v2().text,
                spec=None if spec == "?" else spec,
            )

    def _shapes_of(self, text: str | None) -> tuple[Shape, ...]:
        if text is None:
            return ()
        if text not in self._shapes:
            try:
                shape = self._reader.shape(text)
            except DumpSyntaxError:
                self._shapes[text] = ()
            else:
                self._shapes[text] = shape.tuple_shapes if shape.is_tuple else (shape,)
        return self._shapes[text]

    def _shardings_of(self, text: str | None) -> tuple[HloSharding | None, ...]:
        if text is None:
            return ()
        if text not in self._shardings:
            self._shardings[text] = self._read(text)
        return self._shardings[text]

    def _read(self, text: str) -> tuple[HloSharding | None, ...]:
        if shardy.SHARDINGS_BEGIN in text:
            return shardy.shardy_shardings(text, self._meshes)
        try:
            sharding = self._reader.sharding(text)
        except DumpSyntaxError:
            return ()
        return sharding.elements or (sharding,)


def _global_shape(shape: Shape, sharding: HloSharding) -> Shape:
    """Return the shape whose part on one device is a shape."""
    counts = sharding.tile_counts
    if len(counts) != len(shape.dimensions):
        return shape
    sizes = tuple(
        None if size is None else size * count
        for size, count in zip(shape.dimensions, counts, strict=True)
    )
    return dataclasses.replace(shape, dimensions=sizes)
