"""Checks of XLA_FLAGS, as far as dumps are concerned.

XLA reads the variable in tsl/util/parse_flags_from_env.cc: flags are separated by white space, each
is ``--name=value`` or ``--name``; a text that does not begin with ``--`` is the name of a file with
flags. An unknown flag ends the process. The effects of the flags were tested with jaxlib 0.10.2;
their names are those of jaxlib 0.4.30 to 0.12.0 and libtpu 0.0.51.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

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
