"""Target and compiler of a dump, from the names of its files and from files next to them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load import STDIN, read_source
from hlo_lens.text.errors import UnreadableError
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump

_GPU_STAGE = re.compile(r"(?P<target>sm_[\d.]+|gfx[0-9a-f]+)[a-z]?_gpu_")
_CHANGE_LIST = re.compile(r"\.cl_(\d+)\.")
_TPU_VERSION = re.compile(r'version: (\w+)(?:\s+variant: "(\w+)")?')
_BOUNDS = re.compile(r"(?:chips_per_host|host)_bounds \{([^{}]*)\}")
_HOSTS = re.compile(r"chips_per_host_bounds \{")
_SLICE = re.compile(r"\bslice_info \{")
_WRAP = re.compile(r"\bwrap \{([^{}]*)\}")
_WRAPPED = re.compile(r"([xyz]): true")
_BOUND = re.compile(r"([xyz]): (\d+)")
_TARGET_FILES = "*target_arguments.txt*"


def toolchain_of(dump: ModuleDump) -> str | None:
    """Return the compiler: libtpu writes its change list into file names; None for others."""
    match = next((m for file in dump.files if (m := _CHANGE_LIST.search(Path(file).name))), None)
    return None if match is None else f"libtpu cl {match[1]}"


def target_of(dump: ModuleDump) -> str | None:
    """Return a GPU's architecture from the stage's name, a TPU's topology from its file.

    The letter of an architecture is left out: XLA writes sm_9.0 or sm_9.0a for one GPU.
    """
    match = _GPU_STAGE.match(dump.stage or "")
    if match is not None:
        return match["target"]
    text = dump.setting("target_arguments.txt")
    if text is not None:
        return _tpu_target(text)
    first = next(iter(dump.files), STDIN)
    if first == STDIN or _CHANGE_LIST.search(Path(first).name) is None:
        return None
    number = Path(first).name.partition(".cl_")[0]
    for file in sorted(Path(first).parent.glob(_TARGET_FILES)):
        if file.name.partition(".cl_")[0] == number:
            try:
                return _tpu_target(read_source(str(file)).text)
            except UnreadableError:
                return None
    return None


def _tpu_target(text: str) -> str | None:
    """Return version, slices, chips and wrap of a TPU as libtpu prints them; None without version.

    A program of several slices has one topology for each in `slice_info`, and that of its own slice
    again after them. An axis that wraps has links from its last chip to the first.
    """
    version = _TPU_VERSION.search(text)
    if version is None:
        return None
    parts = _SLICE.split(text)
    own = parts if len(parts) == 1 else [_first_topology(part) for part in parts[1:]]
    slices = Counter(map(_chips, own))
    words = [word for word in version.groups() if word]
    listed = (
        f"{plural(count, 'slice')} of {chips}" if len(own) > 1 else chips
        for chips, count in slices.items()
    )
    return f"{' '.join(words)} {' and '.join(listed)}"


def _first_topology(text: str) -> str:
    """Return a text up to the second bounds of one kind, which are those of another topology."""
    second = [match.start() for match in _HOSTS.finditer(text)][1:2]
    return text[: second[0]] if second else text


def _chips(text: str) -> str:
    """Return the chips of the one topology in a text, and the axes that wrap."""
    sizes = [1, 1, 1]
    for inside in _BOUNDS.findall(text):
        found = dict(_BOUND.findall(inside))
        sizes = [size * int(found.get(axis, 1)) for size, axis in zip(sizes, "xyz", strict=True)]
    wrap = _WRAP.search(text)
    axes = "".join(_WRAPPED.findall(wrap[1])) if wrap else ""
    return f"{'x'.join(map(str, sizes))} chips{f', wrap {axes}' if axes else ''}"
