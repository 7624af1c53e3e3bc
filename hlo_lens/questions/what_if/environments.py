"""Virtual environments with other versions of jax: the versions there are, and runs in them.

The index is that of pip: ``PIP_INDEX_URL``, ``pip config``, else PyPI, read as JSON (PEP 691).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from hlo_lens.questions.what_if.compiling import Compilation, run_process
from hlo_lens.text.errors import MissingPackageError, UsageError
from hlo_lens.text.user_cache import ENVIRONMENTS, cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# ---- versions ----------------------------------------------------------------------------------

_PYPI = "https://pypi.org/simple"
_TYPE = "application/vnd.pypi.simple.v1+json"
_SECONDS = 30
_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_MOST_BYTES = 1 << 26
_REQUIREMENT = re.compile(r"(jax|jaxlib|libtpu)==([\w.]+)")


class NoIndexError(Exception):
    """The package index cannot be reached, or has no such package."""


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


def _in_order(versions: Iterable[str]) -> tuple[str, ...]:
    """Return the releases among some versions, each once, the oldest first."""
    return tuple(sorted({one for one in versions if _RELEASE.fullmatch(one)}, key=version_key))


def released_versions(package: str) -> tuple[str, ...]:
    """Return the releases of a package that have wheels and are not yanked, the oldest first.

    Raises:
        NoIndexError: If the index cannot be reached.
    """
    names = [str(file.get("filename", "")) for file in _listing(package) if not file.get("yanked")]
    wheels = (name.removesuffix(".whl").split("-") for name in names if name.endswith(".whl"))
    return _in_order(words[1] for words in wheels)


@cache
def _listing(package: str) -> tuple[dict[str, object], ...]:
    """Return the files of a package."""
    import ssl  # slow to import, as the next
    import urllib.request

    url = os.environ.get("PIP_INDEX_URL", "")
    if not url:
        command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            url = run.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            url = ""
    page = f"{(url or _PYPI).rstrip('/')}/{package}/"
    if not page.startswith(("https:", "http:")):
        raise NoIndexError(f"the package index {page} is not on the network")
    request = urllib.request.Request(page, headers={"Accept": _TYPE})
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS, context=context) as answer:
            data = json.loads(answer.read(_MOST_BYTES))
        return tuple(dict(one) for one in data["files"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise NoIndexError(f"the package index cannot be read: {error}") from error


def cached_versions(package: str, backend: str) -> tuple[str, ...]:
    """Return the versions of a package in finished environments for a backend, the oldest first."""
    files = cache_folder(ENVIRONMENTS).glob(f"*_{backend}/{_COMPLETE}")
    lines = (line for file in files for line in file.read_text("utf-8", "replace").splitlines())
    pairs = (line.strip().partition("==") for line in lines)
    return _in_order(version for name, _, version in pairs if name == package)


# ---- environments ------------------------------------------------------------------------------

_COMPLETE = "complete"
"""File of a finished environment: what was installed."""

_MINUTES = 20
_NO_NETWORK = re.compile(
    "NewConnectionError|NameResolutionError|ConnectTimeout|Network is unreachable|ProxyError"
    "|Temporary failure in name resolution|Max retries exceeded"
)
_WRONG_PYTHON = re.compile(
    "No matching distribution|requires a different Python|Requires-Python|not a supported wheel"
)
_MINORS = range(15, 8, -1)
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
    named = named_versions("--with", text)
    if "jax" not in named:
        raise UsageError(f"--with {text!r}: name a version of jax, such as jax==0.9.2")
    jax = named["jax"]
    packages = [f"jax=={jax}", f"jaxlib=={named.get('jaxlib', jax)}"]
    if jax.startswith("0.4."):
        packages.append("numpy<2")  # which these versions do not exclude
    if backend == "tpu":
        libtpu = named.get("libtpu")
        packages.append(f"libtpu=={libtpu}" if libtpu else f"jax[tpu]=={jax}")
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
    with _lock:
        if not (home / _COMPLETE).is_file():
            _make(home, packages)
    return str(home / "bin" / "python")


def _make(home: Path, packages: tuple[str, ...]) -> None:
    """Make an environment with the first Python that the packages support."""
    home.parent.mkdir(parents=True, exist_ok=True)
    tried = []
    for python in _pythons():
        shutil.rmtree(home, ignore_errors=True)
        log = _installed(python, home, packages)
        if log is None:
            (home / _COMPLETE).write_text("\n".join(packages), encoding="utf-8")
            return
        shutil.rmtree(home, ignore_errors=True)
        if _NO_NETWORK.search(log):
            raise MissingPackageError(
                f"{packages[0]} is not in the cache, and the package index cannot be reached"
            )
        if not _WRONG_PYTHON.search(log):
            lines = [line for line in log.splitlines() if line.strip()]
            raise MissingPackageError(f"{packages[0]}: {' '.join(lines[-2:])[:400]}")
        run = subprocess.run([python, "-V"], capture_output=True, text=True, check=False)
        tried.append(run.stdout.strip() or python)
    raise MissingPackageError(
        f"{' '.join(packages)}: no such versions, or none for a Python of this machine "
        f"({', '.join(tried) or 'none found'})"
    )


def _installed(python: str, home: Path, packages: tuple[str, ...]) -> str | None:
    """Install packages into a new environment; return pip's messages, None if all is well."""
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--retries=1"]
    binary = "--only-binary=jaxlib,libtpu,numpy,scipy,ml_dtypes"
    for step in ([python, "-m", "venv", str(home)], [*pip, binary, *packages]):
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
    yield sys.executable
    for minor in (one for one in _MINORS if one != sys.version_info[1]):
        names = [shutil.which(f"python3.{minor}")]
        names += map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        code = f"import sys, venv, ensurepip; sys.exit(sys.version_info[1] != {minor})"
        for name in filter(None, names):
            if not subprocess.run([name, "-c", code], capture_output=True, check=False).returncode:
                yield name
                break


def scripted(command: Sequence[str], *, python: str, folder: Path, minutes: float) -> Compilation:
    """Run a command that compiles programs and return its dump.

    ``python`` of the command is that of the environment; ``XLA_FLAGS`` of the user are kept.

    Args:
        command: The command and its arguments.
        python: Interpreter of the environment.
        folder: Empty folder for the dump and the log.
        minutes: Longest time of the run.
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
