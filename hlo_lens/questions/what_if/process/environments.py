"""Virtual environments with other versions of jax: the versions there are, and runs in them.

The index is that of pip: ``PIP_INDEX_URL``, ``pip config``, else PyPI, read as JSON (PEP 691).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from hlo_lens.questions.what_if.process.cache import ENVIRONMENTS, cache_folder
from hlo_lens.questions.what_if.process.process import Compilation, Limits, last_words, wait
from hlo_lens.text.errors import MissingPackageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


_PYPI = "https://pypi.org/simple"
_TYPE = "application/vnd.pypi.simple.v1+json"
_SECONDS = 30
_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_MOST_BYTES = 1 << 26


class NoIndexError(Exception):
    """The package index cannot be reached, or has no such package."""


def version_key(version: str) -> tuple[int, ...]:
    """Return the key that orders releases: ``0.9.0.1`` is after ``0.9.0``, ``0.10`` after both."""
    return tuple(int(word) for word in re.findall(r"\d+", version))


def released_versions(package: str) -> tuple[str, ...]:
    """Return the releases of a package that have wheels and are not yanked, the oldest first.

    Raises:
        NoIndexError: If the index cannot be reached.
    """
    files = _listing(package)
    found = set()
    for file in files:
        name = str(file.get("filename", ""))
        parts = name.removesuffix(".whl").split("-")
        if name.endswith(".whl") and not file.get("yanked") and _RELEASE.fullmatch(parts[1]):
            found.add(parts[1])
    return tuple(sorted(found, key=version_key))


@cache
def _listing(package: str) -> tuple[dict[str, object], ...]:
    """Return the files of a package."""
    request = urllib.request.Request(
        f"{_index_url().rstrip('/')}/{package}/", headers={"Accept": _TYPE}
    )
    if not request.full_url.startswith(("https:", "http:")):
        raise NoIndexError(f"the package index {request.full_url} is not on the network")
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS, context=context) as answer:
            data = json.loads(answer.read(_MOST_BYTES))
        return tuple(dict(one) for one in data["files"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise NoIndexError(f"the package index cannot be read: {error}") from error


def _index_url() -> str:
    """Return the URL of pip's index."""
    if url := os.environ.get("PIP_INDEX_URL"):
        return url
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return _PYPI
    return run.stdout.strip() or _PYPI


def cached_versions(package: str, backend: str) -> tuple[str, ...]:
    """Return the versions of a package in finished environments for a backend, the oldest first."""
    found = set()
    for file in cache_folder(ENVIRONMENTS).glob(f"*_{backend}/complete"):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, version = line.strip().partition("==")
            if name == package and _RELEASE.fullmatch(version):
                found.add(version)
    return tuple(sorted(found, key=version_key))


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


def scripted(command: Sequence[str], *, python: str, folder: Path, limits: Limits) -> Compilation:
    """Run a command that compiles programs and return its dump.

    ``python`` of the command is that of the environment; ``XLA_FLAGS`` of the user are kept.

    Args:
        command: The command and its arguments.
        python: Interpreter of the environment.
        folder: Empty folder for the dump and the log.
        limits: Limits of the run.
    """
    dump, log = folder / "dump", folder / "log.txt"
    dump.mkdir(parents=True)
    flags = f"--xla_dump_to={dump} --xla_dump_hlo_as_text"
    home = str(Path(python).parent)
    env = {
        **os.environ,
        "PATH": os.pathsep.join([home, os.environ.get("PATH", "")]),
        "VIRTUAL_ENV": str(Path(home).parent),
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(),
    }
    env.pop("PYTHONHOME", None)
    program = shutil.which(command[0], path=env["PATH"]) or command[0]
    began = time.monotonic()
    try:
        with log.open("wb") as out:
            process = subprocess.Popen(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
            reason = wait(process, limits)
    except OSError as error:
        return Compilation(dump=dump, versions={}, step="import", error=f"{program}: {error}")
    seconds = round(time.monotonic() - began, 3)
    problem = reason
    if not problem and process.returncode:
        text = log.read_text(encoding="utf-8", errors="replace")
        problem = last_words(text) or f"exit code {process.returncode}"
    if not problem and not any(dump.iterdir()):
        problem = "it wrote no dump; it may have found its programs in the compilation cache of jax"
    step = "command" if problem else ""
    return Compilation(dump=dump, versions={}, seconds=seconds, step=step, error=problem)
