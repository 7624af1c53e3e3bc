"""Memory that ``hlo-lens report`` takes, in relation to the size of the text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus import ROOT

COUNTS = (11_000, 22_000)
"""Parameters, outputs and fusions of two programs, too large for estimates of their memory."""

MOST = 4
"""Bytes of memory that a byte of this text may take: 2.5 are needed.

An object for each parameter, output and computation made it 4.5.
"""

CHILD = """
import sys
from pathlib import Path
from hlo_lens.cli import main
main(args=["report", sys.argv[1], "-o", sys.argv[2]], standalone_mode=False)
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def update_of(count: int) -> str:
    """Return a program that updates so many donated parameters, each in a fusion of its own."""
    shape = "f32[256,1024]{1,0}"
    alias = ", ".join(f"{{{n}}}: ({n}, {{}}, may-alias)" for n in range(count))
    lines = [f"HloModule update, is_scheduled=true, input_output_alias={{ {alias} }}", ""]
    for n in range(count):
        path = f'metadata={{op_name="jit(update)/layer_{n}/mul" source_file="f.py" source_line=7}}'
        lines += [
            f"%fused_computation.{n} (param_0.{n}: f32[256,1024]) -> f32[256,1024] {{",
            f"  %param_0.{n} = {shape} parameter(0)",
            f"  %square.{n} = {shape} multiply(%param_0.{n}, %param_0.{n}), {path}",
            f"  ROOT %update.{n} = {shape} subtract(%param_0.{n}, %square.{n}), {path}",
            "}",
            "",
        ]
    lines.append("ENTRY %main {")
    for n in range(count):
        name = f"metadata={{op_name=\"params[\\'layer_{n}\\'][\\'kernel\\']\"}}"
        lines.append(
            f"  %param.{n} = {shape} parameter({n}), sharding={{devices=[4,2]<=[8]}}, {name}"
        )
    for n in range(count):
        calls = f"kind=kLoop, calls=%fused_computation.{n}"
        lines.append(f"  %fusion.{n} = {shape} fusion(%param.{n}), {calls}")
    shapes = ", ".join([shape] * count)
    names = ", ".join(f"%fusion.{n}" for n in range(count))
    return "\n".join([*lines, f"  ROOT %tuple = ({shapes}) tuple({names})", "}", ""])


def _peak_bytes(folder: Path, text: str) -> int:
    """Return the peak memory of a process that reports on a text."""
    path = folder / "module_0001.jit_update.cpu_after_optimizations.txt"
    path.write_text(text, "utf-8")
    command = [sys.executable, "-c", CHILD, str(path), str(folder / "report.txt")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(run.stdout) * 1024


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak")
def test_report_of_thousands_of_parameters_takes_little_beside_the_text(tmp_path: Path) -> None:
    less, more = (update_of(count) for count in COUNTS)
    grown = _peak_bytes(tmp_path, more) - _peak_bytes(tmp_path, less)
    assert grown <= MOST * (len(more) - len(less))
