"""Names from dumps, logs and paths print as text: no control, no line, no command, no formula."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from hlo_lens.cli import commands, main

if TYPE_CHECKING:
    from pathlib import Path

EVIL = r"=1+1\x1b]0;owned\x07\n::error file=a::owned\n# owned\n| owned | row |\n##[error]owned"
"""As XLA escapes it in a string of a text."""

NAME = "\x1b[31mred\n::error::owned\n# owned\u202e"
"""As it may be in the name of a file."""

HLO = f"""HloModule jit_step, is_scheduled=true, num_partitions=2

FileNames
1 "{EVIL}"

FunctionNames
1 "{EVIL}"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=1 end_line=1 column=1 end_column=2}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY main {{
  p = f32[1024] parameter(0), sharding={{devices=[2]<=[2]}}, metadata={{op_name="{EVIL}"}}
  all-reduce = f32[1024] all-reduce(p), channel_id=1, replica_groups={{{{0,1}}}}, to_apply=add, \
metadata={{op_name="{EVIL}" source_file="{EVIL}" source_line=3 stack_frame_id=1}}
  ROOT out = f32[1024] negate(all-reduce), metadata={{op_name="{EVIL}" source_file="{EVIL}"}}
}}
"""

LOG = f"""E0101 00:00:00.000000 1 x.cc:1] Allocation type: HLO temp {NAME}
RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1024 bytes.
BufferAssignment OOM Debugging.
Largest program allocations in hbm:

  1. Size: 4.0K
     Operator: op_name="{EVIL}"
     Shape: f32[1024]
     Allocation type: HLO temp
"""

_FORMATS = ("text", "json", "md", "csv", "html")
_CONTROL = re.compile(r"[^\n\x20-\x7e\xa1-\u2029\u2030-\uffff]")


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A folder of hostile dumps with a hostile name, and a hostile log."""
    folder = tmp_path_factory.mktemp("hostile") / NAME.replace("/", "")
    folder.mkdir()
    stem = "module_0001.jit_step"
    (folder / f"{stem}.cpu_after_optimizations.txt").write_text(HLO)
    (folder / f"{stem}.before_optimizations.txt").write_text(HLO.replace("negate", "sine"))
    (folder / f"module_0002.{NAME.replace('/', '')}.txt").write_text("neither")
    log = folder / "oom.log"
    log.write_text(LOG)
    return str(folder), str(log)


def _commands(folder: str, log: str) -> list[list[str]]:
    plain = [
        [name, folder] for name in commands() if name not in ("check", "diff", "help", "shard")
    ]
    return [
        *(one for one in plain if one[0] not in ("passes", "save")),
        ["passes", folder, "--track", "all-reduce"],
        ["memory", folder, "--by", "source"],
        ["memory", folder, "--by", "op"],
        ["memory", folder, "--at", NAME],
        ["collectives", folder, "--why", "all-reduce"],
        ["report", log],
        ["report", folder, "--log", log],
        ["report", folder, "--module", re.escape(NAME)],
        ["tree", folder, "--measure", "count", "--folded", "-"],
        ["diff", "--stage", "before_optimizations", folder, folder],
        ["diff", folder, folder, "--fail-on", f"{NAME}:memory.total_bytes>1B"],
        ["check", folder, "--fail-on", "memory.total_bytes>1B", "--github-annotations"],
        ["report", f"{folder}/{NAME}"],
        ["report", folder, "--stage", NAME],
    ]


def _breach(text: str, *, has_commands: bool = True) -> str | None:
    """Return what of an output acts on a terminal or a runner; None if nothing does.

    Args:
        text: The output.
        has_commands: Whether a runner reads it for commands.
    """
    if found := _CONTROL.search(text):
        return f"control character {found[0]!r} in {text[max(0, found.start() - 80) :][:160]!r}"
    lines = [line.lstrip() for line in text.splitlines()]
    bad = [line for line in lines if line.startswith(("::error", "# owned", "| owned"))]
    bad += [line for line in lines if has_commands and "##[" in line]
    return repr(bad[0]) if bad else None


def _run(arguments: list[str]) -> Result:
    result = CliRunner(env={"COLUMNS": "100"}).invoke(main, arguments)
    assert result.exit_code != 70, result.stderr
    return result


@pytest.mark.parametrize("format_name", _FORMATS)
def test_names_are_shown_escaped(dumps: tuple[str, str], format_name: str) -> None:
    for command in _commands(*dumps):
        result = _run([*command, "-f", format_name])
        is_text = format_name == "text" and "--folded" not in command
        if "--github-annotations" not in command:
            assert _breach(result.stdout, has_commands=is_text) is None, command
        assert _breach(result.stderr) is None, command
        if format_name == "csv" and result.exit_code == 0 and "--folded" not in command:
            for row in csv.reader(io.StringIO(result.stdout)):
                assert not any(re.match(r"[=@\t+-](?!\d*\.?\d*$)", cell) for cell in row), row


def test_the_hostile_names_are_in_the_output(dumps: tuple[str, str]) -> None:
    folder, _ = dumps
    out = _run(["memory", folder, "--by", "op", "-f", "csv"]).stdout
    assert r"=1+1\x1b]0;owned" in out
    assert r"\x1b[31mred" in _run(["ls", folder]).stdout


def test_annotations_have_one_line_each(tmp_path: Path) -> None:
    (tmp_path / "module_0001.jit_step.cpu_after_optimizations.txt").write_text(HLO)
    rules = ["--fail-on", "memory.total_bytes>1B", "--fail-on", "collectives.static.all-reduce>0"]
    out = _run(["check", str(tmp_path), *rules, "--github-annotations"]).stdout
    commands = [line for line in out.splitlines() if line.startswith("::")]
    assert len(commands) == 2
    assert not any(_CONTROL.search(line) for line in commands)
