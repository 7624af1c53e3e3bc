"""One compile of a dump's program, in a process of its own, for any target, without hardware.

A program (`source_program`) and a target make a request (`request_of`); `compiled` finds its
outcome in the user's cache, or runs `worker.py` in a chosen Python interpreter and keeps it there.
Memory and collectives are known long before code is generated; the process ends there (`written`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hlo_lens.load import load
from hlo_lens.load.devices import Target, device_assignment, gpu_topology
from hlo_lens.load.fact import fact
from hlo_lens.program.summary import backend_of_dump, change_list, own_target
from hlo_lens.questions.what_if.edits import TextEdits, is_result_call
from hlo_lens.questions.what_if.worker import toolchain
from hlo_lens.render.result import sum_of
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.dump_kinds import AFTER, BEFORE
from hlo_lens.text.errors import HloLensError, MissingPackageError, OutputError
from hlo_lens.text.units import plural
from hlo_lens.text.user_cache import COMPILES, USED, bound_compiles, cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.shapes.shape import Shape


WORKER = Path(__file__).with_name("worker.py")
"""The script that compiles."""

_TARGET_NAME = re.compile(r'custom_call_target="([^"]*)"')
_PYTHON = re.compile(r"CustomSPMDPartitioning|.*python.*callback.*|.*_callback$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgram:
    """A program from before optimizations, its device ids and the backend that it is for."""

    module: HloModule
    target: Target | None = None
    assignment: tuple[tuple[int, ...], ...] | None = None
    backend: str | None = None

    @property
    def obstacle(self) -> str:
        """Why it cannot be compiled again; empty if nothing is known to prevent it."""
        targets = _TARGET_NAME.findall(self.module.columns.source.text)
        name = next(filter(_PYTHON.match, targets), "")
        if name == "CustomSPMDPartitioning":
            return "it uses custom_partitioning, a Python object of the process that compiled it"
        text = f"it calls back into Python ({name}), into the process that compiled it"
        return text if name else ""


@fact
def source_program(dump: ModuleDump) -> SourceProgram | None:
    """Return the program of a module; None if the dump has no text from before optimizations."""
    module = dump.hlo if dump.stage == BEFORE else dump.before
    if module is None:
        return None
    target, backend, ids = own_target(dump), backend_of_dump(dump), device_assignment(dump)
    return SourceProgram(module=module, target=target, assignment=ids, backend=backend)


CompileRequest: TypeAlias = dict[str, Any]
"""One compile, as `worker.py` reads it in JSON."""


def request_of(
    program: SourceProgram, target: Target, *, flags: Mapping[str, str] | None = None
) -> CompileRequest:
    """Return the request to compile a program, on the devices of its dump if that is its target.

    ``older_text`` is for parsers that cannot read ``text``; ``topology`` the name of the topology,
    or partitions, hosts and devices of a GPU (``1x1x8``). None is for what is not stated: device
    ids by replica and partition, and whether XLA may choose shardings. ``donors`` are the donated
    parameters that no result is named for.
    """
    module, (text, *older) = program.module, _texts_for_xla(program.module)
    sizes = (module.replica_count, module.num_partitions)
    ids = program.assignment if program.target == target else None
    shapes: Sequence[Sequence[Shape]] = ((), ())
    has_host = "S(5)" in module.header.get("entry_computation_layout", "")
    if has_host and (layout := module.entry_computation_layout) is not None:
        shapes = layout.parameters, layout.result.tuple_shapes or (layout.result,)
    is_gpu = target.backend == "gpu"
    return {
        "text": text,
        "older_text": "".join(older),
        "backend": target.backend,
        "topology": gpu_topology(target, sizes[0] * sizes[1]) if is_gpu else target.topology,
        "topology_options": dict(target.options),
        "gpu_config": target.gpu_config,
        "replicas": sizes[0],
        "partitions": sizes[1],
        "assignment": ids if ids is not None and (len(ids), len(ids[0])) == sizes else None,
        "uses_shardy": "xla.sdy" in text or "sharding={mesh[" in text,
        "propagates_to_parameters": _propagates(module, "parameters"),
        "propagates_to_output": _propagates(module, "output"),
        "donors": _donors(module),
        "flags": dict(flags or {}),
        "host_parameters": _in_host_memory(shapes[0]),
        "host_results": _in_host_memory(shapes[1]),
    }


def _texts_for_xla(module: HloModule) -> list[str]:
    """Return the text of a module, from its header on; and one for older parsers, if it differs.

    Shardy does not import the ROOT tuple's sharding where only some results have their own.
    """
    edits, root = TextEdits(module), module.entry.root
    if root is not None and root.opcode == "tuple":
        made = [root.producer(place) for place in range(len(root.operands))]
        own = [one is not None and is_result_call(one[0]) for one in made]
        if any(own) and not all(own):
            edits.line(root).attributes["sharding"] = None
    texts = [edits.text()]
    if re.search(r"sharding=\{mesh\[|[\w.-]#\d", module.columns.source.text):
        _take_elements(edits)
        _number_devices(edits)
        texts.append(edits.text())
    return [text[max(text.find("HloModule"), 0) :] for text in texts]


def _take_elements(edits: TextEdits) -> None:
    """Take elements of tuples (``%w#1``) by instructions, which parsers before 0.11 need."""
    made: dict[tuple[int, str, tuple[int, ...]], str] = {}
    for user in edits.module.instructions:
        for position, operand in enumerate(user.operands):
            source = user.computation.instruction(operand.name) if operand.index else None
            shape, name = None if source is None else source.shape, operand.name
            if source is None or shape is None:
                continue
            for depth, index in enumerate(operand.index, start=1):
                shape = shape.tuple_shapes[index]
                key = user.computation.place, operand.name, operand.index[:depth]
                if key not in made:
                    made[key] = edits.new_name(source)
                    taken, write = edits.reference(made[key]), edits.reference(name)
                    line = f"{taken} = {shape} get-tuple-element({write}), index={index}"
                    edits.line(user).before.append(line)
                name = made[key]
            edits.line(user).operands[position] = name


def _number_devices(edits: TextEdits) -> None:
    """Write shardings that name mesh axes by numbers of devices."""
    for row in edits.module.columns.rows_with_attribute_text("mesh["):
        instruction = edits.module.instruction(row)
        text = instruction.attribute("sharding")
        if text is None or instruction.shape is None:
            continue
        sharding = edits.module.reader.sharding(text)
        leaves = (leaf for _, leaf in instruction.shape.leaves())
        words = []
        for element, leaf in zip(sharding.elements or (sharding,), leaves, strict=False):
            mesh = None if element.named is None else element.named.mesh
            if mesh is not None and (spec := element.to_partition_spec(mesh)) is not None:
                element = HloSharding.from_partition_spec(mesh, spec, rank=leaf.rank)
            words.append(element.text)
        whole = f"{{{', '.join(words)}}}" if sharding.elements else words[0]
        edits.line(instruction).attributes["sharding"] = whole


def _propagates(module: HloModule, which: str) -> tuple[bool, ...] | None:
    value = module.header.get(f"allow_spmd_sharding_propagation_to_{which}")
    return None if value is None else tuple(word == "true" for word in value[1:-1].split(","))


def _donors(module: HloModule) -> tuple[int, ...]:
    """Return the numbers of the arguments in ``buffer_donor``, parts of tuples counted one by one.

    The translation to MLIR makes an argument of each part of a tuple.
    """
    numbers: dict[object, int] = {}
    for one in sorted(module.entry.parameters, key=lambda one: one.parameter_number or 0):
        for index, _ in () if one.shape is None else one.shape.leaves():
            numbers[one.parameter_number, index] = len(numbers)
    return tuple(numbers[one] for one in module.buffer_donor if one in numbers)


_HOST_SPACE = 5


def _in_host_memory(shapes: Sequence[Shape]) -> tuple[int, ...]:
    spaces = [{leaf.memory_space for _, leaf in shape.leaves()} for shape in shapes]
    return tuple(number for number, own in enumerate(spaces) if _HOST_SPACE in own)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Outcome of a compile.

    Attributes:
        dump: Folder of the new dump; it has texts also of some compiles that failed.
        memory_analysis: Byte figures of the executable, as jax names them; empty if not `is_full`.
        is_full: Whether it went on to its end, beyond memory and collectives.
        dropped_attributes: Attributes of the text that the parser of this version does not know.
        step: Step that failed: one of `_FAILED`, or ``missing`` where a package is; else empty.
        module: The module in the new dump, at its latest stage.
        shortage: Figures of XLA's message that the program does not fit: label and text.
        needed_bytes: Bytes that it needs by that message, rounded up.
    """

    dump: Path
    versions: Mapping[str, str] = field(default_factory=dict)
    memory_analysis: Mapping[str, int] = field(default_factory=dict)
    is_full: bool = True
    seconds: float = 0.0
    dropped_attributes: Sequence[str] = ()
    step: str = ""
    error: str = ""
    is_cached: bool = False
    module: ModuleDump | None = None
    shortage: tuple[tuple[str, str], ...] = ()
    needed_bytes: int | None = None

    @property
    def refusal(self) -> str:
        """Why there are no figures; empty if there are."""
        if not self.error:
            return "" if self.module is not None else "the new dump has no optimized text"
        if self.step == "missing":
            return self.error
        lines = filter(None, map(str.strip, self.error.splitlines()))
        return f"{_FAILED.get(self.step, self.step)}: {' '.join(list(lines)[:3])}"

    def versions_for(self, target: Target | None) -> dict[str, str]:
        names = _PACKAGES["cpu" if target is None else target.backend]
        return {name: self.versions[name] for name in names if name in self.versions}

    def is_same_compiler(self, dump: ModuleDump) -> bool:
        """Whether nothing shows that another compiler made a dump."""
        ours = None if self.module is None else change_list(self.module)
        return None in (ours, change_list(dump)) or ours == change_list(dump)

    def differences(self, dump: ModuleDump, program: SourceProgram | None) -> Iterator[str]:
        """Yield what is known to differ between a dump and its program compiled again."""
        theirs = change_list(dump)
        if theirs is None:
            yield "the dump does not name its version of XLA"
        elif self.module is not None and not self.is_same_compiler(dump):
            yield f"libtpu cl {theirs} in the dump, cl {change_list(self.module)} here"
        if dump.setting("debug_options") is None:
            yield "the dump does not hold its options (debug_options)"
        if program is not None and "constant({...})" in program.module.columns.source.text:
            yield "large constants are left out of the text"
        if self.dropped_attributes:
            yield f"{plural(len(self.dropped_attributes), 'attribute')} not known to this XLA"


NOT_COMPILED = Compilation(dump=Path())


def needed_memory(made: Compilation) -> tuple[tuple[tuple[str, str], ...], int | None]:
    """Return the figures of XLA's message that a program does not fit, and the bytes it needs.

    Empty and None for other outcomes; the bytes are rounded up.
    """
    from hlo_lens.logs.log import parse_log  # for few programs

    error = made.error if made.step == "compile" else ""
    log = parse_log(error, may_be_empty=True, path="XLA's message")
    message = next(iter(log.compile_ooms), None)
    if message is None:
        return (), None
    sizes = [("available", message.capacity), ("too much", message.exceeded)]
    sizes += [(part.name, part.size) for part in (*message.usage, *message.parts)]
    facts = [(name, str(size)) for name, size in sizes if size is not None]
    if not message.used:
        return tuple(facts) or (("memory", message.memory_space),), None
    label = f"{message.memory_space} {message.used_for or 'used'}"
    facts.insert(0, (label, " and ".join(map(str, message.used))))
    return tuple(facts), sum_of(size.at_most for size in message.used)


_OPTION = re.compile(r"(?m)^\s*(xla_\w+|\w*tpu_\w+): (\S.*)$")
_UNIMPORTANT = re.compile(
    r"xla_dump_|xla_detailed_logging|xla_force_host|xla_gpu_cuda_data_dir|.*(?:cache|_dir|path)"
)
OPTION_TEXTS = ("debug_options", "tpu_comp_env.txt")
"""Texts of a dump that print options of XLA."""


def dumped_flags(dump: ModuleDump, again: ModuleDump) -> dict[str, str]:
    """Return the flags of a dump that its program, compiled again, was compiled without."""
    texts = [(dump.setting(name), again.setting(name)) for name in OPTION_TEXTS]
    pairs = [(options_of(a), options_of(b)) for a, b in texts if a is not None and b is not None]
    return {k: v for theirs, ours in pairs for k, v in theirs.items() if ours.get(k) != v}


def options_of(text: str) -> dict[str, str]:
    """Return the options that a text prints once, without files and places."""
    pairs = [(key, value.strip().strip('"')) for key, value in _OPTION.findall(text)]
    times = Counter(key for key, _ in pairs)
    return {k: v for k, v in pairs if times[k] == 1 and not _UNIMPORTANT.match(k)}


_POLL_SECONDS = 0.1
_MOST_MEMORY = 0.8
"""Largest share of the machine's memory that a compile may hold."""

_SCRATCH = re.compile(
    r"\.(?:ll|o|ptx|s|html|dot|cubin|bc)$|kernel_module|pre-optimization|post-|^before\.hlo"
)
"""Files of generated code, which no command reads."""

_MISSING = {"tpu": ("libtpu", "tpu"), "gpu": ("the CUDA plugin", "cuda12")}
"""What a backend other than CPU needs, and the extra of jax that brings it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Interpreter whose jax compiles, and limits.

    `minutes` is the longest time of one compile; `until` ends all, by `time.monotonic`; `is_full`
    compiles go on to their end, beyond memory and collectives.
    """

    python: str = sys.executable
    minutes: float = 30.0
    until: float | None = None
    is_full: bool = False

    def __post_init__(self) -> None:
        if Path(self.python).name != self.python:  # compiles run in another folder
            object.__setattr__(self, "python", str(Path(self.python).absolute()))

    def within(self) -> Means:
        """Return the same means with `minutes` for all compiles together, from now on."""
        return replace(self, until=time.monotonic() + 60 * self.minutes)

    @property
    def is_late(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until

    @property
    def minutes_left(self) -> float:
        """Longest time of a compile that begins now."""
        left = math.inf if self.until is None else self.until - time.monotonic()
        return min(self.minutes, max(0.0, left) / 60)


@cache
def toolchain_of(python: str) -> str:
    """Return what a Python interpreter has to compile with, as `worker.toolchain` prints it.

    Raises:
        MissingPackageError: If it has no jax, or cannot be run.
    """
    command = [python, str(WORKER)]
    try:
        own = toolchain() if python == sys.executable else None
        found = own or subprocess.check_output(command, text=True, timeout=60).strip()
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "strerror", None) or error
        raise MissingPackageError(f"{python}: cannot be run: {why}") from error
    if "jaxlib " not in found:
        raise MissingPackageError(
            f"jax is not installed for {python}, and compiling needs it: "
            "pip install 'hlo-lens[jax]'"
        )
    return found


def missing_package(python: str, backend: str) -> str:
    """Return what an interpreter lacks to compile for a backend; empty for nothing.

    Raises:
        MissingPackageError: If it has no jax, or cannot be run.
    """
    if f"can {backend}" in toolchain_of(python) or backend not in _MISSING:
        return ""
    name, extra = _MISSING[backend]
    text = f"{name} is not installed with the jax that compiles: pip install 'jax[{extra}]'"
    return f"{text}, or name a Python that has it with --python"


def compiled(
    request: CompileRequest, means: Means, tick: Callable[[], None] | None = None
) -> Compilation:
    """Return the outcome of a compile, from the cache if it was done before and has its files.

    Outcomes that depend on limits of time and memory are not cached. `tick` is
    called from time to time.

    Raises:
        MissingPackageError: If the interpreter has no jax.
        OutputError: If the cache cannot be written, as on a full disk.
    """
    text = json.dumps(request, sort_keys=True)
    parts = (WORKER.read_bytes(), toolchain_of(means.python).encode(), text.encode())
    home = cache_folder(COMPILES, hashlib.sha256(b"\0".join(parts)).hexdigest()[:32])
    if missing := missing_package(means.python, request["backend"]):
        return Compilation(dump=home, step="missing", error=missing)
    cached = _outcome(home)
    if cached is not None and (cached.is_full or not means.is_full):
        with contextlib.suppress(OSError):
            os.utime(home / USED)
        return cached
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="new-", dir=home.parent) as scratch:
            folder = Path(scratch) / "compile"
            folder.mkdir()
            fields = _worker_result(request, folder, means, tick)
            for file in (folder / "dump").rglob("*"):  # generated code is most of the bytes
                if file.is_file() and _SCRATCH.search(file.name):
                    file.unlink()
            fields["files"] = _contents(folder / "dump")
            (folder / USED).write_text(json.dumps(fields), encoding="utf-8")
            made = _outcome(folder)
            if made is not None and made.step != "stopped":
                if cached is None or means.is_full:
                    shutil.rmtree(home, ignore_errors=True)
                with contextlib.suppress(OSError):  # another process was faster
                    folder.rename(home)
                bound_compiles(home)
                made = _outcome(home)
    except OSError as error:
        raise OutputError(f"{home.parent}: cannot be written: {error.strerror}") from error
    if made is None:
        raise OutputError(f"{home}: is damaged and cannot be replaced")
    return replace(made, is_cached=False)


def _outcome(folder: Path) -> Compilation | None:
    """Return the outcome in a folder; None if there is none, or its files are not as written."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, LookupError):
        fields = json.loads((folder / USED).read_text(encoding="utf-8"))
        if fields.pop("files") == _contents(folder / "dump"):
            return Compilation(dump=folder / "dump", is_cached=True, **fields)
    return None


def _contents(dump: Path) -> dict[str, list[object]]:
    """Return the size and the digest of each file."""
    contents: dict[str, list[object]] = {}
    for file in dump.rglob("*"):
        if file.is_file():
            with file.open("rb") as data:
                digest = hashlib.file_digest(data, "sha256").hexdigest()
            contents[str(file.relative_to(dump))] = [file.stat().st_size, digest]
    return contents


_FULL = "No space left on device"


_SWITCHES = ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "TPU_SKIP_MDS_QUERY", "ALLOW_MULTIPLE_LIBTPU_LOAD"]
_SWITCHES += ["TF_CPP_MIN_LOG_LEVEL", "PYTHONDONTWRITEBYTECODE"]
_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TPU_WORKER_HOSTNAMES": "localhost"}
_ENVIRONMENT |= dict.fromkeys(_SWITCHES, "1")


def _worker_result(
    request: CompileRequest, folder: Path, means: Means, tick: Callable[[], None] | None
) -> dict[str, object]:
    asked, result, log = (folder / n for n in ("request.json", "result.json", "log.txt"))
    asked.write_text(json.dumps(request), encoding="utf-8")
    (folder / "dump").mkdir()
    is_ours = re.compile("XLA_|JAX_|LIBTPU_|TPU_|TF_|PYTHON")  # these change a compile
    devices = request["replicas"] * request["partitions"] if request["backend"] == "cpu" else 1
    flags = f"--xla_dump_to={folder / 'dump'} --xla_dump_hlo_as_text"
    flags += f" --xla_force_host_platform_device_count={devices}"
    env = {name: value for name, value in os.environ.items() if not is_ours.match(name)}
    env |= {"XLA_FLAGS": flags, **_ENVIRONMENT}
    command = [means.python, str(WORKER), str(asked), str(result)]
    seen: list[tuple[object, ...]] = [()]

    def is_known() -> bool:
        """Whether all texts are complete, and the same as a moment ago."""
        if tick is not None:
            tick()
        seen.append(() if means.is_full else written(folder / "dump", request["backend"]))
        return bool(seen[-1]) and seen[-1] == seen[-2]

    run = run_process(command, env, log, means.minutes_left, cwd=folder, until=is_known)
    if _FULL in log.read_text(encoding="utf-8", errors="replace"):
        raise OutputError(f"{folder.parent}: {_FULL.lower()}, and XLA could not write its dump")
    fields: dict[str, object] = {"step": "stopped"}
    with contextlib.suppress(OSError, ValueError):
        fields = json.loads(result.read_text(encoding="utf-8"))
    if run.is_enough:
        fields |= {"step": "", "is_full": False}
    if fields.get("step") == "stopped":
        return {"seconds": run.seconds, "step": "stopped", "error": run.limit or run.last_words}
    asked.unlink()
    result.unlink()
    return {**fields, "seconds": run.seconds}


def written(dump: Path, backend: str) -> tuple[tuple[str, int, int], ...]:
    """Return the texts of a dump on memory and collectives, each with its size and time.

    Empty until all are complete. XLA writes the texts of a stage one after the other and then
    ``debug_options`` again, so that no text of a stage that is older than that is cut. The compiler
    for TPU may try again with less memory until there is a text from after buffer assignment.
    """
    options = list(dump.glob("*.debug_options"))
    if len(options) != 1 or not (last := options[0].stat()).st_size:
        return ()
    prefix = options[0].name.removesuffix("debug_options")
    files = [file for file in sorted(dump.glob(f"*{AFTER}*")) if file.name.startswith(prefix)]
    needed = [f"{AFTER}.txt", f"{AFTER}-buffer-assignment.txt"]
    needed += [f"{AFTER}_after_buffer_assignment.txt"] * (backend == "tpu")
    is_whole = all(any(file.name.endswith(end) for file in files) for end in needed)
    stats = [(file.name, file.stat()) for file in files]
    is_open = any(not one.st_size or one.st_mtime_ns > last.st_mtime_ns for _, one in stats)
    if is_open or not is_whole:
        return ()
    return tuple((name, one.st_size, one.st_mtime_ns) for name, one in stats)


class EndedProcess(NamedTuple):
    """A process that ended: at a limit (empty for none), or because its work is done.

    `last_words` is the line of its log that says why it ended, else its exit code.
    """

    seconds: float
    code: int
    limit: str
    last_words: str
    is_enough: bool = False


def run_process(
    command: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    minutes: float,
    cwd: Path | None = None,
    until: Callable[[], bool] | None = None,
) -> EndedProcess:
    """Run a command, its output in `log`, until it ends, needs too much or has done enough."""
    began, limit, is_enough = time.monotonic(), "", False
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        try:
            while not limit and not is_enough:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
                    break
                if _interrupted.is_set():
                    limit = "it was interrupted"
                elif time.monotonic() > began + 60 * minutes:
                    limit = f"it took longer than {minutes:g} minutes (--minutes)"
                elif _memory_share(process.pid) > _MOST_MEMORY:
                    limit = f"it took more than {_MOST_MEMORY:.0%} of this machine's memory"
                else:
                    is_enough = until is not None and until()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    seconds, code = round(time.monotonic() - began, 3), process.returncode
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [f"exit code {code}"]
    last = next(filter(_FATAL.search, lines), lines[-1])[:400]
    return EndedProcess(seconds, code, limit, last, is_enough)


def _memory_share(pid: int) -> float:
    """Return the share of the machine's memory that a process holds; 0 where it is not known."""
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return pages / os.sysconf("SC_PHYS_PAGES")
    return 0.0


_FATAL = re.compile(r"^F\d{4} |Check failed|LLVM ERROR|Fatal Python error|Aborted")


def optimized_module(made: Compilation, name: str) -> ModuleDump | None:
    """Return the optimized module of a name in a new dump; None if there is none."""
    try:
        own = [one for one in load(made.dump).modules if (one.stage or "").endswith(AFTER)]
    except HloLensError:
        return None
    return next(reversed([one for one in own if one.title == name] or own), None)


_interrupted = threading.Event()


@contextlib.contextmanager
def compile_threads() -> Iterator[ThreadPoolExecutor]:
    """Provide threads for compiles, one for two cores; an error or Control-C ends all compiles."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    with contextlib.ExitStack() as stack:
        stack.callback(_interrupted.clear)
        threads = stack.enter_context(ThreadPoolExecutor(max(1, cores // 2)))
        try:
            yield threads
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            _interrupted.set()
            raise
