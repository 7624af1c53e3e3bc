"""Another mesh: more or fewer devices, or the same ones divided over the axes in another way.

It applies where shardings name mesh axes. Shardy's do, by a table of meshes in the header; what the
text also has as ``sharding=`` is left out, since it numbers the old devices. Shardings of jax 0.12
name the axes with their sizes. A program for GSPMD only numbers devices: there, with a mesh named
by the user, each sharding is expressed by its axes and written for the new mesh. Where nothing
names a mesh, a request with as many devices names it for the other changes.

A ``shard_map`` body has the shapes of one device, and collectives in a text before optimizations
have groups of numbered devices: then the change does not apply.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcodes_where
from hlo_lens.questions.what_if.arguments import EntryArrays, result_name
from hlo_lens.questions.what_if.edit import Change, ProgramEdit
from hlo_lens.questions.what_if.text_edits import TextEdits
from hlo_lens.shapes import shardy
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.sharding import HloSharding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule

_OF_ONE_DEVICE = (
    "FullToShardShape",
    "ShardToFullShape",
    "GlobalToLocalShape",
    "LocalToGlobalShape",
    "replica_groups=",
    "source_target_pairs=",
    "sharding={manual}",
    *shardy.MANUAL_BODIES,
)
"""Words in attributes of instructions whose shapes or groups depend on the number of devices."""

_SUB_AXIS = re.compile(r"""(?:\\"|\\22|['"])([^'"\\]+)(?:\\"|\\22|['"]):\(""")


def edit_mesh(module: HloModule, request: str, *, meshes: Sequence[Mesh] = ()) -> ProgramEdit:
    """Return the text's change for other sizes of mesh axes; all of it, or nothing.

    Args:
        module: The program before optimizations.
        request: ``data=8,model=4``; axes that it does not name keep their sizes.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If the request is malformed.
    """
    wanted = Mesh.from_sizes_text(request)
    resizer = _Resizer(module, wanted, meshes)
    if not resizer.old and wanted.size == module.num_partitions > 1:
        effect = f"names the axes of the {wanted.size} devices, which the text only numbers"
        change = Change(kind="mesh", target=request, effect=effect)
        return ProgramEdit(changes=(change.for_request(request),))
    return resizer.edit(request)


def resized_mesh(mesh: Mesh, request: str) -> Mesh:
    """Return a mesh with the sizes of a request; axes that it does not name keep theirs."""
    wanted = Mesh.from_sizes_text(request)
    return _resized(mesh, dict(zip(wanted.axis_names, wanted.axis_sizes, strict=True)))


def _resized(mesh: Mesh, wanted: Mapping[str, int]) -> Mesh:
    sizes = zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    return Mesh.of({name: wanted.get(name, size) for name, size in sizes})


class _Resizer:
    """Edits of the mesh of one module."""

    def __init__(self, module: HloModule, wanted: Mesh, given: Sequence[Mesh]) -> None:
        self.module = module
        self.arrays = EntryArrays.of(module)
        self.edits = TextEdits(module)
        self.wanted = dict(zip(wanted.axis_names, wanted.axis_sizes, strict=True))
        named = shardy.shardy_meshes(module.frontend_attributes.get(shardy.MESHES, ""))
        self.is_shardy = bool(named)
        known = named.values() if named else self.arrays.table.meshes or given
        self.old = [mesh for mesh in known if mesh.axis_names]

    def edit(self, request: str) -> ProgramEdit:
        """Return the edit."""
        known = {mesh for mesh in self.old if self.wanted.keys() <= set(mesh.axis_names)}
        if known and all(self._resized(mesh) == mesh for mesh in self.old):
            change = Change(kind="mesh", target=request, effect="it is the program's own mesh")
            return ProgramEdit(changes=(change.for_request(request),))
        reason = self._why_not() or self._rewrite_shardings()
        if reason:
            return ProgramEdit(
                changes=(Change.refused("mesh", request, reason).for_request(request),)
            )
        old, new = self.old[0], self._resized(self.old[0])
        count = f"{new.size} devices"
        if new.size != old.size:
            count += f" instead of {old.size}"
        self.edits.set_header("num_partitions", str(new.size) if new.size > 1 else "")
        change = Change(kind="mesh", target=request, effect=f"{new} for {old}: {count}")
        changes = (change.for_request(request),)
        return ProgramEdit(changes=changes, replacements=self.edits.replacements())

    # ---- applicability -------------------------------------------------------------------------

    def _why_not(self) -> str:
        """Return why the mesh cannot be changed."""
        if not self.old:
            return "the text numbers devices and names no mesh axes"
        axes = set(self.old[0].axis_names)
        if any(set(mesh.axis_names) != axes for mesh in self.old):
            return f"it has several meshes: {', '.join(map(str, self.old))}"
        if unknown := sorted(self.wanted.keys() - axes):
            return f"no axis {', '.join(unknown)} in {self.old[0]}"
        if any(mesh.device_assignment is not None for mesh in self.old):
            return f"{self.old[0]} has its devices in an order of its own"
        if self.module.replica_count > 1:
            return f"the program has {self.module.replica_count} replicas"
        if divided := self.wanted.keys() & set(_SUB_AXIS.findall(self.module.columns.source.text)):
            return f"a sharding has a part of axis {min(divided)}"
        manual = next(self._of_one_device(), None)
        if manual is not None:
            place = manual.source or f"line {manual.line}"
            return f"{manual.name} ({place}) has shapes or groups for the devices of this mesh"
        return self._uneven()

    def _resized(self, mesh: Mesh) -> Mesh:
        return _resized(mesh, self.wanted)

    def _of_one_device(self) -> Iterator[HloInstruction]:
        """Yield instructions of manual parts, and collectives."""
        module = self.module
        text = module.columns.source.text
        for word in _OF_ONE_DEVICE:
            if word in text:
                for row in module.columns.rows_with_attribute_text(word):
                    yield module.instruction(row)
        for row in module.opcodes.places_of(opcodes_where(lambda one: one.is_device_number)):
            yield module.instruction(row)

    def _uneven(self) -> str:
        """Return which stated sharding does not divide its value."""
        new = self._resized(self.old[0])
        sizes = dict(zip(new.axis_names, new.axis_sizes, strict=True))
        results = enumerate(self.arrays.results)
        stated = [one for place, one in results if place not in self.arrays.open_results]
        for value in (*self.arrays.arguments, *stated):
            spec = None if value.sharding is None else value.sharding.to_partition_spec(self.old[0])
            shape = value.global_shape
            for place, (entry, size) in enumerate(
                zip(spec or (), () if shape is None else shape.dimensions, strict=False)
            ):
                axes = (entry,) if isinstance(entry, str) else entry or ()
                count = math.prod(sizes[axis] for axis in axes)
                if size is None or size % count:
                    is_output = value.value.kind == "output"
                    name = result_name(value) if is_output else value.value.name
                    return f"dimension {place} of {name}, {size}, does not divide by {count}"
        return ""

    # ---- edits ---------------------------------------------------------------------------------

    def _rewrite_shardings(self) -> str:
        """Edit all shardings; return why one of them cannot be."""
        if self.is_shardy:
            value = self.module.header["frontend_attributes"]
            self.edits.set_header("frontend_attributes", self._resized_text(value))
        for instruction in self._with_sharding():
            text = instruction.attribute("sharding")
            if text is not None and (new := self._rewritten(text, instruction)) is None:
                place = instruction.source or f"line {instruction.line}"
                return f"the sharding of {instruction.name} ({place}) has no form by axes: {text}"
            if text is not None:
                self.edits.set_attribute(instruction, "sharding", new or None)
        return ""

    def _with_sharding(self) -> Iterator[HloInstruction]:
        rows = self.module.columns.rows_with_attribute_text("sharding=")
        return (self.module.instruction(row) for row in dict.fromkeys(rows))

    def _rewritten(self, text: str, instruction: HloInstruction) -> str | None:
        """Return a sharding for the new mesh; empty to leave it out; None if there is none."""
        if self.is_shardy:
            return ""
        sharding = self.module.reader.sharding(text)
        shape = instruction.shape
        elements = sharding.elements or (sharding,)
        shapes = [leaf for _, leaf in shape.leaves()] if shape is not None else []
        ranks = [leaf.rank for leaf in shapes] or [0]
        if len(ranks) != len(elements):
            ranks = ranks[:1] * len(elements)
        new = [self._for_new_mesh(one, rank) for one, rank in zip(elements, ranks, strict=True)]
        if any(one is None for one in new):
            return None
        words = [str(one) for one in new]
        return f"{{{', '.join(words)}}}" if sharding.elements else words[0]

    def _for_new_mesh(self, sharding: HloSharding, rank: int) -> str | None:
        old = self.old[0]
        if sharding.named is not None and sharding.named.mesh == old:
            return sharding.text.replace(str(old), str(self._resized(old)))
        if sharding.kind is ShardingKind.MAXIMAL:
            return sharding.text
        spec = sharding.to_partition_spec(old)
        if spec is None:
            return None
        return HloSharding.from_partition_spec(self._resized(old), spec, rank=rank).text

    def _resized_text(self, text: str) -> str:
        """Return the text of a table of meshes with the new sizes."""
        for name, size in self.wanted.items():
            quoted = rf'((?:\\?"|\\22){re.escape(name)}(?:\\?"|\\22)\s*=\s*)\d+'
            text = re.sub(quoted, rf"\g<1>{size}", text)
        return text
