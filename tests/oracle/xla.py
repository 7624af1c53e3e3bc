"""The one place that asks XLA: jaxlib's private binding ``_hlo`` and jax's private functions.

Both move between releases (jaxlib 0.10.2 has them here); a test that needs what is not there is
skipped and says so. XLA ends the process on some texts it does not like, so callers give it only
texts that are valid; `read` takes any, in a process of its own.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.metadata
import json
import math
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GROUPS_MODULE = """HloModule m, num_partitions={devices}
sum {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{ p = f32[8] parameter(0)
  ROOT r = f32[8] all-reduce(p), replica_groups={groups}, to_apply=sum, channel_id=1,
    use_global_device_ids=true }}"""


def _named(module: str, *path: str) -> Any:
    """Return something of a private module; skip the test where it is not there."""
    try:
        found: Any = importlib.import_module(module)
        for name in path:
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        pytest.skip(f"{module} has moved or is not installed: {error}")
    return found


def flops(text: str) -> float:
    """Return the arithmetic of a valid module, as XLA's cost analysis counts it."""
    analyse = _named("jaxlib._jax", "hlo_module_cost_analysis")
    parse = _named("jaxlib._hlo", "hlo_module_from_text")
    devices = _named("jax", "devices")
    found: dict[str, float] = analyse(devices("cpu")[0].client, parse(text))
    return found.get("flops", 0)


def version() -> str | None:
    """Return the version of the jaxlib that is installed, if one is."""
    try:
        return importlib.metadata.version("jaxlib")
    except importlib.metadata.PackageNotFoundError:
        return None


def sharding(text: str) -> Any:
    """Return XLA's sharding of a valid text."""
    return _named("jaxlib._hlo", "HloSharding", "from_string")(text)


def v2_text(text: str) -> str:
    """Return a valid sharding without mesh axes, as XLA prints it."""
    _named("jaxlib._hlo", "HloSharding", "v3_to_v2_sharding")
    return str(sharding(text).v3_to_v2_sharding())


def tiles(text: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    """Return dimensions, devices and kinds of subgroups of a tiled sharding in V1 or V2 form."""
    found = sharding(text)
    kinds = [str(kind).rpartition(".")[2].lower() for kind in found.subgroup_types()]
    if found.replicate_on_last_tile_dim():
        kinds = ["replicated"]
    dimensions = tuple(map(int, found.tile_assignment_dimensions()))
    return dimensions, tuple(map(int, found.tile_assignment_devices())), tuple(kinds)


def groups_text(text: str, devices: int) -> str:
    """Return replica groups as lists of ids: XLA's fingerprint of a module has no other form."""
    parse = _named("jaxlib._hlo", "hlo_module_from_text")
    options = _named("jaxlib._hlo", "HloPrintOptions", "fingerprint")()
    printed: str = parse(_GROUPS_MODULE.format(groups=text, devices=devices)).to_string(options)
    return printed.partition("replica_groups=")[2].partition(", use_global")[0]


def shape_text(text: str) -> str:
    """Return a valid shape, with layouts, as XLA prints it."""
    parse = _named("jaxlib._hlo", "hlo_module_from_text")
    printed: str = parse(f"HloModule m\nENTRY e {{ ROOT p = {text} parameter(0) }}").to_string()
    return printed.partition("p = ")[2].partition(" parameter(")[0]


def reprinted(text: str, style: str, **options: bool) -> str:
    """Return a valid module as XLA prints it.

    Args:
        text: The module.
        style: ``default``, ``short_parsable``, ``canonical`` or ``fingerprint``.
        options: Further settings of HloPrintOptions.
    """
    make = _named("jaxlib._hlo", "HloPrintOptions")
    chosen = make() if style == "default" else getattr(make, style)()
    for name, value in options.items():
        setattr(chosen, name, value)
    printed: str = _named("jaxlib._hlo", "hlo_module_from_text")(text).to_string(chosen)
    return printed


def proto_and_text(text: str) -> tuple[bytes, str]:
    """Return a valid module as a proto, and as XLA prints it."""
    module = _named("jaxlib._hlo", "hlo_module_from_text")(text)
    return bytes(module.as_serialized_hlo_module_proto()), str(module.to_string())


def _mesh(sizes: Mapping[str, int]) -> Any:
    """Return jax's mesh of these axes, without devices."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    make = _named("jax.sharding", "AbstractMesh")
    return make(tuple(sizes.values()), tuple(sizes))


def jax_sharding_text(sizes: Mapping[str, int], spec: Sequence[object], rank: int) -> str:
    """Return what jax makes of a partition spec for a value of some rank."""
    mesh = _mesh(sizes)
    named = _named("jax.sharding", "NamedSharding")
    make_spec = _named("jax.sharding", "PartitionSpec")
    convert = _named("jax.sharding", "NamedSharding", "_to_xla_hlo_sharding")
    return str(convert(named(mesh, make_spec(*spec)), rank))


def jax_shard_shape(
    sizes: Mapping[str, int], spec: Sequence[object], shape: Sequence[int]
) -> tuple[int, ...]:
    """Return the shape of one device's part by jax, which wants equal parts."""
    make_spec = _named("jax.sharding", "PartitionSpec")
    named = _named("jax.sharding", "NamedSharding")(_mesh(sizes), make_spec(*spec))
    return tuple(named.shard_shape(tuple(shape)))


def jax_partition_spec(text: str, sizes: Mapping[str, int]) -> tuple[object, ...] | None:
    """Return the partition spec that jax finds for a sharding; None where it gives up."""
    mesh = _mesh(sizes)
    parse = _named("jax._src.sharding_impls", "parse_flatten_op_sharding")
    found = sharding(text)
    try:
        (spec,) = parse(found, mesh)
    except (AssertionError, KeyError, StopIteration, ValueError, NotImplementedError):
        return None
    return tuple(spec)


_CHILD = """
import json, re, sys
from jaxlib import _hlo
def shape_and_opcode(instruction):
    text = instruction.to_string().partition(" = ")[2]
    depth = 0
    for k, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == " " and depth == 0:
            break
    kind = str(instruction.opcode).rpartition(".kAsync")[2]
    sugared = kind in ("Start", "Update", "Done")  # printed as negate-start, whatever was read
    return text[:k], f"async-{kind.lower()}" if sugared else text[k + 1 :].partition("(")[0]
for line in sys.stdin:
    try:
        module = _hlo.hlo_module_from_text(json.loads(line))
        answer = {
            c.name: [
                [i.name, *shape_and_opcode(i), [o.name for o in i.operands()]]
                for i in c.instructions()
            ]
            for c in module.computations()
        }
    except Exception as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""

_BYTES = {"pred": 1, "token": 0, "opaque": 0, "bf16": 2, "c64": 8, "c128": 16, "s4": 1, "u4": 1}
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,<=]*)\](?:\{[^{}]*E\((\d+)\)[^{}]*\})?")


@dataclass(frozen=True)
class XlaInstruction:
    """An instruction as XLA's parser has it, its shape and opcode as XLA prints them."""

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all arrays of the shape. Source: shape_util.cc, ByteSizeOfElements."""
        total = 0
        for element, sizes, bits in _ARRAY.findall(self.shape):
            count = math.prod(int(size.removeprefix("<=")) for size in sizes.split(",") if size)
            digits = re.search(r"\d+", element)
            width = _BYTES.get(element, int(digits[0]) // 8 if digits else 0)
            total += -(-count * int(bits) // 8) if bits else count * width
        return total


@dataclass(frozen=True)
class XlaRefusal:
    """Error of XLA's parser for a text that it rejects.

    Attributes:
        line: 1-based line; 0 where the process ended instead.
        column: 1-based, unlike XLA's, which count from 0 on the first line.
        message: The first reason.
    """

    line: int
    column: int
    message: str


class _Child:
    """A process that parses one text after the other: XLA ends it on some texts."""

    process: subprocess.Popen[str] | None = None

    @classmethod
    def ask(cls, text: str) -> Any:
        """Return the answer of the process, or None if it ended."""
        if cls.process is None:
            cls.process = subprocess.Popen(
                [sys.executable, "-c", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            atexit.register(cls.end)
        given, answered = cls.process.stdin, cls.process.stdout
        assert given is not None
        assert answered is not None
        given.write(json.dumps(text) + "\n")
        given.flush()
        answer = answered.readline()
        if not answer:
            cls.end()
            return None
        return json.loads(answer)

    @classmethod
    def end(cls) -> None:
        """End the process."""
        process, cls.process = cls.process, None
        if process is not None:
            process.kill()
            process.communicate()


def read(text: str) -> Mapping[str, Sequence[XlaInstruction]] | XlaRefusal:
    """Return the instructions of each computation that XLA's parser finds in any text."""
    _named("jaxlib._hlo", "hlo_module_from_text")
    answer = _Child.ask(text)
    if isinstance(answer, dict):
        return {
            name: [XlaInstruction(n, s, o, tuple(used)) for n, s, o, used in instructions]
            for name, instructions in answer.items()
        }
    found = re.search(r"was parsing (\d+):(\d+): error: (.*)", answer or "")
    if found is None:
        return XlaRefusal(line=0, column=0, message=answer or "the process ended")
    line, column = int(found[1]), int(found[2])
    return XlaRefusal(line=line, column=column + (line == 1), message=found[3])
