"""Names of jaxlib that are not public, from the modules that had them since 0.4.30."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = ("jaxlib._hlo", "jaxlib._jax", "jaxlib.xla_extension", "jaxlib.xla_client")


class WorkerError(Exception):
    """A step that failed.

    Attributes:
        step: ``import``, ``parse``, ``target``, ``options`` or ``compile``.
    """

    def __init__(self, step: str, error: object) -> None:
        super().__init__(str(error))
        self.step = step


def find(name: str) -> Any:
    """Return a name of jaxlib from the first module that has it."""
    for home in _HOMES:
        try:
            module = importlib.import_module(home)
        except ImportError:
            continue
        if hasattr(module, name):
            return getattr(module, name)
    raise WorkerError("import", f"this jaxlib has no {name}")


def has(name: str) -> bool:
    """Whether this jaxlib has a name."""
    try:
        find(name)
    except WorkerError:
        return False
    return True
