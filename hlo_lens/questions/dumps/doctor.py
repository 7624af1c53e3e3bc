"""Examination of this machine and of a dump: flags, versions, missing texts, empty folders.

XLA reads XLA_FLAGS in tsl/util/parse_flags_from_env.cc: flags are separated by white space, each is
``--name=value`` or ``--name``; a text that does not begin with ``--`` is the name of a file with
flags. An unknown flag ends the process. The effects of the flags were tested with jaxlib 0.10.2;
their names are those of jaxlib 0.4.30 to 0.12.0 and libtpu 0.0.51.

A dump is examined by file names and kinds of content; at most one module is read.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import os
import platform
import re
import shlex
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.load import EmptyDumpError, load
from hlo_lens.load.module import REFUSED, Dump, ModuleDump, SkippedFiles
from hlo_lens.render.result import Records, Unit, columns_of
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.render.to_json import envelope
from hlo_lens.text.dump_kinds import AFTER, AS_TEXT, BEFORE, BUFFER_ROWS, DumpKind, title_of
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.units import format_bytes, plural
from hlo_lens.text.user_cache import cache_state
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

ERROR = "error"
WARNING = "warning"
NOTE = "note"
FINE = "fine"


class Finding(NamedTuple):
    """A statement for the user, with its remedy.

    Errors are findings without which no dump is written, or with which the program ends.
    """

    level: Annotated[str, "error, warning, note or fine"]
    what: Annotated[str, "the finding"]
    remedy: Annotated[str, "recommended action"] = ""


_error, _warning, _note = (partial(Finding, level) for level in (ERROR, WARNING, NOTE))


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (ERROR, WARNING, NOTE, FINE).index(finding.level))


# ---- flags --------------------------------------------------------------------------------------

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
DUMP_FLAGS = (
    *("xla_dump_to", "xla_dump_hlo_module_re", "xla_dump_hlo_pass_re", "xla_dump_hlo_pipeline_re"),
    *("xla_dump_emitter_re", "xla_dump_max_hlo_modules"),
    *_BOOL_FLAGS,
)
"""Flags of XLA on dumps, of all versions."""

_LOSS_BY_FALSE = "xla_dump_buffer_assignment_analysis"
_IF_MISSING = "remove it if the module you look for is missing"
_LOSSES = {
    _LOSS_BY_FALSE: (
        "no live ranges are written, so the values alive at the peak are not known",
        "remove it",
    ),
    "xla_dump_disable_metadata": ("no source lines and no names of operations", "remove it"),
    "xla_dump_hlo_module_re": ("only modules whose name matches are written", _IF_MISSING),
    "xla_dump_max_hlo_modules": (
        "XLA stops dumping after this number of modules, without a message",
        _IF_MISSING,
    ),
}
"""Flags that cost data, the first one where it is false, with what is lost and what to do."""

_TRUE = ("true", "1", "")
_FALSE = ("false", "0")


def check_flags(text: str | None) -> list[Finding]:
    """Return findings on the text of XLA_FLAGS, the worst first.

    Args:
        text: Its text; None if it is not set.
    """
    text = (text or "").strip()
    if not text:
        return [
            _note(
                "XLA_FLAGS is not set here: a program started from here writes no dump",
                'export XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text"',
            )
        ]
    if not text.startswith("--"):
        return [_file_of_flags(text)]
    pairs, findings = _split(text)
    flags = dict(pairs)
    for name, value in pairs:
        findings += [*_name_or_value(name, value), *_target(name, value)]
    findings += _contradictions(flags)
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    findings += [
        _warning(f"--{name} occurs {len(some)} times; the last one counts: {some[-1]}")
        for name, some in values.items()
        if len(set(some)) > 1
    ]
    is_fine = all(finding.level == NOTE for finding in findings)
    if is_fine and flags.get("xla_dump_to"):
        findings.append(Finding(FINE, f"XLA_FLAGS writes HLO text to {flags['xla_dump_to']}"))
    return _worst_first(findings)


def _file_of_flags(text: str) -> Finding:
    """Return the finding on a text that XLA reads as the name of a file."""
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
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            flags.append((name, value))
            continue
        before = f" after --{flags[-1][0]}" if flags else ""
        remedy = f"write --{flags[-1][0]}={word}" if flags and not flags[-1][1] else "remove it"
        if word.lstrip("-").startswith("xla_"):
            remedy = f"write --{word.lstrip('-')}"
        findings.append(_error(f"{word}{before} is no flag; XLA ends the process", remedy))
    return flags, findings


def _name_or_value(name: str, value: str) -> list[Finding]:
    """Return the finding on a flag that XLA does not take, or that not all versions take."""
    if name.startswith(("xla_tpu_", "xla_jf_", "xla_sc_")):
        remedy = f'export LIBTPU_INIT_ARGS="--{name}={value}"'
        return [_error(f"--{name} is a flag of libtpu, unknown to jaxlib", remedy)]
    if name not in DUMP_FLAGS:
        is_on_dumps = "dump" in name and not name.startswith("xla_gpu_")
        near = difflib.get_close_matches(name, DUMP_FLAGS, n=1, cutoff=0.6 if is_on_dumps else 0.9)
        remedy = f"write --{near[0]}" if near else "remove it"
        ends = "; an unknown flag ends the process" if is_on_dumps else ""
        is_wrong = is_on_dumps or near
        return [_error(f"--{name} is no flag of XLA{ends}", remedy)] if is_wrong else []
    if name in _BOOL_FLAGS and value.lower() not in (*_TRUE, *_FALSE):
        return [_error(f"--{name}={value}: neither true nor false", f"write --{name}=true")]
    if name.endswith("_re"):
        try:
            re.compile(value)
        except re.error as error:
            what = f"--{name}={value} is no regular expression ({error}): XLA matches nothing"
            return [_error(what, f"write --{name}=.* for everything")]
    return []


def _target(name: str, value: str) -> list[Finding]:
    """Return the finding on the folder of ``--xla_dump_to``."""
    if name != "xla_dump_to" or (value.startswith("/") and not (",--" in value or ";" in value)):
        return []
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
    return [_note(f"--xla_dump_to={value} is relative to where the program runs")]


def _contradictions(flags: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings on flags together; the last one of each name counts."""

    def is_true(name: str) -> bool:
        return name in flags and flags[name].lower() in _TRUE

    dumping = [name for name in flags if name in DUMP_FLAGS]
    if not dumping:
        yield _note("no flag asks for a dump", "add --xla_dump_to=DIR --xla_dump_hlo_as_text")
    elif "xla_dump_to" not in flags:
        if is_true("xla_dump_hlo_as_text"):
            yield _warning(
                "--xla_dump_hlo_as_text without --xla_dump_to prints the dump on standard output",
                "add --xla_dump_to=DIR",
            )
        else:
            what = f"--{dumping[0]} without --xla_dump_to writes nothing"
            yield _error(what, "add --xla_dump_to=DIR")
    others = [name for name in _FORMATS if is_true(name)]
    if others and not is_true("xla_dump_hlo_as_text"):
        what = f"--{others[0]} without --xla_dump_hlo_as_text: XLA then writes no text"
        yield _error(what, "add --xla_dump_hlo_as_text")
    elif flags.get("xla_dump_hlo_as_text", "").lower() in _FALSE:
        yield _error("--xla_dump_hlo_as_text=false: no text is written", "remove it")
    for name, (what, remedy) in _LOSSES.items():
        if name in flags and (flags[name].lower() in _FALSE) == (name == _LOSS_BY_FALSE):
            yield _warning(f"--{name}={flags[name]}: {what}", remedy)


def check_debug_options(text: str) -> list[Finding]:
    """Return findings on data lost by the flags that a dump was made with."""
    pairs = re.findall(r"^(xla_dump_\w+): (.*)$", text, re.MULTILINE)
    flags = " ".join(f"--{name}={value.strip().strip(chr(34))}" for name, value in pairs)
    losses = [f for f in check_flags(flags) if f.level == WARNING] if flags else []
    return [loss._replace(what=f"made with {loss.what}") for loss in losses]


def check_variables(variables: Mapping[str, str], *, is_jax_imported: bool) -> list[Finding]:
    """Return findings on the environment variables of a process that matter for dumps.

    Args:
        variables: Texts by name.
        is_jax_imported: Whether the process has imported jax already.
    """
    text = variables.get("XLA_FLAGS")
    findings = check_flags(text)
    if "xla_dump_to" in variables.get("LIBTPU_INIT_ARGS", ""):
        what = "LIBTPU_INIT_ARGS has --xla_dump_to: libtpu alone then dumps"
        findings.append(_note(what, "XLA_FLAGS reaches jaxlib and libtpu both"))
    if variables.get("JAX_COMPILATION_CACHE_DIR"):
        what = "JAX_COMPILATION_CACHE_DIR is set: programs in that cache are not compiled or dumped"
        findings.append(_warning(what, "JAX_ENABLE_COMPILATION_CACHE=false for this run"))
    if is_jax_imported and text:
        what = "jax is imported in this process; XLA_FLAGS has no effect after its first use"
        findings.append(_note(what))
    return findings


# ---- texts of a dump ----------------------------------------------------------------------------


class TextKind(NamedTuple):
    """A kind of text that XLA can write for a module."""

    text: Annotated[str, "kind of text"]
    modules: Annotated[int, Unit.COUNT, "modules that have it"]
    of: Annotated[int, Unit.COUNT, "modules in all"]
    used_for: Annotated[str, "what hlo-lens shows of it"]
    flag: Annotated[str, "the flag that writes it"]


@dataclass(frozen=True, kw_only=True)
class Texts(Records[TextKind]):
    """Kinds of text that the modules of a dump can have."""

    KIND: ClassVar[str] = "texts"
    kinds: tuple[TextKind, ...] = ()


def _text_kinds(modules: Sequence[ModuleDump]) -> Iterator[TextKind]:
    """Yield the kinds of text that XLA writes, with the number of modules that have each."""

    def kind(name: str, flag: str, used_for: str, has: Callable[[ModuleDump], bool]) -> TextKind:
        return TextKind(name, sum(map(has, modules)), len(modules), used_for, flag)

    if not modules:
        return
    yield kind(BEFORE, AS_TEXT, "global shapes, shardings", partial(_has_stage, BEFORE))
    yield kind(AFTER, AS_TEXT, "the program that runs", partial(_has_stage, AFTER))
    for row in BUFFER_ROWS:
        part = row.part or ""
        has = _live_range(modules) if row.kind is DumpKind.LIVE_RANGE else partial(_has_part, part)
        if row.used_for:
            yield kind(part, row.flag, row.used_for, has)
    passes = "--xla_dump_hlo_pass_re=.*"
    yield kind("texts of passes", passes, "hlo-lens passes", partial(_has_text, is_pass=True))


def _has_stage(ending: str, module: ModuleDump) -> bool:
    return any(stage.is_hlo and stage.name.endswith(ending) for stage in module.stages)


def _has_part(part: str, module: ModuleDump) -> bool:
    files = (file for stage in module.stages for file in stage.files)
    return part in module.parts or any(f"-{part}." in file for file in files)


def _has_text(module: ModuleDump, *, is_pass: bool) -> bool:
    return any((stage.pass_number is not None) == is_pass for stage in module.stages)


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


def _dump_findings(dump: Dump, modules: Sequence[ModuleDump]) -> list[Finding]:
    """Return findings on the texts of a dump, whose modules with a number are given."""
    findings = [*_module_findings(modules), *_folder_findings(modules)]
    if not modules:
        what = "no file has a name of XLA's: other texts of the same module cannot be found"
        findings.append(_note(what, f"a folder written with {AS_TEXT} has more"))
    for skipped in dump.skipped:
        if skipped.kind == REFUSED:
            what = f"{skipped.count} archives inside cannot be read, such as {skipped.example}"
            findings.append(_warning(what, f"hlo-lens ls {skipped.example} prints the reason"))
    fine = [Finding(FINE, "every module has the texts that hlo-lens reads")]
    return _worst_first(findings) or fine


def _module_findings(modules: Sequence[ModuleDump]) -> Iterator[Finding]:
    whole = [m for m in modules if _has_text(m, is_pass=False)]
    early = [m for m in whole if not _has_stage(AFTER, m)]
    done = [m for m in whole if m not in early]
    bare = [m for m in done if not _has_part("buffer-assignment", m)]
    late = [m for m in done if m.before_text is None and not _has_stage(BEFORE, m)]
    out = [m for m in whole if any("oom_intermediate" in s.name for s in m.stages)]
    if early:
        yield _warning(
            f"{len(early)} of {len(whole)} modules have no final text, such as {early[0].name}: "
            "the compile failed, was killed or still runs, or XLA found a compiled one in its "
            "cache",
            "see the end of the program's log: hlo-lens report LOG",
        )
    if bare:
        share = f"{len(bare)} of {len(done)}"
        yield _warning(
            f"{share} modules have no buffer assignment, such as {bare[0].name}",
            "memory of these is an estimate; keep all files of the dump",
        )
    if late:
        yield _note(
            f"{len(late)} of {len(done)} modules have no text from before optimizations",
            "global shapes and mesh names may be missing; keep all files",
        )
    if out:
        what = f"{out[0].name} ran out of memory when it was compiled"
        yield _warning(what, "hlo-lens memory shows what it asked for")


def _folder_findings(modules: Sequence[ModuleDump]) -> Iterator[Finding]:
    """Yield the finding on a folder that several processes wrote into.

    Each client of a process (CPU, TPU) numbers its modules from 0000.
    """
    by_number: dict[tuple[str, int, str | None], set[str]] = {}
    for module in modules:
        marks = (*(one for one in ("cpu", "gpu") if f"{one}_" in (module.stage or "")), None)
        client = "tpu" if any(".cl_" in file for file in module.files) else marks[0]
        key = module.folder, module.number or 0, client
        by_number.setdefault(key, set()).add(title_of(module.name))
    for (folder, number, _), names in by_number.items():
        if len(names) > 1:
            what = (
                f"module number {number:04} has {len(names)} names "
                f"({', '.join(sorted(names)[:2])}) in {folder or 'one folder'}: several processes "
                "wrote into it, or one ran twice; files of one name were overwritten"
            )
            remedy = "give each process a folder: --xla_dump_to=DIR/rank_$RANK, emptied before"
            yield _warning(what, remedy)
            return


def _reasons(path: str, error: HloLensError) -> list[Finding]:
    """Return findings on a path in which nothing could be read."""
    exists = path == "-" or Path(path).exists()
    is_empty = isinstance(error, EmptyDumpError)
    if exists and not is_empty:
        return [_error(str(error).splitlines()[0])]
    asides: Sequence[SkippedFiles] = error.skipped if isinstance(error, EmptyDumpError) else ()
    kinds = {aside.kind: aside for aside in asides}
    findings = []
    if not exists:
        findings.append(_error("it does not exist; XLA makes it at the first compile"))
    if REFUSED in kinds:
        what = f"it holds {kinds[REFUSED].count} archives that cannot be read"
        remedy = f"hlo-lens ls {kinds[REFUSED].example} prints the reason"
        findings.append(_error(what, remedy))
    binary = kinds.get(DumpKind.BINARY.value)
    if binary is not None:
        what = f"it holds {binary.count} binary files: protos, without text?"
        findings.append(_error(what, f"add {AS_TEXT}"))
    if DumpKind.MLIR.value in kinds:
        what = (
            "it holds MLIR and no HLO: no module matched --xla_dump_hlo_module_re, or the compile "
            "failed at once"
        )
        findings.append(_error(what, "remove --xla_dump_hlo_module_re, see the log"))
    return [*findings, *_USUAL_REASONS]


_USUAL_REASONS = (
    _note(
        "XLA reads XLA_FLAGS once, when the first backend starts",
        "set it before Python starts, or in os.environ before anything of jax runs",
    ),
    _note(
        "the variable may not reach the process: ssh, docker, sudo, Ray and Kubernetes drop it",
        "print os.environ['XLA_FLAGS'] in the program itself",
    ),
    _note(
        "the folder is on the machine that compiles, relative to where the program was started",
        "give an absolute path; with a TPU VM or a pod, look on that machine",
    ),
    _note(
        "nothing is compiled if JAX's compilation cache has the program",
        "JAX_ENABLE_COMPILATION_CACHE=false for this run",
    ),
    _note(
        "nothing is compiled before the first call of a jitted function",
        "jax.jit(f).lower(*args).compile() is enough; no step has to run",
    ),
)


# ---- page ---------------------------------------------------------------------------------------

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


def doctor_report(path: str | None) -> Report:
    """Return the report on this machine and a dump; `modules` is None where none can be read.

    Args:
        path: File, folder or archive; None for the machine alone.
    """
    variables = check_variables(os.environ, is_jax_imported="jax" in sys.modules)
    versions, cache = _installed_versions(), _cache_text()
    dump: Dump | None = None
    texts = Texts()
    findings: list[Finding] = []
    if path is not None:
        try:
            dump = load(path)
        except HloLensError as error:
            findings = _reasons(path, error)
        else:
            texts_of_options = (one.setting("debug_options") for one in dump.modules)
            options = check_debug_options(next(filter(None, texts_of_options), ""))
            numbered = [module for module in dump.modules if module.number is not None]
            texts = Texts(kinds=tuple(_text_kinds(numbered)))
            findings = [*options, *_dump_findings(dump, numbered)]
    sections = [] if path is None else [_dump_section(path, dump, texts, findings)]
    shown = ((name, version or "not installed") for name, version in versions.items())
    sections.append(
        Section(
            title="this machine",
            facts=(*shown, ("cache", cache), *_lines(variables)),
            tables=(_findings_table("variables", variables),),
        )
    )
    if dump is None:
        sections.append(Section(title="how to make a dump", facts=RECIPES))
    data = envelope(
        "doctor",
        versions=dict(versions),
        cache=cache,
        variables=[finding._asdict() for finding in variables],
        recipes=[{"for": name, "how": how} for name, how in RECIPES],
        path=path,
        files=None if dump is None else dump.files,
        modules=None if dump is None else len(dump.modules),
        skipped=[] if dump is None else [asdict(skipped) for skipped in dump.skipped],
        texts=None if dump is None else texts.objects(),
        findings=[finding._asdict() for finding in findings],
    )
    return Report(kind="doctor", sections=tuple(sections), data=data)


_PACKAGES = (
    *("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin"),
    *("flax", "torch", "torch-xla", "tensorflow"),
)


def _installed_versions() -> dict[str, str | None]:
    """Return the versions of packages that matter for dumps; None for jax that is not installed."""
    versions: dict[str, str | None] = {
        "hlo-lens": __version__,
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **dict.fromkeys(("jax", "jaxlib")),
    }
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _cache_text() -> str:
    """Return the place and content of the cache of compiles."""
    state = cache_state()
    used = f"{format_bytes(state.compiles_bytes)} of at most {format_bytes(state.most_bytes)}"
    parts = [f"{plural(state.compiles, 'compile')}, {used}"]
    if state.environments:
        size = format_bytes(state.size_bytes - state.compiles_bytes)
        parts.append(f"environments {', '.join(state.environments)}, {size}")
    return f"{state.path}: {'; '.join(parts)}"


def _lines(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Yield findings as lines, labelled by their level."""
    for level, what, remedy in findings:
        yield level, f"{what}; {remedy}" if remedy else what


def _dump_section(
    path: str, dump: Dump | None, texts: Texts, findings: Sequence[Finding]
) -> Section:
    facts = [("modules", "none that can be read")]
    tables = [_findings_table("findings", findings)]
    if dump is not None:
        facts = [("modules", str(len(dump.modules))), ("files", str(dump.files))]
        if dump.skipped:
            facts.append(("not read", ", ".join(f"{one.count} {one.kind}" for one in dump.skipped)))
    if texts.kinds:
        shown = ("text", "modules", "of", "used_for", "flag")
        tables.insert(0, Table.of(texts, title="Texts of the modules", shown=shown))
    return Section(title=path, facts=(*facts, *_lines(findings)), tables=tuple(tables))


def _findings_table(name: str, findings: Sequence[Finding]) -> Table:
    columns = columns_of(Finding)
    return table_of(name, name.capitalize(), columns, findings, is_data_only=True)
