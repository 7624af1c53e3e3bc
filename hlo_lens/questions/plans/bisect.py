"""Searches for the version or flags that made a program worse: steps, compiled and judged.

Steps that cannot be judged are skipped, as by ``git bisect skip``: the answer is then the first
step known to be bad, and the skipped ones before it may be bad too. The smallest set is that of
delta debugging: Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.
"""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.devices import CPU, Target, parse_target
from hlo_lens.load.files import read_source
from hlo_lens.load.programs import Program, Progress, modules_of
from hlo_lens.questions.check import check
from hlo_lens.questions.check.checked import compare
from hlo_lens.questions.check.rules import short_rule
from hlo_lens.questions.plans.bisect_page import bisect_report
from hlo_lens.questions.plans.bisection import Bisection, Step, first_bad, smallest_bad
from hlo_lens.questions.what_if.compiling import (
    OPTION_TEXTS,
    SourceProgram,
    options_of,
    source_program,
    toolchain_of,
)
from hlo_lens.questions.what_if.environments import (
    NoIndexError,
    cached_versions,
    environment_python,
    released_versions,
    scripted,
    version_key,
)
from hlo_lens.questions.what_if.recompiling import Compiler, Means, compiled_again
from hlo_lens.text.errors import HloLensError, MissingDumpError, OutputError, UsageError
from hlo_lens.text.patterns import NamePattern
from hlo_lens.text.units import listed
from hlo_lens.text.user_cache import COMPILES, cache_folder

if TYPE_CHECKING:
    from collections.abc import Collection

    from hlo_lens.load.devices import Target
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.diff.dump_diff import Diff
    from hlo_lens.questions.what_if.compiling import SourceProgram
    from hlo_lens.render.table import Report


GOOD, BAD, SKIPPED = "good", "bad", "skipped"


_SHOWN = 3


def differing_flags(
    good: str | Path, bad: str | Path, *, module: str | None = None
) -> dict[str, tuple[str | None, str | None]]:
    """Return the flags with two values, in the order of their names; None where not printed.

    Args:
        good: A dump, or a file of ``debug_options``.
        bad: Another one.
        module: Regular expression to find in the name of the module of a dump.

    Raises:
        MissingDumpError: If a dump has no ``debug_options``.
    """
    one, other = (_flags(str(path), module) for path in (good, bad))
    names = sorted({*one, *other})
    return {n: (one.get(n), other.get(n)) for n in names if one.get(n) != other.get(n)}


def _flags(path: str, module: str | None) -> dict[str, str]:
    """Return the flags that a dump or a file prints, once each."""
    if Path(path).is_file() and "debug_options" in Path(path).name:
        return options_of(read_source(path).text)
    for one in modules_of(path, module=module):
        texts = [text for name in OPTION_TEXTS if (text := one.setting(name)) is not None]
        if texts:
            return {name: value for text in texts for name, value in options_of(text).items()}
    raise MissingDumpError(f"{path}: no debug_options; XLA writes it with --xla_dump_hlo_as_text")


def flags_text(flags: Mapping[str, str | None]) -> str:
    """Return flags and values in one line; the first ones and the number of others."""
    words = [f"{name}={'default' if value is None else value}" for name, value in flags.items()]
    if len(words) > _SHOWN:
        words = [*words[:_SHOWN], f"[{len(words) - _SHOWN} others]"]
    return ", ".join(words)


_REFUSED = re.compile(r"(?i)\b(?:option|flag|field)s?\b[^\n]{0,80}")


def refused_flag(message: str, flags: Collection[str]) -> str | None:
    """Return the flag that a message says cannot be set; None if it names none."""
    for match in _REFUSED.finditer(message):
        words: list[str] = re.findall(r"\w+", match[0])
        if named := [name for name in words if name in flags]:
            return named[0]
    return None


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
            versions=again.versions_for(target),
            seconds=again.seconds,
            dump=None if again.refusal else str(again.dump),
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
        made = scripted(command, python=python, folder=folder, minutes=means.minutes)
        packages = [line.split(" ") for line in toolchain_of(python).splitlines()]
        return Step(
            name=name,
            outcome=SKIPPED if made.error else GOOD,
            reason=made.error,
            versions={one[0]: one[-1] for one in packages},
            seconds=made.seconds,
            dump=None if made.error else str(made.dump),
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


_MOST_REFUSED = 40
_REQUIREMENT = re.compile(r"(jax|jaxlib|libtpu)==([\w.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected:
    """Answer of a search.

    Attributes:
        bisection: Its steps and the answer.
        diff: Changes from the last good step to the first bad one; None without an answer.
    """

    bisection: Bisection
    diff: Diff | None = None

    @property
    def report(self) -> Report:
        """The output of ``hlo-lens bisect``."""
        return bisect_report(self.bisection, None if self.diff is None else self.diff.report())

    def to_dict(self) -> Mapping[str, object]:
        """Return the JSON object that ``hlo-lens bisect -f json`` prints."""
        return self.report.data

    def __str__(self) -> str:
        return str(self.report)


def bisect(
    program: Program | None = None,
    *,
    fail_on: str | Sequence[str],
    good: str = "",
    bad: str = "",
    flags: tuple[str | Path, str | Path] | None = None,
    command: Sequence[str] = (),
    module: str | None = None,
    target: str = "",
    output: str | Path | None = None,
    python: str = sys.executable,
    minutes: float = 30.0,
    progress: Progress | None = None,
) -> Bisected:
    """Find the version of jax or libtpu, or the flags of XLA, that made a program worse.

    Args:
        program: A dump with texts from before optimizations; None with a command.
        fail_on: Rules of the gate that make a step bad, against the good end:
            ``"memory.total_bytes>+1%"``.
        good: Versions that are good, ``"jax==0.8.0"``.
        bad: Versions that are bad; one package has another version than in `good`.
        flags: Two dumps, or files of ``debug_options``, in place of versions: good and bad.
        command: Command that compiles programs, run in place of compiling `program`.
        module: Regular expression to find in the name of the module.
        target: Device and topology; that of the dump if empty.
        output: Folder for the dumps of the last good and the first bad step.
        python: Interpreter whose jax compiles where flags are searched.
        minutes: Longest time of one step.
        progress: Called with steps done and steps expected.

    Raises:
        UsageError: If the versions are not understood, or the program is missing.
        MissingPackageError: If an end cannot be installed.
        OutputError: If the folder is not empty or cannot be written.
    """
    rules = (fail_on,) if isinstance(fail_on, str) else tuple(fail_on)
    if not rules:
        raise UsageError("name what makes a version bad: --fail-on 'memory.total_bytes>+1%'")
    for rule in rules:
        short_rule(rule)  # an error before the first compile
    if output is not None and Path(output).exists() and any(Path(output).iterdir()):
        raise OutputError(f"{output}: exists and is not an empty folder")
    if (flags is None) == (not good and not bad):
        raise UsageError("give --good and --bad, two versions, or --flags, two dumps")
    means = Means(python=python, minutes=minutes)
    if command:
        if program is not None or flags is not None:
            raise UsageError("a command takes the place of PATH and works with --good and --bad")
        named = parse_target(target) if target else CPU
        compile_ = command_steps(command, named.backend, means)
        backend, pattern = named.backend, None if module is None else NamePattern(module)
    else:
        source = program if program is not None or flags is None else flags[0]
        found, own = _source(source, module, target)
        backend, pattern = own.backend, NamePattern(f"^{re.escape(found.module.name)}$")
        compile_ = program_steps(found, own, Compiler(means, None))
    judge = StepJudge(compile=compile_, rules=rules, pattern=pattern, progress=progress)
    if flags is not None:
        made = _flags_search(judge, differing_flags(*flags, module=module))
    else:
        made = _versions_search(judge, good, bad, backend)
    return _with_diff(made, output, pattern)


def _source(
    program: Program | None, module: str | None, target: str
) -> tuple[SourceProgram, Target]:
    """Return the program to compile and its target."""
    if program is None:
        raise UsageError("name a dump, or a command after --")
    whole = [one for one in modules_of(program, module=module) if one.has_program]
    if len(whole) != 1:
        names = listed([one.title for one in whole], 6) or "none with a text before optimizations"
        raise UsageError(f"a search is about one module; there is {names}; choose with --module")
    found = source_program(whole[0])
    assert found is not None  # it has a program
    if found.obstacle:
        raise UsageError(f"{whole[0].title} cannot be compiled again: {found.obstacle}")
    own = parse_target(target) if target else found.target
    if own is None:
        raise UsageError("the dump does not name its device: name one with --target")
    return found, own


def _ends(good: Step, bad: Step | None) -> str:
    """Return why a search cannot begin; empty if it can."""
    if good.outcome != GOOD:
        return f"{good.name} is {good.outcome}, not good: {good.reason}"
    if bad is not None and bad.outcome != BAD:
        why = bad.reason or "no rule failed"
        return f"{bad.name} is {bad.outcome}, not bad: {why}"
    return ""


def _versions_search(judge: StepJudge, good: str, bad: str, backend: str) -> Bisection:
    """Return the search between two versions."""
    ends, package = _parsed_ends(good, bad)
    first = judge.judged(good, good, {})
    last = judge.judged(bad, bad, {}) if first.outcome == GOOD else None
    made = Bisection(subject="version", rules=judge.rules)
    problem = _ends(first, last)
    if problem or last is None:
        return replace(made, steps=tuple(judge.steps), problem=problem)
    between, notes = _between(ends, package, backend)
    names = [good, *(_with_version(good, package, one) for one in between), bad]
    judge.expected = 2 + max(len(between), 1).bit_length()
    known = {0: first, len(names) - 1: last}

    def outcome_of(place: int) -> str:
        known[place] = judge.judged(names[place], names[place], {})
        return known[place].outcome

    one, other = first_bad(len(names), outcome_of)
    return replace(
        made,
        steps=tuple(judge.steps),
        last_good=known[one],
        first_bad=known[other],
        candidates=tuple(names[one + 1 : other]),
        notes=notes,
    )


def _parsed_ends(good: str, bad: str) -> tuple[tuple[str, str], str]:
    """Return the versions of the package that differs, and its name."""
    found = []
    for option, text in (("--good", good), ("--bad", bad)):
        words = [word for word in re.split(r"[,\s]+", text) if word]
        pairs = [_REQUIREMENT.fullmatch(word) for word in words]
        if not pairs or None in pairs:
            raise UsageError(
                f"{option} {text!r}: write 'jax==0.9.2' or 'jax==0.10.2,libtpu==0.0.51'"
            )
        found.append({one[1]: one[2] for one in pairs if one is not None})
    one, other = found
    differ = [name for name in one if other.get(name) != one[name]]
    if one.keys() != other.keys() or len(differ) != 1:
        raise UsageError(f"{good!r} and {bad!r}: one package has two versions, others are equal")
    (package,) = differ
    return (one[package], other[package]), package


def _between(
    ends: tuple[str, str], package: str, backend: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the versions between two, from the good one on, and notes on how they are known."""
    notes: tuple[str, ...] = ()
    try:
        known = released_versions(package)
    except NoIndexError as error:
        known = cached_versions(package, backend)
        notes = (f"{error}: of the versions between, only those in the cache were compiled",)
    low, high = sorted(map(version_key, ends))
    found = tuple(one for one in known if low < version_key(one) < high)
    return (found if version_key(ends[0]) == low else found[::-1]), notes


def _with_version(text: str, package: str, version: str) -> str:
    return re.sub(rf"\b{package}==[\w.]+", f"{package}=={version}", text)


@dataclass(slots=True, kw_only=True)
class _FlagSteps:
    """Compiles with some flags as in the bad dump, the others as in the good one.

    Attributes:
        judge: Compiles and judges.
        flags: Flags that differ, with both values.
        unknown: Flags that cannot be set, with the message.
        seen: Steps by the flags that are as in the bad dump.
    """

    judge: StepJudge
    flags: dict[str, tuple[str | None, str | None]]
    unknown: dict[str, str] = field(default_factory=dict)
    seen: dict[frozenset[str], Step] = field(default_factory=dict)

    def step(self, changed: Sequence[str]) -> Step:
        """Return the step with some flags as in the bad dump."""
        key = frozenset(changed)
        if key not in self.seen:
            self.judge.expected = len(self.judge.steps) + 2
            values = {name: both[name in key] for name, both in self.flags.items()}
            known = {name: value for name, value in values.items() if value is not None}
            shown = {name: self.flags[name][1] for name in self.flags if name in key}
            name = flags_text(shown) or "flags of the good dump"
            self.seen[key] = self.judge.judged(name, "", known)
        return self.seen[key]

    def end(self, *, is_bad: bool) -> Step:
        """Return the step of all flags of one dump, without those that cannot be set."""
        while True:
            found = self.step(tuple(self.flags) if is_bad else ())
            name = refused_flag(found.reason, self.flags) if found.outcome == SKIPPED else None
            if name is None or len(self.unknown) >= _MOST_REFUSED:
                return found
            self.judge.steps.pop()  # the same end is compiled again without the flag
            self.seen.clear()
            self.unknown[name] = found.reason
            del self.flags[name]


def _flags_search(
    judge: StepJudge, differing: Mapping[str, tuple[str | None, str | None]]
) -> Bisection:
    """Return the search for the flags that differ between two dumps."""
    made = Bisection(subject="flags", rules=judge.rules)
    if not differing:
        return replace(made, problem="no flag differs between the two")
    steps = _FlagSteps(judge=judge, flags=dict(differing))
    good = steps.end(is_bad=False)
    bad = steps.end(is_bad=True) if good.outcome == GOOD else None
    problem = _ends(good, bad)
    if not problem and len(steps.flags) == 0:
        problem = "none of the flags that differ can be set"
    made = replace(made, steps=tuple(judge.steps), unknown=steps.unknown, problem=problem)
    if problem:
        return made
    cause = smallest_bad(tuple(steps.flags), lambda names: steps.step(names).outcome == BAD)
    return replace(
        made,
        steps=tuple(judge.steps),
        last_good=good,
        first_bad=steps.step(cause),
        flags={name: steps.flags[name] for name in cause},
    )


def _with_diff(
    found: Bisection, output: str | Path | None, pattern: NamePattern | None
) -> Bisected:
    """Return a search with the changes between its neighbours, whose dumps are kept."""
    one, other = found.last_good, found.first_bad
    if one is None or other is None or one.dump is None or other.dump is None:
        return Bisected(bisection=found)
    if output is not None:
        one = replace(one, dump=_copied(one.dump, Path(output) / "last_good"))
        other = replace(other, dump=_copied(other.dump, Path(output) / "first_bad"))
        found = replace(found, last_good=one, first_bad=other)
    assert one.dump is not None and other.dump is not None  # noqa: PT018 # copies of both
    return Bisected(bisection=found, diff=compare(one.dump, other.dump, pattern=pattern).diff)


def _copied(dump: str, home: Path) -> str:
    try:
        shutil.copytree(dump, home)
    except (OSError, shutil.Error) as error:
        raise OutputError(f"{home}: cannot be written: {error}") from error
    return str(home)
