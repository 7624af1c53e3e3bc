"""Changes of a program, and the edits of its text that make them."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import END, NAME, OPERANDS, OPERANDS_END, SHAPE, STRIDE
from hlo_lens.questions.sharding.placement import custom_call_target
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hlo_lens.hlo.module import HloInstruction, HloModule


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPart:
    """What a change means for one value of the program, or for the whole.

    Attributes:
        kind: As in `Change`.
        target: Name of the value, or the value of the option.
        applies: Whether it is made.
        why_not: Why it cannot be; None if it can.
        note: What it does where it applies; None for nothing to say.
        request: Target of the `Change` that it is part of.
    """

    kind: str
    target: str
    applies: bool = True
    why_not: str | None = None
    note: str | None = None
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that is asked for: an option of ``what-if`` and its value.

    Attributes:
        kind: ``target``, ``flag``, ``with``, ``donate``, ``shard``, ...
        target: The option's value.
        applies: Whether it can be made, in part at least.
        why_not: Why it cannot; None if it can.
        parts: Values that it changes, and those that it cannot; empty for changes of the whole.
    """

    kind: str
    target: str
    applies: bool = True
    why_not: str | None = None
    parts: tuple[ChangedPart, ...] = ()

    @property
    def all_parts(self) -> tuple[ChangedPart, ...]:
        """Its parts; of a change of the whole, one."""
        whole = ChangedPart(
            kind=self.kind,
            target=self.target,
            applies=self.applies,
            why_not=self.why_not,
            request=self.target,
        )
        return self.parts or (whole,)

    def to_dict(self) -> dict[str, object]:
        """Return what JSON has of the change as a whole."""
        names = ("kind", "target", "applies", "why_not")
        return {name: getattr(self, name) for name in names}


class InapplicableError(Exception):
    """A change cannot be made; the text says why."""


def part_of(kind: str, target: str, request: str, make: Callable[[], str]) -> ChangedPart:
    """Return the part of a change that a function makes: it returns what it did, or raises why not.

    Args:
        kind: Kind of the change.
        target: Name of the value.
        request: Target of the change.
        make: Makes it; raises `InapplicableError` if it cannot.
    """
    try:
        return ChangedPart(kind=kind, target=target, request=request, note=make())
    except InapplicableError as error:
        return ChangedPart(
            kind=kind, target=target, request=request, applies=False, why_not=str(error)
        )


FUNC_RESULT = "xla.sdy.FuncResultSharding"
"""Target of the custom call that states the sharding of a result for Shardy."""


def is_result_call(instruction: HloInstruction) -> bool:
    """Return whether an instruction states the sharding of a result for Shardy."""
    is_call = instruction.opcode == "custom-call"
    return is_call and custom_call_target(instruction) == FUNC_RESULT


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

_LAYOUT = "entry_computation_layout"
_LEAF = re.compile(r"(?<![\w.])[a-z][a-z0-9]*(?=\[)")


@dataclass(slots=True)
class LineEdits:
    """Edits of the line of one instruction.

    Attributes:
        name: New name where it is defined, not where it is used.
        types: Leaf of the result shape to its new element type.
        operands: Position to another instruction of the computation, without ``%``.
        attributes: Name to new value as written; None removes one.
        is_root: Whether the line gets the mark ROOT, or loses it; None for neither.
        is_removed: Whether the line goes.
        before: Lines to add before it.
        after: Lines to add after it.
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
    """Edits of the text of a module.

    Attributes:
        module: The module as it is.
        header: New values of attributes of the header; empty removes one.
        parameter_types: New element types in header and signature, leaves of all parameters counted
            together.
        result_types: The same of the result.
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
        """Return the edits of an instruction's line."""
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
        """Return the edits of the last line of the entry."""
        return self._lines[self.module.entry.rows[-1]]

    def new_name(self, near: HloInstruction) -> str:
        """Return a name that no instruction of its computation has yet."""
        names = self._names.setdefault(
            near.computation.name, {one.name for one in near.computation.instructions}
        )
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
        """Return the edited text."""
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
        """Yield start, end and new text of the parts of the header that change."""
        module, text = self.module, self.module.columns.source.text
        head = _HEAD.match(text, module.start)
        if head is None:
            if self.header:
                raise UsageError(f"{module.path} has no HloModule line")
            return
        end = head.end()
        for name in _HEADER_ORDER:
            old = module.header.get(name, "")
            new = self.header_value(name)
            written = f", {name}={new}" if new else ""
            if name in module.header:
                start = text.find(f", {name}={old}", head.end())
                end = start + len(f", {name}={old}")
                if new != old:
                    yield start, end, written
            elif new:
                yield end, end, written

    def _signature(self) -> tuple[int, int, str]:
        """Edit the types in the header, and return the new signature of the entry."""
        if layout := self.header_value(_LAYOUT):
            self.header[_LAYOUT] = self._program_shape(layout)
        entry = self.module.entry
        span = entry.signature_span
        return span.start, span.end, self._program_shape(entry.signature_text)

    def _program_shape(self, text: str) -> str:
        parameters, arrow, result = text.rpartition("->")
        first = _with_types(parameters, self.parameter_types)
        return f"{first}{arrow}{_with_types(result, self.result_types)}"

    def _line_parts(self, row: int, edits: LineEdits) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and new text of the parts of a line that change."""
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
            shape = _with_types(instruction.shape_text, edits.types)
            yield spans[SHAPE], spans[SHAPE + 1], shape
        if edits.operands:
            operands = self._operands(instruction, edits.operands)
            yield spans[OPERANDS], spans[OPERANDS_END], operands
        if edits.attributes:
            attributes = _attributes(instruction, edits.attributes)
            yield spans[OPERANDS_END] + 1, spans[END], attributes

    def _operands(self, instruction: HloInstruction, edited: Mapping[int, str]) -> str:
        """Return the operand list with other operands; shapes and comments in it stay."""
        text = instruction.operand_text
        pieces, done = [], 0
        for position, name in enumerate(instruction.operand_names):
            written = re.compile(rf"(?<![\w.%-])%?{re.escape(name)}(?:#\d+)*(?![\w.#-])")
            match = written.search(text, done)
            if match is not None:
                new = self.reference(edited[position]) if position in edited else match[0]
                pieces += [text[done : match.start()], new]
                done = match.end()
        return "".join([*pieces, text[done:]])


def _attributes(instruction: HloInstruction, edited: Mapping[str, str | None]) -> str:
    attributes = dict(instruction.attribute_list)
    for name, value in edited.items():
        if value is None:
            attributes.pop(name, None)
        elif name in attributes or "metadata" not in attributes:
            attributes[name] = value
        else:  # XLA prints metadata after shardings and frontend attributes
            metadata = attributes.pop("metadata")
            attributes |= {name: value, "metadata": metadata}
    return "".join(f", {name}={value}" for name, value in attributes.items())


def _with_types(text: str, types: Mapping[int, str]) -> str:
    """Return a list of shapes with other element types of some leaves."""
    leaves = itertools.count()
    return _LEAF.sub(lambda match: types.get(next(leaves), match[0]), text)
