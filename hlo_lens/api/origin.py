"""Target and compiler of a dump, from the names of its files and from files next to them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load import STDIN, read_source
from hlo_lens.text.errors import UnreadableError

if TYPE_CHECKING:
    from hlo_lens.model.dump import ModuleDump

_GPU_STAGE = re.compile(r"(?P<target>sm_[\d.]+|gfx[0-9a-f]+)[a-z]?_gpu_")
_CHANGE_LIST = re.compile(r"\.cl_(\d+)\.")
_TPU_VERSION = re.compile(r'version: (\w+)(?:\s+variant: "(\w+)")?')
_BOUNDS = re.compile(r"(?:chips_per_host|host)_bounds \{([^{}]*)\}")
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
    if dump.target_text is not None:
        text = dump.target_text.get()
        return None if text is None else _tpu_target(text)
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
    """Return version and chips of a TPU as libtpu prints them; None without version."""
    version = _TPU_VERSION.search(text)
    if version is None:
        return None
    sizes = [1, 1, 1]
    for inside in _BOUNDS.findall(text):
        found = dict(_BOUND.findall(inside))
        sizes = [size * int(found.get(axis, 1)) for size, axis in zip(sizes, "xyz", strict=True)]
    words = [word for word in version.groups() if word]
    return f"{' '.join(words)} {'x'.join(map(str, sizes))} chips"
