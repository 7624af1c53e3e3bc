"""The recipes of the handbook compile without the hardware, and their dumps can be read."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hlo_lens import load
from hlo_lens.questions.dumps.listing import listing_facts
from tests.corpus import SAMPLES
from tests.docs.documents import MANUAL
from tests.timing import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK = re.compile(r"```python\n# (compile_for_\w+\.py).*?\n(.*?)```", re.DOTALL)
_TOPOLOGY = re.compile(
    r"^topology = topologies\.get_topology_desc\(.*?\)$", re.DOTALL | re.MULTILINE
)


def recipes() -> dict[str, str]:
    """Return the scripts of the handbook, that for GPU with the lines it changes in their place."""
    found = dict(_BLOCK.findall((MANUAL / "dumping.md").read_text("utf-8")))
    tpu, gpu = found["compile_for_tpu.py"], found["compile_for_gpu.py"]
    return {"tpu": tpu, "gpu": _TOPOLOGY.sub(lambda _: gpu.strip(), tpu, count=1)}


def run_recipe(backend: str, folder: Path) -> Path:
    """Run a recipe in a folder and return the folder of its dump; retry a busy libtpu."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "TPU_"))}
    script = recipes()[backend].replace("sample_dumps/", f"{SAMPLES}/")
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=folder,
            env=inherited,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        if done.returncode == 0 or "lockfile" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "dump"


def has(package: str) -> bool:
    """Whether a package is installed."""
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def test_recipes_are_in_the_handbook() -> None:
    assert set(recipes()) == {"tpu", "gpu"}
    assert 'platform="cuda"' in recipes()["gpu"]
    assert 'platform="tpu"' not in recipes()["gpu"]
    for script in recipes().values():
        compile(script, "recipe", "exec")


@pytest.mark.parametrize(("backend", "package"), [("tpu", "libtpu"), ("gpu", "jax-cuda12-plugin")])
def test_recipe_compiles_without_the_hardware(backend: str, package: str, tmp_path: Path) -> None:
    if not has(package):
        pytest.skip(f"{package} is not installed")
    dump = load(run_recipe(backend, tmp_path))
    (step,) = [m for m in dump.modules if "train_step" in m.name]
    facts = listing_facts(step)
    assert (facts.backend, facts.partitions, facts.problem) == (backend, 8, None)
    # x @ w and the gradient of w, over eight devices
    assert facts.flops == 2 * 2 * 512 * 1024 * 4096 // 8
    assert facts.peak_bytes is not None
    assert step.hlo is not None
    assert len(step.hlo.input_output_alias) == 1
