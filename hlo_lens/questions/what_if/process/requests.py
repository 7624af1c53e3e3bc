"""Request to the worker: one program, one target, the options of one compile."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.devices import (
    CPU,
    Target,
    device_assignment,
    gpu_target,
    gpu_topology,
    tpu_target,
)
from hlo_lens.text.dump_kinds import BEFORE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump


WORKER = Path(__file__).parent / "worker" / "__main__.py"
"""The script that compiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRequest:
    """One compile.

    Attributes:
        text: HLO text from before optimizations; empty if `proto` is given.
        proto: The same as a serialized ``HloModuleProto``; None for the text.
        backend: ``cpu``, ``tpu`` or ``gpu``.
        topology: Name of the topology (``v5e:2x4``), or partitions, hosts and devices of a GPU
            target (``1x1x8``); empty for CPU.
        topology_options: Further arguments of jax's ``get_topology_desc``, such as ``wrap``.
        gpu_config: Text of XLA's ``GpuTargetConfigProto``; empty for others.
        replicas: Number of replicas.
        partitions: Number of partitions of each.
        assignment: Device ids by replica and partition; None for ascending ids.
        uses_spmd: Whether XLA partitions the program.
        uses_shardy: Whether the shardings are those of Shardy.
        propagates_to_parameters: Whether XLA may choose the sharding of each parameter; None where
            the program does not state it.
        propagates_to_output: The same for the results.
        donors: Numbers of the donated parameters that no result is named for.
        flags: Flags of this compile, name to value.
        host_parameters: Numbers of the parameters in host memory.
        host_results: Numbers of the results in host memory.
    """

    text: str
    backend: str
    proto: bytes | None = None
    topology: str = ""
    topology_options: Mapping[str, object] = field(default_factory=dict)
    gpu_config: str = ""
    replicas: int = 1
    partitions: int = 1
    assignment: tuple[tuple[int, ...], ...] | None = None
    uses_spmd: bool = False
    uses_shardy: bool = False
    propagates_to_parameters: tuple[bool, ...] | None = None
    propagates_to_output: tuple[bool, ...] | None = None
    donors: tuple[int, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    host_parameters: tuple[int, ...] = ()
    host_results: tuple[int, ...] = ()

    def written(self, folder: Path) -> Path:
        """Write the request and its program into a folder; return the request's file."""
        text, proto = folder / "program.txt", folder / "program.hlo.pb"
        text.write_text(self.text, encoding="utf-8")
        if self.proto is not None:
            proto.write_bytes(self.proto)
        stated = {
            **self._stated(),
            "text": str(text),
            "proto": None if self.proto is None else str(proto),
        }
        file = folder / "request.json"
        file.write_text(json.dumps(stated), encoding="utf-8")
        return file

    def _stated(self) -> dict[str, object]:
        """Return all but the program, as JSON has it."""
        names = [one.name for one in fields(self) if one.name not in ("text", "proto")]
        known = asdict(self)
        return {name: known[name] for name in names}

    def digest(self, toolchain: str) -> str:
        """Return the key of its result, for a toolchain such as ``jaxlib 0.10.2``."""
        parts = (
            *(file.read_bytes() for file in sorted(WORKER.parent.glob("*.py"))),
            toolchain.encode(),
            json.dumps(self._stated(), sort_keys=True).encode(),
            self.text.encode("utf-8", "surrogatepass"),
            self.proto or b"",
        )
        found = hashlib.sha256()
        for part in parts:
            found.update(hashlib.sha256(part).digest())
        return found.hexdigest()[:32]


_RESULT_SHARDING = "xla.sdy.FuncResultSharding"
_TARGET_NAME = re.compile(r'custom_call_target="([^"]*)"')

_PYTHON = re.compile(r"CustomSPMDPartitioning|.*python.*callback.*|.*_callback$", re.IGNORECASE)
_BACKENDS = (
    ("tpu", re.compile(r"tpu_custom_call|Mosaic.*|.*tpu.*", re.IGNORECASE)),
    ("gpu", re.compile(r"__?(?:gpu|cu|hip|triton|cub).*|cu(?:blas|dnn|solver|fft|_).*|hip.*")),
    ("cpu", re.compile(r"lapack_.*|blas_.*|__onednn.*|dynamic_ducc_fft|ducc_fft|.*eigen.*")),
)
"""Backends with the custom calls that only they know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgram:
    """A program from before optimizations, ready for changes.

    Attributes:
        module: Its HLO text.
        target: The target that the dump names; None where it names none.
        assignment: Device ids by replica and partition; None where the dump has none.
        backend: Backend of the dump; None if unknown.
        obstacle: Why it cannot be compiled again; empty if nothing is known to prevent it.
        has_elided_constants: Whether large constants are left out of its text.
    """

    module: HloModule
    target: Target | None
    assignment: tuple[tuple[int, ...], ...] | None
    backend: str | None
    obstacle: str
    has_elided_constants: bool


def source_program(dump: ModuleDump, backend: str | None) -> SourceProgram | None:
    """Return the program of a module; None if the dump has no text from before optimizations."""
    module = dump.hlo if dump.stage == BEFORE else dump.before
    if module is None:
        return None
    text = text_of(module)
    return SourceProgram(
        module=module,
        target=own_target(dump, backend),
        assignment=device_assignment(dump),
        backend=backend,
        obstacle=next((_obstacle(name) for name in call_targets(text) if _PYTHON.match(name)), ""),
        has_elided_constants="constant({...})" in text,
    )


def text_of(module: HloModule) -> str:
    """Return the text of a module, from its header on."""
    text = module.columns.source.text
    start = text.find("HloModule")
    return text[max(start, 0) :]


def call_targets(text: str) -> tuple[str, ...]:
    """Return the targets of custom calls, each once, in the order of the text."""
    return tuple(dict.fromkeys(_TARGET_NAME.findall(text)))


def _obstacle(name: str) -> str:
    if name == "CustomSPMDPartitioning":
        return "it uses custom_partitioning, a Python object of the process that compiled it"
    return f"it calls back into Python ({name}), into the process that compiled it"


def foreign_calls(text: str, backend: str) -> tuple[str, ...]:
    """Return the custom calls of a text that only another backend knows."""
    return tuple(
        name
        for name in call_targets(text)
        for known, pattern in _BACKENDS
        if known != backend and pattern.fullmatch(name)
    )


def own_target(dump: ModuleDump, backend: str | None) -> Target | None:
    """Return the target that a dump names; None if it names none, or one that is not known."""
    if backend == "cpu":
        return CPU
    if backend == "tpu":
        text = dump.setting("target_arguments.txt")
        return None if text is None else tpu_target(text)
    config = dump.setting("gpu_target_config.pbtxt")
    return None if not config else gpu_target(config)


def request_of(
    program: SourceProgram,
    target: Target,
    *,
    flags: Mapping[str, str] | None = None,
    is_own: bool = True,
) -> CompileRequest:
    """Return the request to compile a program.

    Args:
        program: The program.
        target: Its target.
        flags: Flags of this compile.
        is_own: Whether the target and mesh are those of the dump, so that its devices are.
    """
    made = without_root_sharding(text_of(program.module), program.module)
    header = made[: made.find("\n")]
    partitions = _number(header, "num_partitions")
    replicas = _number(header, "replica_count")
    fits = program.assignment is not None and (
        len(program.assignment),
        len(program.assignment[0]),
    ) == (replicas, partitions)
    topology = target.topology
    if target.backend == "gpu":
        topology = gpu_topology(target, replicas * partitions)
    return CompileRequest(
        text=made,
        backend=target.backend,
        topology=topology,
        topology_options=target.options,
        gpu_config=target.gpu_config,
        replicas=replicas,
        partitions=partitions,
        assignment=program.assignment if is_own and fits else None,
        uses_spmd=partitions > 1,
        uses_shardy="xla.sdy" in made or "sharding={mesh[" in made,
        propagates_to_parameters=_booleans(header, "parameters"),
        propagates_to_output=_booleans(header, "output"),
        donors=_donors(program.module),
        flags=flags or {},
        host_parameters=_in_host_memory(header, "entry_computation_layout={("),
        host_results=_in_host_memory(header, ")->"),
    )


def _donors(module: HloModule) -> tuple[int, ...]:
    """Return the numbers of the arguments in ``buffer_donor``, parts of tuples counted one by one.

    The translation to MLIR makes an argument of each part of a tuple.
    """
    parameters = sorted(module.entry.parameters, key=lambda one: one.parameter_number or 0)
    leaves = [
        (one.parameter_number, index)
        for one in parameters
        if one.shape is not None
        for index, _ in one.shape.leaves()
    ]
    places = {leaf: place for place, leaf in enumerate(leaves)}
    return tuple(places[one] for one in module.buffer_donor if one in places)


def _in_host_memory(header: str, before: str) -> tuple[int, ...]:
    """Return the numbers of the shapes in host memory, of those that follow a text."""
    start = header.find(before)
    if start < 0 or "S(5)" not in header:
        return ()
    start += len(before)
    if before.startswith(")") and header[start : start + 1] == "(":
        start += 1  # a tuple of results
        before = ""
    found, number, depth = [], 0, 0
    for match in re.compile(r"[\[({]|[\])}]|,|S\(5\)").finditer(header, start):
        if match[0] == "S(5)":
            found.append(number)
        elif match[0] == ",":
            number += depth == 0
        else:
            depth += 1 if match[0] in "[({" else -1
        if depth < 0 or (depth == 0 and match[0] == "," and before.startswith(")")):
            break
    return tuple(dict.fromkeys(found))


def _number(header: str, name: str) -> int:
    found = re.search(rf", {name}=(\d+)", header)
    return 1 if found is None else int(found[1])


def _booleans(header: str, name: str) -> tuple[bool, ...] | None:
    found = re.search(rf"allow_spmd_sharding_propagation_to_{name}=\{{([^}}]*)\}}", header)
    return None if found is None else tuple(word == "true" for word in found[1].split(","))


def without_root_sharding(text: str, module: HloModule) -> str:
    """Return a text without its ROOT tuple's sharding where only some results have their own."""
    root = module.entry.root
    if root is None or root.opcode != "tuple":
        return text
    own = {
        one.name
        for one in module.entry.instructions
        if _RESULT_SHARDING in (one.attributes.get("custom_call_target") or "")
    }
    marked = sum(name.split("#")[0] in own for name in root.operand_names)
    if not 0 < marked < len(root.operand_names):
        return text
    start = text.find("\n  ROOT ", text.find("\nENTRY "))
    end = text.find("\n", start + 1)
    line = text[start:end]
    place = line.find(", sharding={")
    if start < 0 or place < 0:
        return text
    return text[: start + place] + line[_closed(line, place) :] + text[end:]


def _closed(line: str, start: int) -> int:
    """Return the place after the brace that closes the first one at or after a place."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(line, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(line)
