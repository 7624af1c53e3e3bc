"""Virtual environments with other versions of jax, in the cache, made with pip when first used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from hlo_lens.questions.what_if.process.cache import ENVIRONMENTS, cache_folder
from hlo_lens.text.errors import MissingPackageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_REQUIREMENT = re.compile(r"(jax|jaxlib|libtpu)==([\w.]+)")
_MINUTES = 20
_NO_NETWORK = re.compile(
    "NewConnectionError|NameResolutionError|ConnectTimeout|Network is unreachable|ProxyError"
    "|Temporary failure in name resolution|Max retries exceeded"
)
_WRONG_PYTHON = re.compile(
    "No matching distribution|requires a different Python|Requires-Python|not a supported wheel"
)
_OLDEST, _NEWEST = 9, 15
"""Minor versions of Python 3 that are searched for."""

_lock = Lock()


def requirements(text: str, backend: str) -> tuple[str, ...]:
    """Return the packages to install for versions that the user names.

    >>> requirements("jax==0.9.2", "gpu")[:3]
    ('jax==0.9.2', 'jaxlib==0.9.2', 'jax-cuda12-plugin==0.9.2')
    >>> requirements("jax==0.10.2,libtpu==0.0.51", "tpu")
    ('jax==0.10.2', 'jaxlib==0.10.2', 'libtpu==0.0.51')

    Raises:
        UsageError: If these are no versions of jax, jaxlib or libtpu.
    """
    named: dict[str, str] = {}
    for word in filter(None, re.split(r"[,\s]+", text)):
        found = _REQUIREMENT.fullmatch(word)
        if found is None:
            raise UsageError(f"--with {text!r}: write 'jax==0.9.2' or 'jax==0.10.2,libtpu==0.0.51'")
        named[found[1]] = found[2]
    if "jax" not in named:
        raise UsageError(f"--with {text!r}: name a version of jax, such as jax==0.9.2")
    jax = named["jax"]
    packages = [f"jax=={jax}", f"jaxlib=={named.get('jaxlib', jax)}"]
    if jax.startswith("0.4."):
        packages.append("numpy<2")  # which these versions do not exclude
    if backend == "tpu":
        known = named.get("libtpu")
        packages = [*packages, f"libtpu=={known}"] if known else [*packages, f"jax[tpu]=={jax}"]
    if backend == "gpu":
        packages += [f"jax-cuda12-plugin=={jax}", f"jax-cuda12-pjrt=={jax}"]
        packages.append("nvidia-cuda-nvcc-cu12")
    return tuple(packages)


def environment_python(text: str, backend: str) -> str:
    """Return the interpreter of the environment with some versions, making it if there is none.

    Args:
        text: Versions, such as ``jax==0.9.2``.
        backend: Backend whose packages are needed.

    Raises:
        UsageError: If `text` names no version of jax.
        MissingPackageError: If it cannot be made: no network, or no Python that it supports.
    """
    packages = requirements(text, backend)
    name = re.sub(r"[^\w.]+", "-", "_".join([p for p in packages if "==" in p][:3]))
    home = cache_folder(ENVIRONMENTS, f"{name}_{backend}"[:120])
    python = home / "bin" / "python"
    with _lock:
        if not (home / "complete").is_file():
            _make(home, packages)
    return str(python)


def _make(home: Path, packages: tuple[str, ...]) -> None:
    """Make an environment with the first Python that the packages support."""
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    tried = []
    for python in _pythons():
        log = _installed(python, home, packages)
        if log is None:
            (home / "complete").write_text("\n".join(packages), encoding="utf-8")
            return
        shutil.rmtree(home, ignore_errors=True)
        if _NO_NETWORK.search(log):
            raise MissingPackageError(
                f"{packages[0]} is not in the cache, and the package index cannot be reached"
            )
        if not _WRONG_PYTHON.search(log):
            lines = [line for line in log.splitlines() if line.strip()]
            raise MissingPackageError(f"{packages[0]}: {' '.join(lines[-2:])[:400]}")
        tried.append(_version_of(python))
    raise MissingPackageError(
        f"{' '.join(packages)}: no such versions, or none for a Python of this machine "
        f"({', '.join(tried) or 'none found'})"
    )


def _installed(python: str, home: Path, packages: tuple[str, ...]) -> str | None:
    """Install packages into a new environment; return pip's messages, None if all is well."""
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    pip.append("--only-binary=jaxlib,libtpu,numpy,scipy,ml_dtypes")
    steps = ([python, "-m", "venv", str(home)], [*pip, "--retries=1", *packages])
    for step in steps:
        try:
            run = subprocess.run(
                step,
                capture_output=True,
                text=True,
                timeout=60 * _MINUTES,
                check=False,
                cwd=tempfile.gettempdir(),
                env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if run.returncode:
            return f"{run.stdout}\n{run.stderr}"
    return None


def _pythons() -> Iterator[str]:
    """Yield the interpreters of this machine, one of each version, this one first."""
    known = {sys.version_info[1]}
    yield sys.executable
    for minor in range(_NEWEST, _OLDEST - 1, -1):
        found = _python_of(minor)
        if minor not in known and found is not None:
            yield found


def _version_of(python: str) -> str:
    run = subprocess.run([python, "-V"], capture_output=True, text=True, check=False)
    return run.stdout.strip() or python


@cache
def _python_of(minor: int) -> str | None:
    """Return an interpreter of a minor version of Python 3; None if there is none."""
    names = [shutil.which(f"python3.{minor}")]
    names += map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
    code = f"import sys, venv, ensurepip; sys.exit(sys.version_info[1] != {minor})"
    for name in filter(None, names):
        run = subprocess.run([name, "-c", code], capture_output=True, check=False)
        if run.returncode == 0:
            return name
    return None
