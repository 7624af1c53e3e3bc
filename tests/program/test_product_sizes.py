"""Sizes of products: what is batch, rows, columns and depth."""

from __future__ import annotations

import hlo_lens
from hlo_lens.program.flops import flops_of
from hlo_lens.program.product_sizes import ProductSizes, product_sizes


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


def test_dimensions_of_a_dot_that_are_alike_are_taken_together() -> None:
    numbers = "lhs_batch_dims={0}, lhs_contracting_dims={2,3}, rhs_batch_dims={0}, "
    found = sizes_of(
        "bf16[5,7,3,4]",
        "bf16[5,3,4,11,2]",
        f"bf16[5,7,11,2] dot(a, b), {numbers}rhs_contracting_dims={{1,2}}",
    )
    assert found == ProductSizes(batch=5, rows=7, columns=22, depth=12)


def test_a_batch_that_a_tpu_keeps_in_a_window_is_a_batch() -> None:
    found = sizes_of(
        "bf16[8,1024,8,20]",
        "bf16[8,1024,8,20]",
        "bf16[8,8,1024,1024] convolution(a, b), window={size=8x8 stride=7x7 lhs_dilate=8x8}, "
        "dim_labels=0b1f_0o1i->01bf",
    )
    assert found == ProductSizes(batch=64, rows=1024, columns=1024, depth=20)


def test_a_contracted_dimension_in_a_window_is_depth() -> None:
    found = sizes_of(
        "bf16[8,1024,8,20]",
        "bf16[1,8,20,4096]",
        "bf16[8,1024,4096,1] convolution(a, b), window={size=1x20}, dim_labels=0bf1_0i1o->0bf1",
    )
    assert found == ProductSizes(batch=1, rows=8192, columns=4096, depth=160)


def test_a_window_over_pixels_is_rows_and_depth() -> None:
    found = sizes_of(
        "bf16[2,8,8,3]",
        "bf16[2,2,3,16]",
        "bf16[2,4,4,16] convolution(a, b), window={size=2x2 stride=2x2}, "
        "dim_labels=b01f_01io->b01f",
    )
    assert found == ProductSizes(batch=1, rows=32, columns=16, depth=12)


def test_dimensions_of_a_matrix_product_of_cublas_are_in_its_configuration() -> None:
    config = (
        '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],'
        '"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]}}}'
    )
    found = sizes_of(
        "bf16[6,10]",
        "bf16[10,4]",
        '(bf16[6,4], s8[8]) custom-call(a, b), custom_call_target="__cublas$lt$matmul", '
        f"backend_config={config}",
    )
    assert found == ProductSizes(batch=1, rows=6, columns=4, depth=10)


def test_grouped_convolutions_have_no_sizes() -> None:
    text = (
        "bf16[2,8,16] convolution(a, b), window={size=1}, dim_labels=b0f_0io->b0f, "
        "feature_group_count=16"
    )
    assert sizes_of("bf16[2,8,16]", "bf16[1,1,16]", text) is None


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
