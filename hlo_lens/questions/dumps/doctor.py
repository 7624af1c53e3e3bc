"""Examination of this machine and of a dump: versions, missing texts, empty folders.

A dump is examined by file names and kinds of content; at most one module is read.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from hlo_lens.load import EmptyDumpError, load
from hlo_lens.load.module import REFUSED, Dump, ModuleDump
from hlo_lens.render.result import Unit, columns_of
from hlo_lens.render.table import Report, Section, table_of
from hlo_lens.render.to_json import envelope
from hlo_lens.text.dump_kinds import AFTER, AS_TEXT, BEFORE, BUFFER_ROWS, DumpKind
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.units import format_bytes, plural
from hlo_lens.text.user_cache import cache_state
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class Finding(NamedTuple):
    """A statement for the user, with what to do.

    Errors are findings without which no dump is written, or with which the program ends.
    """

    level: str
    what: str
    remedy: str = ""


_error, _warning, _note = (partial(Finding, level) for level in ("error", "warning", "note"))


# ---- flags --------------------------------------------------------------------------------------

_LOSSES = {
    r"buffer_assignment_analysis: false": (
        "no live ranges: the values alive at the peak are not known",
        "remove it",
    ),
    r"disable_metadata: true": ("no source lines and no names of operations", "remove it"),
    r"hlo_module_re: .*": ("only modules whose name matches are written", "remove it"),
    r"max_hlo_modules: .*": (
        "XLA stops dumping after this number of modules, without a message",
        "remove it",
    ),
}
"""Flags by which a dump lacks something, as its debug_options have them: what, and what to do."""


def check_debug_options(text: str) -> list[Finding]:
    """Return findings on data lost by the flags that a dump was made with."""
    return [
        _warning(f"made with --xla_dump_{flag.replace(': ', '=')}: {what}", remedy)
        for form, (what, remedy) in _LOSSES.items()
        for flag in re.findall(rf"^xla_dump_({form})$", text, re.MULTILINE)
    ]


def check_variables(variables: Mapping[str, str]) -> list[Finding]:
    """Return findings on the environment variables of a process that matter for dumps."""
    flags = variables.get("XLA_FLAGS", "")
    findings = [Finding("fine", f"XLA_FLAGS={flags}")]
    if "xla_dump_to" not in flags:
        what = "XLA_FLAGS asks for no dump here: a program started from here writes none"
        findings = [_note(what, 'export XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text"')]
    elif "xla_dump_hlo_as_text" not in flags and "xla_dump_hlo_as" in flags:
        findings = [_error(f"XLA_FLAGS={flags} writes no text", "add --xla_dump_hlo_as_text")]
    return findings


# ---- texts of a dump ----------------------------------------------------------------------------


class TextKind(NamedTuple):
    """A kind of text that XLA can write for a module."""

    text: Annotated[str, "kind of text"]
    modules: Annotated[int, Unit.COUNT, "modules that have it"]
    of: Annotated[int, Unit.COUNT, "modules in all"]
    used_for: Annotated[str, "what hlo-lens shows of it"]
    flag: Annotated[str, "the flag that writes it"]


def _text_kinds(modules: Sequence[ModuleDump]) -> list[TextKind]:
    # until April 2026 live ranges were part of buffer-assignment; one module is read for all
    assigned = [m for m in modules if _has_part("buffer-assignment", m)]
    joined = [m for m in assigned if not _has_part("live-range", m)]
    inside = len(joined) if joined and joined[0].live_range is not None else 0
    kinds = [
        (BEFORE, sum(_has_stage(BEFORE, m) for m in modules), "global shapes, shardings", AS_TEXT),
        (AFTER, sum(_has_stage(AFTER, m) for m in modules), "the program that runs", AS_TEXT),
    ]
    for row in BUFFER_ROWS:
        if row.used_for and row.part is not None:
            count = sum(_has_part(row.part, module) for module in modules)
            count += inside * (row.kind is DumpKind.LIVE_RANGE)
            kinds.append((row.part, count, row.used_for, row.flag))
    passes = sum(any(one.pass_number is not None for one in m.stages) for m in modules)
    kinds.append(("texts of passes", passes, "hlo-lens passes", "--xla_dump_hlo_pass_re=.*"))
    return [TextKind(name, count, len(modules), use, flag) for name, count, use, flag in kinds]


def _has_stage(ending: str, module: ModuleDump) -> bool:
    return any(stage.is_hlo and stage.name.endswith(ending) for stage in module.stages)


def _has_part(part: str, module: ModuleDump) -> bool:
    files = (file for stage in module.stages for file in stage.files)
    return part in module.parts or any(f"-{part}." in file for file in files)


def _dump_findings(dump: Dump, modules: Sequence[ModuleDump]) -> list[Finding]:
    whole = [m for m in modules if any(stage.pass_number is None for stage in m.stages)]
    done = [m for m in whole if _has_stage(AFTER, m)]
    early = [m for m in whole if m not in done]
    bare = [m for m in done if not _has_part("buffer-assignment", m)]
    late = [m for m in done if m.before_text is None and not _has_stage(BEFORE, m)]
    findings: list[Finding] = []
    if early:
        what = f"{len(early)} of {len(whole)} modules have no final text, such as {early[0].name}: "
        what += "the compile failed, still runs, or XLA found a compiled one in its cache"
        findings.append(_warning(what, "see the end of the program's log: hlo-lens report LOG"))
    if bare:
        what = f"{len(bare)} of {len(done)} modules have no buffer assignment, such as "
        remedy = "memory of these is an estimate; keep all files of the dump"
        findings.append(_warning(f"{what}{bare[0].name}", remedy))
    for skipped in dump.skipped:
        if skipped.kind == REFUSED:
            what = f"{skipped.count} archives inside cannot be read, such as {skipped.example}"
            findings.append(_warning(what, f"hlo-lens ls {skipped.example} prints the reason"))
    if late:
        what = f"{len(late)} of {len(done)} modules have no text from before optimizations"
        remedy = "global shapes and mesh names may be missing; keep all files"
        findings.append(_note(what, remedy))
    if not modules:
        what = "no file has a name of XLA's: other texts of the same module cannot be found"
        findings.append(_note(what, f"a folder written with {AS_TEXT} has more"))
    return findings or [Finding("fine", "every module has the texts that hlo-lens reads")]


def _reasons(path: str, error: HloLensError) -> list[Finding]:
    exists = path == "-" or Path(path).exists()
    if exists and not isinstance(error, EmptyDumpError):
        return [_error(str(error).splitlines()[0])]
    findings = [_error("it does not exist; XLA makes it at the first compile")] * (not exists)
    for aside in error.skipped if isinstance(error, EmptyDumpError) else ():
        if aside.kind == REFUSED:
            what = f"it holds {aside.count} archives that cannot be read"
            findings.append(_error(what, f"hlo-lens ls {aside.example} prints the reason"))
        elif aside.kind == DumpKind.BINARY.value:
            what = f"it holds {aside.count} binary files: protos, without text?"
            findings.append(_error(what, f"add {AS_TEXT}"))
        elif aside.kind == DumpKind.MLIR.value:
            what = "it holds MLIR and no HLO: no module matched, or the compile failed at once"
            findings.append(_error(what, "remove --xla_dump_hlo_module_re, see the log"))
    return [*findings, *_USUAL_REASONS]


_USUAL_REASONS = (
    _note("XLA reads XLA_FLAGS once, when the first backend starts", "set it before Python starts"),
    _note("ssh, docker, sudo, Ray and Kubernetes drop variables", "print os.environ['XLA_FLAGS']"),
    _note("the folder is on the machine that compiles", "give an absolute path, look there"),
    _note("JAX's cache has the program: nothing is compiled", "JAX_ENABLE_COMPILATION_CACHE=false"),
    _note("a jitted function compiles at its first call", "jax.jit(f).lower(*args).compile()"),
)


# ---- page ---------------------------------------------------------------------------------------

_FLAGS = 'XLA_FLAGS="--xla_dump_to=/tmp/dump --xla_dump_hlo_as_text"'
_RECIPES = {
    "JAX, Flax, MaxText, PyTorch/XLA": f"{_FLAGS} python train.py",
    "TensorFlow": f'{_FLAGS} TF_XLA_FLAGS="--tf_xla_auto_jit=2" python train.py',
    "several processes": "--xla_dump_to=/tmp/dump/rank_$RANK: one folder for each",
    "every pass": "add --xla_dump_hlo_pass_re=.* for hlo-lens passes",
    "no run at all": "jax.jit(f).lower(*args).compile(); arguments may be abstract",
}
"""Purposes of a dump, with the command or flag for each."""


def doctor_report(path: str | None) -> Report:
    """Return the report on this machine and a dump; `modules` is None where none can be read."""
    variables = check_variables(os.environ)
    versions, cache = _installed_versions(), _cache_text()
    dump: Dump | None = None
    texts: list[TextKind] = []
    findings: list[Finding] = []
    if path is not None:
        try:
            dump = load(path)
        except HloLensError as error:
            findings = _reasons(path, error)
        else:
            numbered = [module for module in dump.modules if module.number is not None]
            texts = _text_kinds(numbered) if numbered else []
            options = (one.setting("debug_options") for one in dump.modules)
            losses = check_debug_options(next(filter(None, options), ""))
            findings = [*losses, *_dump_findings(dump, numbered)]
    sections = []
    if path is not None:
        facts = [("modules", "none that can be read")]
        if dump is not None:
            facts = [("modules", str(len(dump.modules))), ("files", str(dump.files))]
            if dump.skipped:
                counts = ", ".join(f"{one.count} {one.kind}" for one in dump.skipped)
                facts.append(("not read", counts))
        table = table_of("texts", "Texts of the modules", columns_of(TextKind), texts)
        facts += _lines(findings)
        sections = [Section(title=path, facts=tuple(facts), tables=(table,) if texts else ())]
    shown = ((name, version or "not installed") for name, version in versions.items())
    machine = (*shown, ("cache", cache), *_lines(variables))
    sections.append(Section(title="this machine", facts=machine))
    if dump is None:
        sections.append(Section(title="how to make a dump", facts=tuple(_RECIPES.items())))
    data = envelope(
        "doctor",
        versions=dict(versions),
        cache=cache,
        variables=[finding._asdict() for finding in variables],
        recipes=[{"for": name, "how": how} for name, how in _RECIPES.items()],
        path=path,
        files=None if dump is None else dump.files,
        modules=None if dump is None else len(dump.modules),
        skipped=[] if dump is None else [asdict(skipped) for skipped in dump.skipped],
        texts=None if dump is None else [kind._asdict() for kind in texts],
        findings=[finding._asdict() for finding in findings],
    )
    return Report(kind="doctor", sections=tuple(sections), data=data)


_PACKAGES = (
    *("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin"),
    *("flax", "torch", "torch-xla", "tensorflow"),
)


def _installed_versions() -> dict[str, str | None]:
    system = f"{platform.system()} {platform.machine()}"
    versions: dict[str, str | None] = {"hlo-lens": __version__, "Python": platform.python_version()}
    versions |= {"system": system, "jax": None, "jaxlib": None}
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _cache_text() -> str:
    state, texts = cache_state(), []
    used = f"{format_bytes(state.compiles_bytes)} of at most {format_bytes(state.most_bytes)}"
    if state.environments:
        size = format_bytes(state.size_bytes - state.compiles_bytes)
        texts = [f"environments {', '.join(state.environments)}, {size}"]
    return f"{state.path}: {'; '.join([plural(state.compiles, 'compile') + ', ' + used, *texts])}"


def _lines(findings: Iterable[Finding]) -> Iterator[tuple[str, str]]:
    for level, what, remedy in findings:
        yield level, f"{what}; {remedy}" if remedy else what
