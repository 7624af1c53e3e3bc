"""Source files that dumps name: those of libraries, and those of a checkout."""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from hlo_lens.text.names import lazy_pattern, portable_path

INSTALLED = lazy_pattern(r".*/(?:site|dist)-packages/")
"""Path of an installed package up to the package."""

STANDARD = lazy_pattern(r".*?/lib(?:64)?/python\d[\d.]*(?:\.zip)?/|.*?/Python\d+/Lib/|^<frozen ")
"""Path of the standard library up to the module."""

SYNTHETIC = lazy_pattern(r"^<[^>]*>$")
"""Name that Python gives to code without a file."""

_PACKAGES = (
    "chex|distrax|dm_haiku|diffrax|einops|equinox|flax|haiku|jax|jaxlib|jaxopt|lineax|numpy|optax|"
    "optimistix|orbax|qwix|scipy|tokamax|torch|torch_xla"
)
_CHECKOUT = lazy_pattern(
    rf"(?:.*/)?(?P<name>{_PACKAGES})/(?P=name)/"
    rf"|(?:.*/)?third_party/py/(?:{_PACKAGES})/"
    r"|(?:.*/)?jax/(?:_src|experimental|interpreters)/"
    r"|(?:.*/)?flax/(?:core|linen|nnx|training)/"
    r"|(?:.*/)?(?:tensorflow/python|keras/src)/"
    r"|(?:.*/)?optax/(?:_src|contrib|losses|transforms|tree_utils)/"
)
"""Path of a known package in its repository, or relative to the folder of packages."""

_EVERY_OPERATION = lazy_pattern(r"(?:.*/)?tensorflow/python/framework/ops\.py$")
"""File of TensorFlow that makes all operations: the innermost frame of each is in it."""


@functools.lru_cache(maxsize=4096)
def makes_every_operation(path: str) -> bool:
    """Return whether a framework makes all operations in a file, so that its lines say nothing.

    >>> makes_every_operation("/env/site-packages/tensorflow/python/framework/ops.py")
    True
    """
    return _EVERY_OPERATION.match(path.replace("\\", "/")) is not None


@functools.lru_cache(maxsize=4096)
def is_library_file(path: str) -> bool:
    """Return whether a source file belongs to a library.

    >>> is_library_file("/env/lib/python3.11/site-packages/flax/linen/linear.py")
    True
    >>> is_library_file("/home/me/jax/train.py"), is_library_file("/src/MaxText/layers/models.py")
    (False, False)
    """
    path = path.replace("\\", "/")
    return any(known.match(path) for known in (INSTALLED, STANDARD, SYNTHETIC, _CHECKOUT))


def without_folders(path: str) -> str:
    """Return the path of a source file without the folders of this machine.

    `is_library_file` and `portable_path` give the same of both; checkouts of libraries stay.

    >>> without_folders("/env/lib/python3.11/site-packages/flax/core/scope.py")
    '/site-packages/flax/core/scope.py'
    >>> without_folders("/home/me/project/train.py")
    'project/train.py'
    """
    plain = path.replace("\\", "/")
    for known, folder in ((INSTALLED, "/site-packages/"), (STANDARD, "/lib/python3/")):
        if (match := known.match(plain)) and not SYNTHETIC.match(plain):
            return folder + plain[match.end() :]
    return path if is_library_file(path) else portable_path(path)


_MOST_LOOKED_AT = 20_000
_NOT_SOURCE = frozenset({"node_modules", "__pycache__", "site-packages", "build", "dist"})


class Checkout:
    """Files of a repository, found by the last parts of the paths that a dump has.

    In a folder that is no repository, which may be the whole disk, files are looked for at the ends
    of a path only, not in all folders below.
    """

    def __init__(self, root: Path, *, is_repository: bool = True) -> None:
        self.root = root
        self._is_repository = is_repository
        self._lines: dict[str, list[str]] = {}
        self._found: dict[str, str | None] = {}

    @classmethod
    def here(cls) -> Checkout:
        """Return the repository of a run on GitHub, else that of the current folder, or the folder.

        GitHub reads paths relative to the folder that ``GITHUB_WORKSPACE`` names.
        """
        workspace = os.environ.get("GITHUB_WORKSPACE")
        if workspace and Path(workspace).is_dir():
            return cls(Path(workspace).absolute())
        folder = Path.cwd()
        root = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)
        return cls(root or folder, is_repository=root is not None)

    def find(self, file: str) -> str | None:
        """Return the path below the root of the file whose path ends as one of a dump, or None.

        The longest end that some file has decides. A file at the end itself, taken as a path below
        the root, is found before files in other folders. None if no file or more than one matches.
        """
        if file not in self._found:
            self._found[file] = self._search(Path(file.removeprefix("~")))
        return self._found[file]

    def line_of(self, file: str, number: int) -> str | None:
        lines = self.lines_of(file)
        return lines[number - 1] if 0 < number <= len(lines) else None

    def lines_of(self, file: str) -> list[str]:
        """Return the lines of a file of the checkout, else of the same path outside, if any."""
        path = self.find(file) or (file if Path(file).is_absolute() else None)
        return [] if path is None else self._read(path)

    def _read(self, file: str) -> list[str]:
        if file not in self._lines:
            path, self._lines[file] = self.root / file, []
            if _is_file(path):  # a device or a pipe may have no end
                with suppress(OSError):
                    self._lines[file] = path.read_text("utf-8", errors="replace").splitlines()
        return self._lines[file]

    def _search(self, path: Path) -> str | None:
        if ".." in path.parts:
            return None
        inside = None
        if path.is_absolute():
            if path.is_relative_to(self.root):
                path = path.relative_to(self.root)
                inside = path.as_posix()
            else:
                path = Path(*path.parts[1:])
        for start in range(len(path.parts)):
            tail = "/".join(path.parts[start:])
            if _is_file(self.root / tail):
                return tail
            found = [one for one in self._by_name.get(path.name, ()) if one.endswith(f"/{tail}")]
            if found:
                return found[0] if len(found) == 1 else inside
        return inside

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        """Paths of the files of the repository, up to a limit, by their last part."""
        found: dict[str, list[str]] = {}
        if not self._is_repository:
            return found
        seen = 0
        for directory, folders, names in os.walk(self.root):
            folders[:] = sorted(f for f in folders if f[0] != "." and f not in _NOT_SOURCE)
            above = Path(directory).relative_to(self.root).as_posix()
            for name in names:
                found.setdefault(name, []).append(name if above == "." else f"{above}/{name}")
            seen += len(names)
            if seen > _MOST_LOOKED_AT:
                break
        return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
