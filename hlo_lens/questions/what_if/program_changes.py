"""Several changes of one program, one after the other.

The order is that of what depends on what: the mesh that shardings are over; donations, since a
result follows the sharding and the type of the argument whose memory it has; shardings; element
types; constraints. The text is read again after each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.load.devices import parse_target
from hlo_lens.questions.what_if.meshes import edit_mesh, resized_mesh
from hlo_lens.questions.what_if.process.requests import foreign_calls, text_of
from hlo_lens.questions.what_if.recompiling import Change, ChangedPart
from hlo_lens.questions.what_if.shardings import edit_constraint, edit_sharding
from hlo_lens.questions.what_if.stored_types import edit_donation, edit_dtype, renew_donation
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.shapes.shardy import MESHES, shardy_meshes
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.what_if import edits
    from hlo_lens.questions.what_if.edits import ProgramEdit


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """Changes of a program as options name them.

    Attributes:
        mesh: ``data=8,model=4``; empty for the program's.
        donate: Patterns of arguments to donate.
        undonate: Patterns of arguments that are no longer donated.
        shard: ``PATTERN=P(..)``.
        dtype: ``PATTERN=bf16``.
        constraint: ``drop FILE:LINE`` and ``add FILE:LINE=P(..)``.
        meshes: Meshes of a program whose text names none.
    """

    mesh: str = ""
    donate: tuple[str, ...] = ()
    undonate: tuple[str, ...] = ()
    shard: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    constraint: tuple[str, ...] = ()
    meshes: tuple[Mesh, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedProgram:
    """A program with changes.

    Attributes:
        module: The changed program; the given one if nothing applies.
        changes: One for each target, in the order of application.
    """

    module: HloModule
    changes: tuple[edits.Change, ...]

    @property
    def text(self) -> str:
        """The changed text."""
        return self.module.columns.source.text

    @property
    def applies(self) -> bool:
        """Whether any change applies."""
        return any(change.applies for change in self.changes)


def edit_program(
    module: HloModule, request: EditRequest, parse: Callable[[str], HloModule]
) -> EditedProgram:
    """Return a program with all changes of a request that apply.

    Args:
        module: The program before optimizations.
        request: The changes.
        parse: Reads the text of a module.

    Raises:
        UsageError: If a request is malformed.
    """
    changes: list[edits.Change] = []
    for step in _steps(request):
        edit = step(module)
        changes += edit.changes
        if edit.replacements:
            module = parse(edit.text_of(module))
    return EditedProgram(module=module, changes=tuple(changes))


def _steps(request: EditRequest) -> Iterator[Callable[[HloModule], ProgramEdit]]:
    """Yield the edits that a request needs, in order."""
    meshes = request.meshes
    if request.mesh:
        yield lambda module: edit_mesh(module, request.mesh, meshes=request.meshes)
        resized = [resized_mesh(mesh, request.mesh) for mesh in meshes]
        meshes = (*(resized or [Mesh.from_sizes_text(request.mesh)]), *meshes)
    if request.donate or request.undonate:
        yield lambda module: edit_donation(module, donate=request.donate, undonate=request.undonate)
    if request.shard:
        yield lambda module: edit_sharding(module, request.shard, meshes=meshes)
        yield renew_donation
    if request.dtype:
        yield lambda module: edit_dtype(module, request.dtype)
    if request.constraint:
        yield lambda module: edit_constraint(module, request.constraint, meshes=meshes)


EDITS = ("mesh", "donate", "undonate", "shard", "dtype", "constraint")
"""Kinds of changes of the program's text."""


def edited(
    module: HloModule, changes: Sequence[Change], meshes: Sequence[Mesh] = ()
) -> tuple[HloModule, tuple[Change, ...]]:
    """Return a program with changes, and the changes with whether they apply.

    Args:
        module: The program before optimizations.
        changes: All changes; those of other kinds are returned as they are.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If a change is malformed.
    """
    own = [change for change in changes if change.kind in EDITS]
    if not own:
        return module, tuple(changes)
    found = edit_program(module, _request(own, meshes), parse_hlo)
    made: list[Change] = []
    for change in changes:
        parts = [one for one in found.changes if one.request == change.target]
        parts = [one for one in parts if one.kind == change.kind]
        made.append(with_parts(change, parts) if change.kind in EDITS else change)
    return found.module, tuple(made)


def _request(changes: Sequence[Change], meshes: Sequence[Mesh]) -> EditRequest:
    values = {k: tuple(one.target for one in changes if one.kind == k) for k in EDITS}
    return EditRequest(
        mesh=",".join(values["mesh"]),
        donate=values["donate"],
        undonate=values["undonate"],
        shard=values["shard"],
        dtype=values["dtype"],
        constraint=values["constraint"],
        meshes=tuple(meshes),
    )


def mesh_splits(
    module: HloModule, meshes: Sequence[Mesh] = (), *, devices: int | None = None
) -> tuple[str, ...]:
    """Return every split of a program's devices over the axes of its mesh: ``data=4,model=2``.

    Args:
        module: The program before optimizations.
        meshes: Meshes of a program whose text names none.
        devices: Number of devices to split; None for those of the program.

    Raises:
        UsageError: If the program has no mesh, or several.
    """
    mesh = program_mesh(module, meshes)
    return tuple(
        mesh_text(mesh.axis_names, sizes)
        for sizes in _factors(devices or mesh.size, len(mesh.axis_names))
    )


def mesh_text(names: Sequence[str], sizes: Sequence[int]) -> str:
    """Return sizes of mesh axes as options name them: ``data=8,model=4``."""
    return ",".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))


def program_mesh(module: HloModule, meshes: Sequence[Mesh] = ()) -> Mesh:
    """Return the mesh of a program.

    Args:
        module: The program before optimizations.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If the program has no mesh, or several.
    """
    named = shardy_meshes(module.frontend_attributes.get(MESHES, "")).values()
    known = {one for one in (*named, *(() if named else meshes)) if one.axis_names}
    if len(known) != 1:
        raise UsageError(f"--mesh '*' needs a program with one mesh; this has {len(known)}")
    (mesh,) = known
    return mesh


def _factors(size: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a number as a product of some numbers, the largest first."""
    if count == 1:
        yield (size,)
        return
    for first in range(size, 0, -1):
        if size % first == 0:
            yield from ((first, *rest) for rest in _factors(size // first, count - 1))


def with_parts(change: Change, found: Sequence[edits.Change]) -> Change:
    """Return a change with the values that it changes, and those that it cannot."""
    parts = tuple(
        ChangedPart(
            kind=one.kind,
            target=one.target,
            applies=one.applies,
            why_not=one.why_not or None,
            note=one.effect,
        )
        for one in found
    )
    refused = "; ".join(dict.fromkeys(one.why_not or "" for one in parts if not one.applies))
    applies = any(one.applies for one in parts)
    why = None if applies else refused or "nothing to change"
    return replace(change, applies=applies, why_not=why, parts=parts)


def checked_target(module: HloModule, change: Change) -> Change:
    """Return a change of the target with the reason why it cannot be made, if there is one."""
    foreign = foreign_calls(text_of(module), parse_target(change.target).backend)
    if not foreign:
        return change
    why = f"custom calls that only another backend knows: {', '.join(foreign[:4])}"
    return replace(change, applies=False, why_not=why)
