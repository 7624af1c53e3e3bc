"""Checks of XLA_FLAGS, as far as dumps are concerned.

XLA reads the variable in tsl/util/parse_flags_from_env.cc: flags are separated by white space, each
is ``--name=value`` or ``--name``; a text that does not begin with ``--`` is the name of a file with
flags. An unknown flag ends the process. The effects of the flags were tested with jaxlib 0.10.2;
their names are those of jaxlib 0.4.30 to 0.12.0 and libtpu 0.0.51.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.load import EmptyDumpError, load
from hlo_lens.load.environment import debug_options, installed_versions, jaxlib_flags
from hlo_lens.load.module import REFUSED, Dump, ModuleDump, SkippedFiles
from hlo_lens.render.envelope import envelope
from hlo_lens.render.result import Column, Records, Unit, rows_of
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.text.dump_kinds import AFTER, AS_TEXT, BEFORE, BUFFER_ROWS, DumpKind, title_of
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.units import format_bytes, plural
from hlo_lens.text.user_cache import cache_state
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.load.module import Dump


ERROR = "error"
WARNING = "warning"
NOTE = "note"
FINE = "fine"


@dataclass(frozen=True, slots=True)
class Finding:
    """A statement for the user, with its remedy.

    Attributes:
        level: ``error`` (no dump is written, or the program ends), ``warning``, ``note`` or
            ``fine``.
        what: The statement.
        remedy: What to do; empty if nothing has to be done.
    """

    level: str
    what: str
    remedy: str = ""


_error = partial(Finding, ERROR)
_warning = partial(Finding, WARNING)
_note = partial(Finding, NOTE)

_STRING_FLAGS = (
    "xla_dump_to",
    "xla_dump_hlo_module_re",
    "xla_dump_hlo_pass_re",
    "xla_dump_hlo_pipeline_re",
    "xla_dump_emitter_re",
)
_NUMBER_FLAGS = ("xla_dump_max_hlo_modules",)
_FORMATS = (
    *("xla_dump_hlo_as_proto", "xla_dump_hlo_as_dot", "xla_dump_hlo_as_html"),
    *("xla_dump_hlo_as_url", "xla_dump_hlo_as_riegeli", "xla_dump_hlo_snapshots"),
)
_BOOL_FLAGS = (
    *_FORMATS,
    *("xla_dump_hlo_as_text", "xla_dump_hlo_as_long_text", "xla_dump_buffer_assignment_analysis"),
    *("xla_dump_compact_gte", "xla_dump_compress_protos", "xla_dump_disable_metadata"),
    *("xla_dump_enable_mlir_pretty_form", "xla_dump_full_hlo_config"),
    *("xla_dump_fusion_visualization", "xla_dump_hlo_memory_schedule_info"),
    *("xla_dump_hlo_to_subfolder", "xla_dump_hlo_unoptimized_snapshots"),
    *("xla_dump_include_timestamp", "xla_dump_large_constants"),
    *("xla_dump_latency_hiding_schedule", "xla_dump_module_metadata"),
)
DUMP_FLAGS = (*_STRING_FLAGS, *_NUMBER_FLAGS, *_BOOL_FLAGS)
"""Flags of XLA on dumps, of all versions."""

_NOT_EVERYWHERE = {
    "xla_dump_compact_gte": "only jaxlib 0.12 and libtpu have it",
    "xla_dump_hlo_memory_schedule_info": "not all versions have it",
    "xla_dump_hlo_as_riegeli": "only jaxlib 0.12 and libtpu have it",
}
_TRUE = ("true", "1", "")
_FALSE = ("false", "0")


def check_flags(text: str | None) -> list[Finding]:
    """Return findings on the text of XLA_FLAGS, the worst first.

    Args:
        text: Its text; None if it is not set.
    """
    if text is None or not text.strip():
        return [
            _note(
                "XLA_FLAGS is not set here: a program started from here writes no dump",
                'export XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text"',
            )
        ]
    text = text.strip()
    if not text.startswith("--"):
        return [_no_flags(text)]
    flags, findings = _split(text)
    for name, value in flags:
        findings.extend(_check_flag(name, value))
    findings.extend(_contradictions(dict(flags)))
    findings.extend(_repeated(flags))
    if not any(finding.level in (ERROR, WARNING) for finding in findings):
        target = dict(flags).get("xla_dump_to")
        if target:
            findings.append(Finding(FINE, f"XLA_FLAGS writes HLO text to {target}"))
    return sorted(findings, key=lambda f: (ERROR, WARNING, NOTE, FINE).index(f.level))


def other_flags(text: str | None) -> list[str]:
    """Return the names of the flags in a variable that are not about dumps.

    Flags of libtpu are left out, since `check_flags` reports them.
    """
    if text is None or not text.strip().startswith("--"):
        return []
    names = dict.fromkeys(name for name, _ in _split(text.strip())[0] if name not in DUMP_FLAGS)
    return [
        name for name in names if not any(f.what.startswith("--") for f in _check_flag(name, ""))
    ]


def unknown_flags(names: Sequence[str], known: Iterable[str], owner: str) -> list[Finding]:
    """Return findings on flags that a build of XLA does not have.

    Args:
        names: The flags, without hyphens.
        known: Flags that it has, for suggestions.
        owner: Name of the build, for the messages.
    """
    listed = sorted(known)
    found = []
    for name in names:
        near = difflib.get_close_matches(name, listed, n=1, cutoff=0.8)
        what = f"--{name} is not in {owner}: an unknown flag ends the process"
        found.append(_warning(what, f"did you mean --{near[0]}?" if near else "remove it"))
    return found


def unchecked_flags(names: Sequence[str]) -> list[Finding]:
    """Return the finding on flags that cannot be checked, since no jaxlib is installed."""
    listed = ", ".join(f"--{name}" for name in names)
    return [_note(f"not checked, since no jaxlib is here: {listed}")] if names else []


def check_variables(
    variables: Mapping[str, str], others: Sequence[Finding], *, is_jax_imported: bool
) -> list[Finding]:
    """Return findings on all variables of a process that matter for dumps.

    Args:
        variables: Texts by name.
        others: Findings on the flags in XLA_FLAGS that are not about dumps.
        is_jax_imported: Whether the process has imported jax already.
    """
    text = variables.get("XLA_FLAGS")
    found = [*others, *check_flags(text)]
    if any(finding.level == WARNING for finding in found):
        found = [finding for finding in found if finding.level != FINE]
    if "xla_dump_to" in variables.get("LIBTPU_INIT_ARGS", ""):
        what = "LIBTPU_INIT_ARGS has --xla_dump_to: libtpu alone then dumps"
        found.append(_note(what, "XLA_FLAGS reaches jaxlib and libtpu both"))
    if variables.get("JAX_COMPILATION_CACHE_DIR"):
        what = "JAX_COMPILATION_CACHE_DIR is set: programs in that cache are not compiled or dumped"
        found.append(_warning(what, "JAX_ENABLE_COMPILATION_CACHE=false for this run"))
    if is_jax_imported and text:
        what = "jax is imported in this process; XLA_FLAGS has no effect after its first use"
        found.append(_note(what))
    return found


def _no_flags(text: str) -> Finding:
    if text.startswith(("'", '"')):
        return _error(
            "XLA_FLAGS begins with a quote, which XLA reads as the name of a file",
            "let the shell remove the quotes: XLA_FLAGS='--a --b', not XLA_FLAGS=\"'--a --b'\"",
        )
    word = text.split()[0]
    if word.lstrip("-").startswith("xla_"):
        return _error(
            f"{word} does not begin with two hyphens; XLA reads it as the name of a file",
            f"write --{word.lstrip('-')}",
        )
    return _note(
        f"XLA_FLAGS names a file of flags, {word}, which was not checked",
        "set XLA_FLAGS to its content and run hlo-lens doctor to check it",
    )


def _split(text: str) -> tuple[list[tuple[str, str]], list[Finding]]:
    """Return the flags as name and value, and findings on words that are no flags."""
    try:
        words = shlex.split(text)
    except ValueError:
        return [], [_error("XLA_FLAGS has a quote without an end", "close it")]
    flags: list[tuple[str, str]] = []
    findings: list[Finding] = []
    for word in words:
        if not word.startswith("--"):
            before = f" after --{flags[-1][0]}" if flags else ""
            remedy = f"write --{flags[-1][0]}={word}" if flags and not flags[-1][1] else "remove it"
            if word.lstrip("-").startswith("xla_"):
                remedy = f"write --{word.lstrip('-')}"
            findings.append(_error(f"{word}{before} is no flag; XLA ends the process", remedy))
            continue
        name, _, value = word[2:].partition("=")
        flags.append((name, value))
    return flags, findings


def _check_flag(name: str, value: str) -> list[Finding]:
    """Return findings on one flag alone."""
    found: list[Finding] = []
    if name.startswith(("xla_tpu_", "xla_jf_", "xla_sc_")):
        remedy = f'export LIBTPU_INIT_ARGS="--{name}={value}"'
        found.append(_error(f"--{name} is a flag of libtpu, unknown to jaxlib", remedy))
    elif "dump" in name and name not in DUMP_FLAGS and not name.startswith("xla_gpu_"):
        near = difflib.get_close_matches(name, DUMP_FLAGS, n=1)
        remedy = f"write --{near[0]}" if near else "remove it"
        what = f"--{name} is no flag of XLA; an unknown flag ends the process"
        found.append(_error(what, remedy))
    elif name not in DUMP_FLAGS:
        near = difflib.get_close_matches(name, DUMP_FLAGS, n=1, cutoff=0.9)
        if near:
            found.append(_error(f"--{name} is no flag of XLA", f"write --{near[0]}"))
    elif name in _BOOL_FLAGS and value.lower() not in (*_TRUE, *_FALSE):
        found.append(_error(f"--{name}={value}: neither true nor false", f"write --{name}=true"))
    elif name.endswith("_re"):
        found.extend(_check_pattern(name, value))
    if name in _NOT_EVERYWHERE and not found:
        found.append(_warning(f"--{name}: {_NOT_EVERYWHERE[name]}; others end the process"))
    if name == "xla_dump_to":
        found.extend(_check_target(value))
    return found


def _check_pattern(name: str, value: str) -> list[Finding]:
    try:
        re.compile(value)
    except re.error as error:
        what = f"--{name}={value} is no regular expression ({error}): XLA matches nothing"
        return [_error(what, f"write --{name}=.* for everything")]
    return []


def _check_target(value: str) -> list[Finding]:
    if not value:
        return [_error("--xla_dump_to without a folder", "write --xla_dump_to=DIR")]
    if value.startswith("~"):
        what = f"--xla_dump_to={value}: XLA does not expand ~ and makes a folder of that name"
        return [_error(what, 'write $HOME inside double quotes: "--xla_dump_to=$HOME/dump"')]
    if ",--" in value or ";" in value:
        what = f"--xla_dump_to={value}: what follows the comma became part of the folder's name"
        return [_error(what, "separate flags by blanks")]
    if value == "-":
        what = "--xla_dump_to=- prints the dump on standard output"
        return [_note(what, "hlo-lens reads such a log")]
    if not value.startswith("/"):
        return [_note(f"--xla_dump_to={value} is relative to where the program runs")]
    return []


def _is_true(flags: dict[str, str], name: str) -> bool:
    return name in flags and flags[name].lower() in _TRUE


def _contradictions(flags: dict[str, str]) -> list[Finding]:
    """Return findings on flags together; the last one of each name counts."""
    found: list[Finding] = []
    dumping = [name for name in flags if name in DUMP_FLAGS]
    if dumping and "xla_dump_to" not in flags:
        found.append(_without_target(flags, dumping[0]))
    if not dumping:
        remedy = "add --xla_dump_to=DIR --xla_dump_hlo_as_text"
        found.append(_note("no flag asks for a dump", remedy))
    others = [name for name in _FORMATS if _is_true(flags, name)]
    text = flags.get("xla_dump_hlo_as_text")
    if others and not _is_true(flags, "xla_dump_hlo_as_text"):
        what = f"--{others[0]} without --xla_dump_hlo_as_text: XLA then writes no text"
        found.append(_error(what, "add --xla_dump_hlo_as_text"))
    elif text is not None and text.lower() in _FALSE:
        found.append(_error("--xla_dump_hlo_as_text=false: no text is written", "remove it"))
    for name, what, remedy in _LOSSES:
        value = flags.get(name)
        if value is not None and (value.lower() in _FALSE) == (name in _LOSS_BY_FALSE):
            found.append(_warning(f"--{name}={value}: {what}", remedy))
    return found


def _without_target(flags: dict[str, str], name: str) -> Finding:
    if _is_true(flags, "xla_dump_hlo_as_text"):
        what = "--xla_dump_hlo_as_text without --xla_dump_to prints the dump on standard output"
        return _warning(what, "add --xla_dump_to=DIR")
    return _error(f"--{name} without --xla_dump_to writes nothing", "add --xla_dump_to=DIR")


_LOSS_BY_FALSE = ("xla_dump_buffer_assignment_analysis",)
_LOSSES = (
    (
        "xla_dump_buffer_assignment_analysis",
        "no live ranges are written, so the values alive at the peak are not known",
        "remove it",
    ),
    ("xla_dump_disable_metadata", "no source lines and no names of operations", "remove it"),
    (
        "xla_dump_hlo_module_re",
        "only modules whose name matches are written",
        "remove it if the module you look for is missing",
    ),
    (
        "xla_dump_max_hlo_modules",
        "XLA stops dumping after this number of modules, without a message",
        "remove it if the module you look for is missing",
    ),
)


def _repeated(flags: list[tuple[str, str]]) -> list[Finding]:
    values: dict[str, list[str]] = {}
    for name, value in flags:
        values.setdefault(name, []).append(value)
    return [
        _warning(f"--{name} occurs {len(some)} times; the last one counts: {some[-1]}")
        for name, some in values.items()
        if len(set(some)) > 1
    ]


def check_debug_options(text: str) -> list[Finding]:
    """Return findings on data lost by the flags that a dump was made with."""
    found = re.findall(r"^(xla_dump_\w+): (.*)$", text, re.MULTILINE)
    flags = " ".join(f"--{name}={value.strip().strip(chr(34))}" for name, value in found)
    losses = [f for f in check_flags(flags) if f.level == WARNING] if flags else []
    return [Finding(f.level, f"made with {f.what}", f.remedy) for f in losses]


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


_FLAGS = 'XLA_FLAGS="--xla_dump_to=/tmp/dump --xla_dump_hlo_as_text"'

RECIPES: tuple[tuple[str, str], ...] = (
    ("JAX, Flax, MaxText", f"{_FLAGS} python train.py"),
    ("PyTorch/XLA", f"{_FLAGS} python train.py"),
    ("TensorFlow", f'{_FLAGS} TF_XLA_FLAGS="--tf_xla_auto_jit=2" python train.py'),
    ("several processes", "--xla_dump_to=/tmp/dump/rank_$RANK: one folder for each"),
    ("every pass", "add --xla_dump_hlo_pass_re=.* for hlo-lens passes"),
    ("one function alone", "add --xla_dump_hlo_module_re=.*train_step.*"),
    (
        "no run at all",
        "jax.jit(f).lower(*args).compile() writes the dump; arguments may be abstract",
    ),
)
"""Purposes of a dump, with the command or flag for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """State of a machine and, if a path was given, of a dump.

    Attributes:
        versions: Name to version; None for packages that are not installed.
        variables: Findings on the environment variables.
        path: Path of the dump; None for the machine alone.
        dump: The dump; None where nothing in the path can be read.
        health: Texts that the dump has and lacks.
        findings: Other findings on the dump.
        cache: Place and content of the cache of compiles.
    """

    versions: Mapping[str, str | None]
    variables: Sequence[Finding]
    path: str | None = None
    dump: Dump | None = None
    health: DumpHealth | None = None
    findings: Sequence[Finding] = ()
    cache: str = ""


def doctor_page(examination: Examination) -> Report:
    """Return the report of an examination."""
    dump, health = examination.dump, examination.health
    findings = [*examination.findings, *(() if health is None else health.findings)]
    data = envelope(
        "doctor",
        versions=dict(examination.versions),
        cache=examination.cache,
        variables=[asdict(finding) for finding in examination.variables],
        recipes=[{"for": name, "how": how} for name, how in RECIPES],
        path=examination.path,
        files=None if dump is None else dump.files,
        modules=None if dump is None else len(dump.modules),
        skipped=[] if dump is None else [asdict(aside) for aside in dump.skipped],
        texts=None if health is None else health.to_dict()["rows"],
        findings=[asdict(finding) for finding in findings],
    )
    return Report(kind="doctor", sections=tuple(_sections(examination, findings)), data=data)


def _sections(examination: Examination, findings: Sequence[Finding]) -> Iterator[Section]:
    if examination.path is not None:
        yield _dump_section(examination, findings)
    versions = tuple((name, v or "not installed") for name, v in examination.versions.items())
    yield Section(
        title="this machine",
        facts=(*versions, ("cache", examination.cache), *_told(examination.variables)),
        tables=(_findings_table("variables", examination.variables),),
    )
    if examination.dump is None:
        yield Section(title="how to make a dump", facts=RECIPES)


def _told(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Yield the findings as lines, labelled by their level."""
    for finding in findings:
        yield finding.level, f"{finding.what}; {finding.remedy}" if finding.remedy else finding.what


def _dump_section(examination: Examination, findings: Sequence[Finding]) -> Section:
    dump, health = examination.dump, examination.health
    facts: tuple[tuple[str, str], ...] = (("modules", "none that can be read"),)
    tables: tuple[Table, ...] = ()
    if dump is not None and health is not None:
        asides = ", ".join(f"{aside.count} {aside.kind}" for aside in dump.skipped)
        facts = (("modules", str(len(dump.modules))), ("files", str(dump.files)))
        if asides:
            facts = (*facts, ("not read", asides))
        if health.kinds:
            shown = ("text", "modules", "of", "used_for", "flag")
            tables = (Table.of(health, title="Texts of the modules", shown=shown),)
    return Section(
        title=str(examination.path),
        facts=(*facts, *_told(findings)),
        tables=(*tables, _findings_table("findings", findings)),
    )


_COLUMNS = (
    Column("level", Unit.NONE, "error, warning, note or fine"),
    Column("what", Unit.NONE, "the finding"),
    Column("remedy", Unit.NONE, "recommended action"),
)


def _findings_table(name: str, findings: Sequence[Finding]) -> Table:
    rows = [*rows_of(findings, _COLUMNS)]
    return table_of(name, name.capitalize(), _COLUMNS, rows, is_data_only=True)


def examine(path: str | None) -> Examination:
    """Return the state of this machine and of a dump: file, folder or archive, or None."""
    versions, variables = installed_versions(__version__), _variables()
    machine = Examination(versions=versions, variables=variables, cache=_cache())
    if path is None:
        return machine
    options = check_debug_options(debug_options(path) or "")
    try:
        dump = load(path)
    except HloLensError as error:
        found = [*_reasons(path, error), *options]
        return replace(machine, path=path, findings=found)
    return replace(machine, path=path, dump=dump, health=dump_health(dump), findings=options)


def _cache() -> str:
    """Return the place and content of the cache of compiles."""
    state = cache_state()
    used = f"{format_bytes(state.compiles_bytes)} of at most {format_bytes(state.most_bytes)}"
    parts = [f"{plural(state.compiles, 'compile')}, {used}"]
    if state.environments:
        size = format_bytes(state.size_bytes - state.compiles_bytes)
        parts.append(f"environments {', '.join(state.environments)}, {size}")
    return f"{state.path}: {'; '.join(parts)}"


def _variables() -> list[Finding]:
    """Return findings on the environment variables of this process."""
    names = other_flags(os.environ.get("XLA_FLAGS"))
    flags = jaxlib_flags(names) if names else None
    if flags is None:
        others = unchecked_flags(names)
    else:
        others = unknown_flags(flags.missing, flags.known, f"jaxlib {flags.version}, as here")
    return check_variables(os.environ, others, is_jax_imported="jax" in sys.modules)


def _reasons(path: str, error: HloLensError) -> list[Finding]:
    """Return findings on a path in which nothing could be read."""
    exists = path == "-" or Path(path).exists()
    if exists and not isinstance(error, EmptyDumpError):
        return [Finding(ERROR, str(error).splitlines()[0])]
    asides = error.skipped if isinstance(error, EmptyDumpError) else ()
    return empty_findings(asides, exists=exists)
