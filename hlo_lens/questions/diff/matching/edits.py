"""Kinds of edits of an instruction, and of noise: differences that do not change the program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from hlo_lens.hlo.instruction import HloInstruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of an instruction or of the module.

    Attributes:
        what: Changed property: ``opcode``, ``element type``, ``shape``, ``operand 0``, the name of
            an attribute, ``backend_config.KEY``.
        base: Value in the base; None if absent.
        head: Value in the head; None if absent.
    """

    what: str
    base: str | None
    head: str | None

    def __str__(self) -> str:
        return f"{self.what} {self.base or '(none)'} -> {self.head or '(none)'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """An instruction that only the head has."""

    head: HloInstruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """An instruction that only the base has."""

    base: HloInstruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """An instruction that both have and that differs.

    Attributes:
        base: The instruction in the base.
        head: The instruction in the head.
        changes: Its changes; at least one.
    """

    base: HloInstruction
    head: HloInstruction
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An instruction in another computation: in or out of a loop, a fusion, a branch.

    Attributes:
        base: The instruction in the base.
        head: The instruction in the head.
        changes: Its other changes; often none.
    """

    base: HloInstruction
    head: HloInstruction
    changes: tuple[Change, ...] = ()


Edit: TypeAlias = Added | Removed | Changed | Moved


class Noise(Enum):
    """A kind of difference that is counted and ignored, unless it is to count as a change.

    The value is its name in reports and on the command line.
    """

    NAMES = "names"
    IDS = "ids"
    CHANNEL_IDS = "channel-ids"
    STACK_FRAMES = "stack-frames"
    METADATA = "metadata"
    KEY_ORDER = "key-order"
    SPELLING = "spelling"
    AXIS_NAMES = "axis-names"
    INSTRUCTION_ORDER = "instruction-order"
    COMPUTATION_ORDER = "computation-order"
    COPIES = "copies"
    PRINTING = "printing"

    __hash__ = object.__hash__  # that of Enum is a Python call, for each instruction with noise

    @property
    def meaning(self) -> str:
        """Description of the difference."""
        return _MEANINGS[self]


_MEANINGS = {
    Noise.NAMES: "names of instructions, computations and the module",
    Noise.IDS: "numbers at the end of names, and of barriers",
    Noise.CHANNEL_IDS: "channel ids, renumbered",
    Noise.STACK_FRAMES: "numbers of stack frames that are the same place",
    Noise.METADATA: "metadata: op names, places in the source, origins",
    Noise.KEY_ORDER: "order of keys in backend configs and frontend attributes",
    Noise.SPELLING: "spellings of one sharding, device group, shape or value",
    Noise.AXIS_NAMES: "names of mesh axes, of shardings that divide the same",
    Noise.INSTRUCTION_ORDER: "order of instructions within their computation (the schedule)",
    Noise.COMPUTATION_ORDER: "order of computations in the text",
    Noise.COPIES: "copies of a computation that others share",
    Noise.PRINTING: "what one text prints and the other leaves out: get-tuple-element lines, "
    "wrapped async computations, layouts, shapes, long constants, controls, configs",
}
