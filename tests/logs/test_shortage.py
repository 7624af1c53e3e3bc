"""Missing bytes and groups to free, from the numbers of a message; messages about one event."""

from __future__ import annotations

import pytest

from hlo_lens.buffers.memory_usage import HumanSize
from hlo_lens.logs.compiler_output import PeakBuffer, peak_buffer_groups
from hlo_lens.logs.log import parse_log, without_repeats
from hlo_lens.logs.out_of_memory import (
    CompileOutOfMemory,
    MemoryGroup,
    MemoryPart,
    ProgramAllocation,
    memory_shortage,
    missing_bytes,
    shortage_of,
)
from hlo_lens.logs.page import log_sections
from tests.corpus import SAMPLES

GIB = 1 << 30


def size(text: str) -> HumanSize:
    return HumanSize(text)


def test_missing_bytes_are_those_that_both_numbers_allow() -> None:
    message = CompileOutOfMemory(
        memory_space="hbm", used=(size("3.00G"),), capacity=size("2.00G"), exceeded=size("1.00G")
    )
    least, most = missing_bytes(message) or (0, 0)
    assert size("1.00G").at_least == least <= GIB <= most == size("1.00G").at_most
    told = CompileOutOfMemory(memory_space="hbm", used=(size("3.00G"),), capacity=size("2.00G"))
    least, most = missing_bytes(told) or (0, 0)
    assert least < GIB < most


def test_missing_bytes_are_exact_where_the_numbers_are() -> None:
    message = CompileOutOfMemory(
        memory_space="vmem", used=(size("4096B"), size("100B")), capacity=size("4000B")
    )
    assert missing_bytes(message) == (196, 196)
    assert missing_bytes(CompileOutOfMemory(memory_space="vmem")) is None


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [((200, 200), "yes"), ((99, 99), "no"), ((100, 100), "perhaps"), ((150, 150), "yes")],
)
def test_group_is_enough_only_if_certain(bounds: tuple[int, int], verdict: str) -> None:
    (group,) = shortage_of([MemoryGroup.of("buffers", "x", bounds)], (100, 150)).groups
    assert group.is_enough == verdict


def allocation(text: str, number: int, padding: str | None = None) -> ProgramAllocation:
    return ProgramAllocation(
        number=number,
        size=size(text),
        padding=None if padding is None else size(padding),
        label=f"%copy.{number} = f32[8,4]{{1,0}} copy(%p)",
        shape="f32[8,4]{1,0:T(8,128)}",
        allocation_type="HLO temp",
    )


def test_equal_allocations_are_one_group() -> None:
    message = CompileOutOfMemory(
        memory_space="hbm",
        exceeded=size("1000B"),
        allocations=(allocation("600B", 1, "500B"), allocation("600B", 2, "500B")),
    )
    groups = memory_shortage(message).groups
    assert [(g.kind, g.what, g.buffers, (g.at_least_bytes, g.at_most_bytes)) for g in groups] == [
        ("buffers", "copy f32[8,4]", 2, (1200, 1200)),
        ("padding", "padding of the allocations listed", 2, (1000, 1000)),
    ]
    assert groups[0].padding_bytes == 1000
    assert [g.is_enough for g in groups] == ["yes", "yes"]


def test_arguments_and_outputs_that_are_not_donated_are_groups() -> None:
    message = CompileOutOfMemory(
        memory_space="hbm",
        usage=(MemoryPart(name="arguments", size=size("300B")),),
        output=size("200B"),
        output_shared=size("50B"),
    )
    assert [
        (g.kind, (g.at_least_bytes, g.at_most_bytes)) for g in memory_shortage(message).groups
    ] == [
        ("arguments", (300, 300)),
        ("outputs", (150, 150)),
    ]


def test_peak_buffers_that_are_equal_are_one_group() -> None:
    buffers = [
        PeakBuffer(number=1, size=size("100B"), label="fusion", shape="f32[5]"),
        PeakBuffer(number=2, size=size("100B"), label="fusion", shape="f32[5]"),
        PeakBuffer(number=3, size=size("300B"), shape="f32[9]", is_entry_parameter=True),
    ]
    groups = peak_buffer_groups(buffers).groups
    assert [(g.kind, g.what, g.buffers, (g.at_least_bytes, g.at_most_bytes)) for g in groups] == [
        ("arguments", "parameter f32[9]", 1, (300, 300)),
        ("buffers", "fusion f32[5]", 2, (200, 200)),
    ]


# ---- messages about one event ------------------------------------------------------------------

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


STATS = "BufferAssignment stats:\n parameter allocation: 1.00GiB\n total allocation: 2.00GiB\n"


def test_buffer_statistics_printed_twice_are_one() -> None:
    log = without_repeats(parse_log(f"{STATS}\nTraceback\n{STATS}"))
    assert [(entry.line, entry.repeats) for entry in log.buffers] == [(1, (6,))]


SENTENCE = (
    "Ran out of memory in memory space hbm. Used 3.00G of 1.00G hbm. Exceeded hbm capacity by "
    "2.00G.\n"
)
TABLE = "\nTotal hbm usage >= 3.00G:\n    program           3.00G \n\n"


@pytest.mark.parametrize("text", [SENTENCE + "x\n" + SENTENCE + TABLE, SENTENCE + TABLE + SENTENCE])
def test_refused_program_is_one_with_and_without_its_table(text: str) -> None:
    (message,) = without_repeats(parse_log(text)).compile_ooms
    assert message.total is not None
    assert len(message.repeats) == 1


FAILED = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
    "allocate 1073741824 bytes.\n"
)


def test_a_failed_allocation_without_a_dump_names_the_next_command() -> None:
    log = parse_log(FAILED, path="oom.txt")
    notes = [note for one in log_sections("l", log) for note in one.notes]
    assert any(note.endswith(": hlo-lens report DUMP --log oom.txt") for note in notes)


def test_a_refused_program_begins_with_what_does_not_fit() -> None:
    text = (SAMPLES / "logs" / "tpu_oom_libtpu_0_0_17.txt").read_text("utf-8")
    _, first, second = log_sections("l", parse_log(text))
    assert first.facts[0] == ("does not fit", "51.00G of 15.75G hbm: 35.25GiB ± 5.50MiB too much")
    assert dict(first.facts)["needs"] == "program 51.00G, reserved 258.00M, arguments 0B"
    assert dict(first.facts)["try first"].startswith("temporaries are largest")
    assert dict(second.facts)["try first"].startswith("padding is largest")


def test_a_failed_allocation_has_what_its_program_needs() -> None:
    _, section = log_sections("l", parse_log(f"{FAILED}\n{STATS}"))
    assert section.facts[0] == ("does not fit", "1.00GiB requested")
    assert dict(section.facts)["needs"] == "arguments 1.00GiB; 2.00GiB in all"
    assert "memory, arguments are largest: donate" in dict(section.facts)["try first"]
