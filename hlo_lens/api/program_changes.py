"""Changes of a program that what-if is asked for: checked, and made in the program's text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.recompiled import Change, ChangedPart
from hlo_lens.analysis.program_edits.donation import edit_donation
from hlo_lens.analysis.program_edits.sharding import edit_sharding
from hlo_lens.jax_bridge.recompile.program import foreign_calls, text_of
from hlo_lens.model.devices.targets import parse_target
from hlo_lens.syntax.hlo.module import parse_hlo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hlo_lens.analysis.program_edits.edit import ProgramEdit
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.shapes.mesh import Mesh

    _Editor = Callable[[HloModule, str, Sequence[Mesh]], ProgramEdit]

_EDITORS: Mapping[str, _Editor] = {
    "shard": lambda module, value, meshes: edit_sharding(module, [value], meshes=meshes),
    "undonate": lambda module, value, _: edit_donation(module, undonate=[value]),
    "donate": lambda module, value, _: edit_donation(module, donate=[value]),
}
"""Edits of the text in the order in which they are made: donation pairs arrays of equal shards."""

EDITS = tuple(_EDITORS)
"""Kinds of changes of the text."""


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
    made: dict[int, Change] = {}
    for kind, editor in _EDITORS.items():
        for place, change in enumerate(changes):
            if change.kind != kind:
                continue
            edit = editor(module, change.target, meshes)
            made[place] = _with_parts(change, edit)
            if edit.replacements:
                module = parse_hlo(edit.text_of(module))
    return module, tuple(made.get(place, change) for place, change in enumerate(changes))


def _with_parts(change: Change, edit: ProgramEdit) -> Change:
    parts = tuple(
        ChangedPart(
            kind=one.kind,
            target=one.target,
            applies=one.applies,
            why_not=one.why_not or None,
            note=one.effect,
        )
        for one in edit.changes
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
