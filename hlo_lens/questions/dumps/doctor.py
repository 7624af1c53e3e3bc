"""Examine this machine and a dump: installed versions, variables, missing texts."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from hlo_lens.load import EmptyDumpError, load
from hlo_lens.load.environment import debug_options, installed_versions, jaxlib_flags
from hlo_lens.questions.dumps.doctor_page import Examination
from hlo_lens.questions.dumps.health import dump_health, empty_findings
from hlo_lens.questions.dumps.xla_flags import (
    ERROR,
    Finding,
    check_debug_options,
    check_variables,
    other_flags,
    unchecked_flags,
    unknown_flags,
)
from hlo_lens.questions.what_if.process.cache import cache_state
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.units import format_bytes, plural
from hlo_lens.text.version import __version__


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
