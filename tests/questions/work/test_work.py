"""Work of devices: an equal share, what they repeat, and where an axis is lost."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.load.module import ModuleDump, already_read
from hlo_lens.questions.work.work import work
from hlo_lens.text.dump_kinds import DumpKind
from tests.corpus import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

REPEATED = sorted((CORPUS / "repeat").glob("*.tar.xz"))

TWO = """HloModule m, num_partitions=4, is_scheduled=true

BODY

ENTRY main {
  x = f32[8,4]{1,0} parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  w = f32[4,4]{1,0} parameter(1), sharding={replicated}
  ROWS
}
"""
"""Rows of `x` are divided over the first axis of a 2 x 2 mesh; `w` is whole."""


def _work_of(rows: str, body: str = "", header: str = "") -> tuple[int | None, int | None]:
    text = TWO.replace("ROWS", rows).replace("BODY", body)
    text = f"{header}{text[text.index(chr(10)) :]}" if header else text
    module = ModuleDump(
        name="m", kind=DumpKind.HLO, module_text=already_read(hlo_lens.parse_hlo(text))
    )
    found = work(module)
    return found.flops, found.repeated_flops


DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def test_devices_that_hold_the_same_operands_repeat_a_product() -> None:
    assert _work_of(f"ROOT d = f32[8,4]{{1,0}} dot(x, w), {DOT}") == (256, 128)


def test_gathered_rows_are_equal_on_all_devices() -> None:
    rows = f"""g = f32[16,4]{{1,0}} all-gather(x), channel_id=1, \
replica_groups={{{{0,2}},{{1,3}}}}, dimensions={{0}}, use_global_device_ids=true
  ROOT d = f32[16,4]{{1,0}} dot(g, w), {DOT}"""
    assert _work_of(rows) == (512, 384)


@pytest.mark.parametrize(
    ("offset", "repeated"),
    [
        ("partition-id()", 0),
        ("constant(2)", 128),
    ],
)
def test_a_slice_at_the_number_of_the_device_differs(offset: str, repeated: int) -> None:
    rows = f"""i = u32[] {offset}
  z = u32[] constant(0)
  s = f32[8,4]{{1,0}} dynamic-slice(x, i, z), dynamic_slice_sizes={{8,4}}
  ROOT d = f32[8,4]{{1,0}} dot(s, w), {DOT}"""
    assert _work_of(rows) == (256, repeated)


def test_offsets_of_a_table_are_computed() -> None:
    rows = f"""t = s32[4]{{0}} constant({{0, 0, 2, 2}})
  i = u32[] partition-id()
  o = s32[1]{{0}} dynamic-slice(t, i), dynamic_slice_sizes={{1}}
  p = s32[] reshape(o)
  z = s32[] constant(0)
  s = f32[4,4]{{1,0}} dynamic-slice(w, p, z), dynamic_slice_sizes={{4,4}}
  ROOT d = f32[8,4]{{1,0}} dot(x, s), {DOT}"""
    assert _work_of(rows) == (256, 128)


def _sliced(offset: str) -> str:
    return f"""{offset}
  z = s32[] constant(0)
  s = f32[4,4]{{1,0}} dynamic-slice(w, p, z), dynamic_slice_sizes={{4,4}}
  ROOT d = f32[8,4]{{1,0}} dot(x, s), {DOT}"""


def test_numbers_of_devices_are_no_integers_after_a_conversion_to_floats() -> None:
    rows = """i = u32[] partition-id()
  f = f32[] convert(i)
  two = f32[] constant(2)
  h = f32[] divide(f, two)
  y = f32[] multiply(h, two)
  p = s32[] convert(y)"""
    assert _work_of(_sliced(rows)) == (256, 0)


@pytest.mark.parametrize("table", ["{...}", "{}", "{0, 0, 99999999999999999999, 2}"])
def test_a_table_that_is_not_printed_whole_gives_no_offsets(table: str) -> None:
    rows = f"""t = s32[4]{{0}} constant({table})
  i = u32[] partition-id()
  o = s32[1]{{0}} dynamic-slice(t, i), dynamic_slice_sizes={{1}}
  p = s32[] reshape(o)"""
    assert _work_of(_sliced(rows)) == (256, 0)


def test_partitions_that_the_header_does_not_print_have_numbers() -> None:
    rows = f"""i = u32[] partition-id()
  z = u32[] constant(0)
  s = f32[8,4]{{1,0}} dynamic-slice(x, i, z), dynamic_slice_sizes={{8,4}}
  ROOT d = f32[8,4]{{1,0}} dot(s, w), {DOT}"""
    assert _work_of(rows, header="HloModule m, is_scheduled=true") == (256, 0)


def test_a_loop_carries_what_differs_into_its_next_trip() -> None:
    body = f"""body {{
  p = (s32[], f32[4,4]{{1,0}}, f32[4,4]{{1,0}}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[4,4]{{1,0}} get-tuple-element(p), index=1
  b = f32[4,4]{{1,0}} get-tuple-element(p), index=2
  d = f32[4,4]{{1,0}} dot(a, a), {DOT}
  o = s32[] constant(1)
  j = s32[] add(i, o)
  ROOT r = (s32[], f32[4,4]{{1,0}}, f32[4,4]{{1,0}}) tuple(j, b, d)
}}

cond {{
  p = (s32[], f32[4,4]{{1,0}}, f32[4,4]{{1,0}}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}}"""
    rows = """z = s32[] constant(0)
  s = f32[4,4]{1,0} slice(x), slice={[0:4], [0:4]}
  t = (s32[], f32[4,4]{1,0}, f32[4,4]{1,0}) tuple(z, w, SECOND)
  ROOT l = (s32[], f32[4,4]{1,0}, f32[4,4]{1,0}) while(t), condition=cond, body=body"""
    assert _work_of(rows.replace("SECOND", "w"), body) == (384, 288)
    assert _work_of(rows.replace("SECOND", "s"), body) == (384, 192)


def test_of_branches_the_largest_is_counted() -> None:
    body = "\n\n".join(
        f"""{name} {{
  p = f32[4,4]{{1,0}} parameter(0)
  {end}
}}"""
        for name, end in (
            ("once", f"ROOT d = f32[4,4]{{1,0}} dot(p, p), {DOT}"),
            (
                "twice",
                f"c = f32[4,4]{{1,0}} dot(p, p), {DOT}\n  ROOT d = f32[4,4] dot(c, c), {DOT}",
            ),
        )
    )
    rows = """b = pred[] constant(true)
  ROOT c = f32[4,4]{1,0} conditional(b, w, w), true_computation=once, false_computation=twice"""
    assert _work_of(rows, body) == (256, 192)


def test_unknown_groups_claim_nothing() -> None:
    rows = f"""g = f32[16,4]{{1,0}} all-gather(x), channel_id=1, replica_groups={{{{0,9}}}}, \
dimensions={{0}}, use_global_device_ids=true
  ROOT d = f32[16,4]{{1,0}} dot(g, w), {DOT}"""
    assert _work_of(rows) == (512, 0)


@pytest.mark.skipif(not REPEATED, reason="the corpus is not here")
@pytest.mark.parametrize("archive", REPEATED, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_work_is_that_of_products_counted_by_hand(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    (file,) = tmp_path.rglob("truth.json")
    truth = json.loads(file.read_text("utf-8"))
    modules = hlo_lens.load(file.parent / "dump").modules
    found = work(max(modules, key=lambda one: one.hlo.instruction_count if one.hlo else 0))
    assert found.flops == truth["flops_per_device"]
    assert found.equal_share_flops == truth["equal_share"]
    assert found.repeated_flops is not None
    assert found.flops
    # a GPU's compiler joins the repeated head, 0.2 % of the products, with a divided one
    assert 0 <= truth["repeated"] - found.repeated_flops <= 0.005 * found.flops
