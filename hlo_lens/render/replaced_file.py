"""Output files that are replaced only when all is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hlo_lens.text.errors import OutputError


@contextmanager
def replaced_file(path: str | Path) -> Iterator[Path]:
    """Yield the name of a new file that replaces a file if the block raises nothing.

    The new file is next to the file, which keeps its content and its mode until then. Devices and
    pipes, and files in folders where none can be made, are written in place.

    Raises:
        OutputError: If the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        new = _file_beside(target)
        try:
            yield new
            if new != target:
                new.replace(target)
        finally:
            if new != target:
                new.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _file_beside(target: Path) -> Path:
    """Return an empty new file with the mode of the target, or the target to write it in place."""
    if target.exists() and not target.is_file():
        return target
    import tempfile

    try:
        number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:64]}.")
    except PermissionError:
        if target.exists():
            return target
        raise
    os.close(number)
    new = Path(name)
    mask = os.umask(0o022)  # there is no way but to set it
    os.umask(mask)
    new.chmod(target.stat().st_mode if target.exists() else 0o666 & ~mask)
    return new
