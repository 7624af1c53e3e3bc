"""Live ranges of all years, from text to model."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hlo_lens.buffers.live_range import BufferLiveRange, HloLiveRange, PeakValue, parse_live_range
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import clean
from tests import corpus
from tests.lark_alone import lark_alone
from tests.timing import PATIENCE_SECONDS

HEAD = """HloLiveRange (max 3):
  InstructionSequence:
    0:paramA
    1:param.X-y
    2:tuple_1.clone
  BufferLiveRange:
    paramA{}:0-3
    param.X-y{}:0-3
    tuple_1.clone{}:2-3
    tuple_1.clone{1,0}:2-2
"""
PEAK_2021 = """  Live ranges at 2 (peak):
    paramA: 16 bytes
    param.X-y: 16 bytes
    tuple_1.clone: 16 bytes
    tuple_1.clone: 16 bytes
"""
PEAK_2025_04 = """  Live ranges at 2 (peak):
    paramA{}: 16 bytes
    param.X-y{}: 16 bytes
    tuple_1.clone{}: 16 bytes
    tuple_1.clone{1,0}: 16 bytes
"""
PEAK_2025_05 = """  Live ranges at 2 (peak):
    paramA{}: 16 bytes (cumulative: 16 bytes)
    param.X-y{}: 16 bytes (cumulative: 32 bytes)
    tuple_1.clone{}: 16 bytes (cumulative: 48 bytes)
    tuple_1.clone{1,0}: 16 bytes (cumulative: 64 bytes)
"""
TREE_2025_05 = """  Stack trace breakdown for peak usage: 64 bytes
    main (100.0%, 64 bytes)
      ├── jit(f) (75.0%, 48 bytes)
      │   ├── a(b) (c (50.0%, 32 bytes)
      │   └── mul (25.0%, 16 bytes)
      └── paramA (25.0%, 16 bytes)
"""
TREE_2025_06 = """  Stack trace breakdown for peak usage: 64 bytes
    main (100.0%, 64 bytes)
      ├── jit(f) (75.0%, 48 bytes)
      │   ├── a(b) (c (50.0%, 32 bytes, remaining: 32 bytes)
      │   └── mul (25.0%, 16 bytes, remaining: 16 bytes)
      └── paramA (25.0%, 16 bytes, remaining: 0 bytes)
"""
TREE_2025_07 = """  Stack trace breakdown for peak usage: 64000 bytes
    main (100.0%, total: 64000 bytes, current: 0 bytes, remaining: 64000 bytes)
      ├── jit(f) (75.0%, total: 48000 bytes, current: 0 bytes, remaining: 64000 bytes)
      │   ├── a(b) (c (50.0%, total: 32000 bytes, current: 32000 bytes, remaining: 32000 bytes)
      │   └── mul (25.0%, total: 16000 bytes, current: 16000 bytes, remaining: 16000 bytes)
      └── paramA (25.0%, total: 16000 bytes, current: 16000 bytes, remaining: 0 bytes)
"""
TREE = TREE_2025_07.replace("000 ", " 000 ")
NO_TREE = "  Stack trace breakdown for peak usage: 0 bytes\n"
NAN_TREE = "  Stack trace breakdown for peak usage: 0 bytes\n    main (nan%, 0 bytes)\n"
UNDETERMINED = "  Peak memory could not be determined due to unbounded dynamic shape.\n"
NOT_AVAILABLE = "HloLiveRange not available (finalized or constructed from proto)"


def _assert_same(text: str, name: str = "<text>") -> HloLiveRange:
    """Assert that scanner and grammar give equal models of a live range; return the model."""
    source = clean(text, name)
    scanned = parse_live_range(source)
    assert scanned.gaps == ()
    with lark_alone():
        assert scanned == parse_live_range(source)
    return scanned


FORMS = {
    "2021": (HEAD + PEAK_2021, None),
    "April 2025": (HEAD + PEAK_2025_04, (1, 0)),
    "May 2025, no tree": (HEAD + PEAK_2025_05, (1, 0)),
    "May 2025": (HEAD + PEAK_2025_05 + TREE_2025_05, (1, 0)),
    "June 2025": (HEAD + PEAK_2025_05 + TREE_2025_06, (1, 0)),
    "July 2025": (HEAD + PEAK_2025_05 + TREE_2025_07, (1, 0)),
    "today": (HEAD + PEAK_2025_05 + TREE, (1, 0)),
    "ASCII branches": (HEAD + PEAK_2025_05 + TREE.translate(str.maketrans("│├└─", "|+`-")), (1, 0)),
    "empty tree": (HEAD + PEAK_2025_05 + NO_TREE, (1, 0)),
    "nothing at the peak": (HEAD + PEAK_2025_05 + NAN_TREE, (1, 0)),
}


@pytest.mark.parametrize(("text", "index"), FORMS.values(), ids=FORMS)
def test_each_form_is_read_alike(text: str, index: tuple[int, ...] | None) -> None:
    read = _assert_same(text)
    assert parse_live_range(text.encode()) == read
    assert (read.schedule_end_time, read.is_available, read.is_complete) == (3, True, True)
    assert list(read.flattened_instruction_sequence) == ["paramA", "param.X-y", "tuple_1.clone"]
    assert list(read.buffer_live_ranges) == [
        BufferLiveRange("paramA", (), 0, 3),
        BufferLiveRange("param.X-y", (), 0, 3),
        BufferLiveRange("tuple_1.clone", (), 2, 3),
        BufferLiveRange("tuple_1.clone", (1, 0), 2, 2),
    ]
    assert (read.peak_moment, read.peak_bytes, len(read.peak_values)) == (2, 64, 4)
    assert read.peak_values[-1] == PeakValue("tuple_1.clone", index, 16)


def test_a_value_counts_at_both_ends() -> None:
    read = parse_live_range(HEAD + PEAK_2025_05)
    names = [[r.name for r in read.live_at(time)] for time in range(5)]
    ends = ["paramA{}", "param.X-y{}"]
    whole = [*ends, "tuple_1.clone{}", "tuple_1.clone{1,0}"]
    assert names == [ends, ends, whole, whole[:3], []]


def test_instructions_are_found_by_time() -> None:
    read = parse_live_range(HEAD + PEAK_2025_05)
    assert [read.instruction_at(t) for t in (-1, 0, 2, 3)] == [
        None,
        "paramA",
        "tuple_1.clone",
        None,
    ]
    sparse = parse_live_range(HEAD.replace("    1:param.X-y\n", ""))
    assert [sparse.instruction_at(t) for t in (0, 1, 2)] == ["paramA", None, "tuple_1.clone"]
    assert not sparse.is_complete


def test_an_undetermined_peak_is_said() -> None:
    read = _assert_same(HEAD + UNDETERMINED)
    assert read.is_complete
    assert (read.peak_moment, read.peak_bytes) == (None, None)


def test_a_range_may_be_not_available() -> None:
    read = _assert_same(NOT_AVAILABLE)
    assert (read.is_available, read.is_complete, read.schedule_end_time) == (False, True, None)
    assert len(read.buffer_live_ranges) == 0


def test_an_empty_schedule_is_one() -> None:
    text = "HloLiveRange (max 0):\n  InstructionSequence:\n  BufferLiveRange:\n"
    read = _assert_same(f"{text}  Live ranges at 0 (peak):\n")
    assert (read.schedule_end_time, read.peak_bytes, read.is_complete) == (0, 0, True)


def test_it_is_found_after_an_assignment() -> None:
    text = (
        "BufferAssignment:\nallocation 0: size 16, constant:\n"
        " value: <0 paramA @0> (size=16,offset=0): f32[4]\n\nTotal bytes used: 16 (16B)\n\n"
        "Used values:\n<0 paramA @0>\n positions:\n  paramA\n uses:\n"
        " from instruction: %paramA = f32[4] parameter(0)\n\n\n"
    )
    read = parse_live_range(text + HEAD + PEAK_2021, path="x.txt")
    assert read == parse_live_range(HEAD + PEAK_2021)
    assert (read.gaps, read.is_complete, read.start, read.path) == ((), True, len(text), "x.txt")


def test_other_white_space_goes_to_the_grammar() -> None:
    loose = HEAD.replace("    0:", "  0: ").replace("paramA{}:0-3", "paramA {} : 0 - 3")
    read = parse_live_range(loose + PEAK_2025_05.replace("    paramA{}: ", "   paramA{}  :  "))
    assert read == parse_live_range(HEAD + PEAK_2025_05)
    assert read.gaps == ()


def test_lines_of_others_are_gaps_and_nothing_is_lost() -> None:
    text = HEAD + PEAK_2025_05 + TREE
    lines = text.splitlines()
    noisy = ["started", *lines[:4], "compiling, took 3 s", *lines[4:], "ended", ""]
    read = parse_live_range("\n".join(noisy))
    assert read == parse_live_range(text)
    assert [(g.line, g.lines) for g in read.gaps] == [(1, 1), (6, 1), (len(noisy) - 1, 1)]
    assert read.is_complete


@pytest.mark.parametrize("text", ["", "hello\n", "HloModule m\n"], ids=["nothing", "junk", "HLO"])
def test_a_text_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(DumpSyntaxError, match="HloLiveRange"):
        parse_live_range(text)


ERRORS = {
    "time": ("    x:a", 3, 5, "expected a line of an HloLiveRange"),
    "no name": ("    7:", 3, 7, "expected a name, found the end"),
    "end": ("    a{}:3-", 3, 11, "expected a number, found the end"),
    "half open": ("    a{}:3-x", 3, 11, "expected a number, found 'x'"),
    "bytes": ("    a{}: 7 bites", 3, 5, "expected a line of an HloLiveRange"),
    "sum": ("    a: 7 bytes (cumulative: x)", 3, 29, "expected a number, found 'x'"),
    "peak": ("  Live ranges at x:", 3, 18, "expected a number, found 'x'"),
    "large": ("    a{}:3-12345678901", 3, 11, "expected a number, found '12345678901'"),
    "tree": ("  Stack trace breakdown for x", 3, 3, "expected 'Stack trace breakdown for"),
}


@pytest.mark.parametrize(("line", "number", "column", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_are_placed(line: str, number: int, column: int, message: str) -> None:
    text = f"HloLiveRange (max 1):\n  InstructionSequence:\n{line}\n"
    gap = parse_live_range(text, path="x.txt").gaps[0]
    assert (gap.path, gap.line, gap.column) == ("x.txt", number, column)
    assert message in gap.message
    with pytest.raises(DumpSyntaxError) as caught:
        parse_live_range(text, strict=True)
    assert (caught.value.line, caught.value.column) == (number, column)


def test_a_truncated_range_keeps_what_is_there_and_says_so() -> None:
    text = HEAD + PEAK_2025_05 + TREE
    whole = list(parse_live_range(text).buffer_live_ranges)
    for cut in range(25, len(text)):
        read = parse_live_range(text[:cut])
        sure = max(0, len(read.buffer_live_ranges) - 1)
        assert list(read.buffer_live_ranges)[:sure] == whole[:sure]
        # Cut before the tree it is a whole range of the years before trees.
        assert read.is_complete == (text[:cut].rstrip(" ") == HEAD + PEAK_2025_05)


_MEASURE = """
import resource, time
from hlo_lens.buffers.live_range import parse_live_range
count = 500_000
parts = [f"HloLiveRange (max {count}):\\n  InstructionSequence:\\n"]
parts += [f"    {i}:fusion.{i}\\n" for i in range(count)]
parts.append("  BufferLiveRange:\\n")
parts += [f"    fusion.{i}{{}}:{i}-{min(count, i + 40)}\\n" for i in range(count)]
parts.append("  Live ranges at 0 (peak):\\n    fusion.0{}: 4 bytes (cumulative: 4 bytes)\\n")
data = "".join(parts).encode()
del parts
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
read = parse_live_range(data)
seconds = time.process_time() - start
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert len(read.buffer_live_ranges) == count and not read.gaps and read.is_complete
print((after - before) * 1024 / len(data), len(data) / seconds / 1e6)
"""


def test_time_and_memory_of_a_long_schedule() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE],
        capture_output=True,
        text=True,
        check=True,
        cwd=corpus.ROOT,
        timeout=PATIENCE_SECONDS,
    )
    times_the_text, megabytes_a_second = map(float, done.stdout.split())
    assert times_the_text < 2, "beside the bytes themselves"
    assert megabytes_a_second > 5
