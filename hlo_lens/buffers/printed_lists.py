"""Lists in the lines of buffer texts: words of an allocation, positions and uses of a value.

A line is read with its list as one text; the list is read when it is asked for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.buffers.columns import parse_index
from hlo_lens.grammar.lines import LineParser, LineRule

if TYPE_CHECKING:
    from hlo_lens.shapes.shape import ShapeIndex

FILES = ("hlo_tokens", "shape", "buffer_tokens", "buffer_assignment", "buffer_values")
"""Grammars of allocations and used values."""

WORD = LineRule("word", *FILES, is_line=False)
_POSITION = LineRule("position", *FILES, is_line=False)
_USE = LineRule("use", *FILES, is_line=False)
_PARSER = LineParser(*FILES, rules=(), names={})


@dataclass(frozen=True, slots=True, kw_only=True)
class HloPosition:
    """Position of a value: an instruction's result, or a part of it.

    Attributes:
        instruction_name: Without ``%``.
        index: Index into its shape; () also if its shape is no tuple.
    """

    instruction_name: str
    index: ShapeIndex = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HloUse:
    """A use of a value by an instruction.

    Attributes:
        instruction_name: The user, without ``%``.
        operand_number: Number of its operand, from 0.
        operand_index: Index into that operand's shape; () also if that is no tuple.
    """

    instruction_name: str
    operand_number: int
    operand_index: ShapeIndex = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationWords:
    """What an allocation line has after the size.

    Attributes:
        color: Memory space; 0, the default, is not printed.
        page_id: Page of its heap; None before August 2026.
        parameter_number: Number of the entry parameter in it, or of which a part is in it; None
            without one.
        param_shape_index: Index of the part of the parameter in it, () for all of it; None without
            one.
        parameter_shape_text: Shape without layout: of the part since August 2025, of the whole
            parameter before.
        output_shape_text: Shape of the module's result if its root value (or root pointer table) is
            here.
        is_constant: Whether it is of a constant of the program.
        is_thread_local: Whether it is local to a called computation, a reducer or a thread: in no
            heap.
        maybe_live_out: Whether it may be part of the module's result.
        is_preallocated_temp: Whether it is none of parameter, result, constant and thread-local.
        other: Unknown words, as printed.
    """

    color: int = 0
    page_id: int | None = None
    parameter_number: int | None = None
    param_shape_index: ShapeIndex | None = None
    parameter_shape_text: str | None = None
    output_shape_text: str | None = None
    is_constant: bool = False
    is_thread_local: bool = False
    maybe_live_out: bool = False
    is_preallocated_temp: bool = False
    other: tuple[str, ...] = ()


@functools.lru_cache(maxsize=1 << 12)
def allocation_words(text: str) -> AllocationWords:
    """Return the words after the size of an allocation; of a repeated word, the first counts."""
    groups = WORD.groups
    found: dict[int, str] = {}
    other: list[str] = []
    for spans in _PARSER.items("words", WORD, text):
        for number, (start, end) in enumerate(spans[1:], 1):
            if start >= 0 and number == groups["OTHER"]:
                other.append(text[start:end].rstrip())
            elif start >= 0:
                found.setdefault(number, text[start:end])

    def number_at(name: str) -> int | None:
        return int(found[groups[name]]) if groups[name] in found else None

    index = found.get(groups["part_index"], found.get(groups["parameter_index"]))
    return AllocationWords(
        color=number_at("COLOR") or 0,
        page_id=number_at("PAGE"),
        parameter_number=number_at("PARAMETER"),
        param_shape_index=None if index is None else parse_index(index),
        parameter_shape_text=found.get(groups["parameter_shape"]),
        output_shape_text=found.get(groups["output_shape"]),
        is_constant=groups["CONSTANT"] in found,
        is_thread_local=groups["THREAD_LOCAL"] in found,
        maybe_live_out=groups["MAYBE_LIVE_OUT"] in found,
        is_preallocated_temp=groups["PREALLOCATED_TEMP"] in found,
        other=tuple(other),
    )


def allocation_shapes(text: str) -> list[tuple[int, int]]:
    """Return the places of the shapes in the words of an allocation."""
    groups = [WORD.groups[name] for name in ("parameter_shape", "output_shape")]
    spans = [word[group] for word in _PARSER.items("words", WORD, text) for group in groups]
    return [(start, end) for start, end in spans if start >= 0 and text[start] != "<"]


def value_positions(text: str) -> tuple[HloPosition, ...]:
    """Return the positions in the lines after ``positions:``."""
    return tuple(
        HloPosition(instruction_name=text[slice(*name)], index=_index(text, index))
        for _, name, index in _PARSER.items("positions", _POSITION, text)
    )


def value_uses(text: str) -> tuple[HloUse, ...]:
    """Return the uses in the lines after ``uses:``; empty for ``(none)``."""
    return tuple(
        HloUse(
            instruction_name=text[slice(*name)],
            operand_number=int(text[slice(*number)]),
            operand_index=_index(text, index),
        )
        for _, name, number, index in _PARSER.items("uses", _USE, text)
    )


def _index(text: str, span: tuple[int, int]) -> tuple[int, ...]:
    return parse_index(text[slice(*span)]) if span[0] >= 0 else ()
