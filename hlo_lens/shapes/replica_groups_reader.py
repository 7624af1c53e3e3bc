"""Text of ``replica_groups`` and ``source_target_pairs`` to objects of the model.

The grammar is the definition (`parse_device_list_with_grammar`). `parse_device_list` reads the
forms that XLA prints most by regular expressions, with the same result; all other texts go to the
grammar, which also finds the places of errors. It is loaded when it is first needed.
"""

from __future__ import annotations

import functools
import re

from hlo_lens.grammar.misplaced import MisplacedError
from hlo_lens.shapes.mesh_reader import (
    AXIS_REFS,
    IOTA,
    MESH,
    NUMBERS,
    device_array,
    positive,
    printed_axes,
    printed_iota,
    printed_mesh,
    resolved,
)
from hlo_lens.shapes.replica_groups import (
    CollectiveDeviceList,
    IotaReplicaGroupList,
    MeshAxesReplicaGroupList,
    ReplicaGroups,
)
from hlo_lens.text.errors import UsageError

_GROUP = rf"\{{(?:{NUMBERS})?+\}}"
_LISTS = re.compile(rf"\{{(?:{_GROUP}(?:,{_GROUP})*+)?+\}}")
_LIST = re.compile(r"\{([\d,]*+)\}")
_IOTA = re.compile(rf"\[(\d{{1,9}}),(\d{{1,9}})\]<={IOTA}")
_MESH = re.compile(rf"{MESH} \{{((?:{AXIS_REFS})?+)\}}")


@functools.lru_cache(maxsize=1 << 12)
def parse_device_list(text: str) -> CollectiveDeviceList:
    """Return the device list of a ``replica_groups`` value; each distinct text is parsed once.

    Raises:
        DumpSyntaxError: If it is malformed; line and column are those within the text.
    """
    try:
        found = _printed(text)
    except (MisplacedError, UsageError):
        found = None
    if found is None:
        from hlo_lens.shapes.replica_groups_grammar import parse_device_list_with_grammar

        return parse_device_list_with_grammar(text)
    return found


def _printed(text: str) -> CollectiveDeviceList | None:
    """Return the device list of a common form; None where only the grammar can decide."""
    if _LISTS.fullmatch(text) is not None:
        groups = (group.split(",") if group else () for group in _LIST.findall(text, 1))
        return ReplicaGroups(groups=tuple(tuple(map(int, group)) for group in groups))
    match = _IOTA.fullmatch(text)
    if match is not None:
        count, size, view, order = match.groups()
        dimensions = (positive(count), positive(size))
        assignment = device_array(count, dimensions, printed_iota(view, order))
        return IotaReplicaGroupList(assignment=assignment)
    match = _MESH.fullmatch(text)
    if match is None:
        return None
    axes, view, order, ids, refs = match.groups()
    mesh = printed_mesh(axes, view, order, ids)
    found = resolved(mesh, printed_axes(refs))
    mesh.split(found)
    return MeshAxesReplicaGroupList(mesh=mesh, axes=found)
