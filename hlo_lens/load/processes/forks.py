"""Where this process may be forked: on Linux, while it has no second thread, and not with JAX.

Fork copies the memory of a process but only one of its threads; locks that others hold stay locked
in the copy. Threads are those of the kernel, since BLAS starts its own outside of Python. JAX warns
at every fork.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def is_fork_safe() -> bool:
    """Return whether a fork of this process can use all that it copies."""
    if sys.platform != "linux" or "jaxlib" in sys.modules:
        return False
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
