"""Edited texts compile to what the programs with the change compile to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).with_name("recompile.py")
_ROOT = _SCRIPT.parents[3]


def test_figures_equal_those_of_the_program_with_the_change() -> None:
    jaxlib = pytest.importorskip("jaxlib", reason="jax is not installed")
    if not hasattr(pytest.importorskip("jaxlib._jax", reason="an older jaxlib"), "mlir"):
        pytest.skip(f"jaxlib {jaxlib.__version__} has no mlir in _jax")
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "PYTHONPATH": str(_ROOT),
    }
    command = [sys.executable, str(_SCRIPT)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found) == 10
    for name, case in found.items():
        assert not case["refused"], name
        assert not case["gaps"], name
        assert case["found"] == case["wanted"] != case["unchanged"], name
