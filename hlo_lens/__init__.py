"""Read what the XLA compiler dumps: memory, collectives and shardings of a compiled program.

>>> import hlo_lens
>>> module = hlo_lens.parse_hlo('''
... HloModule example
... ENTRY main {
...   x = f32[8,16] parameter(0)
...   ROOT y = f32[8,16] negate(x)
... }''')
>>> module.entry.root.opcode, module.entry.root.shape.size_bytes
('negate', 512)
"""

from __future__ import annotations

import functools
import importlib
import sys

if sys.version_info < (3, 11, 5):
    raise ImportError(
        f"hlo-lens needs Python 3.11.5 or newer, this is {sys.version.split()[0]}: the re module"
        " of 3.11.0 to 3.11.4 misreads patterns that hlo-lens uses (CPython issue gh-106052)"
    )

from hlo_lens.text.version import __version__ as __version__


@functools.cache
def _homes() -> dict[str, str]:
    """Return the file of each public name, as ``__init__.pyi`` lists them."""
    import ast
    import pkgutil

    stub = pkgutil.get_data(__name__, "__init__.pyi") or b""
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``import hlo_lens`` costs nothing."""
    if name == "__all__":
        return __dir__()
    if name.startswith("__") or name not in _homes():
        raise AttributeError(f"module 'hlo_lens' has no attribute '{name}'")
    value: object = getattr(importlib.import_module(_homes()[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_homes())
