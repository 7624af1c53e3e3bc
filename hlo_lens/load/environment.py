"""What this machine and a folder say about dumps: versions, variables, written options."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.analysis.dumps.xla_flags import (
    FINE,
    NOTE,
    WARNING,
    Finding,
    check_flags,
    flags_of_debug_options,
    other_flags,
    unknown_flags,
)
from hlo_lens.load.stored import DiskFile, chunks, head_of, name_of
from hlo_lens.text.content_kind import archive_form
from hlo_lens.text.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.load.stored import StoredFile

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
_MOST_PIECES = 16
"""Pieces of an options file that are read: 1 MiB."""


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
    text = variables.get("XLA_FLAGS")
    found = [*_unknown(other_flags(text)), *check_flags(text)]
    if any(finding.level == WARNING for finding in found):
        found = [finding for finding in found if finding.level != FINE]
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


_LIBRARY = 50 << 20
"""Bytes that the library with XLA in it has at least."""
_FLAG = re.compile(rb"(?<![a-z0-9_])xla_[a-z0-9_]{3,80}(?=\0)")


def _unknown(names: list[str]) -> list[Finding]:
    """Return which flags the jaxlib that is installed here does not have.

    Names of flags stand in its library as they are, each ending with a zero. Nothing is imported.
    """
    if not names:
        return []
    library = _library()
    if library is None:
        listed = ", ".join(f"--{name}" for name in names)
        what = f"not checked, since no jaxlib is here: {listed}"
        return [Finding(NOTE, what)]
    with library.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
        missing = [name for name in names if data.find(name.encode() + b"\0") < 0]
        known = {name.decode("ascii") for name in _FLAG.findall(data)} if missing else set()
    return unknown_flags(missing, known, f"jaxlib {importlib.metadata.version('jaxlib')}, as here")


def _library() -> Path | None:
    """Return the library of jaxlib that has XLA in it; None where there is none."""
    spec = importlib.util.find_spec("jaxlib")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [file for folder in folders for file in Path(folder).glob("*.so")]
    largest = max(files, key=lambda file: file.stat().st_size, default=None)
    return largest if largest is not None and largest.stat().st_size > _LIBRARY else None


def options_findings(path: str) -> list[Finding]:
    """Return what is to be said of the flags that the dump of a folder or archive was made with.

    They stand in its ``debug_options`` files, since April 2025; a dump without has none.
    """
    file = min(_options_files(path), key=lambda file: file.path, default=None)
    if file is None:
        return []
    try:
        text = b"".join(islice(chunks(file), _MOST_PIECES)).decode("utf-8", "replace")
    except UnreadableError:
        return []
    flags = flags_of_debug_options(text)
    found = [f for f in check_flags(flags) if f.level == WARNING] if flags else []
    return [Finding(f.level, f"made with {f.what}", f.remedy) for f in found]


def _options_files(path: str) -> Iterator[StoredFile]:
    if Path(path).is_dir():
        yield from (DiskFile(str(file)) for file in Path(path).rglob("*.debug_options"))
        return
    archive = DiskFile(path)
    form = archive_form(head_of(archive)) if Path(path).is_file() else None
    if form is not None:
        from hlo_lens.load.archive import archive_files
        from hlo_lens.load.unread_files import LeftAsides

        with suppress(UnreadableError):
            for file in archive_files(archive, form, LeftAsides()):
                if name_of(file).endswith(".debug_options"):
                    yield file
