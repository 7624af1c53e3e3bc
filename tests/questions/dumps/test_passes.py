"""``hlo-lens passes``: passes in which something appears, changes or disappears."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from hlo_lens import HloLensError, load
from hlo_lens.cli import main
from hlo_lens.questions.dumps.passes import (
    PassTrack,
    kind_of,
    modules_with_passes,
    pass_of,
    track,
    tracked_stages,
)
from tests.corpus import SAMPLES
from tests.load.test_load import write

if TYPE_CHECKING:
    from pathlib import Path


HEAD = (
    "HloModule m{alias}\n\nENTRY e {{\n  p = f32[8] parameter(0)\n{lines}"
    "  ROOT r = f32[8] negate({of})\n}}\n"
)
COPY = "  c = f32[8] copy(p)\n"
ALIAS = ", input_output_alias={ {}: (0, {}, may-alias) }"

PASSES = [
    ("before_optimizations", HEAD.format(alias=ALIAS, lines="", of="p")),
    ("0000.outer.after_pipeline-start.before_one", HEAD.format(alias=ALIAS, lines="", of="p")),
    ("0001.outer.after_one.before_two", HEAD.format(alias=ALIAS, lines=COPY, of="c")),
    (
        "0002.inner.after_pipeline-start.before_three",
        HEAD.format(alias="", lines=COPY + COPY.replace("c =", "d ="), of="c"),
    ),
    ("0003.inner.after_three.before_pipeline-end", HEAD.format(alias="", lines=COPY, of="c")),
    ("0004.outer.after_two.before_four", HEAD.format(alias="", lines=COPY, of="c")),
    ("0005.next.after_pipeline-start.before_five", HEAD.format(alias="", lines="", of="p")),
    ("0006.copy-insertion.after_adding_copies", HEAD.format(alias="", lines=COPY, of="c")),
    ("after_spmd_partitioner", HEAD.format(alias="", lines="", of="p")),
    ("cpu_after_optimizations", HEAD.format(alias="", lines="", of="p")),
]


def tracked(folder: Path, *words: str) -> list[PassTrack]:
    """Return the track in a folder with the passes above."""
    write(folder, {f"module_0000.m.{stage}.txt": text for stage, text in PASSES})
    (module,) = modules_with_passes(load(folder).modules)
    return list(track(module, words))


def test_change_is_attributed_to_the_pass_in_the_later_name(tmp_path: Path) -> None:
    (found,) = tracked(tmp_path, "copy")
    assert found.counts == (0, 0, 1, 2, 1, 1, 0, 1, 0)
    assert [(c.before_count, c.after_count, c.where) for c in found.changes] == [
        (0, 1, "by one in pipeline outer"),
        (1, 2, "by two in pipeline outer, before its pipeline inner"),
        (2, 1, "by three in pipeline inner"),
        (1, 0, "before pipeline next began"),
        (0, 1, "by adding_copies in pipeline copy-insertion"),
        (1, 0, "between the last pass and cpu_after_optimizations"),
    ]
    assert found.appears is found.changes[0]
    assert found.disappears is found.changes[3]
    assert found.changes[1].added == ("d",)
    assert found.changes[2].removed == ("d",)


def test_alias_and_name_disappear(tmp_path: Path) -> None:
    alias, name = tracked(tmp_path, "alias", "d")
    assert alias.appears is None
    assert alias.disappears is not None
    assert (alias.disappears.stage[:4], alias.disappears.removed) == ("0002", ("{}=parameter 0",))
    assert name.appears is not None
    assert name.appears.added == ("copy f32[8] in e",)
    assert [c.stage[:4] for c in name.changes] == ["0002", "0003"]


def test_temporaries_are_estimated_in_the_order_of_the_text(tmp_path: Path) -> None:
    (found,) = tracked(tmp_path, "temp")
    # c lies in the output's memory as soon as that is not the parameter's; d has no use
    assert found.counts == (0, 0, 32, 32, 0, 0, 0, 0, 0)
    assert [row[3:6] for row in found.rows()] == [(0, 32, 32), (32, 0, -32)]


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("all-gather", "collective"),
        ("send", "collective"),
        ("copy", "opcode"),
        ("temp", "temp"),
        ("alias", "alias"),
        ("fusion.3", "name"),
    ],
)
def test_kind_of_a_word(word: str, kind: str) -> None:
    assert kind_of(word) == kind


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("0009.spmd.after_a.before_b", ("spmd", "a")),
        ("0012.After_X64_rewriter,_x.after_cse.before_y", ("After_X64_rewriter,_x", "cse")),
        ("0003.p.after_v1.2_thing.before_x", ("p", "v1.2_thing")),
        ("0054.copy-insertion.removing", ("copy-insertion", "removing")),
        ("before_optimizations", (None, None)),
    ],
)
def test_pipeline_and_pass_of_a_text(stage: str, expected: tuple[str | None, str | None]) -> None:
    assert pass_of(stage) == expected


def test_name_in_no_text_is_an_error_with_near_names(tmp_path: Path) -> None:
    with pytest.raises(HloLensError, match=r"rr is in no text: .*; did you mean r"):
        tracked(tmp_path, "rr")


def test_unreadable_text_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, {f"module_0000.m.{stage}.txt": text for stage, text in PASSES})
    write(
        tmp_path, {"module_0000.m.0003.inner.after_three.before_pipeline-end.txt": "HloModule m\n!"}
    )
    (module,) = load(tmp_path).modules
    (found,) = track(module, ["copy"])
    assert found.counts[4] is None
    assert [c.stage[:4] for c in found.changes][:3] == ["0001", "0002", "0004"]


def test_collectives_of_a_real_compile_appear_in_partitioning() -> None:
    (module,) = modules_with_passes(load(SAMPLES / "passes" / "tpu_tp_mlp.tar.xz").modules)
    assert len(tracked_stages(module)) == 130
    reduces, alias, temp = track(module, ["all-reduce", "alias", "temp"])
    assert reduces.appears is not None
    assert reduces.appears.after == "tpu-spmd-partitioning"
    assert (reduces.counts[0], reduces.counts[-1]) == (0, 4)
    assert (set(alias.counts), alias.changes) == ({4}, ())
    assert temp.counts[-1] == 93093888


def run(*arguments: str | Path) -> Result:
    """Run ``hlo-lens passes``."""
    runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"})
    return runner.invoke(main, ["passes", *map(str, arguments)], catch_exceptions=False)


def test_json_has_every_count_and_change(tmp_path: Path) -> None:
    write(tmp_path, {f"module_0000.m.{stage}.txt": text for stage, text in PASSES})
    data = json.loads(run(tmp_path, "--track", "copy", "--track", "temp", "-f", "json").stdout)
    copy, temp = data["modules"][0]["tracks"]
    assert (copy["track"], copy["unit"], temp["unit"]) == ("copy", "count", "bytes")
    assert [one["count"] for one in copy["counts"]] == [0, 0, 1, 2, 1, 1, 0, 1, 0]
    assert copy["appears"]["after"] == "one"
    assert copy["changes"][1]["nested"] == "inner"
    assert len(copy["changes"]) == 6


def test_text_names_the_pass(tmp_path: Path) -> None:
    write(tmp_path, {f"module_0000.m.{stage}.txt": text for stage, text in PASSES})
    out = run(tmp_path, "--track", "copy").stdout
    assert "appears     by one in pipeline outer (0 -> 1, 0001): c" in out
    assert "present again by adding_copies in pipeline copy-insertion" in out
    assert "changes   none" in run(tmp_path, "--track", "all-gather").stdout


def test_dump_without_passes_is_exit_3() -> None:
    result = run(SAMPLES / "cpu" / "wasteful", "--track", "copy")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "--xla_dump_hlo_pass_re=.*" in result.stderr


def test_unknown_name_is_exit_2() -> None:
    path = SAMPLES / "passes" / "tpu_tp_mlp.tar.xz"
    assert run(path, "--track", "no.such.thing").exit_code == 2
    assert run(path).exit_code == 2
