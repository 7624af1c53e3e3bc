"""Figures of a program compiled again: equal to the dump's own or not, and after changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.program.flops import flops
from hlo_lens.questions.collectives.collective_groups import collectives_by
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.errors import HloLensError

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump

RECOMPILED = "recompiled"
"""Basis of figures that XLA's compiler gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one compile, of one device; None where not known.

    Attributes:
        argument_bytes: As in the memory statement, like the next five.
        wire_bytes_per_device: Bytes that leave each device in one run, at most.
        host_bytes: Arguments, outputs, aliased and temporaries in host memory.
        flops: Arithmetic of matrix products and convolutions in one run.
        wire_by_axis: Bytes that leave each device in one run, by mesh axes.
        peak_source: Source line of the instruction at the peak.
        is_exact: Whether the memory is XLA's buffer assignment and exact.
    """

    argument_bytes: int | None = None
    output_bytes: int | None = None
    alias_bytes: int | None = None
    temp_bytes: int | None = None
    total_bytes: int | None = None
    peak_bytes: int | None = None
    wire_bytes_per_device: int | None = None
    host_bytes: tuple[int, ...] = ()
    flops: int | None = None
    wire_by_axis: Mapping[str, int | None] = field(default_factory=dict)
    peak_source: str | None = None
    is_exact: bool = False

    def to_dict(self) -> dict[str, int | None]:
        """Return the figures that JSON has."""
        return {name: getattr(self, name) for name in FIGURES}


FIGURES = tuple(one.name for one in fields(Figures))[:7]
"""Names of the figures that are compared."""


def figures(known: ModuleDump) -> Figures:
    """Return the figures of a compiled module; all None for one whose texts cannot be read."""
    try:
        memory = memory_results(known)
    except HloLensError:
        memory = None
    found: dict[str, object] = {}
    if memory is not None:
        statement, peak = memory.statement, memory.peak
        found = {name: getattr(statement, name) for name in FIGURES[:5]}
        found["host_bytes"] = statement.host_bytes
        found["is_exact"] = statement.source != "estimate"
        if peak is not None:
            found["peak_bytes"] = peak.total_bytes
            found["peak_source"] = peak.instruction_origin.source
    if known.has_hlo:
        found["wire_bytes_per_device"] = collectives(known).wire_bytes_per_device
        found["flops"] = flops(known).total
        groups = collectives_by(collectives(known).collectives, "axis").groups
        found["wire_by_axis"] = {one.axis: one.wire_bytes_per_run for one in groups}
    return Figures(**found)  # type: ignore[arg-type] # the names are those of its fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A figure that is not reproduced; its fields are columns of `Reproduction`."""

    figure: Annotated[str, "name of the figure"]
    dump: Annotated[int | None, Unit.BYTES, "in the dump"]
    recompiled: Annotated[int | None, Unit.BYTES, "compiled again"]


@dataclass(frozen=True, kw_only=True)
class Reproduction(Records[Difference]):
    """Figures of a dump that its program, compiled again, does not have.

    Attributes:
        is_equal: Whether all figures are equal; None if the dump has none to compare with.
        compared: Number of figures compared.
        differences: The others.
        reasons: Known reasons of a difference: versions, options, constants.
    """

    KIND: ClassVar[str] = "reproduction"
    differences: tuple[Difference, ...] = ()
    is_equal: bool | None
    compared: int = 0
    reasons: tuple[str, ...] = ()


def reproduction(own: Figures, again: Figures, reasons: tuple[str, ...] = ()) -> Reproduction:
    """Compare the figures of a dump with those of its program compiled again.

    Memory that is an estimate is not compared.
    """
    names = FIGURES if own.is_exact and again.is_exact else FIGURES[6:]
    pairs = [(name, getattr(own, name), getattr(again, name)) for name in names]
    if own.is_exact and again.is_exact:
        words = ("host_argument", "host_output", "host_alias", "host_temp")
        pairs += [
            (f"{word}_bytes", a, b)
            for word, a, b in zip(words, own.host_bytes, again.host_bytes, strict=False)
        ]
    known = [pair for pair in pairs if pair[1] is not None]
    found = tuple(Difference(figure=n, dump=a, recompiled=b) for n, a, b in known if a != b)
    if not own.is_exact:
        return Reproduction(is_equal=None)
    return Reproduction(
        is_equal=not found,
        compared=len(known),
        differences=found,
        reasons=reasons if found else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPart:
    """What a change means for one value of the program, or for the whole.

    Attributes:
        kind: As in `Change`.
        target: Name of the value, or the value of the option.
        applies: Whether it is made.
        why_not: Why it cannot be; None if it can.
        note: What it does where it applies.
    """

    kind: str
    target: str
    applies: bool
    why_not: str | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that is asked for.

    Attributes:
        kind: ``target``, ``flag``, ``with``, ``donate``, ``shard``, ...
        target: The option's value.
        applies: Whether it can be made, in part at least.
        why_not: Why it cannot; None if it can.
        parts: Values that it changes, and those that it cannot; empty for changes of the whole.
        alone: Figures with this change only; None if not compiled alone.
    """

    kind: str
    target: str
    applies: bool = True
    why_not: str | None = None
    parts: tuple[ChangedPart, ...] = ()
    alone: Figures | None = None

    @property
    def all_parts(self) -> tuple[ChangedPart, ...]:
        """Its parts; of a change of the whole, one."""
        return self.parts or (
            ChangedPart(
                kind=self.kind,
                target=self.target,
                applies=self.applies,
                why_not=self.why_not,
                note="",
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompiled:
    """One module compiled again, without and with changes.

    Attributes:
        name: Name of the module.
        reproduction: Comparison of the dump with `base`.
        base_target: Target of `base`.
        target: Target of `predicted`.
        versions: Versions of the packages that compiled it with the changes.
        base_versions: Those of `base`.
        changes: The changes.
        own: Figures of the dump.
        base: Figures of the program compiled again without changes; those of the dump if that was
            not possible.
        predicted: Figures with the changes; None where there are none, or XLA refused.
        dump: Folder of the new dump; None if there is none.
        memory_limit: Memory of one device of the target; None if not known.
        memory_source: Source of that number.
        fits: Whether the program fits in it; None if not known.
        refusal: Why there are no figures: XLA's message, or a reason; empty where there are.
        shortage: Figures of XLA's out-of-memory message: label and text.
        needed_bytes: Bytes that the program needs by that message, rounded up; None without one.
        remedies: Changes that `fit` would try first for a program that does not fit, and the bytes
            that their arrays shrink.
        seconds: Seconds that compiling with the changes took; without changes, that of `base`.
        base_seconds: Those of `base`.
        notes: Sentences on limits of the answer.
        module_option: Option with which commands on the dump read the module alone; may be empty.
    """

    name: str
    reproduction: Reproduction
    base_target: str
    target: str
    versions: Mapping[str, str]
    changes: tuple[Change, ...]
    own: Figures
    base: Figures
    predicted: Figures | None
    dump: str | None = None
    memory_limit: int | None = None
    memory_source: str = ""
    fits: bool | None = None
    refusal: str = ""
    shortage: tuple[tuple[str, str], ...] = ()
    needed_bytes: int | None = None
    remedies: tuple[tuple[str, int], ...] = ()
    seconds: float = 0.0
    base_versions: Mapping[str, str] = field(default_factory=dict)
    base_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    module_option: str = ""

    @property
    def is_answered(self) -> bool:
        """Whether there are figures, or XLA tried to compile the program and refused."""
        is_tried = not self.changes or any(one.applies for one in self.changes)
        return self.predicted is not None or (is_tried and self.seconds > 0)
