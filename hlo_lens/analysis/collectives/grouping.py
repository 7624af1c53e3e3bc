"""Collectives in groups: by kind, mesh axis, source line, loop or operation path.

Bytes are per program run, each collective counted as often as it runs (at most, under a
conditional), or per text, each once. A sum with an unknown part is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Unit, sum_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hlo_lens.analysis.collectives.collectives import Collective

NO_LOOP = "[not in a loop]"
NO_SOURCE = "[no source line]"
NO_OP = "[no operation path]"
UNKNOWN_TIMES = "x?"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveGroup:
    """Collectives of one group; its fields are columns of `CollectivesBy`.

    Sums are None if any part is unknown. `times` is text: ``24``, ``<=24``, ``24 + x?``; `where`
    has the source line of the collective that moves the most, and the number of others.
    """

    group: str
    kind: str
    axis: str
    devices: str
    element_type: str
    static: int
    dynamic: int | None
    times: str
    payload_bytes: int | None
    wire_bytes: int | None
    exposed: int
    asynchronous: int
    where: str | None


@dataclass(frozen=True, kw_only=True)
class CollectivesBy(Result):
    """Groups of collectives by bytes, largest first; unknown amounts first of all.

    Attributes:
        by: Kind of grouping.
        is_dynamic: Whether bytes are per program run; else each collective counts once.
        groups: The groups.
    """

    KIND: ClassVar[str] = "collectives-by"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("group", Unit.NONE, "label of the group"),
        Column("kind", Unit.NONE, "kinds of collectives"),
        Column("axis", Unit.NONE, "mesh axes of the groups of devices"),
        Column("devices", Unit.NONE, "devices in a group"),
        Column("element_type", Unit.NONE, "element types"),
        Column("static", Unit.COUNT, "collectives in the text"),
        Column("dynamic", Unit.COUNT, "runs per program run"),
        Column("times", Unit.NONE, "dynamic as text, with bounds, and x? for unknown counts"),
        Column("payload_bytes", Unit.BYTES, "bytes of the full tensors of one group"),
        Column("wire_bytes", Unit.BYTES, "bytes that leave each device"),
        Column("exposed", Unit.COUNT, "collectives that nothing overlaps"),
        Column("asynchronous", Unit.COUNT, "collectives that may overlap with other instructions"),
        Column("where", Unit.NONE, "source line of the largest"),
    )
    RECORDS: ClassVar[str] = "groups"
    by: str
    is_dynamic: bool
    groups: tuple[CollectiveGroup, ...]

    def totals(self) -> Mapping[str, int]:
        """Return the sums of columns that are known in all groups."""
        found: dict[str, int] = {}
        for name in ("static", "payload_bytes", "wire_bytes", "exposed"):
            cells = [getattr(group, name) for group in self.groups]
            if all(isinstance(cell, int) for cell in cells):
                found[name] = sum(cells)
        return found


def collectives_by(
    found: Sequence[Collective], by: str, *, is_dynamic: bool = True
) -> CollectivesBy:
    """Return collectives in groups.

    Args:
        found: The collectives.
        by: A key of `LABELS`.
        is_dynamic: Whether bytes are per program run; else each collective counts once.
    """
    label = LABELS[by]
    members: dict[str, list[Collective]] = {}
    for collective in found:
        members.setdefault(label(collective), []).append(collective)
    groups = [_group(name, listed, is_dynamic) for name, listed in members.items()]
    groups.sort(key=lambda group: (_descending(group.wire_bytes), group.group))
    return CollectivesBy(by=by, is_dynamic=is_dynamic, groups=tuple(groups))


def _descending(size: int | None) -> tuple[int, int]:
    return (0, 0) if size is None else (1, -size)


def _group(name: str, members: list[Collective], is_dynamic: bool) -> CollectiveGroup:
    return CollectiveGroup(
        group=name,
        kind=_joined(c.kind for c in members),
        axis=_joined(c.axis for c in members),
        devices=_joined(str(c.group_size or "?") for c in members),
        element_type=_joined(t for c in members for t in (c.element_type or "?").split(",")),
        static=len(members),
        dynamic=sum_of(c.dynamic_count for c in members),
        times=_times(members),
        payload_bytes=sum_of(
            _scaled(c.payload_bytes, c.dynamic_count if is_dynamic else 1) for c in members
        ),
        wire_bytes=sum_of(
            c.wire_bytes_per_run if is_dynamic else c.wire_bytes_per_device for c in members
        ),
        exposed=sum(c.is_exposed is True for c in members),
        asynchronous=sum(c.is_async for c in members),
        where=_where(members),
    )


def _joined(parts: Iterable[str]) -> str:
    return " ".join(sorted(dict.fromkeys(parts)))


def _scaled(size: int | None, times: int | None) -> int | None:
    if times == 0:
        return 0
    return None if size is None or times is None else size * times


def times_of(collective: Collective) -> str:
    """Return the runs of a collective per program run, as text."""
    if collective.dynamic_count is None:
        return UNKNOWN_TIMES
    return f"{'<=' if collective.is_at_most else ''}{collective.dynamic_count:,}"


def _times(members: list[Collective]) -> str:
    known = sum(c.dynamic_count or 0 for c in members)
    unknown = any(c.dynamic_count is None for c in members)
    if unknown and not known:
        return UNKNOWN_TIMES
    bound = "<=" if any(c.is_at_most for c in members) else ""
    return f"{bound}{known:,}{f' + {UNKNOWN_TIMES}' if unknown else ''}"


def _where(members: list[Collective]) -> str | None:
    """Return the source line of the collective that moves the most, and the number of others."""
    largest = max(members, key=lambda c: c.wire_bytes_per_run or c.wire_bytes_per_device or 0)
    places = {place for c in members if (place := c.source) is not None}
    first = largest.source
    if first is None:
        first = min(places, default=None)
    more = len(places - {first})
    return f"{first} +{more}" if first is not None and more else first


LABELS: Mapping[str, Callable[[Collective], str]] = {
    "kind": lambda c: c.kind,
    "axis": lambda c: c.axis,
    "source": lambda c: c.source or NO_SOURCE,
    "loop": lambda c: " > ".join(c.loop_path) or NO_LOOP,
    "op": lambda c: c.op_name or NO_OP,
    "kind and axis": lambda c: f"{c.kind} {c.axis}",
}
"""Label functions of the groupings."""

CHOICES = ("kind", "axis", "source", "loop", "op")
"""Groupings that users can choose."""
