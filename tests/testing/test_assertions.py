"""Assertions on compiled programs: what passes, failure messages, unknown facts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.memory.statement import most_temp_bytes
from hlo_lens.testing import (
    assert_collectives,
    assert_donated,
    assert_memory_below,
    assert_no_collectives,
    assert_no_findings,
    assert_same_program,
    assert_sharded,
)
from hlo_lens.text.errors import UsageError
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TPU, GPU, CPU = (SAMPLES / backend / "tp_mlp" for backend in ("tpu", "gpu", "cpu"))
SHARD_MAP = SAMPLES / "cpu" / "shard_map_collectives"
WASTEFUL = SAMPLES / "tpu" / "wasteful"
ALONE = CPU / "compiled.txt"


def said_by(check: Callable[[], None]) -> list[str]:
    """Return the lines of the failure of a check that must fail."""
    with pytest.raises(AssertionError) as caught:
        check()
    return str(caught.value).splitlines()


# ---- collectives -------------------------------------------------------------------------------


def test_numbers_of_collectives_per_axis() -> None:
    assert_collectives(TPU, {"all-reduce": 4})
    assert_collectives(TPU, {"all-reduce": 2}, axis="model")
    assert_collectives(TPU, {"all-reduce": 2}, axis="data")
    assert_collectives(TPU, {"all-reduce": 8}, axis="model", dynamic=True)
    assert_collectives(TPU, {}, axis=("data", "model"))
    assert_collectives(TPU, {"all-reduce": 3}, min_bytes="1KiB")


def test_a_wrong_number_lists_the_largest_with_their_source_lines() -> None:
    lines = said_by(lambda: assert_collectives(TPU, {"all-reduce": 1}, axis="model"))
    assert lines[0] == "jit_train_step has 2 all-reduce along model, expected 1 all-reduce"
    assert lines[1].split() == [
        *("16.00MiB", "all-reduce", "model", "all-reduce.11", "in", "while.36", "x4"),
        "programs/tp_mlp.py:34",
    ]
    assert len(lines) == 3


def test_kinds_that_are_not_expected_fail_only_where_it_is_exact() -> None:
    assert_collectives(SHARD_MAP, {"all-gather": 3}, exact=False)
    lines = said_by(lambda: assert_collectives(SHARD_MAP, {"all-gather": 3}))
    assert "9 all-reduce" in lines[0]
    assert "0 all-reduce" in lines[0]
    assert lines[-1] == "    [13 more]"


def test_a_count_that_depends_on_data_is_not_known() -> None:
    (line,) = said_by(lambda: assert_collectives(SHARD_MAP, {"all-reduce": 1}, dynamic=True))
    assert line.startswith("not known: how often ")


def test_axes_that_no_text_names_are_not_known() -> None:
    (line,) = said_by(lambda: assert_collectives(ALONE, {}, axis="model"))
    assert line.startswith("not known: what runs along model: axes are axis_0=")
    (line,) = said_by(lambda: assert_no_collectives(TPU, axis="modle"))
    assert line.startswith("not known: what runs along modle: axes are data=2,model=4")


def test_a_text_that_was_not_understood_has_no_known_number(tmp_path: Path) -> None:
    file = tmp_path / "cut.txt"
    file.write_text(ALONE.read_text("utf-8")[:20_000], "utf-8")
    for check in (
        lambda: assert_collectives(file, {}),
        lambda: assert_no_collectives(file),
        lambda: assert_same_program(file, ALONE),
    ):
        (line,) = said_by(check)
        assert line.startswith("not known: all of jit_train_step: ")


def test_a_loop_without_collectives() -> None:
    assert_no_collectives(TPU, inside_loops=True, min_bytes="1GiB")
    assert_no_collectives(TPU, axis=("data", "model"))
    lines = said_by(lambda: assert_no_collectives(TPU, inside_loops=True))
    assert lines[0] == "jit_train_step has 3 collectives inside of loops, expected none"
    assert "programs/tp_mlp.py" in lines[1]
    assert len(said_by(lambda: assert_no_collectives(TPU))) == 5


# ---- memory ------------------------------------------------------------------------------------


def test_memory_below_a_limit() -> None:
    total = hlo_lens.memory(TPU).statement.total_bytes
    assert_memory_below(TPU, total)
    assert_memory_below(TPU, "1GiB", space="VMEM")
    assert_memory_below(TPU, "64.1MiB", of="argument")
    assert_memory_below(TPU, "153MiB", of="peak")
    assert_memory_below(ALONE, "400MiB")


def test_too_much_memory_lists_what_is_alive_with_source_lines() -> None:
    lines = said_by(lambda: assert_memory_below(GPU, "300MiB"))
    assert lines[0] == (
        "jit_train_step takes 328.06MiB of device (total), limit 300.00MiB, 28.06MiB too much"
    )
    assert lines[1].split()[0] == "64.00MiB"
    assert "programs/tp_mlp.py:" in lines[1]
    assert len(lines) == 7


def test_an_estimate_says_that_it_is_one() -> None:
    lines = said_by(lambda: assert_memory_below(ALONE, "1MiB"))
    assert "takes ~ 320.06MiB" in lines[0]
    (line,) = said_by(lambda: assert_memory_below(ALONE, "300MiB"))
    assert "~ 320.06MiB, at most 320.06MiB, is below 300.00MiB (estimates: within 15%)" in line
    assert_memory_below(ALONE, "400MiB")


def test_memory_that_is_not_known_is_not_below_anything(tmp_path: Path) -> None:
    file = tmp_path / "unscheduled.txt"
    file.write_text(ALONE.read_text("utf-8").replace("is_scheduled=true, ", ""), "utf-8")
    (line,) = said_by(lambda: assert_memory_below(file, "1PiB"))
    assert line.startswith("not known: the memory of jit_train_step: ")


def test_a_peak_without_live_ranges_is_not_known(tmp_path: Path) -> None:
    for file in TPU.glob("*buffer-assignment.txt"):
        shutil.copy(file, tmp_path)
    assert_memory_below(tmp_path, "1GiB")
    (line,) = said_by(lambda: assert_memory_below(tmp_path, "1GiB", of="peak"))
    assert line.startswith("not known: the peak")


def test_a_range_that_the_limit_lies_in_is_not_known(tmp_path: Path) -> None:
    for file in TPU.glob("*after_optimizations*"):
        shutil.copy(file, tmp_path / file.name.replace("cl_1003875606", "cl_800000000"))
    statement = hlo_lens.memory(tmp_path).statement
    least, most = statement.temp_bytes, most_temp_bytes(statement)
    assert least < most
    total = statement.total_bytes
    assert_memory_below(tmp_path, total + most)
    (line,) = said_by(lambda: assert_memory_below(tmp_path, total + 1))
    assert "152.80MiB, at most 241.58MiB, is below 152.80MiB" in line


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(UsageError, match="no memory space 'DRAM'; there is HBM, VMEM"):
        assert_memory_below(TPU, 1, space="DRAM")
    with pytest.raises(UsageError, match="expected one of total, peak"):
        assert_memory_below(TPU, 1, of="everything")
    with pytest.raises(UsageError, match="not a size: 'much'"):
        assert_memory_below(TPU, "much")
    with pytest.raises(UsageError, match="modules; choose one"):
        assert_memory_below(SAMPLES / "cpu", 1)


# ---- arguments ---------------------------------------------------------------------------------


def test_donated_arguments() -> None:
    assert_donated(TPU, ["params"])
    assert_donated(TPU, "params")
    assert_donated(TPU, ["params/w_*", "params['b_in']"])


def test_an_argument_that_is_not_donated_says_why() -> None:
    lines = said_by(lambda: assert_donated(WASTEFUL, ["params", "embedding"]))
    assert lines[0].startswith("jit_wasteful_step: ")
    assert "not reused for results" in lines[0]
    assert any("params['w_up']" in line and "not donated" in line for line in lines)


def test_sharded_parameters() -> None:
    assert_sharded(TPU, "params/w_*", axis="model")
    assert_sharded(TPU, "params/w_in", axis="model", dimension=2)
    lines = said_by(lambda: assert_sharded(TPU, "params", axis="model"))
    assert lines[0] == (
        "jit_train_step: 1 of 4 parameters not divided over model, 16.0KiB on each device"
    )
    assert lines[1].split() == ["16.0KiB", "params['b_out']", "P()", "f32[4,1024]"]
    lines = said_by(lambda: assert_sharded(TPU, "params/w_in", axis="model", dimension=0))
    assert "in dimension 0" in lines[0]


def test_a_sharding_that_no_text_has_is_not_known(tmp_path: Path) -> None:
    shutil.copy(next(TPU.glob("*after_optimizations.txt")), tmp_path)
    (line,) = said_by(lambda: assert_sharded(tmp_path, "params/w_in", axis="model"))
    assert line == "not known: the sharding over mesh axes of params['w_in']"


def test_a_pattern_that_matches_nothing_fails() -> None:
    for check in (
        lambda: assert_sharded(TPU, "state", axis="model"),
        lambda: assert_donated(TPU, ["state"]),
    ):
        (line,) = said_by(check)
        assert line.startswith("no argument of jit_train_step is called 'state'; there is params[")


# ---- programs ----------------------------------------------------------------------------------


def test_the_same_program_with_other_names(tmp_path: Path) -> None:
    file = tmp_path / "renamed.txt"
    file.write_text(ALONE.read_text("utf-8").replace("all-reduce", "all-reduce"), "utf-8")
    assert_same_program(ALONE, file)
    assert_same_program(ALONE, CPU / ALONE.name)


def test_another_program_lists_what_changed(tmp_path: Path) -> None:
    text = ALONE.read_text("utf-8")
    changed = tmp_path / "changed.txt"
    place = text.index(" all-reduce(")
    changed.write_text(text[:place] + " all-reduce-start(" + text[place + 12 :], "utf-8")
    lines = said_by(lambda: assert_same_program(changed, ALONE))
    assert lines[0].startswith("jit_train_step is not the golden program: ")
    assert any("all-reduce" in line for line in lines[1:])


def test_a_golden_program_that_is_not_there_is_not_known(tmp_path: Path) -> None:
    (line,) = said_by(lambda: assert_same_program(ALONE, tmp_path / "golden.txt"))
    assert "golden.txt is not there; write compiled.as_text() to it" in line


# ---- findings ----------------------------------------------------------------------------------


def test_a_program_without_findings_passes() -> None:
    assert_no_findings(TPU, select=["M001", "M002"])


def test_findings_are_listed_with_saving_line_and_message() -> None:
    head, line = said_by(lambda: assert_no_findings(WASTEFUL, select=["M001"]))
    assert head.endswith(": 1 finding (hlo-lens help CODE)")
    assert line.strip() == (
        "M001 warning: saves up to 4.00MiB (9%); programs/wasteful.py:100: "
        "argument params (2 of 3 arrays, 4.00MiB) is not donated"
    )
