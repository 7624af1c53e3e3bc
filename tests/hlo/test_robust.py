"""Hostile, huge, truncated and corrupted texts: no hang, no crash, bounded memory.

Huge texts are read in a child process with a limit of CPU time, which prints its peak memory.
"""

from __future__ import annotations

import bisect
import functools
import json
import random
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from hlo_lens.hlo import grammar as hlo_grammar
from hlo_lens.hlo.module_reader import parse_hlo, parse_hlo_modules
from hlo_lens.text.dump_kinds import sniff
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.source import clean, decode
from tests import corpus
from tests.timing import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.hlo.module import HloModule


FIXED_BYTES = 350 << 20
"""Memory of the interpreter, the parsers and trees of the grammar for the smallest text."""

HEAD = "HloModule m\n\nENTRY e {\n  p = f32[8] parameter(0)\n"
TAIL = "  ROOT r = f32[8] negate(p)\n}\n\n"


def around(line: str) -> str:
    """Return a module with a line between two good instructions."""
    return f"{HEAD}  {line}\n{TAIL}"


def one_line(bad: str = "") -> str:
    """Return a module of more than 2 MB on one line, one instruction of which may be bad."""
    lines = [f'x{k} = f32[8] add(p, p), metadata={{op_name="a{k}"}}' for k in range(40_000)]
    lines[777] = bad or lines[777]
    return f"{HEAD} {' '.join(lines)} {TAIL}".replace("\n", " ")


@dataclass(frozen=True)
class Case:
    """A hostile text, and its numbers of instructions and gaps; None: any number."""

    make: Callable[[], str | bytes]
    instructions: int
    gaps: int | None


MOST_CPU_SECONDS = 30
DEEP = 20_000
CASES = {
    # nested deeper than in any real text
    "braces in backend_config": Case(
        lambda: around("x = f32[8] add(p, p), backend_config=" + "{" * DEEP + "}" * DEEP), 3, 0
    ),
    "open braces in backend_config": Case(
        lambda: around("x = f32[8] add(p, p), backend_config=" + "{" * DEEP), 2, 1
    ),
    "parentheses in a shape": Case(
        lambda: around("x = " + "(" * DEEP + ")" * DEEP + " tuple()"), 2, 1
    ),
    "calls in operands": Case(
        lambda: around("x = f32[8] " + "add(" * 10_000 + "p" + ")" * 10_000), 2, 1
    ),
    "open calls in operands": Case(lambda: around("x = f32[8] " + "add(" * DEEP), 2, 1),
    "parentheses in operands": Case(
        lambda: around("x = f32[8] add(" + "(" * DEEP + ")" * DEEP + " p)"), 3, None
    ),
    "braces in a literal": Case(
        lambda: around("x = f32[8] constant(" + "{" * DEEP + "1" + "}" * DEEP + ")"), 3, 0
    ),
    "braces in a sharding": Case(
        lambda: around("x = f32[8] add(p, p), sharding=" + "{" * DEEP + "}" * DEEP), 2, 1
    ),
    "parentheses in a new attribute": Case(
        lambda: around("x = f32[8] add(p, p), new=" + "(" * DEEP + ")" * DEEP), 2, 1
    ),
    "bodies inside bodies": Case(
        lambda: around(
            "x = f32[8] call(p), to_apply="
            + "{ a = f32[] call(p), to_apply=" * 2000
            + "{ a = f32[] parameter(0) }"
            + "}" * 2000
        ),
        2,
        None,
    ),
    "braces in the header": Case(
        lambda: "HloModule m, x=" + "{" * DEEP + "}" * DEEP + HEAD[11:] + TAIL, 2, None
    ),
    "open braces in the header": Case(
        lambda: "HloModule m, x=" + "{" * DEEP + HEAD[11:] + TAIL, 2, 1
    ),
    # lines longer than memory likes
    "30 MB literal": Case(
        lambda: around("x = f32[10000001] constant({" + "1, " * 10_000_000 + "1})"), 3, 0
    ),
    "30 MB string": Case(
        lambda: around('x = f32[8] add(p, p), backend_config="' + "A" * 30_000_000 + '"'), 3, 0
    ),
    "30 MB of junk": Case(lambda: around("@" * 30_000_000), 2, 1),
    "30 MB of junk in operands": Case(lambda: around("x = f32[8] add(" + "@" * 30_000_000), 2, 1),
    "30 MB of white space": Case(lambda: around(" " * 30_000_000), 2, 0),
    "tuple of 200,000 elements": Case(
        lambda: around(
            f"x = ({', '.join(['f32[8]{0:T(8,128)}'] * 200_000)}) "
            'custom-call(p), custom_call_target="x"'
        ),
        3,
        0,
    ),
    "module on one line": Case(one_line, 40_002, 0),
    "module on one line, one instruction bad": Case(
        lambda: one_line("x777 = f32[8] add(p, p"), 40_001, 1
    ),
    "a million attributes": Case(
        lambda: around("x = f32[8] add(p, p)" + ", a=1" * 1_000_000), 3, 0
    ),
    # much that is bad
    "a million lines of junk": Case(lambda: around("some text here\n" * 1_000_000), 2, 1),
    "2,000 bad instructions": Case(lambda: around("x = f32[8] add(p, p]\n" * 2_000), 2, 2_000),
    "2,000 open braces": Case(lambda: around("x = f32[8] add(p, p), new={\n" * 2_000), 2, 2_000),
    "2,000 open strings": Case(
        lambda: around('x = f32[8] add(p, p), new="\n' * 2_000), 1_002, None
    ),
    "2,000 open comments": Case(lambda: around("x = f32[8] add(p, /* p)\n" * 2_000), 2, 2_000),
    "2,000 open comments in headers": Case(lambda: "HloModule /* x\n" * 2_000, 0, None),
    "a million escaped quotes": Case(
        lambda: around('x = f32[8] add(p, p), metadata={op_name="' + '\\"' * 1_000_000), 2, 1
    ),
    "a million names and equal signs": Case(lambda: around("a = " * 1_000_000), 2, None),
    "20,000 headers": Case(lambda: "HloModule m\n" * 20_000, 0, None),
    "2,000 open computations": Case(
        lambda: "HloModule m\n" + "%c (p: f32[]) -> f32[] {\n" * 2_000, 0, None
    ),
    "random bytes": Case(lambda: random.Random(1).randbytes(1_000_000), 0, None),
}

CHILD = """
import sys
from tests.hlo.test_robust import measure
measure(sys.argv[1])
"""


def _peak_bytes() -> int:
    """Return the peak memory of this process alone; ru_maxrss begins with that of its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(name: str) -> None:
    """Read the text of a case and print what came of it; runs in a child process."""
    text = CASES[name].make()
    start = time.process_time()
    try:
        source = clean(decode(text) if isinstance(text, bytes) else text)
        sniff(source.text)
        modules = parse_hlo_modules(source)
        found = sum(m.instruction_count for m in modules), sum(len(m.gaps) for m in modules)
    except HloLensError:
        found = 0, 1
    seconds = time.process_time() - start
    print(json.dumps([*found, len(text), _peak_bytes(), seconds]))  # noqa: T201 # the child's answer


@pytest.mark.parametrize("name", CASES)
def test_hostile_text_is_read_in_time_and_memory(name: str) -> None:
    command = [sys.executable, "-c", CHILD, name]
    run = subprocess.run(
        command,
        cwd=corpus.ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    instructions, gaps, size, peak, seconds = json.loads(run.stdout)
    case = CASES[name]
    assert instructions == case.instructions
    assert case.gaps is None or gaps == case.gaps
    assert peak <= 3 * size + FIXED_BYTES
    assert seconds <= MOST_CPU_SECONDS


# ---- work grows as the text grows ---------------------------------------------------------------


def _work(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[int, int]:
    """Return the number of parses by the grammar, and of their characters."""
    asked: list[int] = []
    read = hlo_grammar.read_instruction

    def counted(source: object, start: int, end: int, **options: bool) -> object:
        asked.append(end - start)
        return read(source, start, end, **options)  # type: ignore[arg-type] # the scanner's source

    with monkeypatch.context() as patch:
        patch.setattr(hlo_grammar, "read_instruction", counted)
        parse_hlo(text)
    return len(asked), sum(asked)


GROWING: dict[str, Callable[[int], str]] = {
    "junk lines": lambda n: around("some text here\n" * n),
    "bad instructions": lambda n: around("x = f32[8] add(p, p]\n" * n),
    "bad instructions on one line": lambda n: around("x = f32[8] add(p, p] " * n),
    "open braces": lambda n: around("x = f32[8] add(p, p), new={\n" * n),
    "open braces closed badly": lambda n: around(
        "x = f32[8] add(p, p), new={\n" * n + "} bad\n" * n
    ),
    "open strings": lambda n: around('x = f32[8] add(p, p), new="\n' * n),
    "open comments": lambda n: around("x = f32[8] add(p, /* p)\n" * n),
    "nested calls": lambda n: around("x = f32[8] add(negate(p), p)\n" * n),
    "wrapped instructions": lambda n: around("x = f32[8]\n    add(p,\n    p)\n" * n),
}


@pytest.mark.parametrize("make", GROWING.values(), ids=GROWING)
def test_work_grows_as_the_text_does(
    make: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few, more, most = (_work(monkeypatch, make(n)) for n in (1000, 1500, 2000))
    assert most[0] - more[0] <= 1.2 * (more[0] - few[0]) + 10
    assert most[1] - more[1] <= 1.2 * (more[1] - few[1]) + 1000
    assert most[1] <= 20 * len(make(2000))


# ---- cut and corrupted --------------------------------------------------------------------------


def _short_samples() -> dict[str, bytes]:
    """Return texts of all dialects, at most 25 kB of each: header, tables and some computations."""
    texts = {"/".join(p.parts[-3:]): corpus.read(p) for p in corpus.sample_hlo()}
    return {name: text[:12_000] + text[-13_000:] for name, text in texts.items()}


SAMPLES = _short_samples()


def readable(data: bytes) -> list[HloModule]:
    """Return the modules of bytes, none where nothing can be read; nothing else may happen."""
    try:
        modules = parse_hlo_modules(clean(decode(data)))
    except HloLensError:
        return []
    for module in modules:
        assert all(gap.line >= 1 and gap.column >= 1 and gap.lines >= 1 for gap in module.gaps)
        assert module.entry is not None
        for instruction in module.instructions:
            _read_all_of(instruction.computation.module)
            break
    return modules


def _read_all_of(module: HloModule) -> None:
    """Ask for everything that is read on demand."""
    for instruction in module.instructions:
        assert instruction.name
        assert instruction.opcode
        for part in ("shape", "operands", "attributes", "called_computations", "sharding"):
            getattr(instruction, part)
        for part in ("control_predecessors", "device_list", "metadata", "source_location"):
            getattr(instruction, part)
        assert instruction.channel_id is None or isinstance(instruction.channel_id, int)
        assert dict(instruction.frontend_attributes) is not None
    assert module.entry_computation_layout is None or str(module.entry_computation_layout)
    assert isinstance(module.input_output_alias, tuple)
    assert isinstance(module.buffer_donor, tuple)


@functools.cache
def _ends(name: str) -> tuple[bytes, list[int]]:
    """Return a whole sample, and where each of its instructions ends."""
    text = next(corpus.read(p) for p in corpus.sample_hlo() if str(p).endswith(name))
    module = parse_hlo(text)
    assert module.gaps == ()
    assert text.isascii()
    return text, [instruction.span.end for instruction in module.instructions]


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(sorted(SAMPLES)), where=st.floats(0, 1))
def test_text_cut_anywhere_keeps_what_was_complete(name: str, where: float) -> None:
    text, ends = _ends(name)
    offset = int(where * len(text))
    complete = bisect.bisect_right(ends, offset)
    found = sum(module.instruction_count for module in readable(text[:offset]))
    assert complete <= found <= complete + 1  # the last may lack its attributes


@settings(max_examples=25, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(SAMPLES)))
def test_corrupted_bytes_give_a_result_or_an_error(data: st.DataObject, name: str) -> None:
    sample = SAMPLES[name]
    changed = bytearray(sample)
    places = st.integers(0, len(sample) - 1)
    for _ in range(data.draw(st.integers(1, 20))):
        changed[data.draw(places)] = data.draw(
            st.sampled_from(b"{}()[]\"'\\,=#%/*\n\r\t \0\x1b\x80\xff1ax.") | st.integers(0, 255)
        )
    readable(bytes(changed))


def test_column_of_thousands_of_digits_is_read() -> None:
    module = parse_hlo(
        'HloModule m\n\nFileNames\n1 "m.py"\n\nFunctionNames\n1 "f"\n\nFileLocations\n'
        f"1 {{file_name_id=1 function_name_id=1 line=7 column={'9' * 5000}}}\n\n"
        "StackFrames\n1 {file_location_id=1}\n\n\n"
        "ENTRY main {\n  ROOT x = f32[] parameter(0), metadata={stack_frame_id=1}\n}\n",
    )
    assert module.stack_frames.stack(1)[0].line == 7
