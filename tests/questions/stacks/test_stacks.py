"""``hlo-lens tree``: traces, and stacks of a module, which sum to the figures of other passes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from hlo_lens.load import load
from hlo_lens.program.origins import Origins
from hlo_lens.program.summary import hlo_text, instruction_table
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.peak import memory_by
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.stacks.command import count_call_tree, memory_call_tree, wire_call_tree
from tests.call_trees.test_reader import TRACE
from tests.corpus import SAMPLES
from tests.questions.texts import module_of

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.call_trees.tree import CallTree


FOLDERS = sorted(path for path in SAMPLES.glob("*/*") if (path / "expect.json").is_file())


def stacks(tree: CallTree) -> dict[str, int]:
    """Return own amounts by stack, innermost first, as ``memory --by stack`` labels them."""
    found: dict[str, int] = {}
    for place, amount in enumerate(tree.own):
        node = place
        if amount:
            frames = []
            while node >= 0:
                frames.append(tree.frame(node))
                node = tree.parents[node]
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


SAMPLE = str(SAMPLES / "logs" / "traced_dtensor.txt")
DUMP = str(SAMPLES / "tpu" / "tp_mlp")


def _run(*arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
    result = runner.invoke(main, arguments, input=stdin)
    return result.exit_code, result.stdout, result.stderr


def test_report_recognises_a_call_tree_by_its_content() -> None:
    code, out, err = _run("report", "-", stdin=f"step 1 done\n{TRACE}")
    assert (code, err) == (0, "")
    assert "calls          5 of 4 functions in 2 files, 3 levels deep" in out
    assert "1 line of no tree passed over, the first is line 1" in out
    _, out, _ = _run("report", SAMPLE, "-f", "json")
    (module,) = json.loads(out)["modules"]
    (tree,) = module["call_trees"]["trees"]
    assert (tree["total"], tree["functions"], tree["depth"]) == (133, 23, 8)


def test_json_has_all_nodes_as_columns() -> None:
    code, out, _ = _run("tree", SAMPLE, "-f", "json")
    assert code == 0
    (tree,) = json.loads(out)["trees"]
    columns = tree["node_columns"]
    assert {len(column) for column in columns.values()} == {133}
    assert sum(columns["own"]) == tree["total"]
    assert tree["frames"][columns["frame"][0]][0] == "main"
    assert sum(row["calls"] for row in tree["communication"]["triggers"]) == 26


@pytest.mark.parametrize("by", ["function", "file", "package", "communication"])
def test_each_table_alone(by: str) -> None:
    code, out, err = _run("tree", SAMPLE, "--by", by, "--sort", "total")
    assert (code, err) == (0, "")
    assert "├─" not in out


def test_folded_stacks(tmp_path: Path) -> None:
    file = tmp_path / "calls.folded"
    assert _run("tree", SAMPLE, "--folded", str(file))[:2] == (0, "")
    lines = file.read_text("utf-8").splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 133
    code, out, _ = _run("tree", SAMPLE, "--folded", "-")
    assert (code, out.splitlines()) == (0, lines)
    assert _run("tree", SAMPLE, "--folded", str(tmp_path / "no" / "x"))[0] == 5


def test_measures_of_the_wrong_kind_of_input_are_refused() -> None:
    code, _, err = _run("tree", SAMPLE, "--measure", "memory")
    assert code == 2
    assert "a trace counts calls" in err
    code, _, err = _run("tree", DUMP, "--measure", "calls")
    assert code == 2


def test_gap_inside_a_tree_is_reported() -> None:
    lines = TRACE.splitlines()
    lines.insert(3, "Warning: slow")
    code, out, err = _run("tree", "-", "--strict", stdin="\n".join(lines))
    assert code == 4
    assert "<stdin>:4:1: error: expected a line of the tree" in err
    assert "1 gap inside the trees" in out


def test_text_without_a_tree_is_refused_with_what_is_accepted() -> None:
    code, _, err = _run("tree", "-", stdin="main\n  step\n    forward\n")
    assert code == 4
    assert "found neither HLO text nor a call tree; expected a drawn call tree" in err
