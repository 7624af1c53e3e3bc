"""``hlo-lens what-if``: what it refuses before a compile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner, Result

from hlo_lens.cli import main
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

STEP = str(SAMPLES / "cpu/fsdp_transformer")
TEXT = str(SAMPLES / "cpu/tp_mlp/compiled.txt")


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(main, arguments)


def test_exit_code_is_4_where_there_is_no_program() -> None:
    result = run("what-if", TEXT, "--donate", "params")
    assert result.exit_code == 4
    assert "before optimizations" in " ".join(result.stdout.split())


def test_interpreter_without_jax_is_an_error(tmp_path: Path) -> None:
    result = run("what-if", STEP, "--donate", "x", "--python", str(tmp_path / "none"))
    assert result.exit_code != 0
    assert "--with 'jax==0.10.2'" in result.stderr
