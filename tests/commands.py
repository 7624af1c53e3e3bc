"""Running commands of the tool as a user does, for golden texts."""

from __future__ import annotations

import os
from pathlib import Path

from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import ROOT


def output_of(arguments: list[str], *, columns: int = 100) -> str:
    """Return the standard output of a command, run in the checkout with a fixed width."""
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        runner = CliRunner(env={"COLUMNS": str(columns), "NO_COLOR": "1"})
        result = runner.invoke(main, arguments, catch_exceptions=False)
    finally:
        os.chdir(before)
    assert result.exit_code in (0, 1, 4), result.output
    return result.stdout
