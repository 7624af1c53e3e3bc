"""Several changes of one program, one after the other.

The order is that of what depends on what: the mesh that shardings are over; donations, since a
result follows the sharding and the type of the argument whose memory it has; shardings; donations
that these make possible; element types; constraints. The text is read again after each.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.what_if.edits import TextEdits, part_of
from hlo_lens.questions.what_if.meshes import axis_sizes, edit_mesh, resized_mesh
from hlo_lens.questions.what_if.shardings import edit_constraint, edit_sharding
from hlo_lens.questions.what_if.stored_arrays import edit_donation, edit_dtype, renew_donation
from hlo_lens.shapes.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.what_if.edits import Change, ChangedPart

EDITS = ("mesh", "donate", "undonate", "shard", "dtype", "constraint")
"""Kinds of changes of the program's text."""


def edited(
    module: HloModule, changes: Sequence[Change], meshes: Sequence[Mesh] = ()
) -> tuple[HloModule, tuple[Change, ...]]:
    """Return a program with changes, and the changes with what they mean for each value.

    Args:
        module: The program before optimizations.
        changes: All changes; those of other kinds are returned as they are.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If a change is malformed.
    """
    parts: dict[tuple[str, str, str], ChangedPart] = {}
    for step in _steps(changes, meshes):
        edits = TextEdits(module)
        made = step(edits)
        for part in made or ():
            key = part.kind, part.request, part.target
            if key not in parts or not parts[key].applies:
                parts[key] = part
        if made is None or any(part.applies for part in made):
            text = edits.text()
            if text != module.columns.source.text:
                module = parse_hlo(text)
    made_parts = tuple(parts.values())
    return module, tuple(
        _with_parts(one, made_parts) if one.kind in EDITS else one for one in changes
    )


def _steps(
    changes: Sequence[Change], meshes: Sequence[Mesh]
) -> Iterator[Callable[[TextEdits], list[ChangedPart] | None]]:
    """Yield the edits that changes need, in order; one that nobody asked for returns None."""
    asked = {kind: [one.target for one in changes if one.kind == kind] for kind in EDITS}
    for target in asked["mesh"]:
        yield partial(_edit_mesh, target=target, meshes=meshes)
        sizes = axis_sizes(target)
        meshes = (*([resized_mesh(one, sizes) for one in meshes] or [Mesh.of(sizes)]), *meshes)
    if asked["donate"] or asked["undonate"]:
        yield partial(edit_donation, donate=asked["donate"], undonate=asked["undonate"])
    if asked["shard"]:
        yield partial(edit_sharding, requests=asked["shard"], meshes=meshes)
        yield renew_donation
        if asked["donate"]:  # of an argument that now has the sharding of a result
            yield partial(edit_donation, donate=asked["donate"])
    if asked["dtype"]:
        yield partial(edit_dtype, requests=asked["dtype"])
    if asked["constraint"]:
        yield partial(edit_constraint, requests=asked["constraint"], meshes=meshes)


def _edit_mesh(edits: TextEdits, target: str, meshes: Sequence[Mesh]) -> list[ChangedPart]:
    make = partial(edit_mesh, edits, axis_sizes(target), meshes)
    return [part_of("mesh", target, target, make)]


def _with_parts(change: Change, parts: Sequence[ChangedPart]) -> Change:
    """Return a change with the values that it changes, and those that it cannot."""
    own = tuple(one for one in parts if (one.kind, one.request) == (change.kind, change.target))
    applies = any(one.applies for one in own)
    refused = "; ".join(dict.fromkeys(one.why_not or "" for one in own if not one.applies))
    why_not = None if applies else refused or "nothing to change"
    return replace(change, applies=applies, why_not=why_not, parts=own)
