"""Facts about a program's sharding, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.analysis.sharding.results import ShardingResults
    from hlo_lens.analysis.sharding.table import ShardedValue
    from hlo_lens.model.shapes.mesh import Mesh


def sharding_facts(results: ShardingResults) -> Iterator[tuple[str, str]]:
    """Yield the lines about sharding on the first page; none for a program of one device."""
    if results.table.num_devices > 1:
        mesh = mesh_text(results.table.meshes).removeprefix(", ")
        parts = [mesh, f"replicated: {replicated_text(results)}"]
        yield "sharding", "; ".join(part for part in parts if part)


def mesh_text(meshes: Sequence[Mesh]) -> str:
    """Return the meshes of a program, after a comma; empty where none is known."""
    texts = []
    for mesh in meshes:
        sizes = zip(mesh.axis_names, mesh.axis_sizes, strict=True)
        texts.append(" x ".join(f"{name}={size}" for name, size in sizes))
    if not texts:
        return ""
    return f", mesh {'; '.join(texts)}"


def total_text(values: Sequence[ShardedValue]) -> str:
    """Return the number of values, and their bytes in all and on one device."""
    if not values:
        return "none"
    whole = [value.global_bytes for value in values]
    part = [value.device_bytes for value in values]
    text = f"{len(values):,} of {_sum(whole)} in all, {_sum(part)} on each device"
    return f"{text} (at most: {_BOUND})" if any(value.is_upper_bound for value in values) else text


_BOUND = "global shapes are the device's times its tiles"


def _sum(sizes: Iterable[int | None]) -> str:
    listed = list(sizes)
    unknown = listed.count(None)
    text = format_bytes(sum(size or 0 for size in listed))
    return f"{text} and {plural(unknown, 'value')} of unknown size" if unknown else text


def replicated_text(results: ShardingResults) -> str:
    """Return the bytes held by several devices, and the savings of each axis."""
    found = results.replicated
    if not found.replicated:
        unknown = [v for v in results.table.values if v.replication_factor is None]
        return "not known: no text has the shardings" if unknown else "nothing"
    size = _sum(value.device_bytes for value in found.replicated)
    text = f"{plural(len(found.replicated), 'value')} of {size} on each device"
    savings = [
        f"{axis} would save {format_bytes(saved)} ({plural(count, 'value')})"
        for axis, count, _, saved in found.by_axis.axes
    ]
    return "; dividing over ".join([text, *savings])


def donation_text(results: ShardingResults) -> str:
    """Return the number and bytes of arguments by outcome of donation."""
    from hlo_lens.analysis.sharding.donation import DonationStatus  # not for the first page

    parts = []
    for status in DonationStatus:
        found = results.donations.of(status)
        if found:
            size = _sum(donation.value.device_bytes for donation in found)
            parts.append(f"{len(found):,} of {size} {status.value}")
    return "; ".join(parts) or "none"
