"""Memory held at one instant: makers, groups, instants by name."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.memory.peak import SHARED, MemoryBy, memory_by, memory_tree, peak_memory
from hlo_lens.questions.memory.results import at_instant
from hlo_lens.text.errors import UnknownNameError
from tests.corpus import SAMPLES, SHARED as SHARED_FILES, needs_corpus
from tests.questions.memory.layouts import layout, peak_of_program, program, value

if TYPE_CHECKING:
    from pathlib import Path


def test_bytes_written_in_place_count_once() -> None:
    peak = peak_memory(layout())
    assert peak is not None
    assert (peak.position, peak.instruction) == (2, "b")
    assert (peak.total_bytes, peak.temp_bytes) == (172, 64)
    assert peak.shared_bytes == 40
    assert peak.residual_rows()[0][:2] == (SHARED, -40)


@pytest.mark.parametrize("at", range(5))
def test_arguments_and_outputs_are_held_at_every_instant(at: int) -> None:
    instant = peak_memory(layout(), at=at)
    assert instant is not None
    held = {live.value: live for live in instant.live if live.category != "temp"}
    assert {name: (one.size_bytes, one.category) for name, one in held.items()} == {
        "p{}": (100, "argument"),
        "c{}": (8, "output"),
    }
    assert {(one.start, one.end) for one in held.values()} == {(0, 4)}


def test_an_allocation_is_named_by_its_argument_or_result() -> None:
    laid = layout()
    both = (*laid.values, value("b2", 0, 0, 90, 3, 4), value("t", 2, 0, 8, 0, 2))
    peak = peak_memory(dataclasses.replace(laid, values=both))
    assert peak is not None
    assert [one.value for one in peak.live if one.category != "temp"] == ["p{}", "c{}"]


def test_without_temporaries_no_instant_is_the_peak() -> None:
    laid = layout()
    kept = tuple(one for one in laid.allocations if one.category != "temp")
    values = tuple(one for one in laid.values if one.allocation in (0, 2))
    peak = peak_memory(dataclasses.replace(laid, allocations=kept, values=values))
    assert peak is not None
    assert (peak.total_bytes, peak.position, peak.instruction, peak.is_peak) == (
        108,
        None,
        None,
        True,
    )
    instant = peak_memory(dataclasses.replace(laid, allocations=kept, values=values), at=1)
    assert instant is not None
    assert (instant.total_bytes, instant.instruction, instant.is_peak) == (108, "a", False)


@pytest.mark.parametrize("at", range(5))
def test_rows_and_residuals_sum_to_the_occupied_bytes(at: int) -> None:
    peak = peak_memory(layout(), at=at)
    assert peak is not None
    rows = [*peak.rows(), *peak.residual_rows()]
    assert sum(row[1] for row in rows if isinstance(row[1], int)) == peak.total_bytes
    assert sum(live.owned_bytes for live in peak.live) == peak.total_bytes


def test_without_a_schedule_there_is_no_peak() -> None:
    assert peak_memory(layout(schedule=None)) is None


def test_rows_have_the_maker_of_each_value() -> None:
    rows = {row["value"]: row for row in peak_of_program().objects()}
    assert (rows["q{1}"]["opcode"], rows["q{1}"]["source"]) == ("negate", "f.py:7")
    assert [rows[k]["origin_basis"] for k in ("q{1}", "y{}")] == ["loop body", "own"]
    assert [rows["p{}"][k] for k in ("op_name", "argument")] == ["params['a/b']"] * 2
    assert rows["gone{}"]["opcode"] is None


def test_tables_of_tuples_are_not_counted_among_temporaries() -> None:
    laid = layout()
    table = value("t", 1, 40, 24, 1, 3)._replace(shape_text="(f32[2]{0}, s32[])")
    peak = peak_memory(dataclasses.replace(laid, values=(*laid.values, table)), at=1)
    assert peak is not None
    assert (peak.temp_bytes, [one.value for one in peak.live]) == (40, ["p{}", "a{}", "c{}"])


LIBRARY = """HloModule m, is_scheduled=true

FileNames
1 "train.py"
2 "/v/site-packages/flax/linen/linear.py"

FunctionNames
1 "step"
2 "dense"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=9 end_line=9 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

ENTRY %main (p: f32[2]) -> f32[2] {
  %p = f32[2] parameter(0)
  ROOT %y = f32[2] negate(%p), metadata={op_name="jit(f)/neg" stack_frame_id=2}
}
"""


def test_rows_have_the_line_of_the_user_and_that_of_the_library() -> None:
    peak = peak_memory(program(), module=hlo_lens.parse_hlo(LIBRARY))
    assert peak is not None
    rows = {row["value"]: row for row in peak.objects()}
    assert [rows["y{}"][k] for k in ("source", "library_source")] == [
        "train.py:3",
        "/v/site-packages/flax/linen/linear.py:9",
    ]
    assert rows["p{}"]["library_source"] is None


def test_carried_values_are_made_in_the_body_of_the_loop() -> None:
    makers = peak_of_program().makers
    assert {name: maker.name for name, maker in makers.items()} == {
        "p{}": "p",
        "q{1}": "y",
        "y{}": "y",
    }


RESULTS = hlo_lens.memory(str(SAMPLES / "tpu" / "tp_mlp"))
SCHEDULE = RESULTS.layout.schedule or ()


@pytest.mark.parametrize("name", [SCHEDULE[7], f"%{SCHEDULE[7]}", f"{SCHEDULE[7]}{{0}}"])
def test_instruction_is_found_in_any_printed_form(name: str) -> None:
    instant = at_instant(RESULTS, name)
    assert instant is not None
    assert instant.position == 7


def test_end_of_a_name_is_enough_if_only_one_has_it() -> None:
    ends = [name[3:] for name in SCHEDULE]
    k = next(k for k, end in enumerate(ends) if sum(one.endswith(end) for one in SCHEDULE) == 1)
    instant = at_instant(RESULTS, f"...{ends[k]}")
    assert instant is not None
    assert instant.position == k
    with pytest.raises(UnknownNameError, match="is the end of"):
        at_instant(RESULTS, "...1")


def test_value_that_is_not_in_the_schedule_means_its_first_instant() -> None:
    outside = [v for v in RESULTS.layout.values if v.instruction_name not in SCHEDULE]
    assert outside
    instant = at_instant(RESULTS, outside[0].name)
    assert instant is not None
    assert instant.position == (outside[0].start or 0)


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("source", {"f.py:7": 16, "[parameters]": 8, "[unattributed]": 8}),
        ("opcode", {"negate": 16, "parameter": 8, "[unattributed]": 8}),
        ("category", {"temp": 24, "argument": 8}),
        ("param", {"0: params['a/b']": 8, "[not an argument]": 24}),
    ],
)
def test_groups_sum_to_the_peak(by: str, groups: dict[str, int]) -> None:
    peak = peak_of_program()
    found = memory_by(peak, by)
    assert {one.group: one.size_bytes for one in found.groups} == groups
    assert sum(groups.values()) == found.total_bytes == peak.total_bytes


def test_tree_joins_scopes_that_do_not_fork() -> None:
    tree = memory_tree(memory_by(peak_of_program(), "op"))
    assert [(row["depth"], row["scope"], row["size_bytes"]) for row in tree.objects()] == [
        (0, "jit(f)/while/body/neg", 16),
        (0, "[parameters]", 8),
        (0, "[unattributed]", 8),
    ]


def test_paths_keep_pytree_keys_whole() -> None:
    peak = peak_of_program()
    argument = next(one for one in memory_by(peak, "param").groups if one.group[0] == "0")
    paths = argument._replace(group="jit(f)/params['a/b']/add"), argument
    tree = memory_tree(MemoryBy(by="op", total_bytes=16, groups=paths))
    assert [one.scope for one in tree.scopes] == ["0: params['a/b']", "jit(f)/params['a/b']/add"]


@pytest.mark.parametrize("by", ["op", "source", "stack"])
def test_results_without_a_line_are_a_group_of_their_own(by: str) -> None:
    peak = peak_of_program()
    kept = tuple(
        one._replace(category="output") if one.category == "temp" else one for one in peak.live
    )
    found = memory_by(replace(peak, live=kept), by)
    sizes = {one.group: one.size_bytes for one in found.groups}
    assert sizes["[results]"] == 8
    assert "[unattributed]" not in sizes
    assert len(sizes) == 3, "results with a label keep it"
    assert not found.is_unattributed
    assert found.totals()["size_bytes"] == peak.total_bytes


USED_VALUES = """\
BufferAssignment:
allocation 0: 0x1, size 32, parameter 0, shape |f32[8]| at ShapeIndex {}:
 value: <1 p @0> (size=32,offset=0): f32[8]{0}
allocation 1: 0x2, size 32, output shape is |f32[8]|, maybe-live-out:
 value: <2 sum @0> (size=32,offset=0): f32[8]{0}
allocation 2: 0x3, size 4, thread-local:
 value: <0 inner @0> (size=4,offset=0): f32[]

Total bytes used: 68 (68B)

Used values:
<0 inner @0>
 positions:
  inner
 uses:
 from instruction:%inner = f32[] parameter(0)
<1 p @0>
 positions:
  p
 uses:
  sum, operand 0
 from instruction:%p = f32[8]{0} parameter(0)
<2 sum @0>
 positions:
  sum
 uses:
 from instruction:%sum = f32[8]{0} add(f32[8]{0} %p, f32[8]{0} %p), \
metadata={op_name="jit(f)/add" source_file="a.py" source_line=7}


HloLiveRange (max 2):
  InstructionSequence:
    0:p
    1:sum
  BufferLiveRange:
    p{}:0-2
    sum{}:1-2
  Live ranges at 1 (peak):
    p{}: 32 bytes
    sum{}: 32 bytes
"""


@pytest.mark.parametrize(
    ("text", "makers"),
    [
        (USED_VALUES, {"p{}": ("parameter", None), "sum{}": ("add", "a.py:7")}),
        (
            re.sub(r"\nTotal bytes.*?\n\n(?=\nHlo)", "", USED_VALUES, flags=re.DOTALL),
            {"p{}": (None, None), "sum{}": (None, None)},
        ),
    ],
    ids=["printed", "missing"],
)
def test_values_have_opcode_and_source_of_the_instructions_they_print(
    text: str, makers: dict[str, tuple[str | None, str | None]], tmp_path: Path
) -> None:
    path = tmp_path / "module_0000.m.buffer-assignment.txt"
    path.write_text(text, "utf-8")
    peak = hlo_lens.memory(path).peak
    assert peak is not None
    assert {row["value"]: (row["opcode"], row["source"]) for row in peak.objects()} == makers


@needs_corpus
def test_seed_without_hlo_text_has_opcodes_at_the_peak() -> None:
    (path,) = (SHARED_FILES / "seeds").glob("004_*")
    peak = hlo_lens.memory(path).peak
    assert peak is not None
    assert all(row["opcode"] for row in peak.objects())
