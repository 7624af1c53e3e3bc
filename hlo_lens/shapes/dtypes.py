"""Names of numpy's element types to the names of XLA's."""

from __future__ import annotations

from hlo_lens.shapes.primitive_type import PRIMITIVE_TYPES

_NAMES = {"bfloat16": "bf16", "bool": "pred", "half": "f16", "single": "f32", "double": "f64"}
_PREFIXES = {"bfloat": "bf", "float": "f", "uint": "u", "int": "s", "complex": "c"}


def element_type(dtype: str) -> str | None:
    """Return XLA's name of a type of numpy or ml_dtypes: ``f32`` for float32; None if unknown.

    >>> element_type("float8_e4m3fn"), element_type("int4"), element_type("jax.numpy.bool")
    ('f8e4m3fn', 's4', 'pred')
    """
    name = dtype.rpartition(".")[2]
    if name in _NAMES:
        return _NAMES[name]
    for long, short in _PREFIXES.items():
        if name.startswith(long) and name[len(long) :][:1].isdigit():
            name = short + name[len(long) :].replace("_", "")
            break
    return name if name in PRIMITIVE_TYPES else None
