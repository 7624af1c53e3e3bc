"""Valid HLO modules for Hypothesis, built from the forms of the grammar and printed in many styles.

`modules` draws programs that mean something: operands are defined before they are used, shapes fit,
computations are called with what they take. So XLA's own parser accepts them too, printed in any of
`XLA_STYLES`. What later or older versions of XLA print beside that is in `novelties` and `STYLES`.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CALLING = ("to_apply", "calls", "condition", "body", "branch_computations", "called_computations")
NAMING = (*CALLING, "control-predecessors")
"""Attributes whose values are names, which are written with ``%`` in long style only."""

FLOATS = ("f32", "bf16", "f16", "f64")
INTEGERS = ("s32", "u32", "s8", "u64", "s4", "u16")
COMPLEX = ("c64", "c128")


# ---- programs as data ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Array:
    """Shape of an array, or of a tuple of arrays where `parts` is given.

    Attributes:
        layout: What stands between the braces, as written; empty for no layout.
    """

    type: str = ""
    sizes: tuple[int, ...] = ()
    layout: str = ""
    parts: tuple[Array, ...] | None = None

    def text(self, *, layout: bool = True, comments: bool = False) -> str:
        """Return the shape as XLA prints it."""
        if self.parts is not None:
            shown = [part.text(layout=layout, comments=comments) for part in self.parts]
            return f"({', '.join(_numbered(shown) if comments else shown)})"
        braces = f"{{{self.layout}}}" if layout and self.layout else ""
        return f"{self.type}[{','.join(map(str, self.sizes))}]{braces}"

    @property
    def key(self) -> tuple[object, ...]:
        """What must be equal for two values to be operands of one elementwise operation."""
        return self.type, self.sizes, self.parts


@dataclass(frozen=True)
class Instruction:
    """One instruction; `inner` is a literal or a parameter's number where there are no operands."""

    name: str
    shape: Array
    opcode: str
    operands: tuple[str, ...] = ()
    inner: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    is_root: bool = False


@dataclass(frozen=True)
class Computation:
    """A computation; the last instruction is its result."""

    name: str
    instructions: tuple[Instruction, ...]
    is_entry: bool = False

    @property
    def parameters(self) -> list[Instruction]:
        """Parameters by number."""
        found = [i for i in self.instructions if i.opcode == "parameter"]
        return sorted(found, key=lambda i: int(i.inner))

    @property
    def result(self) -> Array:
        """Shape of the result."""
        return next(i.shape for i in self.instructions if i.is_root)


@dataclass(frozen=True)
class Module:
    """A module; `tables` is the text of its stack frame tables."""

    name: str
    computations: tuple[Computation, ...]
    header: tuple[tuple[str, str], ...] = ()
    tables: str = ""

    @property
    def instructions(self) -> Iterator[Instruction]:
        """All instructions in text order."""
        for computation in self.computations:
            yield from computation.instructions


# ---- drawing ------------------------------------------------------------------------------------


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


def _numbered(texts: Sequence[str]) -> list[str]:
    """Return texts with the comment that XLA puts before each fifth."""
    return [f"/*index={k}*/{t}" if k and k % 5 == 0 else t for k, t in enumerate(texts)]


def literal(draw: st.DrawFn, shape: Array) -> str:
    """Return a literal of a shape, or the dots that stand for a long one."""
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


def _metadata(draw: st.DrawFn, frames: int) -> str:
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
    return f"{{{', '.join(_numbered(parts))}}}"


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


@dataclass
class _Builder:
    """Builds one module: gives names, collects computations."""

    draw: st.DrawFn
    frames: int = 0
    computations: list[Computation] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def name(self, stem: str) -> str:
        """Return a name that no other thing has."""
        return f"{stem}.{next(self._numbers)}"

    def pick(self, *choices: str) -> str:
        """Return one of some words."""
        return self.draw(st.sampled_from(choices))

    def add(self, stem: str, instructions: Sequence[Instruction]) -> str:
        """Add a computation and return its name."""
        *most, last = instructions
        name = self.name(stem)
        made = Computation(name, (*most, replace(last, is_root=True)))
        self.computations.append(made)
        return name

    def reducer(self, element: str) -> str:
        """Return a computation of two scalars."""
        scalar = Array(element)
        a = Instruction(self.name("a"), scalar, "parameter", inner="0")
        b = Instruction(self.name("b"), scalar, "parameter", inner="1")
        opcode = "or" if element == "pred" else self.pick("add", "maximum", "minimum")
        total = Instruction(self.name(opcode), scalar, opcode, (a.name, b.name))
        return self.add("region", (a, b, total))


class _Body:
    """Builds one computation: values so far, and the ways to make another of them."""

    def __init__(self, builder: _Builder, parameters: Sequence[Array], depth: int) -> None:
        self.builder = builder
        self.draw = builder.draw
        self.depth = depth
        self.instructions: list[Instruction] = []
        for number, shape in enumerate(parameters):
            self.emit("param", shape, "parameter", inner=str(number))

    def emit(
        self,
        stem: str,
        shape: Array,
        opcode: str,
        *operands: Instruction,
        inner: str = "",
        **attributes: str,
    ) -> Instruction:
        """Add an instruction and return it; attribute names are given with ``_`` for ``-``."""
        made = Instruction(
            name=self.builder.name(stem),
            shape=shape,
            opcode=opcode,
            operands=tuple(operand.name for operand in operands),
            inner=inner,
            attributes=(*attributes.items(), *self._common(shape)),
        )
        self.instructions.append(made)
        return made

    def _common(self, shape: Array) -> list[tuple[str, str]]:
        """Return attributes that every instruction may have, in the order of XLA's printer."""
        draw, found = self.draw, []
        if draw(st.integers(0, 3)):
            return []
        if draw(st.booleans()):
            found.append(("sharding", sharding(draw, shape)))
        if draw(st.booleans()):
            value = draw(st.one_of(TEXTS.map(escaped), st.just('{mesh = <["x"=2]>}')))
            found.append(("frontend_attributes", f'{{_a="b",xla.sdy.k={value}}}'))
        if draw(st.booleans()) and self.instructions:
            before = draw(st.sampled_from(self.instructions))
            found.append(("control-predecessors", f"{{%{before.name}}}"))
        if draw(st.booleans()):
            found.append(("metadata", _metadata(draw, self.builder.frames)))
        if draw(st.booleans()):
            found.append(("backend_config", draw(JSON_LIKE | TEXTS.map(escaped))))
        return found

    def arrays(self, *types: str, rank: int = 0) -> list[Instruction]:
        """Return the values that are arrays of some types and of a least rank."""
        return [
            i
            for i in self.instructions
            if i.shape.parts is None
            and i.shape.type not in ("token", "")
            and (not types or i.shape.type in types)
            and len(i.shape.sizes) >= rank
        ]

    def one(self, *types: str, rank: int = 0) -> Instruction:
        """Return such a value; a new constant where there is none."""
        found = self.arrays(*types, rank=rank)
        if found:
            return _picked(self.draw, found)
        shape = Array(types[0] if types else "f32", (2,) * rank)
        return self.constant(with_layout(self.draw, shape))

    def constant(self, shape: Array) -> Instruction:
        """Return a new constant."""
        return self.emit("constant", shape, "constant", inner=literal(self.draw, shape))

    def like(self, value: Instruction) -> Instruction:
        """Return a value that has the shape of another."""
        found = [i for i in self.instructions if i.shape.key == value.shape.key]
        return _picked(self.draw, found)

    def grow(self, steps: int) -> None:
        """Add some instructions."""
        for _ in range(steps):
            self.draw(st.sampled_from(_WAYS))(self)

    def callee(self, stem: str, operands: Sequence[Instruction]) -> tuple[str, Array]:
        """Return a new computation that takes some values, and the shape of its result."""
        inner = _Body(self.builder, [i.shape for i in operands], self.depth + 1)
        inner.grow(self.draw(st.integers(1, 3)) if self.depth < 2 else 1)
        result = inner.instructions[-1].shape
        return self.builder.add(stem, inner.instructions), result


def _picked(draw: st.DrawFn, found: Sequence[Instruction]) -> Instruction:
    return draw(st.sampled_from(found))


# ---- ways to make a value -----------------------------------------------------------------------


def _elementwise(body: _Body) -> None:
    value = body.one()
    if value.shape.type == "pred":
        body.emit("not", value.shape, "not", value)
    elif value.shape.type in FLOATS:
        opcode = body.builder.pick("negate", "tanh", "exponential", "rsqrt", "floor", "logistic")
        body.emit(opcode.replace("-", "_"), value.shape, opcode, value)
    else:
        opcode = body.builder.pick("copy", "popcnt", "not", "sign")
        body.emit(opcode, value.shape, opcode, value)


def _binary(body: _Body) -> None:
    value = body.one()
    logical = value.shape.type == "pred"
    choices = ("and", "or", "xor") if logical else ("add", "multiply", "subtract", "maximum")
    opcode = body.builder.pick(*choices)
    body.emit(opcode, value.shape, opcode, value, body.like(value))


def _compare(body: _Body) -> None:
    value = body.one()
    shape = replace(value.shape, type="pred")
    direction = body.builder.pick("EQ", "NE", "GE", "GT", "LE", "LT")
    made = body.emit("compare", shape, "compare", value, body.like(value), direction=direction)
    body.emit("select", value.shape, "select", made, value, body.like(value))


def _move(body: _Body) -> None:
    value = body.one(rank=1)
    shape, rank = value.shape, len(value.shape.sizes)
    dims = ",".join(map(str, range(rank)))
    way = body.builder.pick("broadcast", "transpose", "reshape", "reverse", "slice", "pad")
    if way == "broadcast":
        wide = with_layout(body.draw, Array(shape.type, (5, *shape.sizes)))
        moved = ",".join(str(d + 1) for d in range(rank))
        body.emit("broadcast", wide, "broadcast", value, dimensions=f"{{{moved}}}")
    elif way == "transpose":
        order = body.draw(st.permutations(range(rank)))
        turned = Array(shape.type, tuple(shape.sizes[k] for k in order))
        text = f"{{{','.join(map(str, order))}}}"
        body.emit("t", with_layout(body.draw, turned), "transpose", value, dimensions=text)
    elif way == "reshape":
        body.emit("reshape", Array(shape.type, (1, *shape.sizes)), "reshape", value)
    elif way == "reverse":
        body.emit("reverse", shape, "reverse", value, dimensions=f"{{{dims}}}")
    elif way == "slice":
        limits = ", ".join(f"[0:{size}:1]" for size in shape.sizes)
        body.emit("slice", shape, "slice", value, slice=f"{{{limits}}}")
    else:
        zero = body.constant(Array(shape.type))
        wide = Array(shape.type, tuple(size + 3 for size in shape.sizes))
        padding = "x".join(["1_2"] * rank)
        body.emit("pad", wide, "pad", value, zero, padding=padding)


def _join(body: _Body) -> None:
    value = body.one(rank=1)
    first, *rest = value.shape.sizes
    shape = Array(value.shape.type, (2 * first, *rest))
    body.emit("concat", shape, "concatenate", value, body.like(value), dimensions="{0}")


def _iota(body: _Body) -> None:
    shape = with_layout(body.draw, Array(body.builder.pick("s32", "f32"), (4, 8)))
    body.emit("iota", shape, "iota", iota_dimension=body.builder.pick("0", "1"))


def _convert(body: _Body) -> None:
    value = body.one()
    body.emit("convert", replace(value.shape, type=body.builder.pick(*FLOATS)), "convert", value)


def _constant(body: _Body) -> None:
    body.constant(body.draw(arrays()))


def _reduce(body: _Body) -> None:
    value = body.one(rank=1)
    zero = body.constant(Array(value.shape.type))
    shape = Array(value.shape.type, value.shape.sizes[1:])
    applied = body.builder.reducer(value.shape.type)
    body.emit("reduce", shape, "reduce", value, zero, dimensions="{0}", to_apply=f"%{applied}")


def _dynamic(body: _Body) -> None:
    value = body.one(rank=1)
    zero = body.constant(Array("s32"))
    starts = [zero] * len(value.shape.sizes)
    sizes = f"{{{','.join('1' * len(starts))}}}"
    part = Array(value.shape.type, (1,) * len(starts))
    cut = body.emit("ds", part, "dynamic-slice", value, *starts, dynamic_slice_sizes=sizes)
    body.emit("dus", value.shape, "dynamic-update-slice", value, cut, *starts)


def _tuple(body: _Body) -> None:
    values = body.arrays()
    if not values:
        values = [body.constant(Array("f32"))]
    chosen = body.draw(st.lists(st.sampled_from(values), min_size=1, max_size=12))
    shape = Array(parts=tuple(i.shape for i in chosen))
    made = body.emit("tuple", shape, "tuple", *chosen)
    index = body.draw(st.integers(0, len(chosen) - 1))
    body.emit("gte", chosen[index].shape, "get-tuple-element", made, index=str(index))


def _fusion(body: _Body) -> None:
    operands = [body.one(), body.one()][: body.draw(st.integers(1, 2))]
    called, shape = body.callee("fused_computation", operands)
    kind = body.builder.pick("kLoop", "kInput", "kOutput", "kCustom")
    body.emit("fusion", shape, "fusion", *operands, kind=kind, calls=f"%{called}")


def _call(body: _Body) -> None:
    operands = [body.one()]
    called, shape = body.callee("closed_call", operands)
    body.emit("call", shape, "call", *operands, to_apply=f"%{called}")


def _while(body: _Body) -> None:
    value = body.one()
    zero = body.constant(Array("s32"))
    state = Array(parts=(zero.shape, value.shape))
    inner = _Body(body.builder, [state], body.depth + 1)
    (given,) = inner.instructions
    i = inner.emit("i", zero.shape, "get-tuple-element", given, index="0")
    x = inner.emit("x", value.shape, "get-tuple-element", given, index="1")
    step = inner.constant(Array("s32"))
    i = inner.emit("next", zero.shape, "add", i, step)
    inner.emit("tuple", state, "tuple", i, x)
    made = body.builder.add("body", inner.instructions)
    inner = _Body(body.builder, [state], body.depth + 1)
    (given,) = inner.instructions
    i = inner.emit("i", zero.shape, "get-tuple-element", given, index="0")
    inner.emit("less", Array("pred"), "compare", i, inner.constant(zero.shape), direction="LT")
    condition = body.builder.add("condition", inner.instructions)
    start = body.emit("start", state, "tuple", zero, value)
    body.emit("while", state, "while", start, condition=f"%{condition}", body=f"%{made}")


def _conditional(body: _Body) -> None:
    value = body.one()
    index = body.constant(Array("s32"))
    branches = []
    for opcode in ("copy", "opt-barrier"):
        inner = _Body(body.builder, [value.shape], body.depth + 1)
        inner.emit("same", value.shape, opcode, inner.instructions[0])
        branches.append(f"%{body.builder.add('branch', inner.instructions)}")
    names = f"{{{', '.join(branches)}}}"
    body.emit("cond", value.shape, "conditional", index, value, value, branch_computations=names)


def _collective(body: _Body) -> None:
    value = body.one(*FLOATS, rank=1)
    channel = str(next(body.builder._numbers))
    groups = body.draw(GROUPS)
    every: dict[str, str] = {"channel_id": channel, "replica_groups": groups}
    way = body.builder.pick("all-reduce", "all-gather", "all-to-all", "permute", "start")
    if way == "all-reduce":
        applied = f"%{body.builder.reducer(value.shape.type)}"
        every |= {"use_global_device_ids": "true", "to_apply": applied}
        body.emit("all-reduce", value.shape, "all-reduce", value, **every)
    elif way == "all-gather":
        first, *rest = value.shape.sizes
        wide = Array(value.shape.type, (8 * first, *rest))
        every |= {"dimensions": "{0}", "use_global_device_ids": "true"}
        body.emit("all-gather", wide, "all-gather", value, **every)
    elif way == "all-to-all":
        other = body.like(value)
        shape = Array(parts=(value.shape, other.shape))
        body.emit("all-to-all", shape, "all-to-all", value, other, **every)
    elif way == "permute":
        every = {"channel_id": channel, "source_target_pairs": "{{0,1},{1,2},{2,0}}"}
        body.emit("permute", value.shape, "collective-permute", value, **every)
    else:
        first, *rest = value.shape.sizes
        wide = Array(value.shape.type, (8 * first, *rest))
        shape = Array(parts=(value.shape, wide))
        every |= {"dimensions": "{0}", "use_global_device_ids": "true"}
        made = body.emit("all-gather-start", shape, "all-gather-start", value, **every)
        body.emit("all-gather-done", wide, "all-gather-done", made)


def _custom_call(body: _Body) -> None:
    operands = [body.one() for _ in range(body.draw(st.integers(0, 7)))]
    shape = body.draw(arrays())
    target = body.builder.pick('"Sharding"', '"__cublas$gemm"', '"lapack_spotrf_ffi"')
    body.emit("custom-call", shape, "custom-call", *operands, custom_call_target=target)


_TABLE = r"""
fft | c64[8] | c64[8] | fft_type=FFT; fft_length={8}
cholesky | f32[4,4] | f32[4,4] | lower=true
triangular-solve | f32[4,4] | f32[4,4]; f32[4,4] | left_side=true; transpose_a=NO_TRANSPOSE
rng | f32[8]{0} | f32[]; f32[] | distribution=rng_uniform
rng-bit-generator | (u64[2], u32[4]) | u64[2] | algorithm=rng_three_fry
rng-get-and-update-state | u64[1] | | delta=1
reduce-precision | f32[8] | f32[8] | exponent_bits=5; mantissa_bits=10
batch-norm-training | (f32[4,4]{1,0}, f32[4], f32[4]) | f32[4,4]; f32[4]; f32[4] | epsilon=0.001;
    feature_index=1
topk | (f32[5], s32[5]) | f32[8] | k=5; largest=true
get-dimension-size | s32[] | f32[8] | dimensions={0}
after-all | token[] | token[]; token[] |
partition-id | u32[] | |
copy-start | (f32[8], f32[8]{0:S(1)}, u32[]) | f32[8] | cross_program_prefetch_index=0
domain | f32[8] | f32[8] |
    domain={kind="sharding", entry={maximal device=0}, exit={maximal device=1}}
custom-call | f32[8] | f32[8] | custom_call_target="a$b"; custom_call_has_side_effect=true;
    operand_layout_constraints={f32[8]{0}}; output_to_operand_aliasing={{}: (0, {})};
    api_version=API_VERSION_TYPED_FFI
infeed | ((f32[8]), token[]) | token[] | infeed_config="\001"
outfeed | token[] | f32[8]; token[] | outfeed_shape=f32[8]{0}
send | (f32[8], u32[], token[]) | f32[8]; token[] | channel_id=77; is_host_transfer=true
recv | (f32[8], u32[], token[]) | token[] | channel_id=78
bitcast-convert | s32[8] | f32[8] |
dynamic-reshape | f32[16] | f32[4,4]; s32[] |
exponential | f32[8] | f32[8] | result_accuracy={tolerance={atol=0.1,rtol=0,ulps=3}}
negate | f32[8] | f32[8] | statistics={visualizing_index=1,stat-1=33,stat-2=44}
tanh | f32[8] | f32[8] | origin={{"foo" {1}}}
dot | f32[2,3]{0,1} | f32[2,4]; f32[4,3] | lhs_contracting_dims={1}; rhs_contracting_dims={0};
    operand_precision={highest,default}; algorithm=dot_bf16_bf16_f32_x3
convolution | f32[1,8,8,2] | f32[1,8,8,4]; f32[3,3,4,2] | window={size=3x3 pad=1_1x1_1};
    dim_labels=b01f_01io->b01f
gather | f32[4,16] | f32[8,16]; s32[4] | offset_dims={1}; collapsed_slice_dims={0};
    start_index_map={0}; index_vector_dim=1; slice_sizes={1,16}
scatter | f32[8] | f32[8]; s32[1]; f32[] | update_window_dims={}; inserted_window_dims={0};
    scatter_dims_to_operand_dims={0}; index_vector_dim=0; unique_indices=true; to_apply=%SUM
reduce-window | f32[4] | f32[8]; f32[] | window={size=2 stride=2 pad=0_1}; to_apply=%SUM
reduce-scatter | f32[1] | f32[8] | channel_id=3; replica_groups=[1,8]<=[8]; dimensions={0};
    to_apply=%SUM
all-reduce-start | f32[8] | f32[8] | replica_groups={{0,1},{2,3}}; to_apply=%SUM
collective-broadcast | f32[8] | f32[8] | replica_groups={{0,1},{2,3}}
sort | f32[8] | f32[8] | dimensions={0}; is_stable=true; to_apply=%SUM
map | f32[8] | f32[8]; f32[8] | dimensions={0}; to_apply=%SUM
"""
"""Instructions with attributes that few others have: opcode, result, operands, attributes.

A line that is indented goes on with the one before. Not of XLA's making: SUM is a computation.
"""

_LEAF = re.compile(r"([a-z]\w*)\[([\d,]*)\](?:\{([^}]*)\})?(?:, )?")


def _array(text: str) -> Array:
    """Return the shape that a text of the table says."""
    stack: list[list[Array]] = [[]]
    while text:
        leaf = _LEAF.match(text)
        if leaf is not None:
            sizes = tuple(map(int, leaf[2].split(","))) if leaf[2] else ()
            stack[-1].append(Array(leaf[1], sizes, leaf[3] or ""))
        elif text[0] == "(":
            stack.append([])
        else:
            parts = tuple(stack.pop())
            stack[-1].append(Array(parts=parts))
        text = text[leaf.end() :] if leaf else text[1:].removeprefix(", ")
    return stack[0][0]


_ROWS = _TABLE.strip().replace("\n    ", " ").splitlines()
_FIXED = [[cell.strip() for cell in line.split("|")] for line in _ROWS]


def _fixed(body: _Body) -> None:
    """Add an instruction of the table, and what it needs."""
    opcode, result, operands, attributes = body.draw(st.sampled_from(_FIXED))
    values = []
    for given in map(_array, operands.split("; ") if operands else ()):
        is_token = given.type == "token"
        values.append(body.emit("t", given, "after-all") if is_token else body.constant(given))
    if "%SUM" in attributes:
        attributes = attributes.replace("SUM", body.builder.reducer("f32"))
    found = dict(cell.split("=", 1) for cell in attributes.split("; ") if cell)
    made = body.emit(opcode, _array(result), opcode, *values, **found)
    if opcode == "all-reduce-start":
        body.emit("all-reduce-done", made.shape, "all-reduce-done", made)


def _async(body: _Body) -> None:
    value = body.one(*FLOATS)
    inner = _Body(body.builder, [value.shape], body.depth + 1)
    inner.emit("negate", value.shape, "negate", inner.instructions[0])
    called = f"%{body.builder.add('async_computation', inner.instructions)}"
    shape = Array(parts=(Array(parts=(value.shape,)), value.shape, Array("u32")))
    made = body.emit("async-start", shape, "async-start", value, calls=called)
    made = body.emit("async-update", shape, "async-update", made)
    body.emit("async-done", value.shape, "async-done", made)


_WAYS: list[Callable[[_Body], None]] = [
    *(_elementwise, _binary, _compare, _move, _move, _join, _iota, _convert, _constant, _reduce),
    *(_dynamic, _tuple, _tuple, _fusion, _call, _while, _conditional),
    *(_collective, _collective, _custom_call, _async, _fixed, _fixed, _fixed, _fixed),
]


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """Return a module whose programs mean something, with all that XLA prints around them."""
    frames = draw(st.sampled_from([0, 0, 3]))
    builder = _Builder(draw, frames)
    shapes = draw(st.lists(arrays(), min_size=1, max_size=3))
    body = _Body(builder, shapes, 0)
    body.grow(draw(st.integers(2, 12)))
    name = builder.name(draw(st.sampled_from(["main", "main_spmd", "entry"])))
    *most, last = body.instructions
    if draw(st.booleans()):  # parameters stand anywhere
        most = [*most[1:], most[0]] if most and not _is_used(most[0], most[1:]) else most
    entry = Computation(name, (*most, replace(last, is_root=True)), is_entry=True)
    computations = (*builder.computations, entry)
    return Module(
        name=draw(st.sampled_from(["jit_f", "m", "train__step.7"])),
        computations=computations,
        header=tuple(_header(draw, entry)),
        tables=TABLES if frames else "",
    )


def _is_used(value: Instruction, others: Sequence[Instruction]) -> bool:
    return any(
        value.name in other.operands or f"%{value.name}" in dict(other.attributes).get(key, "")
        for other in others
        for key in NAMING
    )


def _header(draw: st.DrawFn, entry: Computation) -> Iterator[tuple[str, str]]:
    if draw(st.booleans()):
        yield "is_scheduled", "true"
    if draw(st.booleans()):
        yield "buffer_donor", "{ (0, {}) }"
    if draw(st.booleans()):
        given = ", ".join(_numbered([p.shape.text() for p in entry.parameters]))
        yield "entry_computation_layout", f"{{({given})->{entry.result.text()}}}"
    if draw(st.booleans()):
        yield "allow_spmd_sharding_propagation_to_output", "{true}"
    if draw(st.booleans()):
        yield "num_partitions", "8"
    if draw(st.booleans()):
        yield "frontend_attributes", '{xla.sdy.meshes={mesh = #sdy.mesh<["x"=2]>},k="a\\"b"}'


TABLES = """FileNames
1 "/home/me/f.py"
2 "\\303\\251.py"

FunctionNames
1 "main"
2 "layer.<locals>.step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=4 end_column=20}
2 {file_name_id=2 function_name_id=2 line=9 end_line=11 column=11 end_column=40}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=2 parent_frame_id=1}
"""


# ---- what XLA of other years prints -------------------------------------------------------------


@st.composite
def novelties(draw: st.DrawFn) -> Module:
    """Return a module with parts that jaxlib's parser does not know: they must be kept."""
    module = draw(modules())
    entry = module.computations[-1]
    shape = draw(arrays())
    pair = Array(parts=(shape, Array(parts=(shape, Array("s32")))))
    wide = Instruction("novel.pair", pair, "custom-call", attributes=(("made_up", '{[1](2) "x"}'),))
    compact = Instruction(
        "novel.sum", shape, "opcode-of-next-year", ("novel.pair#0", "novel.pair#1#0")
    )
    typed = Instruction(
        "novel.type", Array("f9e9m9", (2,), "0:T(8)Z(3)"), "bitcast", ("novel.sum",)
    )
    sugar = Instruction(
        "novel.start",
        Array(parts=(Array(parts=(shape,)), shape, Array("u32"))),
        "reduce-scatter-start",
        ("novel.sum",),
        attributes=(
            ("frontend_attributes", '{a="1"}'),
            ("replica_groups", "[1,8]<=[8]"),
            ("frontend_attributes", '{a="2"}'),
            ("operation", "Some.Word-1"),
        ),
    )
    chosen = draw(st.lists(st.sampled_from([typed, sugar]), unique=True))
    added = (*entry.instructions, wide, compact, *chosen)
    header = (*module.header, ("of_next_year", "{a={b=[1]}}"))
    computations = (*module.computations[:-1], replace(entry, instructions=added))
    return replace(module, computations=computations, header=header)


# ---- printing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Style:
    """How a module is printed.

    Attributes:
        percent: Names begin with ``%``.
        signatures: Computations print their parameters and result.
        operand_shapes: Operands print their shapes.
        index_comments: ``/*index=5*/`` before each fifth operand and tuple element.
        trailers: ``// name`` after each computation.
        line_end: What ends a line; a space for a module on one line.
        filler: Seed of the white space and comments between tokens; None for what XLA prints.
    """

    percent: bool = True
    signatures: bool = True
    operand_shapes: bool = False
    index_comments: bool = True
    trailers: bool = False
    line_end: str = "\n"
    filler: int | None = None


LONG = Style()
SHORT = Style(percent=False, signatures=False)
LAYOUT_ONLY = {
    "CRLF": Style(line_end="\r\n"),
    "CR": Style(line_end="\r"),
    "one line": Style(line_end=" "),
    "without index comments": Style(index_comments=False),
    "trailers": Style(trailers=True),
    "filled": Style(filler=1),
    "filled otherwise": Style(filler=2),
}
"""Styles that differ from the long one in what stands between the words alone."""

STYLES = {
    "long": LONG,
    "short": SHORT,
    "operand shapes": Style(operand_shapes=True),
    "short with operand shapes": Style(percent=False, operand_shapes=True),
    "short on one line": Style(percent=False, signatures=False, line_end=" "),
    "short with trailers": Style(percent=False, signatures=False, trailers=True),
    "short and filled": Style(percent=False, signatures=False, filler=3),
    **LAYOUT_ONLY,
}

_FILLERS = (
    " ",
    "  ",
    "\n    ",
    "\t",
    " /* a (comment), {with} [all] */ ",
    " // x = f32[]\n",
    "\n\n",
)


class _Printer:
    def __init__(self, module: Module, style: Style) -> None:
        self.module = module
        self.style = style
        self._random = random.Random(style.filler)
        self._shapes = {i.name: i.shape for i in module.instructions}

    def text(self) -> str:
        """Return the module's text."""
        style, module = self.style, self.module
        header = ["HloModule " + module.name]
        header += [f",{self._gap()}{name}={self._gap('')}{v}" for name, v in module.header]
        parts = ["".join(header)]
        if module.tables and style.line_end != " ":
            parts += ["", *module.tables.split("\n")]
        for computation in module.computations:
            parts += ["", *self._computation(computation)]
        return style.line_end.join([*parts, "", ""])

    def _gap(self, usual: str = " ") -> str:
        if self.style.filler is None:
            return usual
        return self._random.choice(_FILLERS) if self._random.random() < 0.3 else usual

    def _name(self, name: str) -> str:
        return f"%{name}" if self.style.percent else name

    def _shape(self, shape: Array, *, layout: bool = True) -> str:
        return shape.text(layout=layout, comments=self.style.index_comments)

    def _computation(self, computation: Computation) -> Iterator[str]:
        head = "ENTRY" + self._gap() if computation.is_entry else ""
        head += self._name(computation.name) + self._gap()
        if self.style.signatures:
            given = ", ".join(
                f"{p.name}: {self._shape(p.shape, layout=False)}" for p in computation.parameters
            )
            result = self._shape(computation.result, layout=False)
            head += f"({given}){self._gap()}->{self._gap()}{result}{self._gap()}"
        yield head + "{"
        for instruction in computation.instructions:
            yield "  " + self._instruction(instruction)
        trailer = f" // {computation.name}" if self.style.trailers else ""
        yield "}" + trailer

    def _instruction(self, instruction: Instruction) -> str:
        gap = self._gap
        root = f"ROOT{gap()}" if instruction.is_root else ""
        inner = instruction.inner
        if instruction.operands:
            shown = [self._operand(name) for name in instruction.operands]
            shown = _numbered(shown) if self.style.index_comments else shown
            inner = f",{gap()}".join(shown)
        attributes = "".join(
            f",{gap()}{name}={gap('')}{self._value(name, value)}"
            for name, value in instruction.attributes
        )
        return (
            f"{root}{self._name(instruction.name)}{gap()}={gap()}{self._shape(instruction.shape)}"
            f"{gap()}{instruction.opcode}({gap('')}{inner}{gap('')}){attributes}"
        )

    def _operand(self, operand: str) -> str:
        name, *indices = operand.split("#")
        shape = self._shapes[name]
        for index in indices:
            assert shape.parts is not None
            shape = shape.parts[int(index)]
        shown = f"{self._shape(shape)}{self._gap()}" if self.style.operand_shapes else ""
        return shown + self._name(operand)

    def _value(self, name: str, value: str) -> str:
        return value if self.style.percent or name not in NAMING else value.replace("%", "")


def print_module(module: Module, style: Style = LONG) -> str:
    """Return the text of a module in a style. On one line there are no stack frame tables."""
    return _Printer(module, style).text()
