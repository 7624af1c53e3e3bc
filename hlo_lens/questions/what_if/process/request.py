"""Request to the worker: one program, one target, the options of one compile."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

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
