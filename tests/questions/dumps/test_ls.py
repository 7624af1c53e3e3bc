"""``hlo-lens ls``: groups, the likely step, retraces, differences between processes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.questions.dumps.groups import across_processes, module_groups
from hlo_lens.questions.dumps.listing import ListingFacts, fingerprint, hashed_facts
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
    folders = f"{job / 'rank_0'} {job / 'rank_1'}"
    command = f"hlo-lens diff {folders} --module jit_train_step"
    assert f"what differs in jit_train_step: {command}" in " ".join(lines)


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


def test_channel_ids_differ_between_texts_but_not_between_programs(tmp_path: Path) -> None:
    text = PROGRAM.replace(
        "sine(%p)", "all-reduce(%p), channel_id=1, replica_groups={}, to_apply=inner"
    )
    for process, channel in (("rank_0", "1"), ("rank_1", "7")):
        name = f"{process}/module_0001.jit_f.cpu_after_optimizations.txt"
        write(tmp_path, {name: text.replace("channel_id=1", f"channel_id={channel}")})
    assert "DIFFERENT" in run(tmp_path).stdout
    diff = CliRunner().invoke(
        main, ["diff", *(str(tmp_path / rank) for rank in ("rank_0", "rank_1"))]
    )
    assert "hlo-lens diff: no change" in diff.stdout


def test_a_cut_text_is_named_first_and_ends_with_4(tmp_path: Path) -> None:
    write(tmp_path, {"module_0001.jit_f.cpu_after_optimizations.txt": PROGRAM[:-20]})
    result = run(tmp_path)
    assert result.stdout.splitlines()[1].startswith("cut      module_0001.jit_f: the text ends too")
    assert result.exit_code == 4


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
    data = json.loads(run(tmp_path, "--each", "-f", "json").stdout)
    assert [g["compiles"] for g in data["groups"]] == [1, 1, 1]


def test_bad_module_is_listed_with_its_problem(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            **STAGES,
            "module_0001.jit_g.before_optimizations.txt": hlo("jit_g") + "!!!\n",
            "module_0002.jit_h.before_optimizations.txt": hlo("jit_h").replace("f32[8] n", "@@"),
        },
    )
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "modules  3 modules of 3 names" in result.stdout
    assert "1 gap in" in result.stdout
    assert run(tmp_path, "--strict").exit_code == 4
    assert run(tmp_path, "--min-coverage", "99").exit_code == 4
    assert run(tmp_path, "--module", "jit_f", "--strict").exit_code == 0


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


def some(name: str, number: int, **changes: object) -> ListingFacts:
    """Return the facts of a module."""
    facts = ListingFacts(
        name=name,
        key=f"module_{number:04}.{name}",
        number=number,
        folder="",
        stage="after_optimizations",
        stages=2,
        passes=0,
        files=6,
        signature=("f32[8]",),
        fingerprint="print",
    )
    return replace(facts, **changes)  # type: ignore[arg-type] # any field


STEP = some("jit_step", 3, peak_bytes=900, flops=700, flops_at_least=700, instructions=50)
EVAL = some("jit_eval", 4, peak_bytes=300, flops=200, flops_at_least=200, instructions=60)
UNDIVIDED = replace(EVAL, stage="before_optimizations", devices=8, peak_bytes=None)
HELPER = some("jit_add", 1, peak_bytes=8, flops=0, flops_at_least=0, instructions=3)


def test_compiles_of_one_function_are_one_group_whose_largest_is_shown() -> None:
    again = replace(STEP, number=9, peak_bytes=1000, signature=("f32[9]",))
    same = replace(STEP, number=8)
    (step, _) = module_groups([HELPER, STEP, same, again]).groups
    assert (step.name, len(step.modules), step.largest.number) == ("jit_step", 3, 9)
    assert [*step.shapes.items()] == [(("f32[8]",), 2), (("f32[9]",), 1)]
    each = module_groups([HELPER, STEP, same, again], is_grouped=False)
    assert [g.largest.number for g in each.groups] == [9, 3, 8, 1]


def test_text_without_a_number_is_no_retrace() -> None:
    text = replace(STEP, number=None, key="compiled.txt", stages=0)
    found = module_groups([replace(text, folder="other"), STEP, text]).groups
    assert [(len(g.modules), g.mark) for g in found if g.largest.number is None] == [(1, None)] * 2
    assert [(len(g.modules), g.mark) for g in found if g.largest.number == 3] == [(1, "step")]
    assert [g.mark for g in module_groups([text]).groups] == ["step"]


@pytest.mark.parametrize(
    ("modules", "marks"),
    [
        ([STEP, EVAL, HELPER], {"jit_step": "step"}),
        (
            [STEP, EVAL, replace(HELPER, peak_bytes=5000)],
            {"jit_step": "step", "jit_add": "largest memory"},
        ),
        (
            [STEP, EVAL, replace(HELPER, peak_bytes=5000, opaque=1)],
            {"jit_step": "most flops", "jit_add": "largest memory"},
        ),
        (
            [STEP, replace(UNDIVIDED, flops=8 * 699)],
            {"jit_step": "step"},
        ),
        (
            [STEP, replace(UNDIVIDED, flops=8 * 701)],
            {"jit_step": "largest memory", "jit_eval": "most flops"},
        ),
        (
            [STEP, replace(EVAL, peak_bytes=5000), HELPER],
            {"jit_step": "most flops", "jit_eval": "largest memory"},
        ),
        (
            [replace(STEP, peak_bytes=None), EVAL],
            {"jit_step": "most flops", "jit_eval": "largest memory"},
        ),
        ([replace(STEP, peak_bytes=None), replace(EVAL, peak_bytes=None)], {"jit_step": "step"}),
        ([replace(STEP, flops=None, flops_at_least=701), EVAL], {"jit_step": "step"}),
        ([HELPER], {"jit_add": "step"}),
        ([replace(HELPER, peak_bytes=None)], {}),
        ([replace(STEP, stages=0, passes=4), EVAL], {"jit_eval": "step"}),
    ],
)
def test_step_has_most_arithmetic_and_memory(
    modules: list[ListingFacts], marks: dict[str, str]
) -> None:
    assert {g.name: g.mark for g in module_groups(modules).groups if g.mark} == marks


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("peak", ["jit_step", "jit_eval", "jit_add"]),
        ("size", ["jit_eval", "jit_step", "jit_add"]),
        ("flops", ["jit_step", "jit_eval", "jit_add"]),
        ("name", ["jit_add", "jit_eval", "jit_step"]),
    ],
)
def test_order_is_the_one_asked_for(sort: str, names: list[str]) -> None:
    assert [g.name for g in module_groups([HELPER, STEP, EVAL], sort=sort).groups] == names


@pytest.mark.parametrize(
    ("folder", "process"),
    [
        ("", ""),
        ("rank_0", "rank_0"),
        ("jit_step/host_17", "host_17"),
        ("a/jit_step/host_17", "a/host_17"),
    ],
)
def test_process_is_the_folder_without_the_name_of_the_module(folder: str, process: str) -> None:
    assert replace(STEP, folder=folder).process == process


def test_processes_are_compared_compile_by_compile() -> None:
    other = "other"
    modules = [
        replace(STEP, folder="a"),
        replace(EVAL, folder="a"),
        replace(HELPER, folder="a"),
        replace(HELPER, folder="a", number=2),
        replace(STEP, folder="b", number=13),
        replace(EVAL, folder="b"),
        replace(HELPER, folder="b"),
        replace(STEP, folder="c", fingerprint=other),
        replace(EVAL, folder="c"),
        replace(HELPER, folder="c", fingerprint=None, problem="no"),
    ]
    found = across_processes(modules)
    assert found.processes == ("a", "b", "c")
    assert list(found.rows()) == [
        ("jit_step", 0, "different", 3, "c"),
        ("jit_add", 0, "not known", 3, "c"),
        ("jit_add", 1, "not in all processes", 1, "b"),
        ("jit_eval", 0, "same", 3, None),
    ]
    assert found.programs[0].modules == (0, 7)


def test_one_more_compile_in_one_process_shifts_no_others() -> None:
    prints = {k: f"print {k}" for k in "abcd"}

    def compiles(folder: str, *kinds: str) -> list[ListingFacts]:
        return [
            replace(
                STEP, folder=folder, number=k, fingerprint=prints[kind], signature=(f"f32[{kind}]",)
            )
            for k, kind in enumerate(kinds)
        ]

    found = across_processes([*compiles("host0", *"abc"), *compiles("host1", *"adbc")])
    assert list(found.rows()) == [
        ("jit_step", 2, "not in all processes", 1, "host0"),
        ("jit_step", 0, "same", 2, None),
        ("jit_step", 1, "same", 2, None),
        ("jit_step", 3, "same", 2, None),
    ]


def test_different_programs_are_paired_by_their_shapes_before_their_order() -> None:
    one = replace(STEP, folder="host0", signature=("f32[1]",))
    two = replace(STEP, folder="host0", number=4, signature=("f32[2]",))
    other = "x"
    same = replace(one, folder="host1", number=8)
    changed = replace(two, folder="host1", number=7, fingerprint=other)
    two = replace(two, fingerprint="u")
    found = across_processes([one, two, changed, same])
    assert [(p.verdict, p.modules) for p in found.programs] == [
        ("different", (1, 2)),
        ("same", None),
    ]


@pytest.mark.parametrize(
    ("folders", "are_processes"),
    [
        (("rank_0", "rank_1"), True),
        (("dump/host0", "dump/host1"), True),
        (("0", "1", "10"), True),
        (("10.0.0.1", "10.0.0.2"), True),
        (("t1v-n-1a2b-w-0", "t1v-n-1a2b-w-1"), True),
        (("process-3", "Process-4"), True),
        (("jax-0.10.2", "jax-0.12.0"), False),
        (("host0.tar.gz/tmp/dump", "host1.tar.gz/tmp/dump"), True),
        (("baseline", "tuned"), False),
        (("exp1", "exp2"), False),
        (("jit_step/me_17", "jit_step/me_18"), True),
    ],
)
def test_processes_are_recognized_by_folder_names(
    folders: tuple[str, ...], are_processes: bool
) -> None:
    found = across_processes([replace(STEP, folder=folder) for folder in folders])
    assert found.are_processes is are_processes


BASE = """HloModule m, num_partitions=2

f { %a = f32[8] parameter(0)
  ROOT %b = f32[8] negate(%a) }

ENTRY %e (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0), metadata={op_name="p" source_file="/a/b.py" x={1}}
  %q = f32[8]{0} fusion(%p), kind=kLoop, calls=f, metadata={op_name="q}" source_line=3}
  ROOT %r = f32[8]{0} add(%q, %p), backend_config={"a":"q"}
}
"""


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("x={1}", "x={2}", True),
        ("source_line=3", "source_line=4 stack_frame_id=7", True),
        ("%q", "%other", True),
        ("calls=f", "calls=%e", False),
        ("add(%q, %p)", "add(%p, %q)", False),
        ("add(", "subtract(", False),
        ('"a":"q"', '"a":"p"', False),
        ("num_partitions=2", "num_partitions=4", False),
        ("f32[8]{0} add", "f32[8]{0:T(8)} add", False),
    ],
)
def test_fingerprints_ignore_metadata_and_names(old: str, new: str, is_same: bool) -> None:
    base, head = hlo_lens.parse_hlo(BASE), hlo_lens.parse_hlo(BASE.replace(old, new))
    assert (fingerprint(base) == fingerprint(head)) is is_same
    renamed = hlo_lens.parse_hlo(BASE.replace("f {", "g {").replace("calls=f", "calls=g"))
    assert fingerprint(base) == fingerprint(renamed)


def test_facts_of_a_sample() -> None:
    folder = SAMPLES / "tpu" / "tp_mlp"
    (dump,) = hlo_lens.load(folder).modules
    facts = hashed_facts(dump)
    files = len(list(folder.glob("module_*")))
    assert (facts.name, facts.number, facts.stages, facts.files) == ("jit_train_step", 0, 2, files)
    assert (facts.backend, facts.partitions, facts.instructions) == ("tpu", 8, 428)
    assert (facts.peak_bytes, facts.flops) == (159456768, 206158430208)
    assert facts.total_bytes == 160226304
    assert facts.signature is not None
    assert len(facts.signature) == 6
    assert (facts.coverage, facts.gaps, facts.problem) == (1.0, 0, None)
