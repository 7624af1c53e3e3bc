"""``hlo-lens passes`` for people and for scripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner, Result

from hlo_lens.cli import main
from tests.corpus import SAMPLES
from tests.load.test_load import write
from tests.questions.dumps.test_pass_track import PASSES

if TYPE_CHECKING:
    from pathlib import Path


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
    assert "appears   present from the start" in run(tmp_path, "--track", "r").stdout
    assert "changes   none" in run(tmp_path, "--track", "all-gather").stdout


def test_texts_without_a_place_among_the_passes_are_left_out_with_a_note(tmp_path: Path) -> None:
    texts = {f"module_0000.m.{stage}.txt": text for stage, text in PASSES}
    write(tmp_path, {**texts, "module_0000.m.after_spmd_partitioner.txt": PASSES[0][1]})
    out = run(tmp_path, "--track", "copy").stdout
    assert "show no place among the passes: after_spmd_partitioner" in out
    data = json.loads(run(tmp_path, "--track", "copy", "-f", "json").stdout)
    assert data["modules"][0]["left_out"] == ["after_spmd_partitioner"]


def test_first_and_last_amount_are_of_texts_that_could_be_read(tmp_path: Path) -> None:
    texts = {f"module_0000.m.{stage}.txt": text for stage, text in PASSES}
    first = f"module_0000.m.{PASSES[0][0]}.txt"
    write(tmp_path, {**texts, first: "HloModule m\n\n!!!\n"})
    out = run(tmp_path, "--track", "copy").stdout
    assert f"from, to    0 in {PASSES[1][0]}, 0 in {PASSES[-1][0]}" in out
    assert "1 text could not be read" in out


def test_dump_without_passes_is_exit_3() -> None:
    result = run(SAMPLES / "cpu" / "wasteful", "--track", "copy")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "--xla_dump_hlo_pass_re=.*" in result.stderr


def test_unknown_name_is_exit_2() -> None:
    path = SAMPLES / "passes" / "tpu_tp_mlp.tar.xz"
    assert run(path, "--track", "no.such.thing").exit_code == 2
    assert run(path).exit_code == 2
