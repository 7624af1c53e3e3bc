"""A change of a program's text: the replacements, and for each target whether it applies."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hlo_lens.text.errors import UsageError
from hlo_lens.text.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hlo_lens.hlo.module import HloModule


@dataclass(frozen=True, slots=True, order=True)
class Replacement:
    """A span of the source text, and the text in its place.

    Attributes:
        span: Offsets in the text of the module's source; empty to insert.
        text: The new text.
    """

    span: Span
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one target.

    Attributes:
        kind: ``donate``, ``undonate``, ``shard``, ``constraint``, ``dtype`` or ``mesh``.
        target: Argument name as ``hlo-lens sharding`` prints it, result, source line or mesh.
        applies: Whether the text was changed for it.
        why_not: Why it does not apply; empty if it does.
        effect: What the text has now: ``result{3} has its memory``; empty if it does not apply.
        request: Text of the request; empty for a change that follows from others.
    """

    kind: str
    target: str
    applies: bool = True
    why_not: str = ""
    effect: str = ""
    request: str = ""

    def for_request(self, text: str) -> Change:
        """Return the change with the text of the request that it belongs to."""
        return replace(self, request=text)

    @classmethod
    def refused(cls, kind: str, target: str, why_not: str) -> Change:
        """Return a change that does not apply."""
        return cls(kind=kind, target=target, applies=False, why_not=why_not)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEdit:
    """Changes of a program's text.

    Attributes:
        changes: One for each target, in the order of the requests.
        replacements: Parts of the text to replace.
    """

    changes: tuple[Change, ...] = ()
    replacements: tuple[Replacement, ...] = ()

    @property
    def applies(self) -> bool:
        """Whether any change applies."""
        return any(change.applies for change in self.changes)

    def text_of(self, module: HloModule) -> str:
        """Return the changed text of the module that was edited."""
        return edited_text(module.columns.source.text, (self,))


def edited_text(text: str, edits: Iterable[ProgramEdit]) -> str:
    """Return a text with the replacements of several edits of it.

    Raises:
        UsageError: If two edits replace the same part: then one has to follow the other.
    """
    found = sorted({one for edit in edits for one in edit.replacements})
    for one, other in pairwise(found):
        if one.span.end > other.span.start or one.span == other.span:
            raise UsageError("two changes replace the same part of the text; apply one at a time")
    pieces, done = [], 0
    for one in found:
        pieces += [text[done : one.span.start], one.text]
        done = one.span.end
    return "".join([*pieces, text[done:]])


# ---- the header --------------------------------------------------------------------------------

_HEAD = re.compile(r"HloModule\s+[^\s,]+")

_HEADER_ORDER = (
    "is_scheduled",
    "input_output_alias",
    "buffer_donor",
    "entry_computation_layout",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "replica_count",
    "num_partitions",
    "frontend_attributes",
)
"""Attributes of the header in the order of HloModule::Print."""


def set_header(module: HloModule, values: Mapping[str, str]) -> tuple[Replacement, ...]:
    """Return the replacements that give attributes of the header new values; empty removes one.

    Raises:
        UsageError: If the text has no header.
    """
    text = module.columns.source.text
    found: list[Replacement] = []
    inserted: dict[int, str] = {}
    for name in sorted(values, key=_HEADER_ORDER.index):
        value = values[name]
        written = f", {name}={value}" if value else ""
        if name in module.header:
            old = f", {name}={module.header[name]}"
            start = text.find(old, module.start)
            if old != written:
                found.append(Replacement(Span(start, start + len(old)), written))
        elif written:
            place = _end_of(module, _HEADER_ORDER[: _HEADER_ORDER.index(name)])
            inserted[place] = inserted.get(place, "") + written
    found += [Replacement(Span(place, place), new) for place, new in inserted.items()]
    return tuple(found)


def _end_of(module: HloModule, names: Iterable[str]) -> int:
    """Return the offset after the last attribute of the header that is one of these."""
    text = module.columns.source.text
    head = _HEAD.match(text, module.start)
    if head is None:
        raise UsageError(f"{module.path} has no HloModule line")
    place = head.end()
    for name in names:
        if name in module.header:
            written = f", {name}={module.header[name]}"
            place = text.find(written, head.end()) + len(written)
    return place
