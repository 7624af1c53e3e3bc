"""Attributes of a whole module as columns of numbers, parsed once per distinct text.

Metadata is cut off at its first words: it differs on each line and does not change what an
instruction computes.
"""

from __future__ import annotations

from itertools import compress, repeat
from operator import gt, ne, sub
from typing import TYPE_CHECKING

from hlo_lens.analysis.program_diff.attribute_text import CONFIG_KEY, METADATA_KEY, is_irregular
from hlo_lens.model.hlo.columns import END, OPERANDS_END, STRIDE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.analysis.program_diff.labels import AttributeText, Labels
    from hlo_lens.model.hlo.module import HloModule

IRREGULAR = -1
"""Number of an attribute list that must be parsed as a whole."""

_FIRST_CHANNEL = -2


class _Heads(dict[str, int]):
    """Number of each distinct attribute list without metadata and backend config.

    The number of the meaning (`AttributeText.key`) without a channel; `IRREGULAR`; or a lower one
    for lists with a channel.
    """

    def __init__(self, labels: Labels, module: HloModule) -> None:
        super().__init__()
        self.with_channel: list[AttributeText] = []
        self._labels = labels
        self._reader = module.reader

    def __missing__(self, text: str) -> int:
        number = self[text] = self._read(text[1:])  # after the closing parenthesis
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
        for row in [row for row, key in enumerate(self.keys) if key < 0]:
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
        odd: list[int] = []
        ignored = frozenset(without)
        rows = range(len(cuts))
        others = set(compress(rows, map(ne, after, repeat(1))))
        others.update(compress(rows, map(gt, repeat(0), cuts)))
        special = sorted(others - ignored)
        for row in ignored:
            cuts[row] = starts[row] + 1
        for row in special:
            cut, end = cuts[row], ends[row]
            if cut < 0:
                at = cuts[row] = find(CONFIG_KEY, starts[row], end)
                if at < 0:
                    cuts[row] = end
                    continue
            else:
                at = find("}", cut, end) + 1
            config = at + len(CONFIG_KEY)
            if text.startswith(CONFIG_KEY, at) and text.startswith(("{", '"'), config):
                self.configs[row] = self._labels.config(text[config:end], self._module.reader)
            else:
                odd.append(row)
        return cuts, odd
