"""Versions installed on this machine, and the options that a dump was made with."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path

from hlo_lens.load.archive import archive_files
from hlo_lens.load.files import DiskFile, StoredFile, chunks, head_of, name_of
from hlo_lens.load.module import SkippedCounter
from hlo_lens.text.dump_kinds import archive_form
from hlo_lens.text.errors import UnreadableError

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
"""Most pieces of an options file that are read (1 MiB)."""


def installed_versions(tool_version: str) -> dict[str, str | None]:
    """Return the versions of all packages that matter for dumps, without importing them.

    Packages that are not installed are left out; jax and jaxlib then have None.
    """
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
    return versions


@dataclass(frozen=True, slots=True)
class JaxlibFlags:
    """Flags of a list that the installed jaxlib has or lacks.

    Attributes:
        version: Its version.
        missing: Those of the flags that it does not have.
        known: All flags of XLA that it has; empty if none is missing.
    """

    version: str
    missing: tuple[str, ...]
    known: frozenset[str]


_LIBRARY = 50 << 20
"""Least size in bytes of the library that contains XLA."""
_FLAG = re.compile(rb"(?<![a-z0-9_])xla_[a-z0-9_]{3,80}(?=\0)")


def jaxlib_flags(names: Sequence[str]) -> JaxlibFlags | None:
    """Return which of some flags the installed jaxlib has; None if no jaxlib is installed.

    Flag names are zero-terminated strings in its library, which is searched, not imported.
    """
    library = _library()
    if library is None:
        return None
    with library.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
        missing = tuple(name for name in names if data.find(name.encode() + b"\0") < 0)
        known = {name.decode("ascii") for name in _FLAG.findall(data)} if missing else set()
    return JaxlibFlags(importlib.metadata.version("jaxlib"), missing, frozenset(known))


def _library() -> Path | None:
    """Return the library of jaxlib that contains XLA; None if there is none."""
    spec = importlib.util.find_spec("jaxlib")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [file for folder in folders for file in Path(folder).glob("*.so")]
    largest = max(files, key=lambda file: file.stat().st_size, default=None)
    return largest if largest is not None and largest.stat().st_size > _LIBRARY else None


def debug_options(path: str) -> str | None:
    """Return the options of XLA that the dump in a folder or archive was made with.

    XLA writes them into ``debug_options`` files since April 2025; None if there is no such file.
    """
    file = min(_options_files(path), key=lambda file: file.path, default=None)
    if file is None:
        return None
    try:
        return b"".join(islice(chunks(file), _MOST_PIECES)).decode("utf-8", "replace")
    except UnreadableError:
        return None


def _options_files(path: str) -> Iterator[StoredFile]:
    if Path(path).is_dir():
        yield from (DiskFile(str(file)) for file in Path(path).rglob("*.debug_options"))
    elif Path(path).is_file():
        archive = DiskFile(path)
        form = archive_form(head_of(archive))
        with suppress(UnreadableError):
            for file in archive_files(archive, form, SkippedCounter()) if form else (archive,):
                if name_of(file).endswith(".debug_options"):
                    yield file
