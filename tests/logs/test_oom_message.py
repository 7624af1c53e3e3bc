"""Missing bytes and groups to free, computed from the numbers of a message."""

from __future__ import annotations

import pytest

from hlo_lens.buffers.human_size import HumanSize
from hlo_lens.logs.log import PeakBuffer
from hlo_lens.logs.oom_message import (
    MemoryShortage,
    memory_shortage,
    missing_bytes,
    peak_buffer_groups,
)
from hlo_lens.logs.out_of_memory import CompileOutOfMemory, MemoryPart, ProgramAllocation

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
    assert MemoryShortage(missing=(100, 150), groups=()).is_enough(bounds) == verdict


def allocation(text: str, number: int, padding: str | None = None) -> ProgramAllocation:
    return ProgramAllocation(
        number=number,
        size=size(text),
        padding=None if padding is None else size(padding),
        label=f"%copy.{number} = f32[8,4]{{1,0}} copy(%p)",
        shape_text="f32[8,4]{1,0:T(8,128)}",
        allocation_type="HLO temp",
    )


def test_equal_allocations_are_one_group() -> None:
    message = CompileOutOfMemory(
        memory_space="hbm",
        exceeded=size("1000B"),
        allocations=(allocation("600B", 1, "500B"), allocation("600B", 2, "500B")),
    )
    groups = memory_shortage(message).groups
    assert [(g.kind, g.what, g.buffers, g.size) for g in groups] == [
        ("buffers", "copy f32[8,4]", 2, (1200, 1200)),
        ("padding", "padding of the allocations listed", 2, (1000, 1000)),
    ]
    assert groups[0].padding == (1000, 1000)
    verdicts = [row[6] for row in memory_shortage(message).rows()]
    assert verdicts == ["yes", "yes"]


def test_padding_of_all_values_replaces_that_of_the_listed() -> None:
    part = MemoryPart(
        name="HLO temp", size=size("900B"), unpadded=size("100B"), padded=size("900B")
    )
    message = CompileOutOfMemory(
        memory_space="hbm", parts=(part,), allocations=(allocation("600B", 1, "500B"),)
    )
    found = {g.what: g.size for g in memory_shortage(message).groups if g.kind == "padding"}
    assert found == {"padding of all HLO temp": (800, 800)}


def test_arguments_and_outputs_that_are_not_donated_are_groups() -> None:
    message = CompileOutOfMemory(
        memory_space="hbm",
        usage=(MemoryPart(name="arguments", size=size("300B")),),
        output=size("200B"),
        output_shared=size("50B"),
    )
    assert [(g.kind, g.size) for g in memory_shortage(message).groups] == [
        ("arguments", (300, 300)),
        ("outputs", (150, 150)),
    ]


def test_peak_buffers_that_are_equal_are_one_group() -> None:
    buffers = [
        PeakBuffer(number=1, size=size("100B"), label="fusion", shape_text="f32[5]"),
        PeakBuffer(number=2, size=size("100B"), label="fusion", shape_text="f32[5]"),
        PeakBuffer(number=3, size=size("300B"), shape_text="f32[9]", is_entry_parameter=True),
    ]
    groups = peak_buffer_groups(buffers).groups
    assert [(g.kind, g.what, g.buffers, g.size) for g in groups] == [
        ("arguments", "parameter f32[9]", 1, (300, 300)),
        ("buffers", "fusion f32[5]", 2, (200, 200)),
    ]
