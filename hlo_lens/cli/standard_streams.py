"""Standard streams of the process: closed ones, unbuffered ones, and a broken output.

Python's stream of a closed file descriptor is None (``2>&-``, services without a console).
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress

_DESCRIPTORS = (0, 1, 2)


def occupy_closed_streams() -> None:
    """Open the null device at the descriptors of closed streams; messages may be written to it.

    Files that are opened later would get these descriptors, and with them what libraries write to
    standard error. Input and output stay None, so that a read or write of them is an error.
    """
    for descriptor in _DESCRIPTORS:
        with suppress(OSError):
            os.fstat(descriptor)
            continue
        os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free: this one
        os.set_inheritable(descriptor, True)
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "replace")


def buffer_stdout() -> None:
    """Put a buffer in front of standard output that has none (``PYTHONUNBUFFERED=1``).

    Without one Python takes a write of a part of the text for one of the whole.
    """
    out = sys.stdout
    is_own = isinstance(out, io.TextIOWrapper) and out is sys.__stdout__
    if is_own and isinstance(out.buffer, io.RawIOBase):
        binary = io.BufferedWriter(io.FileIO(out.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(binary, out.encoding, out.errors, line_buffering=True)


def flush_stdout() -> None:
    """Write what is left in the buffer of standard output, where that is open."""
    if sys.stdout is not None:
        sys.stdout.flush()


def forget_stdout() -> None:
    """Redirect standard output to the null device, so that the last flush raises nothing."""
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
