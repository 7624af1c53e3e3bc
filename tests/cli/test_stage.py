"""``--stage`` reads the text of another stage, for every command that reads dumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from tests.load.test_load import STAGES, hlo, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("command", ["report", "collectives", "loops", "sharding", "memory"])
def test_every_command_reads_the_chosen_stage(tmp_path: Path, command: str) -> None:
    write(tmp_path, STAGES)
    result = CliRunner().invoke(main, [command, str(tmp_path), "--stage", "before", "-f", "json"])
    assert result.exit_code == 0, result.output
    assert '"stage": "before_optimizations"' in result.stdout


def test_stage_that_no_module_has_is_a_usage_error(tmp_path: Path) -> None:
    write(tmp_path, STAGES)
    result = CliRunner().invoke(main, ["report", str(tmp_path), "--stage", "x7"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no stage 'x7'; there is before_optimizations, 0003.pass" in result.stderr


def test_modules_without_the_stage_are_counted(tmp_path: Path) -> None:
    write(tmp_path, {**STAGES, "module_0001.jit_g.before_optimizations.txt": hlo("jit_g")})
    result = CliRunner().invoke(main, ["report", str(tmp_path), "--stage", "after"])
    assert result.exit_code == 0
    assert "left out 1 without this stage: module_0001.jit_g: no stage" in result.stderr
