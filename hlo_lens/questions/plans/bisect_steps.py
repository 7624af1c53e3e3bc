"""Steps of a search: compiled from a program or by a command, and judged by rules."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.questions.check.api import check
from hlo_lens.questions.plans.bisection import BAD, GOOD, SKIPPED, Step
from hlo_lens.questions.what_if.process.cache import COMPILES, cache_folder
from hlo_lens.questions.what_if.process.environment import environment_python
from hlo_lens.questions.what_if.process.process import Limits, toolchain_of
from hlo_lens.questions.what_if.process.script import scripted
from hlo_lens.questions.what_if.recompiling import Compiler, Means, compiled_again
from hlo_lens.text.errors import HloLensError, UsageError

if TYPE_CHECKING:
    from hlo_lens.load.devices import Target
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.what_if.process.program import SourceProgram
    from hlo_lens.text.name_pattern import NamePattern

Compile = Callable[[str, str, Mapping[str, str]], Step]
"""Compiles a step: its name, versions (empty for those of the interpreter), and flags."""


def program_steps(program: SourceProgram, target: Target, pool: Compiler) -> Compile:
    """Return the function that compiles a program with some versions and flags."""

    def compiled(name: str, versions: str, flags: Mapping[str, str]) -> Step:
        try:
            again = compiled_again(program, target, flags, pool, versions)
        except HloLensError as error:
            return Step(name=name, outcome=SKIPPED, reason=str(error))
        return Step(
            name=name,
            outcome=SKIPPED if again.refusal else GOOD,
            reason=again.refusal,
            versions=again.versions(target),
            seconds=again.compilation.seconds,
            dump=None if again.refusal else str(again.compilation.dump),
        )

    return compiled


def command_steps(command: Sequence[str], backend: str, means: Means) -> Compile:
    """Return the function that runs a command with some versions."""
    home = cache_folder(COMPILES)
    places = itertools.count()
    folders: list[Path] = []

    def run(name: str, versions: str, flags: Mapping[str, str]) -> Step:
        del flags  # of searches for flags only
        try:
            python = environment_python(versions, backend)
        except HloLensError as error:
            return Step(name=name, outcome=SKIPPED, reason=str(error))
        if not folders:
            home.mkdir(parents=True, exist_ok=True)
            folders.append(Path(tempfile.mkdtemp(prefix="bisect-", dir=home)))
        folder = folders[0] / f"{next(places)}"
        made = scripted(command, python=python, folder=folder, limits=Limits(minutes=means.minutes))
        packages = [line.split(" ") for line in toolchain_of(python).splitlines()]
        return Step(
            name=name,
            outcome=GOOD if made.is_done else SKIPPED,
            reason=made.error,
            versions={one[0]: one[-1] for one in packages},
            seconds=made.seconds,
            dump=str(made.dump) if made.is_done else None,
        )

    return run


@dataclass(slots=True, kw_only=True)
class StepJudge:
    """Compiles steps and judges them against the good end; keeps all steps in their order.

    Attributes:
        compile: Compiles a step.
        rules: Rules that make a step bad.
        pattern: Modules to judge, by their names; None for all.
        progress: Called with steps done and steps expected.
        expected: Number of steps expected.
        baseline: Dump of the good end; None before it is compiled.
        steps: The steps so far.
    """

    compile: Compile
    rules: tuple[str, ...]
    pattern: NamePattern | None
    progress: Progress | None
    expected: int = 2
    baseline: str | None = None
    steps: list[Step] = field(default_factory=list)

    def judged(self, name: str, versions: str, flags: Mapping[str, str]) -> Step:
        """Return a step with its outcome; the first one is the baseline of the others."""
        step = self.compile(name, versions, flags)
        if step.dump is not None:
            step = self._with_outcome(step, step.dump)
        if self.baseline is None and step.outcome == GOOD:
            self.baseline = step.dump
        self.steps.append(step)
        if self.progress is not None:
            self.progress(len(self.steps), max(self.expected, len(self.steps)))
        return step

    def _with_outcome(self, step: Step, dump: str) -> Step:
        try:
            found = check(
                dump,
                baseline=self.baseline or dump,
                rules=self.rules,
                pattern=self.pattern,
            ).judgement
        except UsageError:
            raise
        except HloLensError as error:
            return replace(step, outcome=SKIPPED, reason=str(error))
        verdicts = found.verdicts
        if found.is_failed:
            why = [one.reason for one in verdicts if one.is_failure]
            return replace(step, outcome=BAD, reason="; ".join(why), judgement=found)
        if found.is_undecided:
            why = [one.reason for one in verdicts if one.is_undecided] or ["no rule is decided"]
            return replace(step, outcome=SKIPPED, reason="; ".join(why), judgement=found)
        return replace(step, outcome=GOOD, judgement=found)
