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
from typing import TYPE_CHECKING

from hlo_lens.load import load
from hlo_lens.questions.what_if.process.cache import COMPILES, USED, bound_compiles, cache_folder
from hlo_lens.questions.what_if.process.requests import WORKER, CompileRequest
from hlo_lens.render.result import sum_of
from hlo_lens.text.dump_kinds import AFTER
from hlo_lens.text.errors import HloLensError, MissingPackageError, OutputError
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.load.devices import Target
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.what_if.process.requests import SourceProgram


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


_CHANGE_LIST = re.compile(r"\.cl_(\d+)\b")
_PACKAGES = {
    "cpu": ("jax", "jaxlib"),
    "tpu": ("jax", "jaxlib", "libtpu"),
    "gpu": ("jax", "jaxlib", "jax-cuda12-pjrt", "jax-cuda13-pjrt", "nvidia-cuda-nvcc-cu12"),
}
_FAILED = {
    "import": "jax cannot be imported",
    "parse": "XLA cannot read the program's text",
    "target": "no devices of this target",
    "options": "an option was refused",
    "compile": "XLA refused the program",
    "stopped": "XLA's compiler stopped",
}
_MISSING_PACKAGES = {
    "JAX TPU support not installed": "libtpu is not installed with the jax that compiles: "
    "pip install 'jax[tpu]', or name a Python that has it with --python",
    "topology not implemented for cuda": "the CUDA plugin is not installed with the jax that "
    "compiles: pip install 'jax[cuda12]', or name a Python that has it with --python",
}
"""Part of an error of JAX to what is missing and how to get it."""

_FIRST_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A program compiled again.

    Attributes:
        compilation: The compile.
        module: The module in the new dump, at its latest stage; None if there is none.
    """

    compilation: Compilation
    module: ModuleDump | None

    @property
    def refusal(self) -> str:
        """Why there are no figures; empty if there are."""
        made = self.compilation
        if made.is_done:
            return "" if self.module is not None else "the new dump has no optimized text"
        for part, text in _MISSING_PACKAGES.items():
            if made.step == "target" and part in made.error:
                return text
        lines = [line.strip() for line in made.error.splitlines() if line.strip()]
        return f"{_FAILED.get(made.step, made.step)}: {' '.join(lines[:_FIRST_LINES])}"

    def versions(self, target: Target | None) -> Mapping[str, str]:
        """Return the versions of the packages that compile for a target."""
        names = _PACKAGES["cpu" if target is None else target.backend]
        known = self.compilation.versions
        return {name: known[name] for name in names if name in known}

    def is_same_compiler(self, dump: ModuleDump) -> bool:
        """Whether nothing shows that another compiler made a dump."""
        ours = None if self.module is None else change_list(self.module)
        theirs = change_list(dump)
        return ours is None or theirs is None or ours == theirs

    def notes(self, program: SourceProgram | None) -> Iterator[str]:
        """Yield the limits of the answer."""
        dropped = self.compilation.dropped_attributes
        if dropped:
            names = ", ".join(dropped)
            yield f"attributes that this parser of XLA does not know were left out: {names}"
        if program is not None and program.has_elided_constants:
            yield (
                "the text leaves out the values of large constants; XLA compiled others in their "
                "place (--xla_dump_hlo_as_proto keeps them)"
            )


def new_module(made: Compilation, name: str) -> ModuleDump | None:
    """Return the optimized module of a name in a new dump; None if there is none."""
    if not made.is_done:
        return None
    try:
        found = load(made.dump).modules
    except HloLensError:
        return None
    own = [one for one in found if (one.stage or "").endswith(AFTER)]
    named = [one for one in own if one.title == name]
    return next(reversed(named or own), None)


def change_list(dump: ModuleDump) -> str | None:
    """Return the change list of libtpu in the names of a dump's files; None for others."""
    names = (Path(file).name for file in dump.files)
    return next((match[1] for name in names if (match := _CHANGE_LIST.search(name))), None)


_OPTION = re.compile(r"(?m)^\s*(xla_\w+|\w*tpu_\w+): (\S.*)$")
_UNIMPORTANT = re.compile(r"xla_dump_|xla_force_host|xla_gpu_cuda_data_dir|.*(?:cache|_dir|path)")
OPTION_TEXTS = ("debug_options", "tpu_comp_env.txt")
"""Texts of a dump that print options of XLA."""


def dumped_flags(dump: ModuleDump, again: ModuleDump) -> dict[str, str]:
    """Return the flags of a dump that its program, compiled again, was compiled without.

    Options that are printed more than once, files and places are left out.
    """
    found: dict[str, str] = {}
    for name in OPTION_TEXTS:
        theirs, ours = dump.setting(name), again.setting(name)
        if theirs is None or ours is None:
            continue
        known = options_of(ours)
        found |= {key: v for key, v in options_of(theirs).items() if known.get(key) != v}
    return found


def options_of(text: str) -> dict[str, str]:
    """Return the options that a text prints once, without files and places."""
    pairs = [(key, value.strip().strip('"')) for key, value in _OPTION.findall(text)]
    names = [key for key, _ in pairs]
    once = {name for name in names if names.count(name) == 1}
    return {k: v for k, v in pairs if k in once and not _UNIMPORTANT.match(k)}


def reasons(dump: ModuleDump, again: Again, program: SourceProgram | None) -> tuple[str, ...]:
    """Return what is known to differ between a dump and its program compiled again."""
    found = []
    theirs = change_list(dump)
    ours = None if again.module is None else change_list(again.module)
    if theirs is not None and ours is not None and theirs != ours:
        found.append(f"libtpu cl {theirs} in the dump, cl {ours} here")
    elif theirs is None:
        found.append("the dump does not name its version of XLA")
    if dump.setting("debug_options") is None:
        found.append("the dump does not hold its options (debug_options)")
    if program is not None and program.has_elided_constants:
        found.append("large constants are left out of the text")
    dropped = again.compilation.dropped_attributes
    if dropped:
        found.append(f"{plural(len(dropped), 'attribute')} of the text not known to this XLA")
    return tuple(found)


def shortage(made: Compilation) -> tuple[tuple[str, str], ...]:
    """Return the figures of XLA's message that a program does not fit; none for others."""
    if made.step != "compile":
        return ()
    from hlo_lens.logs.log import parse_log

    log = parse_log(made.error, may_be_empty=True, path="XLA's message")
    if not log.compile_ooms:
        return ()
    one = log.compile_ooms[0]
    used = " and ".join(str(size) for size in one.used)
    facts = [(f"{one.memory_space} {one.used_for or 'used'}", used)] if used else []
    if one.capacity is not None:
        facts.append(("available", str(one.capacity)))
    if one.exceeded is not None:
        facts.append(("too much", str(one.exceeded)))
    facts += [(part.name, str(part.size)) for part in one.usage if part.size is not None]
    facts += [(part.name, str(part.size)) for part in one.parts if part.size is not None]
    return tuple(facts) or (("memory", one.memory_space),)


def needed_bytes(made: Compilation) -> int | None:
    """Return the bytes that XLA's message says a program needs, at most; None for others."""
    if made.step != "compile":
        return None
    from hlo_lens.logs.log import parse_log

    log = parse_log(made.error, may_be_empty=True, path="XLA's message")
    used = [size.at_most for one in log.compile_ooms[:1] for size in one.used]
    return sum_of(used) if used else None
