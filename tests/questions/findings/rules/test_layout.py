"""Tests of rules about sizes and layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.findings.finding import Severity
from tests.questions.findings.programs import findings_of, with_lines

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.questions.findings.finding import Finding


# ---- L002: dimensions of products that do not fill the matrix unit -------------------------------


TPU = """HloModule jit_step, is_scheduled=true

product {
  p = bf16[ROWS,DEPTH]{1,0} parameter(0)
  q = bf16[DEPTH,COLUMNS]{1,0} parameter(1)
  ROOT c = bf16[ROWS,COLUMNS]{1,0:T(8,128)(2,1)} convolution(p, q), dim_labels=bf_io->bf, @dot:7
}

ENTRY main {
  x = bf16[ROWS,DEPTH]{1,0:T(8,128)(2,1)} parameter(0)
  w = bf16[DEPTH,COLUMNS]{1,0:T(8,128)(2,1)} parameter(1)
  ROOT y = bf16[ROWS,COLUMNS]{1,0:T(8,128)(2,1)} fusion(x, w), kind=kOutput, calls=product
}
"""

ARGUMENTS = """tpu_topology_args {
  version: TPU_VERSION_VIPERFISH variant: "lite"
  chips_per_host_bounds { x: 1 y: 1 z: 1 }
  host_bounds { x: 1 y: 1 z: 1 }
}
"""


def found_in(
    folder: Path,
    rows: int,
    depth: int,
    columns: int,
    *,
    space: str = "",
    arguments: str = ARGUMENTS,
) -> tuple[Finding, ...]:
    """Return the findings in the dump of a product on a TPU."""
    text = TPU.replace("ROWS", str(rows)).replace("DEPTH", str(depth))
    stem = "module_0000.jit_step.cl_1"
    text = with_lines(text.replace("COLUMNS", str(columns)))
    (folder / f"{stem}.after_optimizations.txt").write_text(text)
    if arguments:
        (folder / f"{stem}.target_arguments.txt").write_text(arguments)
    return tuple(hlo_lens.lint(folder, select=["L002"]))


def test_padding_that_takes_longer_than_the_operands_is_a_warning(tmp_path: Path) -> None:
    (found,) = found_in(tmp_path, 262144, 4096, 300)
    assert found.message == (
        "1 product of 644GFLOP wastes 180GFLOP on padding: columns of 300, no multiple of 128"
    )
    padded = 2 * 262144 * 4096 * 384
    assert (found.saves.flops, found.saves.basis) == (padded - 2 * 262144 * 4096 * 300, "up to")
    assert found.severity is Severity.WARNING
    assert found.source == "m.py:7"


def test_little_padding_of_a_small_program_is_an_info(tmp_path: Path) -> None:
    (found,) = found_in(tmp_path, 8192, 4096, 300)
    assert (found.saves.flops, found.severity) == (2 * 8192 * 4096 * 84, Severity.INFO)


def test_padding_in_the_shadow_of_memory_saves_nothing(tmp_path: Path) -> None:
    (found,) = found_in(tmp_path, 8192, 4096, 20)
    assert (found.saves.flops, found.severity) == (None, Severity.INFO)
    assert found.evidence[-1].startswith("bound by memory")
    assert "7.25GFLOP on padding: columns of 20" in found.message


def test_time_is_not_known_of_an_unnamed_tpu(tmp_path: Path) -> None:
    (found,) = found_in(tmp_path, 8192, 4096, 300, arguments="")
    assert (found.saves.flops, found.severity) == (None, Severity.INFO)


@pytest.mark.parametrize("sizes", [(8192, 4096, 512), (8192, 4096, 50257), (1, 4096, 512)])
def test_products_that_fill_the_unit_have_no_finding(
    tmp_path: Path, sizes: tuple[int, int, int]
) -> None:
    assert found_in(tmp_path, *sizes) == ()


# ---- M004: padding of values at the peak ---------------------------------------------------------


PADDED_TEXT = with_lines("""HloModule m, is_scheduled=true

ENTRY main {
  x = f32[4096,16]{1,0:T(8,128)} parameter(0)
  a = f32[4096,16]{1,0:T(8,128)} negate(x), @neg:7
  ROOT b = f32[4096,16]{1,0:T(8,128)} cosine(a), @cos:8
}
""")


def test_the_dimension_that_does_not_fill_its_tile_is_named() -> None:
    (found,) = findings_of(PADDED_TEXT, "M004")
    assert "dimension 1 has 16 elements in a tile of 128" in found.message
    assert found.fix == "make dimension 1 a multiple of 128, or merge it with another one"
    assert found.saves.bytes == 3 * 4096 * (128 - 16) * 4
    assert found.severity is Severity.WARNING
    assert found.source_line == 7


def test_values_that_fill_their_tiles_have_no_finding() -> None:
    assert findings_of(PADDED_TEXT.replace("4096,16", "512,128"), "M004") == ()


def test_layouts_without_tiles_have_no_padding() -> None:
    assert findings_of(PADDED_TEXT.replace(":T(8,128)", ""), "M004") == ()


# ---- L001: operands of products that are laid out again ------------------------------------------


REORDERED_TEXT = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[1024,1024]{1,0} parameter(0)
  w = f32[1024,1024]{1,0} parameter(1)
  a = f32[1024,1024]{1,0} negate(x), backend_config={"operation_queue_id":"0"}
  t = f32[1024,1024]{1,0} transpose(a), dimensions={1,0}
  ROOT y = f32[1024,1024]{1,0} dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_a_transpose_of_an_operand_is_found() -> None:
    (found,) = findings_of(REORDERED_TEXT, "L001")
    assert found.message == "transpose t of 4.00MiB only lays out an operand of y"
    assert found.values == ("t",)


def test_a_copy_into_another_layout_is_found() -> None:
    copy = "t = f32[1024,1024]{0,1} copy(a)"
    text = REORDERED_TEXT.replace("t = f32[1024,1024]{1,0} transpose(a), dimensions={1,0}", copy)
    (found,) = findings_of(text, "L001")
    assert found.evidence == ("f32[1024,1024]{1,0} becomes f32[1024,1024]{0,1}",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dot(t, w)", "dot(a, w)"),
        ("1024,1024", "128,128"),
        ('"operation_queue_id":"0"', '"outer_dimension_partitions":["2"]'),
        ("transpose(a), dimensions={1,0}", "cosine(a)"),
    ],
)
def test_other_operands_have_no_finding(old: str, new: str) -> None:
    assert findings_of(REORDERED_TEXT.replace(old, new), "L001") == ()
