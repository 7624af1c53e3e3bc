"""Collectives that rules look at, with the values that they transfer."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.metadata import SourceLocation
from hlo_lens.load.fact import fact
from hlo_lens.program.summary import hlo_text
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.collectives.collective import (
    WIRE,
    collectives,
    end_of,
    instruction_of,
    run_sum,
)
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.values import is_used, operands_of
from hlo_lens.text.units import format_bytes, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.runs import SumBounds
    from hlo_lens.questions.collectives.collective import Collective

_MOST = 1000
"""Most collectives of a module whose values are followed: those that move the most in one run."""

_MOST_SHOWN = 5


class Part(NamedTuple):
    """One of the arrays that a collective transfers.

    Attributes:
        operand: The operand.
        result: The result of the collective or of its end, or an element of it.
    """

    operand: Value
    result: Value


class Transfer(NamedTuple):
    """A collective, and its values; none if the text does not show them."""

    collective: Collective
    parts: tuple[Part, ...]


@fact
def transfers(known: ModuleDump) -> tuple[Transfer, ...]:
    """Return the collectives that move the most, with their values, in text order."""
    found = [one for one in collectives(known).collectives if not one.moves_nothing]
    if len(found) > _MOST:
        kept = heapq.nlargest(
            _MOST, range(len(found)), key=lambda place: found[place].wire_bytes_per_run or 0
        )
        found = [found[place] for place in sorted(kept)]
    return tuple(Transfer(one, _parts(known, one)) for one in found)


def _parts(known: ModuleDump, collective: Collective) -> tuple[Part, ...]:
    module = hlo_text(known)
    start, end = instruction_of(module, collective), end_of(module, collective)
    if start is None or end is None or end.shape is None:
        return ()
    operands = operands_of(module, start.row)
    results = [Value(end.row)]
    if end.shape.is_tuple:
        results = [Value(end.row, (k,)) for k in range(len(end.shape.tuple_shapes))]
    if any(one.row == NOTHING for one in operands) or len(results) != len(operands):
        return ()
    pairs = zip(operands, results, strict=True)
    return tuple(Part(operand, result) for operand, result in pairs if is_used(module, result))


def by_line(collectives: Iterable[Collective]) -> Iterator[list[Collective]]:
    """Yield collectives of the same kind, axes and source line, in text order."""
    groups: dict[object, list[Collective]] = {}
    for one in collectives:
        groups.setdefault((one.kind, one.axis, one.source), []).append(one)
    yield from groups.values()


def subject(collectives: Sequence[Collective]) -> str:
    """Return the number of some collectives of one kind and axes, with both."""
    first = collectives[0]
    along = f" over {first.axis}" if first.axis not in ("?", "-") else ""
    many = len(collectives)
    return f"{first.kind}{along}" if many == 1 else f"{many} {first.kind}s{along}"


def finding_of(
    collectives: Sequence[Collective],
    message: str,
    fix: str,
    *,
    saved_share: float = 1.0,
    saves: Saves | None = None,
    severity: Severity | None = None,
) -> Finding:
    """Return the finding about collectives of one line.

    Args:
        collectives: The collectives, of one kind, axes and line.
        message: What is wrong with them.
        fix: What to write instead.
        saved_share: Share of their bytes on the wire that the fix saves, at most.
        saves: Saving, where it is no share of these bytes.
        severity: Severity, where the saving does not decide it.
    """
    wire = run_sum(collectives, WIRE)
    first = collectives[0]
    saved = Saves.at_most(wire_bytes=None if wire is None else int(wire.most * saved_share))
    return Finding(
        message=message,
        fix=fix,
        **at(_place(first)),
        values=tuple(one.name for one in collectives),
        evidence=(
            f"{listed([one.name for one in collectives], _MOST_SHOWN)}: "
            f"{'not known' if wire is None else bound_text(wire)} sent by each device in one run",
        ),
        saves=saved if saves is None else saves,
        severity=severity,
    )


def bound_text(amount: SumBounds) -> str:
    """Return a sum of bytes, as an upper bound where it is one."""
    return f"{'at most ' * amount.is_at_most}{format_bytes(amount.most)}"


def _place(collective: Collective) -> SourceLocation | None:
    if collective.source_file is None:
        return None
    return SourceLocation(file=collective.source_file, line=collective.source_line)
