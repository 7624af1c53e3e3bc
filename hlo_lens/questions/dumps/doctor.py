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

_FORMATS = ("hlo_as_proto", "hlo_as_dot", "hlo_as_html", "hlo_as_url", "hlo_as_riegeli")
_BOOLEANS = (
    *(*_FORMATS, "hlo_snapshots", "hlo_as_text", "hlo_as_long_text", "buffer_assignment_analysis"),
    *("compact_gte", "compress_protos", "disable_metadata", "enable_mlir_pretty_form"),
    *("full_hlo_config", "fusion_visualization", "hlo_memory_schedule_info", "hlo_to_subfolder"),
    *("hlo_unoptimized_snapshots", "include_timestamp", "large_constants"),
    *("latency_hiding_schedule", "module_metadata"),
)
_OTHERS = ("to", "hlo_module_re", "hlo_pass_re", "hlo_pipeline_re", "emitter_re", "max_hlo_modules")
_DUMP_FLAGS = tuple(f"xla_dump_{name}" for name in (*_OTHERS, *_BOOLEANS))
"""Flags of XLA on dumps, of all versions."""

_IF_MISSING = "remove it if the module you look for is missing"
_TRUE = r"(?:=(?i:true|1))?"
_FALSE = r"=(?i:false|0)"
_OF_ONE_FLAG = (
    (
        r"--xla_(?:tpu|jf|sc)_\w*(=.*)?",
        *(ERROR, "{0} is a flag of libtpu, unknown to jaxlib", 'export LIBTPU_INIT_ARGS="{0}"'),
    ),
    (r"--xla_dump_to=?", ERROR, "--xla_dump_to without a folder", "write --xla_dump_to=DIR"),
    (
        "--xla_dump_to=~.*",
        *(ERROR, "{0}: XLA does not expand ~ and makes a folder of that name"),
        'write $HOME inside double quotes: "--xla_dump_to=$HOME/dump"',
    ),
    (
        "--xla_dump_to=.*(,--|;).*",
        *(ERROR, "{0}: what follows the comma became part of the folder's name"),
        "separate flags by blanks",
    ),
    (
        "--xla_dump_to=-",
        NOTE,
        "{0} prints the dump on standard output",
        "hlo-lens reads such a log",
    ),
    ("--xla_dump_to=[^/].*", NOTE, "{0} is relative to where the program runs", ""),
    (f"--xla_dump_hlo_as_text{_FALSE}", ERROR, "{0}: no text is written", "remove it"),
    (
        f"--xla_dump_buffer_assignment_analysis{_FALSE}",
        *(
            WARNING,
            "{0}: no live ranges: the values alive at the peak are not known",
        ),
        "remove it",
    ),
    (
        f"--xla_dump_disable_metadata{_TRUE}",
        *(WARNING, "{0}: no source lines and no names of operations", "remove it"),
    ),
    (
        "--xla_dump_hlo_module_re=.*",
        *(WARNING, "{0}: only modules whose name matches are written", _IF_MISSING),
    ),
    (
        "--xla_dump_max_hlo_modules=.*",
        *(WARNING, "{0}: XLA stops dumping after this number of modules, without a message"),
        _IF_MISSING,
    ),
    (
        rf"--xla_dump_(?:{'|'.join(_BOOLEANS)})(?!{_TRUE}$|{_FALSE}$)=.*",
        *(ERROR, "{0}: neither true nor false", "write =true"),
    ),
)
"""Forms of a flag, the first that matches counts: level, what is wrong, and what to do."""


def check_flags(text: str | None) -> list[Finding]:
    """Return findings on the text of XLA_FLAGS, the worst first.

    Args:
        text: Its text; None if it is not set.
    """
    text = (text or "").strip()
    if not text:
        what = "XLA_FLAGS is not set here: a program started from here writes no dump"
        remedy = 'export XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text"'
        return [Finding(NOTE, what, remedy)]
    if not text.startswith("--"):
        return [_file_of_flags(text)]
    try:
        words = shlex.split(text)
    except ValueError:
        return [Finding(ERROR, "XLA_FLAGS has a quote without an end", "close it")]
    findings: list[Finding] = []
    values: dict[str, list[str]] = {}
    last = ""
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            values.setdefault(name, []).append(value)
            last = word
            findings += _of_flag(word, name, value)
        else:
            before = f" after {last.partition('=')[0]}" if last else ""
            remedy = f"write {last}={word}" if last and "=" not in last else "remove it"
            if word.lstrip("-").startswith("xla_"):
                remedy = f"write --{word.lstrip('-')}"
            findings.append(
                Finding(ERROR, f"{word}{before} is no flag; XLA ends the process", remedy)
            )
    flags = {name: some[-1] for name, some in values.items()}
    findings += _contradictions(flags)
    findings += [
        Finding(WARNING, f"--{name} occurs {len(some)} times; the last one counts: {some[-1]}")
        for name, some in values.items()
        if len(set(some)) > 1
    ]
    is_fine = all(finding.level == NOTE for finding in findings)
    if is_fine and flags.get("xla_dump_to"):
        findings.append(Finding(FINE, f"XLA_FLAGS writes HLO text to {flags['xla_dump_to']}"))
    return _worst_first(findings)


def _file_of_flags(text: str) -> Finding:
    """Return the finding on a text that XLA reads as the name of a file."""
    word = text.split()[0]
    if text.startswith(("'", '"')):
        what = "XLA_FLAGS begins with a quote, which XLA reads as the name of a file"
        remedy = "let the shell remove the quotes: XLA_FLAGS='--a --b', not XLA_FLAGS=\"'--a --b'\""
        return Finding(ERROR, what, remedy)
    if word.lstrip("-").startswith("xla_"):
        what = f"{word} does not begin with two hyphens; XLA reads it as the name of a file"
        return Finding(ERROR, what, f"write --{word.lstrip('-')}")
    what = f"XLA_FLAGS names a file of flags, {word}, which was not checked"
    return Finding(NOTE, what, "set XLA_FLAGS to its content and run hlo-lens doctor to check it")


def _of_flag(word: str, name: str, value: str) -> Iterator[Finding]:
    """Yield what is wrong with one flag."""
    for pattern, level, what, remedy in _OF_ONE_FLAG:
        if re.fullmatch(pattern, word):
            yield Finding(level, what.format(word), remedy.format(word))
            return
    if name not in _DUMP_FLAGS:
        is_on_dumps = "dump" in name and not name.startswith("xla_gpu_")
        near = difflib.get_close_matches(name, _DUMP_FLAGS, n=1, cutoff=0.6 if is_on_dumps else 0.9)
        ends = "; an unknown flag ends the process" if is_on_dumps else ""
        if is_on_dumps or near:
            remedy = f"write --{near[0]}" if near else "remove it"
            yield Finding(ERROR, f"--{name} is no flag of XLA{ends}", remedy)
    elif name.endswith("_re"):
        try:
            re.compile(value)
        except re.error as error:
            what = f"{word} is no regular expression ({error}): XLA matches nothing"
            yield Finding(ERROR, what, f"write --{name}=.* for everything")


def _contradictions(flags: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings on flags together; the last one of each name counts."""
    asked = {name for name, value in flags.items() if value.lower() in ("", "true", "1")}
    dumping = [name for name in flags if name in _DUMP_FLAGS]
    if not dumping:
        remedy = "add --xla_dump_to=DIR --xla_dump_hlo_as_text"
        yield Finding(NOTE, "no flag asks for a dump", remedy)
    elif "xla_dump_to" not in flags:
        level, what = ERROR, f"--{dumping[0]} without --xla_dump_to writes nothing"
        if "xla_dump_hlo_as_text" in asked:
            level = WARNING
            what = "--xla_dump_hlo_as_text without --xla_dump_to prints the dump on standard output"
        yield Finding(level, what, "add --xla_dump_to=DIR")
    formats = (f"xla_dump_{name}" for name in (*_FORMATS, "hlo_snapshots"))
    other = next((name for name in formats if name in asked), None)
    if other and "xla_dump_hlo_as_text" not in asked:
        what = f"--{other} without --xla_dump_hlo_as_text: XLA then writes no text"
        yield Finding(ERROR, what, "add --xla_dump_hlo_as_text")


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
