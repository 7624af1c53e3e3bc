"""FLOP of products: per instruction, in loops and fusions, and unknown ones."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import hlo_lens
from hlo_lens.hlo.query import tabulate
from hlo_lens.load.programs import modules_of
from hlo_lens.program.flops import (
    NO_WORK,
    Flops,
    ProductSizes,
    Work,
    WorkFinder,
    flops,
    flops_of,
    product_sizes,
)
from hlo_lens.program.runs import CallCounts
from hlo_lens.questions.report.module_page import work_text
from tests.corpus import SAMPLES
from tests.hlo_texts import without_elements


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
    assert (found.total, found.at_least) == (None, 0)


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


def sizes_of(left: str, right: str, product: str) -> ProductSizes | None:
    """Return the sizes of a product of two arrays, whose FLOP are those that are counted."""
    text = f"HloModule m\nENTRY e {{\n a = {left} parameter(0)\n b = {right} parameter(1)\n"
    module = hlo_lens.parse_hlo(f"{text} ROOT r = {product}\n}}\n")
    assert module.gaps == ()
    root = module.entry.root
    assert root is not None
    found = product_sizes(root)
    assert found is None or found.flops == flops_of(root)
    return found


CUBLAS = (
    '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],'
    '"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]}}}'
)
SIZES = {  # operands, product, its batch, rows, columns and depth
    "dimensions alike of a dot are taken together": (
        ("bf16[5,7,3,4]", "bf16[5,3,4,11,2]"),
        "bf16[5,7,11,2] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2,3}, "
        "rhs_batch_dims={0}, rhs_contracting_dims={1,2}",
        (5, 7, 22, 12),
    ),
    "a batch that a TPU keeps in a window": (
        ("bf16[8,1024,8,20]", "bf16[8,1024,8,20]"),
        "bf16[8,8,1024,1024] convolution(a, b), window={size=8x8 stride=7x7 lhs_dilate=8x8}, "
        "dim_labels=0b1f_0o1i->01bf",
        (64, 1024, 1024, 20),
    ),
    "a contracted dimension in a window is depth": (
        ("bf16[8,1024,8,20]", "bf16[1,8,20,4096]"),
        "bf16[8,1024,4096,1] convolution(a, b), window={size=1x20}, dim_labels=0bf1_0i1o->0bf1",
        (1, 8192, 4096, 160),
    ),
    "a window over pixels is rows and depth": (
        ("bf16[2,8,8,3]", "bf16[2,2,3,16]"),
        "bf16[2,4,4,16] convolution(a, b), window={size=2x2 stride=2x2}, "
        "dim_labels=b01f_01io->b01f",
        (1, 32, 16, 12),
    ),
    "the configuration of a product of cuBLAS": (
        ("bf16[6,10]", "bf16[10,4]"),
        '(bf16[6,4], s8[8]) custom-call(a, b), custom_call_target="__cublas$lt$matmul", '
        f"backend_config={CUBLAS}",
        (1, 6, 4, 10),
    ),
    "none of a grouped convolution": (
        ("bf16[2,8,16]", "bf16[1,1,16]"),
        "bf16[2,8,16] convolution(a, b), window={size=1}, dim_labels=b0f_0io->b0f, "
        "feature_group_count=16",
        None,
    ),
}


@pytest.mark.parametrize(("operands", "product", "sizes"), SIZES.values(), ids=SIZES)
def test_sizes_of_a_product(
    operands: tuple[str, str], product: str, sizes: tuple[int, int, int, int] | None
) -> None:
    found = sizes_of(*operands, product)
    assert (found and (found.batch, found.rows, found.columns, found.depth)) == sizes


def test_the_layout_of_the_result_decides_what_is_minor() -> None:
    text = "bf16[6,4]LAYOUT dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    minor = {
        layout: sizes.are_rows_minor
        for layout in ("{1,0}", "{0,1}")
        if (sizes := sizes_of("bf16[6,10]", "bf16[10,4]", text.replace("LAYOUT", layout)))
    }
    assert minor == {"{1,0}": False, "{0,1}": True}


def test_a_batch_that_is_minor_shows_neither() -> None:
    text = "bf16[3,6,4]LAYOUT dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
    text += "rhs_batch_dims={0}, rhs_contracting_dims={1}"
    found = sizes_of("bf16[3,6,5]", "bf16[3,5,4]", text.replace("LAYOUT", "{0,2,1}"))
    assert found is not None
    assert found.are_rows_minor is None


TEXT = """HloModule m, is_scheduled=true

sliced {
  p = f32[100,8] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  d = f32[1,8] dynamic-slice(p, i, z), dynamic_slice_sizes={1,8}
  ROOT n = f32[1,8] negate(d)
}

updated {
  p = f32[100,8] parameter(0)
  u = f32[1,8] parameter(1)
  i = s32[] parameter(2)
  z = s32[] constant(0)
  ROOT d = f32[100,8] dynamic-update-slice(p, u, i, z)
}

carried {
  p = f32[8] parameter(0)
  g = f32[16] all-gather(p), replica_groups={{0,1}}, dimensions={0}
  x = f32[4,4] parameter(1)
  m = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[4,4], f32[16], f32[8]) tuple(m, g, p)
}

body {
  s = (s32[], f32[100,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[100,8] get-tuple-element(s), index=1
  y = f32[100,8] negate(x)
  ROOT t = (s32[], f32[100,8]) tuple(i, y)
}

condition {
  s = (s32[], f32[100,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ROOT l = pred[] compare(i, i), direction=LT
}

small {
  p = f32[8] parameter(0)
  ROOT n = f32[8] negate(p)
}

large {
  p = f32[8] parameter(0)
  n = f32[8] negate(p)
  ROOT m = f32[8] negate(n)
}

ENTRY main {
  p = f32[100,8] parameter(0)
  i = s32[] parameter(1)
  v = f32[8] parameter(2)
  x = f32[4,4] parameter(3)
  slice = f32[1,8] fusion(p, i), kind=kLoop, calls=sliced
  update = f32[100,8] fusion(p, slice, i), kind=kLoop, calls=updated
  carry = (f32[4,4], f32[16], f32[8]) fusion(v, x), kind=kOutput, calls=carried
  plain = f32[1,8] slice(p), slice={[0:1], [0:8]}
  gather = f32[16] all-gather(v), replica_groups={{0,1}}, dimensions={0}
  view = f32[800] bitcast(p)
  buffer = f32[8] custom-call(), custom_call_target="AllocateBuffer"
  kernel = f32[8] custom-call(v), custom_call_target="kernel"
  either = f32[8] conditional(i, v, v), branch_computations={small, large}
  s = (s32[], f32[100,8]) tuple(i, p)
  open = (s32[], f32[100,8]) while(s), condition=condition, body=body
  loop = (s32[], f32[100,8]) while(s), condition=condition, body=body, \
backend_config={"known_trip_count":{"n":"5"}}
  ROOT r = f32[800] negate(view)
}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("slice", Work(32 + 4 + 32, 0)),
        ("update", Work(0 + 32 + 4 + 32, 0)),
        ("carry", Work(64 + 64, 2 * 4 * 4 * 4)),
        ("plain", Work(64, 0)),
        ("gather", NO_WORK),
        ("view", NO_WORK),
        ("buffer", NO_WORK),
        ("kernel", Work(64, None)),
        ("either", Work(128, 0)),
        ("open", Work(None, 0)),
        ("loop", Work(5 * (6400 + 9), 0)),
        ("r", Work(6400, 0)),
    ],
)
def test_work_of_an_instruction(name: str, expected: Work) -> None:
    table = tabulate(hlo_lens.parse_hlo(TEXT))
    instruction = table.module.entry.instruction(name)
    assert instruction is not None
    assert WorkFinder(table, CallCounts(table)).of(instruction.row) == expected


ELEMENTS = """HloModule m, is_scheduled=true

split {
  p = (s32[], f32[100,8]) parameter(0)
  a = s32[] get-tuple-element(p), index=0
  both = (s32[], f32[100,8]) fusion(a), kind=kLoop, calls=filled
  b = s32[] get-tuple-element(both), index=0
  ROOT t = (s32[], s32[]) tuple(a, b)
}

filled {
  n = s32[] parameter(0)
  c = f32[] constant(1)
  f = f32[100,8] broadcast(c), dimensions={}
  ROOT t = (s32[], f32[100,8]) tuple(n, f)
}

ENTRY main {
  s = (s32[], f32[100,8]) parameter(0)
  c = s32[] constant(1)
  i = s32[] get-tuple-element(s), index=0
  x = f32[100,8] get-tuple-element(s), index=1
  add = s32[] add(i, c)
  negate = f32[100,8] negate(x)
  update = f32[100,8] dynamic-update-slice(x, x, i, i)
  fusion = (s32[], s32[]) fusion(s), kind=kLoop, calls=split
  ROOT t = (s32[], f32[100,8]) tuple(add, negate)
}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add", Work(12, 0)),
        ("negate", Work(6400, 0)),
        ("update", Work(6400, 0)),
        ("fusion", Work(4 + 4, 0)),
    ],
)
@pytest.mark.parametrize("is_compact", [False, True])
def test_of_a_tuple_only_the_element_is_read(name: str, expected: Work, is_compact: bool) -> None:
    text = without_elements(ELEMENTS) if is_compact else ELEMENTS
    table = tabulate(hlo_lens.parse_hlo(text))
    assert ("get-tuple-element" in table.different_opcodes) is not is_compact
    instruction = table.module.entry.instruction(name)
    assert instruction is not None
    assert WorkFinder(table, CallCounts(table)).of(instruction.row) == expected


def test_a_fusion_whose_body_lost_its_root_has_unknown_work() -> None:
    text = """HloModule m
lost {
}

ENTRY e {
  x = f32[8] parameter(0)
  ROOT f = f32[8] fusion(x), kind=kLoop, calls=lost
  last = f32[8] parameter(1)
}
"""
    module = hlo_lens.parse_hlo(text)
    table = tabulate(module)
    assert module.entry is not None
    assert module.entry.root is not None
    assert WorkFinder(table, CallCounts(table)).of(module.entry.root.row).size_bytes is None


@pytest.mark.parametrize(
    "body",
    [
        "ROOT r = f32[8] fusion(p), kind=kLoop, calls=odd",
        "x = f32[8] bitcast(r)\n  ROOT r = f32[8] bitcast(x)",
        "x = f32[8] bitcast(p, r)\n  ROOT r = f32[8] bitcast(x)",
        "ROOT r = (f32[8], f32[8]) tuple(r, r)",
    ],
)
def test_a_fusion_with_a_circle_has_unknown_work(body: str) -> None:
    text = f"""HloModule m
odd {{
  p = f32[8] parameter(0)
  {body}
}}

ENTRY e {{
  x = f32[8] parameter(0)
  ROOT f = f32[8] fusion(x), kind=kLoop, calls=odd
}}
"""
    table = tabulate(hlo_lens.parse_hlo(text))
    assert table.module.entry.root is not None
    assert None in WorkFinder(table, CallCounts(table)).of(table.module.entry.root.row)


def test_flops_of_unknown_opcodes_are_not_known() -> None:
    text = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[8,8] parameter(0)
  y = f32[8,8] made-up(x)
  ROOT d = f32[8,8] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    products = of(text)
    assert (products.total, products.at_least) == (None, 1024)
    assert products.unknown_opcodes == ("made-up",)
    table = tabulate(hlo_lens.parse_hlo(text))
    assert WorkFinder(table, CallCounts(table)).of(1) == (512, None)
    text = work_text(products)
    assert text == "at least 1.02 KFLOP of products in one run; arithmetic of made-up not known"


def test_work_of_deep_nesting_and_of_circles_ends() -> None:
    def nested(depth: int, first: str) -> str:
        bodies = [
            f"b{k} {{\n  s = f32[8] parameter(0)\n"
            f"  ROOT c = f32[8] {f'call(s), to_apply=b{k - 1}' if k else first}\n}}\n\n"
            for k in range(depth)
        ]
        entry = f"  p = f32[8] parameter(0)\n  ROOT c = f32[8] call(p), to_apply=b{depth - 1}\n"
        return f"HloModule m\n\n{''.join(bodies)}ENTRY main {{\n{entry}}}\n"

    for first, work in (("negate(s)", (64, 0)), ("call(s), to_apply=b1", (None, None))):
        table = tabulate(hlo_lens.parse_hlo(nested(1500, first)))
        row = table.module.entry.root_row
        assert WorkFinder(table, CallCounts(table)).of(row) == work
