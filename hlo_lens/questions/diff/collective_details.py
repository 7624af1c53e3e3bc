"""Differences between two matched collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.questions.collectives.results import UNKNOWN_TIMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.questions.snapshots.rows import CollectiveFact

EXPOSED, HIDDEN = "exposed, was hidden", "hidden, was exposed"
INTO, OUT_OF = "into a loop", "out of a loop"


class Detail(NamedTuple):
    """One difference between two matched collectives.

    Attributes:
        what: Name of the value that differs, or a text without values.
        base: Value in the base; None with a text.
        head: Value in the head; None with a text.
        is_bytes: Whether the values are bytes.
    """

    what: str
    base: str | int | None = None
    head: str | int | None = None
    is_bytes: bool = False

    def __str__(self) -> str:
        if self.base is None is self.head:
            return self.what
        one, other = ("?" if value is None else value for value in (self.base, self.head))
        return f"{self.what} {one} -> {other}"


def details_of(base: CollectiveFact, head: CollectiveFact) -> Iterator[Detail]:
    """Yield the differences between two matched collectives."""
    if len(base.loops) != len(head.loops):
        yield Detail(_way(base, head))
    if base.dynamic_count != head.dynamic_count or base.is_at_most != head.is_at_most:
        yield Detail("times", times_text(base), times_text(head))
    if base.payload_bytes != head.payload_bytes:
        yield Detail("payload", base.payload_bytes, head.payload_bytes, is_bytes=True)
    if base.element_type != head.element_type:
        yield Detail("type", base.element_type, head.element_type)
    if not _is_same_axis(base, head):
        yield (
            Detail("axis", base.axis, head.axis)
            if base.axis != head.axis
            else Detail("other devices in the groups")
        )
    if base.group_size != head.group_size:
        yield Detail("group size", base.group_size, head.group_size)
    if base.is_exposed is False and head.is_exposed:
        yield Detail(EXPOSED)
    elif base.is_exposed and head.is_exposed is False:
        yield Detail(HIDDEN)
    yield from _rest(base, head)


def _rest(base: CollectiveFact, head: CollectiveFact) -> Iterator[Detail]:
    """Yield differences that the others do not imply."""
    if base.num_groups != head.num_groups:
        yield Detail("groups", base.num_groups, head.num_groups)
    if base.payload_bytes != head.payload_bytes:
        return  # bytes on the wire follow from it
    if base.wire_bytes_per_device != head.wire_bytes_per_device:
        one, other = base.wire_bytes_per_device, head.wire_bytes_per_device
        yield Detail("on the wire each time", one, other, is_bytes=True)


def _way(base: CollectiveFact, head: CollectiveFact) -> str:
    """Return into or out of which loop a collective moved."""
    if len(head.loops) > len(base.loops):
        return f"{INTO}: {_short(head.loops[-1])}"
    return f"{OUT_OF}: {_short(base.loops[-1])}"


def _short(loop: str) -> str:
    """Return the last scope of a loop's operation path and its trip count."""
    return loop.rpartition("/")[2]


def _is_same_axis(base: CollectiveFact, head: CollectiveFact) -> bool:
    """Return whether groups are the same devices, or along axes of one name."""
    if base.groups == head.groups:
        return True
    return base.axis == head.axis and base.are_axes_named and head.are_axes_named


def arrow(one: str | None, other: str | None) -> str:
    """Return two texts with an arrow between them, or one if they are equal.

    >>> arrow("1", "48"), arrow("2", "2"), arrow(None, "2")
    ('1 -> 48', '2', '2')
    """
    texts = [text for text in (one, other) if text is not None]
    return " -> ".join(dict.fromkeys(texts))


def times_text(fact: CollectiveFact | None) -> str | None:
    """Return the executions of a collective in one run as text."""
    if fact is None:
        return None
    if fact.dynamic_count is None:
        return UNKNOWN_TIMES
    is_at_most = fact.is_at_most if fact.branches is None else bool(fact.branches)
    return f"{'<=' if is_at_most else ''}{fact.dynamic_count:,}"
