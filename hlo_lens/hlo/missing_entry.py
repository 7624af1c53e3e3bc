"""The gap of a module whose text has lost its entry computation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.patterns import LOOSE_PROGRAM_SHAPE
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Span
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from hlo_lens.hlo.computation import HloComputation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.reader import HloTextReader
    from hlo_lens.shapes.shape import ProgramShape

_PRINTED = frozenset({"is_scheduled", "input_output_alias", "buffer_donor", "num_partitions"})
"""Header attributes of texts that XLA printed."""


def missing_entry(module: HloModule, reader: HloTextReader, end: int) -> Gap | None:
    """Return the gap of a module that marks no computation ENTRY; None if its last one is it.

    XLA marks the entry in all that it prints; text without header attributes is hand-written,
    and its last computation is the entry.

    Args:
        module: The module.
        reader: Reads the interface that the header prints.
        end: Offset of its end.
    """
    layout, what = module.header.get("entry_computation_layout"), "an ENTRY computation"
    if layout is not None and LOOSE_PROGRAM_SHAPE.fullmatch(layout) is not None:
        wanted = reader.program_shape(layout)
        if module.computations and _has_interface(module.computations[-1], wanted):
            return None
        what = f"{what} of {plural(len(wanted.parameters), 'parameter')}"
    elif module.computations and not module.header.keys() & _PRINTED:
        return None
    source = module.columns.source
    while end > 1 and source.text[end - 1].isspace():
        end -= 1
    return Gap.at(source, Span(max(0, end - 1), end), f"expected {what}, found the end")


def _has_interface(computation: HloComputation, wanted: ProgramShape) -> bool:
    """Return whether a computation has the parameters and the result of a program, but layouts."""
    found = [*computation.parameters, *([computation.root] if computation.root else [])]
    shapes = (*wanted.parameters, wanted.result)
    try:
        return len(found) == len(shapes) and all(
            one.shape is not None and one.shape.to_text(layout=False) == shape.to_text(layout=False)
            for one, shape in zip(found, shapes, strict=True)
        )
    except DumpSyntaxError:  # a shape that is a gap
        return False
