"""Pattern of the source and target pairs of a collective-permute, in a few words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.mesh_axes import strides_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.questions.sharding.mesh_axes import GroupAxes, ModuleMesh
    from hlo_lens.shapes.replica_groups import Groups


def transfer_pattern(pairs: Groups, axes: GroupAxes | None, meshes: Sequence[ModuleMesh]) -> str:
    """Return the pattern of source and target pairs in a few words.

    ``shift +1 around model``: each device sends to the next along an axis, the last to the first;
    ``shift +1 along model``: the same without the last; else the lengths of the cycles.

    >>> transfer_pattern(((0, 1), (1, 2), (2, 0)), None, ())
    'cycle of 3'
    """
    moved = tuple((pair[0], pair[-1]) for pair in pairs if len(set(pair)) > 1)
    if not moved:
        return "moves nothing"
    shift = _shift(moved, axes, meshes)
    return shift or _cycles(moved)


def _shift(
    pairs: tuple[tuple[int, int], ...], axes: GroupAxes | None, meshes: Sequence[ModuleMesh]
) -> str | None:
    """Return the shift along one axis that equals the transfers, or None."""
    if axes is None or len(axes.axes) != 1:
        return None
    (name,) = axes.axes
    for module_mesh in meshes:
        mesh = module_mesh.mesh
        found = module_mesh.positions(pairs) if name in mesh.axis_names else None
        if found is None:
            continue
        _, size, stride = next(s for s in strides_of(mesh) if s[0] == name)
        digits = [[place // stride % size for place in pair] for pair in found]
        around = {(target - source) % size for source, target in digits}
        if len(around) != 1:
            return None
        step = around.pop()
        step = step - size if step > size // 2 else step
        wraps = any(source + step != target for source, target in digits)
        if not wraps:
            return f"shift {step:+d} along {name}"
        every = len({tuple(pair) for pair in digits}) == size
        return f"shift {step:+d} around {name}" if every else None
    return None


def _cycles(pairs: tuple[tuple[int, int], ...]) -> str:
    """Return the lengths of the cycles and open chains of transfers."""
    following = dict(pairs)
    targets = set(following.values())
    chains = [d for d in following if d not in targets]
    lengths: Counter[tuple[bool, int]] = Counter()
    seen: set[int] = set()
    for first in (*chains, *following):
        if first in seen:
            continue
        length, device = 0, first
        while device in following and device not in seen:
            seen.add(device)
            device = following[device]
            length += 1
        is_chain = device != first
        lengths[is_chain, length + is_chain] += 1
    found = []
    for (is_chain, length), count in sorted(lengths.items()):
        kind = "chain" if is_chain else "cycle"
        found.append(f"{f'{count} {kind}s' if count > 1 else kind} of {length}")
    return ", ".join(found)
