"""Bytes of the causes of a module: every changed byte belongs to one of them, or to none.

Changed values at the peak of the default memory space, the rest of its allocations, and changed
collectives are divided over the causes: by the argument, then by the line of the program. A single
cause has them all. What several causes share, or no line has, is `[of no single cause]`, so that
the causes sum to the difference of what must fit, and of what is sent.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from hlo_lens.questions.collectives.collective import axis_text
from hlo_lens.questions.diff.causes import (
    Cause,
    Changes,
    Consequence,
    LoopsChanged,
    RecomputationChanged,
    ToolsChanged,
    ranked_causes,
    same_source_text,
    with_line,
)
from hlo_lens.questions.diff.line_edits import LineRow, line_of, line_rows
from hlo_lens.questions.diff.memory import FREE, TOTAL
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.render.result import Records
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.questions.diff.collectives import CollectiveDiff
    from hlo_lens.questions.diff.line_edits import ProgramLines
    from hlo_lens.questions.diff.memory import MemoryDiff


@dataclass(frozen=True, kw_only=True)
class LineDiff(Records[LineRow]):
    """Changes by line: most bytes first, then most instructions.

    `is_source` is whether instructions are those before optimizations, None if not known, and
    `is_source_equal` whether these are equal on both sides.
    """

    KIND: ClassVar[str] = "line-diff"
    lines: tuple[LineRow, ...] = field(repr=False)
    causes: tuple[Cause, ...]
    is_source: bool | None
    is_source_equal: bool = False


class Unattributed(Cause):
    """What follows from several causes together, or has no line."""


class _Part(NamedTuple):
    """A part of the difference.

    `kind` is one of `_WORDS`, `source` a line in the head, `name` an argument, or empty, and `what`
    a shape or kind of collective.
    """

    kind: str
    source: str | None
    name: str
    what: str
    size: int | None


def line_diff(
    changes: Changes, memory: MemoryDiff | None, collectives: CollectiveDiff | None
) -> LineDiff:
    """Return the changes of a module by line with their causes; None for what is not known."""
    program = changes.program
    rows = line_rows(program, memory, collectives)
    causes = ranked_causes(replace(changes, rows=rows))
    parts = [*_memory_parts(program, memory), *_sent_parts(program, collectives)]
    is_equal = program is not None and program.is_source and not program.lines
    if is_equal and parts and not causes:
        causes = [ToolsChanged(what=same_source_text(changes))]
    is_known = memory is not None and memory.is_comparable, collectives is not None
    shares: dict[int, list[_Part]] = defaultdict(list)
    for part in parts if causes else ():
        shares[_owner(part, causes)].append(part)
    found = [_with_share(cause, shares[place], is_known) for place, cause in enumerate(causes)]
    if shares[-1]:
        found.append(_with_share(Unattributed(what="[of no single cause]"), shares[-1], is_known))
    return LineDiff(
        lines=tuple(rows),
        causes=tuple(with_line(cause, changes) for cause in found),
        is_source=None if program is None else program.is_source,
        is_source_equal=is_equal,
    )


_KINDS = {"argument": "arguments", "output": "results", "constant": "constants"}


def _memory_parts(program: ProgramLines | None, memory: MemoryDiff | None) -> Iterator[_Part]:
    total = None if memory is None else memory.metrics[TOTAL].delta
    if memory is None or total is None:
        return
    shifted = {} if program is None else program.shifted
    for peak in memory.peaks:
        for row in peak.entries if peak.color == DEFAULT_SPACE else ():
            total -= row.delta_bytes
            kind, line = _KINDS.get(row.category or "", "temporaries"), line_of(row, shifted)
            if row.op_name == FREE:
                yield _Part("rest", None, "", "space between values", row.delta_bytes)
                continue
            if kind == "temporaries" and peak.has_moved and row.change in ("new", "gone"):
                # a line that is as before has it at one peak only because the peak moved
                is_edited = program is None or line is None or line in program.lines
                kind = kind if is_edited else "peak"
            name = row.op_name or "" if kind == "arguments" else ""
            yield _Part(kind, line, name, row.shape or "", row.delta_bytes)
    if total:
        yield _Part("rest", None, "", "allocations beside the peak", total)


def _sent_parts(
    program: ProgramLines | None, collectives: CollectiveDiff | None
) -> Iterator[_Part]:
    shifted = {} if program is None else program.shifted
    for row in () if collectives is None else collectives.changed:
        if row.delta_wire_bytes != 0:
            name = f"{row.kind} over {axis_text(row.axis)}"
            yield _Part("sent", line_of(row, shifted), "", name, row.delta_wire_bytes)


def _owner(part: _Part, causes: Sequence[Cause]) -> int:
    """Return the place of the cause that a part belongs to; -1 for none."""
    if len(causes) == 1:
        return 0
    tests: list[Callable[[Cause], bool]] = [
        lambda cause: part.source in cause.sources,
        lambda cause: part.source in cause.reached,
        lambda cause: isinstance(cause, LoopsChanged | RecomputationChanged),
    ]
    if part.kind == "arguments":
        tests = [lambda cause: part.name in cause.affected | cause.names]
    places = (k for test in tests for k, cause in enumerate(causes) if test(cause))
    return next(places, -1)


def _with_share(cause: Cause, parts: Sequence[_Part], is_known: tuple[bool, bool]) -> Cause:
    fit = [part.size for part in parts if part.kind != "sent"]
    sent = [part.size for part in parts if part.kind == "sent"]
    total = sum(size or 0 for size in fit) if is_known[0] else None
    if isinstance(cause, RecomputationChanged):
        way = 1 if cause.after < cause.before else -1
        kept = [
            abs(part.size)
            for part in parts
            if part.kind == "temporaries" and part.what.count(",") >= 2  # a stack has more
            if part.size and part.size * way > 0
        ]
        if kept:
            saved = "saved for the backward pass" if way > 0 else "no longer saved"
            text = f"{plural(len(kept), 'stack')} {saved}, {format_bytes(sum(kept))}"
            cause = replace(cause, what=f"{cause.what}; {text}")
    return replace(
        cause,
        delta_bytes=total,
        delta_bytes_of=None if total is None else TOTAL,
        delta_wire_bytes=None if None in sent or not is_known[1] else sum(s or 0 for s in sent),
        consequences=(*cause.consequences, *_consequences(parts)),
    )


_MOST = 3

_WORDS = {
    "arguments": "arguments",
    "results": "results",
    "constants": "constants",
    "temporaries": "temporaries",
    "peak": "at the peak, which moved: as in the base",
    "rest": "space between values and beside the peak",
    "sent": "sent",
}
_BY_LINE = ("results", "temporaries", "sent")


def _consequences(parts: Sequence[_Part]) -> Iterator[Consequence]:
    for kind, words in _WORDS.items():
        by_line: dict[str | None, list[_Part]] = defaultdict(list)
        for part in parts:
            if part.kind == kind:
                by_line[part.source if kind in _BY_LINE else None].append(part)
        ranked = sorted(by_line.items(), key=lambda item: (-abs(_sum(item[1]) or 0), item[0] or ""))
        for source, own in ranked[:_MOST]:
            own.sort(key=lambda part: -abs(part.size or 0))
            shapes = [*dict.fromkeys(part.name or part.what for part in own)]
            text = words if kind == "rest" else f"{words}: {listed(shapes, 2)}"
            yield _consequence(kind, text, source, own)
        rest = [part for _, own in ranked[_MOST:] for part in own]
        if rest:
            count = plural(len(ranked) - _MOST, "other line")
            yield _consequence(kind, f"{words} of {count}", None, rest)


def _consequence(kind: str, text: str, source: str | None, parts: Sequence[_Part]) -> Consequence:
    if kind == "sent":
        return Consequence(what=text, source=source, delta_wire_bytes=_sum(parts))
    return Consequence(what=text, source=source, delta_bytes=_sum(parts))


def _sum(parts: Sequence[_Part]) -> int | None:
    sizes = [part.size for part in parts]
    return None if None in sizes else sum(size or 0 for size in sizes)
