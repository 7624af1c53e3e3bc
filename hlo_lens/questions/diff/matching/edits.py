"""Kinds of edits of an instruction, and of noise: differences that do not change the program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, TypeAlias

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloInstruction


@dataclass(frozen=True, slots=True)
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

    kind: ClassVar[str] = "added"
    base: ClassVar[None] = None
    head: HloInstruction
    changes: ClassVar[tuple[Change, ...]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """An instruction that only the base has."""

    kind: ClassVar[str] = "removed"
    base: HloInstruction
    head: ClassVar[None] = None
    changes: ClassVar[tuple[Change, ...]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """An instruction that both have and that differs.

    Attributes:
        base: The instruction in the base.
        head: The instruction in the head.
        changes: Its changes; at least one.
    """

    kind: ClassVar[str] = "changed"
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

    kind: ClassVar[str] = "moved"
    base: HloInstruction
    head: HloInstruction
    changes: tuple[Change, ...] = ()


Edit: TypeAlias = Added | Removed | Changed | Moved


def in_head(edit: Edit) -> HloInstruction:
    """Return the instruction in the head; in the base if it was removed."""
    return edit.base if isinstance(edit, Removed) else edit.head


def in_base(edit: Edit) -> HloInstruction:
    """Return the instruction in the base; in the head if it was added."""
    return edit.head if isinstance(edit, Added) else edit.base


class Noise(Enum):
    """A kind of difference that is counted and ignored, unless it is to count as a change.

    The value is its name in reports and on the command line.

    Attributes:
        meaning: Description of the difference.
    """

    _value_: str
    meaning: str

    NAMES = "names", "names of instructions, computations and the module"
    IDS = "ids", "numbers at the end of names, and of barriers"
    CHANNEL_IDS = "channel-ids", "channel ids, renumbered"
    STACK_FRAMES = "stack-frames", "numbers of stack frames that are the same place"
    METADATA = "metadata", "metadata: op names, places in the source, origins"
    KEY_ORDER = "key-order", "order of keys in backend configs and frontend attributes"
    SPELLING = "spelling", "spellings of one sharding, device group, shape or value"
    AXIS_NAMES = "axis-names", "names of mesh axes, of shardings that divide the same"
    INSTRUCTION_ORDER = (
        "instruction-order",
        "order of instructions within their computation (the schedule)",
    )
    COMPUTATION_ORDER = "computation-order", "order of computations in the text"
    COPIES = "copies", "copies of a computation that others share"
    PRINTING = (
        "printing",
        "what one text prints and the other leaves out: get-tuple-element lines, wrapped async "
        "computations, layouts, shapes, long constants, controls, configs",
    )

    def __new__(cls, value: str, meaning: str) -> Noise:
        """Return a kind with a name and a meaning."""
        kind = object.__new__(cls)
        kind._value_ = value
        kind.meaning = meaning
        return kind

    __hash__ = object.__hash__  # that of Enum is a Python call, for each instruction with noise
