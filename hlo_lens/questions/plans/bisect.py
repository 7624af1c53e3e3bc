"""Searches for the version or flags that made a program worse: steps, compiled and judged."""

from __future__ import annotations

import itertools
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

from hlo_lens.load.devices import CPU, parse_target
from hlo_lens.load.files import read_source
from hlo_lens.load.programs import modules_of
from hlo_lens.program.summary import assumed_target
from hlo_lens.questions.check import check
from hlo_lens.questions.check.page import amount_texts, check_object
from hlo_lens.questions.check.rules import short_rule
from hlo_lens.questions.plans.plans import (
    BAD,
    GOOD,
    SKIPPED,
    first_bad,
    smallest_bad,
)
from hlo_lens.questions.what_if.compiling import (
    OPTION_TEXTS,
    Means,
    options_of,
    source_program,
    toolchain_of,
)
from hlo_lens.questions.what_if.environments import (
    environment_python,
    named_versions,
    released_versions,
    scripted,
    version_key,
)
from hlo_lens.questions.what_if.recompiling import Compiler, compiled_again
from hlo_lens.render.result import Column, Records, Unit
from hlo_lens.render.table import Report, Section, table_of
from hlo_lens.render.to_json import envelope
from hlo_lens.text.errors import HloLensError, MissingDumpError, UsageError
from hlo_lens.text.names import NamePattern, shell_word
from hlo_lens.text.units import format_seconds, listed, plural
from hlo_lens.text.user_cache import COMPILES, cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.devices import Target
    from hlo_lens.load.programs import Program, Progress
    from hlo_lens.questions.check.judge import Judgement
    from hlo_lens.questions.what_if.compiling import Compilation, SourceProgram
    from hlo_lens.render.result import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a search."""

    name: Annotated[str, "version, or flags with their values"]
    outcome: Annotated[str, "good, bad or skipped"]
    seconds: Annotated[float, Unit.SECONDS, "time of the compile, now or when it was cached"] = 0.0
    reason: Annotated[str, "rule that failed, or why the step is skipped"] = ""
    judgement: Judgement | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    dump: str | None = None


@dataclass(frozen=True, kw_only=True)
class Bisection(Records[Step]):
    """Steps of a search, in the order of their compiles.

    `candidates` are skipped steps, any of which may be the first bad one; `flags` the smallest bad
    set, name to both values, None for the default; `unknown` flags cannot be set.
    """

    KIND: ClassVar[str] = "bisect"
    steps: tuple[Step, ...] = ()
    subject: str
    rules: tuple[str, ...]
    last_good: Step | None = None
    first_bad: Step | None = None
    candidates: tuple[str, ...] = ()
    flags: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def report(self) -> Report:
        """The output of ``hlo-lens bisect``."""
        return bisect_report(self)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that ``hlo-lens bisect -f json`` prints."""
        return dict(self.report.data)

    def __str__(self) -> str:
        return str(self.report)


Compile = Callable[[str, str, Mapping[str, str]], Step]
"""Compiles a step: its name, versions (empty for those of the interpreter), and flags."""


_Made: TypeAlias = "tuple[Compilation, str, dict[str, str]]"
"""A compile, why it has no figures (empty if it has), and the packages that compiled."""


def program_steps(program: SourceProgram, target: Target, pool: Compiler) -> Compile:
    """Return the function that compiles a program with some versions and flags."""

    def compiled(versions: str, flags: Mapping[str, str]) -> _Made:
        made = compiled_again(program, target, flags, pool, versions)
        return made, made.refusal, made.versions_for(target)

    return partial(_step, compiled)


def command_steps(command: Sequence[str], backend: str, minutes: float) -> Compile:
    """Return the function that runs a command with some versions."""
    numbers = itertools.count()

    @cache  # made for the first version that can be installed
    def home() -> Path:
        cache_folder(COMPILES).mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="bisect-", dir=cache_folder(COMPILES)))

    def run(versions: str, _: Mapping[str, str]) -> _Made:
        python = environment_python(versions, backend)
        folder = home() / f"{next(numbers)}"
        made = scripted(command, python=python, folder=folder, minutes=minutes)
        packages = (line.split(" ") for line in toolchain_of(python).splitlines())
        return made, made.error, {words[0]: words[-1] for words in packages if words[0] != "can"}

    return partial(_step, run)


def _step(
    make: Callable[[str, Mapping[str, str]], _Made],
    name: str,
    versions: str,
    flags: Mapping[str, str],
) -> Step:
    """Return a step that is not judged yet."""
    try:
        made, refusal, packages = make(versions, flags)
    except HloLensError as error:
        return Step(name=name, outcome=SKIPPED, reason=str(error))
    outcome, dump = (SKIPPED, None) if refusal else (GOOD, str(made.dump))
    return Step(
        name=name,
        outcome=outcome,
        reason=refusal,
        versions=packages,
        seconds=made.seconds,
        dump=dump,
    )


@dataclass(slots=True, kw_only=True)
class StepJudge:
    """Compiles steps and judges them against the good end; keeps all steps in their order."""

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
        base = self.baseline or dump
        try:
            made = check(dump, baseline=base, rules=self.rules, pattern=self.pattern).judgement
        except UsageError:
            raise
        except HloLensError as error:
            return replace(step, outcome=SKIPPED, reason=str(error))
        outcome, why = GOOD, []
        if made.is_failed:
            outcome, why = BAD, [one.reason for one in made.verdicts if one.is_failure]
        elif made.is_undecided:
            why = [one.reason for one in made.verdicts if one.is_undecided]
            outcome, why = SKIPPED, why or ["no rule is decided"]
        return replace(step, outcome=outcome, reason="; ".join(why), judgement=made)

    def ends(self, subject: str, good: Step, make_bad: Callable[[], Step]) -> Bisection:
        """Return a search that has only its ends, and why it cannot go on; no reason if it can."""
        problem, bad = "", make_bad() if good.outcome == GOOD else None
        if bad is None:
            problem = f"{good.name} is {good.outcome}, not good: {good.reason}"
        elif bad.outcome != BAD:
            why = bad.reason or "no rule failed"
            problem = f"{bad.name} is {bad.outcome}, not bad: {why}"
        return Bisection(
            subject=subject, rules=self.rules, steps=tuple(self.steps), problem=problem
        )


def _versions_search(judge: StepJudge, good: str, bad: str) -> Bisection:
    ends = named_versions("--good", good), named_versions("--bad", bad)
    differ = [name for name in ends[0] if ends[1].get(name) != ends[0][name]]
    if ends[0].keys() != ends[1].keys() or len(differ) != 1:
        raise UsageError(f"{good!r} and {bad!r}: one package has two versions, others are equal")
    first = judge.judged(good, good, {})
    search = judge.ends("version", first, lambda: judge.judged(bad, bad, {}))
    if search.problem:
        return search
    (package,) = differ
    low, high = (version_key(one[package]) for one in ends)
    keys = sorted((low, high))
    between = [o for o in released_versions(package) if keys[0] < version_key(o) < keys[1]]
    between = between if low < high else between[::-1]
    pattern = re.compile(rf"\b{package}==[\w.]+")
    names = [good, *(pattern.sub(f"{package}=={one}", good) for one in between), bad]
    judge.expected = 2 + max(len(between), 1).bit_length()
    steps = {0: first, len(names) - 1: judge.steps[-1]}

    def outcome_of(place: int) -> str:
        steps[place] = judge.judged(names[place], names[place], {})
        return steps[place].outcome

    one, other = first_bad(len(names), outcome_of)
    return replace(
        search,
        steps=tuple(judge.steps),
        last_good=steps[one],
        first_bad=steps[other],
        candidates=tuple(names[one + 1 : other]),
    )


_SHOWN = 3
_REFUSED = re.compile(r"(?i)\b(?:option|flag|field)s?\b[^\n]{0,80}")


def _flags_of(path: str, module: str | None) -> dict[str, str]:
    """Return the flags that a dump, or a file of ``debug_options``, prints once each.

    Raises:
        MissingDumpError: If a dump has none.
    """
    if Path(path).is_file() and "debug_options" in Path(path).name:
        return options_of(read_source(path).text)
    for one in modules_of(path, module=module):
        texts = [text for name in OPTION_TEXTS if (text := one.setting(name)) is not None]
        if texts:
            return {name: value for text in texts for name, value in options_of(text).items()}
    raise MissingDumpError(f"{path}: no debug_options; XLA writes it with --xla_dump_hlo_as_text")


@dataclass(slots=True, kw_only=True)
class _FlagSteps:
    """Compiles with some flags as in the bad dump, the others as in the good one."""

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
            words = [f"{k}={values[k] or 'default'}" for k in self.flags if k in key]
            name = listed(words, _SHOWN) or "flags of the good dump"
            given = {name: value for name, value in values.items() if value is not None}
            self.seen[key] = self.judge.judged(name, "", given)
        return self.seen[key]

    def end(self, *, is_bad: bool) -> Step:
        """Return the step of all flags of one dump, without those that cannot be set."""
        while True:
            step = self.step(tuple(self.flags) if is_bad else ())
            message = step.reason if step.outcome == SKIPPED else ""
            texts = " ".join(match[0] for match in _REFUSED.finditer(message))
            refused = [word for word in re.findall(r"\w+", texts) if word in self.flags]
            if not refused:
                return step
            self.judge.steps.pop()  # the same end is compiled again without the flag
            self.seen.clear()
            self.unknown[refused[0]] = step.reason
            del self.flags[refused[0]]


def _flags_search(
    judge: StepJudge, paths: tuple[str | Path, str | Path], module: str | None
) -> Bisection:
    first, last = (_flags_of(str(path), module) for path in paths)
    names = sorted({*first, *last})
    differing = {n: (first.get(n), last.get(n)) for n in names if first.get(n) != last.get(n)}
    if not differing:
        problem = "no flag differs between the two"
        return Bisection(subject="flags", rules=judge.rules, problem=problem)
    steps = _FlagSteps(judge=judge, flags=differing)
    good = steps.end(is_bad=False)
    search = judge.ends("flags", good, lambda: steps.end(is_bad=True))
    search = replace(search, unknown=steps.unknown)
    if not search.problem and not steps.flags:
        search = replace(search, problem="none of the flags that differ can be set")
    if search.problem:
        return search
    cause = smallest_bad(tuple(steps.flags), lambda names: steps.step(names).outcome == BAD)
    found, flags = steps.step(cause), {name: steps.flags[name] for name in cause}
    made = tuple(judge.steps)
    return replace(search, steps=made, last_good=good, first_bad=found, flags=flags)


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
    python: str = sys.executable,
    minutes: float = 30.0,
    progress: Progress | None = None,
) -> Bisection:
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
        python: Interpreter whose jax compiles where flags are searched.
        minutes: Longest time of one step.
        progress: Called with steps done and steps expected.

    Raises:
        UsageError: If the versions are not understood, or the program is missing.
        MissingPackageError: If an end cannot be installed, or no index has the versions between.
    """
    rules = (fail_on,) if isinstance(fail_on, str) else tuple(fail_on)
    if not rules:
        raise UsageError("name what makes a version bad: --fail-on 'memory.total_bytes>+1%'")
    for rule in rules:
        short_rule(rule)  # an error before the first compile
    if (flags is None) == (not good and not bad):
        raise UsageError("give --good and --bad, two versions, or --flags, two dumps")
    if command and (program is not None or flags is not None):
        raise UsageError("a command takes the place of PATH and works with --good and --bad")
    if command:
        backend = (parse_target(target) if target else CPU).backend
        compile_ = command_steps(command, backend, minutes)
        pattern = None if module is None else NamePattern(module)
    else:
        source = program if program is not None or flags is None else flags[0]
        compiled, named = _source(source, module, target)
        compile_ = program_steps(compiled, named, Compiler(Means(python=python, minutes=minutes)))
        pattern = NamePattern(f"^{re.escape(compiled.module.name)}$")
    judge = StepJudge(compile=compile_, rules=rules, pattern=pattern, progress=progress)
    if flags is not None:
        return _flags_search(judge, flags, module)
    return _versions_search(judge, good, bad)


def _source(
    program: Program | None, module: str | None, target: str
) -> tuple[SourceProgram, Target]:
    if program is None:
        raise UsageError("name a dump, or a command after --")
    whole = [one for one in modules_of(program, module=module) if one.has_program]
    if len(whole) != 1:
        names = listed([one.title for one in whole], 6) or "none with a text before optimizations"
        raise UsageError(f"a search is about one module; there is {names}; choose with --module")
    source = source_program(whole[0])
    assert source is not None  # it has a program
    if source.obstacle:
        raise UsageError(f"{whole[0].title} cannot be compiled again: {source.obstacle}")
    own = parse_target(target) if target else assumed_target(whole[0])
    if own is None:
        raise UsageError("the dump does not name its device: name one with --target")
    return source, own


_STEP_COLUMNS = (
    Column("step", Unit.NONE, "version, or flags with the value of the bad dump"),
    Column("outcome", Unit.NONE, "good, bad or skipped"),
    Column("good_end", Unit.NONE, "value of the rule's figure at the good end"),
    Column("value", Unit.NONE, "its value in this step"),
    Column("seconds", Unit.SECONDS, "time of the compile"),
    Column("reason", Unit.NONE, "rule that failed, or why the step is skipped"),
)
_FLAG_COLUMNS = (
    Column("flag", Unit.NONE, "name of the flag"),
    Column("good", Unit.NONE, "value in the good dump; empty for the default"),
    Column("bad", Unit.NONE, "value in the bad dump"),
    Column("why_not", Unit.NONE, "why it cannot be set; empty for the cause"),
)


def bisect_report(search: Bisection) -> Report:
    """Return the report on a search."""
    answer = "no answer"
    if search.first_bad is not None:
        answer = f"first bad {search.first_bad.name}"
        if search.subject == "flags":
            answer = f"{plural(len(search.flags), 'flag')} of those that differ"
    steps = [_step_row(step) for step in search.steps]
    tables = [table_of("steps", "Steps, in the order of their compiles", _STEP_COLUMNS, steps)]
    if search.flags or search.unknown:
        flags: list[Row] = [(name, good, bad, "") for name, (good, bad) in search.flags.items()]
        flags += [(name, None, None, why) for name, why in search.unknown.items()]
        title = "Flags: the cause, and those not tried"
        shown = ("flag", "good", "bad", *(("why_not",) if search.unknown else ()))
        tables.append(table_of("flags", title, _FLAG_COLUMNS, flags, shown=shown))
    section = Section(
        title=f"hlo-lens bisect: {answer}",
        facts=tuple(_search_facts(search)),
        tables=tuple(tables),
    )
    return Report(
        kind="bisect",
        sections=(section,),
        data=_search_object(search),
    )


def _search_facts(search: Bisection) -> Iterator[tuple[str, str]]:
    good, bad = search.last_good, search.first_bad
    if search.problem:
        yield "no answer", search.problem
    if search.subject == "flags" and bad is not None:
        yield "cause", bad.name
    elif good is not None and bad is not None:
        yield "first bad", f"{bad.name}: {bad.reason}"
        yield "last good", good.name
    if search.candidates:
        names = listed(list(search.candidates), 8)
        yield "not known", f"{names} between them could not be judged; any may be the first bad one"
    yield "rules", ", ".join(search.rules)
    skipped = sum(step.outcome == SKIPPED for step in search.steps)
    seconds = format_seconds(sum(step.seconds for step in search.steps))
    yield "compiled", f"{plural(len(search.steps), 'step')}, {skipped} skipped, {seconds}"
    if good is not None and bad is not None and good.dump and bad.dump:
        yield "next", f"hlo-lens diff {shell_word(good.dump)} {shell_word(bad.dump)}"


def _step_row(step: Step) -> Row:
    good, value = "", ""
    if step.judgement is not None and step.judgement.verdicts:
        verdicts = step.judgement.verdicts
        worst = next((one for one in verdicts if one.is_failure), verdicts[0])
        good, value = amount_texts(worst)
    reason = "" if step.outcome == BAD and step.reason == value else step.reason
    return step.name, step.outcome, good, value, step.seconds, reason


def _search_object(search: Bisection) -> dict[str, object]:
    good, bad = search.last_good, search.first_bad
    return envelope(
        "bisect",
        subject=search.subject,
        rules=list(search.rules),
        first_bad=None if bad is None else bad.name,
        last_good=None if good is None else good.name,
        candidates=list(search.candidates),
        flags=[{"name": name, "good": a, "bad": b} for name, (a, b) in search.flags.items()],
        flags_not_tried=[{"name": n, "why_not": why} for n, why in search.unknown.items()],
        steps=[
            {
                "name": step.name,
                "outcome": step.outcome,
                "reason": step.reason or None,
                "rules": [] if step.judgement is None else check_object(step.judgement)["rules"],
                "versions": dict(step.versions),
                "seconds": step.seconds,
                "dump": step.dump,
            }
            for step in search.steps
        ],
        problem=search.problem or None,
        dumps={
            "last_good": None if good is None else good.dump,
            "first_bad": None if bad is None else bad.dump,
        },
    )
