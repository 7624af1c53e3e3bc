"""How a text prints a program: what it leaves out that another text of the same program has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.model.hlo_query import KNOWN_OPCODES, split_phase

if TYPE_CHECKING:
    from hlo_lens.analysis.diff.text_columns import TextColumns

_DOTS = "constant({...})"
_SCALAR_DOTS = re.compile(r"\[\](?:\{[^{}]*\})? constant\(\{\.\.\.\}\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What a text prints of a program.

    Attributes:
        has_sugar: Whether an async operation is printed as ``X-start``.
        has_wrapped: Whether one is printed as an async-start that calls a computation.
        has_layouts: Whether any shape has a layout.
        has_shapes: Whether any instruction has a shape.
        has_dots: Whether a long literal is printed as dots.
        has_scalar_dots: Whether a scalar is printed as dots (fingerprints of modules).
        has_configs: Whether any instruction has a backend config.
        has_controls: Whether any instruction has control predecessors.
    """

    has_sugar: bool
    has_wrapped: bool
    has_layouts: bool
    has_shapes: bool
    has_dots: bool
    has_scalar_dots: bool
    has_configs: bool
    has_controls: bool


def style_of(columns: TextColumns) -> Style:
    """Return what the text of a module prints."""
    text, spans = columns.module.columns.source.text, columns.module.columns.spans
    opcodes, shapes = columns.opcodes, columns.shapes
    start, end = (spans[0], spans[-1]) if spans else (0, 0)

    def holds(part: str) -> bool:
        return text.find(part, start, end) >= 0

    return Style(
        has_sugar=any(o not in KNOWN_OPCODES and split_phase(o)[1] for o in opcodes),
        has_wrapped="async-start" in opcodes,
        has_layouts=any("]{" in shape for shape in shapes),
        has_shapes=any(shapes),
        has_dots=holds(_DOTS),
        has_scalar_dots=holds(_DOTS) and _SCALAR_DOTS.search(text, start, end) is not None,
        has_configs=holds("backend_config="),
        has_controls=holds("control-predecessors="),
    )
