"""Time and memory of hlo-lens next to XLA's own C++ parser, on the same texts in the same run.

Each figure is the least of several rounds; within a round, XLA's parse, ours and the whole command
take turns, so that a slow moment of the machine hits all of them. Compare the ratios:
`parse_hlo` and the whole ``hlo-lens report -f json`` process to ``hlo_module_from_text``, the
latter also net of the start of Python and all imports, which is the time of the same command on a
text of one instruction. Memory is the peak of the process as a multiple of the text.

    python -m tests.bench [FILE ...] [--rounds N] [--docs]

Without files: the corpus modules next to the checkout, else modules made from the samples; and
three more of those (`tests.bench_texts`).
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench_texts import LARGE, SPECIAL, grown
from tests.corpus import CORPUS, ROOT
from tests.docs.documents import MANUAL, rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE = ROOT / ".bench"
PICKED = (
    ("gpu-h100_sxm-1x1x8/transformer/small_fsdp", 4),
    ("gpu-h100_sxm-1x1x8/transformer/unrolled48", 14),
    ("cpu8/bigopt/p2000", 19),
    ("gpu-h100_sxm-1x1x8/transformer/unrolled220_longnames", 159),
)
"""Archives in the corpus, and the megabytes of the module in each."""

MEASURE = """
import gc, json, sys, time
path, what = sys.argv[1:3]
text = open(path, encoding="utf-8").read()
if what == "xla":
    from jaxlib._hlo import hlo_module_from_text as parse
else:
    from hlo_lens import parse_hlo as parse
    parse("HloModule warm\\nENTRY e { ROOT p = f32[2]{0} parameter(0), sharding={replicated} }")
gc.collect()
start = time.perf_counter()
module = parse(text)
seconds = time.perf_counter() - start
status = open("/proc/self/status").read()
print(json.dumps([seconds, int(status.partition("VmHWM:")[2].split()[0]) * 1024]))
"""


def corpus_files() -> Iterator[Path]:
    """Yield the benchmark modules of the corpus, unpacked once into .bench."""
    for name, megabytes in PICKED:
        archive = CORPUS / "dumps" / f"{name}.tar.gz"
        target = CACHE / f"corpus-{megabytes:03d}mb.txt"
        if not target.exists() and archive.exists():
            with tarfile.open(archive) as tar:
                member = next(m for m in tar if re.search(r"after_optimizations\.txt$", m.name))
                file = tar.extractfile(member)
                if file is not None:
                    target.write_bytes(file.read())
        if target.exists():
            yield target


def measured(path: Path, what: str) -> tuple[float, int] | None:
    """Return seconds and peak bytes of one parse in a process of its own; None if it fails."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), what],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return None
    seconds, peak = json.loads(done.stdout)
    return float(seconds), int(peak)


def process(*arguments: str) -> tuple[float, int]:
    """Return seconds and peak bytes of a whole hlo-lens process."""
    command = [sys.executable, "-m", "hlo_lens", *arguments]
    start = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"hlo-lens {' '.join(arguments)} fails")
    return seconds, usage.ru_maxrss * 1024


def least(runs: list[tuple[float, int]]) -> tuple[float, int]:
    """Return the least time and the least peak of several runs."""
    return min(seconds for seconds, _ in runs), min(peak for _, peak in runs)


def bench_file(path: Path, rounds: int, start: float) -> str:
    """Return one line of the table: times, ratios and memory for a file.

    Args:
        path: The file.
        rounds: Runs for each figure.
        start: Seconds of the whole command on a text of one instruction.
    """
    size = path.stat().st_size
    xla: list[tuple[float, int]] = []
    ours: list[tuple[float, int]] = []
    report: list[tuple[float, int]] = []
    for _ in range(rounds):
        one = measured(path, "xla")
        if one is not None:
            xla.append(one)
        other = measured(path, "hlo-lens")
        if other is None:
            sys.exit(f"parse_hlo fails on {path}")
        ours.append(other)
        report.append(process("report", "-f", "json", str(path)))
    parse, parse_peak = least(ours)
    whole, whole_peak = least(report)
    mega = size / 1e6
    line = f"{mega:7.1f} {parse:7.2f} {whole:8.2f}"
    if xla:
        base, _ = least(xla)
        line += f" {base:7.2f} {mega / base:6.0f} {parse / base:8.2f} {whole / base:8.2f}"
        line += f" {(whole - start) / base:8.2f}"
    else:
        line += f" {'-':>7} {'-':>6} {'-':>8} {'-':>8} {'-':>8}"
    return f"{line} {parse_peak / size:9.1f} {whole_peak / size:9.1f}  {path.name}"


ESTIMATE = """
import gc, json, sys, time
gc.disable()
from hlo_lens import load, parse_hlo
from hlo_lens.questions.memory.estimate import memory_estimate
from hlo_lens.hlo.query import tabulate
memory_estimate(tabulate(parse_hlo(
    "HloModule warm, is_scheduled=true\\nENTRY e { ROOT p = f32[2]{0} parameter(0) }"
)))
start = time.perf_counter()
table = tabulate(load(sys.argv[1]).modules[0].hlo)
read = time.perf_counter()
assert memory_estimate(table) is not None
done = time.perf_counter()
print(json.dumps([len(table.opcodes), read - start, done - read]))
"""


def bench_estimate(path: Path, rounds: int) -> str:
    """Return a line on the memory estimate of a module: seconds, and the ratio to reading it.

    Reading is the file, the parse and the table of instructions, which each pass needs.
    """
    runs = [_output(ESTIMATE, path) for _ in range(rounds)]
    instructions = int(runs[0][0])
    read, estimate = (min(run[place] for run in runs) for place in (1, 2))
    return (
        f"memory estimate of {path.name}, {instructions:,} instructions: {estimate:.2f} s, "
        f"{estimate / read:.1f} times reading it\n"
    )


def _output(program: str, *paths: Path) -> list[float]:
    """Return the JSON that a Python program prints, run with some paths as arguments."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[float] = json.loads(done.stdout)
    return found


def start_seconds() -> float:
    """Return the time of ``hlo-lens report -f json`` on a text of one instruction."""
    path = CACHE / "one-instruction.txt"
    path.write_text("HloModule one\n\nENTRY %main {\n  ROOT %p = f32[2]{0} parameter(0)\n}\n")
    return least([process("report", "-f", "json", str(path)) for _ in range(5)])[0]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--docs", action="store_true", help="write the table into the handbook")
    parser.add_argument("--make", action="store_true", help="only make the texts")
    options = parser.parse_args()
    CACHE.mkdir(exist_ok=True)
    if options.make:
        made_files()
        return
    printed: list[str] = []
    for text in bench(options.files, options.rounds):
        printed.append(text)
        sys.stdout.write(text)
        sys.stdout.flush()
    if options.docs:
        table = "".join(printed)
        rewrite(MANUAL / "contributing.md", lambda b: table if b.info == "text bench" else b.text)


def bench(files: list[Path], rounds: int) -> Iterator[str]:
    """Yield the parts of the table as they are measured."""
    is_whole = not files
    if is_whole:  # made in a child, since a child's peak memory includes its parent's
        subprocess.run([sys.executable, "-m", "tests.bench", "--make"], cwd=ROOT, check=True)
        files = made_files()
    compileall.compile_dir(ROOT / "hlo_lens", quiet=2)  # as an installed package is
    help_time, _ = least([process("--help") for _ in range(5)])
    start = start_seconds()
    yield f"hlo-lens --help {help_time:.2f} s; report -f json of one instruction {start:.2f} s "
    yield "(whole processes, least of 5)\n\n"
    yield "     MB parse s report s   XLA s   MB/s   parse/  report/      net parse mem report mem"
    yield "\n" + " " * 41 + "XLA      XLA   of start    /text      /text\n"
    for path in files:
        yield bench_file(path, rounds, start) + "\n"
    yield "\n"
    for path in files:
        if "before_optimizations" not in path.name:
            yield bench_estimate(path, rounds)


def made_files() -> list[Path]:
    """Return the texts to read, made by the first call."""
    files = list(corpus_files()) or [grown(one, CACHE) for one in LARGE]
    return files + [grown(one, CACHE) for one in SPECIAL]


if __name__ == "__main__":
    main()
