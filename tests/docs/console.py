"""Command lines of console blocks, run in this process: ``$ hlo-lens ... 2>&1 | head -20``."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

_CODE = " > /dev/null; echo $?"


def run(command_line: str, *, columns: int) -> str:
    """Return the output of a command line in the checkout, in a terminal of this width.

    Understood are ``head -c N FILE | hlo-lens ...``, ``2>&1``, ``hlo-lens ... > /dev/null; echo
    $?``, and the filters ``head -N``, ``tail -N``, ``sed '/REGEX/q'`` (up to the first match) and
    ``sed -n '/FROM/,/TO/p'``.
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
    """Return what head, tail or sed prints of a text."""
    program, option, *rest = words
    if (program, option) == ("head", "-c"):
        return (ROOT / rest[1]).read_bytes()[: int(rest[0])].decode()
    lines = given.splitlines(keepends=True)
    if program == "sed":
        return "".join(_sed(rest[0] if rest else option, lines))
    count = int(option.removeprefix("-"))
    return "".join({"head": lines[:count], "tail": lines[-count:]}[program])


def _sed(script: str, lines: list[str]) -> Iterator[str]:
    """Yield the lines up to the first match of ``/A/q``, or those from ``/A/`` to ``/B/p``."""
    start, _, end = script[1:-2].partition("/,/")
    is_printing = not end
    for line in lines:
        if not is_printing:
            is_printing = re.search(start, line.rstrip("\n")) is not None
            if is_printing:
                yield line
            continue
        yield line
        if re.search(end or start, line.rstrip("\n")):
            if not end:
                return
            is_printing = False
