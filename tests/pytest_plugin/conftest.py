"""Import jax before pytester runs: it forgets what inner runs import, and jax loads only once."""

from __future__ import annotations

import importlib
from contextlib import suppress

with suppress(ImportError):
    importlib.import_module("jax.numpy")
