"""Combined collectives: the operations that XLA performs as one, and their parts of the bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.questions.collectives.results import Collective


class Member(NamedTuple):
    """One of the operations that a combined collective performs; fields as in `Collective`."""

    source_file: str | None
    source_line: int | None
    op_name: str | None
    origin_basis: str | None
    payload_bytes: int | None


def parts_of(collective: Collective) -> tuple[Collective, ...]:
    """Return a collective for each operation of a combined one, with its part of the bytes.

    The first of the largest parts counts as the collective, the others count as none.
    """
    members = collective.members
    if not members:
        return (collective,)
    sizes = [member.payload_bytes or 0 for member in members]
    wire = collective.wire_bytes_per_device
    wires = [None] * len(sizes) if wire is None else shares(wire, sizes)
    largest = sizes.index(max(sizes))
    return tuple(
        collective._replace(
            source_file=member.source_file,
            source_line=member.source_line,
            op_name=member.op_name,
            origin_basis=member.origin_basis,
            payload_bytes=member.payload_bytes,
            wire_bytes_per_device=wires[position],
            stack=collective.member_stacks[position] if collective.member_stacks else (),
            static_count=int(position == largest),
            members=(),
            member_stacks=(),
        )
        for position, member in enumerate(members)
    )


def shares(whole: int, sizes: Sequence[int]) -> list[int]:
    """Return an amount in proportion to some sizes; the first of the largest has the rest.

    >>> shares(10, [1, 1, 1])
    [4, 3, 3]
    """
    total = sum(sizes)
    found = [whole * size // total if total else 0 for size in sizes]
    found[sizes.index(max(sizes))] += whole - sum(found)
    return found
