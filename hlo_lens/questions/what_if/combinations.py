"""Changes that are asked for, in every combination of their values, each compiled."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.devices import parse_target
from hlo_lens.questions.what_if.compiling import compile_threads
from hlo_lens.questions.what_if.edits import Change
from hlo_lens.questions.what_if.environments import requirements
from hlo_lens.questions.what_if.page import what_if_report
from hlo_lens.questions.what_if.recompiling import (
    Base,
    Compiler,
    Means,
    Recompiled,
    Variant,
    base_of,
    changed_module,
    compiled_base,
    variant_of,
)
from hlo_lens.questions.what_if.shardings import mesh_splits
from hlo_lens.text.errors import MissingPackageError, OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.render.table import Report

_MOST_MODULES = 10
_MOST_COMPILES = 200


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
        meshes: list[str] = []
        for mesh in self.meshes:
            if mesh == "*" and base.program is not None:
                meshes += mesh_splits(base.program.module, base.dump.lowered_meshes)
            else:
                meshes.append(mesh)
        alternatives = [
            ("target", self.targets),
            ("with", self.versions),
            ("mesh", tuple(dict.fromkeys(meshes))),
            *((kind, (value,)) for kind, value in self.edits),
            *(
                ("flag", tuple(f"{name}={value}" for value in values))
                for name, values in self.flags.items()
            ),
        ]
        choices = [[Change(kind=kind, target=v) for v in vs] for kind, vs in alternatives if vs]
        combined = list(itertools.islice(itertools.product(*choices), _MOST_COMPILES + 1))
        if len(combined) > _MOST_COMPILES:
            raise UsageError(f"more than {_MOST_COMPILES} combinations of values")
        return combined


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


def what_if_modules(
    modules: Sequence[ModuleDump],
    asked: Asked,
    *,
    means: Means,
    output: str | Path | None = None,
    path: str = "",
    is_each: bool = False,
    progress: Progress | None = None,
) -> WhatIf:
    """Return some modules compiled again.

    Args:
        modules: The modules; those without a program are left out if others have one.
        asked: Changes.
        means: Interpreter and limits.
        output: Folder for the new dumps.
        path: The dump, for messages.
        is_each: Whether to compile each change alone, too.
        progress: Called with compiles done and compiles in all.

    Raises:
        UsageError: If there are too many modules.
        OutputError: If the folder is not empty or cannot be written.
        MissingPackageError: If the interpreter has no jax, or lacks what a target needs.
    """
    modules = [one for one in modules if one.has_program] or modules
    if len(modules) > _MOST_MODULES:
        raise UsageError(f"there are {len(modules)} modules; choose some with --module")
    require_empty(output)
    for target in asked.targets:  # errors before the first compile
        parse_target(target)
    for versions in asked.versions:
        requirements(versions, "cpu")
    wanted: list[tuple[Base, list[Variant]]] = []
    for module in modules:
        base = base_of(module, asked.targets)
        wanted.append((base, [variant_of(base, one) for one in asked.combinations(base)]))
    pool = Compiler(means, progress)
    _require([one for _, variants in wanted for one in variants], pool)
    with compile_threads() as workers:

        def compiled(base: Base, variants: Sequence[Variant]) -> Base:
            return compiled_base(base, pool) if any(v.is_compiled for v in variants) else base

        bases = [(workers.submit(compiled, *pair), pair[1]) for pair in wanted]
        pairs = [(base.result(), one) for base, variants in bases for one in variants]
        pool.expect(len(pairs))
        rows = tuple(workers.map(lambda pair: changed_module(pair[0], pair[1], pool), pairs))
    if is_each:
        pool.expect(sum(len(one.changes) for one in rows))
        rows = tuple(
            _with_each(row, base, pool) for row, (base, _) in zip(rows, pairs, strict=True)
        )
    if output is not None:
        rows = tuple(_kept(row, k, Path(output), len(rows)) for k, row in enumerate(rows))
    return WhatIf(path=path, modules=rows)


def _require(variants: Sequence[Variant], pool: Compiler) -> None:
    """Raise MissingPackageError if the interpreter lacks what a compile needs."""
    try:
        for one in variants:
            if one.is_compiled and one.target is not None and not one.versions:
                pool.require(one.target)
    except MissingPackageError as error:
        raise MissingPackageError(f"{error}, or --with 'jax==0.10.2'") from error


def _with_each(row: Recompiled, base: Base, pool: Compiler) -> Recompiled:
    """Return a row with the figures of each of its changes alone, if there are several."""
    if sum(one.applies for one in row.changes) < 2:
        return row
    alone = (
        changed_module(base, variant_of(base, [one]), pool).predicted if one.applies else None
        for one in row.changes
    )
    return replace(row, alone=tuple(alone))


def require_empty(output: str | Path | None) -> None:
    """Raise OutputError if there is a folder that is not empty, or something else of its name."""
    if output is None:
        return
    folder = Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(f"{folder}: exists and is not an empty folder")


def copy_dump(dump: str, home: Path) -> str:
    """Copy a new dump into a folder; return its path.

    Raises:
        OutputError: If it cannot be written.
    """
    try:
        shutil.copytree(dump, home, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise OutputError(f"{home}: cannot be written: {error}") from error
    return str(home)


def _kept(row: Recompiled, place: int, folder: Path, count: int) -> Recompiled:
    """Return a row whose dump is in a folder, in one of its own if there are several rows."""
    if row.dump is None:
        return row
    words = [row.name, *(change.target for change in row.changes)]
    plain = "_".join("".join(c if c.isalnum() or c in ".-" else "-" for c in w) for w in words)
    home = folder if count == 1 else folder / f"{place:02}_{plain[:80]}"
    return replace(row, dump=copy_dump(row.dump, home))
