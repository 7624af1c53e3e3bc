"""The front door from JAX: compiled and lowered programs, and all that a block compiles.

jax is imported when a function is called, never with this package. Written against jax 0.4.30 to
0.12.0; what a version does not tell is in ``Framework.notes``.
"""

from __future__ import annotations

from hlo_lens.jax_bridge.captures import Capture, capture
from hlo_lens.jax_bridge.programs import from_compiled, from_lowered

__all__ = ["Capture", "capture", "from_compiled", "from_lowered"]
