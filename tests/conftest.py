"""Settings of all tests: eight devices of the CPU for jax, and the same examples in each run."""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec

_DEVICES = "--xla_force_host_platform_device_count=8"

if _DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}".strip()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["HLO_LENS_PROVE"] = "none"  # tests that compile say so
os.environ["HLO_LENS_CACHE"] = f"{tempfile.gettempdir()}/hlo-lens-tests-{os.getuid()}"
os.environ.pop("GITHUB_WORKSPACE", None)  # tests have checkouts of their own

if find_spec("hypothesis") is not None:  # environments of other versions of jax have none
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "steady",
        deadline=None,  # time depends on what else the machine does
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("steady")
