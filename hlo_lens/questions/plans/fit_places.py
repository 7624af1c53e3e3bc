"""Hardware and meshes that `fit` compiles a program for, smallest slices first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.load.devices import all_slices, device_count, parse_target
from hlo_lens.questions.plans.fitting import Place
from hlo_lens.questions.what_if.arguments import EntryArrays
from hlo_lens.questions.what_if.program_changes import edited, mesh_splits, mesh_text, program_mesh
from hlo_lens.questions.what_if.recompiled import Change
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.text.errors import UsageError
from hlo_lens.text.units import format_bytes, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.devices import Target
    from hlo_lens.questions.what_if.process.program import SourceProgram
    from hlo_lens.questions.what_if.recompiling import Base

_MOST_MESHES = 6
"""Meshes of one slice, those nearest to the program's."""

_NAMES_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Places to compile a program for.

    Attributes:
        groups: Places of one slice each, in the order of trying.
        skipped: Places that are left out, and why.
        is_open: Whether larger slices follow that may fit without other changes.
        others: Other meshes of the same devices, for a program that nothing else makes fit.
    """

    groups: tuple[tuple[Place, ...], ...]
    skipped: tuple[str, ...] = ()
    is_open: bool = False
    others: tuple[Place, ...] = ()


def expanded_targets(names: Sequence[str]) -> list[Target]:
    """Return the targets of some names; ``v5e:*`` stands for all slices, smallest first.

    Raises:
        UnknownNameError: If there is no such device.
        UsageError: If a topology is malformed.
    """
    found: list[Target] = []
    for name in names:
        found += all_slices(name) if name.endswith(":*") else [parse_target(name)]
    return found


def places(base: Base, targets: Sequence[Target]) -> Places:
    """Return the places to compile a program for.

    Args:
        base: The program.
        targets: Targets; none for that of the dump.
    """
    program = base.program
    if program is None:
        return Places(groups=())
    own = program.module.num_partitions * program.module.replica_count
    known = _Meshes(base, program, own)
    if not targets:
        return Places(groups=((Place(devices=own),),), others=known.of_own_devices())
    groups: list[tuple[Place, ...]] = []
    skipped: dict[str, list[str]] = {}
    for target in targets:
        group, reason = known.of(target, is_only=len(targets) == 1)
        if reason:
            skipped.setdefault(reason, []).append(target.name)
        if group:
            groups.append(group)
    if not groups:
        groups.append((Place(target=targets[-1].name, devices=own),))
    left = tuple(f"{listed(names, _NAMES_SHOWN)}: {why}" for why, names in skipped.items())
    return Places(groups=tuple(groups), skipped=left, is_open=len(targets) > 1)


class _Meshes:
    """Meshes of a program on targets."""

    def __init__(self, base: Base, program: SourceProgram, own: int) -> None:
        self.program = program
        self.known = base.dump.lowered_meshes
        self.own = own
        self.mesh = _own_mesh(base, program)
        self.with_enough: set[str] = set()
        arguments = EntryArrays.of(program.module).arguments
        self.argument_bytes = sum(one.global_bytes or 0 for one in arguments)

    def of(self, target: Target, *, is_only: bool) -> tuple[tuple[Place, ...], str]:
        """Return the places of a target, and what is left out of it and why."""
        count = device_count(target) or self.own
        as_is = Place(target=target.name, devices=self.own)
        if self.mesh is None or count == self.own:
            if count < self.own:
                return (), f"the program is for {self.own} devices, and has no mesh to change"
            kind = target.name.partition(":")[0]
            is_first = kind not in self.with_enough
            self.with_enough.add(kind)
            if self.mesh is None:
                return ((as_is,) if is_first or is_only else ()), ""
        limit = target.memory_bytes
        if limit is not None and self.argument_bytes > limit * count:
            part = format_bytes(self.argument_bytes // count)
            return (), f"the arguments alone are {part} of each device"
        own = (as_is,) if count == self.own or (is_only and count > self.own) else ()
        made, reason = self._meshes(self.mesh, count)
        meshes = (Place(target=target.name, mesh=one, devices=count) for one in made)
        return (*own, *meshes), "" if own or made else reason

    def of_own_devices(self) -> tuple[Place, ...]:
        """Return the other splits of the devices of the dump's target over the axes."""
        if self.mesh is None or self.own == 1:
            return ()
        found, _ = self._meshes(self.mesh, self.own)
        return tuple(Place(mesh=one, devices=self.own) for one in found)

    def _meshes(self, mesh: Mesh, count: int) -> tuple[list[str], str]:
        """Return splits of devices, those nearest to the program's first; or why there is none."""
        shift = math.log2(count / mesh.size) / len(mesh.axis_names)
        sizes = [math.log2(size) + shift for size in mesh.axis_sizes]

        def distance(text: str) -> float:
            new = Mesh.from_sizes_text(text).axis_sizes
            return sum(abs(one - math.log2(size)) for one, size in zip(sizes, new, strict=True))

        found: list[str] = []
        reason = ""
        splits = mesh_splits(self.program.module, self.known, devices=count)
        for one in sorted(splits, key=distance):
            if one == mesh_text(mesh.axis_names, mesh.axis_sizes):
                continue
            change = Change(kind="mesh", target=one)
            _, (checked,) = edited(self.program.module, [change], self.known)
            if checked.applies:
                found.append(one)
            reason = reason or checked.why_not or ""
            if len(found) == _MOST_MESHES:
                break
        return found, reason


def _own_mesh(base: Base, program: SourceProgram) -> Mesh | None:
    """Return the mesh of a program; None if it has none, or several."""
    try:
        found = program_mesh(program.module, base.dump.lowered_meshes)
    except UsageError:
        return None
    return None if program.module.replica_count > 1 else found
