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

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.collectives.collective import COUNT, collectives, end_of, run_sum
from hlo_lens.questions.findings.finding import Remedy, Saves, at
from hlo_lens.questions.findings.rule import NO_TEXT_BEFORE, ModuleRule
from hlo_lens.questions.findings.values import dropping_constraints, finding_of
from hlo_lens.shapes.named_sharding import spec_of_axes, written_spec
from hlo_lens.text.dump_kinds import BEFORE
from hlo_lens.text.errors import MissingDumpError
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.collectives.operand_shardings import ChangedAxes
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.shapes.mesh import Mesh


_NO_COMPILED_TEXT = "this is the text from before optimizations; the compiled one has the gathers"


def gathering_constraint(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line whose constraints gather computed values.

    Raises:
        MissingDumpError: If there are gathers, but no text from before optimizations.
    """
    gathers = [one for one in collectives(known).collectives if one.kind == "all-gather"]
    if not gathers:
        return
    if known.before is None:
        is_early = known.stage == BEFORE
        raise MissingDumpError(_NO_COMPILED_TEXT if is_early else NO_TEXT_BEFORE)
    found = collectives(known)
    mesh = found.meshes[0].mesh if found.meshes else None
    dropped = dropping_constraints(known)
    groups: dict[SourceLocation | None, list[Collective]] = {}
    for one in gathers:
        cause = next((drop for drop in dropped if _is_cause(known, drop, one)), None)
        if cause is not None:
            groups.setdefault(cause.place, []).append(one)
    for place, caused in groups.items():
        causes = [one for one in dropped if one.place == place]
        yield _finding(known, causes, caused, 0 if mesh is None else _of_sums(known, causes, mesh))


def _is_cause(known: ModuleDump, dropped: ChangedAxes, gather: Collective) -> bool:
    """Return whether a constraint needs an all-gather; of an argument also by its elements."""
    if dropped.paths.isdisjoint(_paths(gather.own_op_name)) or set(dropped.axes).isdisjoint(
        gather.axes or ()
    ):
        return False
    is_part = dropped.argument is None or dropped.elements is None
    return is_part or dropped.elements in _elements(known, gather)


def _paths(path: str | None) -> list[str]:
    from hlo_lens.questions.collectives.origin import member_paths

    return member_paths(path or "")


def _elements(known: ModuleDump, collective: Collective) -> list[int | None]:
    """Return the elements of the results of a collective."""
    end = end_of(hlo_text(known), collective)
    leaves = () if end is None or end.shape is None else end.shape.leaves()
    return [leaf.element_count for _, leaf in leaves]


def _of_sums(known: ModuleDump, dropped: Sequence[ChangedAxes], mesh: Mesh) -> int:
    """Return the bytes by which sums over other axes grow: gradients are summed whole."""
    grown = 0.0
    for one in collectives(known).collectives:
        parts, total = one.axes or (), sum(n or 0 for n in _elements(known, one))
        for cause in dropped if one.kind == "all-reduce" else ():
            is_other = cause.argument is None and set(cause.axes).isdisjoint(parts)
            if (
                is_other
                and total >= (cause.elements or total + 1)
                and cause.paths & {*_paths(one.op_name)}
            ):
                size = math.prod(mesh.sizes.get(axis, 1) for axis in cause.axes)
                share = (cause.elements or 0) / total * (1 - 1 / size)
                grown += (one.wire_bytes_per_run or 0) * share
                break
    return int(grown)


def _finding(
    known: ModuleDump, causes: Sequence[ChangedAxes], caused: Sequence[Collective], sums: int
) -> Finding:
    first, place = causes[0], causes[0].place
    axes = ",".join(first.axes)
    kept = written_spec(spec_of_axes([*first.kept]))
    runs = run_sum(caused, COUNT)
    times = f", {runs.most} times in a run" if runs is not None and runs.most > len(caused) else ""
    what = first.origin if first.argument is not None else "the value"
    found = finding_of(
        caused,
        f"the sharding constraint leaves out {axes}, which divides {what}: it is gathered by "
        f"{plural(len(caused), 'all-gather')}{times}",
        f"keep {axes}: {kept} in with_sharding_constraint, or delete the constraint",
    )
    sent = None if found.saves.sent_bytes is None else found.saves.sent_bytes + sums
    grown = f"sums of its gradients over other axes send {format_bytes(sums)} more"
    line = "" if place is None else f"{place.file.rpartition('/')[2]}:{place.line}"
    return replace(
        found,
        **at(place),
        axes=first.axes,
        saves=Saves.up_to(sent_bytes=sent),
        evidence=(
            *found.evidence,
            *((grown,) if sums else ()),
            f"{first.name} of {first.operand}, before optimizations: {axes} divides it "
            f"(as {first.origin})",
        ),
        changes=(Remedy(kind="constraint", target=f"drop {line}"),) if line else (),
    )


RULE = ModuleRule("C014", gathering_constraint)
