"""Logs that hold dumps of several kinds between lines of no kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hlo_lens
from tests import corpus

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = corpus.SAMPLES / "cpu" / "tp_mlp"


def text(part: str) -> str:
    (path,) = FOLDER.glob(f"*after_optimizations{part}.txt")
    return path.read_text("utf-8")


HLO, ASSIGNMENT, RANGES = text(""), text("-buffer-assignment"), text("-live-range")
OOM = (corpus.SAMPLES / "logs" / "tpu_oom_libtpu_0_0_17.txt").read_text("utf-8")

ORDERS = {
    "hlo first": (HLO, ASSIGNMENT, RANGES, OOM),
    "assignment first": (ASSIGNMENT, HLO, OOM, RANGES),
    "message first": (OOM, RANGES, ASSIGNMENT, HLO),
}


@pytest.mark.parametrize("parts", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("start", ["start of the log\n", ""])
def test_every_kind_in_a_log_is_read(parts: tuple[str, ...], start: str, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(start + "\nother text: of others\n".join(parts) + "\nthe end\n", "utf-8")
    module, *rest = hlo_lens.load(path).modules
    assert module.hlo is not None
    assert module.hlo.instruction_count == hlo_lens.parse_hlo(HLO).instruction_count
    whole = hlo_lens.parse_buffer_assignment(ASSIGNMENT)
    assignment, ranges = module.buffer_assignment, module.live_range
    assert assignment is not None
    assert ranges is not None
    assert [a.size for a in assignment.allocations] == [a.size for a in whole.allocations]
    assert assignment.gaps == ()
    assert ranges.peak_bytes == hlo_lens.parse_live_range(RANGES).peak_bytes
    logs = [dump.log for dump in rest if dump.log is not None]
    assert [len(log.compile_ooms) for log in logs] == [2]


def test_buffer_texts_of_a_log_without_hlo_are_one_module_until_a_kind_repeats(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.txt"
    path.write_text(f"a\n{ASSIGNMENT}b\n{RANGES}c\n{ASSIGNMENT}d\n", "utf-8")
    first, second = hlo_lens.load(path).modules
    assert (first.buffer_assignment is None, first.live_range is None) == (False, False)
    assert (second.buffer_assignment is None, second.live_range is None) == (False, True)


def test_gap_in_a_buffer_text_has_the_line_of_the_log(tmp_path: Path) -> None:
    lines = ASSIGNMENT.splitlines()
    lines[3] = lines[3].replace("value:", "valve:")
    path = tmp_path / "log.txt"
    path.write_text("one\ntwo\n" + "\n".join(lines) + "\nthree\n", "utf-8")
    (module,) = hlo_lens.load(path).modules
    assignment = module.buffer_assignment
    assert assignment is not None
    assert assignment.gaps[0].line == 6


def test_texts_of_two_modules_belong_to_the_module_before_them(tmp_path: Path) -> None:
    other = HLO.replace("HloModule jit_train_step", "HloModule jit_other")
    path = tmp_path / "log.txt"
    path.write_text(f"{HLO}\n{ASSIGNMENT}\n{other}\n{RANGES}\n", "utf-8")
    first, second = (dump for dump in hlo_lens.load(path).modules if dump.hlo is not None)
    assert (first.buffer_assignment is None, first.live_range is None) == (False, True)
    assert (second.buffer_assignment is None, second.live_range is None) == (True, False)
