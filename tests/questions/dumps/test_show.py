"""``hlo-lens show``: single instructions, computations, and all instructions."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from click.testing import Result

DUMP = str(SAMPLES / "tpu" / "tp_mlp")

TEXT = """HloModule m, is_scheduled=true

add {
  a = f32[] parameter(0)
  ROOT s = f32[] add(a, a)
}

twice {
  a = f32[8]{0} parameter(0)
  ROOT s = f32[8]{0} add(a, a)
}

ENTRY main {
  p = f32[8]{0} parameter(0), sharding={devices=[2]<=[2]}
  q = f32[8]{0} negate(p), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=3}
  c = f32[8]{0} call(q), to_apply=twice, control-predecessors={p}
  ROOT t = (f32[8]{0}, f32[8]{0}) tuple(c, gone)
}
"""


def run(*arguments: str, stdin: str | None = None) -> Result:
    runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"})
    return runner.invoke(main, ["show", *arguments], input=stdin)


def shown(*names: str, dump: str = DUMP, stdin: str | None = None) -> list[dict[str, Any]]:
    """Return the instructions of some names."""
    result = run(dump, *names, "-f", "json", stdin=stdin)
    assert result.exit_code == 0, result.output
    (module,) = json.loads(result.stdout)["modules"]
    found: list[dict[str, Any]] = module["instructions"]
    return found


def test_names_of_arguments_are_those_that_tables_print() -> None:
    (one,) = shown("params['w_in']")
    assert (one["name"], one["opcode"], one["op_name"]) == (
        "param.6",
        "parameter",
        "params['w_in']",
    )
    assert {one["op_name"] for one in shown("params")} == {
        f"params['{name}']" for name in ("b_in", "b_out", "w_in", "w_out")
    }
    assert "no instruction, computation or argument is named 'parms'" in run(DUMP, "parms").stderr


def test_text_has_what_the_dump_has() -> None:
    (one,) = shown("all-reduce.11")
    text = next(SAMPLES.glob("tpu/tp_mlp/*.after_optimizations.txt")).read_text("utf-8")
    assert text.splitlines()[one["line"] - 1].strip().removeprefix("%") == one["text"]
    assert (one["opcode"], one["dynamic_count"], one["loop_path"]) == (
        "all-reduce",
        4,
        ["while.36"],
    )
    assert f"{one['source_file']}:{one['source_line']}" == one["stack"][0].partition(" (")[0]
    output = run(DUMP, "all-reduce.11").stdout
    assert "instruction  all-reduce.11, all-reduce" in output
    assert "stack        programs/tp_mlp.py:34 (loss.<locals>.layer)" in output


@pytest.mark.parametrize("name", ["%all-reduce.11", "all-reduce.11{}", "...-reduce.11"])
def test_printed_forms_of_a_name_are_taken(name: str) -> None:
    assert [one["name"] for one in shown(name)] == ["all-reduce.11"]


def test_neighbours_are_listed_with_their_roles() -> None:
    q, c, t = shown("q", "c", "t", dump="-", stdin=TEXT)
    assert [(one["place"], one["name"]) for one in q["operands"]] == [("0", "p")]
    assert [(one["place"], one["name"]) for one in q["users"]] == [("0", "c")]
    assert [one["name"] for one in c["control_predecessors"]] == ["p"]
    assert [(o["place"], o["name"]) for o in c["called_computations"]] == [("to_apply", "twice")]
    assert [(one["name"], one["opcode"]) for one in t["operands"]] == [
        ("c", "call"),
        ("gone", None),
    ]
    assert t["is_root"] is True
    assert (q["source_file"], q["source_line"], q["op_name"]) == ("f.py", 3, "jit(f)/neg")


def test_instructions_of_one_name_are_all_shown_without_memory_that_may_be_of_another() -> None:
    found = shown("s", dump="-", stdin=TEXT)
    assert [one["computation"] for one in found] == ["add", "twice"]
    assert found[0]["callers"] == []
    assert [one["name"] for one in found[1]["callers"]] == ["c"]
    assert found[1]["values"] is None
    assert (
        "memory is not known: other instructions have this name too"
        in run("-", "s", stdin=TEXT).stdout
    )


def test_a_tuple_passes_on_the_values_of_its_elements() -> None:
    (loop,) = shown("tuple.74")
    own = {one["value"] for one in loop["values"] if one["is_own"]}
    passed = {one["value"] for one in loop["values"] if not one["is_own"]}
    assert own <= {"tuple.74{}"}
    assert "convert.41{}" in passed


def test_a_fused_instruction_has_no_memory() -> None:
    (fusion,) = shown("fusion.60")
    (called,) = fusion["called_computations"]
    listing = json.loads(run(DUMP, called["name"], "-f", "json").stdout)["modules"][0]
    assert listing["instructions"] == []
    name = listing["rows"][-1]["name"]
    assert shown(name)[0]["values"] == []
    assert "no memory of its own" in run(DUMP, name).stdout


def test_without_a_name_all_instructions_are_listed() -> None:
    (module,) = json.loads(run(DUMP, "-f", "json").stdout)["modules"]
    report = CliRunner().invoke(main, ["report", DUMP, "-f", "json"])
    assert len(module["rows"]) == json.loads(report.stdout)["modules"][0]["instructions"]
    assert "[425 others]" in run(DUMP, "-n", "3").stdout
    rows = list(csv.DictReader(io.StringIO(run(DUMP, "-f", "csv").stdout)))
    assert [row["name"] for row in rows] == [row["name"] for row in module["rows"]]


def test_values_are_those_of_the_memory_command() -> None:
    made = CliRunner().invoke(main, ["memory", DUMP, "-f", "json", "-n", "0"])
    live = json.loads(made.stdout)["modules"][0]["memory"]["peak"]["live"]
    temporaries = [one for one in live if one["category"] == "temp"]
    names = [one["value"] for one in temporaries]
    known = {value["value"]: value for one in shown(*names) for value in one["values"]}
    for one in temporaries:
        same = ("size_bytes", "allocation", "offset", "start", "end", "shape", "category")
        assert {key: known[one["value"]][key] for key in same} == {key: one[key] for key in same}


def test_unknown_names_have_the_nearest() -> None:
    result = run(DUMP, "al-reduce.11")
    assert result.exit_code == 2
    message = "no instruction, computation or argument is named 'al-reduce.11'"
    assert f"{message}; did you mean all-reduce.11" in result.stderr


def test_modules_without_the_name_are_left_out() -> None:
    result = run(str(SAMPLES / "pairs" / "tpu" / "base.tar.xz"), "-f", "json")
    names = [row["name"] for row in json.loads(result.stdout)["modules"][0]["rows"]]
    every = run(str(SAMPLES / "tpu"), "all-reduce.11", "-f", "json")
    modules = json.loads(every.stdout)["modules"]
    assert names
    assert all(one["name"] == "all-reduce.11" for m in modules for one in m["instructions"])
    assert all(module["instructions"] for module in modules)
