"""A change of a program's text: the replacements, and for each target whether it applies."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import END, NAME, OPERANDS, OPERANDS_END, SHAPE, STRIDE
from hlo_lens.text.errors import UsageError
from hlo_lens.text.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hlo_lens.hlo.module import HloInstruction, HloModule


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


_LAYOUT = "entry_computation_layout"
_LEAF = re.compile(r"(?<![\w.])[a-z][a-z0-9]*(?=\[)")


class TextEdits:
    """Edits of one module: each part of an instruction is replaced once, with all its edits."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self._header: dict[str, str] = {}
        self._attributes: dict[int, dict[str, str | None]] = defaultdict(dict)
        self._operands: dict[int, dict[int, str]] = defaultdict(dict)
        self._types: dict[int, dict[int, str]] = defaultdict(dict)
        self._renamed: dict[int, str] = {}
        self._entry_types: dict[bool, dict[int, str]] = defaultdict(dict)
        self._before: dict[int, list[str]] = defaultdict(list)
        self._after: dict[int, list[str]] = defaultdict(list)
        self._no_roots: set[int] = set()
        self._roots: set[int] = set()
        self._removed: set[int] = set()
        self._names: dict[str, set[str]] = {}

    def set_header(self, name: str, value: str) -> None:
        """Give an attribute of the header a value; empty removes it."""
        self._header[name] = value

    def header(self, name: str) -> str:
        """Return the edited value of an attribute of the header; empty if there is none."""
        return self._header.get(name, self.module.header.get(name, ""))

    def set_attribute(self, instruction: HloInstruction, name: str, value: str | None) -> None:
        """Give an attribute of an instruction a value as written; None removes it."""
        self._attributes[instruction.row][name] = value

    def attribute(self, instruction: HloInstruction, name: str) -> str | None:
        """Return the edited value of an attribute as written; None if there is none."""
        edited = self._attributes.get(instruction.row, {})
        return edited[name] if name in edited else instruction.attribute(name)

    def set_operand(self, instruction: HloInstruction, position: int, name: str) -> None:
        """Replace an operand by another instruction of the same computation."""
        self._operands[instruction.row][position] = name

    def operand(self, instruction: HloInstruction, position: int) -> str:
        """Return an operand as edited, with its tuple index (``w#1``), without ``%``."""
        edited = self._operands.get(instruction.row, {})
        if position in edited:
            return edited[position]
        operand = instruction.operands[position]
        return "#".join([operand.name, *map(str, operand.index)])

    def set_type(self, instruction: HloInstruction, leaf: int, element_type: str) -> None:
        """Give a leaf of an instruction's result shape another element type."""
        self._types[instruction.row][leaf] = element_type

    def set_name(self, instruction: HloInstruction, name: str) -> None:
        """Replace the name of an instruction where it is defined, not where it is used."""
        self._renamed[instruction.row] = name

    def set_entry_type(self, leaf: int, element_type: str, *, is_result: bool) -> None:
        """Give a leaf of the entry's parameters or result another element type.

        In the header and the signature of the entry; leaves are counted over all parameters.
        """
        self._entry_types[is_result][leaf] = element_type

    def insert_before(self, instruction: HloInstruction, line: str) -> None:
        """Add an instruction before another one, after those added there before."""
        self._before[instruction.row].append(line)

    def insert_after(self, instruction: HloInstruction, line: str) -> None:
        """Add an instruction after another one and those added there before."""
        self._after[instruction.row].append(line)

    def remove_root(self, instruction: HloInstruction) -> None:
        """Drop the mark ROOT of an instruction."""
        self._no_roots.add(instruction.row)

    def set_root(self, instruction: HloInstruction) -> None:
        """Mark an instruction as the ROOT of its computation."""
        self._roots.add(instruction.row)

    def remove(self, instruction: HloInstruction) -> None:
        """Delete the line of an instruction."""
        self._removed.add(instruction.row)

    def new_name(self, near: HloInstruction) -> str:
        """Return a name that no instruction of its computation has yet."""
        computation = near.computation
        if computation.name not in self._names:
            self._names[computation.name] = {one.name for one in computation.instructions}
        known = self._names[computation.name]
        base = re.sub(r"\.\d+$", "", near.name)
        number = 1
        while (name := f"{base}.edited.{number}") in known:
            number += 1
        known.add(name)
        return name

    def reference(self, name: str) -> str:
        """Return a name as this text writes it, with ``%`` or without."""
        columns = self.module.columns
        is_marked = len(columns) and columns.source.text[columns.spans[NAME] - 1] == "%"
        return f"%{name}" if is_marked else name

    def replacements(self) -> tuple[Replacement, ...]:
        """Return the replacements of all edits."""
        found = [*self._shapes_of_entry(), *set_header(self.module, self._header)]
        for row, attributes in self._attributes.items():
            if row not in self._removed:
                found.append(self._with_attributes(row, attributes))
        for row, operands in self._operands.items():
            if row not in self._removed:
                found.append(self._with_operands(row, operands))
        for row, name in self._renamed.items():
            found.append(Replacement(self._span(row, NAME, NAME + 1), name))
        for row, types in self._types.items():
            new = _with_types(self.module.instruction(row).shape_text, types)
            found.append(Replacement(self._span(row, SHAPE, SHAPE + 1), new))
        return (*found, *self._roots_and_lines())

    def _shapes_of_entry(self) -> list[Replacement]:
        """Edit the types in the header, and return the replacement of the entry's signature."""
        if not self._entry_types:
            return []
        if layout := self.header(_LAYOUT):
            self.set_header(_LAYOUT, self._program_shape(layout))
        entry = self.module.entry
        if not entry.signature_text:
            return []
        return [Replacement(entry.signature_span, self._program_shape(entry.signature_text))]

    def _span(self, row: int, first: int, last: int) -> Span:
        spans = self.module.columns.spans
        return Span(spans[row * STRIDE + first], spans[row * STRIDE + last])

    def _with_attributes(self, row: int, edited: Mapping[str, str | None]) -> Replacement:
        attributes = dict(self.module.instruction(row).attribute_list)
        for name, value in edited.items():
            if value is None:
                attributes.pop(name, None)
            elif name in attributes or not {"metadata"} & attributes.keys():
                attributes[name] = value
            else:  # XLA prints metadata after shardings and frontend attributes
                metadata = attributes.pop("metadata")
                attributes.update({name: value, "metadata": metadata})
        span = self._span(row, OPERANDS_END, END)
        text = "".join(f", {name}={value}" for name, value in attributes.items())
        return Replacement(Span(span.start + 1, span.end), text)

    def _with_operands(self, row: int, edited: Mapping[int, str]) -> Replacement:
        span = self._span(row, OPERANDS, OPERANDS_END)
        names = self.module.instruction(row).operand_names
        text = self.module.columns.source.text[span.start : span.end]
        pieces, done = [], 0
        for position, name in enumerate(names):
            written = re.compile(rf"(?<![\w.%-])%?{re.escape(name)}(?:#\d+)*(?![\w.#-])")
            match = written.search(text, done)
            if match is None:
                continue
            new = self.reference(edited[position]) if position in edited else match[0]
            pieces += [text[done : match.start()], new]
            done = match.end()
        return Replacement(span, "".join([*pieces, text[done:]]))

    def _program_shape(self, text: str) -> str:
        """Return a program shape with the edited element types."""
        parameters, arrow, result = text.rpartition("->")
        types = self._entry_types
        return f"{_with_types(parameters, types[False])}{arrow}{_with_types(result, types[True])}"

    def _without_root(self, row: int) -> Replacement:
        text = self.module.columns.source.text
        start = self._span(row, NAME, NAME).start
        begin = text.rfind("ROOT ", text.rfind("\n", 0, start) + 1, start)
        return Replacement(Span(begin, begin + len("ROOT ")) if begin >= 0 else Span(0, 0), "")

    def _roots_and_lines(self) -> list[Replacement]:
        """Return the replacements of marks, and those that add and delete lines."""
        added: dict[int, str] = defaultdict(str)
        for is_after, edits in ((True, self._after), (False, self._before)):
            for row, lines in edits.items():
                begin, end, indent = self._line(row)
                added[end if is_after else begin] += "".join(f"{indent}{line}\n" for line in lines)
        found = [Replacement(Span(place, place), text) for place, text in added.items()]
        found += [self._without_root(row) for row in self._no_roots]
        for row in self._roots:
            begin, _, indent = self._line(row)
            place = begin + len(indent)
            found.append(Replacement(Span(place, place), "ROOT "))
        for row in self._removed:
            begin, end, _ = self._line(row)
            found.append(Replacement(Span(begin, end), ""))
        return found

    def _line(self, row: int) -> tuple[int, int, str]:
        """Return where the lines of an instruction begin and end, and their indentation."""
        source, span = self.module.columns.source, self._span(row, NAME, END)
        begin, end = source.line_bounds(span.start)[0], source.line_bounds(span.end)[1]
        line = source.text[begin:end]
        return begin, end + 1, line[: len(line) - len(line.lstrip())]


def _with_types(text: str, types: Mapping[int, str]) -> str:
    """Return a list of shapes with other element types of some leaves."""
    leaves = itertools.count()
    return _LEAF.sub(lambda match: types.get(next(leaves), match[0]), text)
