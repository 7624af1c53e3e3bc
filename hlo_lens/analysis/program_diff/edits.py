"""Kinds of edits of an instruction, as types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from hlo_lens.model.hlo.instruction import HloInstruction


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
