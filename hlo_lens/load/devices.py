"""Devices of a compile: targets by name, the places of a program on them, and their figures."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.load.fact import fact
from hlo_lens.text.errors import UnknownNameError, UsageError
from hlo_lens.text.names import did_you_mean, lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.resources.abc import Traversable

    from hlo_lens.load.module import ModuleDump


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixUnit:
    """The matrix unit of a TPU.

    Attributes:
        peak_flops: FLOP of bf16 that a chip does in one second.
        memory_bandwidth: Bytes that a chip reads from its memory in one second.
    """

    side: int
    peak_flops: float
    memory_bandwidth: float

    @property
    def flops_per_byte(self) -> float:
        return self.peak_flops / self.memory_bandwidth


MATRIX_UNITS = {
    "v2": MatrixUnit(side=128, peak_flops=4.6e13, memory_bandwidth=7.16e11),
    "v3": MatrixUnit(side=128, peak_flops=1.40e14, memory_bandwidth=8.25e11),
    "v4": MatrixUnit(side=128, peak_flops=2.75e14, memory_bandwidth=1.23e12),
    "v5e": MatrixUnit(side=128, peak_flops=1.97e14, memory_bandwidth=8.20e11),
    "v5p": MatrixUnit(side=128, peak_flops=4.59e14, memory_bandwidth=2.46e12),
    "v6e": MatrixUnit(side=256, peak_flops=9.20e14, memory_bandwidth=1.64e12),
    "tpu7x": MatrixUnit(side=256, peak_flops=2.31e15, memory_bandwidth=7.40e12),
}
"""Matrix unit of each kind of `targets.TPU_KINDS`, by name."""

SMALLEST_SIDE = min(unit.side for unit in MATRIX_UNITS.values())
"""Side of the unit of a TPU that is not known."""

SUBLANES = 8
"""Rows of the matrix that is multiplied by one in the unit: ``[8, 128] @ [128, 128]``."""


USUAL_GPUS = 8
"""GPUs of a host, for GPUs whose machine is not known."""

_RACKS = {"GB200": 72, "GB300": 72}
"""GPUs of a rack that NVLink joins, by a part of the GPU's name."""

_NAME = lazy_pattern(r'device_description_str: "([^"]*)"')


def joined_gpus(config: str | None) -> int:
    """Return the number of GPUs that NVLink joins.

    >>> joined_gpus('device_description_str: "NVIDIA GB200"'), joined_gpus(None)
    (72, 8)
    """
    name = _NAME.search(config or "")
    racks = (count for gpu, count in _RACKS.items() if name is not None and gpu in name[1])
    return next(racks, USUAL_GPUS)


_GIB = 1 << 30
TPU_SOURCE = "libtpu 0.0.52, message of a program that does not fit"
_GPU_SOURCE = "XLA's target configuration"


class TpuKind(NamedTuple):
    """A TPU version as libtpu's topologies name it.

    Attributes:
        name: Name in topologies: ``v5e``.
        dimensions: Dimensions of its torus.
        memory_bytes: Memory of a device that a program may use, rounded.
        version: Name of the version in libtpu's files.
        variant: Variant there; empty for none.
    """

    name: str
    dimensions: int
    memory_bytes: int
    version: str
    variant: str = ""


TPU_KINDS = (
    TpuKind("v2", 2, round(7.48 * _GIB), "JELLYFISH"),
    TpuKind("v3", 2, round(15.48 * _GIB), "DRAGONFISH"),
    TpuKind("v4", 3, round(15.25 * _GIB), "PUFFERFISH"),
    TpuKind("v5e", 2, round(15.75 * _GIB), "VIPERFISH", "lite"),
    TpuKind("v5p", 3, round(95.73 * _GIB), "VIPERFISH"),
    TpuKind("v6e", 2, round(31.24 * _GIB), "GHOSTLITE"),
    TpuKind("tpu7x", 3, round(94.74 * _GIB), "6acc60406"),
)
MEGACORE_BYTES = {"v4": round(30.75 * _GIB)}
"""Memory of a device with two cores (``chip_config_name: "megacore"``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target of a compile.

    Attributes:
        backend: ``cpu``, ``tpu`` or ``gpu``.
        name: As the user writes it.
        topology: Name for jax's ``get_topology_desc``; partitions, hosts and devices of GPUs; empty
            for as many GPUs as the program needs.
        options: Further arguments of ``get_topology_desc``.
        gpu_config: Text of the target configuration; empty for others.
        memory_bytes: Memory of one device; None for CPU, and where it is not known.
    """

    backend: str
    name: str
    topology: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    gpu_config: str = field(default="", repr=False)
    memory_bytes: int | None = None
    memory_source: str = ""


CPU = Target(backend="cpu", name="cpu")

_TWO_CORES = frozenset(("v2", "v3", "v4", "tpu7x"))
"""TPUs with two devices a chip in libtpu's topologies."""

_SLICES_2D = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_SLICES_3D = ("1x1x1", "2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")
_SMALLEST = {"v2": "2x2", "v3": "2x2", "v4": "2x2x1"}
_GPU_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_HOST_GPUS = 8

_TPU_NAME = lazy_pattern(
    r"(?P<kind>v\w+|tpu7x)[:=](?P<shape>\d{1,9}(?:x\d{1,9}){1,2})(?:\*(?P<slices>\d{1,9}))?"
)
_GPU_NAME = lazy_pattern(r"(?P<kind>\w+?)(?::(?P<shape>\d{1,9}x\d{1,9}x\d{1,9}))?")


def gpu_names() -> tuple[str, ...]:
    """Return the names of the GPUs whose target configuration is shipped."""
    names = (one.name for one in _gpu_specs().iterdir())
    return tuple(sorted(n.removesuffix(".txtpb") for n in names if n.endswith(".txtpb")))


@cache
def gpu_config(name: str) -> str:
    """Return the target configuration of a GPU."""
    return (_gpu_specs() / f"{name}.txtpb").read_text(encoding="utf-8")


_USUAL_GPUS = {"6.0": "p100", "7.0": "v100", "8.0": "a100_sxm_80", "8.6": "a6000"}
_USUAL_GPUS |= {"9.0": "h100_sxm", "10.0": "b200", "10.3": "b300", "12.0": "rtx6000pro"}
"""The best known GPU of a compute capability."""


def usual_gpu(architecture: str) -> Target | None:
    """Return the best known GPU of an architecture, ``sm_9.0``, whose memory is then not known."""
    name = _USUAL_GPUS.get(architecture.removeprefix("sm_"))
    return None if name is None else replace(parse_target(name), memory_bytes=None)


def usual_tpu(devices: int) -> Target | None:
    """Return the smallest slice of v5e with some devices, whose memory is not known to be meant."""
    slices = (one for one in all_slices("v5e:*") if (device_count(one) or 0) >= devices)
    return next((replace(one, memory_bytes=None) for one in slices), None)


def _gpu_specs() -> Traversable:
    from importlib import resources  # slow to import, and most commands name no GPU

    return resources.files("hlo_lens.load") / "gpu_specs"


def parse_target(text: str) -> Target:
    """Return the target of a name.

    >>> parse_target("v5e:2x4").memory_bytes, parse_target("h100_sxm").memory_source
    (16911433728, "XLA's target configuration")

    Raises:
        UnknownNameError: If there is no such device; the message lists the devices.
        UsageError: If a TPU's topology is missing, or has another number of dimensions.
    """
    if text == "cpu":
        return CPU
    kinds = {kind.name: kind for kind in TPU_KINDS}
    tpu = _TPU_NAME.fullmatch(text)
    if tpu is not None and tpu["kind"] in kinds:
        return _tpu(kinds[tpu["kind"]], text, tpu["shape"], tpu["slices"])
    gpu = _GPU_NAME.fullmatch(text)
    if gpu is not None and gpu["kind"] in gpu_names():
        return gpu_target(gpu_config(gpu["kind"]), name=text, topology=gpu["shape"] or "")
    if text.split(":")[0] in kinds:
        kind = kinds[text.split(":")[0]]
        shape = "x".join("2241"[: kind.dimensions] if kind.dimensions == 2 else "221")
        raise UsageError(f"{text}: name the chips of each dimension: {kind.name}:{shape}")
    names = ", ".join((*(f"{name}:..." for name in kinds), *gpu_names(), "cpu"))
    hint = did_you_mean(text, (*kinds, *gpu_names()))
    raise UnknownNameError(f"no target {text!r}; there is {names}{hint}")


def _tpu(kind: TpuKind, text: str, shape: str, slices: str | None) -> Target:
    """Return a TPU target; slices of 4x4x4 chips and more wrap, as those that one rents do."""
    sizes = [int(size) for size in shape.split("x")]
    if len(sizes) != kind.dimensions:
        raise UsageError(f"{text}: {kind.name} has {kind.dimensions} dimensions")
    options: dict[str, object] = {}
    if kind.dimensions == 3 and all(size % 4 == 0 for size in sizes):
        options["wrap"] = [True, True, True]
    if slices is not None:
        options["num_slices"] = int(slices)
    return Target(
        backend="tpu",
        name=text,
        topology=f"{kind.name}:{shape}",
        options=options,
        memory_bytes=kind.memory_bytes,
        memory_source=TPU_SOURCE,
    )


def device_count(target: Target) -> int | None:
    """Return the devices of a target that a user names; None if it has as many as needed.

    >>> device_count(parse_target("v5e:2x4")), device_count(parse_target("v3:2x2*2"))
    (8, 16)
    """
    sizes = [int(size) for size in target.topology.rpartition(":")[2].split("x") if size]
    if not sizes:
        return None
    slices = target.options.get("num_slices", 1)
    return math.prod(sizes) * cores_of(target) * (slices if isinstance(slices, int) else 1)


def cores_of(target: Target) -> int:
    """Return the devices of each chip of a TPU; 1 for others, and where both cores are one."""
    kind = target.topology.partition(":")[0]
    is_joined = target.options.get("chip_config_name") == "megacore"
    return 2 if target.backend == "tpu" and kind in _TWO_CORES and not is_joined else 1


def all_slices(text: str) -> tuple[Target, ...]:
    """Return the targets that ``v5e:*`` stands for, smallest first.

    >>> [target.name for target in all_slices("v5p:*")][:3]
    ['v5p:1x1x1', 'v5p:2x2x1', 'v5p:2x2x2']

    Raises:
        UnknownNameError: If there is no such device.
        UsageError: For CPU, which has no slices.
    """
    name = text.removesuffix(":*")
    if name == "cpu":
        raise UsageError("cpu has as many devices as the program needs: no cpu:*")
    kind = next((one for one in TPU_KINDS if one.name == name), None)
    if kind is None:
        parse_target(name)  # an error for unknown devices
        shapes = [
            f"1x{max(1, count // _HOST_GPUS)}x{min(count, _HOST_GPUS)}" for count in _GPU_COUNTS
        ]
    else:
        known = _SLICES_2D if kind.dimensions == 2 else _SLICES_3D
        shapes = list(known[known.index(_SMALLEST.get(name, known[0])) :])
    return tuple(parse_target(f"{name}:{shape}") for shape in shapes)


_MEMORY = lazy_pattern(r"(?m)^\s*device_memory_size: (\d{1,18})\b")


def gpu_target(config: str, *, name: str = "", topology: str = "") -> Target:
    """Return the target of a GPU's target configuration."""
    memory, described = _MEMORY.search(config), _NAME.search(config)
    return Target(
        backend="gpu",
        name=name or (described[1] if described else "GPU"),
        topology=topology,
        gpu_config=config,
        memory_bytes=None if memory is None else int(memory[1]),
        memory_source=_GPU_SOURCE,
    )


TARGET_ARGUMENTS = "target_arguments.txt"
"""End of the name of libtpu's file that describes the slice."""

_VERSION = lazy_pattern(r'version: TPU_VERSION_(\w+)(?:\s+variant: "(\w+)")?')
_CHIP_CONFIG = lazy_pattern(r'chip_config_name: "(\w+)"')
_WRAP = lazy_pattern(r"\bwrap \{([^{}]*)\}")
_BOUNDS = lazy_pattern(r"\b(chips_per_host|host)_bounds \{([^{}]*)\}")
_AXIS = re.compile(r"([xyz]): (\w+)")
_CHIPS = re.compile(r"[1-9]\d{0,8}")
_SLICE = re.compile(r"\bslice_info \{")


_PACKED = lazy_pattern(r'(?m)^\s*value: "((?:[^"\\]|\\.)*)"')
_SIZES = "(?:[\x08\x10\x18].)"
_TOPOLOGY = lazy_pattern(
    '(?s)\n.\x08(?P<version>.)(?:\x12.(?P<variant>[a-z]+))?\x18.".(?P<config>[a-z]+)'
    f"\\*.(?P<chips_per_host>{_SIZES}+)2.(?P<host>{_SIZES}+):.(?P<wrap>{_SIZES}*)"
)
"""Fields 1 to 7 of the first message in TpuPjRtTopologyDescriptionProto, of one byte each."""


def topology_arguments(text: str) -> str | None:
    """Return what ``target_arguments.txt`` has of a slice, from PJRT's ``topology.textproto``.

    None if it is damaged, or of a TPU that is not known. Source: both files of compiles by libtpu
    0.0.52 for v4, v5e, v5p, v6e and tpu7x.
    """
    packed = _PACKED.search(text)
    try:
        value = "" if packed is None else packed[1].encode("latin-1").decode("unicode_escape")
    except ValueError:
        return None
    fields, versions = _TOPOLOGY.match(value), dict.fromkeys(one.version for one in TPU_KINDS)
    names = dict(enumerate(versions, start=1))
    if fields is None or ord(fields["version"]) not in names:
        return None
    words = [f"version: TPU_VERSION_{names[ord(fields['version'])]}"]
    words += [f'variant: "{fields["variant"]}"'] if fields["variant"] else []
    words.append(f'chip_config_name: "{fields["config"]}"')
    for name in ("chips_per_host", "host", "wrap"):
        sizes = zip(fields[name][::2], fields[name][1::2], strict=True)
        parts = [f"{'xyz'[ord(axis) // 8 - 1]}: {ord(size)}" for axis, size in sizes]
        parts = [one.replace(" 1", " true") for one in parts] if name == "wrap" else parts
        words.append(f"{name}{'_bounds' * (name != 'wrap')} {{ {' '.join(parts)} }}")
    return "\n".join(words)


def tpu_target(arguments: str) -> Target | None:
    """Return the target that libtpu's ``target_arguments.txt`` describes.

    None if it is of a TPU that is not known, or damaged.
    """
    version = _VERSION.search(arguments)
    kind = next(
        (
            one
            for one in TPU_KINDS
            if version and (one.version, one.variant) == (version[1], version[2] or "")
        ),
        None,
    )
    bounds: dict[str, list[int]] = {}
    for name, inside in _BOUNDS.findall(arguments):
        sizes_of = dict(_AXIS.findall(inside))
        counts = [sizes_of.get(axis, "") for axis in "xyz"]
        if not all(map(_CHIPS.fullmatch, counts)):
            return None  # the file is damaged
        bounds.setdefault(name, [int(count) for count in counts])
    if kind is None or set(bounds) != {"chips_per_host", "host"}:
        return None
    sizes = [a * b for a, b in zip(bounds["chips_per_host"], bounds["host"], strict=True)]
    shape = "x".join(map(str, sizes[: kind.dimensions]))
    options: dict[str, object] = {"chips_per_host_bounds": bounds["chips_per_host"]}
    memory = kind.memory_bytes
    config = _CHIP_CONFIG.search(arguments)
    if config is not None and config[1] != "default":
        options["chip_config_name"] = config[1]
        if config[1] == "megacore":
            memory = MEGACORE_BYTES.get(kind.name, memory)
    wrap = _WRAP.search(arguments)
    wrapped = dict(_AXIS.findall(wrap[1])) if wrap else {}
    if "true" in wrapped.values():
        options["wrap"] = [wrapped.get(axis) == "true" for axis in "xyz"]
    slices = len(_SLICE.findall(arguments))
    if slices > 1:
        options["num_slices"] = slices
    return Target(
        backend="tpu",
        name=f"{kind.name}:{shape}" + (f"*{slices}" if slices > 1 else ""),
        topology=f"{kind.name}:{shape}",
        options=options,
        memory_bytes=memory,
        memory_source=TPU_SOURCE,
    )


def gpu_topology(target: Target, devices: int) -> str:
    """Return partitions, hosts and devices of a GPU target, hosts of at most eight devices."""
    if target.topology:
        return target.topology
    hosts = math.ceil(devices / 8)
    return f"1x{hosts}x{devices if hosts == 1 else 8}"


SLICE_STRIDE = 100_000
"""Difference of the ids of the first devices of two TPU slices."""

_BRACE = re.compile(r"[{}]")
_DEVICES = re.compile(r"computation_devices \{([^{}]*)\}")
_ID = re.compile(r"replica_device_ids: (\d{1,18})\b")
_SETTINGS = (
    ("execution_options.txt", "device_assignment"),
    ("hlo_module_config.txt", "static_device_assignment"),
    ("config.pbtxt", "static_device_assignment"),
    ("compile_options.textproto", "device_assignment"),
)


@fact
def device_assignment(dump: ModuleDump) -> tuple[tuple[int, ...], ...] | None:
    """Return the device ids by replica and partition that a dump has; None if it has none."""
    for name, block in _SETTINGS:
        text = dump.setting(name) or ""
        start = text.find(f"{block} {{")
        if start < 0:
            continue
        depth, end = 0, start
        for brace in _BRACE.finditer(text, start):
            depth += 1 if brace[0] == "{" else -1
            end = brace.end()
            if depth == 0:
                break
        listed = _DEVICES.findall(text[start:end])
        columns = [tuple(map(int, _ID.findall(devices))) for devices in listed]
        if columns and columns[0] and len({len(column) for column in columns}) == 1:
            return tuple(zip(*columns, strict=True))
    return None


def slices_of(assignment: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the flattened numbers of the devices in each TPU slice, slices in order of their ids.

    >>> slices_of([[100000, 200000, 100001, 200001]])
    ((0, 2), (1, 3))

    The text of a slice counts its devices in this order: compared with texts of libtpu 0.0.51 for
    meshes of two slices whose devices take turns, and whose ids do not ascend.
    """
    slices: dict[int, list[int]] = {}
    for number, device in enumerate(one for row in assignment for one in row):
        slices.setdefault(device // SLICE_STRIDE, []).append(number)
    return tuple(tuple(slices[key]) for key in sorted(slices))


class ChipPlace(NamedTuple):
    """Place of a device: slice, coordinates of the chip, core."""

    slice: int
    x: int
    y: int
    z: int
    core: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Slices that a program was compiled for."""

    name: str
    sizes: tuple[int, int, int]
    wraps: tuple[bool, bool, bool]
    places: tuple[ChipPlace, ...]


def topology_of(target: Target, assignment: Sequence[Sequence[int]]) -> Topology | None:
    """Return the places of the devices of a program; None if the target has no known topology.

    >>> from hlo_lens.load.devices import parse_target
    >>> topology_of(parse_target("v5e:2x4"), [[0, 1, 2, 3]]).places[3]
    ChipPlace(slice=0, x=1, y=1, z=0, core=0)
    """
    shape = target.topology.rpartition(":")[2]
    if target.backend != "tpu" or not shape:
        return None
    counts = [int(size) for size in shape.split("x")]
    x, y, z = (*counts, 1, 1, 1)[:3]
    cores = cores_of(target)
    places = []
    for device in (device for row in assignment for device in row):
        number, local = divmod(device, SLICE_STRIDE)
        chip, core = divmod(local, cores)
        if chip >= x * y * z:
            return None
        places.append(ChipPlace(number, chip % x, chip // x % y, chip // (x * y), core))
    if not places or len(set(places)) != len(places):
        return None
    given = target.options.get("wrap")
    wraps = [*given, False, False, False] if isinstance(given, list) else [False] * 3
    return Topology(
        name=target.name,
        sizes=(x, y, z),
        wraps=(bool(wraps[0]), bool(wraps[1]), bool(wraps[2])),
        places=tuple(places),
    )
