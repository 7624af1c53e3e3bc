"""Modules of dumps compiled again: as they are, and with changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
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
    NOT_COMPILED,
    Compilation,
    Means,
    compiled,
    dumped_flags,
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
    from hlo_lens.questions.what_if.edits import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one compile, of one device in one run; None where not known.

    `host_bytes` are arguments, outputs, aliased and temporaries in host memory; `flops` those of
    products; `equal_share_flops` those of the whole program over the devices; `peak_source` the
    line of the instruction at the peak; `is_exact` where memory is XLA's buffer assignment.
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
    made, memory = Figures(), None
    with suppress(HloLensError):
        memory = memory_results(module)
    if memory is not None:
        statement, peak = memory.statement, memory.peak
        parts = ("argument", "output", "alias", "temp", "total")
        made = Figures(
            **{f"{part}_bytes": getattr(statement, f"{part}_bytes") for part in parts},
            peak_bytes=None if peak is None else peak.total_bytes,
            peak_source=None if peak is None else peak.instruction_origin.source,
            host_bytes=tuple(statement.host_bytes),
            is_exact=statement.source != "estimate",
        )
    if not module.has_hlo:
        return made
    known = collectives(module)
    groups = collectives_by(known.collectives, "axis").groups
    return replace(
        made,
        wire_bytes_per_device=known.wire_bytes_per_device,
        wire_by_axis={group.axis: group.wire_bytes_per_run for group in groups},
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

    `is_equal` is None if the dump has none of the figures `compared`; `reasons` are known causes of
    a difference: versions, options, constants.
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
        host = (f"host_{part}_bytes" for part in ("argument", "output", "alias", "temp"))
        pairs += zip(host, own.host_bytes, again.host_bytes, strict=False)
    known = [pair for pair in pairs if pair[1] is not None]
    made = tuple(Difference(figure=n, dump=a, recompiled=b) for n, a, b in known if a != b)
    reasons = reasons if made else ()
    return Reproduction(is_equal=not made, compared=len(known), differences=made, reasons=reasons)


RECOMPILED = "recompiled"
"""Basis of figures that XLA's compiler gave."""

_AUTOTUNE = "xla_gpu_autotune_level"


class Compiler:
    """Runs compiles and counts them for `progress`."""

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
        python = environment_python(versions, request["backend"]) if versions else self.means.python
        made = compiled(request, replace(self.means, python=python), self._show)
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
    that XLA refuses because it does not fit has all texts of its dump: its figures are known where
    they agree with the memory that XLA names.
    """
    request = request_of(program, target, flags=flags)
    made = pool.compiled(request, versions)
    if "autotune result cache hit" in made.error and _AUTOTUNE not in flags:
        return compiled_again(program, target, {**flags, _AUTOTUNE: "0"}, pool, versions)
    if made.error and made.step != "compile":
        return made
    module = optimized_module(made, program.module.name)
    meshes = set(named_meshes(program.module)) if request["older_text"] else set()
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A module compiled again without changes.

    `own` are figures of the dump, `figures` those of the compile, and `flags` those of the dump
    that are not the compiler's own. `refusal` states why it cannot be compiled.
    """

    dump: ModuleDump
    program: SourceProgram | None
    target: Target | None
    own: Figures
    flags: Mapping[str, str] = field(default_factory=dict)
    again: Compilation = NOT_COMPILED
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

    The first of the `targets` asked for counts where the dump names none.
    """
    program, backend, assumed = source_program(dump), backend_of_dump(dump), assumed_target(dump)
    own = figures(dump) if memory_results(dump) is not None or dump.has_hlo else Figures()
    target, refusal, note = None, "", ""
    named = parse_target(targets[0]) if targets else None
    unnamed = "the dump does not name its device"
    if program is None or program.obstacle:
        missing = f"no text from before optimizations; XLA writes it with {TEXT_FLAGS}"
        refusal = missing if program is None else program.obstacle
    elif program.target is not None:
        target = program.target
    elif named is not None and named.backend == (backend or named.backend):
        target, note = named, f"{unnamed}; compiled for {named.name} as asked"
    elif assumed is not None:
        known = f", only {target_text(dump)}" if backend == "gpu" else ""
        target, note = assumed, f"{unnamed}{known}; compiled for {assumed.name}"
    else:
        refusal = f"{unnamed} ({backend or 'backend and device'}): name one with --target"
    notes = (note,) if note else ()
    return Base(dump=dump, program=program, target=target, own=own, refusal=refusal, notes=notes)


def compiled_base(base: Base, pool: Compiler) -> Base:
    """Compile a module as it is, if it can be, with the flags that its dump has."""
    program, target, dump = base.program, base.target, base.dump
    if program is None or target is None or base.refusal:
        return base
    again = compiled_again(program, target, {}, pool)
    result = base.compared(again)
    flags = {} if again.module is None else dumped_flags(dump, again.module)
    if not flags or not (again.is_same_compiler(dump) or result.reproduction.is_equal is False):
        return result
    other = compiled_again(program, target, flags, pool)
    names = ", ".join(f"{name}={value}" for name, value in flags.items())
    notes = (*base.notes, f"with flags of the dump: {names}")
    made = replace(base, flags=flags, notes=notes)
    return result if other.error else made.compared(other)


EDITS = ("mesh", "donate", "undonate", "shard", "dtype", "constraint")
"""Kinds of changes of the program's text."""


def edited(
    module: HloModule, changes: Sequence[Change], meshes: Sequence[Mesh] = ()
) -> tuple[HloModule, tuple[Change, ...]]:
    """Return a program with changes, and the changes with what they mean for each value.

    `meshes` are those of a program whose text names none.

    Raises:
        UsageError: If a change is malformed.
    """
    parts: dict[tuple[str, str, str], Change] = {}
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
    whole = []
    for change in changes:
        if change.kind in EDITS:
            asked = change.kind, change.target
            own = tuple(one for one in parts.values() if (one.kind, one.request) == asked)
            applies = any(one.applies for one in own)
            refused = "; ".join(dict.fromkeys(one.why_not or "" for one in own if not one.applies))
            why_not = None if applies else refused or "nothing to change"
            change = replace(change, applies=applies, why_not=why_not, parts=own)
        whole.append(change)
    return module, tuple(whole)


def _steps(
    changes: Sequence[Change], meshes: Sequence[Mesh]
) -> Iterator[Callable[[TextEdits], list[Change] | None]]:
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


def _edit_mesh(edits: TextEdits, target: str, meshes: Sequence[Mesh]) -> list[Change]:
    make = partial(edit_mesh, edits, axis_sizes(target), meshes)
    return [part_of("mesh", target, target, make)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompiled:
    """One module compiled again, without and with changes.

    `again` is the compile with the changes and `predicted` has its figures, None where there are
    none or XLA refused; `alone` those of each change only, empty if not compiled alone.
    """

    known: Base
    changes: tuple[Change, ...]
    target: Target | None
    module: HloModule | None = None
    again: Compilation | None = None
    predicted: Figures | None = None
    alone: tuple[Figures | None, ...] = ()
    dump: str | None = None

    @property
    def name(self) -> str:
        return self.known.dump.title

    @property
    def base(self) -> Figures:
        """Figures of the program compiled again without changes, else those of the dump."""
        return self.known.figures or self.known.own

    @property
    def shown(self) -> Compilation:
        """The compile with the changes, else that without."""
        return self.again or self.known.again

    @property
    def refusal(self) -> str:
        """Why there are no figures: XLA's message, or a reason; empty where there are."""
        return self.known.refusal if self.again is None else self.again.refusal

    @property
    def memory_limit(self) -> int | None:
        """Memory of one device of the target."""
        return None if self.target is None else self.target.memory_bytes

    @property
    def fits(self) -> bool | None:
        """Whether the program fits in it; None if not known."""
        current = self.predicted or (self.known.figures if self.again is None else None)
        total, limit = None if current is None else current.total_bytes, self.memory_limit
        if self.shown.shortage:
            return False
        return None if total is None or limit is None else total <= limit

    @property
    def versions(self) -> str:
        """Versions of jax that are asked for; empty for those of the interpreter."""
        return next((one.target for one in self.changes if one.kind == "with"), "")

    @property
    def is_compiled(self) -> bool:
        """Whether there is something to compile: no changes, or one that applies."""
        return not self.changes or any(one.applies for one in self.changes)

    @property
    def is_answered(self) -> bool:
        """Whether the program was compiled as asked, or XLA says that it does not fit."""
        made = self.predicted if self.changes else self.known.figures
        return made is not None or bool(self.shown.shortage)


def variant_of(base: Base, changes: Sequence[Change]) -> Recompiled:
    """Return a module with changes; nothing is compiled.

    Raises:
        UsageError: If a change is malformed.
    """
    program, target = base.program, base.target
    if program is None or program.obstacle:
        refused = (replace(one, applies=False, why_not=base.refusal) for one in changes)
        return Recompiled(known=base, changes=tuple(refused), target=target)
    module, edits = edited(program.module, changes, base.dump.lowered_meshes)
    targets = [one.target for one in changes if one.kind == "target"]
    target = parse_target(targets[0]) if targets else target
    return Recompiled(known=base, changes=edits, target=target, module=module)


def changed_module(base: Base, variant: Recompiled, pool: Compiler) -> Recompiled:
    """Return a module compiled with changes; without any, the module as compiled again."""
    program, target, changes = base.program, variant.target, variant.changes
    again = predicted = None
    if (
        program is not None
        and variant.module is not None
        and target is not None
        and changes
        and variant.is_compiled
    ):
        # flags of the dump are those of its backend
        flags = dict(base.flags) if target.backend == program.backend else {}
        asked = (one.target.partition("=") for one in changes if one.kind == "flag")
        flags |= {name: value for name, _, value in asked}
        program = replace(program, module=variant.module)
        again = compiled_again(program, target, flags, pool, variant.versions)
        if again.module is not None and not again.error:
            predicted = figures(again.module)
    shown = again or base.again
    dump = None if shown.module is None else str(shown.dump)
    return replace(variant, known=base, again=again, predicted=predicted, dump=dump)
