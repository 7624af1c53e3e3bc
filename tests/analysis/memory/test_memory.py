"""Statement, peak, groups and timeline of small layouts whose answers are known."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.analysis.memory.grouping import (
    loop_of_body,
    loop_path,
    makers_of,
    memory_by,
    split_op_name,
)
from hlo_lens.analysis.memory.layout import LaidAllocation, LaidValue, MemoryLayout
from hlo_lens.analysis.memory.op_tree import memory_tree
from hlo_lens.analysis.memory.peak import SHARED, peak_memory
from hlo_lens.analysis.memory.statement import memory_statement, space_name
from hlo_lens.analysis.memory.timeline import memory_timeline

SCHEDULE = ("p", "a", "b", "c")


def value(
    name: str, allocation: int, offset: int, size: int, start: int | None, end: int | None
) -> LaidValue:
    return LaidValue(f"{name}{{}}", name, (), allocation, offset, size, start, end, "f32[2]{0}")


def layout(*, schedule: tuple[str, ...] | None = SCHEDULE) -> MemoryLayout:
    """Return p (argument), a and b in place at instant 2, c (output), and a thread-local scalar."""
    return MemoryLayout(
        source="buffer-assignment",
        allocations=(
            LaidAllocation(index=0, size=100, color=0, category="argument", parameter_number=0),
            LaidAllocation(index=1, size=64, color=0, category="temp"),
            LaidAllocation(index=2, size=8, color=0, category="output", is_output=True),
            LaidAllocation(index=3, size=4, color=0, category="thread-local"),
            LaidAllocation(index=4, size=1000, color=5, category="temp"),
        ),
        values=(
            value("p", 0, 0, 100, 0, 4),
            value("a", 1, 0, 40, 1, 2),
            value("b", 1, 0, 64, 2, 3),
            value("c", 2, 0, 8, 3, 4),
            value("x", 3, 0, 4, None, None),
            value("h", 4, 0, 1000, 1, 1),
        ),
        schedule=schedule,
    )


def test_bytes_written_in_place_count_once() -> None:
    peak = peak_memory(layout())
    assert peak is not None
    assert (peak.position, peak.instruction, peak.total_bytes) == (3, "c", 172)
    at_two = peak_memory(layout(), at=2)
    assert at_two is not None
    assert at_two.total_bytes == 164
    assert at_two.shared_bytes == 40
    assert at_two.residual_rows()[0][:2] == (SHARED, -40)


@pytest.mark.parametrize("at", range(5))
def test_rows_and_residuals_sum_to_the_occupied_bytes(at: int) -> None:
    peak = peak_memory(layout(), at=at)
    assert peak is not None
    rows = [*peak.rows(), *peak.residual_rows()]
    assert sum(row[1] for row in rows if isinstance(row[1], int)) == peak.total_bytes
    assert sum(live.owned_bytes for live in peak.live) == peak.total_bytes


def test_without_a_schedule_there_is_no_peak() -> None:
    assert peak_memory(layout(schedule=None)) is None
    assert memory_timeline(layout(schedule=None)) is None


def test_timeline_has_one_instant_more_than_the_schedule() -> None:
    timeline = memory_timeline(layout())
    assert timeline is not None
    assert timeline.series == (100, 140, 164, 172, 108)
    assert list(timeline.rows())[-1] == (4, None, 108)


def test_statement_keeps_host_memory_apart() -> None:
    statement = memory_statement(layout(), backend="gpu")
    assert statement.argument_bytes == 100
    assert statement.output_bytes == 8
    assert statement.temp_bytes == 64
    assert statement.host_bytes == (0, 0, 0, 1000)
    assert [space.name for space in statement.spaces] == ["device", "host"]
    assert statement.spaces[0].fragmentation_bytes == 0
    assert statement.total_bytes == 1176


def test_a_donated_argument_is_in_arguments_and_outputs() -> None:
    donated = MemoryLayout(
        source="buffer-assignment",
        allocations=(
            LaidAllocation(
                index=0, size=9, color=0, category="argument", is_output=True, parameter_number=0
            ),
        ),
        values=(),
    )
    statement = memory_statement(donated, backend="cpu")
    assert (statement.argument_bytes, statement.alias_bytes, statement.output_bytes) == (9, 9, 9)


def tpu(shape: str, name: str = "v") -> MemoryLayout:
    return MemoryLayout(
        source="buffer-assignment",
        allocations=(LaidAllocation(index=0, size=512, color=0, category="temp"),),
        values=(LaidValue(f"{name}{{}}", name, (), 0, 0, 512, None, None, shape),),
    )


@pytest.mark.parametrize(
    ("shape", "opcode", "temp"),
    [
        ("f32[8]{0:T(128)}", "fusion", 16384),
        ("(f32[8]{0:T(128)})", "tuple", 0),
        ("s32[]{:T(128)}", "copy", 0),
        ("s32[]{:T(128)}", "fusion", 16384),
        ("pred[]{:T(512)}", "compare", 0),
        ("f32[]{:T(128)}", "copy", 16384),
    ],
)
def test_tables_and_integer_scalars_are_never_in_hbm(shape: str, opcode: str, temp: int) -> None:
    statement = memory_statement(
        tpu(shape), backend="tpu", opcodes={"v": opcode}, is_exact_tpu=True
    )
    assert statement.temp_bytes == temp
    assert statement.temp_range == (temp, temp)


def test_older_libtpu_gives_a_range() -> None:
    statement = memory_statement(tpu("f32[8]{0}"), backend="tpu", opcodes={"v": "fusion"})
    assert statement.temp_range == (16384, 32768)
    assert any("least" in note for note in statement.notes)


def test_spaces_have_the_names_of_their_backend() -> None:
    assert space_name(1, "tpu") == "VMEM"
    assert space_name(1, "gpu") == "collective"
    assert space_name(5, None) == "host"
    assert space_name(77, "tpu") == "color 77"


TEXT = """HloModule m, is_scheduled=true

%body (q: (s32[], f32[2])) -> (s32[], f32[2]) {
  %q = (s32[], f32[2]) parameter(0)
  %i = s32[] get-tuple-element(%q), index=0
  %x = f32[2] get-tuple-element(%q), index=1
  %y = f32[2] negate(%x), metadata={op_name="jit(f)/while/body/neg" source_file="f.py" \
source_line=7}
  ROOT %t = (s32[], f32[2]) tuple(%i, %y)
}

%cond (r: (s32[], f32[2])) -> pred[] {
  %r = (s32[], f32[2]) parameter(0)
  ROOT %k = pred[] constant(false)
}

ENTRY %main (p: f32[2]) -> f32[2] {
  %p = f32[2] parameter(0), metadata={op_name="params['a/b']"}
  %z = s32[] constant(0)
  %a = f32[2] exponential(%p), metadata={op_name="jit(f)/exp" source_file="f.py" source_line=3}
  %init = (s32[], f32[2]) tuple(%z, %a)
  %w = (s32[], f32[2]) while(%init), condition=%cond, body=%body
  ROOT %out = f32[2] get-tuple-element(%w), index=1
}
"""


def program() -> MemoryLayout:
    return MemoryLayout(
        source="buffer-assignment",
        allocations=(
            LaidAllocation(index=0, size=8, color=0, category="argument", parameter_number=0),
            LaidAllocation(index=1, size=64, color=0, category="temp"),
        ),
        values=(
            LaidValue("p{}", "p", (), 0, 0, 8, 0, 3, "f32[2]{0}"),
            LaidValue("q{1}", "q", (1,), 1, 0, 8, 0, 3, "f32[2]{0}"),
            LaidValue("y{}", "y", (), 1, 8, 8, 0, 3, "f32[2]{0}"),
            LaidValue("gone{}", "gone", (), 1, 16, 8, 0, 3, "f32[2]{0}"),
        ),
        schedule=("p", "a", "y"),
    )


def test_carried_values_belong_to_who_made_them_first() -> None:
    module = hlo_lens.parse_hlo(TEXT)
    peak = peak_memory(program())
    assert peak is not None
    makers = makers_of(module, peak.live)
    assert {name: maker.name for name, maker in makers.items()} == {
        "p{}": "p",
        "q{1}": "a",
        "y{}": "y",
    }


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("source", {"f.py:3": 8, "f.py:7": 8, "[parameters]": 8, "[unattributed]": 8}),
        ("opcode", {"exponential": 8, "negate": 8, "parameter": 8, "[unattributed]": 8}),
        ("category", {"temp": 24, "argument": 8}),
        ("param", {"0: params['a/b']": 8, "[not an argument]": 24}),
    ],
)
def test_groups_sum_to_the_peak(by: str, groups: dict[str, int]) -> None:
    peak = peak_memory(program())
    assert peak is not None
    found = memory_by(peak, by, makers_of(hlo_lens.parse_hlo(TEXT), peak.live))
    assert {name: size for name, size, _ in found.groups} == groups
    assert sum(groups.values()) == found.total_bytes == peak.total_bytes


def test_tree_joins_scopes_that_do_not_fork() -> None:
    peak = peak_memory(program())
    assert peak is not None
    by = memory_by(peak, "op", makers_of(hlo_lens.parse_hlo(TEXT), peak.live))
    rows = [(row[0], row[1]) for row in memory_tree(by).rows()]
    assert rows == [
        ("jit(f)", 16),
        ("  exp", 8),
        ("  while/body/neg", 8),
        ("[parameters]", 8),
        ("[unattributed]", 8),
    ]


def test_paths_keep_pytree_keys_whole() -> None:
    assert split_op_name("jit(f)/params['a/b']/add") == ("jit(f)", "params['a/b']", "add")


def test_loop_path_names_the_loops_outermost_first() -> None:
    module = hlo_lens.parse_hlo(TEXT)
    body = module.computation("body")
    assert body is not None
    instruction = body.instruction("y")
    assert instruction is not None
    assert loop_path(instruction, loop_of_body(module)) == ("w",)
