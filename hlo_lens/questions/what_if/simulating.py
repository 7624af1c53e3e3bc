"""Changes of compiled programs answered at once, without compiling again.

For dumps without texts from before optimizations, and where there is no jax.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.load.module import ModuleDump
from hlo_lens.program.origins import origins
from hlo_lens.program.summary import backend_of_dump, hlo_text
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.sharding.mesh_axes import named_meshes
from hlo_lens.questions.what_if.process.program import own_target
from hlo_lens.questions.what_if.program_changes import with_parts
from hlo_lens.questions.what_if.recompiled import (
    FIGURES,
    Change,
    ChangedPart,
    Figures,
    Recompiled,
    Reproduction,
    figures,
    reproduction,
)
from hlo_lens.questions.what_if.simulation.simulate import ESTIMATE, KINDS, Simulated, simulate
from hlo_lens.questions.what_if.simulation.simulator import Simulator
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.text.shell_words import shell_word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.load.devices.targets import Target
    from hlo_lens.load.module import ModuleDump


def simulate_command(path: str, changes: Sequence[tuple[str, str]], module_option: str = "") -> str:
    """Return the command that simulates changes, those that can be.

    Args:
        path: The dump.
        changes: Kind and value of each.
        module_option: Option that chooses one of its modules; empty for all.
    """
    made = [one for one in changes if one[0] in KINDS]
    return _command(path, made, module_option, "--simulate")


def simulated_modules(
    modules: Sequence[ModuleDump], changes: Sequence[tuple[str, str]], path: str
) -> tuple[Recompiled, ...]:
    """Return some modules with changes, simulated.

    Args:
        modules: The modules.
        changes: Kind and value of each, all made together.
        path: The dump, for messages.

    Raises:
        UsageError: If a value is malformed.
    """
    return tuple(_row(one, changes, path) for one in modules)


def _command(path: str, changes: Sequence[tuple[str, str]], *options: str) -> str:
    words = ["hlo-lens what-if", shell_word(path or "PATH"), *filter(None, options)]
    words += [f"--{kind} {shell_word(value)}" for kind, value in changes]
    return " ".join(words)


def _row(dump: ModuleDump, changes: Sequence[tuple[str, str]], path: str) -> Recompiled:
    named = _named_meshes(dump, changes)
    simulator = Simulator(dump, tuple(named.values()))
    target = own_target(dump, backend_of_dump(dump))
    if simulator.reason:
        refused = [_refused(one, simulator.reason) for one in changes]
        return _answer(dump, target, Figures(), tuple(refused), refusal=simulator.reason)
    own = figures(dump)
    made = [one for one in changes if one[0] in KINDS]
    found = simulate(simulator, made)
    listed = []
    for one in changes:
        if one[0] in KINDS:
            parts = [p for p in found.changes if (p.kind, p.request) == one]
            listed.append(with_parts(Change(kind=one[0], target=one[1]), parts))
        elif one in named:
            listed.append(_naming(one))
        else:
            why = f"only compiling again answers it: {_command(path, [one], dump.module_option)}"
            listed.append(_refused(one, why))
    if sum(one.applies and one.kind in KINDS for one in listed) > 1:
        listed = [_with_alone(simulator, one, own) for one in listed]
    predicted = _figures(found.predicted, own)
    if predicted is not None:
        predicted = _with_work(simulator, found, predicted, own)
    row = _answer(dump, target, own, tuple(listed), basis=found.basis)
    row = replace(
        row,
        reproduction=_reproduction(simulator, own),
        predicted=predicted,
        low=_figures(found.low, own),
        high=_figures(found.high, own),
        notes=found.notes,
    )
    return _with_fit(row)


def _named_meshes(
    known: ModuleDump, changes: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Mesh]:
    """Return the changes that only name the axes of a program whose text numbers its devices."""
    asked = [one for one in changes if one[0] == "mesh"]
    if not asked or not known.has_hlo:
        return {}
    before = known.before
    texts = [hlo_text(known), *([] if before is None else [before])]
    if any(named_meshes(one) for one in texts):
        return {}
    meshes = {one: Mesh.from_sizes_text(one[1]) for one in asked if one[1] != "*"}
    count = hlo_text(known).num_partitions
    return {one: mesh for one, mesh in meshes.items() if mesh.size == count > 1}


def _naming(change: tuple[str, str]) -> Change:
    part = ChangedPart(
        kind=change[0],
        target=change[1],
        applies=True,
        why_not=None,
        note="names the axes of the devices, which the text only numbers",
    )
    return Change(kind=change[0], target=change[1], parts=(part,))


def _reproduction(simulator: Simulator, own: Figures) -> Reproduction:
    """Compare the figures of a dump with those of our assignment of its program."""
    memory = memory_results(simulator.known)
    code = 0 if memory is None else memory.statement.generated_code_bytes or 0
    found = dict(simulator.own.figures)
    found["total_bytes"] += code
    again = replace(own, **found)  # type: ignore[arg-type] # names of fields
    return reproduction(replace(own, host_bytes=()), replace(again, host_bytes=()))


def _answer(
    dump: ModuleDump,
    target: Target | None,
    own: Figures,
    changes: tuple[Change, ...],
    *,
    basis: str = ESTIMATE,
    refusal: str = "",
) -> Recompiled:
    """Return the row of a module without figures of changes."""
    name = "" if target is None else target.name
    return Recompiled(
        name=dump.title,
        module_option=dump.module_option,
        basis=basis,
        reproduction=reproduction(Figures(), Figures()),
        base_target=name,
        target=name,
        versions={},
        changes=changes,
        own=own,
        base=own,
        predicted=None,
        memory_limit=None if target is None else target.memory_bytes,
        memory_source="" if target is None else target.memory_source,
        refusal=refusal,
    )


def _refused(change: tuple[str, str], why: str) -> Change:
    return Change(kind=change[0], target=change[1], applies=False, why_not=why)


def _figures(found: Mapping[str, int | None] | None, own: Figures) -> Figures | None:
    if found is None:
        return None
    known = {name: found.get(name) for name in FIGURES}
    return Figures(**known, is_exact=own.is_exact)  # type: ignore[arg-type] # names of fields


def _with_work(simulator: Simulator, found: Simulated, predicted: Figures, own: Figures) -> Figures:
    """Return predicted figures with arithmetic, communication by axis and the line of the peak."""
    flops = None
    if own.flops is not None and found.flops_added is not None:
        flops = own.flops + found.flops_added
    place = None
    if found.peak_row is not None:
        place = origins(simulator.known).place(found.peak_row)
    same = predicted.wire_bytes_per_device == own.wire_bytes_per_device
    return replace(
        predicted,
        flops=flops,
        wire_by_axis=own.wire_by_axis if same else {},
        peak_source=own.peak_source if place is None else str(place),
    )


def _with_alone(simulator: Simulator, change: Change, own: Figures) -> Change:
    if not change.applies or change.kind not in KINDS:
        return change
    found = simulate(simulator, [(change.kind, change.target)])
    return replace(change, alone=_figures(found.predicted, own))


def _with_fit(row: Recompiled) -> Recompiled:
    """Return a row with whether the program fits, where the bounds decide it."""
    limit = row.memory_limit
    known = row.predicted if row.changes else row.base
    if limit is None or known is None or known.total_bytes is None:
        return row
    low = row.low.total_bytes if row.low is not None else known.total_bytes
    high = row.high.total_bytes if row.high is not None else known.total_bytes
    if low is None or high is None:
        return row
    if high <= limit:
        return replace(row, fits=True)
    return replace(row, fits=False) if low > limit else row
