"""``hlo-lens source``: figures of lines sum to those of the program; lines are found again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from hlo_lens.load import load
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.source.lines import (
    BRANCHES,
    Amounts,
    compiled_columns,
    lines_now,
    own_lines,
    source_lines,
)
from hlo_lens.questions.work.work import work
from tests.corpus import SAMPLES
from tests.questions.stacks.test_stacks import BRANCHES as TWO_BRANCHES
from tests.questions.texts import module_of

if TYPE_CHECKING:
    from pathlib import Path

DUMP = SAMPLES / "tpu" / "tp_mlp"
PROGRAM = (SAMPLES / "programs" / "tp_mlp.py").read_text("utf-8")


@pytest.mark.parametrize("sample", ["tpu/tp_mlp", "cpu/wasteful", "gpu/fsdp_transformer"])
def test_lines_and_residuals_sum_to_the_figures_of_other_questions(sample: str) -> None:
    (module,) = [one for one in load(SAMPLES / sample).modules if one.hlo is not None]
    found, memory = own_lines(module), memory_results(module)
    assert memory is not None
    assert memory.peak is not None
    whole = Amounts(
        memory.peak.total_bytes, collectives(module).wire_bytes_per_device, work(module).flops
    )
    assert found.whole == whole
    rows = [*found.lines, *found.residuals.values()]
    sums = [sum(getattr(row, name) or 0 for row in rows) for name in Amounts._fields]
    assert sums == list(whole)
    repeated = work(module).repeated_flops
    assert repeated is None or repeated == sum(one.repeated_flops or 0 for one in found.lines)


def test_lines_have_each_branch_and_a_residual_makes_them_sum_to_the_largest() -> None:
    found = source_lines(module_of(TWO_BRANCHES))
    assert {one.source_line: one.wire_bytes for one in found.lines} == {3: 32, 4: 16}
    assert (found.whole.wire_bytes, found.residuals[BRANCHES].wire_bytes) == (32, -16)


def _lines_now(text: str) -> dict[int, int | None]:
    (module,) = [one for one in load(DUMP).modules if one.hlo is not None]
    assert module.hlo is not None
    return lines_now(compiled_columns(module.hlo)["programs/tp_mlp.py"], text)


@pytest.mark.parametrize(
    ("before", "after", "now"),
    [
        ("", "", {33: 33, 34: 34, 36: 36, 37: 37, 42: 42, 43: 43}),
        ("LAYERS = 4\n", "LAYERS = 4\nA = 1\nB = 2\n", {33: 35, 34: 36, 36: 38, 37: 39}),
        ("        return h", "        print(h)\n        return h", {33: 33, 34: 35, 36: 37}),
        ("return h + hidden", "return (h + hidden)", {33: 33, 34: None, 36: 36}),
        ("def loss(", "def other(", {33: None, 34: None, 42: 42}),
    ],
    ids=["same", "moved", "inserted", "edited", "renamed"],
)
def test_lines_are_found_where_they_moved_to(
    before: str, after: str, now: dict[int, int | None]
) -> None:
    assert before in PROGRAM
    found = _lines_now(PROGRAM.replace(before, after, 1))
    assert {line: found[line] for line in now} == now


def _run(*arguments: object) -> tuple[int, str, str]:
    runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"})
    result = runner.invoke(main, ["source", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_lines_of_files_that_are_not_there_are_numbers_alone(tmp_path: Path) -> None:
    code, out, _ = _run(DUMP, "--root", tmp_path)
    assert code == 0
    assert "40.00MiB 112.02MiB  50%   x4 C001 M003  34\n" in out
    assert "not in the checkout (--root DIR), line numbers alone: programs/tp_mlp.py" in out


def test_a_changed_line_is_marked_and_a_moved_one_has_its_text(tmp_path: Path) -> None:
    text = PROGRAM.replace("LAYERS = 4\n", "LAYERS = 4\n\n").replace("hidden = jax", "hid = jax")
    (tmp_path / "tp_mlp.py").write_text(text, "utf-8")
    _, out, _ = _run(DUMP, "--root", tmp_path, "-f", "json")
    rows = {row["source_line"]: row for row in json.loads(out)["modules"][0]["rows"]}
    assert (rows[33]["is_changed"], rows[33]["text"]) == (True, None)
    assert (rows[34]["checkout_line"], rows[34]["is_changed"]) == (35, False)
    assert rows[34]["text"] == PROGRAM.splitlines()[33]
    assert rows[34]["peak_bytes"] == 41943552
    _, out, _ = _run(DUMP, "--root", tmp_path)
    assert "33  [changed since the compile]" in out
    assert "34 was 33" not in out
    assert "35 was 34" in out


def test_whole_files_and_one_file() -> None:
    _, out, _ = _run(DUMP, "tp_mlp.py", "--all", "--root", SAMPLES)
    listed = [line for line in out.splitlines() if line.endswith(tuple(PROGRAM.splitlines()[:9]))]
    assert len(listed) >= 9
    code, _, err = _run(DUMP, "nowhere.py")
    assert code == 2
    assert "nowhere.py: neither a dump nor a file whose lines cost something; files: prog" in err


def test_differences_of_two_dumps() -> None:
    pair = [SAMPLES / "pairs" / "tpu" / f"{name}.tar.xz" for name in ("base", "four_layers")]
    _, out, _ = _run(*pair, "-f", "json")
    (module,) = json.loads(out)["modules"]
    rows = {row["source_line"]: row for row in module["rows"]}
    assert set(rows) == {58, 59}
    assert (rows[58]["base_flops"], rows[58]["flops"]) == (137438953472, 274877906944)
    assert (rows[59]["base_wire_bytes"], rows[59]["wire_bytes"]) == (402653184, 805306368)
    _, same, _ = _run(pair[0], pair[0], "-f", "json")
    assert json.loads(same)["modules"][0]["rows"] == []


FRAMES = """HloModule m, is_scheduled=true

FileNames
1 "f.py"

FunctionNames
1 "f"

FileLocations
LOCATIONS

StackFrames
FRAMES

ENTRY e {
  x = f32[8,8] parameter(0)
  d1 = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="a" stack_frame_id=1}
  d2 = f32[8,8] dot(d1, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="b" stack_frame_id=2}
  ROOT d3 = f32[8,SIZE] dot(d2, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="c" stack_frame_id=3}
}
"""


def _compiled(lines: tuple[tuple[int, int], ...], size: int) -> str:
    """Return a program with a product at each of three lines and columns, the last of a size."""
    ids = range(1, len(lines) + 1)
    locations = "\n".join(
        f"{n} {{file_name_id=1 function_name_id=1 line={line} end_line={line} "
        f"column={column} end_column={column}}}"
        for n, (line, column) in zip(ids, lines, strict=True)
    )
    frames = "\n".join(f"{n} {{file_location_id={n} parent_frame_id={n}}}" for n in ids)
    text = FRAMES.replace("LOCATIONS", locations).replace("FRAMES\n", f"{frames}\n")
    operand = f"  y = f32[8,{size}] parameter(1)\n  d1"
    return text.replace("SIZE", str(size)).replace("  d1", operand, 1)


def test_lines_below_an_inserted_one_are_compared_with_themselves(tmp_path: Path) -> None:
    base, head = tmp_path / "base.txt", tmp_path / "head.txt"
    base.write_text(_compiled(((2, 4), (3, 8), (4, 12)), 8), "utf-8")
    head.write_text(_compiled(((2, 4), (4, 8), (5, 12)), 16), "utf-8")
    code, out, err = _run(base, head, "-f", "json", "--root", tmp_path)
    assert (code, err) == (0, "")
    (row,) = json.loads(out)["modules"][0]["rows"]
    assert (row["base_line"], row["source_line"]) == (4, 5)
    assert (row["base_flops"], row["flops"]) == (1024, 2048)
