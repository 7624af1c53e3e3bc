"""Element types of arrays and their widths.

Source: xla/primitive_util.h (BitWidth, ByteWidth), as of August 2026.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveType:
    """An element type.

    Attributes:
        name: As printed, for example ``bf16``.
        bits: Significant width (XLA's BitWidth); 1 for ``pred``, 0 for ``token`` and ``opaque``.
    """

    name: str
    bits: int

    @property
    def size_bytes(self) -> int:
        """Bytes of one element where the layout does not pack it (``E(n)``)."""
        return -(-self.bits // 8)


_WIDTHS = {
    0: "token opaque",
    1: "pred s1 u1",
    2: "s2 u2",
    4: "s4 u4 f4e2m1fn",
    8: "s8 u8 f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz f8e3m4 f8e8m0fnu "
    "f6e3m2fn f6e2m3fn",
    16: "s16 u16 f16 bf16",
    32: "s32 u32 f32",
    64: "s64 u64 f64 c64",
    128: "c128",
}
PRIMITIVE_TYPES = {
    name: PrimitiveType(name=name, bits=bits)
    for bits, names in _WIDTHS.items()
    for name in names.split()
}
"""Every primitive type XLA prints, by name. Source: formats of primitive_util.h."""


def primitive_type(name: str) -> PrimitiveType | None:
    """Return the primitive type of a name; None for one that is not known, nor its width."""
    return PRIMITIVE_TYPES.get(name)


_NUMPY = {"bool": "pred", "bfloat16": "bf16", "half": "f16", "float": "f32", "double": "f64"}
_NUMPY_FORM = re.compile(r"(uint|int|float|complex)(\d.*)")
_LETTERS = {"uint": "u", "int": "s", "float": "f", "complex": "c"}


def xla_name(dtype: str) -> str | None:
    """Return XLA's name of an element type by its name in numpy or ml_dtypes; None for others.

    >>> xla_name("bfloat16"), xla_name("uint8"), xla_name("float8_e4m3fn"), xla_name("f32")
    ('bf16', 'u8', 'f8e4m3fn', None)
    """
    match = _NUMPY_FORM.fullmatch(dtype)
    if match is None:
        return _NUMPY.get(dtype)
    return f"{_LETTERS[match[1]]}{match[2].replace('_', '')}"
