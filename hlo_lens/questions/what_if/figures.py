"""Figures of one compile, and their comparison with those of a dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.program.flops import flops
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.loop_levels import collectives_by
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.render.result import Records, Unit, columns_of
from hlo_lens.text.errors import HloLensError

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one compile, of one device; None where not known.

    Attributes:
        host_bytes: Arguments, outputs, aliased and temporaries in host memory.
        flops: Arithmetic of matrix products and convolutions in one run.
        wire_by_axis: Bytes that leave each device in one run, by mesh axes.
        peak_source: Source line of the instruction at the peak.
        is_exact: Whether the memory is XLA's buffer assignment and exact.
    """

    argument_bytes: Annotated[int | None, Unit.BYTES, "arguments"] = None
    output_bytes: Annotated[int | None, Unit.BYTES, "outputs"] = None
    alias_bytes: Annotated[int | None, Unit.BYTES, "of these aliased"] = None
    temp_bytes: Annotated[int | None, Unit.BYTES, "temporaries"] = None
    total_bytes: Annotated[int | None, Unit.BYTES, "must fit"] = None
    peak_bytes: Annotated[int | None, Unit.BYTES, "peak"] = None
    wire_bytes_per_device: Annotated[int | None, Unit.BYTES, "sent by each device"] = None
    host_bytes: tuple[int, ...] = ()
    flops: int | None = None
    wire_by_axis: Mapping[str, int | None] = field(default_factory=dict)
    peak_source: str | None = None
    is_exact: bool = False

    def to_dict(self) -> dict[str, int | None]:
        """Return the figures that JSON has; the seconds of a step are not known."""
        host = dict(zip(("argument", "output", "alias", "temp"), self.host_bytes, strict=False))
        return {
            **{name: getattr(self, name) for name in FIGURES},
            **{f"host_{name}_bytes": host.get(name) for name in ("argument", "output", "temp")},
            "seconds": None,
        }


FIGURES = {column.name: column.meaning for column in columns_of(Figures)}
"""Names of the figures that are compared, with their labels."""


def figures(module: ModuleDump) -> Figures:
    """Return the figures of a compiled module; all None for one whose texts cannot be read."""
    made = Figures()
    try:
        memory = memory_results(module)
    except HloLensError:
        memory = None
    if memory is not None:
        statement, peak = memory.statement, memory.peak
        made = Figures(
            argument_bytes=statement.argument_bytes,
            output_bytes=statement.output_bytes,
            alias_bytes=statement.alias_bytes,
            temp_bytes=statement.temp_bytes,
            total_bytes=statement.total_bytes,
            peak_bytes=None if peak is None else peak.total_bytes,
            peak_source=None if peak is None else peak.instruction_origin.source,
            host_bytes=tuple(statement.host_bytes),
            is_exact=statement.source != "estimate",
        )
    if not module.has_hlo:
        return made
    known = collectives(module)
    return replace(
        made,
        wire_bytes_per_device=known.wire_bytes_per_device,
        wire_by_axis={
            group.axis: group.wire_bytes_per_run
            for group in collectives_by(known.collectives, "axis").groups
        },
        flops=flops(module).total,
    )


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
    is_equal: bool | None = None
    compared: int = 0
    reasons: tuple[str, ...] = ()


def reproduction(own: Figures, again: Figures, reasons: tuple[str, ...] = ()) -> Reproduction:
    """Compare the figures of a dump with those of its program compiled again.

    Memory that is an estimate is not compared.
    """
    if not own.is_exact:
        return Reproduction()
    names = list(FIGURES) if again.is_exact else ["wire_bytes_per_device"]
    pairs = [(name, getattr(own, name), getattr(again, name)) for name in names]
    if again.is_exact:
        host = [f"host_{part}_bytes" for part in ("argument", "output", "alias", "temp")]
        pairs += zip(host, own.host_bytes, again.host_bytes, strict=False)
    known = [pair for pair in pairs if pair[1] is not None]
    differences = tuple(Difference(figure=n, dump=a, recompiled=b) for n, a, b in known if a != b)
    return Reproduction(
        is_equal=not differences,
        compared=len(known),
        differences=differences,
        reasons=reasons if differences else (),
    )
