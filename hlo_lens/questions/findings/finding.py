"""A finding: what is wrong, the line to blame, the fix, and what the fix saves."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypedDict

from hlo_lens.render.result import NOT_SAVED, Column, Unit
from hlo_lens.text.units import flops_text, format_bytes, format_seconds

if TYPE_CHECKING:
    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.render.result import Row


class Severity(StrEnum):
    """Weight of a finding."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class SavingBasis(StrEnum):
    """How sure a saving is.

    The difference of two compiles; at most the size of values that the fix removes; or about that
    size: what is computed from them may be saved, too.
    """

    COMPILED = "compiled"
    UP_TO = "up to"
    ABOUT = "about"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saves:
    """What a fix brings to each device in one run, negative where it costs; None if not known.

    `bytes` are those of what must fit, or of the peak where a rule says so; `basis` is None without
    any figure.
    """

    bytes: int | None = None
    sent_bytes: int | None = None
    flops: int | None = None
    seconds: float | None = None
    basis: SavingBasis | None = None

    @classmethod
    def about(cls, size_bytes: int | None = None, *, sent_bytes: int | None = None) -> Saves:
        """Return the size of values; what is computed from them may be saved, too."""
        return cls(bytes=size_bytes, sent_bytes=sent_bytes, basis=SavingBasis.ABOUT)

    @classmethod
    def up_to(
        cls,
        size_bytes: int | None = None,
        *,
        sent_bytes: int | None = None,
        flops: int | None = None,
    ) -> Saves:
        return cls(bytes=size_bytes, sent_bytes=sent_bytes, flops=flops, basis=SavingBasis.UP_TO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change of the program that makes a fix: an option of ``what-if``, and its value."""

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
        severity: Given by a rule where size does not decide it.
        values: Arguments, results or instructions concerned, the largest first.
        evidence: Facts that show it, each a sentence.
        share: Largest share that it saves of the program's memory, communication or arithmetic.
        changes: Changes by which ``what-if`` makes the fix, all together; none if it cannot.
        has_cost: Whether the fix may cost communication or work, so that it is no error.
        is_by_design: Whether the program means it: it is printed last.
        axes: Mesh axes that it is about: a finding of a root cause takes in others on its axis.
        share_of: The attribute of its saving that `share` is of; empty if not known.
        weight: Share of the program by which one of unknown saving is ordered; None for a tenth.
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
    is_by_design: bool = field(default=False, compare=False, metadata=NOT_SAVED)
    axes: tuple[str, ...] = field(default=(), compare=False, metadata=NOT_SAVED)
    share_of: str = field(default="", compare=False, metadata=NOT_SAVED)
    weight: float | None = field(default=None, compare=False, metadata=NOT_SAVED)

    @property
    def is_provable(self) -> bool:
        return bool(self.changes) and not self.suppressed

    @property
    def source(self) -> str | None:
        if self.source_file is None or self.source_line is None:
            return self.source_file
        return f"{self.source_file}:{self.source_line}"


_TRIVIAL = 4 << 10
"""Bytes of memory that are not worth a word beside a mebibyte sent, or as much work."""


def savings_text(saves: Saves, share: float | None, share_of: str = "") -> str:
    """Return what a fix brings and costs: ``saves up to 1.64GiB (11%)``; empty if not known.

    Args:
        saves: The savings.
        share: The largest of them as a share of the program; None if not known.
        share_of: Name of that one; empty if not known.
    """
    percent = "" if share is None else f" ({share:.{0 if share >= 0.01 else 1}%})"
    figures = (
        ("bytes", format_bytes(abs(saves.bytes or 0)), "", "takes {} more"),
        ("sent_bytes", format_bytes(abs(saves.sent_bytes or 0)), " sent", "sends {} more"),
        ("flops", flops_text(abs(saves.flops or 0)), "", "computes {} more"),
        ("seconds", format_seconds(abs(saves.seconds or 0)), "", "takes {} longer"),
    )
    is_large = any(abs(one or 0) >= 1 << 20 for one in (saves.bytes, saves.sent_bytes, saves.flops))
    gains, costs = [], []
    for name, text, what, cost in figures[is_large and abs(saves.bytes or 0) < _TRIVIAL :]:
        amount = getattr(saves, name) or 0
        if amount > 0:
            gains.append(f"{text}{what}{percent * (name == share_of)}")
        elif amount < 0:
            costs.append(cost.format(text))
    if not gains and not costs:
        return ""
    is_sure = saves.basis in (SavingBasis.COMPILED, None)
    bound = "" if is_sure else f"{saves.basis} "
    parts = [f"saves {bound}{' and '.join(gains)}{percent * (not share_of)}"] if gains else []
    mark = " [compiled]" * (saves.basis == SavingBasis.COMPILED)
    return f"{', '.join([*parts, *costs])}{mark}"


SAVING_COLUMNS = (
    Column("saved_bytes", Unit.BYTES, "memory of each device that the fix saves"),
    Column("basis", Unit.NONE, "how sure the saving is: compiled, up to or about"),
    Column("sent_bytes", Unit.BYTES, "bytes that each device sends less in one run"),
    Column("flops", Unit.FLOPS, "arithmetic that each device is spared in one run"),
    Column("seconds", Unit.SECONDS, "time that a step is shorter"),
)


def saving_cells(saves: Saves) -> Row:
    """Return the cells of a saving, one for each of `SAVING_COLUMNS`."""
    return (saves.bytes, saves.basis, saves.sent_bytes, saves.flops, saves.seconds)
