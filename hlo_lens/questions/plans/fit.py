"""Plans with which a program fits: changes and hardware, each compiled.

`hlo_lens.questions.plans.plan_search` chooses combinations of changes,
`hlo_lens.questions.plans.fit_places` the hardware.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.module import ModuleDump
from hlo_lens.load.programs import Program, Progress, modules_of
from hlo_lens.program.summary import backend_of_dump
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.plans.fit_module import Fitting, Wanted
from hlo_lens.questions.plans.fit_page import fit_report
from hlo_lens.questions.plans.fit_places import expanded_targets
from hlo_lens.questions.plans.fitting import Attempt, FittedModule, Place
from hlo_lens.questions.what_if.process.program import own_target
from hlo_lens.questions.what_if.recompiled import figures
from hlo_lens.questions.what_if.recompiling import Compiler, Means
from hlo_lens.text.errors import UsageError
from hlo_lens.text.units import parse_size

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.render.table import Report

_MOST_MODULES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Plans for the modules of a dump.

    Attributes:
        path: The dump.
        modules: One for each module.
    """

    path: str
    modules: tuple[FittedModule, ...]

    @property
    def fits(self) -> bool:
        """Whether each module fits, as it is or with a plan."""
        return all(one.fits for one in self.modules)

    @property
    def is_undecided(self) -> bool:
        """Whether it is not known of a module whether it fits."""
        return any(one.is_undecided for one in self.modules)

    @property
    def report(self) -> Report:
        """The output of ``hlo-lens fit``."""
        return fit_report(self.modules, self.path)

    def __str__(self) -> str:
        return str(self.report)


def fit(
    program: Program,
    *,
    limit: int | str | None = None,
    target: str | Sequence[str] = (),
    allow_dtype: str | Sequence[str] = (),
    module: str | None = None,
    minutes: float = 30.0,
    python: str = sys.executable,
) -> Fit:
    """Find changes with which a program fits in a device's memory, by compiling it with each.

    Args:
        program: A dump with texts from before optimizations, or a program of `from_lowered`.
        limit: Memory of one device: ``"16GiB"``, or bytes; None for that of the target.
        target: Device and topology, ``"v5e:4x4"``; ``"v5e:*"`` for the smallest slices; a sequence
            for alternatives; none for the dump's own.
        allow_dtype: Element types of stored arguments that are allowed: ``"opt/**=bf16"``.
        module: Regular expression to find in the names of the modules wanted; None for all.
        minutes: Longest time of all compiles together.
        python: Interpreter whose jax compiles.

    Raises:
        MissingPackageError: If that interpreter has no jax.
        UnknownNameError: If there is no such module or target.
        UsageError: If no limit is known.
    """
    limit_bytes = None if limit is None else parse_size(limit)
    wanted = Wanted(
        limit_bytes=limit_bytes,
        targets=(target,) if isinstance(target, str) else tuple(target),
        dtypes=(allow_dtype,) if isinstance(allow_dtype, str) else tuple(allow_dtype),
    )
    found = modules_of(program, module=module)
    path = str(program) if isinstance(program, str | Path) else found[0].path
    return fit_modules(found, wanted, means=Means(python=python, minutes=minutes), path=path)


def fit_modules(
    modules: Sequence[ModuleDump],
    wanted: Wanted,
    *,
    means: Means,
    path: str = "",
    progress: Progress | None = None,
) -> Fit:
    """Return plans for some modules.

    Args:
        modules: The modules; those without a program are left out if others have one.
        wanted: Limit, targets and allowed changes.
        means: Interpreter, and the time for all compiles together.
        path: The dump, for messages.
        progress: Called with compiles done and compiles in all.

    Raises:
        UsageError: If no limit is known, or too many modules do not fit.
    """
    modules = [one for one in modules if one.has_program] or modules
    targets = expanded_targets(wanted.targets)
    found = [_known_to_fit(one, wanted) for one in modules]
    missing = sum(one is None for one in found)
    if missing > _MOST_MODULES:
        raise UsageError(f"there are {missing} modules to compile; choose some with --module")
    means = replace(means, until=time.monotonic() + means.minutes * 60)
    pool = Compiler(means, progress)
    made = [
        known or Fitting(dump, wanted, targets, pool, means).fitted()
        for known, dump in zip(found, modules, strict=True)
    ]
    return Fit(path=path, modules=tuple(made))


def _known_to_fit(dump: ModuleDump, wanted: Wanted) -> FittedModule | None:
    """Return the answer for a module that fits by the figures of its dump; else None."""
    if wanted.targets:
        return None
    target = own_target(dump, backend_of_dump(dump))
    if wanted.limit_bytes == 0:
        raise UsageError("the limit is 0: give a size, such as 16GiB")
    limit = wanted.limit_bytes or (None if target is None else target.memory_bytes)
    if limit is None:
        raise UsageError("the dump names no device whose memory is known: give --limit 16GiB")
    own = figures(dump) if memory_results(dump) is not None else None
    if own is None or not own.is_exact or own.total_bytes is None or own.total_bytes > limit:
        return None
    base = Attempt(place=Place(), figures=own, total_bytes=own.total_bytes, fits=True)
    source = "--limit" if wanted.limit_bytes or target is None else target.memory_source
    return FittedModule(
        name=dump.title,
        module_option=dump.module_option,
        limit_bytes=limit,
        limit_source=source,
        base=base,
        is_compiled=False,
        plans=(base,),
    )
