"""Kinds of text in a dump, the flags that write missing ones, and reasons for an empty folder.

Computed from file names and kinds of content; at most one module is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from hlo_lens.load.module import REFUSED, Dump, ModuleDump, SkippedFiles
from hlo_lens.questions.dumps.xla_flags import ERROR, FINE, NOTE, WARNING, Finding
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.dump_kinds import AFTER, AS_TEXT, BEFORE, BUFFER_ROWS, DumpKind, title_of


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOfText:
    """A kind of text that XLA can write for a module; fields are the columns of `DumpHealth`."""

    text: Annotated[str, "kind of text"]
    modules: Annotated[int, Unit.COUNT, "modules that have it"]
    of: Annotated[int, Unit.COUNT, "modules in all"]
    used_for: Annotated[str, "what hlo-lens shows of it"]
    flag: Annotated[str, "the flag that writes it"]


@dataclass(frozen=True, kw_only=True)
class DumpHealth(Records[KindOfText]):
    """Kinds of text that a dump has, and findings on it.

    Attributes:
        kinds: Kinds of text.
        findings: Statements for the user, the worst first.
    """

    KIND: ClassVar[str] = "texts"
    kinds: tuple[KindOfText, ...]
    findings: tuple[Finding, ...]


def _has_stage(ending: str, module: ModuleDump) -> bool:
    return any(stage.is_hlo and stage.name.endswith(ending) for stage in module.stages)


def _has_part(part: str, module: ModuleDump) -> bool:
    files = (file for stage in module.stages for file in stage.files)
    return part in module.parts or any(f"-{part}." in file for file in files)


def _live_range(modules: Sequence[ModuleDump]) -> Callable[[ModuleDump], bool]:
    """Return the test for live ranges, which until April 2026 were part of buffer-assignment.

    One module is read for all, since all are of one version.
    """
    own, assigned = partial(_has_part, "live-range"), partial(_has_part, "buffer-assignment")
    first = next((m for m in modules if assigned(m) and not own(m)), None)
    is_inside = first is not None and first.live_range is not None

    def has(module: ModuleDump) -> bool:
        return own(module) or (is_inside and assigned(module))

    return has


def _has_passes(module: ModuleDump) -> bool:
    return any(stage.pass_number is not None for stage in module.stages)


def _kinds(modules: Sequence[ModuleDump]) -> Iterator[KindOfText]:
    """Yield the kinds of text that XLA writes, with the number of modules that have each."""

    def kind(name: str, flag: str, used_for: str, has: Callable[[ModuleDump], bool]) -> KindOfText:
        count = sum(map(has, modules))
        return KindOfText(text=name, flag=flag, used_for=used_for, modules=count, of=len(modules))

    yield kind(BEFORE, AS_TEXT, "global shapes, shardings", partial(_has_stage, BEFORE))
    yield kind(AFTER, AS_TEXT, "the program that runs", partial(_has_stage, AFTER))
    for row in BUFFER_ROWS:
        part = row.part or ""
        has = _live_range(modules) if row.kind is DumpKind.LIVE_RANGE else partial(_has_part, part)
        if row.used_for:
            yield kind(part, row.flag, row.used_for, has)
    yield kind("texts of passes", "--xla_dump_hlo_pass_re=.*", "hlo-lens passes", _has_passes)


def dump_health(dump: Dump) -> DumpHealth:
    """Return the kinds of text in a dump, and findings on missing ones."""
    modules = [module for module in dump.modules if module.number is not None]
    kinds = tuple(_kinds(modules))
    findings = [
        *_module_findings(modules),
        *_folder_findings(modules),
        *_other_findings(dump, modules),
    ]
    if not findings:
        findings = [Finding(FINE, "every module has the texts that hlo-lens reads")]
    order = (ERROR, WARNING, NOTE, FINE)
    findings.sort(key=lambda finding: order.index(finding.level))
    return DumpHealth(kinds=kinds if modules else (), findings=tuple(findings))


def _other_findings(dump: Dump, modules: Sequence[ModuleDump]) -> Iterator[Finding]:
    if not modules:
        what = "no file has a name of XLA's: other texts of the same module cannot be found"
        yield Finding(NOTE, what, f"a folder written with {AS_TEXT} has more")
    for aside in dump.skipped:
        if aside.kind == REFUSED:
            what = f"{aside.count} archives inside cannot be read, such as {aside.example}"
            yield Finding(WARNING, what, f"hlo-lens ls {aside.example} prints the reason")


def _module_findings(modules: Sequence[ModuleDump]) -> Iterator[Finding]:
    whole = [m for m in modules if any(s.pass_number is None for s in m.stages)]
    early = [m for m in whole if not _has_stage(AFTER, m)]
    if early:
        share = f"{len(early)} of {len(whole)}"
        what = (
            f"{share} modules have no final text, such as {early[0].name}: the compile failed, was "
            "killed or still runs, or XLA found a compiled one in its cache"
        )
        yield Finding(WARNING, what, "see the end of the program's log: hlo-lens report LOG")
    done = [m for m in whole if m not in early]
    bare = [m for m in done if not _has_part("buffer-assignment", m)]
    if bare:
        share = f"{len(bare)} of {len(done)}"
        what = f"{share} modules have no buffer assignment, such as {bare[0].name}"
        yield Finding(WARNING, what, "memory of these is an estimate; keep all files of the dump")
    late = [m for m in done if m.before_text is None and not _has_stage(BEFORE, m)]
    if late:
        what = f"{len(late)} of {len(done)} modules have no text from before optimizations"
        yield Finding(NOTE, what, "global shapes and mesh names may be missing; keep all files")
    out = [m for m in whole if any("oom_intermediate" in s.name for s in m.stages)]
    if out:
        what = f"{out[0].name} ran out of memory when it was compiled"
        yield Finding(WARNING, what, "hlo-lens memory shows what it asked for")


def _folder_findings(modules: Sequence[ModuleDump]) -> Iterator[Finding]:
    """Yield findings on a folder that several processes wrote into."""
    names: dict[tuple[str, int], set[str]] = {}
    for module in modules:
        names.setdefault((module.folder, module.number or 0), set()).add(title_of(module.name))
    shared = [(place, found) for place, found in names.items() if len(found) > 1]
    if shared:
        (folder, number), found = shared[0]
        what = (
            f"module number {number:04} has {len(found)} names ({', '.join(sorted(found)[:2])}) in "
            f"{folder or 'one folder'}: several processes wrote into it, or one ran twice; files "
            "of one name were overwritten"
        )
        remedy = "give each process a folder: --xla_dump_to=DIR/rank_$RANK, emptied before"
        yield Finding(WARNING, what, remedy)


def empty_findings(asides: Sequence[SkippedFiles], *, exists: bool) -> list[Finding]:
    """Return the reasons why a folder has no HLO text.

    Args:
        asides: Files that it holds instead.
        exists: Whether it exists.
    """
    kinds = {aside.kind: aside for aside in asides}
    found = []
    if not exists:
        found.append(Finding(ERROR, "it does not exist; XLA makes it at the first compile"))
    refused = kinds.get(REFUSED)
    if refused is not None:
        what = f"it holds {refused.count} archives that cannot be read"
        found.append(Finding(ERROR, what, f"hlo-lens ls {refused.example} prints the reason"))
    binary = kinds.get(DumpKind.BINARY.value)
    if binary is not None:
        what = f"it holds {binary.count} binary files: protos, without text?"
        found.append(Finding(ERROR, what, f"add {AS_TEXT}"))
    if DumpKind.MLIR.value in kinds:
        what = (
            "it holds MLIR and no HLO: no module matched --xla_dump_hlo_module_re, or the compile "
            "failed at once"
        )
        found.append(Finding(ERROR, what, "remove --xla_dump_hlo_module_re, see the log"))
    return [*found, *_REASONS]


_REASONS = (
    Finding(
        NOTE,
        "XLA reads XLA_FLAGS once, when the first backend starts",
        "set it before Python starts, or in os.environ before anything of jax runs",
    ),
    Finding(
        NOTE,
        "the variable may not reach the process: ssh, docker, sudo, Ray and Kubernetes drop it",
        "print os.environ['XLA_FLAGS'] in the program itself",
    ),
    Finding(
        NOTE,
        "the folder is on the machine that compiles, relative to where the program was started",
        "give an absolute path; with a TPU VM or a pod, look on that machine",
    ),
    Finding(
        NOTE,
        "nothing is compiled if JAX's compilation cache has the program",
        "JAX_ENABLE_COMPILATION_CACHE=false for this run",
    ),
    Finding(
        NOTE,
        "nothing is compiled before the first call of a jitted function",
        "jax.jit(f).lower(*args).compile() is enough; no step has to run",
    ),
)
