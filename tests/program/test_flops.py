"""FLOP of products: per instruction, in loops and fusions, and unknown ones."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import hlo_lens
from hlo_lens.load.programs import modules_of
from hlo_lens.program.flops import Flops, flops
from tests.corpus import SAMPLES


def of(text: str) -> Flops:
    """Return the FLOP of a module."""
    return flops(modules_of(text)[0])


def one(line: str, *parameters: str) -> int | None:
    """Return the FLOP of one instruction on parameters of these shapes."""
    lines = [f"  p{k} = {shape} parameter({k})" for k, shape in enumerate(parameters)]
    text = "\n".join(["HloModule m", "", "ENTRY e {", *lines, f"  ROOT r = {line}", "}", ""])
    return of(text).total


@pytest.mark.parametrize(
    ("line", "parameters", "expected"),
    [
        (
            "f32[4,6] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            ("f32[4,5]", "f32[5,6]"),
            2 * 4 * 5 * 6,
        ),
        (
            "f32[3,4,6] dot(p0, p1), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
            "rhs_batch_dims={0}, rhs_contracting_dims={1}",
            ("f32[3,4,5]", "f32[3,5,6]"),
            2 * 3 * 4 * 5 * 6,
        ),
        ("f32[] dot(p0, p1), lhs_contracting_dims={0}", ("f32[7]", "f32[7]"), 14),
        (
            "f32[1,2,2,1] convolution(p0, p1), window={size=2x2}, dim_labels=b01f_01io->b01f",
            ("f32[1,3,3,1]", "f32[2,2,1,1]"),
            2 * 4 * 4,
        ),
        # 2 + 3 + 2 of the 3 positions of each of 3 kernel elements are inside the input
        (
            "f32[1,3,1] convolution(p0, p1), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f",
            ("f32[1,3,1]", "f32[3,1,1]"),
            2 * 7,
        ),
        # a batched matrix product as TPUs print it: one overlap for each of 4 positions
        (
            "f32[4,8,16] convolution(p0, p1), window={size=4 stride=3 pad=0_0 lhs_dilate=4}, "
            "dim_labels=0bf_0io->0bf",
            ("f32[4,8,32]", "f32[4,32,16]"),
            2 * 8 * 16 * 32 * 4,
        ),
        (
            "f32[1,4,4,6] convolution(p0, p1), window={size=1x1}, dim_labels=b01f_01io->b01f, "
            "feature_group_count=3",
            ("f32[1,4,4,6]", "f32[1,1,2,6]"),
            2 * 16 * 2 * 6,
        ),
        ("f32[8] add(p0, p0)", ("f32[8]",), 0),
        (
            'f32[4,6] custom-call(p0, p1), custom_call_target="__onednn$matmul", '
            'backend_config={"onednn_matmul_config":{"transpose_a":true}}',
            ("f32[5,4]", "f32[5,6]"),
            2 * 4 * 5 * 6,
        ),
        (
            '(f32[4,6], s8[99]) custom-call(p0, p1), custom_call_target="__cublas$gemm", '
            'backend_config={"gemm_backend_config":{"dot_dimension_numbers":'
            '{"lhs_contracting_dimensions":["1"]}}}',
            ("f32[4,5]", "f32[5,6]"),
            2 * 4 * 5 * 6,
        ),
        (
            "(f32[2,2,1,1], u8[0]) custom-call(p0, p1), window={size=2x2}, "
            'dim_labels=b01f_01io->b01f, custom_call_target="__cudnn$convBackwardFilter"',
            ("f32[1,3,3,1]", "f32[1,2,2,1]"),
            2 * 4 * 4,
        ),
        ("f32[4,6] ragged-dot(p0, p1, p2)", ("f32[4,5]", "f32[2,5,6]", "s32[2]"), None),
    ],
)
def test_arithmetic_of_one_instruction(
    line: str, parameters: tuple[str, ...], expected: int | None
) -> None:
    assert one(line, *parameters) == expected


@pytest.mark.parametrize(
    "window", ["size=3 pad=a_1", "size=3 stride=0", "size=3 lhs_dilate=0", "size=3 rhs_dilate=-1"]
)
def test_window_that_is_none_leaves_a_convolution_unknown(window: str) -> None:
    line = f"f32[1,3,1] convolution(p0, p1), window={{{window}}}, dim_labels=b0f_0io->b0f"
    assert one(line, "f32[1,3,1]", "f32[3,1,1]") is None


def test_kernel_of_impossible_size_leaves_a_convolution_unknown() -> None:
    line = "f32[1,3,1] convolution(p0, p1), window={size=9000000000}, dim_labels=b0f_0io->b0f"
    assert one(line, "f32[1,3,1]", "f32[9000000000,1,1]") is None


@given(*[st.integers(1, 6)] * 3, st.integers(-4, 6), *[st.integers(1, 5)] * 3)
def test_overlaps_of_a_window_are_those_counted_one_by_one(
    source: int, kernel: int, output: int, low: int, stride: int, base: int, dilation: int
) -> None:
    places = [
        place * stride + position * dilation - low
        for position in range(kernel)
        for place in range(output)
    ]
    inside = [at for at in places if 0 <= at < source * base and at % base == 0]
    line = (
        f"f32[1,{output},1] convolution(p0, p1), window={{size={kernel} stride={stride} "
        f"pad={low}_0 lhs_dilate={base} rhs_dilate={dilation}}}, dim_labels=b0f_0io->b0f"
    )
    assert one(line, f"f32[1,{source},1]", f"f32[{kernel},1,1]") == 2 * len(inside)


LOOP = """HloModule m

body {
  b = (s32[], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  x = f32[4,4] get-tuple-element(b), index=1
  y = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = s32[] constant(1)
  j = s32[] add(i, c)
  ROOT t = (s32[], f32[4,4]) tuple(j, y)
}

condition {
  q = (s32[], f32[4,4]) parameter(0)
  k = s32[] get-tuple-element(q), index=0
  n = s32[] LIMIT
  ROOT l = pred[] compare(k, n), direction=LT
}

ENTRY e {
  z = s32[] constant(0)
  p = f32[4,4] parameter(0)
  s = (s32[], f32[4,4]) tuple(z, p)
  w = (s32[], f32[4,4]) while(s), condition=condition, body=body
  ROOT r = f32[4,4] get-tuple-element(w), index=1
}
"""


def test_loop_counts_times_its_trip_count() -> None:
    found = of(LOOP.replace("LIMIT", "constant(5)"))
    assert (found.total, found.at_least) == (5 * 128, 5 * 128)


def test_loop_without_trip_count_leaves_the_total_unknown() -> None:
    found = of(LOOP.replace("LIMIT", "custom-call()").replace("s32[] custom-call()", "s32[] rng()"))
    assert (found.total, found.at_least, found.of_single_trips) == (None, 0, 128)


def test_total_with_a_conditional_is_an_upper_bound() -> None:
    text = """HloModule m
a { x = f32[4,4] parameter(0)
  ROOT y = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
b { x = f32[4,4] parameter(0)
  ROOT y = f32[4,4] negate(x) }
ENTRY e {
  p = pred[] parameter(0)
  x = f32[4,4] parameter(1)
  ROOT r = f32[4,4] conditional(p, x, x), true_computation=a, false_computation=b
}
"""
    found = of(text)
    assert (found.total, found.at_least, found.is_at_most) == (128, 0, True)


KERNEL = """HloModule m
ENTRY e {
  a = f32[4] custom-call(), custom_call_target="tpu_custom_call"CONFIG
  ROOT b = f32[4] custom-call(a), custom_call_target="AllocateBuffer"
}
"""


def test_kernel_of_unknown_work_leaves_the_total_unknown() -> None:
    found = of(KERNEL.replace("CONFIG", ""))
    assert (found.total, found.at_least, found.opaque) == (None, 0, 1)


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        ('{"flops":"4096","transcendentals":"7"}', 4096),
        ('{"flops": 4096, "bytes_accessed": 8}', 4096),
        ('{"bytes_accessed":"8"}', 0),
    ],
)
def test_kernel_counts_by_its_cost_estimate(estimate: str, expected: int) -> None:
    config = f', backend_config={{"custom_call_config":{{"cost_estimate":{estimate}}}}}'
    found = of(KERNEL.replace("CONFIG", config))
    assert (found.total, found.opaque, found.is_estimate) == (expected, 0, True)


def test_custom_call_of_a_computation_has_its_arithmetic() -> None:
    text = """HloModule m
inner { x = f32[4,4] parameter(0)
  ROOT y = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
ENTRY e {
  x = f32[4,4] parameter(0)
  ROOT r = f32[4,4] custom-call(x), custom_call_target="offload", called_computations={inner}
}
"""
    found = of(text)
    assert (found.total, found.opaque) == (128, 0)


BRANCHES = """HloModule m
small { x = f32[4,4] parameter(0)
  ROOT y = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
large { x = f32[4,4] parameter(0)
  y = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[4,4] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
ENTRY e {
  p = s32[] parameter(0)
  x = f32[4,4] parameter(1)
  ROOT r = f32[4,4] conditional(p, x, x), branch_computations={small, large}
}
"""


def test_largest_branch_counts() -> None:
    found = of(BRANCHES)
    assert (found.total, found.at_least, found.is_at_most) == (256, 128, True)


def test_branches_with_equal_flops_are_exact() -> None:
    found = of(BRANCHES.replace("{small, large}", "{small, small}"))
    assert (found.total, found.at_least, found.is_at_most) == (128, 128, False)


@pytest.mark.parametrize("program", ["tp_mlp", "fsdp_transformer"])
@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
def test_eight_devices_share_the_flops_of_the_program(backend: str, program: str) -> None:
    (dump, *_) = [m for m in hlo_lens.load(SAMPLES / backend / program).modules if m.parts]
    assert dump.hlo is not None
    assert dump.before is not None
    on_one, in_all = flops(dump).total, flops(modules_of(dump.before)[0]).total
    assert on_one is not None
    assert on_one > 10**10
    assert 8 * on_one == in_all


def test_rows_are_those_of_the_products() -> None:
    rows = list(of(LOOP.replace("LIMIT", "constant(5)")).rows())
    assert rows == [("y", "dot", "body", 128, 5, False, False, 640)]
