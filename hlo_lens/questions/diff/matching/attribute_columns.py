"""Attributes of a whole module as columns of numbers, parsed once per distinct text.

Metadata is cut off at its first words: it differs on each line and does not change what an
instruction computes.
"""

from __future__ import annotations

import re
from itertools import compress, repeat
from operator import gt, ne, sub
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import END, OPERANDS_END, STRIDE
from hlo_lens.questions.diff.matching.attribute_text import CONFIG_KEY, METADATA_KEY, is_irregular

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.matching.labels import AttributeText, Labels

IRREGULAR = -1
"""Number of an attribute list that must be parsed as a whole."""

_FIRST_CHANNEL = -2

_NAMING = (", calls", ", to_apply")
"""Attributes that often come last, and whose value, the name of a computation, has no meaning."""

_NAME = re.compile(r"%?[\w.-]+")


class _Heads(dict[str, int]):
    """Number of each distinct attribute list without metadata and backend config.

    The number of the meaning (`AttributeText.key`) without a channel; `IRREGULAR`; or a lower one
    for lists with a channel.
    """

    def __init__(self, labels: Labels, module: HloModule) -> None:
        super().__init__()
        self.with_channel: list[AttributeText] = []
        self._named: dict[str, int] = {}
        self._labels = labels
        self._reader = module.reader

    def __missing__(self, text: str) -> int:
        stem, _, name = text.rpartition("=")
        is_named = stem.endswith(_NAMING) and _NAME.fullmatch(name) is not None
        number = self._named.get(stem) if is_named else None
        if number is None:
            number = self._read(text[1:])  # after the closing parenthesis
            if is_named and number >= 0:
                self._named[stem] = number
        self[text] = number
        return number

    def _read(self, head: str) -> int:
        if is_irregular(head):
            return IRREGULAR
        found = self._labels.head(head, self._reader)
        if found.channel is None:
            return found.key
        self.with_channel.append(found)
        return _FIRST_CHANNEL - len(self.with_channel) + 1


class AttributeColumns:
    """Attributes of each row.

    Args:
        labels: Labels of both modules.
        module: The module.
        without: Rows whose attributes are ignored.

    Attributes:
        keys: Number of the meaning of each row's attributes.
        configs: Row to the number of its backend config, if it has one.
        channels: Row to its channel id as written, if it has one.
        irregular: Rows that must be parsed as a whole; their key has no meaning.
    """

    def __init__(self, labels: Labels, module: HloModule, without: Iterable[int]) -> None:
        self.configs: dict[int, int] = {}
        self.channels: dict[int, str] = {}
        self.irregular: list[int] = []
        self._labels = labels
        self._module = module
        text, spans = module.columns.source.text, module.columns.spans
        cuts, odd = self._cuts(without)
        heads = _Heads(labels, module)
        parts = map(text.__getitem__, map(slice, spans[OPERANDS_END::STRIDE], cuts))
        self.keys = list(map(heads.__getitem__, parts))
        for row in odd:
            self.keys[row] = IRREGULAR
        nothing = labels.head("", module.reader).key
        for row in list(compress(range(len(self.keys)), map(gt, repeat(0), self.keys))):
            number = self.keys[row]
            if number == IRREGULAR:
                self.irregular.append(row)
                self.configs.pop(row, None)
                self.keys[row] = nothing
            else:
                found = heads.with_channel[_FIRST_CHANNEL - number]
                self.keys[row] = found.key
                self.channels[row] = found.channel or ""

    def _cuts(self, without: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return the offset of the metadata or config of each row, and irregular rows.

        Irregular rows have something other than a config after their metadata.
        """
        text, spans = self._module.columns.source.text, self._module.columns.spans
        find = text.find
        starts, ends = spans[OPERANDS_END::STRIDE], spans[END::STRIDE]
        cuts = list(map(find, repeat(METADATA_KEY), starts, ends))
        after = map(sub, ends, map(find, repeat("}"), cuts, ends))
        rows = range(len(cuts))
        ignored = frozenset(without)
        odd: list[int] = []
        configs = {
            row: find("}", cuts[row], ends[row]) + 1
            for row in compress(rows, map(ne, after, repeat(1)))
            if cuts[row] >= 0 and row not in ignored
        }
        for row in ignored:
            cuts[row] = starts[row] + 1
        bare = list(compress(rows, map(gt, repeat(0), cuts)))
        sides = map(starts.__getitem__, bare), map(ends.__getitem__, bare)
        for row, at in zip(bare, map(find, repeat(CONFIG_KEY), *sides), strict=True):
            cuts[row] = at if at >= 0 else ends[row]
            if at >= 0:
                configs[row] = at
        for row, at in sorted(configs.items()):
            config = at + len(CONFIG_KEY)
            if text.startswith(CONFIG_KEY, at) and text.startswith(("{", '"'), config):
                self.configs[row] = self._labels.config(
                    text[config : ends[row]], self._module.reader
                )
            else:
                odd.append(row)
        return cuts, odd
