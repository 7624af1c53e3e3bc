"""Modules of dumps compiled again as they are, the base of every change."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.devices import Target, parse_target
from hlo_lens.load.module import ModuleDump
from hlo_lens.program.summary import backend_of_dump
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.what_if.process.dumped import Again, dumped_flags, new_module, reasons
from hlo_lens.questions.what_if.process.environment import environment_python
from hlo_lens.questions.what_if.process.process import Compilation, Limits, compiled
from hlo_lens.questions.what_if.process.program import SourceProgram, request_of, source_program
from hlo_lens.questions.what_if.recompiled import Figures, Reproduction, figures, reproduction
from hlo_lens.text.dump_kinds import TEXT_FLAGS

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.what_if.process.request import CompileRequest

_NEEDS_GPU = "Expect autotune result cache hit"
_AUTOTUNE = "xla_gpu_autotune_level"


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

    @property
    def limits(self) -> Limits:
        """Limits of a compile that begins now."""
        if self.until is None:
            return Limits(minutes=self.minutes)
        left = max(0.0, self.until - time.monotonic()) / 60
        return Limits(minutes=min(self.minutes, left))


class Compiler:
    """Runs compiles and counts them."""

    def __init__(self, means: Means, progress: Progress | None) -> None:
        self._means = means
        self._progress = progress
        self._done = self._total = 0

    def expect(self, count: int) -> None:
        """Add to the number of compiles that progress counts up to."""
        self._total += count

    def compiled(self, request: CompileRequest, versions: str = "") -> Compilation:
        """Return the outcome of a compile, by other versions of jax if some are named."""
        python = self._means.python
        if versions:
            python = environment_python(versions, request.backend)
        found = compiled(request, python=python, limits=self._means.limits)
        self._done += 1
        self._total = max(self._total, self._done)
        if self._progress is not None:
            self._progress(self._done, self._total)
        return found


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
    again: Again | None = None
    figures: Figures | None = None
    reproduction: Reproduction = field(default_factory=lambda: Reproduction(is_equal=None))
    refusal: str = ""
    notes: tuple[str, ...] = ()


def compiled_base(dump: ModuleDump, targets: Sequence[str], pool: Compiler) -> Base:
    """Compile a module again as it is, with the flags that its dump has.

    Args:
        dump: The module.
        targets: Targets asked for; the first counts where the dump names none.
        pool: Compiles.
    """
    program = source_program(dump, backend_of_dump(dump))
    own = figures(dump) if memory_results(dump) is not None or dump.has_hlo else Figures()
    base = Base(dump=dump, program=program, target=None, own=own)
    if program is None:
        text = f"no text from before optimizations; XLA writes it with {TEXT_FLAGS}"
        return replace(base, refusal=text)
    if program.obstacle:
        return replace(base, refusal=program.obstacle)
    target = program.target
    notes: tuple[str, ...] = ()
    if target is None and targets:
        named = parse_target(targets[0])
        if named.backend == (backend_of_dump(dump) or named.backend):
            target = named
            notes = (f"the dump does not name its device; compiled for {named.name} as asked",)
    if target is None:
        what = backend_of_dump(dump) or "backend and device"
        text = f"the dump does not name its device ({what}): name one with --target"
        return replace(base, refusal=text)
    return _with_flags(replace(base, target=target, notes=notes), program, target, pool)


def _with_flags(base: Base, program: SourceProgram, target: Target, pool: Compiler) -> Base:
    """Compile a program again; once more where its dump has flags that the first compile lacked."""
    again = compiled_again(program, target, {}, pool)
    result = _compared(base, again)
    flags = {} if again.module is None else dumped_flags(base.dump, again.module)
    if flags and (again.is_same_compiler(base.dump) or result.reproduction.is_equal is False):
        other = compiled_again(program, target, flags, pool)
        if other.compilation.is_done:
            names = ", ".join(f"{name}={value}" for name, value in flags.items())
            notes = (*base.notes, f"with flags of the dump: {names}")
            result = _compared(replace(base, flags=flags, notes=notes), other)
    return result


def compiled_again(
    program: SourceProgram,
    target: Target,
    flags: Mapping[str, str],
    pool: Compiler,
    versions: str = "",
) -> Again:
    """Compile a program for a target, on the devices of its dump if that is its own target.

    Versions of the CUDA plugin that time kernels on the GPU compile without doing so.
    """
    request = request_of(program, target, flags=flags, is_own=program.target == target)
    made = pool.compiled(request, versions)
    if _NEEDS_GPU in made.error and _AUTOTUNE not in flags:
        return compiled_again(program, target, {**flags, _AUTOTUNE: "0"}, pool, versions)
    return Again(compilation=made, module=new_module(made, program.module.name))


def _compared(base: Base, again: Again) -> Base:
    if not again.compilation.is_done:
        return replace(base, again=again, refusal=again.refusal)
    found = Figures() if again.module is None else figures(again.module)
    why = reasons(base.dump, again, base.program)
    return replace(
        base, again=again, figures=found, reproduction=reproduction(base.own, found, why)
    )
