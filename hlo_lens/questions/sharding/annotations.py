"""Sharding annotations inside a program: constraints, shard_map bodies, attributes.

Custom calls: ``Sharding`` (a constraint, of ``with_sharding_constraint``), ``SPMDFullToShardShape``
and ``SPMDShardToFullShape`` (into and out of shard_map, GSPMD), ``xla.sdy.GlobalToLocalShape`` and
``xla.sdy.LocalToGlobalShape`` (the same of Shardy), ``xla.sdy.FuncResultSharding`` (a result) and
the other targets of Shardy. Attributes: ``xla.sdy.sharding`` and the like, on instructions other
than the entry's parameters. Bodies of shard_map: computations whose shapes are those of one device.

The partitioner consumes them, so that only the text from before optimizations has them.

Sources: xla/service/spmd/shardy/constants.h, xla/service/spmd/custom_call_handler.cc, jax/_src/
shard_map.py, as of August 2026.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.questions.sharding.placement import custom_call_target
from hlo_lens.render.result import NOT_SAVED, Records
from hlo_lens.shapes.named_sharding import partition_spec_text
from hlo_lens.shapes.sharding import (
    IN_SHARDINGS,
    MANUAL_BODIES,
    MESHES,
    OUT_SHARDINGS,
    SHARDING,
    shardy_meshes,
    shardy_shardings,
)
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.sharding import HloSharding


_TARGETS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}
_SHARDY = "xla.sdy."
_TARGET_WORDS = ('target="Sharding"', 'target="SPMD', 'target="xla.sdy')
_BODIES = (*MANUAL_BODIES, "shmap_body")
_VALUES = (SHARDING, IN_SHARDINGS, OUT_SHARDINGS)

BODY = "shard_map body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One sharding annotation of a program.

    For a body, `instruction` is its call, if there is one, `computation` the body itself, and
    `shape` that of its result. Snapshots have a row for each value, and no names of instructions.
    """

    annotation: Annotated[str, "custom call target, attribute, or shard_map body"]
    instruction: Annotated[str, "instruction that has it"] = field(
        default="", compare=False, repr=False, metadata=NOT_SAVED
    )
    computation: Annotated[str, "computation that holds it"] = field(
        default="", compare=False, repr=False, metadata=NOT_SAVED
    )
    shape: Annotated[str | None, "shape of the instruction, as printed"]
    sharding: Annotated[str | None, "sharding as printed"]
    spec: Annotated[str | None, "the same as partition specs"]
    source: Annotated[str | None, "source line, file:line"]
    op_name: Annotated[str | None, "operation path"]

    @property
    def global_shape(self) -> str | None:
        """The shape, which is that of the whole value."""
        return self.shape


@dataclass(frozen=True, kw_only=True)
class ShardingAnnotations(Records[Annotation]):
    """Annotations in text order."""

    KIND: ClassVar[str] = "sharding-annotations"
    annotations: tuple[Annotation, ...]

    def counts(self) -> dict[str, int]:
        """Return the number of annotations of each kind, most frequent first."""
        found = Counter(annotation.annotation for annotation in self.annotations)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def sharding_annotations(table: InstructionTable, given: Mesh | None = None) -> ShardingAnnotations:
    """Return the annotations inside a text; `given` is the mesh that the user names."""
    module = table.module
    meshes = shardy_meshes(module.frontend_attributes.get(MESHES, ""))

    def spec_text(sharding: HloSharding | None) -> str | None:
        own = None if sharding is None or sharding.named is None else sharding.named.mesh
        mesh = given or own or next(iter(meshes.values()), None)
        spec = None if mesh is None or sharding is None else sharding.to_partition_spec(mesh)
        return None if spec is None else partition_spec_text(spec)

    @cache
    def specs(text: str, is_shardy: bool) -> str | None:
        """Return the specs of shardings; None where none of them has one."""
        try:
            if is_shardy:
                shardings: Sequence[HloSharding | None] = shardy_shardings(text, meshes)
            else:
                sharding = module.reader.sharding(text)
                shardings = sharding.elements or (sharding,)
        except DumpSyntaxError:
            return None
        texts = list(map(spec_text, shardings))
        return ", ".join(text or "?" for text in texts) if any(texts) else None

    found = [*_bodies(table)]
    words = (_SHARDY, *_TARGET_WORDS)
    rows = {row for word in words for row in module.columns.rows_with_attribute_text(word)}
    for row in sorted(rows):
        instruction = table.instruction(row)
        attributes, target = instruction.frontend_attributes, custom_call_target(instruction)
        names = [target]
        if target not in _TARGETS and not target.startswith(_SHARDY):
            is_input = table.opcodes[row] == "parameter" and instruction.computation.is_entry
            names = [] if is_input else [key for key in attributes if key.startswith(_SHARDY)]
        printed = instruction.attribute("sharding")
        text = next((attributes[key] for key in _VALUES if key in attributes), None)
        found += (
            Annotation(
                annotation=name,
                instruction=instruction.name,
                computation=instruction.computation.name,
                shape=_shape_text(instruction),
                sharding=printed or text or attributes.get(name),
                spec=(specs(text, True) if text else None)
                or (specs(printed, False) if printed else None),
                source=instruction.source,
                op_name=instruction.op_name,
            )
            for name in names
        )
    return ShardingAnnotations(annotations=tuple(found))


def _bodies(table: InstructionTable) -> Iterator[Annotation]:
    module = table.module
    for computation in module.computations:
        if not computation.name.startswith(_BODIES):
            continue
        call, root = next(iter(computation.callers), None), computation.root
        yield Annotation(
            annotation=BODY,
            instruction="" if call is None else call.name,
            computation=computation.name,
            shape=None if root is None else _shape_text(root),
            sharding=None,
            spec=None,
            source=None if call is None else call.source,
            op_name=None if call is None else call.op_name,
        )


def _shape_text(instruction: HloInstruction) -> str | None:
    try:
        shape = instruction.shape
    except DumpSyntaxError:
        return None
    return None if shape is None else shape.to_text(layout=False)
