"""A finding: what is wrong, the line to blame, the fix, and what the fix saves."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypedDict

from hlo_lens.render.result import NOT_SAVED

if TYPE_CHECKING:
    from hlo_lens.hlo.metadata import SourceLocation


class Severity(StrEnum):
    """Weight of a finding."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """Position among the severities, the gravest first."""
        return list(Severity).index(self)


class SavingBasis(StrEnum):
    """How sure a saving is.

    Attributes:
        PROVEN: XLA compiled the program again with the fix; the saving is the difference.
        SIMULATED: Computed with a model of XLA's buffer assignment, in older snapshots alone.
        AT_MOST: An upper bound: the size of what the fix removes, or, next to the values' own
            bytes, of all that it can change.
    """

    PROVEN = "proven"
    SIMULATED = "simulated"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saves:
    """Saving of a fix, of one device and one run; None where not known.

    Attributes:
        bytes: Bytes of memory: of what must fit, or of the peak where a rule says so.
        basis: How sure `bytes`, or the first figure that is known, is; None without any figure.
        wire_bytes: Bytes that each device sends less.
        flops: Arithmetic that each device is spared.
        seconds: Time that a step is shorter.
        own_bytes: Part of `bytes` that the values of the finding have themselves, where `bytes`
            bounds what the fix also changes; None where it changes nothing else.
    """

    bytes: int | None = None
    basis: SavingBasis | None = None
    wire_bytes: int | None = None
    flops: int | None = None
    seconds: float | None = None
    own_bytes: int | None = None

    @classmethod
    def at_most(
        cls,
        size_bytes: int | None = None,
        *,
        wire_bytes: int | None = None,
        flops: int | None = None,
        own_bytes: int | None = None,
    ) -> Saves:
        """Return a saving that is an upper bound."""
        return cls(
            bytes=size_bytes,
            wire_bytes=wire_bytes,
            flops=flops,
            own_bytes=own_bytes,
            basis=SavingBasis.AT_MOST,
        )

    @property
    def weight_bytes(self) -> int | None:
        """Bytes that order and judge findings: `own_bytes` where `bytes` is a far bound."""
        return self.bytes if self.own_bytes is None else self.own_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change of the program that ``what-if`` can make: the fix, or its effect.

    Attributes:
        kind: ``donate``, ``undonate``, ``shard``, ``dtype``, ``constraint``, ``mesh``, ``flag`` or
            ``target``.
        target: Value of the option of ``what-if`` of this name.
    """

    kind: str
    target: str


class _At(TypedDict):
    source_file: str | None
    source_line: int | None


def at(place: SourceLocation | None) -> _At:
    """Return the fields of a finding for the line to blame; None if it is not known."""
    return {
        "source_file": None if place is None else place.file,
        "source_line": None if place is None else place.line,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding; rules leave `code`, `name`, `severity` and `share` to the engine.

    Attributes:
        code: Code of the rule.
        name: Name of the rule.
        severity: Given by a rule where size does not decide it.
        message: What is wrong, in one sentence without a full stop.
        fix: What to write instead, as in a JAX program.
        source_file: File of the user's program to blame; None if not known.
        source_line: Line in it.
        values: Arguments, results or instructions concerned, the largest first.
        evidence: Facts that show it, each a sentence.
        suppressed: Whether it does not count.
        suppressed_by: Where it is suppressed: a comment, a setting, a baseline.
        share: Saving by its share of the program's memory, communication or arithmetic, the
            largest; None if not known.
        changes: Changes by which ``what-if`` makes the fix, all together; none if it cannot.
        saves: Saving of the fix.
        has_cost: Whether the fix may cost communication or work, so that it is no error.
    """

    code: str = ""
    name: str = ""
    severity: Severity | None = None
    message: str
    fix: str
    source_file: str | None = None
    source_line: int | None = None
    values: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    suppressed: bool = False
    suppressed_by: str | None = None
    share: float | None = None
    changes: tuple[Remedy, ...] = ()
    saves: Saves = field(default_factory=Saves)
    has_cost: bool = field(default=False, compare=False, metadata=NOT_SAVED)

    @property
    def source(self) -> str | None:
        """The line as ``file:line``; None if not known."""
        if self.source_file is None or self.source_line is None:
            return self.source_file
        return f"{self.source_file}:{self.source_line}"
