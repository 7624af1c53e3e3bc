"""Changes of a program, and the edits of its text that make them."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import END, NAME, OPERANDS, OPERANDS_END, SHAPE, STRIDE
from hlo_lens.questions.sharding.placement import custom_call_target
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that is asked for, or (`request` has the option's value) a part of one.

    `target` is the value of the option of ``what-if``, of a part the name of the value it changes;
    `note` what a part does. Changes of the whole program have no parts.
    """

    kind: str
    target: str
    applies: bool = True
    why_not: str | None = None
    note: str | None = None
    request: str = ""
    parts: tuple[Change, ...] = ()

    @property
    def all_parts(self) -> tuple[Change, ...]:
        """Its parts; of a change of the whole, one."""
        return self.parts or (replace(self, request=self.target),)

    def to_dict(self, *further: str) -> dict[str, object]:
        """Return what JSON has of the change."""
        names = ("kind", "target", "applies", "why_not", *further)
        return {name: getattr(self, name) for name in names}


class InapplicableError(Exception):
    """A change cannot be made; the text says why."""


def part_of(kind: str, target: str, request: str, make: Callable[[], str]) -> Change:
    """Return the part of a change that `make` makes: it returns what it did, or raises why not."""
    try:
        return Change(kind=kind, target=target, request=request, note=make())
    except InapplicableError as error:
        why_not = str(error)
    return Change(kind=kind, target=target, request=request, applies=False, why_not=why_not)


FUNC_RESULT = "xla.sdy.FuncResultSharding"
"""Target of the custom call that states the sharding of a result for Shardy."""


def is_result_call(instruction: HloInstruction) -> bool:
    """Return whether an instruction states the sharding of a result for Shardy."""
    return instruction.opcode == "custom-call" and custom_call_target(instruction) == FUNC_RESULT


_HEAD = re.compile(r"HloModule\s+[^\s,]+")
_HEADER_ORDER = (
    *("is_scheduled", "input_output_alias", "buffer_donor", "entry_computation_layout"),
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    *("replica_count", "num_partitions", "frontend_attributes"),
)
"""Attributes of the header in the order of HloModule::Print."""

_LAYOUT = "entry_computation_layout"
_LEAF = re.compile(r"(?<![\w.])[a-z][a-z0-9]*(?=\[)")


@dataclass(slots=True)
class LineEdits:
    """Edits of the line of one instruction.

    New name (where it is defined), element types of leaves, operands by position, attributes (None
    removes one), lines around it; `is_root` gives it the mark ROOT, or takes it away.
    """

    name: str | None = None
    types: dict[int, str] = field(default_factory=dict)
    operands: dict[int, str] = field(default_factory=dict)
    attributes: dict[str, str | None] = field(default_factory=dict)
    is_root: bool | None = None
    is_removed: bool = False
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


class TextEdits:
    """Edits of the text of a module; an empty value of `header` removes an attribute.

    Types of parameters count the leaves of all parameters together.
    """

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.header: dict[str, str] = {}
        self.parameter_types: dict[int, str] = {}
        self.result_types: dict[int, str] = {}
        self._lines: dict[int, LineEdits] = defaultdict(LineEdits)
        self._names: dict[str, set[str]] = {}

    def header_value(self, name: str) -> str:
        """Return an attribute of the header as edited; empty if there is none."""
        return self.header.get(name, self.module.header.get(name, ""))

    def line(self, instruction: HloInstruction) -> LineEdits:
        return self._lines[instruction.row]

    def attribute(self, instruction: HloInstruction, name: str) -> str | None:
        """Return an attribute of an instruction as edited; None if there is none."""
        edited = self.line(instruction).attributes
        return edited[name] if name in edited else instruction.attribute(name)

    def operand(self, instruction: HloInstruction, position: int) -> str:
        """Return an operand as edited, with its tuple index (``w#1``), without ``%``."""
        operand = instruction.operands[position]
        own = "#".join([operand.name, *map(str, operand.index)])
        return self.line(instruction).operands.get(position, own)

    def last_of_entry(self) -> LineEdits:
        return self._lines[self.module.entry.rows[-1]]

    def new_name(self, near: HloInstruction) -> str:
        """Return a name that no instruction of its computation has yet."""
        computation = near.computation
        if computation.name not in self._names:
            self._names[computation.name] = {one.name for one in computation.instructions}
        names = self._names[computation.name]
        base = re.sub(r"\.\d+$", "", near.name)
        numbered = (f"{base}.edited.{number}" for number in itertools.count(1))
        name = next(one for one in numbered if one not in names)
        names.add(name)
        return name

    def reference(self, name: str) -> str:
        """Return a name as this text writes it, with ``%`` or without."""
        columns = self.module.columns
        is_marked = len(columns) and columns.source.text[columns.spans[NAME] - 1] == "%"
        return f"%{name}" if is_marked else name

    def text(self) -> str:
        source = self.module.columns.source.text
        rows = sorted(self._lines.items(), key=lambda item: item[0])  # after one, before the next
        lines = [part for row, edits in rows for part in self._line_parts(row, edits)]
        entry = [] if not self.parameter_types and not self.result_types else [self._signature()]
        pieces, done = [], 0
        parts = [*entry, *self._header_parts(), *lines]
        for start, end, text in sorted(parts, key=lambda part: part[:2]):
            pieces += [source[done:start], text]
            done = end
        return "".join([*pieces, source[done:]])

    def _header_parts(self) -> Iterator[tuple[int, int, str]]:
        module, text = self.module, self.module.columns.source.text
        head = _HEAD.match(text, module.start)
        if head is None and self.header:
            raise UsageError(f"{module.path} has no HloModule line")
        begin = end = 0 if head is None else head.end()
        for name in _HEADER_ORDER if head is not None else ():
            start, old, new = end, module.header.get(name, ""), self.header_value(name)
            if name in module.header:
                start = text.find(f", {name}={old}", begin)
                end = start + len(f", {name}={old}")
            if new != old:
                yield start, end, f", {name}={new}" if new else ""

    def _signature(self) -> tuple[int, int, str]:
        """Edit the types in the header, and return the new signature of the entry."""
        if layout := self.header_value(_LAYOUT):
            self.header[_LAYOUT] = self._program_shape(layout)
        span = self.module.entry.signature_span
        return span.start, span.end, self._program_shape(self.module.entry.signature_text)

    def _program_shape(self, text: str) -> str:
        parameters, arrow, result = text.rpartition("->")
        first = _with_types(parameters, self.parameter_types)
        return f"{first}{arrow}{_with_types(result, self.result_types)}"

    def _line_parts(self, row: int, edits: LineEdits) -> Iterator[tuple[int, int, str]]:
        source = self.module.columns.source
        text, instruction = source.text, self.module.instruction(row)
        spans = self.module.columns.spans[row * STRIDE : (row + 1) * STRIDE]
        begin = source.line_bounds(spans[NAME])[0]
        end = min(source.line_bounds(spans[END])[1] + 1, len(text))
        line = text[begin:end]
        indent = line[: len(line) - len(line.lstrip())]
        if edits.after:
            yield end, end, "".join(f"{indent}{one}\n" for one in edits.after)
        if edits.before:
            yield begin, begin, "".join(f"{indent}{one}\n" for one in edits.before)
        if edits.is_removed:
            yield begin, end, ""
            return
        root = text.rfind("ROOT ", begin, spans[NAME])
        if edits.is_root and root < 0:
            yield begin + len(indent), begin + len(indent), "ROOT "
        elif edits.is_root is False and root >= 0:
            yield root, root + len("ROOT "), ""
        if edits.name is not None:
            yield spans[NAME], spans[NAME + 1], edits.name
        if edits.types:
            yield spans[SHAPE], spans[SHAPE + 1], _with_types(instruction.shape_text, edits.types)
        if edits.operands:
            names = instruction.operand_names
            yield from self._operands(names, edits.operands, spans[OPERANDS], spans[OPERANDS_END])
        if edits.attributes:
            attributes = _attributes(instruction, edits.attributes)
            yield spans[OPERANDS_END] + 1, spans[END], attributes

    def _operands(
        self, names: Sequence[str], edited: Mapping[int, str], start: int, end: int
    ) -> Iterator[tuple[int, int, str]]:
        text = self.module.columns.source.text
        for position, name in enumerate(names):
            written = re.compile(rf"(?<![\w.%-])%?{re.escape(name)}(?:#\d+)*(?![\w.#-])")
            if (match := written.search(text, start, end)) is not None:
                start = match.end()
                if position in edited:
                    yield match.start(), start, self.reference(edited[position])


def _attributes(instruction: HloInstruction, edited: Mapping[str, str | None]) -> str:
    own = dict(instruction.attribute_list)
    attributes: dict[str, str | None] = {**own, **edited}
    if any(value is not None and name not in own for name, value in edited.items()):
        # XLA prints metadata after shardings and frontend attributes
        attributes["metadata"] = attributes.pop("metadata", None)
    return "".join(f", {k}={value}" for k, value in attributes.items() if value is not None)


def _with_types(text: str, types: Mapping[int, str]) -> str:
    leaves = itertools.count()
    return _LEAF.sub(lambda match: types.get(next(leaves), match[0]), text)
