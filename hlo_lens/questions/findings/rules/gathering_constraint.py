"""A sharding constraint makes an intermediate value whole along an axis that divides it.

What:
    In the text before optimizations, a with_sharding_constraint on a computed value leaves out a
    mesh axis that divides its operand, and the partitioner gathers the value over this axis.

Why it costs:
    The bytes of the gathered value on the wire, and the same computation on all devices of the
    axis from there on. Often the constraint was written before the axis was added to the mesh, or
    copied from a value with other dimensions.

Fix:
    Keep the axis in the constraint: P("fsdp", None, "model") for an activation whose last dimension
    model divides; or leave the constraint out. what-if --constraint "drop FILE:LINE" compiles the
    program without it.

Fine when:
    The next operation needs the whole value, as in sequence parallelism, and the constraint chooses
    where it is gathered; or each device updates its part of a weight that all devices then hold
    whole, as in ZeRO-1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.findings.finding import Remedy, at
from hlo_lens.questions.findings.rule import NO_TEXT_BEFORE, ModuleRule
from hlo_lens.questions.findings.values import finding_of
from hlo_lens.text.dump_kinds import BEFORE
from hlo_lens.text.errors import MissingDumpError
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.collectives.operand_shardings import ChangedAxes
    from hlo_lens.questions.findings.finding import Finding


_NO_COMPILED_TEXT = "this is the text from before optimizations; the compiled one has the gathers"


def gathering_constraint(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line whose constraints gather computed values.

    Raises:
        MissingDumpError: If there are gathers, but no text from before optimizations.
    """
    gathers = [one for one in collectives(known).collectives if one.kind == "all-gather"]
    if not gathers:
        return
    before = known.before
    if before is None:
        is_early = known.stage == BEFORE
        raise MissingDumpError(_NO_COMPILED_TEXT if is_early else NO_TEXT_BEFORE)
    from hlo_lens.questions.collectives.operand_shardings import changed_axes

    meshes = collectives(known).meshes
    changed = changed_axes(before, meshes[0].mesh if meshes else None)
    dropped = [one for one in changed if one.axes]
    groups: dict[SourceLocation | None, tuple[list[ChangedAxes], list[Collective]]] = {}
    for one in gathers if dropped else ():
        cause = next((found for found in dropped if _is_cause(found, one)), None)
        if cause is not None:
            constraints, caused = groups.setdefault(cause.place, ([], []))
            constraints.append(cause)
            caused.append(one)
    for place, (constraints, caused) in groups.items():
        yield _finding(place, constraints, caused)


def _is_cause(dropped: ChangedAxes, gather: Collective) -> bool:
    from hlo_lens.questions.collectives.origin import member_paths

    paths = member_paths(gather.own_op_name or "")
    return not dropped.paths.isdisjoint(paths) and not set(dropped.axes).isdisjoint(
        gather.axes or ()
    )


def _finding(
    place: SourceLocation | None, constraints: Sequence[ChangedAxes], caused: Sequence[Collective]
) -> Finding:
    first = constraints[0]
    axes = ",".join(first.axes)
    found = finding_of(
        caused,
        f"the sharding constraint leaves out {axes}, which divides the value: it is gathered by "
        f"{plural(len(caused), 'all-gather')}",
        f"keep {axes} in the PartitionSpec of with_sharding_constraint, or drop the constraint",
    )
    line = "" if place is None else f"{place.file.rpartition('/')[2]}:{place.line}"
    return replace(
        found,
        **at(place),
        axes=first.axes,
        evidence=(
            *found.evidence,
            f"{first.name} of {first.operand}, before optimizations: {axes} divides it "
            f"(as {first.origin})",
        ),
        changes=(Remedy(kind="constraint", target=f"drop {line}"),) if line else (),
    )


RULE = ModuleRule("C014", gathering_constraint)
