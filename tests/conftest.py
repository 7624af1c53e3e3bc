"""What must be set before jax is imported: eight devices of the CPU, and nothing else."""

from __future__ import annotations

import os

_DEVICES = "--xla_force_host_platform_device_count=8"

if _DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}".strip()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
