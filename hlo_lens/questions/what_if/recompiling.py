"""Modules of dumps compiled again: as they are, and with changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.load.devices import Target, parse_target
from hlo_lens.program.flops import flops
from hlo_lens.program.summary import assumed_target, backend_of_dump, target_text
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.loop_levels import collectives_by
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.sharding.mesh_axes import named_meshes
from hlo_lens.questions.what_if.arguments import edit_donation, edit_dtype, renew_donation
from hlo_lens.questions.what_if.compiling import (
    Compilation,
    compiled,
    dumped_flags,
    foreign_calls,
    missing_package,
    needed_memory,
    optimized_module,
    request_of,
    source_program,
)
from hlo_lens.questions.what_if.edits import TextEdits, part_of
from hlo_lens.questions.what_if.environments import environment_python
from hlo_lens.questions.what_if.shardings import (
    axis_sizes,
    edit_constraint,
    edit_mesh,
    edit_sharding,
    resized_mesh,
)
from hlo_lens.questions.work.work import work
from hlo_lens.render.result import Records, Unit, columns_of
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.text.dump_kinds import TEXT_FLAGS
from hlo_lens.text.errors import HloLensError, MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.what_if.compiling import CompileRequest, SourceProgram
    from hlo_lens.questions.what_if.edits import Change, ChangedPart

# ---- figures ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one compile, of one device; None where not known.

    Attributes:
        host_bytes: Arguments, outputs, aliased and temporaries in host memory.
        flops: Arithmetic of matrix products and convolutions in one run.
        equal_share_flops: That of the whole program over the number of devices.
        wire_by_axis: Bytes that leave each device in one run, by mesh axes.
        peak_source: Source line of the instruction at the peak.
        is_exact: Whether the memory is XLA's buffer assignment and exact.
    """

    argument_bytes: Annotated[int | None, Unit.BYTES, "arguments"] = None
    output_bytes: Annotated[int | None, Unit.BYTES, "outputs"] = None
    alias_bytes: Annotated[int | None, Unit.BYTES, "of these aliased"] = None
    temp_bytes: Annotated[int | None, Unit.BYTES, "temporaries"] = None
    total_bytes: Annotated[int | None, Unit.BYTES, "must fit"] = None
    peak_bytes: Annotated[int | None, Unit.BYTES, "peak"] = None
    wire_bytes_per_device: Annotated[int | None, Unit.BYTES, "sent by each device"] = None
    host_bytes: tuple[int, ...] = ()
    flops: int | None = None
    equal_share_flops: int | None = None
    wire_by_axis: Mapping[str, int | None] = field(default_factory=dict)
    peak_source: str | None = None
    is_exact: bool = False

    def to_dict(self) -> dict[str, int | None]:
        """Return the figures that JSON has; the seconds of a step are not known."""
        host = dict(zip(("argument", "output", "alias", "temp"), self.host_bytes, strict=False))
        return {
            **{name: getattr(self, name) for name in FIGURES},
            **{f"host_{name}_bytes": host.get(name) for name in ("argument", "output", "temp")},
            "flops": self.flops,
            "equal_share_flops": self.equal_share_flops,
            "seconds": None,
        }


FIGURES = {column.name: column.meaning for column in columns_of(Figures)}
"""Names of the figures that are compared, with their labels."""


def figures(module: ModuleDump) -> Figures:
    """Return the figures of a compiled module; all None for one whose texts cannot be read."""
    made = Figures()
    try:
        memory = memory_results(module)
    except HloLensError:
        memory = None
    if memory is not None:
        statement, peak = memory.statement, memory.peak
        made = Figures(
            argument_bytes=statement.argument_bytes,
            output_bytes=statement.output_bytes,
            alias_bytes=statement.alias_bytes,
            temp_bytes=statement.temp_bytes,
            total_bytes=statement.total_bytes,
            peak_bytes=None if peak is None else peak.total_bytes,
            peak_source=None if peak is None else peak.instruction_origin.source,
            host_bytes=tuple(statement.host_bytes),
            is_exact=statement.source != "estimate",
        )
    if not module.has_hlo:
        return made
    known = collectives(module)
    return replace(
        made,
        wire_bytes_per_device=known.wire_bytes_per_device,
        wire_by_axis={
            group.axis: group.wire_bytes_per_run
            for group in collectives_by(known.collectives, "axis").groups
        },
        flops=flops(module).total,
        equal_share_flops=work(module).equal_share_flops,
    )


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
    is_equal: bool | None = None
    compared: int = 0
    reasons: tuple[str, ...] = ()


def reproduction(own: Figures, again: Figures, reasons: tuple[str, ...] = ()) -> Reproduction:
    """Compare the figures of a dump with those of its program compiled again.

    Memory that is an estimate is not compared.
    """
    if not own.is_exact:
        return Reproduction()
    names = list(FIGURES) if again.is_exact else ["wire_bytes_per_device"]
    pairs = [(name, getattr(own, name), getattr(again, name)) for name in names]
    if again.is_exact:
        host = [f"host_{part}_bytes" for part in ("argument", "output", "alias", "temp")]
        pairs += zip(host, own.host_bytes, again.host_bytes, strict=False)
    known = [pair for pair in pairs if pair[1] is not None]
    differences = tuple(Difference(figure=n, dump=a, recompiled=b) for n, a, b in known if a != b)
    return Reproduction(
        is_equal=not differences,
        compared=len(known),
        differences=differences,
        reasons=reasons if differences else (),
    )


# ---- compiles -----------------------------------------------------------------------------------


RECOMPILED = "recompiled"
"""Basis of figures that XLA's compiler gave."""

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
        is_full: Whether compiles go on to their end, and not only until memory and collectives are
            known.
    """

    python: str = sys.executable
    minutes: float = 30.0
    until: float | None = None
    is_full: bool = False

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
        self._show()

    def _show(self) -> None:
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._total))

    def require(self, target: Target | None) -> None:
        """Raise MissingPackageError if the interpreter lacks what a target needs."""
        missing = missing_package(self.means.python, "cpu" if target is None else target.backend)
        if missing:
            raise MissingPackageError(missing)

    def compiled(self, request: CompileRequest, versions: str = "") -> Compilation:
        """Return the outcome of a compile, by other versions of jax if some are named."""
        python = environment_python(versions, request.backend) if versions else self.means.python
        made = compiled(
            request,
            python=python,
            minutes=self.means.minutes_left,
            is_full=self.means.is_full,
            tick=self._show,
        )
        self._done += 1
        self._show()
        return made


def compiled_again(
    program: SourceProgram,
    target: Target,
    flags: Mapping[str, str],
    pool: Compiler,
    versions: str = "",
) -> Compilation:
    """Compile a program for a target, on the devices of its dump if that is its own target.

    Versions of the CUDA plugin that time kernels on the GPU compile without doing so. A program
    that XLA refuses because it does not fit has all texts of its dump, with the memory that XLA
    names: its figures are known.
    """
    request = request_of(program, target, flags=flags)
    made = pool.compiled(request, versions)
    if _NEEDS_GPU in made.error and _AUTOTUNE not in flags:
        return compiled_again(program, target, {**flags, _AUTOTUNE: "0"}, pool, versions)
    if made.error and made.step != "compile":
        return made
    module = optimized_module(made, program.module.name)
    meshes = set(named_meshes(program.module)) if request.older_text else set()
    if module is not None and len(meshes) == 1:  # older texts number the devices
        module = module.stating(mesh=meshes.pop())
    if not made.error:
        return replace(made, module=module)
    shortage, needed = needed_memory(made)
    made = replace(made, shortage=shortage, needed_bytes=needed)
    total = None if module is None or not needed else figures(module).total_bytes
    if not needed or total is None or abs(total - needed) > needed * _CODE_SHARE:
        return made
    return replace(made, module=module, step="", error="")


_CODE_SHARE = 0.005
"""Share of the bytes in a message of XLA that may be generated code, which is not in the texts."""


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
        if again.module is None or again.error:
            return replace(self, again=again, refusal=again.refusal)
        made = figures(again.module)
        differences = tuple(again.differences(self.dump, self.program))
        equal = reproduction(self.own, made, differences)
        return replace(self, again=again, figures=made, reproduction=equal)


def base_of(dump: ModuleDump, targets: Sequence[str] = ()) -> Base:
    """Return a module that is not compiled yet, with why it cannot be.

    Args:
        dump: The module.
        targets: Targets asked for; the first counts where the dump names none.
    """
    program, backend = source_program(dump), backend_of_dump(dump)
    own = figures(dump) if memory_results(dump) is not None or dump.has_hlo else Figures()
    base = Base(dump=dump, program=program, target=None, own=own)
    if program is None:
        text = f"no text from before optimizations; XLA writes it with {TEXT_FLAGS}"
        return replace(base, refusal=text)
    if program.obstacle:
        return replace(base, refusal=program.obstacle)
    if program.target is not None:
        return replace(base, target=program.target)
    named = parse_target(targets[0]) if targets else None
    if named is not None and named.backend == (backend or named.backend):
        note = f"the dump does not name its device; compiled for {named.name} as asked"
        return replace(base, target=named, notes=(note,))
    assumed = assumed_target(dump)
    if assumed is not None:
        known = f", only {target_text(dump)}" if backend == "gpu" else ""
        note = f"the dump does not name its device{known}; compiled for {assumed.name}"
        return replace(base, target=assumed, notes=(note,))
    what = backend or "backend and device"
    text = f"the dump does not name its device ({what}): name one with --target"
    return replace(base, refusal=text)


def compiled_base(base: Base, pool: Compiler) -> Base:
    """Compile a module as it is, if it can be, with the flags that its dump has."""
    program, target, dump = base.program, base.target, base.dump
    if program is None or target is None or base.refusal:
        return base
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


# ---- the text with changes ----------------------------------------------------------------------


EDITS = ("mesh", "donate", "undonate", "shard", "dtype", "constraint")
"""Kinds of changes of the program's text."""


def edited(
    module: HloModule, changes: Sequence[Change], meshes: Sequence[Mesh] = ()
) -> tuple[HloModule, tuple[Change, ...]]:
    """Return a program with changes, and the changes with what they mean for each value.

    Args:
        module: The program before optimizations.
        changes: All changes; those of other kinds are returned as they are.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If a change is malformed.
    """
    parts: dict[tuple[str, str, str], ChangedPart] = {}
    for step in _steps(changes, meshes):
        edits = TextEdits(module)
        made = step(edits)
        for part in made or ():
            key = part.kind, part.request, part.target
            if key not in parts or not parts[key].applies:
                parts[key] = part
        if made is None or any(part.applies for part in made):
            text = edits.text()
            if text != module.columns.source.text:
                module = parse_hlo(text)
    made_parts = tuple(parts.values())
    return module, tuple(
        _with_parts(one, made_parts) if one.kind in EDITS else one for one in changes
    )


def _steps(
    changes: Sequence[Change], meshes: Sequence[Mesh]
) -> Iterator[Callable[[TextEdits], list[ChangedPart] | None]]:
    """Yield the edits that changes need, in order; one that nobody asked for returns None."""
    asked = {kind: [one.target for one in changes if one.kind == kind] for kind in EDITS}
    for target in asked["mesh"]:
        yield partial(_edit_mesh, target=target, meshes=meshes)
        sizes = axis_sizes(target)
        meshes = (*([resized_mesh(one, sizes) for one in meshes] or [Mesh.of(sizes)]), *meshes)
    if asked["donate"] or asked["undonate"]:
        yield partial(edit_donation, donate=asked["donate"], undonate=asked["undonate"])
    if asked["shard"]:
        yield partial(edit_sharding, requests=asked["shard"], meshes=meshes)
        yield renew_donation
        if asked["donate"]:  # of an argument that now has the sharding of a result
            yield partial(edit_donation, donate=asked["donate"])
    if asked["dtype"]:
        yield partial(edit_dtype, requests=asked["dtype"])
    if asked["constraint"]:
        yield partial(edit_constraint, requests=asked["constraint"], meshes=meshes)


def _edit_mesh(edits: TextEdits, target: str, meshes: Sequence[Mesh]) -> list[ChangedPart]:
    make = partial(edit_mesh, edits, axis_sizes(target), meshes)
    return [part_of("mesh", target, target, make)]


def _with_parts(change: Change, parts: Sequence[ChangedPart]) -> Change:
    """Return a change with the values that it changes, and those that it cannot."""
    own = tuple(one for one in parts if (one.kind, one.request) == (change.kind, change.target))
    applies = any(one.applies for one in own)
    refused = "; ".join(dict.fromkeys(one.why_not or "" for one in own if not one.applies))
    why_not = None if applies else refused or "nothing to change"
    return replace(change, applies=applies, why_not=why_not, parts=own)


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
        alone: Figures with each of the changes only; empty if not compiled alone.
        own: Figures of the dump.
        base: Figures of the program compiled again without changes; those of the dump if that was
            not possible.
        predicted: Figures with the changes; None where there are none, or XLA refused.
        is_recompiled: Whether `base` is the program compiled again.
        stats: Byte figures of the executables of `base` and `predicted`, as jax names them; empty
            where a compile did not go on to its end.
        dump: Folder of the new dump; None if there is none.
        memory_limit: Memory of one device of the target; None if not known.
        memory_source: Source of that number.
        fits: Whether the program fits in it; None if not known.
        refusal: Why there are no figures: XLA's message, or a reason; empty where there are.
        shortage: Figures of XLA's out-of-memory message: label and text.
        needed_bytes: Bytes that the program needs by that message, rounded up; None without one.
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
    alone: tuple[Figures | None, ...] = ()
    is_recompiled: bool = False
    stats: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})
    dump: str | None = None
    memory_limit: int | None = None
    memory_source: str = ""
    fits: bool | None = None
    refusal: str = ""
    shortage: tuple[tuple[str, str], ...] = ()
    needed_bytes: int | None = None
    seconds: float = 0.0
    base_versions: Mapping[str, str] = field(default_factory=dict)
    base_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    module_option: str = ""

    @property
    def is_answered(self) -> bool:
        """Whether the program was compiled as asked, or XLA says that it does not fit."""
        is_made = self.predicted is not None if self.changes else self.is_recompiled
        return is_made or bool(self.shortage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A program with changes, to be compiled.

    Attributes:
        module: The program with the changes; None where nothing can be compiled.
        changes: The changes, with whether they apply.
        target: Target; None if it is not known.
        flags: Flags that are asked for.
        versions: Versions of jax that are asked for; empty for those of the interpreter.
    """

    module: HloModule | None
    changes: tuple[Change, ...]
    target: Target | None
    flags: Mapping[str, str] = field(default_factory=dict)
    versions: str = ""

    @property
    def is_compiled(self) -> bool:
        """Whether there is something to compile: no changes, or one that applies."""
        return not self.changes or any(one.applies for one in self.changes)


def variant_of(base: Base, changes: Sequence[Change]) -> Variant:
    """Return a module with changes; nothing is compiled.

    Raises:
        UsageError: If a change is malformed.
    """
    program, target = base.program, base.target
    if program is None or program.obstacle:
        refused = (replace(one, applies=False, why_not=base.refusal) for one in changes)
        return Variant(module=None, changes=tuple(refused), target=target)
    module, made = edited(program.module, changes, base.dump.lowered_meshes)
    made = tuple(_checked(module, one) for one in made)
    versions = next((one.target for one in made if one.kind == "with"), "")
    for one in made:
        if one.applies and one.kind == "target":
            target = parse_target(one.target)
    flags = [one.target.partition("=") for one in made if one.applies and one.kind == "flag"]
    return Variant(
        module=module,
        changes=made,
        target=target,
        flags={name: value for name, _, value in flags},
        versions=versions,
    )


def changed_module(base: Base, variant: Variant, pool: Compiler) -> Recompiled:
    """Return a module compiled with changes; without any, the module as compiled again."""
    program, target, module = base.program, variant.target, variant.module
    again = None
    if module is None or program is None:
        return _row(base, variant)
    if target is not None and variant.changes and variant.is_compiled:
        # flags of the dump are those of its backend
        flags = {**(base.flags if target.backend == program.backend else {}), **variant.flags}
        program = replace(program, module=module)
        again = compiled_again(program, target, flags, pool, variant.versions)
    return _row(base, variant, again)


def _checked(module: HloModule, change: Change) -> Change:
    """Return a change with the reason why a target cannot be compiled for, if there is one."""
    if change.kind != "target":
        return change
    foreign = foreign_calls(module, parse_target(change.target).backend)
    why = f"custom calls that only another backend knows: {', '.join(foreign[:4])}"
    return replace(change, applies=False, why_not=why) if foreign else change


def _row(base: Base, variant: Variant, again: Compilation | None = None) -> Recompiled:
    """Return the row of a module and its changes; `again` is the compile with them."""
    changes, target, shown = variant.changes, variant.target, again or base.again
    predicted = None
    if again is not None and again.module is not None and not again.error:
        predicted = figures(again.module)
    current = predicted or (base.figures if again is None else None)
    limit = None if target is None else target.memory_bytes
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
        is_recompiled=base.figures is not None,
        stats=(
            {} if base.again is None else base.again.memory_analysis,
            {} if again is None else again.memory_analysis,
        ),
        dump=None if shown is None or shown.module is None else str(shown.dump),
        memory_limit=limit,
        memory_source="" if target is None else target.memory_source,
        fits=False if shown is not None and shown.shortage else fits,
        refusal=base.refusal if again is None else again.refusal,
        shortage=() if shown is None else shown.shortage,
        needed_bytes=None if shown is None else shown.needed_bytes,
        seconds=0.0 if shown is None else shown.seconds,
        base_versions={} if base.again is None else base.again.versions_for(base.target),
        base_seconds=0.0 if base.again is None else base.again.seconds,
        notes=tuple(notes),
    )
