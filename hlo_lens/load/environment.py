"""What this machine and a folder say about dumps: versions, variables, written options."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.analysis.xla_flags import (
    NOTE,
    WARNING,
    Finding,
    check_flags,
    flags_of_debug_options,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGES = (
    "jax",
    "jaxlib",
    "libtpu",
    "jax-cuda12-plugin",
    "jax-cuda13-plugin",
    "jax-rocm7-plugin",
    "flax",
    "torch",
    "torch-xla",
    "tensorflow",
)
_MOST_OPTIONS = 1 << 20


@dataclass(frozen=True, slots=True)
class Environment:
    """This machine.

    Attributes:
        versions: Name to version of what matters; None for packages that are not installed.
        findings: What is to be said of the variables.
    """

    versions: Mapping[str, str | None]
    findings: tuple[Finding, ...]


def environment(tool_version: str) -> Environment:
    """Return what is installed and set here; imports nothing of it."""
    versions: dict[str, str | None] = {
        "hlo-lens": tool_version,
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name in ("jax", "jaxlib"):
                versions[name] = None
    return Environment(versions, tuple(_variables(os.environ)))


def _variables(variables: Mapping[str, str]) -> list[Finding]:
    found = check_flags(variables.get("XLA_FLAGS"))
    if "xla_dump_to" in variables.get("LIBTPU_INIT_ARGS", ""):
        what = "LIBTPU_INIT_ARGS has --xla_dump_to: libtpu alone then dumps"
        found.append(Finding(NOTE, what, "XLA_FLAGS reaches jaxlib and libtpu both"))
    if variables.get("JAX_COMPILATION_CACHE_DIR"):
        what = "JAX_COMPILATION_CACHE_DIR is set: what is in that cache is not compiled, nor dumped"
        found.append(Finding(WARNING, what, "JAX_ENABLE_COMPILATION_CACHE=false for this run"))
    if "jax" in sys.modules and variables.get("XLA_FLAGS"):
        what = "jax is imported in this process; XLA_FLAGS set after its first use does nothing"
        found.append(Finding(NOTE, what))
    return found


def options_findings(path: str) -> list[Finding]:
    """Return what is to be said of the flags that a folder's dump was made with.

    They stand in its ``debug_options`` files, since April 2025; a folder without has none.
    """
    folder = Path(path)
    if not folder.is_dir():
        return []
    file = next(iter(sorted(folder.rglob("*.debug_options"))), None)
    if file is None:
        return []
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            flags = flags_of_debug_options(opened.read(_MOST_OPTIONS))
    except OSError:
        return []
    found = [f for f in check_flags(flags) if f.level == WARNING] if flags else []
    return [Finding(f.level, f"made with {f.what}", f.remedy) for f in found]
