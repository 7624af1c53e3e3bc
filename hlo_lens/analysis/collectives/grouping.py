"""Collectives in groups: by kind, mesh axis, source line, loop or operation path.

Bytes are those of one run of the program, each collective as often as it runs (at most, where a
conditional decides), or those of the text, each once. A sum that has an unknown part is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Unit, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.collectives.collectives import Collective
    from hlo_lens.analysis.result import Row

NO_LOOP = "[not in a loop]"
NO_SOURCE = "[no source line]"
NO_OP = "[no operation path]"
UNKNOWN_TIMES = "x?"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveGroup:
    """Collectives that have something in common.

    Attributes:
        group: What they have in common.
        kind: Their kinds.
        axis: Mesh axes of their groups of devices.
        devices: Sizes of these groups; ``?`` where unknown or unequal.
        element_type: Element types of what they move.
        static: How many there are in the text.
        dynamic: How often one run performs them; None if not known for each.
        times: The same for people: ``24``, ``<=24``, ``24 + x?``.
        payload_bytes: Bytes of their full tensors; None if not known for each.
        wire_bytes: Bytes that leave each device; None if not known for each.
        exposed: How many of them nothing runs beside.
        asynchronous: How many of them something may run beside.
        where: Source line of the one that moves the most, and how many others there are.
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
    """Groups of collectives, those that move the most first; unknown amounts before all others.

    Attributes:
        by: What the groups are.
        is_dynamic: Whether bytes are those of one run, not those of the text.
        groups: The groups.
    """

    KIND: ClassVar[str] = "collectives-by"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("group", Unit.NONE, "what they have in common"),
        Column("kind", Unit.NONE, "kinds of collectives"),
        Column("axis", Unit.NONE, "mesh axes of the groups of devices"),
        Column("devices", Unit.NONE, "devices in a group"),
        Column("element_type", Unit.NONE, "element types"),
        Column("static", Unit.COUNT, "how many there are in the text"),
        Column("dynamic", Unit.COUNT, "how often one run performs them"),
        Column("times", Unit.NONE, "the same, with bounds and x? for what is not known"),
        Column("payload_bytes", Unit.BYTES, "bytes of the full tensors of one group"),
        Column("wire_bytes", Unit.BYTES, "bytes that leave each device"),
        Column("exposed", Unit.COUNT, "how many of them nothing runs beside"),
        Column("asynchronous", Unit.COUNT, "how many of them other instructions may run beside"),
        Column("where", Unit.NONE, "source line of the largest"),
    )
    by: str
    is_dynamic: bool
    groups: tuple[CollectiveGroup, ...]

    def rows(self) -> Iterator[Row]:
        """Return the groups."""
        return rows_of(self.groups, self.COLUMNS)

    def totals(self) -> Mapping[str, int]:
        """Return the sums of the columns that are known in all groups."""
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
        is_dynamic: Whether bytes are those of one run, not those of the text.
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
    counts = [c.dynamic_count for c in members]
    return CollectiveGroup(
        group=name,
        kind=_joined(c.kind for c in members),
        axis=_joined(c.axis for c in members),
        devices=_joined(str(c.group_size or "?") for c in members),
        element_type=_joined(t for c in members for t in (c.element_type or "?").split(",")),
        static=len(members),
        dynamic=_sum(counts),
        times=_times(members),
        payload_bytes=_sum(
            _scaled(c.payload_bytes, c.dynamic_count if is_dynamic else 1) for c in members
        ),
        wire_bytes=_sum(
            c.wire_bytes_per_run if is_dynamic else c.wire_bytes_per_device for c in members
        ),
        exposed=sum(c.is_exposed is True for c in members),
        asynchronous=sum(c.is_async for c in members),
        where=_where(members),
    )


def _joined(parts: Iterable[str]) -> str:
    return " ".join(sorted(dict.fromkeys(parts)))


def _sum(parts: Iterable[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _scaled(size: int | None, times: int | None) -> int | None:
    if times == 0:
        return 0
    return None if size is None or times is None else size * times


def times_of(collective: Collective) -> str:
    """Return how often one run performs a collective, for people."""
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
    """Return the source line of the collective that moves the most, and how many others."""
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
"""What collectives can be grouped by."""

CHOICES = ("kind", "axis", "source", "loop", "op")
"""Those that users can ask for."""
