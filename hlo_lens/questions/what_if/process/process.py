"""Process that compiles a program: its limits, its result, and the cache of results."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from hlo_lens.questions.what_if.process.cache import COMPILES, USED, bound_compiles, cache_folder
from hlo_lens.questions.what_if.process.request import WORKER, CompileRequest
from hlo_lens.text.errors import MissingPackageError, OutputError

_MINUTES = 30.0
_POLL_SECONDS = 0.1
_DUMP_FLAGS = "--xla_dump_hlo_as_text"
_SCRATCH = re.compile(
    r"\.(?:ll|o|ptx|s|html|dot|cubin|bc)$|kernel_module|pre-optimization|post-|^before\.hlo"
)
"""Files of generated code, which no command reads."""

_TOOLCHAIN = """
import importlib.metadata as m
for n in ("jax", "jaxlib", "libtpu", "jax-cuda12-pjrt", "jax-cuda13-pjrt", "nvidia-cuda-nvcc-cu12"):
    try: print(n, m.version(n))
    except m.PackageNotFoundError: pass
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one compile.

    Attributes:
        minutes: Longest time.
        memory_bytes: Most resident memory; None for four fifths of the machine's.
    """

    minutes: float = _MINUTES
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Outcome of a compile.

    Attributes:
        dump: Folder of the new dump; it has texts also of some compiles that failed.
        versions: Versions of the packages that compiled.
        memory_analysis: Byte figures of the executable, as jax names them.
        device_kind: Device that it was compiled for, in the words of the backend.
        devices: Devices of the target.
        seconds: Seconds that the process took, whether now or when it was cached.
        dropped_attributes: Attributes of the text that the parser of this version does not know.
        step: Step that failed: ``import``, ``parse``, ``target``, ``options``, ``compile``, or
            ``stopped`` where the process ended; empty where all is well.
        error: Error message; empty where all is well.
        is_cached: Whether it was compiled by an earlier command.
    """

    dump: Path
    versions: Mapping[str, str]
    memory_analysis: Mapping[str, int] = field(default_factory=dict)
    device_kind: str = ""
    devices: int = 0
    seconds: float = 0.0
    dropped_attributes: Sequence[str] = ()
    step: str = ""
    error: str = ""
    is_cached: bool = False

    @property
    def is_done(self) -> bool:
        """Whether it was compiled."""
        return not self.error


@cache
def toolchain_of(python: str) -> str:
    """Return the packages of a Python interpreter that compile, with versions, one per line.

    Raises:
        MissingPackageError: If it has no jax, or cannot be run.
    """
    try:
        run = subprocess.run(
            [python, "-c", _TOOLCHAIN], capture_output=True, text=True, timeout=60, check=True
        )
    except OSError as error:
        raise MissingPackageError(f"{python}: cannot be run: {error.strerror}") from error
    except subprocess.SubprocessError as error:
        raise MissingPackageError(f"{python}: cannot be run: {error}") from error
    if "jaxlib " not in run.stdout:
        raise MissingPackageError(
            f"jax is not installed for {python}, and compiling needs it: "
            "pip install 'hlo-lens[jax]'"
        )
    return run.stdout.strip()


def compiled(
    request: CompileRequest, *, python: str = sys.executable, limits: Limits | None = None
) -> Compilation:
    """Return the outcome of a compile, from the cache if it was done before.

    Outcomes that depend on the limits are not cached.

    Raises:
        MissingPackageError: If the interpreter has no jax.
        OutputError: If the cache cannot be written.
    """
    home = cache_folder(COMPILES, request.digest(toolchain_of(python)))
    if (known := _read(home)) is not None:
        with contextlib.suppress(OSError):
            os.utime(home / USED)
        return known
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="new-", dir=home.parent))
    except OSError as error:
        raise OutputError(f"{home.parent}: cannot be written: {error.strerror}") from error
    try:
        outcome = _run(request, folder, python, limits or Limits())
        (folder / USED).write_text(json.dumps(outcome), encoding="utf-8")
        _prune(folder)
        if outcome.get("step") != "stopped":
            _keep(folder, home)
            folder = home
            bound_compiles(home)
        found = _read(folder)
        assert found is not None  # it was just written
        return replace(found, is_cached=False)
    finally:
        if folder != home:
            shutil.rmtree(folder, ignore_errors=True)


def _keep(folder: Path, home: Path) -> None:
    """Make a folder the cached outcome, unless another process was faster."""
    try:
        folder.rename(home)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def _read(folder: Path) -> Compilation | None:
    """Return the outcome in a folder; None if there is none that can be read."""
    try:
        data = json.loads((folder / USED).read_text(encoding="utf-8"))
        return Compilation(dump=folder / "dump", is_cached=True, **data)
    except (OSError, ValueError, TypeError):
        return None


def _run(request: CompileRequest, folder: Path, python: str, limits: Limits) -> dict[str, object]:
    """Run the worker; return the fields of the outcome."""
    file, result, log = request.written(folder), folder / "result.json", folder / "log.txt"
    (folder / "dump").mkdir()
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [python, str(WORKER), str(file), str(result)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=_environment(request, folder),
            cwd=folder,
            start_new_session=True,
        )
        reason = wait(process, limits)
    seconds = round(time.monotonic() - began, 3)
    text = log.read_text(encoding="utf-8", errors="replace")
    if reason or not result.is_file():
        shown = reason or last_words(text) or f"exit code {process.returncode}"
        return {"versions": {}, "seconds": seconds, "step": "stopped", "error": shown}
    data: dict[str, object] = json.loads(result.read_text(encoding="utf-8"))
    data.pop("compile_seconds", None)
    if data.get("step") == "compile":
        (folder / "error.txt").write_text(str(data["error"]), encoding="utf-8")
    return {**data, "seconds": seconds}


def _environment(request: CompileRequest, folder: Path) -> dict[str, str]:
    """Return the variables of the process: the user's without those that change a compile."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("XLA_", "JAX_", "LIBTPU_", "TPU_", "TF_", "PYTHON"))
    }
    devices = request.replicas * request.partitions if request.backend == "cpu" else 1
    flags = [f"--xla_dump_to={folder / 'dump'}", _DUMP_FLAGS]
    flags.append(f"--xla_force_host_platform_device_count={devices}")
    return {
        **kept,
        "XLA_FLAGS": " ".join(flags),
        "JAX_PLATFORMS": "cpu",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def wait(process: subprocess.Popen[bytes], limits: Limits) -> str:
    """Wait for a process; end it at a limit and return which one, else an empty text."""
    most = limits.memory_bytes or _machine_bytes() * 4 // 5
    until = time.monotonic() + limits.minutes * 60
    try:
        while True:
            try:
                process.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            else:
                return ""
            if time.monotonic() > until:
                return f"it took longer than {limits.minutes:g} minutes (--minutes)"
            if most and _resident_bytes(process.pid) > most:
                return f"it took more than {most >> 20:,} MiB of this machine's memory"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _machine_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


def _resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 where the system does not tell."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


_FATAL = re.compile(r"^F\d{4} |Check failed|LLVM ERROR|Fatal Python error|Aborted", re.MULTILINE)


def last_words(log: str) -> str:
    """Return the line of a log that says why a process ended; empty if there is none."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    fatal = [line for line in lines if _FATAL.search(line)]
    return (fatal or lines or [""])[0 if fatal else -1][:400]


def _prune(folder: Path) -> None:
    """Delete generated code, which is most of the bytes, and the program's copy."""
    for file in (folder / "dump").rglob("*"):
        if file.is_file() and _SCRATCH.search(file.name):
            file.unlink()
    for name in ("program.txt", "program.hlo.pb", "result.json"):
        (folder / name).unlink(missing_ok=True)


def side_by_side() -> int:
    """Return the number of compiles that run at once; each takes most of two cores."""
    if not hasattr(os, "sched_getaffinity"):
        return 1
    return max(1, len(os.sched_getaffinity(0)) // 2)
