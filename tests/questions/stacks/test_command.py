"""``hlo-lens tree``."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from tests.call_trees.test_reader import TRACE
from tests.corpus import SAMPLES

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


def test_sample_equals_the_output_of_its_tracer() -> None:
    command = [sys.executable, str(SAMPLES / "trace_calls.py")]
    traced = subprocess.run(command, check=True, capture_output=True)
    assert traced.stdout == Path(SAMPLE).read_bytes()


def test_several_kinds_in_one_file() -> None:
    log = (SAMPLES / "logs" / "tpu_oom_libtpu_0_0_17.txt").read_text("utf-8")
    for text in (f"{TRACE}{log}", f"{log}{TRACE}"):
        _, out, _ = _run("report", "-", "-f", "json", stdin=text)
        modules = json.loads(out)["modules"]
        assert sum(module.get("log") is not None for module in modules) == 1
        assert sum(module.get("call_trees") is not None for module in modules) == 1


def test_json_has_all_nodes_as_columns() -> None:
    code, out, _ = _run("tree", SAMPLE, "-f", "json")
    assert code == 0
    (tree,) = json.loads(out)["trees"]
    columns = tree["node_columns"]
    assert {len(column) for column in columns.values()} == {133}
    assert sum(columns["own"]) == tree["total"]
    assert tree["frames"][columns["frame"][0]][0] == "main"
    assert sum(row["calls"] for row in tree["communication"]["triggers"]) == 26


def test_csv_has_all_rows() -> None:
    code, out, _ = _run("tree", SAMPLE, "-f", "csv", "--by", "function")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert sum(int(row["own"]) for row in rows) == 133


@pytest.mark.parametrize("by", ["function", "file", "package", "communication", "repeats"])
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


def test_against_a_base(tmp_path: Path) -> None:
    base = tmp_path / "base.txt"
    base.write_text(TRACE, "utf-8")
    head = tmp_path / "head.txt"
    head.write_text(TRACE.replace("save", "load"), "utf-8")
    code, out, _ = _run("tree", str(base), "--against", str(base), "--exit-code")
    assert code == 0
    assert "no difference" in out
    code, out, _ = _run("tree", str(head), "--against", str(base), "--exit-code")
    assert code == 1
    assert "1 added, 1 removed" in out
    _, out, _ = _run("tree", str(head), "--against", str(base), "-f", "json")
    (tree,) = json.loads(out)["trees"]
    assert {(c["status"], c["function"]) for c in tree["changes"]} == {
        ("added", "load"),
        ("removed", "save"),
    }


@pytest.mark.parametrize("measure", ["memory", "wire-bytes", "count"])
def test_stacks_of_a_module_sum_to_the_figures_of_its_report(measure: str) -> None:
    _, out, _ = _run("tree", DUMP, "--measure", measure, "-f", "json")
    (tree,) = json.loads(out)["trees"]
    nodes = sum(tree["node_columns"]["own"]) + sum(tree["residuals"].values())
    assert tree["measure"] == measure
    assert tree["total"] == nodes
    report = json.loads(_run("report", DUMP, "-f", "json")[1])["modules"][0]
    said = {
        "memory": report["memory"]["peak"]["bytes"],
        "wire-bytes": report["collectives"]["wire_bytes_per_device"],
        "count": report["instructions"],
    }
    assert tree["total"] == said[measure]


def test_measures_of_the_wrong_kind_of_input_are_refused() -> None:
    code, _, err = _run("tree", SAMPLE, "--measure", "memory")
    assert code == 2
    assert "a trace counts calls" in err
    code, _, err = _run("tree", DUMP, "--measure", "calls")
    assert code == 2
    assert _run("tree", DUMP, "--against", SAMPLE)[0] == 2


def test_gap_inside_a_tree_is_reported() -> None:
    lines = TRACE.splitlines()
    lines.insert(3, "Warning: slow")
    code, out, err = _run("tree", "-", "--strict", stdin="\n".join(lines))
    assert code == 4
    assert "<stdin>:4:1: error: expected a line of the tree" in err
    assert "1 gap inside the trees" in out


def test_text_without_a_tree_is_an_error() -> None:
    assert _run("tree", "-", stdin="nothing\n")[0] == 4
    assert _run("tree", "/no/such/file")[0] == 3


def test_module_without_the_measure_is_left_out_with_a_note(tmp_path: Path) -> None:
    sample = SAMPLES / "cpu" / "tp_mlp"
    for file in sample.glob("*after_optimizations*.txt"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    lone = "HloModule lone\n\nENTRY e {\n  ROOT p = f32[8]{0} parameter(0)\n}\n"
    (tmp_path / "module_0009.lone.cpu_after_optimizations.txt").write_text(lone, "utf-8")
    code, out, err = _run("tree", str(tmp_path), "--measure", "memory")
    assert (code, err) == (0, "")
    assert "jit_train_step" in out
    assert "left out: lone: memory not known" in out
    code, _, err = _run("tree", str(tmp_path), "--measure", "memory", "--module", "lone")
    assert code == 2
    assert "lone: memory not known" in err


def test_trace_next_to_a_module_is_left_out_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    (hlo,) = (SAMPLES / "tpu" / "tp_mlp").glob("*after_optimizations.txt")
    path.write_text(hlo.read_text("utf-8") + "\n" + TRACE, "utf-8")
    code, out, _ = _run("tree", str(path), "--measure", "wire-bytes")
    assert code == 0
    assert "a trace counts calls" in out
    code, out, _ = _run("tree", str(path))
    assert code == 0


@pytest.mark.parametrize("mark", ["> ", "# ", "> > "])
def test_quoted_trees_are_read(mark: str) -> None:
    for text in (TRACE, "main\n|-- step\n|   `-- f\n`-- g\n"):
        quoted = "".join(f"{mark}{line}\n" for line in text.splitlines())
        _, plain, _ = _run("tree", "-", stdin=text)
        assert _run("tree", "-", stdin=quoted) == (0, plain, "")


def test_text_without_a_tree_is_refused_with_what_is_accepted() -> None:
    code, _, err = _run("tree", "-", stdin="main\n  step\n    forward\n")
    assert code == 4
    assert "found neither HLO text nor a call tree; expected a drawn call tree" in err
