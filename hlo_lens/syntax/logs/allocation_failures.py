"""Reader of memory messages of running programs: failed allocations, allocator states, limits.

Sentences are found by regular expressions and parsed by the grammar. An allocator state may have
hundreds of thousands of lines, so regular expressions alone read it; a test compares both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from lark import Token

from hlo_lens.model.buffers.human_size import HumanSize
from hlo_lens.model.logs.out_of_memory import (
    AllocatorBin,
    AllocatorState,
    FailedAllocation,
    RematerializationLimit,
)
from hlo_lens.model.text_reader import reader
from hlo_lens.syntax.buffers.lines import Node, find_all, grammar_tree, optional_token, tokens
from hlo_lens.syntax.logs.log_text import LEAD, MOST_INTERRUPTED, Found, line_end, span_gap
from hlo_lens.syntax.logs.oom_values import exact_size, sizes_of
from hlo_lens.syntax.logs.out_of_memory import NAMES, SIZE, parser
from hlo_lens.syntax.shapes.dtypes import element_type
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Source

_FAILURE = re.compile(
    rf"""[Oo]ut[ ]of[ ]memory[ ](?:while[ ]trying[ ]to[ ]allocate|allocating)
      [ ](?:\d{{1,18}}[ ]bytes|{SIZE})\.?(?:[ ]\[executable_name='[^'\n]*'\])?
    | [Ff]ailed[ ]to[ ]allocate(?:[ ]request[ ]for)?[ ]{SIZE}[ ]\((?:\d{{1,18}}[ ]bytes|{SIZE})\)
      (?:[ ]on[ ]device[ ]ordinal[ ]\d{{1,9}})?
    | [Ff]ailed[ ]to[ ]allocate[ ]\d{{1,18}}[ ]bytes
      (?:[ ](?:for[ ]new[ ]constant|on[ ]host|from[ ]device))?
    | OOM[ ]when[ ]allocating[ ]tensor[ ]with[ ]shape[ ]?\[[\d,]{{0,200}}\]
      [ ]and[ ]type[ ]\w{{1,40}}(?:[ ]on[ ]/[\w/:-]{{1,200}})?
      (?:[ ]by[ ]allocator[ ][\w./:-]{{1,80}})?
    | Attempting[ ]to[ ](?:allocate|reserve)[ ]{SIZE}(?:[ ]at[ ]the[ ]bottom[ ]of[ ]memory)?\.\s+
      That[ ]was[ ]not[ ]possible\.[ ]There[ ]are[ ]{SIZE}[ ]free
      (?:,[ ]{SIZE}[ ]reserved,[ ]and[ ]{SIZE}[ ]reservable)?\.?
      (?:[ ]The[ ]largest[ ]contiguous[ ]region[ ]of[ ]free[ ]memory[ ]is[ ]{SIZE}
        [ ]due[ ]to[ ]fragmentation\.)?
      (?:;?[ ]*\(\d+x\d+x\d+_[A-Za-z]+\d*\))?
    | Allocator[ ]\([\w./:-]+\)[ ]ran[ ]out[ ]of[ ]memory[ ]trying[ ]to[ ]allocate[ ]{SIZE}
      (?:[ ]\(rounded[ ]to[ ]\d{{1,18}}\))?(?:[ ]?(?:requested|with)[ ][^\n]*)?""",
    re.VERBOSE,
)
_LIMIT = re.compile(
    rf"Can't reduce memory use below {SIZE}(?: \(\d{{1,18}} bytes\))?\s+by rematerialization;"
    rf"\s+only reduced to {SIZE}(?: \(\d{{1,18}} bytes\))?"
    rf"(?:,\s+down from {SIZE}(?: \(\d{{1,18}} bytes\))?(?: originally)?)?"
)
_PURPOSE = re.compile(
    r"Error (?:allocating (device buffer)|loading (program)(?: '([^'\n]*)')?): *\Z"
)
_BEFORE = 200
"""Characters before a failure in which the purpose of the memory is looked for."""


def read_failure(source: Source, place: int) -> Found[FailedAllocation] | None:
    """Return the failed allocation at an offset; None if it is none."""
    text = source.text
    start = place
    if text.startswith(("ut ", "ailed "), place):
        start = place - 1
    elif text.startswith("ran out", place):
        start = text.rfind("Allocator (", max(0, place - _BEFORE), place)
    match = None if start < 0 else _FAILURE.match(text, start)
    if match is None:
        return None
    tree = _tree("failed_allocation", match[0])
    if tree is None or (tree.data == "tensor_failed" and _tensor_size(tree) is None):
        return None
    purpose = _PURPOSE.search(text, max(0, start - _BEFORE), start)
    return Found(_failure(tree, purpose), start, match.end())


def _failure(tree: Node, purpose: re.Match[str] | None) -> FailedAllocation:
    sizes = sizes_of(tree)
    numbers = tokens(tree, "NATURAL")
    kind = tree.data
    program = str(optional_token(tree, "EXECUTABLE") or "").partition("'")[2].partition("'")[0]
    requested = sizes[0] if sizes else exact_size(numbers.pop(0) if numbers else "0")
    device = str(optional_token(tree, "DEVICE") or "").strip("; ()")
    rest = str(optional_token(tree, "REST_OF_LINE") or "")
    if kind == "failed_request":
        requested = sizes[1] if len(sizes) > 1 else exact_size(numbers.pop(0))
        device = numbers[0] if numbers else ""
    elif kind == "tensor_failed":
        requested = _tensor_size(tree) or requested
        device = str(optional_token(tree, "TENSOR_DEVICE") or "").rpartition("/")[2]
    elif kind == "allocator_failed" and numbers:
        requested = exact_size(numbers[0])
    is_possible = kind == "not_possible"
    if purpose is not None:
        program = purpose[3] or program
    return FailedAllocation(
        requested=requested,
        free=sizes[1] if is_possible else None,
        largest_free=sizes[2] if is_possible and len(sizes) > 2 else None,
        device=device,
        allocator=str(optional_token(tree, "ALLOCATOR_NAME") or ""),
        program=program or None,
        purpose="" if purpose is None else purpose[1] or purpose[2],
        is_fatal="is not a failure" not in rest,
    )


def _tensor_size(tree: Node) -> HumanSize | None:
    """Return the bytes of the tensor that TensorFlow names; None if XLA lacks its type."""
    word = str(optional_token(tree, "WORD"))
    dtype = element_type("float32" if word == "float" else word)
    if dtype is None:
        return None
    try:
        size = reader().shape(f"{dtype}{optional_token(tree, 'TENSOR_DIMENSIONS')}").size_bytes
    except DumpSyntaxError:
        return None
    return None if size is None else exact_size(str(size))


def read_limit(source: Source, place: int) -> Found[RematerializationLimit] | None:
    """Return the limit of rematerialization at an offset; None if it is none."""
    match = _LIMIT.match(source.text, place)
    tree = None if match is None else _tree("rematerialization_limit", match[0])
    if match is None or tree is None:
        return None
    found: list[HumanSize] = []
    for child in tree.children:
        if isinstance(child, Token) and child.type == "SIZE":
            found.append(HumanSize(str(child)))
        elif not isinstance(child, Token):
            found[-1] = exact_size(str(optional_token(child, "NATURAL")))
    original = found[2] if len(found) > 2 else None
    limit = RematerializationLimit(wanted=found[0], reached=found[1], original=original)
    return Found(limit, place, match.end())


def _tree(rule: str, text: str) -> Node | None:
    try:
        return grammar_tree(parser(), NAMES, Source(text), rule, 0, len(text))
    except DumpSyntaxError:
        return None


# ---- the state of a BFC allocator --------------------------------------------------------------

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
    | (?:Total[ ]bytes[ ]in[ ]pool|total_region_allocated_bytes_):[ ](?P<pool>\d{{1,18}})(?:[ ].*)?
    | (?P<stat>[A-Z][A-Za-z]+):[ ]+(?P<value>\d{{1,18}})
    | (?P<other>Bin[ ]for[ ].*Chunk[ ]State:|Next[ ]region[ ]of[ ]size[ ]\d+|Size:[ ].*in_use:.*
      |Summary[ ]of[ ]in-use[ ]Chunks[ ]by[ ]size:|Stats:)
    )[ \t]*+(?:\n|\Z)""",
    re.VERBOSE,
)
_ALMOST = re.compile(
    r"[ \t]*+(?:BFCAllocator dump|Bin \(|Bin for |InUse at|Free +at|Chunk at|\d+ Chunks of size"
    r"|Sum Total of|Total bytes in pool|total_region_alloc|Next region|(?:Limit|InUse|MaxInUse):)"
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
    pool: int | None = None
    stats: list[tuple[str, int]] = field(default_factory=list)

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
            self.stats.append((stat, int(found["value"] or 0)))
        self.name = found["name"] or self.name
        self.pool = self.pool if found["pool"] is None else int(found["pool"])
        return True

    def _begins_another(self, found: Mapping[str, str | None]) -> bool:
        """Whether a line repeats a field that the state has already."""
        least, stat = found["least"], found["stat"]
        if found["name"] is not None:
            return bool(self.bins or self.stats or self.name)
        if least is not None:
            return any(b.least_bytes == int(least) for b in self.bins)
        return stat is not None and (self.total is None or stat in dict(self.stats))


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
    """Return the allocator state that begins on the line of an offset; None if there is none."""
    text, state, gaps = source.text, _State(), list[Gap]()
    start = text.rfind("\n", 0, place) + 1
    position = end = place
    passed = 0
    while position < len(text) and passed <= MOST_INTERRUPTED:
        lead = None if position == place else LEAD.match(text, position)
        begin = position if lead is None else lead.end()
        match = _STATE_LINE.match(text, begin)
        following = min(len(text), line_end(text, position) + 1)
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
    if not (state.bins or state.used or state.stats):
        return None
    return Found(_done(state, is_complete=not gaps), start, end, gaps)


def _done(state: _State, *, is_complete: bool) -> AllocatorState:
    names = {name for name, _ in state.stats}
    return AllocatorState(
        name=state.name,
        bins=tuple(state.bins),
        used_chunks=tuple(state.used),
        free_chunks=None if state.free is None else tuple(sorted(state.free.items())),
        chunks_in_use=state.total,
        pool_bytes=state.pool,
        stats=tuple(state.stats),
        is_complete=is_complete and state.total is not None and bool(names & set(_LAST_STATS)),
    )


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
    state.pool = None if pool is None else int(str(pool).partition(":")[2].split()[0])
    for stats in find_all(tree, "stats"):
        for node in find_all(stats, "stat"):
            state.stats.append((str(optional_token(node, "STAT_NAME")), _numbers(node)[0]))
    return _done(state, is_complete=True)


def _numbers(node: Node) -> list[int]:
    return [int(text) for text in tokens(node, "NATURAL")]
