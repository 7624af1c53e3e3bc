"""Programs of dumps compiled again: as they are, and with changes.

Each compile is a process of its own (`jax_bridge.recompile`); nothing of the dump runs.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.devices import Target, parse_target
from hlo_lens.load.module import ModuleDump
from hlo_lens.load.programs import Program, Progress, modules_of
from hlo_lens.questions.what_if.arguments import EntryArrays
from hlo_lens.questions.what_if.candidates import candidates
from hlo_lens.questions.what_if.page import what_if_report
from hlo_lens.questions.what_if.process.environments import requirements
from hlo_lens.questions.what_if.process.process import Again, needed_bytes, shortage, side_by_side
from hlo_lens.questions.what_if.program_changes import checked_target, edited, mesh_splits
from hlo_lens.questions.what_if.recompiling import (
    Base,
    Change,
    Compiler,
    Figures,
    Means,
    Recompiled,
    compiled_again,
    compiled_base,
    figures,
    kept_dumps,
    refuse_full,
    reproduction,
)
from hlo_lens.text.errors import MissingPackageError, UsageError

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.render.table import Report

_MOST_MODULES = 10
_MOST_COMPILES = 200
_REMEDIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Changes that are asked for; several values of one choice are alternatives.

    Attributes:
        targets: Targets; none for that of the dump.
        flags: Flags, name to values.
        edits: Changes of the program: kind and value, all made together.
        versions: Versions of jax to compile with: ``jax==0.9.2``.
        meshes: Sizes of mesh axes: ``data=8,model=4``; ``*`` for every split of the devices.
    """

    targets: tuple[str, ...] = ()
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    edits: tuple[tuple[str, str], ...] = ()
    versions: tuple[str, ...] = ()
    meshes: tuple[str, ...] = ()

    def combinations(self, base: Base) -> list[tuple[Change, ...]]:
        """Return the changes of each combination of values; one of no changes for none.

        Args:
            base: The module that is changed.

        Raises:
            UsageError: If there are too many.
        """
        choices = [[Change(kind=kind, target=value)] for kind, value in self.edits]
        if self.meshes:
            choices.insert(0, [Change(kind="mesh", target=one) for one in self._splits(base)])
        for name, values in self.flags.items():
            choices.append([Change(kind="flag", target=f"{name}={value}") for value in values])
        if self.versions:
            choices.insert(0, [Change(kind="with", target=one) for one in self.versions])
        if self.targets:
            choices.insert(0, [Change(kind="target", target=one) for one in self.targets])
        found = list(itertools.islice(itertools.product(*choices), _MOST_COMPILES + 1))
        if len(found) > _MOST_COMPILES:
            raise UsageError(f"more than {_MOST_COMPILES} combinations of values")
        return found

    def _splits(self, base: Base) -> list[str]:
        """Return the meshes, with those that ``*`` means for a module."""
        found: list[str] = []
        for one in self.meshes:
            if one == "*" and base.program is not None:
                found += mesh_splits(base.program.module, base.dump.lowered_meshes)
            else:
                found.append(one)
        return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Modules compiled again.

    Attributes:
        path: The dump.
        modules: A row for each module and combination of changes.
    """

    path: str
    modules: tuple[Recompiled, ...]

    @property
    def is_undecided(self) -> bool:
        """Whether no module could be tried: no text to compile, or no change that applies."""
        return not any(one.is_answered for one in self.modules)

    @property
    def report(self) -> Report:
        """The output of ``hlo-lens what-if``."""
        return what_if_report(self.modules, self.path)

    def __str__(self) -> str:
        return str(self.report)


def what_if(
    program: Program,
    *,
    module: str | None = None,
    target: str | Sequence[str] = (),
    flags: Mapping[str, object] | None = None,
    donate: str | Sequence[str] = (),
    undonate: str | Sequence[str] = (),
    shard: Mapping[str, object] | None = None,
    dtype: Mapping[str, str] | None = None,
    constraint: str | Sequence[str] = (),
    mesh: str | Sequence[str] = (),
    versions: str | Sequence[str] = (),
    output: str | Path | None = None,
    python: str = sys.executable,
    minutes: float = 30.0,
) -> WhatIf:
    """Compile the program of a dump again, with changes, without the hardware.

    Args:
        program: A dump with texts from before optimizations, or a program of `from_lowered`.
        module: Regular expression to find in the names of the modules wanted; None for all.
        target: Device and topology: ``"v5p:2x2x2"``, ``"h100_sxm"``, ``"cpu"``; a sequence for
            alternatives.
        flags: Flags of XLA for this compile, name to value; a list for alternatives.
        donate: Patterns of arguments to donate, as `hlo_lens.testing.assert_donated` takes them.
        undonate: Patterns of arguments that are no longer donated.
        shard: Pattern to a PartitionSpec, or its text: ``{"params['w']": "P(None, 'model')"}``.
        dtype: Pattern to the element type of stored arguments: ``{"opt/**": "bf16"}``.
        constraint: Sharding constraints: ``"drop step.py:31"``, ``"add step.py:31=P('data')"``.
        mesh: Sizes of mesh axes, ``"data=8,model=4"``; ``"*"`` for every split of the devices.
        versions: Versions of jax, and of libtpu, to compile with: ``"jax==0.9.2"``.
        output: Folder for the new dump; None to leave it in the cache.
        python: Interpreter whose jax compiles.
        minutes: Longest time of one compile.

    Raises:
        MissingPackageError: If that interpreter has no jax.
        UnknownNameError: If there is no such module or target.
    """
    given = {name: _values(value) for name, value in (flags or {}).items()}
    edits = [("donate", one) for one in _texts(donate)]
    edits += [("undonate", one) for one in _texts(undonate)]
    edits += [("shard", f"{name}={_spec_text(spec)}") for name, spec in (shard or {}).items()]
    edits += [("dtype", f"{name}={element}") for name, element in (dtype or {}).items()]
    edits += [("constraint", one) for one in _texts(constraint)]
    asked = Asked(
        targets=_texts(target),
        flags=given,
        edits=tuple(edits),
        versions=_texts(versions),
        meshes=_texts(mesh),
    )
    means = Means(python=python, minutes=minutes)
    found = modules_of(program, module=module)
    path = str(program) if isinstance(program, str | Path) else found[0].path
    return what_if_modules(found, asked, means=means, output=output, path=path)


def _texts(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _spec_text(spec: object) -> str:
    """Return a PartitionSpec as ``P(..)``, however the version of jax prints it."""
    return str(spec).replace("PartitionSpec(", "P(", 1)


def _values(value: object) -> tuple[str, ...]:
    several = value if isinstance(value, list | tuple) else (value,)
    return tuple(str(one).lower() if isinstance(one, bool) else str(one) for one in several)


def what_if_modules(
    modules: Sequence[ModuleDump],
    asked: Asked,
    *,
    means: Means,
    output: str | Path | None = None,
    path: str = "",
    progress: Progress | None = None,
) -> WhatIf:
    """Return some modules compiled again.

    Args:
        modules: The modules; those without a program are left out if others have one.
        asked: Changes.
        means: Interpreter and limits.
        output: Folder for the new dumps.
        path: The dump, for messages.
        progress: Called with compiles done and compiles in all.

    Raises:
        UsageError: If there are too many modules.
        OutputError: If the folder is not empty or cannot be written.
    """
    modules = [one for one in modules if one.has_program] or modules
    if len(modules) > _MOST_MODULES:
        raise UsageError(f"there are {len(modules)} modules; choose some with --module")
    refuse_full(output)
    for one in asked.targets:
        parse_target(one)  # an error before the first compile
    for one in asked.versions:
        requirements(one, "cpu")  # as above
    pool = Compiler(means, progress)
    with ThreadPoolExecutor(side_by_side()) as workers:
        try:
            bases = list(workers.map(lambda one: compiled_base(one, asked.targets, pool), modules))
        except MissingPackageError as error:
            raise MissingPackageError(f"{error}, or --with 'jax==0.10.2'") from error
        rows = [(base, changes) for base in bases for changes in asked.combinations(base)]
        pool.expect(len(rows))
        found = tuple(workers.map(lambda row: changed_module(row[0], row[1], pool), rows))
    if len(rows) == len(bases):
        found = tuple(_with_parts(one, base, pool) for one, base in zip(found, bases, strict=True))
    if output is not None:
        found = kept_dumps(found, Path(output))
    return WhatIf(path=path, modules=found)


def changed_module(base: Base, changes: tuple[Change, ...], pool: Compiler) -> Recompiled:
    """Return a module with changes; without any, the module as compiled again."""
    if base.program is None or base.program.obstacle:
        why = base.refusal
        refused = tuple(replace(one, applies=False, why_not=why) for one in changes)
        return _row(base, refused, base.target)
    program, target, flags, versions = base.program, base.target, dict(base.flags), ""
    module, checked = edited(program.module, changes, base.dump.lowered_meshes)
    checked = tuple(checked_target(module, one) if one.kind == "target" else one for one in checked)
    for one in checked:
        if one.applies and one.kind == "target":
            target = parse_target(one.target)
        elif one.applies and one.kind == "flag":
            name, _, value = one.target.partition("=")
            flags[name] = value
        elif one.kind == "with":
            versions = one.target
    if target is None or not any(one.applies for one in checked):
        return _with_remedies(_row(base, checked, target), module)
    if target.backend != program.backend:  # flags of the dump are those of its backend
        flags = {k: v for k, v in flags.items() if k not in base.flags}
    again = compiled_again(replace(program, module=module), target, flags, pool, versions)
    return _with_remedies(_row(base, checked, target, again), module)


def _with_remedies(row: Recompiled, module: HloModule) -> Recompiled:
    """Return a row of a program that does not fit with the changes that `fit` would try first."""
    if row.fits is not False:
        return row
    found = candidates(EntryArrays.of(module).table).candidates[:_REMEDIES]
    return replace(row, remedies=tuple((one.change, one.saves_bytes) for one in found))


def _equal_note(base: Base, changes: tuple[Change, ...], found: Figures | None) -> list[str]:
    """Return the note on other versions that give the figures of the dump, which `base` lacks."""
    if found is None or base.reproduction.is_equal or {one.kind for one in changes} != {"with"}:
        return []
    if not reproduction(base.own, found).is_equal:
        return []
    return [f"with {changes[0].target} every figure equals that of the dump"]


def _row(
    base: Base,
    changes: tuple[Change, ...],
    target: Target | None,
    again: Again | None = None,
) -> Recompiled:
    """Return the row of a module and its changes; `again` is the compile with them."""
    shown = again or base.again
    found = None
    if again is not None and again.module is not None and again.compilation.is_done:
        found = figures(again.module)
    refusal = base.refusal if again is None else again.refusal
    known = found or (base.figures if again is None else None)
    limit = None if target is None else target.memory_bytes
    message = () if shown is None else shortage(shown.compilation)
    fits = None if known is None or limit is None else _fits(known, limit)
    return Recompiled(
        name=base.dump.title,
        module_option=base.dump.module_option,
        reproduction=base.reproduction,
        base_target="" if base.target is None else base.target.name,
        target="" if target is None else target.name,
        versions={} if shown is None else shown.versions(target),
        changes=changes,
        own=base.own,
        base=base.figures or base.own,
        predicted=found,
        dump=None if shown is None or shown.module is None else str(shown.compilation.dump),
        memory_limit=limit,
        memory_source="" if target is None else target.memory_source,
        fits=False if message else fits,
        refusal=refusal,
        shortage=message,
        needed_bytes=None if shown is None or not message else needed_bytes(shown.compilation),
        seconds=0.0 if shown is None else shown.compilation.seconds,
        base_versions={} if base.again is None else base.again.versions(base.target),
        base_seconds=0.0 if base.again is None else base.again.compilation.seconds,
        notes=(
            *base.notes,
            *(() if shown is None else shown.notes(base.program)),
            *_equal_note(base, changes, found),
        ),
    )


def _fits(known: Figures, limit: int) -> bool | None:
    return None if known.total_bytes is None else known.total_bytes <= limit


def _with_parts(row: Recompiled, base: Base, pool: Compiler) -> Recompiled:
    """Return a row with the figures of each of its changes alone."""
    if sum(one.applies for one in row.changes) < 2:
        return row
    made = []
    for one in row.changes:
        alone = changed_module(base, (one,), pool).predicted if one.applies else None
        made.append(replace(one, alone=alone))
    return replace(row, changes=tuple(made))
