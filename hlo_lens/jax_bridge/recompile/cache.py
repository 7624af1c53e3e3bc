"""Folder of hlo-lens for compiles and virtual environments, in the user's cache.

``$HLO_LENS_CACHE``, else ``$XDG_CACHE_HOME/hlo-lens``, else ``~/.cache/hlo-lens``.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from hlo_lens.text.errors import OutputError

COMPILES = "compiles"
ENVIRONMENTS = "environments"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """Content of the cache.

    Attributes:
        path: Its folder.
        compiles: Number of compiles in it.
        environments: Names of the virtual environments in it.
        size_bytes: Bytes of all files.
    """

    path: str
    compiles: int
    environments: tuple[str, ...]
    size_bytes: int


def cache_folder(*parts: str) -> Path:
    """Return a folder of the cache, which need not exist."""
    own = os.environ.get("HLO_LENS_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(own) if own else (Path(base) if base else Path.home() / ".cache") / "hlo-lens"
    return root.joinpath(*parts)


def cache_state() -> CacheState:
    """Return the content of the cache."""
    root = cache_folder()
    files = [Path(folder, name) for folder, _, names in os.walk(root) for name in names]
    return CacheState(
        path=str(root),
        compiles=len(_names(root / COMPILES)),
        environments=tuple(_names(root / ENVIRONMENTS)),
        size_bytes=sum(file.lstat().st_size for file in files),
    )


def _names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []


def clear_cache() -> CacheState:
    """Delete all compiles and virtual environments; return what there was.

    Raises:
        OutputError: If a file cannot be deleted.
    """
    state = cache_state()
    for name in (COMPILES, ENVIRONMENTS):
        folder = cache_folder(name)
        if folder.is_symlink() or not folder.is_dir():
            continue
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be deleted: {error.strerror or error}") from error
    return state
