"""Device assignment of a program: the device of each replica and partition, and its slices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.load.fact import fact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump

SLICE_STRIDE = 100_000
"""Difference of the ids of the first devices of two TPU slices."""

_DEVICES = re.compile(r"computation_devices \{([^{}]*)\}")
_ID = re.compile(r"replica_device_ids: (\d+)")
_SETTINGS = (
    ("execution_options.txt", "device_assignment"),
    ("hlo_module_config.txt", "static_device_assignment"),
    ("config.pbtxt", "static_device_assignment"),
    ("compile_options.textproto", "device_assignment"),
)


@fact
def device_assignment(dump: ModuleDump) -> tuple[tuple[int, ...], ...] | None:
    """Return the device ids by replica and partition that a dump has; None if it has none."""
    for name, field in _SETTINGS:
        text = dump.setting(name) or ""
        start = text.find(f"{field} {{")
        if start < 0:
            continue
        columns = [tuple(map(int, _ID.findall(inside))) for inside in _devices(text, start)]
        if columns and columns[0] and len({len(column) for column in columns}) == 1:
            return tuple(zip(*columns, strict=True))
    return None


def _devices(text: str, start: int) -> Iterator[str]:
    """Yield the devices of each computation of the assignment that begins at a place."""
    depth, end = 0, start
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        end = match.end()
        if depth == 0:
            break
    yield from _DEVICES.findall(text[start:end])


def slices_of(assignment: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the flattened numbers of the devices in each TPU slice, slices in order of their ids.

    >>> slices_of([[100000, 200000, 100001, 200001]])
    ((0, 2), (1, 3))

    The text of a slice counts its devices in this order: compared with texts of libtpu 0.0.51 for
    meshes of two slices whose devices take turns, and whose ids do not ascend.
    """
    found: dict[int, list[int]] = {}
    for number, device in enumerate(one for row in assignment for one in row):
        found.setdefault(device // SLICE_STRIDE, []).append(number)
    return tuple(tuple(found[key]) for key in sorted(found))
