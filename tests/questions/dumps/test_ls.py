"""``hlo-lens ls``: text and JSON of a folder, and exit codes."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from hlo_lens.cli import main
from hlo_lens.questions.dumps.processes import TEXTS_COMPARED
from tests.corpus import SAMPLES
from tests.load.test_load import STAGES, hlo, write

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str | Path) -> Result:
    """Run ``hlo-lens ls``."""
    runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"})
    return runner.invoke(main, ["ls", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture(name="job")
def a_job(tmp_path: Path) -> Path:
    """Return the dumps of two processes, of which the second has another step."""
    for process in ("rank_0", "rank_1"):
        for program in ("tp_mlp", "wasteful"):
            for file in (SAMPLES / "tpu" / program).glob("module_*"):
                name = file.name.replace("module_0000", f"module_000{len(program)}")
                (tmp_path / process).mkdir(exist_ok=True)
                shutil.copyfile(file, tmp_path / process / name)
    changed = (
        tmp_path / "rank_1" / "module_0006.jit_train_step.cl_1003875606.after_optimizations.txt"
    )
    changed.write_text(changed.read_text().replace(" add(", " subtract(", 1))
    return tmp_path


def test_processes_are_compared_and_the_step_is_marked(job: Path) -> None:
    result = run(job)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "processes    2: rank_0, rank_1" in lines
    assert (
        "same on all  1 program the same; 1 program DIFFERENT (jit_train_step in rank_1)" in lines
    )
    table = lines[lines.index("Modules, largest peak first") + 2 :]
    assert [line.split()[:3] for line in table[:2]] == [
        ["step", "jit_train_step", "rank_0"],
        ["step", "jit_train_step", "rank_1"],
    ]
    words = " ".join(lines)
    assert "jit_train_step: rank_0 and rank_1 differ first at " in words
    assert ", programs/tp_mlp.py:33): opcode is add in rank_0, subtract in rank_1" in words
    assert "in all: 1 changed of 428 instructions" in words


PROGRAM = """HloModule jit_f, num_partitions=2

inner {
  %a = f32[8]{0} parameter(0)
  ROOT %b = f32[8]{0} negate(%a)
}

ENTRY %main {
  %p = f32[8]{0} parameter(0)
  %q = f32[8]{0} fusion(%p), kind=kLoop, calls=inner
  %s = f32[8]{0} sine(%p)
  ROOT %r = f32[8]{0} add(%q, %s), metadata={op_name="r" source_file="a.py" source_line=7}
}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "num_partitions=2",
            "num_partitions=4",
            "first in the header: num_partitions is 2 in rank_0, 4 in rank_1",
        ),
        (
            "add(",
            "subtract(",
            "first at r (add f32[8], in entry computation main, a.py:7): opcode is add in rank_0, "
            "subtract in rank_1",
        ),
        (
            "negate(",
            "cosine(",
            "first at b (negate f32[8], in computation inner): opcode is negate in rank_0, "
            "cosine in rank_1",
        ),
        (
            "ROOT %r = f32[8]{0} add(%q, %s)",
            "%n = f32[8]{0} all-reduce(%q), replica_groups={}, to_apply=inner\n"
            "  ROOT %r = f32[8]{0} add(%n, %s)",
            "first at n (all-reduce f32[8], in entry computation main): only rank_1 has it",
        ),
        (
            "  %q = f32[8]{0} fusion(%p), kind=kLoop, calls=inner\n  %s = f32[8]{0} sine(%p)\n",
            "  %s = f32[8]{0} sine(%p)\n  %q = f32[8]{0} fusion(%p), kind=kLoop, calls=inner\n",
            "first in order of instructions within their computation (the schedule), at main/q:",
        ),
        (
            "%q",
            "%other",
            "first in names, at main/q:   rank_0: q = ",
        ),
    ],
)
def test_first_difference_is_described(tmp_path: Path, old: str, new: str, said: str) -> None:
    for process, text in (("rank_0", PROGRAM), ("rank_1", PROGRAM.replace(old, new))):
        name = f"{process}/module_0001.jit_f.cpu_after_optimizations.txt"
        write(tmp_path, {name: text})
    notes = json.loads(run(tmp_path, "-f", "json").stdout)["across_processes"]["notes"]
    assert said in " ".join(notes)
    assert notes[-1] == TEXTS_COMPARED


def test_channel_ids_differ_between_texts_but_not_between_programs(tmp_path: Path) -> None:
    text = PROGRAM.replace(
        "sine(%p)", "all-reduce(%p), channel_id=1, replica_groups={}, to_apply=inner"
    )
    for process, channel in (("rank_0", "1"), ("rank_1", "7")):
        name = f"{process}/module_0001.jit_f.cpu_after_optimizations.txt"
        write(tmp_path, {name: text.replace("channel_id=1", f"channel_id={channel}")})
    assert "DIFFERENT" in run(tmp_path).stdout
    assert "hlo-lens diff compares programs" in " ".join(run(tmp_path).stdout.split())
    diff = CliRunner().invoke(
        main, ["diff", *(str(tmp_path / rank) for rank in ("rank_0", "rank_1"))]
    )
    assert "hlo-lens diff: no change" in diff.stdout


def test_folders_of_other_names_are_not_called_processes(tmp_path: Path) -> None:
    for folder in ("baseline", "tuned"):
        write(tmp_path, {f"{folder}/module_0001.jit_f.cpu_after_optimizations.txt": PROGRAM})
    result = run(tmp_path)
    assert "folders      2: baseline, tuned; compared as if they were processes" in result.stdout
    assert "same in all  1 program the same" in result.stdout
    assert "processes    " not in result.stdout


def test_json_has_every_module_and_every_file(job: Path) -> None:
    write(job, {"rank_0/module_0006.debug_options": "xla_dump_to: 1\n", "notes.md": "words"})
    data = json.loads(run(job, "-f", "json").stdout)
    assert (data["kind"], data["files"], len(data["modules"])) == ("ls", 28, 4)
    assert {(a["kind"], a["count"]) for a in data["skipped"]} == {
        ("text proto", 1),
        ("text of unknown kind", 1),
    }
    step = data["modules"][0]
    assert (step["name"], step["key"]) == (
        "jit_train_step",
        "module_0006.jit_train_step.cl_1003875606",
    )
    assert (step["flops"], step["peak_bytes"], step["mark"]) == (206158430208, 159456768, "step")
    assert [g["compiles"] for g in data["groups"]] == [1, 1, 1, 1]
    verdicts = [row["verdict"] for row in data["across_processes"]["rows"]]
    assert verdicts == ["different", "same"]


def test_compiles_of_one_function_are_one_row_without_each(tmp_path: Path) -> None:
    for k in range(3):
        text = hlo("jit_f").replace("f32[8]", f"f32[{8 + k // 2}]")
        write(tmp_path, {f"module_000{k}.jit_f.before_optimizations.txt": text})
    data = json.loads(run(tmp_path, "-f", "json").stdout)
    assert [(g["compiles"], g["signatures"]) for g in data["groups"]] == [(3, 2)]
    assert "0: f32[8] -> f32[9]" in run(tmp_path).stdout
    data = json.loads(run(tmp_path, "--each", "-f", "json").stdout)
    assert [g["compiles"] for g in data["groups"]] == [1, 1, 1]


def test_bad_module_is_listed_with_its_problem(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            **STAGES,
            "module_0001.jit_g.before_optimizations.txt": "HloModule jit_g\n\n!!!\n",
            "module_0002.jit_h.before_optimizations.txt": hlo("jit_h").replace("f32[8] n", "@@"),
        },
    )
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "modules  3 modules of 3 names" in result.stdout
    assert "gaps in" in result.stdout
    assert run(tmp_path, "--strict").exit_code == 4
    assert run(tmp_path, "--min-coverage", "99").exit_code == 4
    assert run(tmp_path, "--module", "jit_f", "--strict").exit_code == 0


@pytest.mark.parametrize("sort", ["peak", "size", "flops", "name"])
def test_every_order_can_be_chosen(job: Path, sort: str) -> None:
    data = json.loads(run(job, "--sort", sort, "-f", "json").stdout)
    assert len(data["groups"]) == 4


def test_single_file_can_be_listed(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": hlo("a") + hlo("b", opcode="sine")})
    data = json.loads(run(tmp_path / "a.txt", "-f", "json").stdout)
    assert [m["name"] for m in data["modules"]] == ["a", "b"]


def test_folder_without_dumps_is_unreadable(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 3
    assert "no HLO text in it; it holds no file at all" in result.stderr


def test_memory_left_out_for_size_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"module_0001.jit_f.cpu_after_optimizations.txt": hlo("jit_f")})
    text = hlo("jit_f").replace("HloModule jit_f", "HloModule jit_f, is_scheduled=true", 1)
    (tmp_path / "module_0001.jit_f.cpu_after_optimizations.txt").write_text(text)
    monkeypatch.setattr("hlo_lens.questions.memory.results.MOST_ESTIMATED", 1)
    monkeypatch.setattr("hlo_lens.questions.dumps.page.MOST_ESTIMATED", 1)
    out = " ".join(run(tmp_path).stdout.split())
    note = "memory of 1 module of more than 1 instructions is not estimated; for an estimate: "
    assert f"{note}hlo-lens memory PATH" in out
    report = CliRunner().invoke(main, ["report", str(tmp_path)], env={"COLUMNS": "300"}).stdout
    command = f"hlo-lens memory {tmp_path} --module module_0001.jit_f"
    assert f"not estimated: 2 instructions, more than 1; for an estimate: {command}" in report
    data = CliRunner().invoke(main, ["report", str(tmp_path), "-f", "json"]).stdout
    module = json.loads(data)["modules"][0]
    assert (module["memory"], module["is_estimate_left_out"]) == (None, True)


def test_csv_has_the_module_of_each_row_first() -> None:
    text = run(SAMPLES / "cpu" / "tp_mlp", "-f", "csv").stdout
    first, *rows = text.split("\n\n")[0].splitlines()
    assert first.split(",")[:2] == ["module", "table"]
    assert "name" not in first.split(",")
    assert {row.split(",")[0] for row in rows} == {"jit_train_step"}
