"""Estimates of the corpus beside their truth: one case for each text of a compile.

Truth is the sum over the allocation lines of a module's ``*-buffer-assignment.txt``, as in XLA's
CompiledMemoryStats: arguments are lines with ``parameter``, outputs those with
``maybe-live-out``, aliased those with both, temporaries those with ``preallocated-temp``; color 5
is host memory and separate. On TPU only color 0 counts as temporary, rounded up to 16 KiB,
and 0 if it has only tuples and integer scalars. A case also has the figures of
``Compiled.memory_analysis()`` and XProf's peak where they were recorded.
"""

from __future__ import annotations

import json
import math
import re
import tarfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.hlo.query import tabulate
from hlo_lens.questions.memory.estimate import memory_estimate, why_no_estimate
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.peak import peaks_of
from hlo_lens.questions.memory.statement import memory_statement
from tests.corpus import CORPUS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.questions.memory.estimate import MemoryEstimate

TPU_PAGE = 16384
OF_LIBTPU_51 = 1003875606
"""Change list of libtpu 0.0.51, the first that counts fragmentation once."""
FIGURES = ("argument", "output", "alias", "temp")
HOST_FIGURES = tuple(f"host_{name}" for name in FIGURES)
HLO = "after_optimizations.txt"
TARGET = "target_arguments.txt"
ASSIGNMENT = "after_optimizations-buffer-assignment.txt"
_READ = re.compile(
    rf".*({HLO}|{ASSIGNMENT}|{TARGET}|/as_text\.txt|truth\.jsonl?|/compiled\.\w+\.txt)"
)

_COLOR = re.compile(r", color (\d+)")
_SIZE = re.compile(r"^allocation \d+: size (\d+)")
_VALUE = re.compile(r"^ value: <\d+ (\S+).*?\): (\S+)")
_KEPT_SCALAR = re.compile(r"(?:s\d+|u\d+|pred)\[\]")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One text of a compile.

    Attributes:
        backend: Folder of the dump: backend and topology.
        model: Program.
        variant: Its options.
        module: Stem of its files.
        is_compiled: Whether the text is the output of ``Compiled.as_text()``, not a dump.
        true: Figure to bytes, from the allocation lines.
        found: Figure to bytes, estimated; empty without an estimate.
        reason: Why there is none.
        told: Figure to bytes, from memory_analysis(); may be empty.
        peak: Estimated peak, and the true one; None where it is not recorded.
        compiler: Backend whose rules were applied; of a TPU with the version of libtpu.
    """

    backend: str
    model: str
    variant: str
    module: str
    is_compiled: bool = False
    true: dict[str, int]
    found: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    told: dict[str, int] = field(default_factory=dict)
    peak: tuple[int, int | None] = (0, None)
    compiler: str = ""

    @property
    def known(self) -> dict[str, int]:
        """Figures of memory_analysis(), else those of the buffer assignment."""
        return self.told or self.true

    @property
    def error(self) -> float:
        """Error of the temporaries in percent."""
        return _percent(self.found["temp"], self.known["temp"])

    @property
    def peak_error(self) -> float | None:
        """Error of the peak in percent; None where the true one is not recorded."""
        found, true = self.peak
        return None if true is None else _percent(found, true)

    @property
    def is_exact(self) -> bool:
        """Whether every figure is exact, and the peak where it is recorded."""
        return self.found == self.known and self.peak[1] in (None, self.peak[0])

    def as_exact(self, *names: str) -> str:
        """Return ``yes`` if all these figures are exact."""
        return "yes" if all(self.found[name] == self.known[name] for name in names) else "no"


def _percent(found: int, true: int) -> float:
    """Return an error in percent; infinite if the truth is 0."""
    if true == found:
        return 0.0
    return 100.0 * (found - true) / true if true else math.inf


def true_figures(lines: Iterable[str], backend: str) -> dict[str, int]:
    """Return the sums over the allocation lines of a buffer assignment."""
    sums = dict.fromkeys((*FIGURES, *HOST_FIGURES), 0)
    is_temp = is_in_memory = False
    for line in lines:
        size = _SIZE.match(line)
        if size is None:
            is_in_memory = is_in_memory or (is_temp and _is_in_memory(line))
            continue
        color = _COLOR.search(line.split("shape |")[0])
        space = int(color[1]) if color else 0
        prefix = "host_" if space == 5 else ""
        kinds = {
            "argument": ", parameter " in line,
            "output": "maybe-live-out" in line,
            "alias": ", parameter " in line and "maybe-live-out" in line,
            "temp": "preallocated-temp" in line and (backend != "tpu" or space in (0, 5)),
        }
        for name in FIGURES:
            sums[prefix + name] += int(size[1]) * kinds[name]
        is_temp = kinds["temp"] and not prefix
    if backend == "tpu":
        sums["temp"] = -(-sums["temp"] // TPU_PAGE) * TPU_PAGE if is_in_memory else 0
    return sums


def _is_in_memory(line: str) -> bool:
    """Whether the line of a value is more than a table or an integer scalar."""
    value = _VALUE.match(line)
    if value is None or value[2].startswith(("(", "token")):
        return False
    if not _KEPT_SCALAR.match(value[2]):
        return True
    return re.search("fusion|reduce", value[1]) is not None


def found_figures(estimate: MemoryEstimate) -> dict[str, int]:
    """Return the same figures of an estimate."""
    statement = memory_statement(
        estimate.layout, peaks_of(estimate.layout), backend=estimate.backend
    )
    device = (statement.argument_bytes, statement.output_bytes, statement.alias_bytes)
    sizes = (*device, estimate.temp_bytes, *statement.host_bytes)
    return dict(zip((*FIGURES, *HOST_FIGURES), sizes, strict=True))


def backend_of(name: str) -> str:
    """Return ``cpu``, ``gpu`` or ``tpu`` of a dump file's name."""
    for backend in ("cpu", "gpu"):
        if f".{backend}_{HLO}" in name or f"{backend}_{HLO}" in name:
            return backend
    return "gpu" if re.search(r"\.sm_[\d.]+a?_gpu_", name) else "tpu"


def cases_of(archive: Path) -> Iterator[Case]:
    """Yield the texts of the compiles in an archive of ``dumps`` that have a buffer assignment."""
    members = _members(archive)
    truth = next((name for name in members if name.endswith("/truth.json")), None)
    modules = json.loads(members[truth]).get("modules", []) if truth else []
    root = truth.rpartition("/")[0] if truth else ""
    for name in _dumps(members):
        stem = Path(name).name
        module = _module_of(modules, stem)
        is_own = _is_own(module, stem)
        start = Case(
            backend=archive.relative_to(CORPUS / "dumps").parts[0],
            model=archive.parent.name,
            variant=archive.name.removesuffix(".tar.gz"),
            module=stem.removesuffix("." + HLO),
            true=_true(members, name),
            told=_told(module.get("memory_analysis")) if is_own else {},
        )
        yield _of_dump(start, members, name)
        compiled = members.get(f"{root}/compiled.{module.get('job')}.txt")
        if compiled is not None and is_own:
            yield _estimated(start, compiled, is_compiled=True)


def recorded_cases(archive: Path) -> Iterator[Case]:
    """Yield the texts of the compiles in an archive of ``jax012``, whose truth is recorded."""
    members = _members(archive)
    for line in members["truth.jsonl"].splitlines():
        row = json.loads(line)
        name = f"{row['name']}/{row['module']}"
        start = Case(
            backend=archive.name.removesuffix(".tar.xz"),
            model=row["name"],
            variant="",
            module=row["module"].removesuffix("." + HLO),
            true=_true(members, name),
            told=_told(row["memory_analysis"]),
            peak=(0, row["xprof"]["peak_heap_bytes"]),
        )
        if any(", color 8," in line for line in members[_assignment(name)].splitlines()):
            start = replace(start, peak=(0, None))  # XProf leaves scratch of SparseCores out
        yield _of_dump(start, members, name)
        yield _estimated(start, members[f"{row['name']}/as_text.txt"], is_compiled=True)


def _members(archive: Path) -> dict[str, str]:
    """Return the texts of an archive by name."""
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if _READ.fullmatch(member.name) else None
            if file is not None:
                found[member.name] = file.read().decode(errors="replace")
    return found


def _assignment(name: str) -> str:
    return name.removesuffix(HLO) + ASSIGNMENT


def _dumps(members: Mapping[str, str]) -> list[str]:
    """Return the names of the dumped texts with a buffer assignment."""
    return sorted(n for n in members if n.endswith(HLO) and _assignment(n) in members)


def _true(members: Mapping[str, str], name: str) -> dict[str, int]:
    return true_figures(members[_assignment(name)].splitlines(), backend_of(name))


def _of_dump(start: Case, members: Mapping[str, str], name: str) -> Case:
    target = members.get(name.removesuffix(HLO) + TARGET)
    return _estimated(start, members[name], backend=backend_of(name), target=target)


def _module_of(modules: Sequence[dict[str, object]], stem: str) -> dict[str, object]:
    """Return the entry of ``truth.json`` that a file belongs to."""
    for module in modules:
        prefixes = module.get("prefixes") or []
        if isinstance(prefixes, list) and any(stem.startswith(f"{p}.") for p in prefixes):
            return module
    return {}


def _is_own(module: Mapping[str, object], stem: str) -> bool:
    """Whether a file is of the module itself, not of a module made from a part of it."""
    prefixes = module.get("prefixes")
    name = module.get("as_text_module_name")
    if isinstance(name, str):
        return f".{name}." in stem
    return isinstance(prefixes, list) and stem.startswith(f"{prefixes[0]}.")


def _told(analysis: object) -> dict[str, int]:
    if not isinstance(analysis, dict):
        return {}
    return {name: analysis.get(f"{name}_size_in_bytes", 0) for name in (*FIGURES, *HOST_FIGURES)}


def _compiler(backend: str, module: str) -> str:
    """Return a backend; of a TPU with the version of libtpu, by the change list in the name."""
    if backend != "tpu":
        return backend
    change = re.search(r"\.cl_(\d+)", module)
    is_old = change is not None and int(change[1]) < OF_LIBTPU_51
    return f"tpu, libtpu {'before' if is_old else 'since'} 0.0.51"


def _estimated(
    start: Case,
    text: str,
    *,
    backend: str | None = None,
    target: str | None = None,
    is_compiled: bool = False,
) -> Case:
    """Return a case with the estimate of a text, or with the reason that there is none."""
    table = tabulate(hlo_lens.parse_hlo(text))
    reason = why_no_estimate(table)
    estimate = None if reason else memory_estimate(table, backend=backend, target=target)
    if estimate is None:
        return replace(start, is_compiled=is_compiled, reason=reason or "")
    peak = peaks_of(estimate.layout)[DEFAULT_SPACE]
    held = 0 if peak is None else peak.total_bytes
    return replace(
        start,
        is_compiled=is_compiled,
        found=found_figures(estimate),
        peak=(held, start.peak[1]),
        compiler=_compiler(estimate.backend, start.module),
    )
