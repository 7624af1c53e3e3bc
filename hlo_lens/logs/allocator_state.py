"""Reader of the state of a BFC allocator in a log, whole or from any of its lines on.

A state may have hundreds of thousands of lines, so regular expressions alone read it; a test
compares them with the grammar.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.buffers.human_size import HumanSize
from hlo_lens.buffers.lines import Node, find_all, optional_token, tokens
from hlo_lens.grammar.parsers import grammar_tree
from hlo_lens.logs.log_text import LEAD, MOST_INTERRUPTED, Found, line_end, span_gap
from hlo_lens.logs.logs_out_of_memory import NAMES, SIZE, parser
from hlo_lens.logs.oom_values import exact_size, sizes_of
from hlo_lens.logs.out_of_memory import AllocatorBin, AllocatorState
from hlo_lens.text.errors import Gap

if TYPE_CHECKING:
    from hlo_lens.text.source import Source

_STATE_LINE = re.compile(
    rf"""[ \t]*+(?:
      BFCAllocator[ ]dump[ ]for[ ](?P<name>[\w./:-]+)
    | Bin[ ]\((?P<least>\d{{1,18}})\):\s*Total[ ]Chunks:[ ](?P<chunks>\d{{1,18}}),
      [ ]Chunks[ ]in[ ]use:[ ](?P<used>\d{{1,18}})\.?
      [ ](?P<allocated>{SIZE})[ ]allocated[ ]for[ ]chunks\.
      (?:[ ]{SIZE}[ ]client-requested[ ]for[ ]chunks\.)?
      [ ](?P<in_use>{SIZE})[ ]in[ ]use[ ]in[ ]bin\.
      (?:[ ](?P<asked>{SIZE})[ ]client-requested[ ]in[ ]use[ ]in[ ]bin\.)?
    | (?:InUse|(?P<free>Free)|Chunk)[ ]+at[ ][0-9a-fA-Fx]+
      [ ]of[ ]size[ ](?P<chunk>\d{{1,18}})(?:[ ].*)?
    | (?P<count>\d{{1,18}})[ ]Chunks[ ]of[ ]size[ ](?P<size>\d{{1,18}})[ ]totalling[ ]{SIZE}
    | Sum[ ]Total[ ]of[ ]in-use[ ]chunks:[ ](?P<sum>{SIZE})
    | (?:Total[ ](?:bytes|size)[ ]in[ ]pool|total_region_allocated_bytes_):
      [ ](?P<pool>{SIZE}|\d{{1,18}})(?:[ ].*)?
    | \|?[ ]*
      (?P<stat>Limit|(?:[A-Z]\w*)?(?:InUse|Reserved)|[A-Z]\w+(?:Allocs|Size|Block|Bytes))
      (?::[ ]*\|?|[ ]*\|)[ ]*(?P<value>{SIZE}|\d{{1,18}})
    | (?P<other>Bin[ ]for[ ].*Chunk[ ]State:|Next[ ]region[ ]of[ ]size[ ]\d+|Size:[ ].*in_use:.*
      |Summary[ ]of[ ]in-use[ ]Chunks[ ]by[ ]size:|Stats:)
    )[ \t]*+\|?[ \t]*+(?:\n|\Z)""",
    re.VERBOSE,
)
_HEAD = re.compile(
    r"BFCAllocator dump for |Bin \(\d|Bin for \d|(?:InUse|Free |Chunk) at [0-9a-fx]"
    r"|\d+ Chunks of size |Sum Total of in-use|Total (?:bytes|size) in pool:"
    r"|total_region_allocated_bytes_:|Next region of size|Summary of in-use Chunks|Stats:[ \t]*$",
    re.MULTILINE,
)
"""Beginning of a line, apart from the statistics, which loggers print without prefix."""

_EARLIER = re.compile(
    rf"[ \t]*(?:\|[ ]*)?(?:{_HEAD.pattern}|(?:Limit|InUse)(?::|[ ]*\|))", re.MULTILINE
)
"""A line of a state before which the state may have others; its last statistics have none."""

_ALMOST = re.compile(
    r"[ \t]*+(?:BFCAllocator dump|Bin \(|Bin for |InUse at|Free +at|Chunk at|\d+ Chunks of size"
    r"|Sum Total of|Total (?:bytes|size) in pool|total_region_alloc|Next region"
    r"|(?:Limit|InUse|MaxInUse):)"
)
"""A line that resembles one of an allocator state."""

_LAST_STATS = ("LargestFreeBlock", "MaxAllocSize")


@dataclass(slots=True)
class _State:
    """An allocator state that is being read."""

    name: str = ""
    bins: list[AllocatorBin] = field(default_factory=list)
    used: list[tuple[int, int]] = field(default_factory=list)
    free: Counter[int] | None = None
    total: HumanSize | None = None
    pool: HumanSize | None = None
    stats: list[tuple[str, int | HumanSize]] = field(default_factory=list)

    def add(self, found: Mapping[str, str | None]) -> bool:
        """Add a line; return False if it begins another state."""
        if self._begins_another(found):
            return False
        if (chunk := found["chunk"]) is not None:
            self.free = Counter() if self.free is None else self.free
            if found["free"] is not None:
                self.free[int(chunk)] += 1
        elif found["least"] is not None:
            self.bins.append(_bin(found))
        elif (count := found["count"]) is not None:
            self.used.append((int(found["size"] or 0), int(count)))
        elif (total := found["sum"]) is not None:
            self.total = HumanSize(total)
        elif (stat := found["stat"]) is not None:
            self.stats.append((stat, _stat_value(found["value"] or "")))
        pool = found["pool"]
        self.name = found["name"] or self.name
        self.pool = self.pool if pool is None else _size(pool)
        return True

    def _begins_another(self, found: Mapping[str, str | None]) -> bool:
        """Whether a line repeats a field that the state has already."""
        least, stat = found["least"], found["stat"]
        if found["name"] is not None:
            return bool(self.bins or self.stats or self.name)
        if least is not None:
            return any(b.least_bytes == int(least) for b in self.bins)
        return stat is not None and stat in dict(self.stats)


def _size(text: str) -> HumanSize:
    return exact_size(text) if text.isdecimal() else HumanSize(text)


def _stat_value(text: str) -> int | HumanSize:
    """Return a number of the statistics, of bytes or of allocations, or the size printed for it."""
    return int(text) if text.isdecimal() else HumanSize(text)


def _bin(found: Mapping[str, str | None]) -> AllocatorBin:
    asked = found["asked"]
    return AllocatorBin(
        least_bytes=int(found["least"] or 0),
        chunks=int(found["chunks"] or 0),
        chunks_in_use=int(found["used"] or 0),
        allocated=HumanSize(found["allocated"] or ""),
        in_use=HumanSize(found["in_use"] or ""),
        requested=None if asked is None else HumanSize(asked),
    )


def read_allocator(source: Source, place: int) -> Found[AllocatorState] | None:
    """Return the allocator state on the line of an offset and below; None if there is none."""
    text, state, gaps = source.text, _State(), list[Gap]()
    start = position = _first_line(text, text.rfind("\n", 0, place) + 1)
    end = place
    passed = 0
    while position < len(text) and passed <= MOST_INTERRUPTED:
        following = min(len(text), line_end(text, position) + 1)
        begin = _begin(text, position, following)
        match = _STATE_LINE.match(text, begin)
        if match is not None:
            if not state.add(match.groupdict()):
                break
            end, passed = following, 0
        elif _ALMOST.match(text, begin) is not None:
            gaps.append(span_gap(source, begin, following, "not a line of an allocator's state"))
            end, passed = following, 0
        elif text[begin:following].strip() or state.stats:
            passed += 1
            if state.stats and not text[begin:following].strip():
                break
        position = following
    if not (state.bins or state.used or state.stats or state.total or state.free):
        return None
    return Found(_done(state, is_complete=not gaps), start, end, gaps)


def _first_line(text: str, start: int) -> int:
    """Return the start of the first line of the state with a line at an offset."""
    while start:
        before = text.rfind("\n", 0, start - 1) + 1
        if _EARLIER.match(text, _begin(text, before, start)) is None:
            break
        start = before
    return start


def _begin(text: str, start: int, end: int) -> int:
    """Return where the text of a line begins after what loggers put before it."""
    head = _HEAD.search(text, start, end)
    if head is not None:
        return head.start()
    lead = LEAD.match(text, start, end)
    return start if lead is None else lead.end()


def _done(state: _State, *, is_complete: bool) -> AllocatorState:
    names = {name for name, _ in state.stats}
    listed = sum(size * count for size, count in state.used)
    begins = bool(state.name or state.bins)  # else chunks may be missing above
    is_whole = state.total is not None and state.total.matches(listed)
    return AllocatorState(
        name=state.name,
        bins=tuple(state.bins),
        used_chunks=tuple(state.used),
        free_chunks=tuple(sorted(state.free.items()))
        if state.free is not None and begins
        else None,
        chunks_in_use=state.total,
        pool=state.pool,
        stats=tuple(state.stats),
        is_complete=is_complete and is_whole and bool(names & set(_LAST_STATS)),
    )


def _sorted(chunks: Counter[int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(chunks.items()))


def parse_state_with_grammar(source: Source) -> AllocatorState:
    """Return the allocator state in a source, read by the grammar alone.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    tree = grammar_tree(parser(), NAMES, source, "allocator_state", 0, len(source.text))
    state = _State(name=str(optional_token(tree, "ALLOCATOR_NAME") or ""))
    for node in find_all(tree, "bin"):
        least, chunks, used = _numbers(node)
        sizes = sizes_of(node)
        in_use = sizes[-2] if len(sizes) > 2 else sizes[1]
        state.bins.append(
            AllocatorBin(
                least_bytes=least,
                chunks=chunks,
                chunks_in_use=used,
                allocated=sizes[0],
                in_use=in_use,
                requested=sizes[-1] if len(sizes) > 2 else None,
            )
        )
    for node in find_all(tree, "chunk_line"):
        kind = optional_token(node, "CHUNK_STATE")
        if kind is not None:
            state.free = Counter() if state.free is None else state.free
            if str(kind).startswith("Free"):
                state.free[_numbers(node)[0]] += 1
    state.used = [(size, count) for count, size in map(_numbers, find_all(tree, "chunk_sum"))]
    state.total = next((sizes_of(node)[0] for node in find_all(tree, "sum_of_chunks")), None)
    pool = optional_token(tree, "POOL")
    state.pool = None if pool is None else _size(str(pool).partition(":")[2].split()[0])
    for node in find_all(tree, "stat"):
        value = optional_token(node, "SIZE") or optional_token(node, "NATURAL")
        state.stats.append((str(optional_token(node, "STAT_NAME")), _stat_value(str(value))))
    return _done(state, is_complete=True)


def _numbers(node: Node) -> list[int]:
    return [int(text) for text in tokens(node, "NATURAL")]
