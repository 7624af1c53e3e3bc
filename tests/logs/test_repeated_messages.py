"""Messages of allocator, runtime and exception about one event are one."""

from __future__ import annotations

import pytest

from hlo_lens.logs.log_analysis import LogAnalysis
from hlo_lens.logs.logs_log import parse_log
from hlo_lens.logs.repeated_messages import without_repeats

ALLOCATOR = "Allocator (GPU_0_bfc) ran out of memory trying to allocate 4.0KiB (rounded to 4096)\n"
OTHER = ALLOCATOR.replace("GPU_0", "GPU_1")
RUNTIME = "Execution of replica 0 failed: Out of memory while trying to allocate 4000 bytes.\n"
ROUNDED = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3.9KiB.\n"
RAISED = "ValueError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4000 bytes.\n"
ATTEMPT = ALLOCATOR.replace(" (rounded to 4096)", " with x. This is not a failure")

CASES = {
    "all three": (ALLOCATOR + RUNTIME + RAISED, [(1, (2, 3))]),
    "exception of two handlers": (RUNTIME + RAISED + "again\n" + RAISED, [(1, (2, 4))]),
    "rounded by the runtime": (ALLOCATOR + ROUNDED, [(1, (2,))]),
    "two failures": (ALLOCATOR + RAISED + ALLOCATOR + RAISED, [(1, (2,)), (3, (4,))]),
    "two of the runtime": (RUNTIME + RUNTIME, [(1, ()), (2, ())]),
    "two devices": (ALLOCATOR + OTHER + RUNTIME + RUNTIME, [(1, (4,)), (2, (3,))]),
    "another size": (ALLOCATOR + RAISED.replace("4000", "9000"), [(1, ()), (2, ())]),
    "attempt": (ATTEMPT + RAISED, [(1, ()), (2, ())]),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_messages_about_one_failed_allocation_are_one(
    text: str, expected: list[tuple[int, tuple[int, ...]]]
) -> None:
    failures = without_repeats(parse_log(text)).failures
    assert [(one.line, one.repeats) for one in failures] == expected


def test_failed_allocation_has_the_requested_bytes_and_the_allocator() -> None:
    (failure,) = without_repeats(parse_log(ALLOCATOR + RUNTIME)).failures
    assert (str(failure.requested), failure.allocator) == ("4000B", "GPU_0_bfc")


STATS = "BufferAssignment stats:\n parameter allocation: 1.00GiB\n total allocation: 2.00GiB\n"


def test_buffer_statistics_printed_twice_are_one() -> None:
    log = without_repeats(parse_log(f"{STATS}\nTraceback\n{STATS}"))
    assert log.buffers is not None
    assert [(entry.line, entry.repeats) for entry in log.buffers.entries] == [(1, (6,))]


SENTENCE = (
    "Ran out of memory in memory space hbm. Used 3.00G of 1.00G hbm. Exceeded hbm capacity by "
    "2.00G.\n"
)
TABLE = "\nTotal hbm usage >= 3.00G:\n    program           3.00G \n\n"


@pytest.mark.parametrize("text", [SENTENCE + "x\n" + SENTENCE + TABLE, SENTENCE + TABLE + SENTENCE])
def test_refused_program_is_one_with_and_without_its_table(text: str) -> None:
    (message,) = LogAnalysis("x", parse_log(text)).log.compile_ooms
    assert message.total is not None
    assert len(message.repeats) == 1
