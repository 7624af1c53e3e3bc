"""What can have happened to an instruction, as types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from hlo_lens.model.hlo.instruction import HloInstruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One respect in which an instruction, or the module, is not what it was.

    Attributes:
        what: The respect: ``opcode``, ``element type``, ``shape``, ``operand 0``, the name of
            an attribute, ``backend_config.KEY``.
        base: How it was; None where there was nothing.
        head: How it is; None where there is nothing.
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
    """An instruction that both have and that is not the same.

    Attributes:
        base: As it was.
        head: As it is.
        changes: In which respects; at least one.
    """

    base: HloInstruction
    head: HloInstruction
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An instruction that stands elsewhere: into or out of a loop, a fusion, a branch.

    Attributes:
        base: As it was.
        head: As it is.
        changes: In which respects it is not the same; often none.
    """

    base: HloInstruction
    head: HloInstruction
    changes: tuple[Change, ...] = ()


Edit: TypeAlias = Added | Removed | Changed | Moved
