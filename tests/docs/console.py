"""Command lines of console blocks, run in this process: ``$ hlo-lens ... 2>&1 | head -20``."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import ROOT

_CODE = " > /dev/null; echo $?"


def run(command_line: str, *, columns: int) -> str:
    """Return what a command line prints in the checkout, in a terminal of this width.

    Understood are ``head -c N FILE | hlo-lens ...``, ``2>&1``, ``| head -N``, ``| tail -N``,
    ``| grep TEXT``, and ``hlo-lens ... > /dev/null; echo $?``.
    """
    if command_line.endswith(_CODE):
        return f"{_run_tool(command_line.removesuffix(_CODE), '', columns)[1]}\n"
    text = ""
    for stage in command_line.split(" | "):
        if stage.startswith("hlo-lens "):
            text, _ = _run_tool(stage, text, columns)
        else:
            text = _run_filter(shlex.split(stage), text)
    return text


def _run_tool(stage: str, given: str, columns: int) -> tuple[str, int]:
    arguments = [part for part in shlex.split(stage)[1:] if part != "2>&1"]
    runner = CliRunner(env={"COLUMNS": str(columns), "NO_COLOR": "1"})
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        result = runner.invoke(main, arguments, input=given, catch_exceptions=False)
    finally:
        os.chdir(before)
    return result.output if "2>&1" in stage else result.stdout, result.exit_code


def _run_filter(words: list[str], given: str) -> str:
    program, option, *rest = words
    if program == "grep":
        return "".join(line for line in given.splitlines(keepends=True) if option in line)
    if (program, option) == ("head", "-c"):
        return (ROOT / rest[1]).read_bytes()[: int(rest[0])].decode()
    kept = given.splitlines(keepends=True)
    count = int(option.removeprefix("-"))
    return "".join({"head": kept[:count], "tail": kept[-count:]}[program])
