"""Folder of hlo-lens for compiles and virtual environments, in the user's cache.

``$HLO_LENS_CACHE``, else ``$XDG_CACHE_HOME/hlo-lens``, else ``~/.cache/hlo-lens``. Compiles take at
most ``$HLO_LENS_CACHE_SIZE``, else 8 GiB; those that were used least recently are deleted first.
Virtual environments stay until they are deleted.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hlo_lens.text.errors import OutputError
from hlo_lens.text.units import parse_size

COMPILES = "compiles"
PROOFS = "proofs"
ENVIRONMENTS = "environments"
USED = "outcome.json"
"""File of a compile whose time is that of its last use."""

_MOST_BYTES = "8GiB"
_UNFINISHED_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """Content of the cache; `most_bytes` are those that compiles may take."""

    path: str
    compiles: int
    environments: tuple[str, ...]
    size_bytes: int
    compiles_bytes: int
    most_bytes: int


def cache_folder(*parts: str) -> Path:
    """Return a folder of the cache, which need not exist."""
    own = os.environ.get("HLO_LENS_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(own) if own else (Path(base) if base else Path.home() / ".cache") / "hlo-lens"
    return root.absolute().joinpath(*parts)  # compiles run in it


def cache_state() -> CacheState:
    """Return the content of the cache."""
    root = cache_folder()
    compiles = _size(root / COMPILES)
    return CacheState(
        path=str(root),
        compiles=len(_names(root / COMPILES)),
        environments=tuple(_names(root / ENVIRONMENTS)),
        size_bytes=compiles + _size(root / ENVIRONMENTS),
        compiles_bytes=compiles,
        most_bytes=most_bytes(),
    )


def most_bytes() -> int:
    """Return the most bytes that compiles take."""
    return parse_size(os.environ.get("HLO_LENS_CACHE_SIZE") or _MOST_BYTES)


def _size(folder: Path) -> int:
    """Return the bytes of all files in a folder; of files that vanish, none."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += Path(place, name).lstat().st_size
    return total


def bound_compiles(newest: Path) -> None:
    """Delete the compiles that were used least recently, until all are small enough together.

    `newest` stays in any case.
    """
    compiles: list[tuple[float, Path, int]] = []
    kept = {newest}
    for folder in cache_folder(COMPILES).glob("*/"):
        file = folder / USED
        try:
            used = (file if file.is_file() else folder).stat().st_mtime
        except OSError:  # another process deleted it
            continue
        compiles.append((used, folder, _size(folder)))
        if not file.is_file() and time.time() - used < _UNFINISHED_SECONDS:
            kept.add(folder)  # another process writes it
    total, most = sum(size for _, _, size in compiles), most_bytes()
    for _, folder, size in sorted(compiles):
        if total > most and folder not in kept:
            shutil.rmtree(folder, ignore_errors=True)
            total -= size


def _names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []


def clear_cache() -> CacheState:
    """Delete all compiles, proofs and virtual environments; return what there was.

    Raises:
        OutputError: If a file cannot be deleted.
    """
    state = cache_state()
    for name in (COMPILES, PROOFS, ENVIRONMENTS):
        folder = cache_folder(name)
        if folder.is_symlink() or not folder.is_dir():
            continue
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be deleted: {error.strerror or error}") from error
    return state
