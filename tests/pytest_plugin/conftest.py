"""Import jax and all of hlo_lens before pytester runs.

An inner run forgets the modules that it imported: jax loads only once, and a module of hlo_lens
that is loaded twice would have its constants twice.
"""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import suppress

import hlo_lens

with suppress(ImportError):
    importlib.import_module("jax.numpy")
for module in pkgutil.walk_packages(hlo_lens.__path__, "hlo_lens."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
