"""Compiled and lowered programs of JAX as dumps, and hooks that see each compile.

jax is imported when a function is called, never with this package. Written against jax 0.4.30 to
0.12.0; facts that a version does not expose are named in ``Framework.notes``.
"""

from __future__ import annotations

from hlo_lens.load.jax.programs import from_compiled, from_lowered

__all__ = ["from_compiled", "from_lowered"]
