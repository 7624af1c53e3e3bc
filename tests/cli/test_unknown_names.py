"""Unknown commands, names and axes: the message has the nearest ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

DUMP = str(SAMPLES / "tpu" / "tp_mlp")


def error_of(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(main, arguments)
    assert result.exit_code == 2, result.output
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reprot", DUMP], "No such command 'reprot'; did you mean report?"),
        (["frobnicate"], "commands: report, memory, "),
        ([DUMP], "did you mean hlo-lens report "),
        (["memory", DUMP, "--tmeline"], "Did you mean '--timeline'?"),
        (["memory", DUMP, "--at", "copystart.12"], "did you mean copy-start.12 or "),
        (["collectives", DUMP, "--why", "al-reduce.11"], "did you mean all-reduce.11 or "),
        (["report", DUMP, "--stage", "before_optimisations"], "did you mean before_optimizations"),
        (["shard", "P('dta')", "--mesh", "data=2", "--shape", "4"], "did you mean data?"),
        (["help", "memroy"], "did you mean memory?"),
    ],
)
def test_nearest_names_are_in_the_message(arguments: list[str], message: str) -> None:
    assert message in error_of(*arguments)


def test_module_names_are_those_nearest_to_the_pattern(tmp_path: Path) -> None:
    texts = "".join(
        f"HloModule jit_f{k}\n\nENTRY e {{\n  ROOT p = f32[] parameter(0)\n}}\n\n"
        for k in range(12)
    )
    file = tmp_path / "all.txt"
    file.write_text(texts, "utf-8")
    assert "did you mean jit_f11 or " in error_of("report", str(file), "--module", "jitf11")
