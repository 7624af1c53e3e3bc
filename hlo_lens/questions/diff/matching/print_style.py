"""Print style of a text: the parts that it leaves out and other texts of the program have.

A text without backend configs or control predecessors is either of a style that leaves them out or
of a program that has none: the style must show in something else as well. Source:
HloPrintOptions (xla/hlo/ir/hlo_print_options.h): ShortParsable and Canonical leave out control
dependencies together with percent signs, signatures and metadata; Canonical, and the fingerprints
made from it, leave out backend configs too, and name instructions ``tmp_0``, ``tmp_1``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import NAME, OPERANDS, OPERANDS_END
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.diff.matching.meanings import METADATA_KEY

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule

_DOTS = "{...}"
_CANONICAL = re.compile(r"tmp_\d+")
_SCALAR = re.compile(r"\[\](?:\{[^{}]*\})?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Parts of a program that a text prints.

    Attributes:
        has_sugar: Whether an async operation is printed as ``X-start``.
        has_wrapped: Whether one is printed as an async-start that calls a computation.
        has_layouts: Whether any shape has a layout.
        has_shapes: Whether any instruction has a shape.
        has_dots: Whether a long literal is printed as dots.
        has_scalar_dots: Whether a scalar is printed as dots (fingerprints of modules).
        has_configs: Whether any instruction of a canonical text has a backend config.
        has_controls: Whether any instruction of a short text has control predecessors.
        is_short: Whether there are no percent signs, signatures and metadata.
        is_canonical: Whether it is short and instructions have numbers for names.
    """

    has_sugar: bool
    has_wrapped: bool
    has_layouts: bool
    has_shapes: bool
    has_dots: bool
    has_scalar_dots: bool
    has_configs: bool
    has_controls: bool
    is_short: bool
    is_canonical: bool

    def leaves_out_configs(self, other: Style) -> bool:
        """Return whether this style leaves out backend configs and another prints them."""
        return self.is_canonical and not other.is_canonical and not self.has_configs

    def leaves_out_controls(self, other: Style) -> bool:
        """Return whether this style leaves out control predecessors and another prints them."""
        return self.is_short and not other.is_short and not self.has_controls


def style_of(module: HloModule) -> Style:
    """Return the print style of a module's text."""
    text, spans = module.columns.source.text, module.columns.spans
    opcodes, shapes = module.opcodes.different, module.shape_texts.different
    start, end = (spans[0], spans[-1]) if spans else (0, 0)

    def holds(part: str) -> bool:
        return text.find(part, start, end) >= 0

    is_short = (
        bool(spans)
        and text[spans[NAME] - 1] != "%"
        and not holds(METADATA_KEY)
        and not any(c.signature_text for c in module.computations)
    )
    dots = _shapes_of_dots(module)
    is_canonical = is_short and _has_numbers_for_names(module)
    return Style(
        has_sugar=_has_sugar(module),
        has_wrapped="async-start" in opcodes,
        has_layouts=any("]{" in shape for shape in shapes),
        has_shapes=any(shapes),
        has_dots=bool(dots),
        has_scalar_dots=any(map(_SCALAR.search, dots)),
        has_configs=is_canonical and holds("backend_config="),  # only asked for of such texts
        has_controls=is_short and holds("control-predecessors="),
        is_short=is_short,
        is_canonical=is_canonical,
    )


def _has_sugar(module: HloModule) -> bool:
    """Return whether any opcode is sugar, or an own start has the shape of an async-start.

    The latter begins with the tuple of the operands: ``((f32[8]), f32[8]) all-gather-start``.
    """
    found = {opcode: opcode_traits(opcode) for opcode in module.opcodes.different}
    if any(traits.is_sugar for traits in found.values()):
        return True
    starts = {o for o, traits in found.items() if traits.phase == "start" and o != "async-start"}
    shapes = module.shape_texts
    return any(shapes[row].startswith("((") for row in module.opcodes.places_of(starts))


def _shapes_of_dots(module: HloModule) -> set[str]:
    """Return the shapes of the constants whose literal is printed as dots."""
    columns, shapes = module.columns, module.shape_texts
    constants = module.opcodes.places_of({"constant"})
    return {shapes[row] for row in constants if columns.text(row, OPERANDS, OPERANDS_END) == _DOTS}


def _has_numbers_for_names(module: HloModule) -> bool:
    name = module.columns.name
    return all(_CANONICAL.fullmatch(name(row)) for row in range(len(module.columns)))
