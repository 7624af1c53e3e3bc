"""Changes that are asked for, compiled together, and each alone."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.devices import parse_target
from hlo_lens.questions.what_if.compiling import Means, compile_threads
from hlo_lens.questions.what_if.edits import Change
from hlo_lens.questions.what_if.environments import requirements
from hlo_lens.questions.what_if.page import what_if_report
from hlo_lens.questions.what_if.recompiling import (
    EDITS,
    Base,
    Compiler,
    Recompiled,
    base_of,
    changed_module,
    compiled_base,
    variant_of,
)
from hlo_lens.text.errors import OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.render.table import Report

_MOST_MODULES = 10


def changes_of(asked: Mapping[str, Sequence[str]]) -> list[Change]:
    """Return the changes of some values by kind, in the order of their making."""
    kinds = ("target", "with", *EDITS, "flag")
    return [Change(kind=kind, target=value) for kind in kinds for value in asked.get(kind, ())]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Modules of the dump `path` compiled again."""

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
    asked: Mapping[str, Sequence[str]],
    *,
    means: Means,
    output: str | Path | None = None,
    path: str = "",
    is_each: bool = False,
    progress: Progress | None = None,
) -> WhatIf:
    """Return some modules compiled again; those without a program only if none has one.

    `asked` has values by kind of change, `output` is a folder for the new dumps; `is_each` compiles
    each change alone, too.

    Raises:
        UsageError: If there are too many modules.
        OutputError: If the folder is not empty or cannot be written.
        MissingPackageError: If the interpreter has no jax, or lacks what a target needs.
    """
    modules = [one for one in modules if one.has_program] or modules
    if len(modules) > _MOST_MODULES:
        raise UsageError(f"there are {len(modules)} modules; choose some with --module")
    require_empty(output)
    targets = asked.get("target", ())
    for target in targets:  # errors before the first compile
        parse_target(target)
    for versions in asked.get("with", ()):
        requirements(versions, "cpu")
    pool, changes = Compiler(means, progress), changes_of(asked)
    bases = [base_of(module, targets) for module in modules]
    variants = [variant_of(base, changes) for base in bases]
    for one in variants:
        if one.is_compiled and one.target is not None and not one.versions:
            pool.require(one.target)

    def compiled(base: Base, variant: Recompiled) -> Recompiled:
        base = compiled_base(base, pool) if variant.is_compiled else base
        return changed_module(base, variant, pool)

    pool.expect(len(bases))
    with compile_threads() as workers:
        rows = [*workers.map(compiled, bases, variants)]
    if is_each:
        pool.expect(sum(len(one.changes) for one in rows))
        rows = [_with_each(row, pool) for row in rows]
    for k, row in enumerate(rows) if output is not None else ():
        home = Path(output or "") / (f"{k:02}_{row.name}" if len(rows) > 1 else "")
        if row.dump is not None:
            rows[k] = replace(row, dump=copy_dump(row.dump, home))
    return WhatIf(path=path, modules=tuple(rows))


def _with_each(row: Recompiled, pool: Compiler) -> Recompiled:
    if sum(one.applies for one in row.changes) < 2:
        return row
    variants = [variant_of(row.known, [one]) if one.applies else None for one in row.changes]
    made = (None if one is None else changed_module(row.known, one, pool) for one in variants)
    return replace(row, alone=tuple(None if one is None else one.predicted for one in made))


def require_empty(output: str | Path | None) -> None:
    """Raise OutputError if there is a folder that is not empty, or something else of its name."""
    folder = Path(output or "")
    if output is not None and folder.exists() and (folder.is_file() or any(folder.iterdir())):
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
