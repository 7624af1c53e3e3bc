"""What differs between partners and is no change: names, ids, metadata, order, spellings.

Each kind is counted by instructions (computations for `Noise.COMPUTATION_ORDER`); one instruction
can count for several kinds.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from hlo_lens.analysis.diff.edits import Change
from hlo_lens.analysis.diff.labels import split_attributes, squeezed
from hlo_lens.analysis.diff.noise import Noise
from hlo_lens.model.hlo_columns import NAME, NAME_END, STRIDE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hlo_lens.analysis.diff.program_graph import ProgramGraph
    from hlo_lens.model.hlo import HloModule
    from hlo_lens.model.metadata import OpMetadata

_NUMBER = "0123456789._"
_NUMBERS = re.compile(r"\d+")
_FRAME_NUMBER = re.compile(r"\bstack_frame_id=(\d{1,9})\b")
_FRAME = re.compile(r"\s*stack_frame_id=\d+")
_NAMES_IN_METADATA = re.compile(
    r'\s*(?:scheduling_name|deduplicated_name)="[^"\\]*+(?:\\.[^"\\]*+)*+"'
)
_NAMING = re.compile(
    r"\b(?:to_apply|calls|condition|body|true_computation|false_computation|select|scatter|"
    r"branch_computations|called_computations|control-predecessors)=(?:\{[^{}]*\}|%?[\w.-]+)"
    r"|\bchannel_id=(?:-?\d+|_)"
)
_PAIRED_CHANNELS = frozenset({"send", "recv", "send-done", "recv-done"})


class NoiseCount:
    """Counts what is ignored, and tells what is heeded.

    Args:
        base: Graph of the base.
        head: Graph of the head.
        head_of: For each node of the base, its partner; -1 for none.
        heed: Kinds that are changes.
    """

    def __init__(
        self,
        base: ProgramGraph,
        head: ProgramGraph,
        head_of: Sequence[int],
        heed: Collection[Noise],
    ) -> None:
        self.counts: Counter[Noise] = Counter()
        self._names = [0, 0]
        self._base = base
        self._head = head
        self._heed = frozenset(heed)
        self._channels = self._mixed_channels(head_of)
        self._frames_differ = base.module.stack_frames != head.module.stack_frames

    def changes(self, mine: int, yours: int) -> tuple[Change, ...]:
        """Count what is ignored about two partners, and return what is not."""
        return self.of_rows(self._base.rows[mine], self._head.rows[yours], (mine, yours))

    def of_rows(
        self, my_row: int, your_row: int, nodes: tuple[int, int] | None = None
    ) -> tuple[Change, ...]:
        """Do the same for two rows; those of views have no nodes."""
        a, b = self._base.module.columns, self._head.module.columns
        base, head = my_row * STRIDE, your_row * STRIDE
        name = a.source.text[a.spans[base + NAME] : a.spans[base + NAME_END]]
        other = b.source.text[b.spans[head + NAME] : b.spans[head + NAME_END]]
        mine, yours = a.attributes_text(my_row), b.attributes_text(your_row)
        if mine == yours and not self._heed and not self._frames_differ:
            if name != other:
                self._names[name.rstrip(_NUMBER) == other.rstrip(_NUMBER)] += 1
            return ()
        found: list[tuple[Noise, Change]] = []
        if name != other:
            found.append((self.name_kind(name, other), Change(what="name", base=name, head=other)))
        if mine != yours:
            found += self._attribute_noise(mine, yours, nodes)
        elif self._frames_differ and "stack_frame_id=" in mine:
            found += self._frame_noise(mine)
        return self.weighed(found)

    def total(self) -> Counter[Noise]:
        """Return what was ignored, and in how many instructions."""
        names = {Noise.NAMES: self._names[0], Noise.IDS: self._names[1]}
        return self.counts + Counter(names)

    def name_kind(self, before: str, after: str) -> Noise:
        """Return whether two names differ in more than the numbers at their ends."""
        same = before.rstrip(_NUMBER) == after.rstrip(_NUMBER)
        return Noise.IDS if same else Noise.NAMES

    def weighed(self, found: Sequence[tuple[Noise, Change]]) -> tuple[Change, ...]:
        """Count each kind that is ignored once, and return what is heeded."""
        if not found:
            return ()
        for kind in {kind for kind, _ in found}:
            if kind not in self._heed:
                self.counts[kind] += 1
        return tuple(change for kind, change in found if kind in self._heed)

    def _attribute_noise(
        self, mine: str, yours: str, nodes: tuple[int, int] | None
    ) -> Iterator[tuple[Noise, Change]]:
        my_parts, your_parts = self._parts(mine, self._base), self._parts(yours, self._head)
        if nodes is not None:
            yield from self._channel_noise(*nodes)
        if my_parts[1] != your_parts[1]:
            yield from self._metadata_noise(my_parts[1], your_parts[1])
        if nodes is None:
            return
        labels = self._base.labels
        a, b = (
            labels.parts[g.label[n]] for g, n in zip((self._base, self._head), nodes, strict=True)
        )
        before, after = my_parts[2], your_parts[2]
        if a.config == b.config and before != after:
            yield (
                _config_noise(before, after),
                Change(what="backend_config", base=before, head=after),
            )
        if a.attributes == b.attributes and my_parts[0] != your_parts[0]:
            yield Noise.SPELLING, Change(what="attributes", base=my_parts[0], head=your_parts[0])

    def _parts(self, text: str, graph: ProgramGraph) -> tuple[str, str, str | None]:
        """Return attributes without names, metadata and backend config, as written."""
        head, metadata, config = split_attributes(text)
        if head is None:
            pairs = graph.module.reader.attributes(text)
            metadata = next((value for name, value in pairs if name == "metadata"), "")
            config = next((value for name, value in pairs if name == "backend_config"), None)
            head = ", ".join(
                f"{name}={value}"
                for name, value in pairs
                if name not in ("metadata", "backend_config", "origin")
            )
        return squeezed(_NAMING.sub("", head)), metadata, config

    def _channel_noise(self, mine: int, yours: int) -> Iterator[tuple[Noise, Change]]:
        before, after = self._base.channels.get(mine), self._head.channels.get(yours)
        if before is None or after is None:
            return
        if before != after:
            change = Change(what="channel_id", base=before, head=after)
            yield Noise.CHANNEL_IDS, change

    def channel_changes(self, mine: int, yours: int) -> tuple[Change, ...]:
        """Return that a send or recv now has its channel with others than before."""
        if mine not in self._channels:
            return ()
        before, after = self._base.channels[mine], self._head.channels[yours]
        return (Change(what="channel_id", base=before, head=after),)

    def _mixed_channels(self, head_of: Sequence[int]) -> set[int]:
        """Return sends and recvs of the base whose channel is not one channel of the head."""
        base, head = self._base, self._head
        forth: dict[str, set[str]] = {}
        back: dict[str, set[str]] = {}
        pairs: dict[int, tuple[str, str]] = {}
        for mine, before in base.channels.items():
            after = head.channels.get(head_of[mine]) if head_of[mine] >= 0 else None
            if after is not None and base.opcode(mine) in _PAIRED_CHANNELS:
                pairs[mine] = (before, after)
                forth.setdefault(before, set()).add(after)
                back.setdefault(after, set()).add(before)
        return {
            mine
            for mine, (before, after) in pairs.items()
            if len(forth[before]) > 1 or len(back[after]) > 1
        }

    def _metadata_noise(self, mine: str, yours: str) -> Iterator[tuple[Noise, Change]]:
        before, after = (_NAMES_IN_METADATA.sub("", text) for text in (mine, yours))
        if before == after:
            yield Noise.NAMES, Change(what="scheduling_name", base=mine, head=yours)
            return
        a = self._base.module.reader.metadata(mine) if mine else None
        b = self._head.module.reader.metadata(yours) if yours else None
        plain = _FRAME.sub("", before) == _FRAME.sub("", after)
        if plain and a is not None and b is not None and self._stack(a, 0) == self._stack(b, 1):
            frames = (str(m.stack_frame_id) for m in (a, b))
            yield (
                Noise.STACK_FRAMES,
                Change(what="stack_frame_id", base=next(frames), head=next(frames)),
            )
            return
        yield Noise.METADATA, Change(what="metadata", base=mine or None, head=yours or None)

    def _frame_noise(self, text: str) -> Iterator[tuple[Noise, Change]]:
        """Yield that one number of a frame is another place, where the tables are not the same."""
        number = _FRAME_NUMBER.search(text)
        if number is None:
            return
        frame = int(number[1])
        before, after = (
            graph.module.stack_frames.location(frame) for graph in (self._base, self._head)
        )
        if before != after:
            yield Noise.METADATA, Change(what="source", base=str(before), head=str(after))

    def _stack(self, metadata: OpMetadata, side: int) -> object:
        module: HloModule = (self._base.module, self._head.module)[side]
        return module.stack_frames.stack(metadata.stack_frame_id or 0)


def _config_noise(before: str | None, after: str | None) -> Noise:
    """Return what differs between two backend configs that mean the same."""
    if before is None or after is None:
        return Noise.PRINTING
    same = sorted(_NUMBERS.findall(before)) == sorted(_NUMBERS.findall(after))
    return Noise.KEY_ORDER if same else Noise.IDS


def out_of_order(places: Sequence[int]) -> list[int]:
    """Return the fewest positions of a sequence without which it is ascending.

    >>> out_of_order([0, 3, 1, 2])
    [1]
    """
    if all(a < b for a, b in itertools.pairwise(places)):
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
