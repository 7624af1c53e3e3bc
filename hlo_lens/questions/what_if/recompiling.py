"""Modules of dumps compiled again: as they are, and with changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.devices import Target, parse_target
from hlo_lens.program.summary import backend_of_dump
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.what_if.arguments import EntryArrays
from hlo_lens.questions.what_if.candidates import candidates
from hlo_lens.questions.what_if.compiling import (
    Compilation,
    compiled,
    dumped_flags,
    foreign_calls,
    needed_memory,
    optimized_module,
    request_of,
    source_program,
)
from hlo_lens.questions.what_if.environments import environment_python
from hlo_lens.questions.what_if.figures import Figures, Reproduction, figures, reproduction
from hlo_lens.questions.what_if.program_changes import edited
from hlo_lens.text.dump_kinds import TEXT_FLAGS

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.what_if.compiling import CompileRequest, SourceProgram
    from hlo_lens.questions.what_if.edits import Change


RECOMPILED = "recompiled"
"""Basis of figures that XLA's compiler gave."""

_NEEDS_GPU = "Expect autotune result cache hit"
_AUTOTUNE = "xla_gpu_autotune_level"
_REMEDIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Means of compiling.

    Attributes:
        python: Interpreter whose jax compiles. A path is made absolute, because compiles run in
            another folder; links are kept, as that of a virtual environment; names are those of
            ``PATH``.
        minutes: Longest time of one compile.
        until: Time at which compiles end, by `time.monotonic`; None for no such limit.
    """

    python: str = sys.executable
    minutes: float = 30.0
    until: float | None = None

    def __post_init__(self) -> None:
        if Path(self.python).name != self.python:
            object.__setattr__(self, "python", str(Path(self.python).absolute()))

    def within(self) -> Means:
        """Return the same means with `minutes` for all compiles together, from now on."""
        return replace(self, until=time.monotonic() + 60 * self.minutes)

    @property
    def is_late(self) -> bool:
        """Whether no time is left."""
        return self.until is not None and time.monotonic() >= self.until

    @property
    def minutes_left(self) -> float:
        """Longest time of a compile that begins now."""
        if self.until is None:
            return self.minutes
        return min(self.minutes, max(0.0, self.until - time.monotonic()) / 60)


class Compiler:
    """Runs compiles and counts them.

    Attributes:
        means: Interpreter and limits.
    """

    def __init__(self, means: Means, progress: Progress | None = None) -> None:
        self.means = means
        self._progress = progress
        self._done = self._total = 0

    def expect(self, count: int) -> None:
        """Add to the number of compiles that progress counts up to."""
        self._total += count

    def compiled(self, request: CompileRequest, versions: str = "") -> Compilation:
        """Return the outcome of a compile, by other versions of jax if some are named."""
        python = environment_python(versions, request.backend) if versions else self.means.python
        made = compiled(request, python=python, minutes=self.means.minutes_left)
        self._done += 1
        self._total = max(self._total, self._done)
        if self._progress is not None:
            self._progress(self._done, self._total)
        return made


def compiled_again(
    program: SourceProgram,
    target: Target,
    flags: Mapping[str, str],
    pool: Compiler,
    versions: str = "",
) -> Compilation:
    """Compile a program for a target, on the devices of its dump if that is its own target.

    Versions of the CUDA plugin that time kernels on the GPU compile without doing so.
    """
    made = pool.compiled(request_of(program, target, flags=flags), versions)
    if _NEEDS_GPU in made.error and _AUTOTUNE not in flags:
        return compiled_again(program, target, {**flags, _AUTOTUNE: "0"}, pool, versions)
    return replace(made, module=optimized_module(made, program.module.name))


# ---- without changes ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A module compiled again without changes.

    Attributes:
        dump: The module.
        program: Its program; None if the dump lacks it.
        target: Target without changes; None if it is not known.
        flags: Flags of the dump that are not the compiler's own.
        own: Figures of the dump.
        again: The compile; None if it was not possible.
        figures: Its figures.
        reproduction: Comparison of both.
        refusal: Why it was not possible.
        notes: Limits of the answer.
    """

    dump: ModuleDump
    program: SourceProgram | None
    target: Target | None
    own: Figures
    flags: Mapping[str, str] = field(default_factory=dict)
    again: Compilation | None = None
    figures: Figures | None = None
    reproduction: Reproduction = field(default_factory=Reproduction)
    refusal: str = ""
    notes: tuple[str, ...] = ()

    def compared(self, again: Compilation) -> Base:
        """Return the module with a compile of its program."""
        if again.error:
            return replace(self, again=again, refusal=again.refusal)
        made = Figures() if again.module is None else figures(again.module)
        differences = tuple(again.differences(self.dump, self.program))
        equal = reproduction(self.own, made, differences)
        return replace(self, again=again, figures=made, reproduction=equal)


def compiled_base(dump: ModuleDump, targets: Sequence[str], pool: Compiler) -> Base:
    """Compile a module again as it is, with the flags that its dump has.

    Args:
        dump: The module.
        targets: Targets asked for; the first counts where the dump names none.
        pool: Compiles.
    """
    program, backend = source_program(dump), backend_of_dump(dump)
    own = figures(dump) if memory_results(dump) is not None or dump.has_hlo else Figures()
    base = Base(dump=dump, program=program, target=None, own=own)
    if program is None:
        text = f"no text from before optimizations; XLA writes it with {TEXT_FLAGS}"
        return replace(base, refusal=text)
    if program.obstacle:
        return replace(base, refusal=program.obstacle)
    target = program.target
    if target is None and targets:
        named = parse_target(targets[0])
        if named.backend == (backend or named.backend):
            target = named
            note = f"the dump does not name its device; compiled for {named.name} as asked"
            base = replace(base, notes=(note,))
    if target is None:
        what = backend or "backend and device"
        text = f"the dump does not name its device ({what}): name one with --target"
        return replace(base, refusal=text)
    base = replace(base, target=target)
    again = compiled_again(program, target, {}, pool)
    result = base.compared(again)
    flags = {} if again.module is None else dumped_flags(dump, again.module)
    if flags and (again.is_same_compiler(dump) or result.reproduction.is_equal is False):
        other = compiled_again(program, target, flags, pool)
        if not other.error:
            names = ", ".join(f"{name}={value}" for name, value in flags.items())
            notes = (*base.notes, f"with flags of the dump: {names}")
            return replace(base, flags=flags, notes=notes).compared(other)
    return result


# ---- with changes ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompiled:
    """One module compiled again, without and with changes.

    Attributes:
        name: Name of the module.
        reproduction: Comparison of the dump with `base`.
        base_target: Target of `base`.
        target: Target of `predicted`.
        versions: Versions of the packages that compiled it with the changes.
        base_versions: Those of `base`.
        changes: The changes.
        own: Figures of the dump.
        base: Figures of the program compiled again without changes; those of the dump if that was
            not possible.
        predicted: Figures with the changes; None where there are none, or XLA refused.
        dump: Folder of the new dump; None if there is none.
        memory_limit: Memory of one device of the target; None if not known.
        memory_source: Source of that number.
        fits: Whether the program fits in it; None if not known.
        refusal: Why there are no figures: XLA's message, or a reason; empty where there are.
        shortage: Figures of XLA's out-of-memory message: label and text.
        needed_bytes: Bytes that the program needs by that message, rounded up; None without one.
        remedies: Changes that `fit` would try first for a program that does not fit, and the bytes
            that their arrays shrink.
        seconds: Seconds that compiling with the changes took; without changes, that of `base`.
        base_seconds: Those of `base`.
        notes: Sentences on limits of the answer.
        module_option: Option with which commands on the dump read the module alone; may be empty.
    """

    name: str
    reproduction: Reproduction
    base_target: str
    target: str
    versions: Mapping[str, str]
    changes: tuple[Change, ...]
    own: Figures
    base: Figures
    predicted: Figures | None
    dump: str | None = None
    memory_limit: int | None = None
    memory_source: str = ""
    fits: bool | None = None
    refusal: str = ""
    shortage: tuple[tuple[str, str], ...] = ()
    needed_bytes: int | None = None
    remedies: tuple[tuple[str, int], ...] = ()
    seconds: float = 0.0
    base_versions: Mapping[str, str] = field(default_factory=dict)
    base_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    module_option: str = ""

    @property
    def is_answered(self) -> bool:
        """Whether there are figures, or XLA tried to compile the program and refused."""
        is_tried = not self.changes or any(one.applies for one in self.changes)
        return self.predicted is not None or (is_tried and self.seconds > 0)


def changed_module(base: Base, changes: tuple[Change, ...], pool: Compiler) -> Recompiled:
    """Return a module with changes; without any, the module as compiled again."""
    program, target, flags, versions = base.program, base.target, dict(base.flags), ""
    if program is None or program.obstacle:
        refused = (replace(one, applies=False, why_not=base.refusal) for one in changes)
        return _row(base, tuple(refused), target)
    module, changes = edited(program.module, changes, base.dump.lowered_meshes)
    changes = tuple(_checked(module, one) for one in changes)
    for one in changes:
        if one.applies and one.kind == "target":
            target = parse_target(one.target)
        elif one.applies and one.kind == "flag":
            name, _, value = one.target.partition("=")
            flags[name] = value
        elif one.kind == "with":
            versions = one.target
    again = None
    if target is not None and any(one.applies for one in changes):
        if target.backend != program.backend:  # flags of the dump are those of its backend
            flags = {k: v for k, v in flags.items() if k not in base.flags}
        again = compiled_again(replace(program, module=module), target, flags, pool, versions)
    row = _row(base, changes, target, again)
    if row.fits is not False:
        return row
    first = candidates(EntryArrays.of(module).table).candidates[:_REMEDIES]
    return replace(row, remedies=tuple((one.change, one.saves_bytes) for one in first))


def _checked(module: HloModule, change: Change) -> Change:
    """Return a change with the reason why a target cannot be compiled for, if there is one."""
    if change.kind != "target":
        return change
    foreign = foreign_calls(module, parse_target(change.target).backend)
    why = f"custom calls that only another backend knows: {', '.join(foreign[:4])}"
    return replace(change, applies=False, why_not=why) if foreign else change


def _row(
    base: Base,
    changes: tuple[Change, ...],
    target: Target | None,
    again: Compilation | None = None,
) -> Recompiled:
    """Return the row of a module and its changes; `again` is the compile with them."""
    shown = again or base.again
    predicted = None
    if again is not None and again.module is not None and not again.error:
        predicted = figures(again.module)
    current = predicted or (base.figures if again is None else None)
    limit = None if target is None else target.memory_bytes
    shortage, needed_bytes = ((), None) if shown is None else needed_memory(shown)
    fits = None
    if current is not None and current.total_bytes is not None and limit is not None:
        fits = current.total_bytes <= limit
    notes = [*base.notes, *(() if shown is None else shown.notes(base.program))]
    if (
        {one.kind for one in changes} == {"with"}
        and predicted is not None
        and not base.reproduction.is_equal
        and reproduction(base.own, predicted).is_equal
    ):
        notes.append(f"with {changes[0].target} every figure equals that of the dump")
    return Recompiled(
        name=base.dump.title,
        module_option=base.dump.module_option,
        reproduction=base.reproduction,
        base_target="" if base.target is None else base.target.name,
        target="" if target is None else target.name,
        versions={} if shown is None else shown.versions_for(target),
        changes=changes,
        own=base.own,
        base=base.figures or base.own,
        predicted=predicted,
        dump=None if shown is None or shown.module is None else str(shown.dump),
        memory_limit=limit,
        memory_source="" if target is None else target.memory_source,
        fits=False if shortage else fits,
        refusal=base.refusal if again is None else again.refusal,
        shortage=shortage,
        needed_bytes=needed_bytes,
        seconds=0.0 if shown is None else shown.seconds,
        base_versions={} if base.again is None else base.again.versions_for(base.target),
        base_seconds=0.0 if base.again is None else base.again.seconds,
        notes=tuple(notes),
    )
