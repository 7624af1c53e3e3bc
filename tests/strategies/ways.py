"""Ways to make another value of a computation."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.strategies.bodies import Body
from tests.strategies.parts import FLOATS, GROUPS, arrays, with_layout
from tests.strategies.programs import Array

if TYPE_CHECKING:
    from collections.abc import Callable


def _elementwise(body: Body) -> None:
    value = body.one()
    if value.shape.type == "pred":
        body.emit("not", value.shape, "not", value)
    elif value.shape.type in FLOATS:
        opcode = body.builder.pick("negate", "tanh", "exponential", "rsqrt", "floor", "logistic")
        body.emit(opcode.replace("-", "_"), value.shape, opcode, value)
    else:
        opcode = body.builder.pick("copy", "popcnt", "not", "sign")
        body.emit(opcode, value.shape, opcode, value)


def _binary(body: Body) -> None:
    value = body.one()
    logical = value.shape.type == "pred"
    choices = ("and", "or", "xor") if logical else ("add", "multiply", "subtract", "maximum")
    opcode = body.builder.pick(*choices)
    body.emit(opcode, value.shape, opcode, value, body.like(value))


def _compare(body: Body) -> None:
    value = body.one()
    shape = replace(value.shape, type="pred")
    direction = body.builder.pick("EQ", "NE", "GE", "GT", "LE", "LT")
    made = body.emit("compare", shape, "compare", value, body.like(value), direction=direction)
    body.emit("select", value.shape, "select", made, value, body.like(value))


def _move(body: Body) -> None:
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


def _join(body: Body) -> None:
    value = body.one(rank=1)
    first, *rest = value.shape.sizes
    shape = Array(value.shape.type, (2 * first, *rest))
    body.emit("concat", shape, "concatenate", value, body.like(value), dimensions="{0}")


def _iota(body: Body) -> None:
    shape = with_layout(body.draw, Array(body.builder.pick("s32", "f32"), (4, 8)))
    body.emit("iota", shape, "iota", iota_dimension=body.builder.pick("0", "1"))


def _convert(body: Body) -> None:
    value = body.one()
    body.emit("convert", replace(value.shape, type=body.builder.pick(*FLOATS)), "convert", value)


def _constant(body: Body) -> None:
    body.constant(body.draw(arrays()))


def _reduce(body: Body) -> None:
    value = body.one(rank=1)
    zero = body.constant(Array(value.shape.type))
    shape = Array(value.shape.type, value.shape.sizes[1:])
    applied = body.builder.reducer(value.shape.type)
    body.emit("reduce", shape, "reduce", value, zero, dimensions="{0}", to_apply=f"%{applied}")


def _dynamic(body: Body) -> None:
    value = body.one(rank=1)
    zero = body.constant(Array("s32"))
    starts = [zero] * len(value.shape.sizes)
    sizes = f"{{{','.join('1' * len(starts))}}}"
    part = Array(value.shape.type, (1,) * len(starts))
    cut = body.emit("ds", part, "dynamic-slice", value, *starts, dynamic_slice_sizes=sizes)
    body.emit("dus", value.shape, "dynamic-update-slice", value, cut, *starts)


def _tuple(body: Body) -> None:
    values = body.arrays()
    if not values:
        values = [body.constant(Array("f32"))]
    chosen = body.draw(st.lists(st.sampled_from(values), min_size=1, max_size=12))
    shape = Array(parts=tuple(i.shape for i in chosen))
    made = body.emit("tuple", shape, "tuple", *chosen)
    index = body.draw(st.integers(0, len(chosen) - 1))
    body.emit("gte", chosen[index].shape, "get-tuple-element", made, index=str(index))


def _fusion(body: Body) -> None:
    operands = [body.one(), body.one()][: body.draw(st.integers(1, 2))]
    called, shape = body.callee("fused_computation", operands)
    kind = body.builder.pick("kLoop", "kInput", "kOutput", "kCustom")
    body.emit("fusion", shape, "fusion", *operands, kind=kind, calls=f"%{called}")


def _call(body: Body) -> None:
    operands = [body.one()]
    called, shape = body.callee("closed_call", operands)
    body.emit("call", shape, "call", *operands, to_apply=f"%{called}")


def _while(body: Body) -> None:
    value = body.one()
    zero = body.constant(Array("s32"))
    state = Array(parts=(zero.shape, value.shape))
    inner = Body(body.builder, [state], body.depth + 1)
    (given,) = inner.instructions
    i = inner.emit("i", zero.shape, "get-tuple-element", given, index="0")
    x = inner.emit("x", value.shape, "get-tuple-element", given, index="1")
    step = inner.constant(Array("s32"))
    i = inner.emit("next", zero.shape, "add", i, step)
    inner.emit("tuple", state, "tuple", i, x)
    made = body.builder.add("body", inner.instructions)
    inner = Body(body.builder, [state], body.depth + 1)
    (given,) = inner.instructions
    i = inner.emit("i", zero.shape, "get-tuple-element", given, index="0")
    inner.emit("less", Array("pred"), "compare", i, inner.constant(zero.shape), direction="LT")
    condition = body.builder.add("condition", inner.instructions)
    start = body.emit("start", state, "tuple", zero, value)
    body.emit("while", state, "while", start, condition=f"%{condition}", body=f"%{made}")


def _conditional(body: Body) -> None:
    value = body.one()
    index = body.constant(Array("s32"))
    branches = []
    for opcode in ("copy", "opt-barrier"):
        inner = Body(body.builder, [value.shape], body.depth + 1)
        inner.emit("same", value.shape, opcode, inner.instructions[0])
        branches.append(f"%{body.builder.add('branch', inner.instructions)}")
    names = f"{{{', '.join(branches)}}}"
    body.emit("cond", value.shape, "conditional", index, value, value, branch_computations=names)


def _collective(body: Body) -> None:
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


def _custom_call(body: Body) -> None:
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
"""Instructions with rare attributes: opcode, result, operands, attributes.

A line that is indented goes on with the one before. Not of XLA's making: SUM is a computation.
"""


_LEAF = re.compile(r"([a-z]\w*)\[([\d,]*)\](?:\{([^}]*)\})?(?:, )?")


def _array(text: str) -> Array:
    """Return the shape of a text of the table."""
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


def _fixed(body: Body) -> None:
    """Add an instruction of the table, with its operands."""
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


def _async(body: Body) -> None:
    value = body.one(*FLOATS)
    inner = Body(body.builder, [value.shape], body.depth + 1)
    inner.emit("negate", value.shape, "negate", inner.instructions[0])
    called = f"%{body.builder.add('async_computation', inner.instructions)}"
    shape = Array(parts=(Array(parts=(value.shape,)), value.shape, Array("u32")))
    made = body.emit("async-start", shape, "async-start", value, calls=called)
    made = body.emit("async-update", shape, "async-update", made)
    body.emit("async-done", value.shape, "async-done", made)


WAYS: list[Callable[[Body], None]] = [
    *(_elementwise, _binary, _compare, _move, _move, _join, _iota, _convert, _constant, _reduce),
    *(_dynamic, _tuple, _tuple, _fusion, _call, _while, _conditional),
    *(_collective, _collective, _custom_call, _async, _fixed, _fixed, _fixed, _fixed),
]
"""Ways to add an instruction; frequent ones are repeated."""
