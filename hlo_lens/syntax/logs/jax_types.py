"""Array types as JAX prints them, such as ``float32[8@dp,4@mp]{V:mp}``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.model.logs.jax_values import Entry, JaxSpec, JaxValue
from hlo_lens.model.text_reader import reader
from hlo_lens.syntax.logs.jax_items import CodeError
from hlo_lens.syntax.shapes.dtypes import element_type
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from hlo_lens.model.shapes.shape import Shape

_SHAPED = re.compile(r"([a-z]\w*)(?:<([\w, ]*)>)?\[([^\]]*)\](?:\{([^}]*)\})?")
_DIMENSION = re.compile(r"(\d+)(?:@(?:\(([^)]*)\)|([\w.]+(?:\+[\w.]+)*)))?")
_XLA_SHAPE = re.compile(r"(?:pred|token|[sufc]\d+\w*|bf16|f8\w+)\[")


def array_type(text: str) -> JaxValue:
    """Return the value of ``float32[8@dp,4@mp]{V:mp}`` or of XLA's ``f32[20,16]{1,0}``."""
    if _XLA_SHAPE.match(text):
        shape = reader().shape(str(text))
        return JaxValue(kind="Shape", text=str(text), shape=shape)
    match = _SHAPED.fullmatch(text)
    if match is None:
        message = f"not a type: {text}"
        raise DumpSyntaxError(message)
    dtype, memory, inside, manual = match.groups()
    dims: list[int] = []
    entries: list[Entry] = []
    for word in _split(inside):
        dimension = _DIMENSION.fullmatch(word)
        if dimension is None:
            raise CodeError
        dims.append(int(dimension[1]))
        axes = _axis_words(dimension[2] if dimension[2] is not None else dimension[3])
        entries.append(axes[0] if len(axes) == 1 else axes or None)
    spec = JaxSpec(entries=tuple(entries)) if any(entries) else None
    return JaxValue(
        kind="type",
        text=str(text),
        shape=xla_shape(dtype, tuple(dims)),
        dtype=dtype,
        spec=spec,
        manual_axes=_manual(manual),
        memory_kind=memory,
    )


def _split(text: str) -> list[str]:
    """Return the dimensions of a type; axes in parentheses hold commas."""
    return re.findall(r"(?:[^,()]|\([^)]*\))+", text.replace(" ", ""))


def _axis_words(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(re.findall(r"[\w.]+", text))


def _manual(text: str | None) -> tuple[str, ...]:
    """Return the axes in ``{mp,dp}`` (jax 0.6) or ``{V:(x,y)}``; an XLA layout has none."""
    if text is None:
        return ()
    varying = re.search(r"V:\(?([\w., ]+)\)?", text)
    words = varying[1] if varying is not None else "" if ":" in text else text
    return tuple(word for word in _axis_words(words) if not word.isdecimal())


def xla_shape(dtype: str, dims: tuple[int, ...]) -> Shape | None:
    """Return the shape in XLA's notation; None for an element type that XLA lacks."""
    name = element_type(dtype)
    if name is None:
        return None
    return reader().shape(f"{name}[{','.join(map(str, dims))}]")
