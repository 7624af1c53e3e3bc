"""Several changes of one program, one after the other.

The order is that of what depends on what: the mesh that shardings are over; donations, since a
result follows the sharding and the type of the argument whose memory it has; shardings; element
types; constraints. The text is read again after each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.questions.what_if.constraint import edit_constraint
from hlo_lens.questions.what_if.donation import edit_donation, renew_donation
from hlo_lens.questions.what_if.dtype import edit_dtype
from hlo_lens.questions.what_if.mesh import edit_mesh, resized_mesh
from hlo_lens.questions.what_if.sharding import edit_sharding
from hlo_lens.shapes.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.what_if.edit import Change, ProgramEdit


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
    changes: tuple[Change, ...]

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
    changes: list[Change] = []
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
