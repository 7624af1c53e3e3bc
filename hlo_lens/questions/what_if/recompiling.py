"""Programs of dumps compiled again: target and compiler, figures before and after changes."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.load import STDIN, read_source
from hlo_lens.load.devices import Target, parse_target
from hlo_lens.load.module import ModuleDump
from hlo_lens.program.flops import flops
from hlo_lens.program.summary import backend_of_dump
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.loop_levels import collectives_by
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.what_if.process.environments import environment_python
from hlo_lens.questions.what_if.process.process import (
    Again,
    Compilation,
    Limits,
    compiled,
    dumped_flags,
    new_module,
    reasons,
)
from hlo_lens.questions.what_if.process.requests import SourceProgram, request_of, source_program
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.dump_kinds import TEXT_FLAGS
from hlo_lens.text.errors import HloLensError, OutputError, UnreadableError
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.what_if.process.requests import CompileRequest


RECOMPILED = "recompiled"
"""Basis of figures that XLA's compiler gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one compile, of one device; None where not known.

    Attributes:
        argument_bytes: As in the memory statement, like the next five.
        wire_bytes_per_device: Bytes that leave each device in one run, at most.
        host_bytes: Arguments, outputs, aliased and temporaries in host memory.
        flops: Arithmetic of matrix products and convolutions in one run.
        wire_by_axis: Bytes that leave each device in one run, by mesh axes.
        peak_source: Source line of the instruction at the peak.
        is_exact: Whether the memory is XLA's buffer assignment and exact.
    """

    argument_bytes: int | None = None
    output_bytes: int | None = None
    alias_bytes: int | None = None
    temp_bytes: int | None = None
    total_bytes: int | None = None
    peak_bytes: int | None = None
    wire_bytes_per_device: int | None = None
    host_bytes: tuple[int, ...] = ()
    flops: int | None = None
    wire_by_axis: Mapping[str, int | None] = field(default_factory=dict)
    peak_source: str | None = None
    is_exact: bool = False

    def to_dict(self) -> dict[str, int | None]:
        """Return the figures that JSON has."""
        return {name: getattr(self, name) for name in FIGURES}


FIGURES = tuple(one.name for one in fields(Figures))[:7]
"""Names of the figures that are compared."""


def figures(known: ModuleDump) -> Figures:
    """Return the figures of a compiled module; all None for one whose texts cannot be read."""
    try:
        memory = memory_results(known)
    except HloLensError:
        memory = None
    found: dict[str, object] = {}
    if memory is not None:
        statement, peak = memory.statement, memory.peak
        found = {name: getattr(statement, name) for name in FIGURES[:5]}
        found["host_bytes"] = statement.host_bytes
        found["is_exact"] = statement.source != "estimate"
        if peak is not None:
            found["peak_bytes"] = peak.total_bytes
            found["peak_source"] = peak.instruction_origin.source
    if known.has_hlo:
        found["wire_bytes_per_device"] = collectives(known).wire_bytes_per_device
        found["flops"] = flops(known).total
        groups = collectives_by(collectives(known).collectives, "axis").groups
        found["wire_by_axis"] = {one.axis: one.wire_bytes_per_run for one in groups}
    return Figures(**found)  # type: ignore[arg-type] # the names are those of its fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A figure that is not reproduced; its fields are columns of `Reproduction`."""

    figure: Annotated[str, "name of the figure"]
    dump: Annotated[int | None, Unit.BYTES, "in the dump"]
    recompiled: Annotated[int | None, Unit.BYTES, "compiled again"]


@dataclass(frozen=True, kw_only=True)
class Reproduction(Records[Difference]):
    """Figures of a dump that its program, compiled again, does not have.

    Attributes:
        is_equal: Whether all figures are equal; None if the dump has none to compare with.
        compared: Number of figures compared.
        differences: The others.
        reasons: Known reasons of a difference: versions, options, constants.
    """

    KIND: ClassVar[str] = "reproduction"
    differences: tuple[Difference, ...] = ()
    is_equal: bool | None
    compared: int = 0
    reasons: tuple[str, ...] = ()


def reproduction(own: Figures, again: Figures, reasons: tuple[str, ...] = ()) -> Reproduction:
    """Compare the figures of a dump with those of its program compiled again.

    Memory that is an estimate is not compared.
    """
    names = FIGURES if own.is_exact and again.is_exact else FIGURES[6:]
    pairs = [(name, getattr(own, name), getattr(again, name)) for name in names]
    if own.is_exact and again.is_exact:
        words = ("host_argument", "host_output", "host_alias", "host_temp")
        pairs += [
            (f"{word}_bytes", a, b)
            for word, a, b in zip(words, own.host_bytes, again.host_bytes, strict=False)
        ]
    known = [pair for pair in pairs if pair[1] is not None]
    found = tuple(Difference(figure=n, dump=a, recompiled=b) for n, a, b in known if a != b)
    if not own.is_exact:
        return Reproduction(is_equal=None)
    return Reproduction(
        is_equal=not found,
        compared=len(known),
        differences=found,
        reasons=reasons if found else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPart:
    """What a change means for one value of the program, or for the whole.

    Attributes:
        kind: As in `Change`.
        target: Name of the value, or the value of the option.
        applies: Whether it is made.
        why_not: Why it cannot be; None if it can.
        note: What it does where it applies.
    """

    kind: str
    target: str
    applies: bool
    why_not: str | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that is asked for.

    Attributes:
        kind: ``target``, ``flag``, ``with``, ``donate``, ``shard``, ...
        target: The option's value.
        applies: Whether it can be made, in part at least.
        why_not: Why it cannot; None if it can.
        parts: Values that it changes, and those that it cannot; empty for changes of the whole.
        alone: Figures with this change only; None if not compiled alone.
    """

    kind: str
    target: str
    applies: bool = True
    why_not: str | None = None
    parts: tuple[ChangedPart, ...] = ()
    alone: Figures | None = None

    @property
    def all_parts(self) -> tuple[ChangedPart, ...]:
        """Its parts; of a change of the whole, one."""
        return self.parts or (
            ChangedPart(
                kind=self.kind,
                target=self.target,
                applies=self.applies,
                why_not=self.why_not,
                note="",
            ),
        )


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


_GPU_STAGE = re.compile(r"(?P<target>sm_[\d.]+|gfx[0-9a-f]+)[a-z]?_gpu_")
_CHANGE_LIST = re.compile(r"\.cl_(\d+)\.")
_TPU_VERSION = re.compile(r'version: (\w+)(?:\s+variant: "(\w+)")?')
_BOUNDS = re.compile(r"(?:chips_per_host|host)_bounds \{([^{}]*)\}")
_HOSTS = re.compile(r"chips_per_host_bounds \{")
_SLICE = re.compile(r"\bslice_info \{")
_WRAP = re.compile(r"\bwrap \{([^{}]*)\}")
_WRAPPED = re.compile(r"([xyz]): true")
_BOUND = re.compile(r"([xyz]): (\d+)")
_TARGET_FILES = "*target_arguments.txt*"


def toolchain_of(dump: ModuleDump) -> str | None:
    """Return the compiler: libtpu writes its change list into file names; None for others."""
    match = next((m for file in dump.files if (m := _CHANGE_LIST.search(Path(file).name))), None)
    return None if match is None else f"libtpu cl {match[1]}"


def target_of(dump: ModuleDump) -> str | None:
    """Return a GPU's architecture from the stage's name, a TPU's topology from its file.

    The letter of an architecture is left out: XLA writes sm_9.0 or sm_9.0a for one GPU.
    """
    match = _GPU_STAGE.match(dump.stage or "")
    if match is not None:
        return match["target"]
    text = dump.setting("target_arguments.txt")
    if text is not None:
        return _tpu_target(text)
    first = next(iter(dump.files), STDIN)
    if first == STDIN or _CHANGE_LIST.search(Path(first).name) is None:
        return None
    number = Path(first).name.partition(".cl_")[0]
    for file in sorted(Path(first).parent.glob(_TARGET_FILES)):
        if file.name.partition(".cl_")[0] == number:
            try:
                return _tpu_target(read_source(str(file)).text)
            except UnreadableError:
                return None
    return None


def _tpu_target(text: str) -> str | None:
    """Return version, slices, chips and wrap of a TPU as libtpu prints them; None without version.

    A program of several slices has one topology for each in `slice_info`, and that of its own slice
    again after them. An axis that wraps has links from its last chip to the first.
    """
    version = _TPU_VERSION.search(text)
    if version is None:
        return None
    parts = _SLICE.split(text)
    own = parts if len(parts) == 1 else [_first_topology(part) for part in parts[1:]]
    slices = Counter(map(_chips, own))
    words = [word for word in version.groups() if word]
    listed = (
        f"{plural(count, 'slice')} of {chips}" if len(own) > 1 else chips
        for chips, count in slices.items()
    )
    return f"{' '.join(words)} {' and '.join(listed)}"


def _first_topology(text: str) -> str:
    """Return a text up to the second bounds of one kind, which are those of another topology."""
    second = [match.start() for match in _HOSTS.finditer(text)][1:2]
    return text[: second[0]] if second else text


def _chips(text: str) -> str:
    """Return the chips of the one topology in a text, and the axes that wrap."""
    sizes = [1, 1, 1]
    for inside in _BOUNDS.findall(text):
        found = dict(_BOUND.findall(inside))
        sizes = [size * int(found.get(axis, 1)) for size, axis in zip(sizes, "xyz", strict=True)]
    wrap = _WRAP.search(text)
    axes = "".join(_WRAPPED.findall(wrap[1])) if wrap else ""
    return f"{'x'.join(map(str, sizes))} chips{f', wrap {axes}' if axes else ''}"


def refuse_full(output: str | Path | None) -> None:
    """Raise OutputError if there is a folder that is not empty, or something else of its name."""
    if output is None:
        return
    folder = Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(f"{folder}: exists and is not an empty folder")


def kept_dumps(found: tuple[Recompiled, ...], folder: Path) -> tuple[Recompiled, ...]:
    """Copy the new dumps into a folder, each into its own if there are several."""
    rows = []
    for place, one in enumerate(found):
        if one.dump is None:
            rows.append(one)
            continue
        home = folder if len(found) == 1 else folder / _label(place, one)
        try:
            shutil.copytree(one.dump, home, dirs_exist_ok=True)
        except (OSError, shutil.Error) as error:
            raise OutputError(f"{home}: cannot be written: {error}") from error
        rows.append(replace(one, dump=str(home)))
    return tuple(rows)


def _label(place: int, one: Recompiled) -> str:
    words = [one.name, *(change.target for change in one.changes)]
    plain = "_".join("".join(c if c.isalnum() or c in ".-" else "-" for c in w) for w in words)
    return f"{place:02}_{plain[:80]}"


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
