"""Time that a loaded machine does not change: seconds of the processor, not of the clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_SECONDS = 600
"""Time limit of tests that take seconds on a free machine; only a hanging process reaches it."""


def cpu_seconds(run: Callable[[], object]) -> float:
    """Return the seconds that this process computes while a function runs."""
    start = time.process_time()
    run()
    return time.process_time() - start
