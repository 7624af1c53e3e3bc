"""Facts of a module: its HLO text, name, backend, target, devices, size, share that was parsed.

Coverage is the number of instructions that were read, divided by that number plus the lines that
could not be read; a gap over many lines counts as many. An input without either has coverage 1.
Lines of a log around the computations are counted separately.

The text does not name its backend. Evidence: TPU layouts have tiles (``T(8,128)``), GPU and CPU
instructions have backend_config keys and custom-call targets of their own. Unoptimized text has
none of these, and small optimized CPU text may have none. Source: XLA's backend_configs.proto
files, and dumps of jaxlib 0.4.13 to 0.12.0.

Names that a text uses and does not define: a part of the text is lost. An operand counts as defined
if any instruction of the module has its name: XLA gives no name twice, so that a lost line leaves
its users behind. The result of a computation has no users; XLA always marks it ROOT. A text with
``entry_computation_layout`` in its header is one that XLA printed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.hlo.columns import END, SHAPE
from hlo_lens.hlo.query import InstructionTable, evident_partitions, tabulate, unknown_names
from hlo_lens.load.devices import (
    CPU,
    TARGET_ARGUMENTS,
    TPU_KINDS,
    TPU_SOURCE,
    device_count,
    gpu_target,
    topology_arguments,
    tpu_target,
    usual_gpu,
    usual_tpu,
)
from hlo_lens.load.fact import fact
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.text.dump_kinds import BUFFER_PARTS, TEXT_FLAGS
from hlo_lens.text.errors import MissingDumpError
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.devices import Target
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.text.errors import Gap


NO_HLO = f"no HLO text; XLA writes it with {TEXT_FLAGS}"
NOT_COMPILED = (
    "not compiled yet: no memory, no inserted collectives; print lowered.compile().as_text(), or"
    f" compile with {TEXT_FLAGS} (lowered.as_text('hlo') is the program before optimizations)"
)


def hlo_text(module: ModuleDump) -> HloModule:
    """Return the HLO text of the latest stage; raise `MissingDumpError` without one."""
    if module.hlo is None:
        raise MissingDumpError(f"{module.name}: {no_hlo_text(module)}")
    return module.hlo


@fact
def instruction_table(module: ModuleDump) -> InstructionTable:
    """Return the table of a module's instructions; raise `MissingDumpError` without HLO text."""
    return tabulate(hlo_text(module))


def no_hlo_text(dump: ModuleDump) -> str:
    """Return why a module has no HLO text, and what writes one or reads what there is."""
    if dump.lowered is not None:
        return f"this is StableHLO, {NOT_COMPILED}"
    log = dump.log
    contents = {  # with the command that shows each
        "a call tree (hlo-lens tree)": dump.call_trees is not None,
        "messages about memory (hlo-lens memory)": log is not None and log.has_memory,
        "shardings (hlo-lens sharding)": log is not None and log.shardings is not None,
        "warnings of the compiler (hlo-lens report)": log is not None and log.warnings,
        "buffers (hlo-lens memory)": dump.kind in BUFFER_PARTS,
    }
    text = ", ".join(what for what, is_there in contents.items() if is_there)
    return f"no HLO text; this text has {text}" if text else NO_HLO


_SAMPLES = 4096

_MARKS = {
    "tpu": (":T(", '"aliasing_operands":{', '"scoped_memory_configs":['),
    "gpu": (
        *('"operation_queue_id":', '"fusion_backend_config":{', '"device_type":"DEVICE_TYPE_'),
        *('custom_call_target="__cu', 'custom_call_target="__triton'),
    ),
    "cpu": (
        *('"outer_dimension_partitions":[', '"fusion_config":{"kind":"__'),
        *('custom_call_target="__onednn', 'custom_call_target="__xla_cpu'),
    ),
}
"""Texts printed by one backend only; before mid-2023 the quotes in them were escaped."""


@fact
def backend_of_dump(dump: ModuleDump) -> str | None:
    """Return ``cpu``, ``gpu``, ``tpu``, or None if neither framework, text nor names show it."""
    if dump.framework is not None and dump.framework.backend is not None:
        return dump.framework.backend
    module = dump.hlo
    backend = None if module is None else backend_of_text(module, range(len(module.columns)))
    stages = [one for one in ("cpu", "gpu") if f"{one}_" in (dump.stage or "")]
    is_tpu = any(".cl_" in file for file in dump.files)  # a change list of libtpu
    return backend or next(iter(stages), "tpu" if is_tpu else None)


def backend_of_text(module: HloModule, rows: Sequence[int]) -> str | None:
    """Return the first backend whose marks are in the header or in some of these rows."""
    if any(":T(" in value for value in module.header.values()):
        return "tpu"
    sample = rows[:: len(rows) // _SAMPLES + 1]
    texts = "\n".join(module.columns.text(row, SHAPE, END) for row in sample).replace('\\"', '"')
    found = (backend for backend, marks in _MARKS.items() if any(mark in texts for mark in marks))
    return next(found, None)


def undefined_names(module: HloModule, *, with_operands: bool = True) -> tuple[str, ...]:
    """Return the names of computations, operands and results that the text of a module lacks.

    Each kind in order. A lost result is called ``ROOT of`` the computation that must have one.
    Looking for operands takes a microsecond per instruction.
    """
    computations = set(module.links.calls.undefined.values())
    rows = module.links.undefined_operands() if with_operands else ()
    operands = {name for row in rows for name in module.instruction(row).operand_names if name}
    operands = unknown_names(module, operands) if operands else operands
    results: list[str] = []
    if "entry_computation_layout" in module.header:
        marked = {module.links.owners[row] for row in module.columns.roots}
        if len(marked) != len(module.computations):
            results = [f"ROOT of {c.name}" for c in module.computations if c.place not in marked]
    return (*sorted(computations), *sorted(operands), *sorted(results))


_NAMES_KEPT = 5
"""Undefined names that JSON and snapshots list."""

_QUICKLY_CHECKED = 20_000
"""Most instructions of a module whose operands are always looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Share of the HLO text that was read."""

    instructions: int
    gaps: int = 0
    gap_lines: int = 0
    ratio: float = 1.0  # 0 to 1
    passed_lines: int = 0  # of a log around the computations
    is_truncated: bool = False
    undefined: int = 0  # names that the text uses and does not define
    undefined_names: tuple[str, ...] = ()  # the first few of them

    @property
    def problem(self) -> str:
        """Why numbers of the text may be incomplete; empty if they are not."""
        if self.gaps:
            return f"{plural(self.gaps, 'place')} of the HLO text could not be read"
        if self.is_truncated:
            return "the HLO text ends too early"
        if self.undefined:
            first = next(iter(self.undefined_names), "?")
            return f"the HLO text lacks parts that it uses ({self.undefined}), such as {first}"
        return ""


@dataclass(frozen=True, kw_only=True)
class Summary(Result):
    """The facts of one module, as rows of name and value."""

    KIND: ClassVar[str] = "summary"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("property", Unit.NONE, "property of the module"),
        Column("value", Unit.NONE, "its value"),
    )
    name: str
    backend: str | None  # cpu, gpu, tpu, or None if unknown
    is_scheduled: bool
    num_partitions: int | None
    """Devices over which one replica is divided; None if it is not printed and the entry's
    shardings are over several."""
    evident_partitions: int | None
    """The same, or that of the entry's shardings if not printed; None if neither shows it."""
    replica_count: int
    computations: int
    instructions: int
    coverage: Coverage
    undefined: tuple[str, ...] = ()
    """Names that it uses and does not define; operands only if looked up."""

    def rows(self) -> Iterator[Row]:
        """Yield property and value."""
        for field in fields(self)[:-2]:
            yield field.name, getattr(self, field.name)
        for name in ("gaps", "gap_lines", "passed_lines"):
            yield name, getattr(self.coverage, name)
        yield "coverage", self.coverage.ratio
        yield "is_truncated", self.coverage.is_truncated
        yield "undefined", self.coverage.undefined


@fact
def summary(dump: ModuleDump) -> Summary:
    """Return name, size and coverage of a module."""
    table = instruction_table(dump)
    module = table.module
    evident = evident_partitions(table)
    with_operands = not dump.given.is_quick or module.instruction_count <= _QUICKLY_CHECKED
    undefined = undefined_names(module, with_operands=with_operands)
    return Summary(
        name=module.name,
        backend=backend_of_dump(dump),
        is_scheduled=module.is_scheduled,
        num_partitions=module.num_partitions if evident in (None, module.num_partitions) else None,
        evident_partitions=evident,
        replica_count=module.replica_count,
        computations=len(module.computations),
        instructions=module.instruction_count,
        coverage=Coverage(
            instructions=module.instruction_count,
            gaps=len(module.gaps),
            gap_lines=sum(gap.lines for gap in module.gaps),
            ratio=coverage_of(module, module.gaps),
            passed_lines=module.passed_lines,
            is_truncated=module.is_truncated or dump.is_in_cut_archive,
            undefined=len(undefined),
            undefined_names=undefined[:_NAMES_KEPT],
        ),
        undefined=undefined,
    )


def cut_facts(dump: ModuleDump) -> Iterator[tuple[str, str]]:
    """Yield the first line of a page on a text that ends inside a computation, or before ENTRY.

    Likewise on the texts of an archive that ends too early, where others may be missing.
    """
    if dump.hlo is not None and dump.hlo.is_truncated:
        yield "cut", CUT
    elif dump.is_in_cut_archive:
        yield "cut", "the archive ends too early: texts after its end are missing"


CUT = "the text ends too early: figures count what is there, the rest is not known"
"""What a page says first of a text that is cut."""


def num_devices(module: ModuleDump) -> int:
    """Return the devices of one replica: the header's number, or that of the entry's shardings."""
    facts = summary(module)
    return facts.evident_partitions or facts.num_partitions or 1


def coverage_of(module: HloModule | None, gaps: tuple[Gap, ...], *, other_lines: int = 0) -> float:
    """Return the share of a module that was parsed, 0 to 1, with gaps of all of its texts.

    Other lines are those of a log that were parsed; each counts as an instruction.
    """
    read = other_lines + (0 if module is None else module.instruction_count)
    whole = read + sum(gap.lines for gap in gaps)
    return read / whole if whole else 1.0


_GPU_CONFIG = "gpu_target_config.pbtxt"


@fact
def own_target(dump: ModuleDump) -> Target | None:
    """Return the target that a dump names; None if it names none, or one that is not known."""
    backend = backend_of_dump(dump)
    if backend == "cpu":
        return CPU
    if backend == "tpu":
        text = dump.setting(TARGET_ARGUMENTS)
        return _pjrt_target(dump) if text is None else tpu_target(text)
    config = dump.setting(_GPU_CONFIG)
    return gpu_target(config) if config else None


def _pjrt_target(dump: ModuleDump) -> Target | None:
    """Return the target in PJRT's topology, which has one slice of several."""
    text = topology_arguments(dump.setting("topology.textproto") or "")
    target, module = None if text is None else tpu_target(text), dump.hlo or dump.before
    if target is None or module is None:
        return target
    devices = module.num_partitions * module.replica_count
    return target if devices <= (device_count(target) or devices) else None


def assumed_target(dump: ModuleDump) -> Target | None:
    """Return the target that a dump names, else the usual GPU of its architecture, or v5e."""
    named, backend, module = own_target(dump), backend_of_dump(dump), dump.hlo or dump.before
    if named is None and backend == "gpu":
        return usual_gpu(target_text(dump) or "")
    if named is None and backend == "tpu" and module is not None:
        return usual_tpu(module.num_partitions * module.replica_count)
    return named


_DEVICE_KIND = re.compile(r"TFRT TPU ?(v?\d\w*(?: lite)?)")
_KINDS = {"v5 lite": "v5e", "v5": "v5p", "v6 lite": "v6e", "7x": "tpu7x"}
"""Names of topologies of the device kinds that PJRT names otherwise."""


def device_memory(dump: ModuleDump) -> tuple[int, str] | None:
    """Return the memory of a device that a program may use, and where it was found.

    From the target that the dump names, or the device kind in PJRT's topology. None if neither
    is there, or for CPU.
    """
    target = own_target(dump)
    if target is not None and target.memory_bytes is not None:
        return target.memory_bytes, f"{target.name}: {target.memory_source}"
    match = _DEVICE_KIND.search(dump.setting("topology.textproto") or "")
    name = None if match is None else _KINDS.get(match[1], match[1])
    kind = next((one for one in TPU_KINDS if one.name == name), None)
    return None if kind is None else (kind.memory_bytes, f"{kind.name}: {TPU_SOURCE}")


def target_notes(dump: ModuleDump) -> Iterator[str]:
    """Yield a note where the file on the target is damaged, or of a device that is not known."""
    names = {"tpu": TARGET_ARGUMENTS, "gpu": _GPU_CONFIG}
    name, own = names.get(backend_of_dump(dump) or ""), own_target(dump)
    if name in dump.settings and (own is None or own.memory_bytes is None):
        yield f"{name} is damaged or of an unknown device: its target is not known"


_CHANGE_LIST = re.compile(r"\.cl_(\d+)\b")


def change_list(dump: ModuleDump) -> str | None:
    """Return the change list of libtpu in the names of a dump's files; None for others."""
    names = (Path(file).name for file in dump.files)
    return next((match[1] for name in names if (match := _CHANGE_LIST.search(name))), None)


def compiler_text(dump: ModuleDump) -> str | None:
    """Return the compiler of a dump, as far as its files name it: ``libtpu cl 123``."""
    number = change_list(dump)
    return number and f"libtpu cl {number}"


_GPU_STAGE = re.compile(r"(?P<target>sm_[\d.]+|gfx[0-9a-f]+)[a-z]?_gpu_")


def target_text(dump: ModuleDump) -> str | None:
    """Return a GPU's architecture from the stage's name, a TPU's topology from its file.

    The letter of an architecture is left out: XLA writes sm_9.0 or sm_9.0a for one GPU.
    """
    match = _GPU_STAGE.match(dump.stage or "")
    if match is not None:
        return match["target"]
    text = dump.setting(TARGET_ARGUMENTS)
    return None if text is None else _tpu_text(text)


_VERSION = re.compile(r'version: (\w+)(?:\s+variant: "(\w+)")?')
_BOUNDS = re.compile(r"(?:chips_per_host|host)_bounds \{([^{}]*)\}")
_HOSTS = re.compile(r"chips_per_host_bounds \{")
_SLICE = re.compile(r"\bslice_info \{")
_WRAP = re.compile(r"\bwrap \{([^{}]*)\}")


def _tpu_text(text: str) -> str | None:
    """Return version, slices, chips and wrap of a TPU as libtpu prints them; None without version.

    A program of several slices has one topology for each in `slice_info`, and that of its own slice
    again after them. An axis that wraps has links from its last chip to the first.
    """
    version = _VERSION.search(text)
    if version is None:
        return None
    parts = _SLICE.split(text)[1:] or [text]
    slices = Counter(_chips(part) for part in parts)
    words = (
        f"{plural(count, 'slice')} of {chips}" if len(parts) > 1 else chips
        for chips, count in slices.items()
    )
    return f"{' '.join(filter(None, version.groups()))} {' and '.join(words)}"


def _chips(text: str) -> str:
    """Return the chips of the first topology in a text, and the axes that wrap."""
    second = [match.start() for match in _HOSTS.finditer(text)][1:2]
    text = text[: second[0]] if second else text
    sizes = [1, 1, 1]
    for inside in _BOUNDS.findall(text):
        bounds = dict(re.findall(r"([xyz]): (\d{1,9})\b", inside))
        sizes = [size * int(bounds.get(axis, 1)) for size, axis in zip(sizes, "xyz", strict=True)]
    wrap = _WRAP.search(text)
    axes = "".join(re.findall(r"([xyz]): true", wrap[1])) if wrap else ""
    return f"{'x'.join(map(str, sizes))} chips{f', wrap {axes}' if axes else ''}"
