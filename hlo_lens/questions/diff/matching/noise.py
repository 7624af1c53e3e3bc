"""Noise in metadata: names set by the scheduler, numbers of stack frames, places in the source."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from functools import cache
from itertools import compress, islice, repeat
from operator import eq, lt, ne, sub
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.hlo.columns import END, NAME, NAME_END, OPERANDS_END, STRIDE
from hlo_lens.hlo.metadata import parse_metadata
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.diff.matching.edits import Change, Noise
from hlo_lens.questions.diff.matching.meanings import (
    METADATA_KEY,
    differ_in_names,
    is_irregular,
    quick_split,
    squeezed,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.matching.graphs import ProgramGraph


Found: TypeAlias = tuple[Noise, str, "str | None", "str | None"]
"""A kind of noise, the property that differs, and its values in base and head."""

_FRAME_NUMBER = re.compile(r"\bstack_frame_id=(\d{1,9})\b")
_FIRST_OF_LINE = re.compile(r"stack_frame_id=(\d{1,9})\}[^\n]*+")
_FRAME = re.compile(r"\s*stack_frame_id=\d+")
_NAMES = re.compile(r'\s*(?:scheduling_name|deduplicated_name)="[^"\\]*+(?:\\.[^"\\]*+)*+"')
_DEDUPLICATED = "deduplicated_name="
_SCHEDULING = 'scheduling_name="'
_FRAME_KEY = "stack_frame_id="
_LINE_KEY = "source_line="
_LINES = re.compile(
    r'source_line=(?<=" source_line=)\d++(?: source_(?:end_line|column|end_column)=\d++)*+'
    r'(?=[^{}"\\\n]*+(?:"[^"\\\n]*+"[^{}"\\\n]*+)*+\}\n)'
)
"""Line numbers after a string, in metadata at the end of a line; not those inside a string."""
_LONGEST_NUMBER = 9


class MetadataNoise:
    """Comparison of metadata; call stacks are compared once per pair of frames."""

    def __init__(self, base: HloModule, head: HloModule) -> None:
        self._base = base
        self._head = head
        self._is_same_stack = cache(self._are_stacks_equal)
        self._places: dict[str, Found | None] = {}

    def alone(self, mine: str, yours: str) -> Noise | None:
        """Return the kind of noise of two attribute lists that differ in their metadata alone.

        None where they differ in something else, or where it takes a parser to tell.
        """
        cut = mine.find(METADATA_KEY)
        head = mine[:cut]
        if cut < 0 or '"' in head or not yours.startswith(head + METADATA_KEY):
            return None
        if mine.find("}", cut) != len(mine) - 1 or yours.find("}", cut) != len(yours) - 1:
            return None
        start = cut + len(METADATA_KEY) - 1
        return self.found(mine[start:], yours[start:])[0]

    def found(self, mine: str, yours: str) -> Found:
        """Return the kind of noise of two different ``metadata`` values."""
        if _has_numbers(mine) or _has_numbers(yours):
            before, after = without_names(mine), without_names(yours)
            if before == after:
                return Noise.NAMES, "scheduling_name", mine or None, yours or None
            frames = self._frames_alone(before, after)
            if frames is not None and self._is_same_stack(frames):
                return Noise.STACK_FRAMES, "stack_frame_id", *frames
        return Noise.METADATA, "metadata", mine or None, yours or None

    def moved(self, texts: Sequence[str]) -> int:
        """Return how many attribute lists have a frame number that is two places."""
        lines = "\n".join(texts)
        numbers = Counter(_FIRST_OF_LINE.findall(lines))
        has_others = numbers.total() != lines.count(_FRAME_KEY)  # in strings, or not to be read
        if has_others or lines.count("\n") >= len(texts):  # or in computations inside of others
            return sum(1 for text in texts if self.frames(text) is not None)
        places = ((self.frames(f"{_FRAME_KEY}{number}}}"), n) for number, n in numbers.items())
        return sum(count for place, count in places if place is not None)

    def frames(self, text: str) -> Found | None:
        """Return the noise if one frame number is two places in modules with different tables."""
        at = text.find(_FRAME_KEY)
        if at < 0:
            return None
        number = text[at + len(_FRAME_KEY) : text.find("}", at)]  # the last field, as XLA prints it
        if number not in self._places:
            match = _FRAME_NUMBER.search(text)
            if match is None:
                return None
            number = match[1]
            frame = int(number)
            before, after = (m.stack_frames.location(frame) for m in (self._base, self._head))
            self._places[number] = (
                None if before == after else (Noise.METADATA, "source", str(before), str(after))
            )
        return self._places[number]

    def _frames_alone(self, before: str, after: str) -> tuple[str, str] | None:
        """Return the frame numbers, if the metadata differs in nothing else."""
        a, b = before.rfind(_FRAME_KEY), after.rfind(_FRAME_KEY)
        if a >= 0 and b >= 0:  # the last field, as XLA prints it
            one, other = before[a + len(_FRAME_KEY) : -1], after[b + len(_FRAME_KEY) : -1]
            if one.isdecimal() and other.isdecimal():
                return (one, other) if before[:a] == after[:b] else None
        if _FRAME.sub("", before) != _FRAME.sub("", after) or not before or not after:
            return None
        numbers = (parse_metadata(before), parse_metadata(after))
        first, second = (str(metadata.stack_frame_id or 0) for metadata in numbers)
        return first, second

    def _are_stacks_equal(self, frames: tuple[str, str]) -> bool:
        mine, yours = (
            module.stack_frames.stack(int(number) if len(number) <= _LONGEST_NUMBER else 0)
            for module, number in zip((self._base, self._head), frames, strict=True)
        )
        return mine == yours


def _has_numbers(text: str) -> bool:
    """Return whether metadata has names or numbers that XLA chose."""
    return _FRAME_KEY in text or _SCHEDULING in text or _DEDUPLICATED in text


def without_lines(texts: Sequence[str]) -> Sequence[str]:
    """Return attribute lists without the line numbers in metadata at their ends.

    Those of several lines are returned as they are, whatever the others are.

    >>> without_lines([', metadata={op_name="f" source_file="a.py" source_line=7}'])
    [', metadata={op_name="f" source_file="a.py" }']
    """
    joined = "\n".join((*texts, ""))
    if _LINE_KEY not in joined:
        return texts
    found = _LINES.sub("", joined).split("\n")[:-1]
    if len(found) == len(texts):
        return found
    return [text if "\n" in text else _LINES.sub("", f"{text}\n")[:-1] for text in texts]


def without_names(text: str) -> str:
    """Return metadata without the names set by the scheduler and the deduplicator.

    >>> without_names('{op_name="f" scheduling_name="add.3" stack_frame_id=1}')
    '{op_name="f" stack_frame_id=1}'
    """
    start = text.find(_SCHEDULING)
    if start < 0 and _DEDUPLICATED not in text:
        return text
    end = text.find('"', start + len(_SCHEDULING))
    if start < 0 or end < 0 or "\\" in text or _DEDUPLICATED in text or _SCHEDULING in text[end:]:
        return _NAMES.sub("", text)
    return text[:start].rstrip() + text[end + 1 :]


_NUMBER = "0123456789._"
_NUMBERS = re.compile(r"\d+")
_CONTROLS = re.compile(r"\bcontrol-predecessors=(\{[^{}]*\})")
_NAMING = re.compile(
    r"(?:, *)?\b(?:to_apply|calls|condition|body|true_computation|false_computation|select|"
    r"scatter|branch_computations|called_computations|control-predecessors)=(?:\{[^{}]*\}|%?[\w.-]+)"
    r"|(?:, *)?\bchannel_id=(?:-?\d+|_)"
)
_CHUNK = 4096
"""Partners compared together; their texts are kept meanwhile."""

_PARTS, _FEW = 8, 64
"""Parts into which unequal partners are cut to find equal ones, and the number not cut further."""

_OF_NAMES = frozenset({Noise.NAMES, Noise.IDS})

_REMEMBERED = 20_000
"""Most distinct attribute lists whose plain form is kept."""


class NoiseCount:
    """Counter of ignored noise, which also returns noise that counts as change.

    Args:
        base: Graph of the base.
        head: Graph of the head.
        head_of: For each node of the base, its partner; -1 for none.
        heed: Kinds that count as changes.
    """

    def __init__(
        self,
        base: ProgramGraph,
        head: ProgramGraph,
        head_of: Sequence[int],
        heed: Collection[Noise],
    ) -> None:
        self.counts: Counter[Noise] = Counter()
        self._base = base
        self._head = head
        self._heed = frozenset(heed)
        self._channels = self._mixed_channels(head_of)
        self._frames_differ = base.module.stack_frames != head.module.stack_frames
        self._metadata = MetadataNoise(base.module, head.module)
        self._plain: dict[str, str | None] = {}

    # ---- many at once --------------------------------------------------------------------------

    def count(
        self, rows: tuple[Sequence[int], Sequence[int]], nodes: tuple[Sequence[int], Sequence[int]]
    ) -> None:
        """Count the noise of partners, if no kind counts as change.

        Args:
            rows: Rows of partners, of base and head.
            nodes: Their nodes; empty for views.
        """
        self._count_parts(rows, nodes, _CHUNK)

    def _count_parts(
        self,
        rows: tuple[Sequence[int], Sequence[int]],
        nodes: tuple[Sequence[int], Sequence[int]],
        size: int,
    ) -> None:
        for start in range(0, len(rows[0]), size):
            part = slice(start, start + size)
            self._count((rows[0][part], rows[1][part]), (nodes[0][part], nodes[1][part]))

    def _count(
        self, rows: tuple[Sequence[int], Sequence[int]], nodes: tuple[Sequence[int], Sequence[int]]
    ) -> None:
        base, head = self._base.module, self._head.module
        if _are_copies(base, head, rows):
            if self._frames_differ:
                self._count_moved(_texts(base, rows[0], OPERANDS_END, END))
            return
        if len(rows[0]) > _FEW and _starts_or_ends_alike(base, head, rows):
            self._count_parts(rows, nodes, -(-len(rows[0]) // _PARTS))
            return
        mine, yours = _texts(base, rows[0], NAME, NAME_END), _texts(head, rows[1], NAME, NAME_END)
        if mine != yours:
            self._count_names(mine, yours)
        elif not self._frames_differ and self._count_lines(rows):
            return
        texts = _texts(base, rows[0], OPERANDS_END, END)
        if not self._frames_differ and _has_texts(head, rows[1], texts):
            return
        others = _texts(head, rows[1], OPERANDS_END, END)
        counts = self.counts
        if self._frames_differ:
            self._count_moved(compress(texts, map(eq, texts, others)))
        plain, other_plain = without_lines(texts), without_lines(others)
        counts[Noise.METADATA] += sum(map(eq, plain, other_plain)) - sum(map(eq, texts, others))
        for place in compress(range(len(texts)), map(ne, plain, other_plain)):
            kind = self._metadata.alone(texts[place], others[place])
            pair = (nodes[0][place], nodes[1][place]) if nodes[0] else None
            about = self._about(texts[place][1:], others[place][1:], pair)
            kinds = {one for one, *_ in about} if kind is None else {kind}
            if mine[place] != yours[place] and not _OF_NAMES.isdisjoint(kinds):
                kinds.discard(self.name_kind(mine[place], yours[place]))  # counted already
            counts.update(kinds)

    def _count_moved(self, texts: Iterable[str]) -> None:
        """Count equal attribute lists with a frame number that is two places."""
        self.counts[Noise.METADATA] += self._metadata.moved([*texts])

    def _count_names(self, mine: Sequence[str], yours: Sequence[str]) -> None:
        """Count the names of partners that differ."""
        same = sum(map(eq, mine, yours))
        stems = (map(str.rstrip, names, repeat(_NUMBER)) for names in (mine, yours))
        alike = sum(map(eq, *stems))
        self.counts[Noise.NAMES] += len(mine) - alike
        self.counts[Noise.IDS] += alike - same

    def _count_lines(self, rows: tuple[Sequence[int], Sequence[int]]) -> bool:
        """Count the noise of partners in the same lines, if these differ in line numbers alone."""
        mine, yours = _lines(self._base.module, rows[0]), _lines(self._head.module, rows[1])
        if not mine or without_lines(mine) != without_lines(yours):
            return False
        self.counts[Noise.METADATA] += sum(map(ne, mine, yours))
        return True

    # ---- one by one ----------------------------------------------------------------------------

    def changes(self, mine: int, yours: int) -> tuple[Change, ...]:
        """Count the ignored noise of two partners, and return the rest as changes."""
        return self.of_rows(self._base.rows[mine], self._head.rows[yours], (mine, yours))

    def of_rows(
        self, my_row: int, your_row: int, nodes: tuple[int, int] | None = None
    ) -> tuple[Change, ...]:
        """Do the same for two rows; views have no nodes."""
        a, b = self._base.module.columns, self._head.module.columns
        name, other = a.text(my_row, NAME, NAME_END), b.text(your_row, NAME, NAME_END)
        found: list[tuple[Noise, Change]] = []
        if name != other:
            found.append((self.name_kind(name, other), Change(what="name", base=name, head=other)))
        about = self._about(a.attributes_text(my_row), b.attributes_text(your_row), nodes)
        found += [
            (kind, Change(what=what, base=before, head=after))
            for kind, what, before, after in about
        ]
        return self.weighed(found)

    def name_kind(self, before: str, after: str) -> Noise:
        """Return the kind of noise of two names: numbers at their ends, or more."""
        same = before.rstrip(_NUMBER) == after.rstrip(_NUMBER)
        return Noise.IDS if same else Noise.NAMES

    def weighed(self, found: Sequence[tuple[Noise, Change]]) -> tuple[Change, ...]:
        """Count each ignored kind once, and return the noise that counts as change."""
        if not found:
            return ()
        for kind in {kind for kind, _ in found}:
            if kind not in self._heed:
                self.counts[kind] += 1
        return tuple(change for kind, change in found if kind in self._heed)

    # ---- attributes ----------------------------------------------------------------------------

    def _about(self, mine: str, yours: str, nodes: tuple[int, int] | None) -> Iterator[Found]:
        """Yield the noise in two attribute lists."""
        if mine == yours:
            found = self._metadata.frames(mine) if self._frames_differ else None
            if found is not None:
                yield found
            return
        my_head, my_metadata, my_config = self._parts(mine, self._base)
        your_head, your_metadata, your_config = self._parts(yours, self._head)
        if nodes is not None:
            yield from self._channel_noise(*nodes)
        labels = self._base.labels
        if not labels.with_controls:
            before, after = (_CONTROLS.search(text) for text in (mine, yours))
            if (before is None) != (after is None):
                said = before and before[1], after and after[1]
                yield Noise.PRINTING, "control-predecessors", *said
        if my_metadata != your_metadata:
            yield self._metadata.found(my_metadata, your_metadata)
        if nodes is None or (my_config == your_config and my_head == your_head):
            return
        a, b = (
            labels.parts[g.label[n]] for g, n in zip((self._base, self._head), nodes, strict=True)
        )
        if a.config == b.config and my_config != your_config:
            kind = _config_noise(my_config, your_config)
            yield kind, "backend_config", my_config, your_config
        if a.attributes == b.attributes and my_head != your_head:
            is_axes = differ_in_names(my_head, your_head)
            kind = Noise.AXIS_NAMES if is_axes else Noise.SPELLING
            yield kind, "attributes", my_head, your_head

    def _parts(self, text: str, graph: ProgramGraph) -> tuple[str, str, str | None]:
        """Return attributes without names, metadata and backend config, as written."""
        head, metadata, config = quick_split(text)
        plain = None if head is None else self._plain.get(head)
        if plain is None and head is not None:
            plain = None if is_irregular(head) else squeezed(_NAMING.sub("", head)).lstrip(",")
            if len(self._plain) < _REMEMBERED:
                self._plain[head] = plain
        if plain is not None:
            return plain, metadata, config
        pairs = graph.module.reader.attributes(text)
        metadata = next((value for name, value in pairs if name == "metadata"), "")
        config = next((value for name, value in pairs if name == "backend_config"), None)
        whole = ", ".join(
            f"{name}={value}"
            for name, value in pairs
            if name not in ("metadata", "backend_config", "origin")
        )
        return squeezed(_NAMING.sub("", whole)).lstrip(","), metadata, config

    def _channel_noise(self, mine: int, yours: int) -> Iterator[Found]:
        before, after = self._base.channels.get(mine), self._head.channels.get(yours)
        if before is not None and after is not None and before != after:
            yield Noise.CHANNEL_IDS, "channel_id", before, after

    def channel_changes(self, mine: int, yours: int) -> tuple[Change, ...]:
        """Return the change of a send or recv whose channel has other counterparts."""
        if mine not in self._channels:
            return ()
        before, after = self._base.channels[mine], self._head.channels[yours]
        return (Change(what="channel_id", base=before, head=after),)

    @property
    def mixed_channels(self) -> Collection[int]:
        """Sends and recvs of the base whose channel has no single counterpart in the head."""
        return self._channels

    def _mixed_channels(self, head_of: Sequence[int]) -> set[int]:
        """Return sends and recvs of the base whose channel has no single counterpart."""
        base, head = self._base, self._head
        forth: dict[str, set[str]] = {}
        back: dict[str, set[str]] = {}
        pairs: dict[int, tuple[str, str]] = {}
        for mine, before in base.channels.items():
            after = head.channels.get(head_of[mine]) if head_of[mine] >= 0 else None
            if after is not None and opcode_traits(base.opcode(mine)).is_paired:
                pairs[mine] = (before, after)
                forth.setdefault(before, set()).add(after)
                back.setdefault(after, set()).add(before)
        return {
            mine
            for mine, (before, after) in pairs.items()
            if len(forth[before]) > 1 or len(back[after]) > 1
        }


def _are_copies(
    base: HloModule, head: HloModule, rows: tuple[Sequence[int], Sequence[int]]
) -> bool:
    """Return whether partners follow one another alike in two equal pieces of text."""
    if any(map(ne, map(sub, *rows), repeat(rows[0][0] - rows[1][0]))):
        return False
    return _text(base, min(rows[0]), max(rows[0])) == _text(head, min(rows[1]), max(rows[1]))


def _starts_or_ends_alike(
    base: HloModule, head: HloModule, rows: tuple[Sequence[int], Sequence[int]]
) -> bool:
    """Return whether the text of the first or last partners is equal, so that more may be."""
    mine, yours = rows
    return any(
        _text(base, mine[at], mine[at]) == _text(head, yours[at], yours[at]) for at in (0, -1)
    )


def _text(module: HloModule, first: int, last: int) -> str:
    spans = module.columns.spans
    return module.columns.source.text[spans[first * STRIDE + NAME] : spans[last * STRIDE + END]]


def _lines(module: HloModule, rows: Sequence[int]) -> list[str]:
    """Return the lines of some rows; nothing if they do not follow one another, one on a line."""
    if not _are_consecutive(rows):
        return []
    lines = _text(module, rows[0], rows[-1]).split("\n")
    return lines if len(lines) == len(rows) else []


def _are_consecutive(rows: Sequence[int]) -> bool:
    return [*rows] == [*range(rows[0], rows[0] + len(rows))]


def _texts(module: HloModule, rows: Sequence[int], first: int, last: int) -> list[str]:
    """Return the text between two columns of some rows."""
    text, spans = module.columns.source.text, module.columns.spans
    if _are_consecutive(rows):
        part = spans[rows[0] * STRIDE : (rows[-1] + 1) * STRIDE]
        return list(map(text.__getitem__, map(slice, part[first::STRIDE], part[last::STRIDE])))
    return [text[spans[at + first] : spans[at + last]] for at in map(STRIDE.__mul__, rows)]


def _has_texts(module: HloModule, rows: Sequence[int], texts: Sequence[str]) -> bool:
    """Return whether rows that follow one another have these attributes, as written."""
    text, spans = module.columns.source.text, module.columns.spans
    if not _are_consecutive(rows):
        return False
    part = spans[rows[0] * STRIDE : (rows[-1] + 1) * STRIDE]
    starts, ends = part[OPERANDS_END::STRIDE], part[END::STRIDE]
    return all(map(text.startswith, texts, starts)) and all(
        map(eq, map(len, texts), map(sub, ends, starts))
    )


def _config_noise(before: str | None, after: str | None) -> Noise:
    """Return the kind of noise of two backend configs with the same meaning."""
    if before is None or after is None:
        return Noise.PRINTING
    same = sorted(_NUMBERS.findall(before)) == sorted(_NUMBERS.findall(after))
    return Noise.KEY_ORDER if same else Noise.IDS


def out_of_order(places: Sequence[int]) -> list[int]:
    """Return the fewest positions whose removal makes a sequence ascending.

    >>> out_of_order([0, 3, 1, 2])
    [1]
    """
    if all(map(lt, places, islice(places, 1, None))):
        return []
    ends: list[int] = []
    tails: list[int] = []
    before = [-1] * len(places)
    for position, place in enumerate(places):
        length = bisect_left(ends, place)
        if length == len(ends):
            ends.append(place)
            tails.append(position)
        else:
            ends[length] = place
            tails[length] = position
        before[position] = tails[length - 1] if length else -1
    kept = set()
    position = tails[-1]
    while position >= 0:
        kept.add(position)
        position = before[position]
    return [position for position in range(len(places)) if position not in kept]
