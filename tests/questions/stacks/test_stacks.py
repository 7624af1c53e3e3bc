"""Call trees of a module: they sum to the figures of other passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.load import load
from hlo_lens.program.origins import Origins
from hlo_lens.program.summary import hlo_text, instruction_table
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.grouping import memory_by
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.stacks.stacks import count_call_tree, memory_call_tree, wire_call_tree
from tests.corpus import SAMPLES
from tests.questions.texts import module_of

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.call_trees.tree import CallTree

FOLDERS = sorted(path for path in SAMPLES.glob("*/*") if (path / "expect.json").is_file())


def stacks(tree: CallTree) -> dict[str, int]:
    """Return own amounts by stack, innermost first, as ``memory --by stack`` labels them."""
    found: dict[str, int] = {}
    for node, amount in enumerate(tree.own):
        if amount:
            frames = [tree.frame(at) for at in reversed(tree.stack(node))]
            label = " < ".join(f"{f.function or '?'} ({f.place})" for f in frames)
            found[label] = found.get(label, 0) + amount
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_trees_sum_to_the_figures_of_other_passes(folder: Path) -> None:
    (dump,) = [m for m in load(folder).modules if m.hlo is not None][:1]
    module, table = hlo_text(dump), instruction_table(dump)
    assert count_call_tree(table, Origins(module)).total == len(table.opcodes)
    found = collectives(dump)
    wire = wire_call_tree(module, found)
    known = [c.wire_bytes_per_run for c in found.collectives]
    assert wire.unknown_total == known.count(None)
    assert wire.total == sum(size for size in known if size is not None)
    memory = memory_results(dump)
    assert memory is not None
    assert memory.peak is not None
    tree = memory_call_tree(memory.peak)
    assert tree.total == memory.peak.total_bytes
    groups = memory_by(memory.peak, "stack").groups
    by_stack = {one.group: one.size_bytes for one in groups if one.size_bytes}
    if any(" < " in label for label in by_stack):
        assert stacks(tree) == {k: v for k, v in by_stack.items() if k[0] != "["}
        assert {k: v for k, v in tree.residuals if v} == {
            k: v for k, v in by_stack.items() if k[0] == "["
        }


TEXT = """
HloModule m, is_scheduled=true, num_partitions=4

FileNames
1 "train.py"

FunctionNames
1 "main"
2 "step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=9 end_line=9 column=1 end_column=2}
2 {file_name_id=1 function_name_id=2 line=4 end_line=4 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

ENTRY %e (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %a = f32[8]{0} all-reduce(%p), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%sum, metadata={stack_frame_id=2}
  %b = f32[8]{0} all-reduce(%a), channel_id=2, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%sum
  ROOT %c = f32[8]{0} negate(%b), metadata={source_file="other.py" source_line=3}
}
"""  # noqa: E501 # HLO text


def test_stack_of_a_value_without_one_is_inferred_and_a_source_line_is_a_stack() -> None:
    dump = module_of(TEXT)
    module, table = hlo_text(dump), instruction_table(dump)
    wire = wire_call_tree(module, collectives(dump))
    assert [(str(wire.frame(n)), wire.own[n]) for n in range(len(wire))] == [
        ("main, train.py:9", 0),
        ("step, train.py:4", 96),
    ]
    assert wire.residuals == ()
    count = count_call_tree(table, Origins(module))
    assert [(str(count.frame(n)), count.own[n]) for n in range(len(count))] == [
        ("main, train.py:9", 0),
        ("step, train.py:4", 2),
        ("other.py:3", 1),
    ]
    assert count.residuals == (("[parameters]", 1),)


def test_unknown_trip_counts_are_unknown_amounts() -> None:
    dump = load(SAMPLES / "cpu" / "shard_map_collectives").modules[0]
    assert dump.hlo is not None
    found = collectives(dump)
    tree = wire_call_tree(dump.hlo, found)
    assert found.wire_bytes_per_device is None
    assert tree.unknown_total == sum(c.wire_bytes_per_run is None for c in found.collectives) > 0


BRANCHES = """
HloModule m, is_scheduled=true, num_partitions=4

%large (q: f32[8]) -> f32[8] {
  %q = f32[8]{0} parameter(0)
  ROOT %a = f32[8]{0} all-reduce(%q), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=%sum, metadata={source_file="m.py" source_line=3}
}

%small (u: f32[8]) -> f32[8] {
  %u = f32[8]{0} parameter(0)
  %d = f32[4]{0} slice(%u), slice={[0:4]}
  %b = f32[4]{0} all-reduce(%d), channel_id=2, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=%sum, metadata={source_file="m.py" source_line=4}
  ROOT %e = f32[8]{0} concatenate(%b, %b), dimensions={0}
}

ENTRY %e (p: f32[8], i: s32[]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %i = s32[] parameter(1)
  ROOT %c = f32[8]{0} conditional(%i, %p, %p), branch_computations={%large, %small}
}
"""  # noqa: E501 # HLO text


def test_branches_that_exclude_each_other_are_bounded_by_the_largest() -> None:
    module = module_of(BRANCHES)
    found = collectives(module)
    tree = wire_call_tree(hlo_text(module), found)
    assert tree.total == 32 + 16
    assert tree.upper_bound == found.wire_bytes_per_device == 32


def test_exact_amounts_have_no_upper_bound() -> None:
    module = module_of(TEXT)
    assert wire_call_tree(hlo_text(module), collectives(module)).upper_bound is None
