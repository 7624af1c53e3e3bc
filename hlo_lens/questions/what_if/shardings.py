"""Shardings of arguments, results and intermediate values (constraints), edited in the text.

A constraint is a custom call ``Sharding``. Where it is dropped, its users get its operand. Where it
is added at a line, it comes between an instruction of the line and its users on other lines. As in
jax, the gradient of a value is constrained too: in the parts of the program that ``transpose``
made, the operands that come from another line to an instruction of this one.

What a loop saves for the gradients was chosen when the program was traced, and stays.

"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcodes_where
from hlo_lens.questions.sharding.mesh_axes import named_meshes
from hlo_lens.questions.sharding.placement import custom_call_target
from hlo_lens.questions.what_if.arguments import (
    EntryArrays,
    booleans,
    index_of,
    pairs_of_text,
    result_name,
)
from hlo_lens.questions.what_if.edits import (
    FUNC_RESULT,
    Change,
    InapplicableError,
    is_result_call,
    part_of,
)
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.shapes.named_sharding import (
    PartitionSpec,
    ShardingKind,
    axes_of_entry,
    named_sharding,
    partition_spec_text,
    read_partition_spec,
)
from hlo_lens.shapes.sharding import MANUAL_BODIES, MESHES, SHARDING, HloSharding, shardy_meshes
from hlo_lens.text.errors import HloLensError, UsageError
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.questions.what_if.edits import TextEdits

_CONSTRAINT = re.compile(r"(?P<action>add|drop)[ ]+(?P<file>.+):(?P<line>\d+)(?:=(?P<spec>.+))?")
_TARGET = "Sharding"
_SHOWN = 4
_NO_ARRAYS = {"tuple", "parameter", "get-tuple-element", "constant"}


def edit_constraint(
    edits: TextEdits, requests: Iterable[str], meshes: Sequence[Mesh] = ()
) -> list[Change]:
    """Drop and add constraints: ``drop step.py:31``, ``add step.py:31=P('data')``.

    Raises:
        UsageError: If a request is malformed.
    """
    editor = _ConstraintEditor(edits, ProgramMeshes(edits.module, meshes))
    parts = []
    for text in requests:
        match = _CONSTRAINT.fullmatch(text.strip())
        if match is None or (match["action"] == "add") != (match["spec"] is not None):
            hint = "write it like 'drop step.py:31' or \"add step.py:31=P('data')\""
            raise UsageError(f"not a constraint: {text!r}; {hint}")
        line, spec = _Line(match["file"], int(match["line"])), match["spec"]
        make = partial(editor.drop, line)
        if spec is not None:
            make = partial(editor.add, line, read_partition_spec(spec))
        parts.append(part_of("constraint", f"{line.file}:{line.number}", text, make))
    return parts


class _Line(NamedTuple):
    """A line of the source; files match by last names."""

    file: str
    number: int

    def has(self, place: SourceLocation | None) -> bool:
        if place is None or place.line != self.number:
            return False
        return f"/{place.file}".endswith(f"/{self.file}")

    def made(self, instruction: HloInstruction) -> bool:
        return self.has(instruction.source_location)


class _ConstraintEditor:
    """Edits of the constraints of one module."""

    def __init__(self, edits: TextEdits, meshes: ProgramMeshes) -> None:
        self.edits, self.module, self.meshes = edits, edits.module, meshes
        self.dropped: set[int] = set()
        self.transposed: dict[int, bool] = {}

    def drop(self, line: _Line) -> str:
        rows = self.module.columns.rows_with_attribute_text(f'custom_call_target="{_TARGET}"')
        calls = [
            call
            for call in map(self.module.instruction, rows)
            if call.opcode == "custom-call" and custom_call_target(call) == _TARGET
        ]
        dropped = [one for one in calls if line.made(one) or any(map(line.has, one.call_stack))]
        if not dropped:
            places = listed(list(dict.fromkeys(str(call.source) for call in calls)), _SHOWN)
            where = f"; there are at {places}" if places else "; the program has none"
            raise InapplicableError(f"there is no sharding constraint{where}")
        if any((call.op_name or "").endswith("shard_map") for call in dropped):
            raise InapplicableError("it belongs to a shard_map")
        self.dropped |= {call.row for call in dropped}
        for call in dropped:
            first = call  # of a chain of constraints that are dropped
            while (made := first.producer(0)) and made[0].row in self.dropped and not made[1]:
                first = made[0]
            operand = self.edits.operand(first, 0)
            for user, position in self._users(call):
                self.edits.line(user).operands[position] = operand
            source = call.computation.instruction(operand.partition("#")[0])
            if call.is_root and source is not None:
                self.edits.line(source).is_root = True
            self.edits.line(call).is_removed = True
        return f"{len(dropped)} dropped"

    def add(self, line: _Line, spec: PartitionSpec) -> str:
        chosen = self.meshes.chosen(spec)
        here = [one for one in self.module.instructions if line.made(one) and _is_array(one)]
        if not here:
            raise InapplicableError("no array is computed at this line")
        constrained: set[tuple[int | None, ...]] = set()
        count, refusal = 0, InapplicableError("no value leaves this line")
        for one in here:
            users, shape = [pair for pair in self._users(one) if not line.made(pair[0])], one.shape
            is_kept = bool(users) or one.is_root
            if self._is_transposed(one) or shape is None or shape.is_tuple or not is_kept:
                continue
            try:
                chosen.require_even(shape.dimensions)
            except InapplicableError as error:
                refusal = error
                continue
            self._constrain(one, chosen, users)
            constrained.add(shape.dimensions)
            count += 1
        if not count:
            raise refusal
        gradients = 0
        for one in filter(self._is_transposed, here):
            for position in range(len(one.operands)):
                source, index = one.producer(position) or (None, ())
                if source is None or index or source.shape is None or line.made(source):
                    continue
                is_array = source.opcode not in _NO_ARRAYS and source.source is not None
                is_new = self.edits.operand(one, position) == source.name  # not constrained yet
                if is_array and is_new and source.shape.dimensions in constrained:
                    self._constrain(source, chosen, self._users(source))
                    gradients += 1
        also = f" and {gradients} of gradients" if gradients else ""
        return f"{count} of {chosen} added{also}"

    def _users(self, one: HloInstruction) -> Iterator[tuple[HloInstruction, int]]:
        users = self.module.links.users_of(one.row)
        return ((self.module.instruction(row), position) for row, position in users)

    def _constrain(
        self, one: HloInstruction, chosen: MeshSharding, users: Iterable[tuple[HloInstruction, int]]
    ) -> None:
        edits, chosen = self.edits, replace(chosen, rank=one.shape.rank if one.shape else 0)
        name, write = edits.new_name(one), edits.reference
        mark, shardy_text = "ROOT " * one.is_root, ""
        if one.is_root:
            edits.line(one).is_root = False
        if self.meshes.is_shardy:
            shardy_text = f', frontend_attributes={{{SHARDING}="{chosen.per_value}"}}'
        edits.line(one).after.append(
            f"{mark}{write(name)} = {one.shape_text} custom-call({write(one.name)}), "
            f'custom_call_target="{_TARGET}", sharding={chosen.hlo}{shardy_text}'
        )
        for user, position in users:
            edits.line(user).operands[position] = name

    def _is_transposed(self, one: HloInstruction) -> bool:
        """Whether an instruction computes gradients, by its op_name or that of a caller."""
        if "transpose(" in (one.op_name or ""):
            return True
        place = one.computation.place
        if place not in self.transposed:
            self.transposed[place] = False  # for a computation that calls itself
            rows = (call.row for call in self.module.links.calls.of_computation(place))
            self.transposed[place] = any(
                map(self._is_transposed, map(self.module.instruction, rows))
            )
        return self.transposed[place]


def _is_array(instruction: HloInstruction) -> bool:
    """Whether an array is computed, or taken from the result of a call or loop."""
    if instruction.opcode != "get-tuple-element":
        return instruction.opcode not in _NO_ARRAYS
    made = instruction.producer(0)
    return made is not None and made[0].opcode not in _NO_ARRAYS


_TO = "allow_spmd_sharding_propagation_to_"
_ATTRIBUTE = re.compile(r'(xla\.sdy\.sharding=)"(?:[^"\\]|\\.)*"')
_MESH_NAME = re.compile(r"<@([\w.$-]+)")


def edit_sharding(
    edits: TextEdits, requests: Iterable[str], meshes: Sequence[Mesh] = ()
) -> list[Change]:
    """Shard arguments by pattern, ``PATTERN=P(..)``, and results, ``result{3}=P(..)``.

    A result that an argument is donated to gets the argument's sharding, unless it is named too.

    Raises:
        UsageError: If a request is malformed.
    """
    read = []
    for text in requests:
        pattern, sign, spec = text.rpartition("=")
        if not sign or not pattern:
            hint = "write it like \"params['w']=P(None, 'x')\""
            raise UsageError(f"not a sharding: {text!r}; {hint}")
        read.append((text, pattern, read_partition_spec(spec)))
    sharder = _Sharder(edits, ProgramMeshes(edits.module, meshes))
    arrays = sharder.arrays
    named = {place for _, pattern, _ in read for place in arrays.results_of(pattern)}
    sharder.followers = {
        argument: result
        for argument, result in pairs_of_text(arrays).outputs.items()
        if result not in named and result not in arrays.open_results
    }
    parts: list[Change] = []
    for text, pattern, chosen in read:
        make = partial(sharder.shard_argument, spec=chosen)
        make_result = partial(sharder.shard_result, spec=chosen)
        parts += arrays.parts("shard", text, pattern, make, make_result)
    return parts


class _Sharder:
    """Edits of the shardings of one module; results follow arguments (`followers`)."""

    def __init__(self, edits: TextEdits, meshes: ProgramMeshes) -> None:
        self.edits, self.module, self.meshes = edits, edits.module, meshes
        self.arrays = EntryArrays(edits.module)
        self.followers: dict[int, int] = {}

    def shard_argument(self, position: int, spec: PartitionSpec) -> str:
        value = self.arrays.arguments[position]
        chosen, parameter = self._chosen(value, spec), self.arrays.parameter(value)
        follows = ""
        if (result := self.followers.get(position)) is not None:
            self._set_result(result, chosen)
            name = result_name(self.arrays.results[result])
            follows = f"; {name}, which has its memory, follows"
        self.edits.line(parameter).attributes["sharding"] = chosen.hlo
        if self.meshes.is_shardy:
            self._set_shardy(parameter, f"#sdy.sharding{chosen.shardy}")
        self._close("parameters", position, len(self.arrays.arguments))
        return f"{chosen}{follows}"

    def shard_result(self, position: int, spec: PartitionSpec) -> str:
        chosen = self._chosen(self.arrays.results[position], spec)
        self._set_result(position, chosen)
        return str(chosen)

    def _chosen(self, value: ShardedValue, spec: PartitionSpec) -> MeshSharding:
        shape, is_argument = value.global_shape, value.value.kind == "parameter"
        if shape is None or shape.is_token:
            raise InapplicableError("its shape is not known")
        if index_of(value) and is_argument:
            raise InapplicableError("the arguments are passed as one tuple")
        if value.sharding is not None and value.sharding.kind is ShardingKind.MANUAL:
            raise InapplicableError("it is manual: its shape is that of one device")
        own = self.arrays.parameter(value).frontend_attributes if is_argument else {}
        mesh_name = _MESH_NAME.search(own.get(SHARDING, ""))
        chosen = self.meshes.chosen(spec, None if mesh_name is None else mesh_name[1])
        chosen.require_even(shape.dimensions)
        new = HloSharding.from_partition_spec(chosen.mesh, spec, rank=shape.rank)
        if value.sharding is not None and value.sharding.equivalent(new):
            raise InapplicableError(f"it is sharded so: {partition_spec_text(spec)}")
        return replace(chosen, rank=shape.rank)

    def _set_shardy(self, instruction: HloInstruction, text: str) -> None:
        known = self.edits.attribute(instruction, "frontend_attributes") or "{}"
        entry = f'{SHARDING}="{text}"'
        new = _ATTRIBUTE.sub(lambda _: entry, known)
        if not _ATTRIBUTE.search(known):
            new = f"{{{entry}}}" if known == "{}" else f"{{{entry},{known[1:]}"
        self.edits.line(instruction).attributes["frontend_attributes"] = new

    def _close(self, which: str, position: int, count: int) -> None:
        flags = booleans(self.edits.header_value(_TO + which))
        flags = flags * count if len(flags) == 1 else flags
        if position < len(flags) and flags[position]:
            flags[position] = False
            shown = len(flags) > 1 or any(flags)  # XLA does not print {false}
            words = ",".join("true" if flag else "false" for flag in flags)
            self.edits.header[_TO + which] = f"{{{words}}}" if shown else ""

    def _set_result(self, position: int, chosen: MeshSharding) -> None:
        """Edit the sharding of a result; JAX takes one that is alone from a tuple."""
        value, root = self.arrays.results[position], self.module.entry.root
        if root is None:
            return
        made = root.producer(0)
        if root.opcode == "tuple" and index_of(value):
            self._set_element(root, position, chosen)
        elif root.opcode == "get-tuple-element" and root.attribute("sharding") is not None:
            self.edits.line(root).attributes["sharding"] = chosen.hlo
            if self.meshes.is_shardy and made is not None and made[0].opcode == "tuple":
                self._state_result(made[0], 0, chosen)
        else:
            self._take_from_tuple(root, chosen)
        self._close("output", position, len(self.arrays.results))

    def _take_from_tuple(self, root: HloInstruction, chosen: MeshSharding) -> None:
        edits, shape, name = self.edits, root.shape_text, root.name
        edits.line(root).is_root = False
        after, write = edits.last_of_entry().after, edits.reference
        if self.meshes.is_shardy:
            name = edits.new_name(root)
            after.append(self._result_call(name, root.name, shape, chosen))
        pair, result = edits.new_name(root), edits.new_name(root)
        after.append(f"{write(pair)} = ({shape}) tuple({write(name)})")
        after.append(
            f"ROOT {write(result)} = {shape} get-tuple-element({write(pair)}), index=0, "
            f"sharding={chosen.hlo}"
        )

    def _result_call(self, name: str, operand: str, shape: object, chosen: MeshSharding) -> str:
        write = self.edits.reference
        return (
            f"{write(name)} = {shape} custom-call({write(operand)}), "
            f'custom_call_target="{FUNC_RESULT}", custom_call_has_side_effect=true, '
            f'frontend_attributes={{{SHARDING}="{chosen.per_value}"}}'
        )

    def _set_element(self, root: HloInstruction, position: int, chosen: MeshSharding) -> None:
        if self.meshes.is_shardy:
            self._state_result(root, position, chosen)
        known = self.edits.attribute(root, "sharding")
        if known is None and self.meshes.is_shardy:
            return
        elements = () if known is None else self.module.reader.sharding(known).elements
        words = [element.text for element in elements]
        words = words or ["{replicated}"] * len(root.shape.tuple_shapes if root.shape else ())
        words[position] = chosen.hlo
        self.edits.line(root).attributes["sharding"] = f"{{{', '.join(words)}}}"

    def _state_result(self, root: HloInstruction, position: int, chosen: MeshSharding) -> None:
        edits, made = self.edits, root.producer(position)
        if made is not None and not made[1] and is_result_call(made[0]):
            call = made[0]
            self._set_shardy(call, chosen.per_value)
            for user in self.module.entry.instructions:
                is_copy = user.opcode == "reshape" and user.operand_names == (call.name,)
                if is_copy and user.attribute("sharding") is not None:
                    edits.line(user).attributes["sharding"] = chosen.hlo
            return
        shapes = () if root.shape is None else root.shape.tuple_shapes
        name, operand = edits.new_name(root), edits.operand(root, position)
        line = self._result_call(name, operand, shapes[position], chosen)
        edits.line(root).before.append(line)
        edits.line(root).operands[position] = name


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSharding:
    """A partition spec over one of the program's meshes; without a name for Shardy's."""

    spec: PartitionSpec
    mesh: Mesh
    name: str | None
    names_axes: bool = False
    rank: int = 0

    def __str__(self) -> str:
        return f"{partition_spec_text(self.spec)} over {self.mesh}"

    @property
    def hlo(self) -> str:
        """The sharding as ``sharding=`` has it."""
        if self.names_axes:
            return f"{named_sharding(self.mesh, self.spec, self.rank)}"
        return HloSharding.from_partition_spec(self.mesh, self.spec, rank=self.rank).text

    @property
    def shardy(self) -> str:
        """The sharding as Shardy prints it: ``<@mesh, [{"x"}, {}]>``, quotes escaped."""
        entries = [*self.spec, *(None,) * (self.rank - len(self.spec))]
        quoted = (", ".join(f'\\"{axis}\\"' for axis in axes_of_entry(entry)) for entry in entries)
        return f"<@{self.name}, [{', '.join(f'{{{axes}}}' for axes in quoted)}]>"

    @property
    def per_value(self) -> str:
        """The sharding as Shardy prints that of an operation with one value."""
        return f"#sdy.sharding_per_value<[{self.shardy}]>"

    def require_even(self, sizes: Sequence[int | None]) -> None:
        """Raise InapplicableError if it does not divide a value of these sizes evenly."""
        if len(self.spec) > len(sizes):
            text = f"{partition_spec_text(self.spec)} is for {len(self.spec)} dimensions"
            raise InapplicableError(f"{text}, it has {len(sizes)}")
        try:
            sharding = HloSharding.from_partition_spec(self.mesh, self.spec, rank=len(sizes))
        except HloLensError as error:
            raise InapplicableError(str(error)) from error
        for place, (size, count) in enumerate(zip(sizes, sharding.tile_counts, strict=False)):
            if size is None or size % count:
                raise InapplicableError(f"dimension {place} of {size} does not divide by {count}")


class ProgramMeshes:
    """The meshes that a spec can be over.

    Attributes:
        is_shardy: Whether the text states shardings for Shardy.
    """

    def __init__(self, module: HloModule, given: Sequence[Mesh]) -> None:
        self._named: dict[str | None, Mesh] = dict(_shardy_meshes(module).items())
        self.is_shardy = bool(self._named)
        self._given = tuple(given) or named_meshes(module)
        self._names_axes = not self._named and "sharding={mesh[" in module.columns.source.text
        self._devices = module.num_partitions

    def chosen(self, spec: PartitionSpec, first: str | None = None) -> MeshSharding:
        """Return a spec over the first mesh that has its axes, preferably that named `first`.

        Raises:
            InapplicableError: If there is none.
        """
        if self._devices == 1:
            raise InapplicableError("the program runs on one device")
        wanted = {axis for entry in spec for axis in axes_of_entry(entry)}
        tried: dict[str | None, Mesh] = {}
        if self.is_shardy:
            tried = dict(sorted(self._named.items(), key=lambda one: one[0] != first))
        elif self._given:
            fitting = [mesh for mesh in self._given if wanted <= set(mesh.axis_names)]
            sized = [mesh for mesh in fitting if mesh.size == self._devices]
            tried[None] = (sized or fitting or self._given)[0]
        for name, mesh in tried.items():
            if wanted <= set(mesh.axis_names) and mesh.size == self._devices:
                return MeshSharding(spec=spec, mesh=mesh, name=name, names_axes=self._names_axes)
        if not tried:
            hint = "name them with --mesh, such as data=2,model=4"
            raise InapplicableError(f"the text names no mesh axes; {hint}")
        axes = listed([str(mesh) for mesh in dict.fromkeys(tried.values())], _SHOWN)
        if unknown := sorted(wanted - {a for mesh in tried.values() for a in mesh.axis_names}):
            raise InapplicableError(f"no axis {', '.join(unknown)} in {axes}")
        raise InapplicableError(f"no mesh of {self._devices} devices has its axes: {axes}")


def _shardy_meshes(module: HloModule) -> dict[str, Mesh]:
    return dict(shardy_meshes(module.frontend_attributes.get(MESHES, "")))


def program_mesh(module: HloModule, meshes: Sequence[Mesh] = ()) -> Mesh:
    """Return the mesh of a program; `meshes` are those of one whose text names none.

    Raises:
        UsageError: If the program has no mesh, or several.
    """
    known = {mesh for mesh in (_shardy_meshes(module).values() or meshes) if mesh.axis_names}
    if len(known) != 1:
        raise UsageError(f"splits of devices need a program with one mesh; this has {len(known)}")
    return known.pop()


def mesh_splits(module: HloModule, meshes: Sequence[Mesh] = ()) -> tuple[str, ...]:
    """Return every split of devices over the axes of a program's mesh: ``data=4,model=2``.

    Raises:
        UsageError: If the program has no mesh, or several.
    """
    mesh = program_mesh(module, meshes)
    splits = _factors(mesh.size, len(mesh.axis_names))
    return tuple(mesh_text(mesh.axis_names, sizes) for sizes in splits)


def mesh_text(names: Sequence[str], sizes: Sequence[int]) -> str:
    """Return sizes of mesh axes as options name them: ``data=8,model=4``."""
    return ",".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))


def _factors(size: int, count: int) -> Iterator[tuple[int, ...]]:
    for first in range(size, 0, -1) if count > 1 else ():
        if size % first == 0:
            yield from ((first, *rest) for rest in _factors(size // first, count - 1))
    if count == 1:
        yield (size,)


_OF_ONE_DEVICE = (
    *("FullToShardShape", "ShardToFullShape", "GlobalToLocalShape", "LocalToGlobalShape"),
    *("replica_groups=", "source_target_pairs=", "sharding={manual}", *MANUAL_BODIES),
)
"""Words in attributes of instructions whose shapes or groups depend on the number of devices."""

_SUB_AXIS = re.compile(r"""(?:\\"|\\22|['"])([^'"\\]+)(?:\\"|\\22|['"]):\(""")


def resized_mesh(mesh: Mesh, sizes: Mapping[str, int]) -> Mesh:
    """Return a mesh with other sizes of some axes."""
    own = zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    return Mesh.of({name: sizes.get(name, size) for name, size in own})


def axis_sizes(request: str) -> dict[str, int]:
    """Return the sizes of mesh axes that an option names: ``data=8,model=4``.

    Raises:
        UsageError: If it is malformed.
    """
    mesh = Mesh.from_sizes_text(request)
    return dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))


def edit_mesh(edits: TextEdits, sizes: Mapping[str, int], meshes: Sequence[Mesh] = ()) -> str:
    """Give mesh axes other sizes, in all of the text; return what that means.

    Raises:
        InapplicableError: If it cannot be done; the edits are then of no use.
    """
    module, devices = edits.module, math.prod(sizes.values())
    arrays, named = EntryArrays(module), _shardy_meshes(module)
    known = named.values() if named else arrays.table.meshes or meshes
    old = [mesh for mesh in known if mesh.axis_names]
    if not old and devices == module.num_partitions > 1:
        return f"names the axes of the {devices} devices, which the text only numbers"
    new = [resized_mesh(mesh, sizes) for mesh in old]
    if new == old and any(sizes.keys() <= set(mesh.axis_names) for mesh in old):
        return "it is the program's own mesh"
    _require_one_mesh(module, old, sizes)
    if (manual := next(_of_one_device(module), None)) is not None:
        what = "shapes or groups for the devices of this mesh"
        raise InapplicableError(f"{_placed(manual)} has {what}")
    _require_even(arrays, old[0], new[0])
    if named:
        text = module.header["frontend_attributes"]
        for name, size in sizes.items():
            quoted = rf'((?:\\?"|\\22){re.escape(name)}(?:\\?"|\\22)\s*=\s*)\d+'
            text = re.sub(quoted, rf"\g<1>{size}", text)
        edits.header["frontend_attributes"] = text
    for row in module.columns.rows_with_attribute_text("sharding="):
        instruction = module.instruction(row)
        sharding = instruction.attribute("sharding")
        if sharding is not None:  # Shardy writes its own again
            made = None if named else _resharded(instruction, sharding, old[0], new[0])
            edits.line(instruction).attributes["sharding"] = made
    edits.header["num_partitions"] = str(new[0].size) if new[0].size > 1 else ""
    instead = f" instead of {old[0].size}" if new[0].size != old[0].size else ""
    return f"{new[0]} for {old[0]}: {new[0].size} devices{instead}"


def _require_one_mesh(module: HloModule, old: Sequence[Mesh], sizes: Mapping[str, int]) -> None:
    """Raise InapplicableError where the program has not one plain mesh with these axes."""
    if not old:
        raise InapplicableError("the text numbers devices and names no mesh axes")
    axes = set(old[0].axis_names)
    if any(set(mesh.axis_names) != axes for mesh in old):
        raise InapplicableError(f"it has several meshes: {', '.join(map(str, old))}")
    if unknown := sorted(sizes.keys() - axes):
        raise InapplicableError(f"no axis {', '.join(unknown)} in {old[0]}")
    if any(mesh.device_assignment is not None for mesh in old):
        raise InapplicableError(f"{old[0]} has its devices in an order of its own")
    if module.replica_count > 1:
        raise InapplicableError(f"the program has {module.replica_count} replicas")
    if divided := sizes.keys() & set(_SUB_AXIS.findall(module.columns.source.text)):
        raise InapplicableError(f"a sharding has a part of axis {min(divided)}")


def _of_one_device(module: HloModule) -> Iterator[HloInstruction]:
    for word in _OF_ONE_DEVICE:
        if word in module.columns.source.text:
            yield from map(module.instruction, module.columns.rows_with_attribute_text(word))
    rows = module.opcodes.places_of(opcodes_where(lambda one: one.is_device_number))
    yield from map(module.instruction, rows)


def _placed(instruction: HloInstruction) -> str:
    return f"{instruction.name} ({instruction.source or f'line {instruction.line}'})"


def _require_even(arrays: EntryArrays, old: Mesh, new: Mesh) -> None:
    """Raise InapplicableError where a stated sharding does not divide its value over the mesh."""
    sizes = dict(zip(new.axis_names, new.axis_sizes, strict=True))
    results = enumerate(arrays.results)
    stated = [value for place, value in results if place not in arrays.open_results]
    for value in (*arrays.arguments, *stated):
        spec = None if value.sharding is None else value.sharding.to_partition_spec(old)
        dimensions = () if value.global_shape is None else value.global_shape.dimensions
        for place, (entry, size) in enumerate(zip(spec or (), dimensions, strict=False)):
            count = math.prod(sizes[axis] for axis in axes_of_entry(entry))
            if size is None or size % count:
                is_output = value.value.kind == "output"
                name = result_name(value) if is_output else value.value.name
                what = f"dimension {place} of {name}, {size}"
                raise InapplicableError(f"{what}, does not divide by {count}")


def _resharded(instruction: HloInstruction, text: str, old: Mesh, new: Mesh) -> str:
    """Return a sharding for another mesh; one of a tuple has one for each leaf."""
    sharding = instruction.computation.module.reader.sharding(text)
    elements = sharding.elements or (sharding,)
    leaves = () if instruction.shape is None else instruction.shape.leaves()
    ranks = [leaf.rank for _, leaf in leaves] or [0]
    ranks = ranks if len(ranks) == len(elements) else ranks[:1] * len(elements)
    words = []
    for element, rank in zip(elements, ranks, strict=True):
        if element.named is not None and element.named.mesh == old:
            words.append(element.text.replace(str(old), str(new)))
        elif element.kind is ShardingKind.MAXIMAL:
            words.append(element.text)
        elif (spec := element.to_partition_spec(old)) is not None:
            words.append(HloSharding.from_partition_spec(new, spec, rank=rank).text)
        else:
            what = f"the sharding of {_placed(instruction)}"
            raise InapplicableError(f"{what} has no form by axes: {text}")
    return f"{{{', '.join(words)}}}" if sharding.elements else words[0]
