"""Attributes of protos that name dimensions: slices, padding, windows, dots, gathers, scatters.

Mirrors xla/hlo/ir/hlo_instructions.cc (PrintExtraAttributesImpl of each class) and
xla/window_util.cc, as of August 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_lens.syntax.proto.values import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.syntax.proto.parts import PartPrinter

    Attribute = tuple[str, str]

_ALGORITHMS = [
    "unset",
    "any_f8_any_f8_f32",
    "any_f8_any_f8_f32_fast_accum",
    "f16_f16_f16",
    "f16_f16_f32",
    "bf16_bf16_bf16",
    "bf16_bf16_f32",
    "bf16_bf16_f32_x3",
    "bf16_bf16_f32_x6",
    "tf32_tf32_f32",
    "tf32_tf32_f32_x3",
    "f32_f32_f32",
    "f64_f64_f64",
    "bf16_bf16_f32_x9",
    "bf16_bf16_fp8x3",
    "bf16_bf16_fp8x4",
]
_PRECISIONS = ("default", "high", "highest")


def slice_ranges(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    """Yield ``slice``."""
    has_strides = any(dim.stride != 1 for dim in one.slice_dimensions)
    texts = (
        f"[{dim.start}:{dim.limit}{f':{dim.stride}' if has_strides else ''}]"
        for dim in one.slice_dimensions
    )
    yield "slice", f"{{{', '.join(texts)}}}"


def dynamic_slice_sizes(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    """Yield ``dynamic_slice_sizes``."""
    yield "dynamic_slice_sizes", numbers(one.dynamic_slice_sizes)


def padding(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    """Yield ``padding``."""
    dims = one.padding_config.dimensions
    has_interior = any(dim.interior_padding for dim in dims)
    yield (
        "padding",
        "x".join(
            f"{dim.edge_padding_low}_{dim.edge_padding_high}"
            f"{f'_{dim.interior_padding}' if has_interior else ''}"
            for dim in dims
        ),
    )


def window(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    """Yield ``window``."""
    dims = one.window.dimensions
    if not dims:
        return
    parts = [f"size={'x'.join(str(d.size) for d in dims)}"]

    def add(name: str, cells: list[str], plain: str) -> None:
        if any(cell != plain for cell in cells):
            parts.append(f"{name}={'x'.join(cells)}")

    add("stride", [str(d.stride) for d in dims], "1")
    add("pad", [f"{d.padding_low}_{d.padding_high}" for d in dims], "0_0")
    add("lhs_dilate", [str(d.base_dilation) for d in dims], "1")
    add("rhs_dilate", [str(d.window_dilation) for d in dims], "1")
    add("rhs_reversal", [str(int(d.window_reversal)) for d in dims], "0")
    yield "window", f"{{{' '.join(parts)}}}"


def dim_labels(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    """Yield ``dim_labels``."""
    if not one.HasField("convolution_dimension_numbers"):
        return
    n = one.convolution_dimension_numbers
    sides = (
        ("b", n.input_batch_dimension, "f", n.input_feature_dimension, n.input_spatial_dimensions),
        (
            *("o", n.kernel_output_feature_dimension, "i", n.kernel_input_feature_dimension),
            n.kernel_spatial_dimensions,
        ),
        (
            "b",
            n.output_batch_dimension,
            "f",
            n.output_feature_dimension,
            n.output_spatial_dimensions,
        ),
    )
    lhs, rhs, out = (_labels(*side) for side in sides)
    yield "dim_labels", f"{lhs}_{rhs}->{out}"


def _labels(first: str, at: int, second: str, other: int, spatial: Sequence[int]) -> str:
    places = {at: first, other: second, **{place: str(k) for k, place in enumerate(spatial)}}
    last = min(max(places, default=-1), 64)
    return "".join(places.get(place, "?") for place in range(last + 1))


def group_counts(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    """Yield ``feature_group_count`` and ``batch_group_count``, where above 1."""
    for name in ("feature_group_count", "batch_group_count"):
        if getattr(one, name) not in (0, 1):
            yield name, str(getattr(one, name))


def precision(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    """Yield ``operand_precision`` and ``algorithm``."""
    config = one.precision_config
    if any(config.operand_precision):
        listed = [_PRECISIONS[p] if p < 3 else str(p) for p in config.operand_precision]
        yield "operand_precision", f"{{{','.join(listed)}}}"
    if 0 < config.algorithm < len(_ALGORITHMS):
        yield "algorithm", f"dot_{_ALGORITHMS[config.algorithm]}"


def dot_dimensions(printer: PartPrinter, one: Any) -> Iterator[Attribute]:
    """Yield the dimension numbers of a dot, a ragged dot or a scaled dot."""
    ragged = one.opcode == b"ragged-dot"
    found = one.ragged_dot_dimension_numbers if ragged else one
    dims = found.dot_dimension_numbers
    for side in ("lhs", "rhs"):
        batch = getattr(dims, f"{side}_batch_dimensions")
        if batch:
            yield f"{side}_batch_dims", numbers(batch)
        yield f"{side}_contracting_dims", numbers(getattr(dims, f"{side}_contracting_dimensions"))
    if ragged:
        yield "lhs_ragged_dims", numbers(found.lhs_ragged_dimensions)
        yield "rhs_group_dims", numbers(found.rhs_group_dimensions)
    yield from precision(printer, one)


def gather_dimensions(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    """Yield the dimension numbers of a gather."""
    dims = one.gather_dimension_numbers
    for name in ("offset_dims", "collapsed_slice_dims", "start_index_map"):
        yield name, numbers(getattr(dims, name))
    for name in ("operand_batching_dims", "start_indices_batching_dims"):
        if getattr(dims, name):
            yield name, numbers(getattr(dims, name))
    yield "index_vector_dim", str(dims.index_vector_dim)
    yield "slice_sizes", numbers(one.gather_slice_sizes)
    if one.indices_are_sorted:
        yield "indices_are_sorted", "true"


def scatter_dimensions(_: PartPrinter, one: Any) -> Iterator[Attribute]:
    """Yield the dimension numbers of a scatter."""
    dims = one.scatter_dimension_numbers
    for name in ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"):
        yield name, numbers(getattr(dims, name))
    for name in ("input_batching_dims", "scatter_indices_batching_dims"):
        if getattr(dims, name):
            yield name, numbers(getattr(dims, name))
    yield "index_vector_dim", str(dims.index_vector_dim)
    for name in ("indices_are_sorted", "unique_indices"):
        if getattr(one, name):
            yield name, "true"
