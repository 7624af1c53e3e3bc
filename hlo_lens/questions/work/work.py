"""FLOP of one device, an equal share of the whole program's, and those that devices repeat.

FLOP are those of matrix products and convolutions in one run (`program/flops.py`). The whole
program's are counted in the text from before optimizations, whose shapes are those of all devices
together; a product inside ``shard_map``, which has the shapes of one device, counts once for each
group of devices that compute it alike. An equal share is the whole over the number of devices.

A product is repeated where several devices hold the same operands (`program/device_values.py`):
of a device's FLOP the share 1 - different results / devices is what others compute as well. What
is only padded, or computed at the edges of divided convolutions, is not repeated.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.load.module import ModuleDump
from hlo_lens.program.device_values import MOST_DEVICES, DeviceValues, Held, Marks
from hlo_lens.program.flops import flops
from hlo_lens.program.runs import SumPart, bounded_sum, call_counts
from hlo_lens.program.signature import braces
from hlo_lens.program.summary import hlo_text, instruction_table, num_devices
from hlo_lens.questions.collectives.operations import CollectiveOp, read_collectives
from hlo_lens.questions.memory.roles import STATE, WEIGHTS, argument_roles
from hlo_lens.questions.sharding.mesh_axes import module_meshes, strides_of
from hlo_lens.questions.sharding.placement import custom_call_target
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.render.result import Records, Unit
from hlo_lens.shapes.sharding import (
    IN_SHARDINGS,
    MANUAL_AXES,
    MESHES,
    HloSharding,
    shardy_axes,
    shardy_meshes,
    shardy_shardings,
)
from hlo_lens.text.dump_kinds import BEFORE
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.units import flops_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.runs import Branches
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.shapes.replica_groups import Groups
    from hlo_lens.shapes.shape import ShapeIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedProduct:
    """A product that several devices compute alike.

    Attributes:
        row: Row of the instruction.
        branches: Branches of conditionals around it, of each of which one runs.
    """

    name: Annotated[str, "the instruction"]
    computation: Annotated[str, "computation that contains it"]
    axis: Annotated[str, "mesh axes over which it is repeated, joined by commas"]
    copies: Annotated[float, "devices that compute one result, on average"]
    flops: Annotated[int, Unit.COUNT, "FLOP of a device in one run"]
    repeated_flops: Annotated[int, Unit.COUNT, "those that another device computes as well"]
    row: int = -1
    branches: Branches = ()


@dataclass(frozen=True, kw_only=True)
class Work(Records[RepeatedProduct]):
    """Work of one device in one run of a program; None where not known.

    Products are those that are repeated, the most FLOP first; an equal share is the FLOP of the
    whole program over the number of devices.
    """

    KIND: ClassVar[str] = "work"
    products: tuple[RepeatedProduct, ...]
    devices: int
    flops: int | None
    equal_share_flops: int | None
    repeated_flops: int | None

    @property
    def by_axis(self) -> dict[str, int]:
        products: dict[str, list[RepeatedProduct]] = defaultdict(list)
        for product in self.products:
            products[product.axis].append(product)
        found = {axis: _repeated_sum(listed) for axis, listed in products.items()}
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _repeated_sum(products: Iterable[RepeatedProduct]) -> int:
    return bounded_sum(SumPart(one.branches, one.repeated_flops) for one in products).most


@fact
def work(module: ModuleDump) -> Work:
    """Return the work of one device; of a text of the whole program only the equal share.

    Nothing is repeated where the FLOP of a device are an equal share of the program's.
    """
    devices = num_devices(module) * _replicas(module)
    shardings = sharding_results(module)
    own = flops(module).total
    if devices == 1 or shardings is None:
        return Work(products=(), devices=1, flops=own, equal_share_flops=own, repeated_flops=0)
    text, whole = module, None
    if shardings.found.is_per_device:
        text = ModuleDump(
            name=module.name, kind=module.kind, stage=BEFORE, module_text=module.before_text
        )
    else:
        own = None
    if text.hlo is not None:
        whole = whole_flops(text, devices)
    share = None if whole is None else whole // devices
    # a first page compares the values of devices of smaller texts alone
    is_large = module.given.is_quick and hlo_text(module).instruction_count > 100_000
    values = None
    if own is not None and own != share and not is_large:
        values = marked_values(module, None)
    products = () if values is None else tuple(_repeated(module, values, devices))
    is_shared = own is not None and own == share
    repeated = 0 if is_shared else None if values is None else _repeated_sum(products)
    return Work(
        products=products,
        devices=devices,
        flops=own,
        equal_share_flops=share,
        repeated_flops=repeated,
    )


def _repeated(module: ModuleDump, values: DeviceValues, devices: int) -> list[RepeatedProduct]:
    axes, calls = mesh_axes(module), call_counts(module)
    products = []
    for product in flops(module).products:
        held = values.read.get(product.row)
        if held is None or not product.run_flops or held.count == devices:
            continue
        products.append(
            RepeatedProduct(
                name=product.name,
                computation=product.computation,
                axis=",".join(axes.of(held)),
                copies=devices / held.count,
                flops=product.run_flops,
                repeated_flops=product.run_flops * (devices - held.count) // devices,
                row=product.row,
                branches=calls.of(product.computation).branches,
            )
        )
    return sorted(products, key=lambda one: (-one.repeated_flops, one.computation, one.name))


def work_object(module: ModuleDump) -> dict[str, object]:
    """Return the JSON object of the work of a module; null where not known."""
    found = work(module)
    rows = [{"axis": axis or None, "flops": n} for axis, n in found.by_axis.items()]
    return {
        "flops": found.flops,
        "equal_share_flops": found.equal_share_flops,
        "repeated_flops": found.repeated_flops,
        "repeated": None if found.repeated_flops is None else rows,
    }


def repeated_text(found: Work) -> str:
    """Return the equal share and what is repeated; empty where nothing is, or it is not known."""
    if (found.repeated_flops or 0) < max(1, 0.005 * (found.flops or 0)) or not found.flops:
        return ""
    share = found.equal_share_flops
    equal = "" if share is None else f"an equal share is {flops_text(share)}: "
    axes = ", ".join(axis or "part of the devices" for axis in found.by_axis)
    copies = max(round(one.copies) for one in found.products)
    repeated = flops_text(found.repeated_flops or 0)
    return f"{equal}{repeated} are computed on up to {copies} devices at once ({axes})"


def _replicas(module: ModuleDump) -> int:
    return 1 if module.hlo is None else module.hlo.replica_count


def whole_flops(module: ModuleDump, devices: int) -> int | None:
    """Return the FLOP of all devices together, from a text of the whole program."""
    found, hlo = flops(module), module.hlo
    if found.total is None or hlo is None or devices > MOST_DEVICES:
        return None
    same = [0] * devices if hlo.replica_count == 1 else range(devices)
    local = _local_parts(hlo, devices)
    values = DeviceValues(hlo, devices, lambda *_: same, _groups(module), local)
    calls, parts = call_counts(module), []
    for product in found.products:
        held = values.read.get(product.row)
        amount = (product.run_flops or 0) * (1 if held is None else held.count)
        parts.append(SumPart(calls.of(product.computation).branches, amount))
    return bounded_sum(parts).most


def marked_values(module: ModuleDump, marks: Marks | None) -> DeviceValues | None:
    """Return which devices hold the same values, with bits that they carry."""
    devices = num_devices(module) * _replicas(module)
    if devices > MOST_DEVICES:
        return None
    placed: dict[tuple[int | None, str], Sequence[object] | None] = {}
    tiles: dict[str, Sequence[object] | None] = {}
    for value in sharded_parameters(module):
        if value.sharding is not None:
            text = value.sharding.text
            if text not in tiles:
                tiles[text] = _tiles(value.sharding, devices)
            placed[value.value.number, value.value.index] = tiles[text]

    def parameter(number: int, index: ShapeIndex) -> Sequence[object] | None:
        return placed.get((number, braces(index) if index else ""))

    return DeviceValues(hlo_text(module), devices, parameter, _groups(module), marks=marks)


def sharded_parameters(module: ModuleDump) -> tuple[ShardedValue, ...]:
    """Return the parameters of the entry with their shardings; none where these are not known."""
    shardings = sharding_results(module)
    return () if shardings is None else shardings.table.parameters


def is_input(module: ModuleDump, number: int | None) -> bool:
    """Return whether a parameter of the entry is an input, no weight or optimizer state."""
    if number is None:
        return False
    return argument_roles(module).of_number(number).role not in (WEIGHTS, STATE)


def inputs_of(module: ModuleDump) -> list[ShardedValue]:
    """Return the parameters of the entry that are inputs, with their shardings."""
    return [one for one in sharded_parameters(module) if is_input(module, one.value.number)]


def _tiles(sharding: HloSharding, devices: int) -> Sequence[object] | None:
    with suppress(HloLensError):
        return [sharding.tile_of(device) for device in range(devices)]
    return None


def _groups(module: ModuleDump) -> Callable[[int], tuple[Groups | None, Groups | None]]:
    table = instruction_table(module)
    kinds = {
        opcode: kind
        for opcode in table.different_opcodes
        if (kind := opcode_traits(opcode).collective_kind) is not None
    }
    instructions = map(table.instruction, table.rows_of(kinds))
    ops = [CollectiveOp(one, kinds[one.opcode], one, None, is_async=False) for one in instructions]
    read = read_collectives(table.module, ops, num_devices(module))
    found = {one.op.instruction.row: (one.devices.groups, one.devices.pairs) for one in read}
    return lambda row: found.get(row, (None, None))


def _local_parts(
    module: HloModule, devices: int
) -> Callable[[int], list[Sequence[object] | None] | None]:
    """Return a function that tells which devices have the same part of an operand of shard_map."""
    meshes = shardy_meshes(module.frontend_attributes.get(MESHES, ""))

    def parts(row: int) -> list[Sequence[object] | None] | None:
        instruction = module.instruction(row)
        target = custom_call_target(instruction)
        if target in ("xla.sdy.LocalToGlobalShape", "SPMDShardToFullShape"):
            return []
        if target == "xla.sdy.GlobalToLocalShape":
            said = instruction.frontend_attributes
            axes = set(shardy_axes(said.get(MANUAL_AXES, "")))
            return [
                None if one is None else _parts_over(one, axes, devices)
                for one in shardy_shardings(said.get(IN_SHARDINGS, ""), meshes)
            ]
        if target == "SPMDFullToShardShape":
            producer = instruction.producer(0)
            sharding = None if producer is None else producer[0].sharding
            return [None if sharding is None else _tiles(sharding, devices)]
        return None

    return parts


def _parts_over(sharding: HloSharding, axes: set[str], devices: int) -> Sequence[object] | None:
    named = sharding.named
    if named is None:
        return _tiles(sharding, devices)
    dims = [
        replace(dim, axes=tuple(axis for axis in dim.axes if axis.axis in axes))
        for dim in named.dim_shardings
    ]
    kept = replace(named, dim_shardings=tuple(dims), replicated_axes=(), manual_axes=())
    return _tiles(HloSharding.from_named(kept), devices)


class MeshAxes:
    """Mesh axes along which devices hold the same.

    Attributes:
        mesh: The mesh; None if there is none of all devices.
        sizes: Size of each axis, most major first.
    """

    def __init__(self, module: ModuleDump, devices: int) -> None:
        hlo = hlo_text(module)
        meshes = module_meshes(
            hlo, lambda: module.before, module.given.mesh, (), lambda: module.lowered_meshes
        )
        found = next((one for one in meshes if one.mesh.size == devices), None)
        placed = None if found is None else found.positions((tuple(range(devices)),))
        self.mesh = None if found is None else found.mesh
        self._positions = placed[0] if placed else []
        self._strides = strides_of(found.mesh) if found is not None and placed else []
        self._names: dict[Held, tuple[str, ...]] = {}
        self.sizes = {name: size for name, size, _ in self._strides}

    def of(self, held: Held) -> tuple[str, ...]:
        if held not in self._names:
            names = []
            for name, size, stride in self._strides:
                seen: dict[int, int] = {}
                across = (one - one // stride % size * stride for one in self._positions)
                pairs = zip(across, held.classes, strict=False)
                if size > 1 and all(seen.setdefault(place, one) == one for place, one in pairs):
                    names.append(name)
            self._names[held] = tuple(names)
        return self._names[held]


@fact
def mesh_axes(module: ModuleDump) -> MeshAxes:
    """Return the axes of a module's mesh."""
    return MeshAxes(module, num_devices(module) * _replicas(module))
