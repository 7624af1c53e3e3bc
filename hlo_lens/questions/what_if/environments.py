"""Virtual environments with other versions of jax: the versions there are, and runs in them.

Pip names the versions, by the package index that it is set to.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from hlo_lens.questions.what_if.compiling import Compilation, run_process
from hlo_lens.text.errors import MissingPackageError, UsageError
from hlo_lens.text.user_cache import ENVIRONMENTS, cache_folder

_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_REQUIREMENT = re.compile(r"(jax|jaxlib|libtpu)==([\w.]+)")


def version_key(version: str) -> tuple[int, ...]:
    """Return the key that orders releases: ``0.9.0.1`` is after ``0.9.0``, ``0.10`` after both."""
    return tuple(int(word) for word in re.findall(r"\d+", version))


def named_versions(option: str, text: str) -> dict[str, str]:
    """Return the versions of jax, jaxlib and libtpu that an option names.

    >>> named_versions("--with", "jax==0.10.2,libtpu==0.0.51")
    {'jax': '0.10.2', 'libtpu': '0.0.51'}

    Raises:
        UsageError: If these are no versions of jax, jaxlib or libtpu.
    """
    matches = [_REQUIREMENT.fullmatch(word) for word in re.split(r"[,\s]+", text) if word]
    named = {match[1]: match[2] for match in matches if match is not None}
    if not matches or None in matches:
        raise UsageError(f"{option} {text!r}: write 'jax==0.9.2' or 'jax==0.10.2,libtpu==0.0.51'")
    return named


def released_versions(package: str) -> tuple[str, ...]:
    """Return the releases of a package that have wheels, the oldest first.

    Raises:
        MissingPackageError: If the index cannot be reached.
    """
    pip = ("pip", "index", "versions", "--only-binary=:all:", "--ignore-requires-python")
    run = _run([sys.executable, "-m", *pip, "--retries=1", package], minutes=2)
    listed = re.search(r"Available versions: (.*)", run)
    if listed is None:
        raise MissingPackageError(f"the package index cannot be read: {_last_lines(run, 1)}")
    versions = [one for one in listed[1].split(", ") if _RELEASE.fullmatch(one)]
    return tuple(sorted(versions, key=version_key))


_COMPLETE = "complete"
"""File of a finished environment: what was installed."""

_MINUTES = 20
_NO_NETWORK = re.compile(
    "NewConnectionError|NameResolutionError|ConnectTimeout|Network is unreachable|ProxyError"
    "|Temporary failure in name resolution|Max retries exceeded"
)
_PYTHONS = tuple(f"python3.{k}" for k in range(15, 8, -1) if k != sys.version_info[1])
"""Interpreters that are tried after this one."""

_DONE = "\nexit code 0"
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
    named = named_versions("--with", text)
    if "jax" not in named:
        raise UsageError(f"--with {text!r}: name a version of jax, such as jax==0.9.2")
    jax = named["jax"]
    packages = [f"jax=={jax}", f"jaxlib=={named.get('jaxlib', jax)}"]
    if jax.startswith("0.4."):
        packages.append("numpy<2")  # which these versions do not exclude
    if backend == "tpu":
        packages.append(f"libtpu=={named['libtpu']}" if "libtpu" in named else f"jax[tpu]=={jax}")
    if backend == "gpu":
        packages += [f"jax-cuda12-plugin=={jax}", f"jax-cuda12-pjrt=={jax}"]
        packages.append("nvidia-cuda-nvcc-cu12")
    return tuple(packages)


def environment_python(text: str, backend: str) -> str:
    """Return the interpreter of the environment with versions such as ``jax==0.9.2``.

    Raises:
        UsageError: If `text` names no version of jax.
        MissingPackageError: If it cannot be made: no network, or no Python that it supports.
    """
    packages = requirements(text, backend)
    name = re.sub(r"[^\w.]+", "-", "_".join([p for p in packages if "==" in p][:3]))
    home = cache_folder(ENVIRONMENTS, f"{name}_{backend}"[:120])
    with _lock:
        if not (home / _COMPLETE).is_file():
            _make(home, packages)
    return str(home / "bin" / "python")


def _make(home: Path, packages: tuple[str, ...]) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    pip = (str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--retries=1")
    install = (*pip, "--only-binary=jaxlib,libtpu,numpy,scipy,ml_dtypes", *packages)
    tried = []
    for python in filter(None, (sys.executable, *map(shutil.which, _PYTHONS))):
        log = _run((python, "-m", "venv", "--clear", str(home)))
        log = _run(install) if log.endswith(_DONE) else log
        if log.endswith(_DONE):
            (home / _COMPLETE).write_text("\n".join(packages), encoding="utf-8")
            return
        shutil.rmtree(home, ignore_errors=True)
        if _NO_NETWORK.search(log):
            raise MissingPackageError(
                f"{packages[0]} is not in the cache, and the package index cannot be reached"
            )
        tried.append(f"{python}: {_last_lines(log, 1)}")
    raise MissingPackageError(f"{' '.join(packages)}: {'; '.join(tried)}")


def _run(command: Sequence[str], minutes: float = _MINUTES) -> str:
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60 * minutes,
            check=False,
            cwd=tempfile.gettempdir(),
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return f"{run.stdout}\n{run.stderr}\nexit code {run.returncode}"


def _last_lines(log: str, count: int) -> str:
    lines = [line for line in log.splitlines() if line.strip() and "exit code" not in line]
    return " ".join(lines[-count:])[:400]


def scripted(command: Sequence[str], *, python: str, folder: Path, minutes: float) -> Compilation:
    """Run a command that compiles programs with the ``python`` of an environment.

    The empty `folder` gets dump and log; ``XLA_FLAGS`` of the user are kept.
    """
    dump, home = folder / "dump", Path(python).parent
    dump.mkdir(parents=True)
    flags = f"--xla_dump_to={dump} --xla_dump_hlo_as_text"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"} | {
        "PATH": os.pathsep.join([str(home), os.environ.get("PATH", "")]),
        "VIRTUAL_ENV": str(home.parent),
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(),
    }
    program = shutil.which(command[0], path=env["PATH"]) or command[0]
    try:
        run = run_process([program, *command[1:]], env, folder / "log.txt", minutes)
    except OSError as error:
        return Compilation(dump=dump, step="import", error=f"{program}: {error}")
    problem = run.limit or (run.last_words if run.code else "")
    if not problem and not any(dump.iterdir()):
        problem = "it wrote no dump; it may have found its programs in the compilation cache of jax"
    step = "command" if problem else ""
    return Compilation(dump=dump, seconds=run.seconds, step=step, error=problem)
