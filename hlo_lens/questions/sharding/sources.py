"""Sources of a module's shardings and meshes: its text, and the text before optimizations.

A text from after partitioning has the shapes of one device, and at most the shardings of the
entry's parameters, which XLA omits since libtpu 0.0.50 and jax 0.12. The text from before
optimizations has global shapes, the shardings of parameters and results, and the mesh axes, as V3
shardings (jax 0.12) or as Shardy's attributes (jax 0.7 to 0.10).

Sources: xla/service/spmd/spmd_partitioner.cc (the entry is renamed ``X_spmd``), as of August 2026;
seen in the dumps of jax 0.4.13 to 0.12.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.hlo.query import InstructionTable, evident_partitions, tabulate
from hlo_lens.program.signature import EntrySignature, EntryValue, braces, signature_of
from hlo_lens.questions.sharding.mesh_axes import named_meshes
from hlo_lens.shapes import shardy
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.hlo.framework import Framework, FrameworkValue
    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import ShapeIndex
    from hlo_lens.shapes.sharding import HloSharding

Key: TypeAlias = tuple[str, int, str]
"""``parameter`` or ``output``, number of the parameter, shape index of the leaf."""

_SHARDING_TARGETS = {
    "Sharding",
    "SPMDShardToFullShape",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.LocalToGlobalShape",
}
"""Custom calls whose sharding is that of the global value they return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryText:
    """The entry of one text of a module.

    Attributes:
        module: The text.
        table: Its instructions.
        signature: Its parameters and outputs.
        shardings: By value: ``sharding=`` of the custom call that returns it.
        shardy: By value: sharding in Shardy's attribute.
        told: By value: sharding known to the framework, if it compiled the module.
    """

    module: HloModule
    table: InstructionTable
    signature: EntrySignature
    shardings: dict[Key, HloSharding]
    shardy: dict[Key, HloSharding]
    told: dict[Key, FrameworkValue] = field(default_factory=dict)

    def items(self) -> Iterator[tuple[Key, EntryValue]]:
        """Yield parameters and outputs with their keys.

        A parameter without a printed number is numbered by position.
        """
        for place, value in enumerate(self.signature.parameters):
            number = -1 - place if value.number is None else value.number
            yield ("parameter", number, value.index), value
        for value in self.signature.outputs:
            yield ("output", 0, value.index), value

    def sharding(self, key: Key, value: EntryValue | None) -> HloSharding | None:
        """Return the ``sharding=`` of a value; None if there is none or it cannot be read."""
        text = None if value is None else value.sharding
        if text is not None:
            try:
                return self.module.reader.sharding(text)
            except DumpSyntaxError:
                pass
        return self.shardings.get(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleShardings:
    """The texts of a module and its meshes.

    Attributes:
        own: The text itself.
        before: The text from before optimizations; None if there is no other, or if it has
            other parameters or results than `own`.
        is_per_device: Whether shapes of `own` are those of one device.
        num_devices: Partitions of the program; of all slices if only `before` has them.
        meshes: Meshes for specs, in the order in which they are tried.
        is_given: Whether the user named the mesh; names in the texts are then ignored.
    """

    own: EntryText
    before: EntryText | None
    is_per_device: bool
    num_devices: int
    meshes: tuple[Mesh, ...]
    is_given: bool = False

    def shardings_of(
        self, key: Key, value: EntryValue, other: EntryValue | None
    ) -> list[HloSharding]:
        """Return the shardings of a value in framework and texts, the most reliable first.

        Args:
            key: Its key.
            value: The value in `own`.
            other: The same value in `before`.
        """
        texts = [(self.own, value), *([(self.before, other)] if self.before else [])]
        told = self.own.told.get(key)
        said = [None if told is None else told.sharding]
        said += [text.sharding(key, found) for text, found in texts]
        said += [text.shardy.get(key) for text, _ in texts]
        return [sharding for sharding in said if sharding is not None]


def module_shardings(
    module: HloModule,
    before: HloModule | None,
    given: Mesh | None = None,
    *,
    lowered: Sequence[Mesh] = (),
    known: tuple[InstructionTable, EntrySignature] | None = None,
) -> ModuleShardings:
    """Return the sources of a module's shardings.

    Args:
        module: The module.
        before: Its text from before optimizations, if there is another one.
        given: Mesh named by the user; it precedes those of the texts.
        lowered: Meshes of the program as lowered, which follow those of the texts.
        known: Table and signature of the module, if they exist already.
    """
    own = _entry_text(module, known)
    other = None if before is None else _entry_text(before)
    if other is not None and dict(other.items()).keys() != dict(own.items()).keys():
        other = None
    texts = [module, *([] if before is None else [before])]
    found = dict.fromkeys(mesh for text in texts for mesh in named_meshes(text))
    found.update(dict.fromkeys(lowered))
    partitions = evident_partitions(own.table) or 1  # what is not printed is 1
    if other is not None and partitions < other.module.num_partitions:
        partitions = other.module.num_partitions  # a text of one slice of several
    for mesh in lowered if partitions > 1 else ():
        if mesh.size > partitions and mesh.size % partitions == 0:
            partitions = mesh.size  # of several slices too
    return ModuleShardings(
        own=own,
        before=other,
        is_per_device=is_per_device(own.table),
        num_devices=partitions,
        meshes=tuple(found) if given is None else (given,),
        is_given=given is not None,
    )


def is_per_device(table: InstructionTable) -> bool:
    """Return whether a text is from after partitioning, so that its shapes are of one device.

    A program of one partition is both. The partitioner renames the entry to ``X_spmd``; a scheduled
    program has been partitioned, and so has one whose entry has collectives outside shard_map.
    """
    module = table.module
    if not module.computations or module.is_scheduled:
        return True
    if module.entry.name.endswith("_spmd") or (evident_partitions(table) or 1) == 1:
        return True
    collectives = table.rows_where(lambda traits: traits.collective_kind is not None)
    return any(row in module.entry.rows for row in collectives)


def _entry_text(
    module: HloModule, known: tuple[InstructionTable, EntrySignature] | None = None
) -> EntryText:
    if known is None:
        table = tabulate(module)
        known = table, signature_of(table)
    table, signature = known
    given: dict[Key, HloSharding] = {}
    named: dict[Key, HloSharding] = {}
    if module.computations:
        calls = map(table.instruction, table.rows_of({"custom-call"}))
        if any(custom_call_target(call) in _SHARDING_TARGETS for call in calls):
            for key, source, place in _output_sources(module):
                sharding = _sharding_of_source(source, place)
                if sharding is not None:
                    given[key] = sharding
        if shardy.SHARDINGS_BEGIN in module.columns.source.text:
            named = dict(_shardy_shardings(module))
    return EntryText(
        module=module,
        table=table,
        signature=signature,
        shardings=given,
        shardy=named,
        told=dict(_told(module.framework)),
    )


def _told(framework: Framework | None) -> Iterator[tuple[Key, FrameworkValue]]:
    """Yield the shardings of parameters and outputs that the framework knows."""
    if framework is None:
        return
    for value in framework.arguments:
        if value.number is not None:
            yield ("parameter", value.number, index_text(value.index)), value
    for value in framework.outputs:
        yield ("output", 0, index_text(value.index)), value


def index_text(index: ShapeIndex) -> str:
    """Return a shape index as XLA prints it; empty for the whole value."""
    return braces(index) if index else ""


def _output_sources(module: HloModule) -> Iterator[tuple[Key, HloInstruction, int]]:
    """Yield for each output the instruction that computes it, and the shape index of the result."""
    root = module.entry.root
    if root is None:
        return
    if root.opcode != "tuple":
        source, place = _source_of(module, root.name, ())
        if source is not None:
            yield ("output", 0, ""), source, place
        return
    for number, operand in enumerate(root.operands):
        source, place = _source_of(module, operand.name, operand.index)
        if source is not None:
            yield ("output", 0, f"{{{number}}}"), source, place


def _source_of(
    module: HloModule, name: str, index: tuple[int, ...]
) -> tuple[HloInstruction | None, int]:
    """Return the instruction behind a get-tuple-element, and the shape index it takes."""
    found = module.entry.instruction(name)
    if found is not None and found.opcode == "get-tuple-element" and found.operand_names:
        return module.entry.instruction(found.operand_names[0]), found.tuple_index or 0
    return found, index[0] if index else 0


def _sharding_of_source(source: HloInstruction, place: int) -> HloSharding | None:
    """Return the ``sharding=`` of a custom call that annotates a sharding."""
    if source.opcode != "custom-call" or custom_call_target(source) not in _SHARDING_TARGETS:
        return None
    try:
        sharding = source.sharding
    except DumpSyntaxError:
        return None
    if sharding is None or not sharding.elements:
        return sharding
    return sharding.elements[place] if place < len(sharding.elements) else None


def custom_call_target(instruction: HloInstruction) -> str:
    """Return the target of a custom call without quotes; empty for other instructions."""
    text = instruction.attribute("custom_call_target")
    return instruction.computation.module.reader.string(text) if text else ""


def _shardy_shardings(module: HloModule) -> Iterator[tuple[Key, HloSharding]]:
    """Yield the shardings of entry parameters and outputs in Shardy's attributes."""
    meshes = shardy.shardy_meshes(module.frontend_attributes.get(shardy.MESHES, ""))
    read: dict[str, tuple[HloSharding | None, ...]] = {}

    def element(text: str | None, place: int) -> HloSharding | None:
        if text is None:
            return None
        if text not in read:
            read[text] = shardy.shardy_shardings(text, meshes)
        return read[text][place] if place < len(read[text]) else None

    for number, parameter in enumerate(module.entry.parameters):
        own = parameter.parameter_number
        key = ("parameter", -1 - number if own is None else own, "")
        sharding = element(parameter.frontend_attributes.get(shardy.SHARDING), 0)
        if sharding is not None:
            yield key, sharding
    for key, source, place in _output_sources(module):
        attributes = source.frontend_attributes
        text = attributes.get(shardy.SHARDING) or attributes.get(shardy.OUT_SHARDINGS)
        sharding = element(text, place)
        if sharding is not None:
            yield key, sharding
    yield from _tuple_shardings(module, element)


def _tuple_shardings(
    module: HloModule, element: Callable[[str | None, int], HloSharding | None]
) -> Iterator[tuple[Key, HloSharding]]:
    """Yield the shardings, in the module's attributes, of arguments passed as one tuple."""
    attributes = module.frontend_attributes
    for name, direction in (
        (shardy.TUPLE_ARGS_SHARDINGS, "parameter"),
        (shardy.TUPLE_RESULTS_SHARDINGS, "output"),
    ):
        place = 0
        while (sharding := element(attributes.get(name), place)) is not None:
            yield (direction, 0, f"{{{place}}}"), sharding
            place += 1
