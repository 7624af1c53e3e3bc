"""Attributes of a whole module as columns of numbers, parsed once per distinct text.

Metadata is cut off at its first words: it differs on each line and does not change what an
instruction computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.analysis.program_diff.attribute_text import CONFIG_KEY, METADATA_KEY, is_irregular
from hlo_lens.model.hlo.columns import END, OPERANDS_END, STRIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hlo_lens.analysis.program_diff.labels import AttributeText, Labels
    from hlo_lens.model.hlo.module import HloModule

IRREGULAR = -1
"""Number of an attribute list that must be parsed as a whole."""

_FIRST_NAMED = -2


class Naming(NamedTuple):
    """Attributes that name computations, instructions or channels.

    Attributes:
        key: Number of the other attributes.
        callees: Roles and positions of the computations that are called.
        attributes: All attributes.
    """

    key: int
    callees: tuple[tuple[str, int], ...]
    attributes: AttributeText


class _Heads(dict[str, int]):
    """Number of each distinct attribute list without metadata and backend config.

    The number of the meaning (`AttributeText.key`) if nothing is named; `IRREGULAR`; or a lower
    one for lists that name something.
    """

    def __init__(
        self,
        labels: Labels,
        module: HloModule,
        resolve: Callable[[AttributeText], tuple[tuple[str, int], ...]],
    ) -> None:
        super().__init__()
        self.naming: list[Naming] = []
        self._labels = labels
        self._reader = module.reader
        self._resolve = resolve

    def __missing__(self, text: str) -> int:
        number = self[text] = self._read(text[1:])  # after the closing parenthesis
        return number

    def _read(self, head: str) -> int:
        if is_irregular(head):
            return IRREGULAR
        found = self._labels.head(head, self._reader)
        if not found.callees and not found.controls and found.channel is None:
            return found.key
        self.naming.append(Naming(found.key, self._resolve(found), found))
        return _FIRST_NAMED - len(self.naming) + 1


class AttributeColumns:
    """Attributes of each row.

    Args:
        labels: Labels of both modules.
        module: The module.
        resolve: Returns role and position of the computations that attributes call.
        without: Rows whose attributes are ignored.

    Attributes:
        keys: Number of the attributes of each row, without those that name something.
        configs: Row to the number of its backend config, if it has one.
        naming: Row to its attributes that name something.
        irregular: Rows that must be parsed as a whole; their key has no meaning.
    """

    def __init__(
        self,
        labels: Labels,
        module: HloModule,
        resolve: Callable[[AttributeText], tuple[tuple[str, int], ...]],
        without: Iterable[int],
    ) -> None:
        self.configs: dict[int, int] = {}
        self.naming: dict[int, Naming] = {}
        self.irregular: list[int] = []
        self._labels = labels
        self._module = module
        text, spans = module.columns.source.text, module.columns.spans
        cuts, odd = self._cuts(without)
        heads = _Heads(labels, module, resolve)
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
                found = self.naming[row] = heads.naming[_FIRST_NAMED - number]
                self.keys[row] = found.key

    def _cuts(self, without: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return the offset of the metadata or config of each row, and irregular rows.

        Irregular rows have something other than a config after their metadata.
        """
        text, spans = self._module.columns.source.text, self._module.columns.spans
        find = text.find
        starts, ends = spans[OPERANDS_END::STRIDE], spans[END::STRIDE]
        cuts = [find(METADATA_KEY, a, b) for a, b in zip(starts, ends, strict=True)]
        odd: list[int] = []
        ignored = frozenset(without)
        for row in ignored:
            cuts[row] = starts[row] + 1
        for row in [
            row
            for row, (cut, end) in enumerate(zip(cuts, ends, strict=True))
            if (cut < 0 or find("}", cut, end) != end - 1) and row not in ignored
        ]:
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
