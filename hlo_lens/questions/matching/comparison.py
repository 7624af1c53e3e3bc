"""Comparison of partners: what changed, and what is noise.

Compared are labels, operands, calls and results. Other differences of the texts are noise: names
set by the scheduler, numbers of stack frames, places in the source, control predecessors, spellings
of one value. Noise is counted for all partners together; most of them have equal texts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from functools import cache, cached_property, lru_cache, partial
from itertools import accumulate, chain, compress, islice, repeat
from operator import eq, lt, ne, sub
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.hlo.columns import END, NAME, NAME_END, OPERANDS_END, SHAPE, SHAPE_END, STRIDE
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.matching.edits import Change, Noise, label_changes
from hlo_lens.questions.matching.labels import (
    is_irregular,
    split_attributes,
    squeezed,
)
from hlo_lens.questions.matching.matching import match_by

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.matching.graphs import ProgramGraph, View
    from hlo_lens.questions.matching.matching import Matching
    from hlo_lens.shapes.shape import ShapeIndex

    Operand = tuple[int, ShapeIndex]

_FEW = 3


class Comparison:
    """Comparison of partners among nodes."""

    def __init__(self, matched: Matching) -> None:
        self._matched = matched
        self._base, self._head = (side.graph for side in matched.sides)
        counts = {len(graph.parameter_numbers(graph.entry)) for graph in (self._base, self._head)}
        self._has_same_count = len(counts) == 1  # of parameters of the entries
        self._labels_differ = cache(lambda a, b: [*label_changes(self._base.labels, a, b)])

    def suspects(self) -> set[int]:
        """Return the nodes of the base that may differ from their partners.

        Nodes of computations that were matched whole never do.
        """
        base, head, matched = self._base, self._head, self._matched
        head_of, base_of = matched.base.partner, matched.head.partner
        found = {*matched.moved, *self.root_changes}
        partners = [
            partner if computation in matched.whole else None
            for computation, partner in enumerate(matched.base.computation)
        ]
        for node, called in base.callees.items():
            other = head.callees.get(head_of[node], ())
            if [partners[c] for _, c in called] != [d for _, d in other]:
                found.add(node)
        found.update(base_of[node] for node in head.callees if base_of[node] not in base.callees)
        for node in {*base.indices, *map(base_of.__getitem__, head.indices)}:
            if node >= 0 and base.indices.get(node) != head.indices.get(head_of[node]):
                found.add(node)
        for computation in range(len(base.nodes)):
            if computation not in matched.whole:
                found.update(self._suspects_in(computation))
        return {node for node in found if node >= 0 and head_of[node] >= 0}

    def _suspects_in(self, computation: int) -> Iterable[int]:
        """Return the nodes of a computation with another label, or other operands."""
        base, head, matched = self._base, self._head, self._matched
        nodes, partner = base.nodes[computation], matched.base.computation[computation]
        own = slice(nodes.start, nodes.stop)
        others = head.nodes[partner] if partner >= 0 else range(0)
        has_same_edges = partner >= 0 and base.edges[computation] == head.edges[partner]
        if has_same_edges and matched.is_in_place(nodes, others):
            return compress(nodes, map(ne, base.label[own], head.label[others.start : others.stop]))
        operands = base.operands.of(nodes)
        flat = tuple(map(self._partners.__getitem__, chain.from_iterable(operands)))
        ends = list(accumulate(map(len, operands), initial=0))
        targets = map(flat.__getitem__, map(slice, ends, ends[1:]))
        mine = zip(nodes, matched.base.partner[own], base.label[own], targets, strict=True)
        return [
            node
            for node, other, label, wanted in mine
            if other >= 0 and (head.label[other] != label or wanted != head.operands[other])
        ]

    @cached_property
    def _partners(self) -> Sequence[int]:
        """Partner of each node of the base; a number that no operand has for none."""
        none = -2  # also that of undefined operands, which are the last one
        return [
            partner if partner >= 0 else none for partner in (*self._matched.base.partner, none)
        ]

    def changes(self, mine: int, yours: int) -> Iterator[Change]:
        """Yield the changes between two partners."""
        base, head = self._base, self._head
        if base.label[mine] != head.label[yours]:
            is_entry = base.owner[mine] == base.entry
            for change in self._labels_differ(base.label[mine], head.label[yours]):
                is_number = change.what == "parameter number"
                if not is_number or (is_entry and self._has_same_count):
                    yield change
        if mine not in self._matched.moved:  # the move alone changes the operands
            yield from self._operand_changes(mine, yours)
        if mine in base.callees or yours in head.callees:
            yield from self._call_changes(mine, yours)
        yield from self.root_changes.get(mine, ())

    # ---- operands ------------------------------------------------------------------------------

    def _operand_changes(self, mine: int, yours: int) -> Iterator[Change]:
        """Yield one change for all operands that differ."""
        base, head, head_of = self._base, self._head, self._matched.base.partner
        a, b = base.operands[mine], head.operands[yours]
        if len(a) != len(b):
            if base.opcode(mine) != "tuple":  # whose shape shows it
                yield from self._other_arity(mine, yours)
            return
        order = self._order(mine, yours)
        others = [*head.operands_of(yours)]
        pairs = [
            (place, operand, others[order.get(place, place)])
            for place, operand in enumerate(base.operands_of(mine))
        ]
        differ = [pair for pair in pairs if not self._same_operand(*pair[1:])]
        places = {head_of[x]: place for place, x in enumerate(a) if x >= 0}
        if len(differ) > 1 and len(places) == len(a) and set(places) == set(b):
            numbers = [",".join(map(str, listed)) for listed in (range(len(a)), map(places.get, b))]
            yield Change("order of operands", *numbers)
            return
        for place, x, y in differ:
            yield Change(f"operand {place}", _shown(base, *x), _shown(head, *y))

    def _order(self, mine: int, yours: int) -> Mapping[int, int]:
        """Return the position of each operand in the other instruction, by parameters."""
        base, matched = self._base, self._matched
        called, other = base.callees.get(mine, ()), self._head.callees.get(yours, ())
        if not len(called) == len(other) == 1:
            return {}
        callee, partner = called[0][1], other[0][1]
        is_positional = opcode_traits(base.opcode(mine)).is_positional
        is_pair = matched.base.computation[callee] == partner
        if not is_positional or not is_pair or callee in matched.whole:
            return {}
        numbers = {node: k for k, node in self._head.parameter_numbers(partner).items()}
        order = {
            number: numbers[matched.base.partner[node]]
            for number, node in base.parameter_numbers(callee).items()
            if matched.base.partner[node] in numbers
        }
        places, taken = range(len(base.operands[mine])), set(order.values())
        if len(taken) != len(order) or not {*order, *taken}.issubset(places):
            return {}
        # operands without a parameter stay in order
        rest = (place for place in places if place not in taken)
        return {place: order[place] if place in order else next(rest) for place in places}

    def _same_operand(self, mine: Operand, yours: Operand) -> bool:
        (x, my_index), (y, your_index) = mine, yours
        if x < 0 or y < 0:
            return x == y
        if self._matched.base.partner[x] == y:
            return my_index == your_index or shape_differs(self._base, self._head, x, y)
        return not (self._stays(x) and self._stays(self._matched.head.partner[y]))

    def _stays(self, node: int) -> bool:
        """Return whether a node of the base has a partner in the partner of its computation."""
        matched = self._matched
        return node >= 0 and matched.base.partner[node] >= 0 and node not in matched.moved

    def _other_arity(self, mine: int, yours: int) -> Iterator[Change]:
        """Yield a change if operands with a partner were added or removed.

        Operands without partner are edits of their own; elements of a changed tuple do not count.
        """
        base, head = self._base, self._head
        head_of, base_of = self._matched.base.partner, self._matched.head.partner
        before = Counter((head_of[x], at) for x, at in base.operands_of(mine) if self._stays(x))
        after = Counter(
            (y, at) for y, at in head.operands_of(yours) if y >= 0 and self._stays(base_of[y])
        )
        texts = []
        for graph, these, those in ((base, before, after), (head, after, before)):
            kept = {y for y, _ in those if shape_differs(base, head, base_of[y], y)}
            net = [(y, at) for y, at in (these - those).elements() if y not in kept]
            shown = [_shown(graph, base_of[y] if graph is base else y, at) for y, at in net]
            more = [f"{len(shown) - _FEW} more"] if len(shown) > _FEW else []
            texts.append(", ".join(shown[:_FEW] + more) or None)
        if any(texts):
            yield Change("operands", *texts)

    # ---- results, called computations, control and channels ------------------------------------

    @cached_property
    def root_changes(self) -> Mapping[int, tuple[Change, ...]]:
        """Changes of nodes of the base that became, or stopped being, a result.

        If one of the two results has no partner, only that edit is reported.
        """
        matched = self._matched
        found: dict[int, tuple[Change, ...]] = {}
        for computation, partner in enumerate(matched.base.computation):
            if partner < 0:
                continue
            was, now = self._base.roots[computation], self._head.roots[partner]
            if was[0] < 0 or now[0] < 0 or self._same_operand(was, now):
                continue
            if matched.base.partner[was[0]] == now[0]:
                elements = [
                    f"element {{{','.join(map(str, index))}}}" if index else "all of it"
                    for _, index in (was, now)
                ]
                found[was[0]] = (Change("root", *elements),)
            else:
                found[was[0]] = (Change("root", "yes", "no"),)
                found[matched.head.partner[now[0]]] = (Change("root", "no", "yes"),)
        return found

    def _call_changes(self, mine: int, yours: int) -> Iterator[Change]:
        base, head, matched = self._base, self._head, self._matched
        called, other = base.callees.get(mine, ()), head.callees.get(yours, ())
        if len(called) != len(other):
            if base.label[mine] == head.label[yours]:
                yield Change("called computations", str(len(called)), str(len(other)))
            return
        contents = matched.base.prints.content, matched.head.prints.content
        for (role, c), (_, d) in zip(called, other, strict=True):
            if matched.base.computation[c] != d and contents[0][c] != contents[1][d]:
                names = base.module.computations[c].name, head.module.computations[d].name
                yield Change(role, *names)


def _shown(graph: ProgramGraph, node: int, index: ShapeIndex) -> str:
    if node < 0:
        return "(not in the text)"
    return f"{graph.opcode(node)} {graph.instruction(node).name}{''.join(f'#{k}' for k in index)}"


def shape_differs(base: ProgramGraph, head: ProgramGraph, x: int, y: int) -> bool:
    """Return whether a node of the base and one of the head have other shapes."""
    return base.parts(x).shape != head.parts(y).shape


# ---- views -------------------------------------------------------------------------------------


def match_views(matched: Matching) -> tuple[list[tuple[int, int]], list[View], list[View]]:
    """Return the rows of partners among the views of two programs, and the views without partner.

    Partners take the same element of partners, or of undefined operands. If a tuple has changed, an
    element of the same shape comes first, then the next of that shape, then the rest in order.
    """
    graphs = [side.graph for side in matched.sides]
    elements = [{view.row: view.element for view in graph.views} for graph in graphs]
    nodes = [  # of the base, for each row; -1 if undefined
        {
            view.row: side.partner[view.node]
            if side is matched.head and view.node >= 0
            else view.node
            for view in side.graph.views
            if view.node < 0 or side.partner[view.node] >= 0
        }
        for side in matched.sides
    ]
    changed = {
        node
        for node in set(nodes[0].values())
        if node >= 0 and shape_differs(graphs[0], graphs[1], node, matched.base.partner[node])
    }

    def key(stage: int, side: int, row: int) -> Hashable:
        node, element, graph = nodes[side][row], elements[side][row], graphs[side]
        if stage == 0:
            return None if node in changed else (node, element)
        if stage == 3:
            return node if node in changed else None
        text = graph.module.columns.text(row, SHAPE, SHAPE_END)
        shape = graph.labels.shape(text, graph.module.reader)
        if stage == 1:
            return node, element, shape
        return (node, shape) if node in changed else None

    left = [list(nodes[0]), list(nodes[1])]
    pairs: list[tuple[int, int]] = []
    paired: list[set[int]] = [set(), set()]
    for stage in range(4):
        keys = partial(key, stage, 0), partial(key, stage, 1)
        found = match_by(left[0], left[1], keys, "any")
        pairs += sorted(found)
        for place, rows in enumerate(paired):
            rows.update(pair[place] for pair in found)
            left[place] = [row for row in left[place] if row not in rows]
    mine, yours = (
        [view for view in graph.views if view.row not in rows]
        for graph, rows in zip(graphs, paired, strict=True)
    )
    return pairs, mine, yours


# ---- noise -------------------------------------------------------------------------------------

Rows: TypeAlias = "tuple[Sequence[int], Sequence[int]]"
"""Partners: rows or nodes of base and head."""

_FRAME_KEY = "stack_frame_id="
_NAME_KEYS = 'scheduling_name="', 'deduplicated_name="'
_LONGEST_NUMBER = 9
_DIGITS = "0123456789._"
_NUMBERS = re.compile(r"\d+")
_QUOTED_NAME = re.compile(r"""(\\?["'])[^"'\\]*\1""")
_NAMING = re.compile(
    r"(?:, *)?\b(?:to_apply|calls|condition|body|true_computation|false_computation|select|"
    r"scatter|branch_computations|called_computations|control-predecessors)=(?:\{[^{}]*\}|%?[\w.-]+)"
    r"|(?:, *)?\bchannel_id=(?:-?\d+|_)"
)
_CHANNEL = re.compile(r"(?:^|, ?)channel_id=(-?\d+|_)")
_CHUNK = 4096
"""Partners compared together; their texts are kept meanwhile."""


class NoiseCount:
    """Counter of noise."""

    def __init__(self, matched: Matching) -> None:
        self.counts: Counter[Noise] = Counter()
        self._base, self._head = (side.graph for side in matched.sides)
        self._modules = self._base.module, self._head.module
        self._frames_differ = self._modules[0].stack_frames != self._modules[1].stack_frames
        self._stacks = [cache(module.stack_frames.stack) for module in self._modules]
        self._places = [cache(module.stack_frames.location) for module in self._modules]

    def count(self, rows: Rows, nodes: Rows) -> None:
        """Count the noise of partners; views have no nodes."""
        for start in range(0, len(rows[0]), _CHUNK):
            part = slice(start, start + _CHUNK)
            chunk = rows[0][part], rows[1][part]
            if not self._frames_differ and _are_copies(self._modules, chunk):
                continue
            names, texts = (
                [_texts(self._modules[side], chunk[side], first, last) for side in (0, 1)]
                for first, last in ((NAME, NAME_END), (OPERANDS_END, END))
            )
            same = sum(map(eq, *names))
            stems = (map(str.rstrip, listed, repeat(_DIGITS)) for listed in names)
            alike = len(names[0]) if same == len(names[0]) else sum(map(eq, *stems))
            self.counts[Noise.NAMES] += len(names[0]) - alike
            self.counts[Noise.IDS] += alike - same
            places = range(len(texts[0]))
            for place in places if self._frames_differ else compress(places, map(ne, *texts)):
                pair = (nodes[0][start + place], nodes[1][start + place]) if nodes[0] else None
                kinds = {*self._attribute_noise(texts[0][place][1:], texts[1][place][1:], pair)}
                if names[0][place] != names[1][place]:
                    kinds.discard(name_kind(names[0][place], names[1][place]))  # counted already
                self.counts.update(kinds)

    def _attribute_noise(
        self, mine: str, yours: str, nodes: tuple[int, int] | None
    ) -> Iterator[Noise]:
        """Yield the noise in two attribute lists."""
        if mine == yours:
            if self._frames_differ and self._is_moved(_frame(mine)):
                yield Noise.METADATA
            return
        one, other = _CHANNEL.search(mine), _CHANNEL.search(yours)
        if one and other and one[1] != other[1]:
            yield Noise.CHANNEL_IDS
        yield from self._list_noise(mine, yours, nodes)

    def _list_noise(self, mine: str, yours: str, nodes: tuple[int, int] | None) -> Iterator[Noise]:
        """Yield the noise in two attribute lists that differ in more than metadata."""
        (my_list, my_metadata, my_config), (your_list, your_metadata, your_config) = (
            _plain_parts(module, text)
            for module, text in zip(self._modules, (mine, yours), strict=True)
        )
        if my_metadata != your_metadata:
            yield self._metadata_noise(my_metadata, your_metadata)
        if nodes is None:
            return
        a, b = self._base.parts(nodes[0]), self._head.parts(nodes[1])
        if a.config == b.config and my_config != your_config:
            yield _config_kind(my_config, your_config)
        if a.attributes == b.attributes and my_list != your_list:
            is_axes = _QUOTED_NAME.sub("", my_list) == _QUOTED_NAME.sub("", your_list)
            yield Noise.AXIS_NAMES if is_axes else Noise.SPELLING

    # ---- metadata ------------------------------------------------------------------------------

    def _metadata_noise(self, mine: str, yours: str) -> Noise:
        before, after = without_names(mine), without_names(yours)
        if before == after:
            return Noise.NAMES
        frames = _frame(before), _frame(after)
        ends = before.rfind(_FRAME_KEY), after.rfind(_FRAME_KEY)
        if "" not in frames and before[: ends[0]] == after[: ends[1]]:
            mine_stack, your_stack = (
                stack(int(number) if len(number) <= _LONGEST_NUMBER else 0)
                for stack, number in zip(self._stacks, frames, strict=True)
            )
            return Noise.STACK_FRAMES if mine_stack == your_stack else Noise.METADATA
        return Noise.METADATA

    def _is_moved(self, number: str) -> bool:
        """Return whether one frame number is two places in modules with different tables."""
        frame = int(number) if 0 < len(number) <= _LONGEST_NUMBER else 0
        return self._places[0](frame) != self._places[1](frame)


def _frame(metadata: str) -> str:
    """Return the number of the stack frame, the last field of metadata; empty if there is none."""
    at = metadata.rfind(_FRAME_KEY)
    number = metadata[at + len(_FRAME_KEY) : metadata.find("}", at)] if at >= 0 else ""
    return number if number.isdecimal() else ""


def without_names(text: str) -> str:
    """Return metadata without the names set by the scheduler and the deduplicator.

    >>> without_names('{op_name="f" scheduling_name="add.3" stack_frame_id=1}')
    '{op_name="f" stack_frame_id=1}'
    """
    for key in _NAME_KEYS:
        before, found, after = text.partition(key)
        if found:
            text = before.rstrip() + after.partition('"')[2]
    return text


def name_kind(before: str, after: str) -> Noise:
    """Return the kind of noise of two names: numbers at their ends, or more."""
    return Noise.IDS if before.rstrip(_DIGITS) == after.rstrip(_DIGITS) else Noise.NAMES


def _config_kind(before: str | None, after: str | None) -> Noise:
    """Return the kind of noise of two backend configs with the same meaning."""
    if before is None or after is None:
        return Noise.PRINTING
    same = sorted(_NUMBERS.findall(before)) == sorted(_NUMBERS.findall(after))
    return Noise.KEY_ORDER if same else Noise.IDS


@lru_cache(20_000)
def _plain(attributes: str) -> str | None:
    """Return regular attributes without names; None for irregular ones."""
    if is_irregular(attributes):
        return None
    return squeezed(_NAMING.sub("", attributes)).lstrip(",")


def _plain_parts(module: HloModule, text: str) -> tuple[str, str, str | None]:
    """Return attributes without names, metadata and backend config, as written."""
    parts = split_attributes(text)
    plain = None if parts is None else _plain(parts[0])
    if parts is not None and plain is not None:
        return plain, parts[1], parts[2]
    pairs = module.reader.attributes(text)
    first = dict(reversed(pairs))
    others = [f"{n}={v}" for n, v in pairs if n not in ("metadata", "backend_config", "origin")]
    plain = squeezed(_NAMING.sub("", ", ".join(others))).lstrip(",")
    return plain, first.get("metadata", ""), first.get("backend_config")


def _are_copies(modules: tuple[HloModule, HloModule], rows: Rows) -> bool:
    """Return whether partners follow one another alike in two equal pieces of text."""
    if any(map(ne, map(sub, *rows), repeat(rows[0][0] - rows[1][0]))):
        return False
    pieces = []
    for module, listed in zip(modules, rows, strict=True):
        spans = module.columns.spans
        start, end = spans[min(listed) * STRIDE + NAME], spans[max(listed) * STRIDE + END]
        pieces.append(module.columns.source.text[start:end])
    return pieces[0] == pieces[1]


def _texts(module: HloModule, rows: Sequence[int], first: int, last: int) -> list[str]:
    text, spans = module.columns.source.text, module.columns.spans
    if [*rows] == [*range(rows[0], rows[0] + len(rows))]:  # faster
        part = spans[rows[0] * STRIDE : (rows[-1] + 1) * STRIDE]
        return list(map(text.__getitem__, map(slice, part[first::STRIDE], part[last::STRIDE])))
    return [text[spans[at + first] : spans[at + last]] for at in map(STRIDE.__mul__, rows)]


def out_of_order(places: Sequence[int]) -> list[int]:
    """Return the fewest positions whose removal makes a sequence ascending.

    >>> out_of_order([0, 3, 1, 2])
    [1]
    """
    if all(map(lt, places, islice(places, 1, None))):
        return []
    ends: list[int] = []  # least end of an ascending sequence of each length, and its position
    tails: list[int] = []
    before = [-1] * len(places)
    for position, place in enumerate(places):
        length = bisect_left(ends, place)
        ends[length : length + 1], tails[length : length + 1] = [place], [position]
        before[position] = tails[length - 1] if length else -1
    kept = set()
    position = tails[-1]
    while position >= 0:
        kept.add(position)
        position = before[position]
    return [position for position in range(len(places)) if position not in kept]
