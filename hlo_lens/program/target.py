"""Target of a dump, and the compiler that wrote it, as its files and settings name them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

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
)
from hlo_lens.load.fact import fact
from hlo_lens.load.files import STDIN, read_source
from hlo_lens.program.summary import backend_of_dump
from hlo_lens.text.errors import UnreadableError
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.devices import Target
    from hlo_lens.load.module import ModuleDump


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
    """Return the target that a dump names, else the usual GPU of its architecture."""
    is_gpu = backend_of_dump(dump) == "gpu"
    return own_target(dump) or (usual_gpu(target_text(dump) or "") if is_gpu else None)


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
    return None if number is None else f"libtpu cl {number}"


_GPU_STAGE = re.compile(r"(?P<target>sm_[\d.]+|gfx[0-9a-f]+)[a-z]?_gpu_")


def target_text(dump: ModuleDump) -> str | None:
    """Return a GPU's architecture from the stage's name, a TPU's topology from its file.

    The letter of an architecture is left out: XLA writes sm_9.0 or sm_9.0a for one GPU.
    """
    match = _GPU_STAGE.match(dump.stage or "")
    if match is not None:
        return match["target"]
    text = dump.setting(TARGET_ARGUMENTS)
    if text is not None:
        return _tpu_text(text)
    first = Path(next(iter(dump.files), STDIN))
    number, mark, _ = first.name.partition(".cl_")
    if not mark:
        return None
    for file in sorted(first.parent.glob(f"*{TARGET_ARGUMENTS}*")):  # beside a text read alone
        if file.name.partition(".cl_")[0] == number:
            try:
                return _tpu_text(read_source(str(file)).text)
            except UnreadableError:
                return None
    return None


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
