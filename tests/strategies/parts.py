"""Parts of an instruction: shapes, literals, texts and the values of attributes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.strategies.programs import Array, numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

FLOATS = ("f32", "bf16", "f16", "f64")
INTEGERS = ("s32", "u32", "s8", "u64", "s4", "u16")
COMPLEX = ("c64", "c128")


def _order(rank: int) -> str:
    return ",".join(map(str, reversed(range(rank))))


@st.composite
def arrays(
    draw: st.DrawFn, types: Sequence[str] = (*FLOATS, *INTEGERS, *COMPLEX, "pred", "f8e5m2")
) -> Array:
    """Return a shape of up to 3 dimensions, with or without a layout."""
    element = draw(st.sampled_from(types))
    sizes = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 8, 16]), max_size=3)))
    return with_layout(draw, Array(element, sizes))


def with_layout(draw: st.DrawFn, shape: Array) -> Array:
    """Return a shape with a layout as CPU, GPU or TPU print it, or without one."""
    rank = len(shape.sizes)
    kind = draw(st.sampled_from(["none", "plain", "plain", "moved", "tiled"]))
    if shape.type == "s4" and rank:
        return replace(shape, layout=f"{_order(rank)}:E(4)")
    if kind == "none" or (rank == 0 and kind != "tiled"):
        return replace(shape, layout="")
    if kind == "tiled":
        tiles = "T(8,128)" if rank > 1 else "T(256)"
        more = draw(st.sampled_from(["", "(2,1)", "S(1)", "L(1024)", "S(5)", "(2,1)S(1)"]))
        return replace(shape, layout=f"{_order(rank)}:{tiles}{more}")
    order = draw(st.permutations(range(rank))) if kind == "moved" else None
    return replace(shape, layout=",".join(map(str, order)) if order else _order(rank))


def literal(draw: st.DrawFn, shape: Array) -> str:
    """Return a literal of a shape, or the dots of a long one."""
    if shape.type in FLOATS:
        words = st.sampled_from(["1", "-0.5", "1e-05", "inf", "-inf", "nan", "3.25", "2e+04", "0"])
    elif shape.type in COMPLEX:
        words = st.sampled_from(["(1, -2)", "(0.5, inf)", "(nan, 0)"])
    elif shape.type == "pred":
        words = st.sampled_from(["0", "1"] if shape.sizes else ["true", "false"])
    else:
        words = st.sampled_from(["0", "1", "5", "7"])
    if not shape.sizes:
        return draw(words)
    if draw(st.booleans()):
        return "{...}"

    def nested(sizes: tuple[int, ...]) -> str:
        if len(sizes) == 1:
            return f"{{{', '.join(draw(words) for _ in range(sizes[0]))}}}"
        return f"{{ {', '.join(nested(sizes[1:]) for _ in range(sizes[0]))} }}"

    return nested(shape.sizes)


TEXTS = st.text(
    st.sampled_from("abcxyz019 _-./()[]{}<>=,:;'\"\\\n\t\u00e9\u4e2d\U0001f600"), max_size=12
)


def escaped(text: str) -> str:
    """Return a text in quotes, escaped as absl::CEscape does it."""
    known = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "'": "\\'", "\\": "\\\\"}
    parts = []
    for byte in text.encode():
        char = chr(byte)
        parts.append(known.get(char) or (char if 32 <= byte < 127 else f"\\{byte:03o}"))
    return f'"{"".join(parts)}"'


JSON_LIKE = st.sampled_from(
    [
        '{"known_trip_count":{"n":"4"}}',
        '{"outer_dimension_partitions":["2"]}',
        "{uplo = 76 : ui8}",
        '{"a":{"b":{"c":[1,2,{"d":"}{\\""}]}}}',
        "{it's raw}",
        "{}",
    ]
)


def metadata(draw: st.DrawFn, frames: int) -> str:
    fields = []
    if draw(st.booleans()):
        fields.append(f"op_type={escaped(draw(TEXTS))}")
    fields.append(f"op_name={escaped('jit(f)/' + draw(TEXTS))}")
    if frames:
        fields.append(f"stack_frame_id={draw(st.integers(1, frames))}")
    elif draw(st.booleans()):
        fields += ['source_file="/home/me/f.py"', f"source_line={draw(st.integers(1, 9999))}"]
        fields += ["source_end_line=8 source_column=4 source_end_column=9"] * draw(st.booleans())
    return f"{{{' '.join(fields)}}}"


def _single_sharding(draw: st.DrawFn, rank: int) -> str:
    kind = draw(st.sampled_from(["one", "list", "iota", "iota", "mesh"]))
    if rank == 0 or kind == "one":
        return draw(st.sampled_from(["{replicated}", "{maximal device=1}", "{manual}"]))
    axis = draw(st.integers(0, rank - 1))
    if kind == "mesh":
        dims = ["{}"] * rank
        dims[axis] = draw(st.sampled_from(["{'x'}", "{'x', 'y'}", "{'y':(2)2}", "{'x', ?}"]))
        return f"{{mesh['x'=2,'y'=4], [{', '.join(dims)}]}}"
    if kind == "list":
        dims = ["1"] * rank
        dims[axis] = "4"
        order = draw(st.permutations(range(4)))
        return f"{{devices=[{','.join(dims)}]{','.join(map(str, order))}}}"
    dims = ["1"] * rank
    dims[axis] = "2"
    return f"{{devices=[{','.join(dims)},4]<=[4,2]T(1,0) last_tile_dim_replicate}}"


def sharding(draw: st.DrawFn, shape: Array) -> str:
    """Return a sharding for a value, in V1, V2 or V3 form."""
    if shape.parts is None:
        return _single_sharding(draw, len(shape.sizes))
    if not shape.parts:
        return "{replicated}"
    parts = [_single_sharding(draw, len(part.sizes)) for part in shape.parts]
    return f"{{{', '.join(numbered(parts))}}}"


GROUPS = st.sampled_from(
    [
        "{}",
        "{{0,1,2,3,4,5,6,7}}",
        "{{0,2},{1,3},{4,6},{5,7}}",
        "[2,4]<=[8]",
        "[4,2]<=[2,4]T(1,0)",
        "mesh['a'=2,'b'=4] {'a'}",
        "mesh['a'=2,'b'=4] {'b':(2)2}",
        "mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a','b'}",
    ]
)
