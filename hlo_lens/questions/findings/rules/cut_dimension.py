"""Data moves because an array is cut or joined along a dimension that is divided.

What:
    A split, slice or concatenation along a dimension that a mesh axis divides, so that each device
    has parts of several results: the partitioner sends the pieces around (all-to-all,
    collective-permute). The usual case is one product for queries, keys and values whose result is
    split, with a weight of P(None, "model").

Why it costs:
    The bytes of the pieces, in the forward and in the backward pass, where nothing would be sent if
    each device had the same part of each result.

Fix:
    Make what is split a dimension of its own, that nothing divides: a weight of shape (width, 3,
    heads, depth) with P(None, None, "model"), q, k, v = jnp.moveaxis(qkv, -3, 0); or one weight for
    each. Checkpoints with the fused layout can be reshaped when they are read. --prove cannot apply
    it.

Fine when:
    Few bytes are sent: a shift by one position along a divided sequence, or jnp.roll, which is no
    finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.findings.rule import NO_TEXT_BEFORE, ModuleRule
from hlo_lens.questions.findings.values import finding_of, place_of
from hlo_lens.questions.memory.roles import BACKWARD
from hlo_lens.text.errors import MissingDumpError
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.findings.finding import Finding

_KINDS = ("all-to-all", "collective-permute", "all-gather")
_CUTS = ("split", "slice", "concatenate", "pad", "reshape")
"""Last steps of the operation paths of what cuts or joins; the last two in backward passes."""

_ROLLED = "roll"

_SPLIT = (
    "make what is split a dimension of its own that nothing divides: a weight (width, 3, heads, "
    "depth) with P(None, None, '{axis}'), or one weight for each part"
)
_RESHAPED = (
    "keep the dimension that {axis} divides through the reshape, the major one of those that it "
    "merges or makes"
)


def cut_dimension(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line that cuts or joins along a divided dimension.

    Raises:
        MissingDumpError: If operations cut or join, but there is no text from before optimizations.
    """
    groups: dict[object, list[Collective]] = {}
    for one in collectives(known).collectives:
        if one.kind in _KINDS and one.axes and not one.moves_nothing and _is_cut(one.op_name or ""):
            groups.setdefault(place_of(one), []).append(one)
    if groups and known.before is None:
        raise MissingDumpError(NO_TEXT_BEFORE)
    for found in groups.values():
        forward = [one for one in found if BACKWARD not in (one.op_name or "")]
        if forward and _is_along(known, forward[0]):
            axis, last = forward[0].axis, (forward[0].op_name or "").rpartition("/")[2]
            yield finding_of(
                found,
                f"{last} along a dimension that {axis} divides: its pieces are sent by "
                f"{plural(len(found), 'collective')}",
                (_RESHAPED if last == "reshape" else _SPLIT).format(axis=axis),
            )


def _is_along(known: ModuleDump, one: Collective) -> bool:
    """Return whether the operation cuts or joins along a dimension that the axes divide."""
    from hlo_lens.questions.collectives.operand_shardings import needing_operation

    meshes, before = collectives(known).meshes, known.before
    mesh = meshes[0].mesh if meshes else None
    if before is None or one.op_name is None:
        return False
    operation = needing_operation(before, one, mesh, {one.op_name: place_of(one)})
    return operation is not None and any(operation.uses_of(axis)[0] for axis in one.axes or ())


def _is_cut(op_name: str) -> bool:
    """Return whether an operation path is of a cut or join that the program asks for."""
    *around, last = op_name.split("/")
    return last in _CUTS and not any(_ROLLED in step for step in around)


RULE = ModuleRule("C016", cut_dimension)
