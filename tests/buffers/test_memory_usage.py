"""Memory-usage reports of both forms, and the sizes that XLA prints for people."""

from __future__ import annotations

import random

import pytest

from hlo_lens.buffers.memory_usage import HumanSize, MemoryUsageReport, parse_memory_usage_report
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import clean
from tests.lark_alone import lark_alone

TIMES = "\N{MULTIPLICATION SIGN}"
DASHES = "-" * 60
HEAD = "cumulative_size;       size;       offset; used_by_n_values; shapes_list"

BY_SPACE = f"""Memory Space: default (color=0)
Total bytes: 81527260 (77.75MiB)
  {HEAD}
  {DASHES}
    8.00MiB( 33%);    8.00MiB;     25165824;                2; f32[2048,1024], 3{TIMES}f32[64,2048]
   16.00MiB( 67%);    8.00MiB;            0;                1; (s32[], /*index=1*/f32[2])
  The rest 12 values are less than 5% of the total size and not shown.

  {HEAD}
  {DASHES}
         4B(100%);         4B;            0;                1; f32[]


Memory Space: color_6 (color=6)
Total bytes: 0 (0B)
  {HEAD}
  {DASHES}


"""

BY_ALLOCATION = f"""Total bytes used: 41526 (40.6KiB)

Allocations sorted by size:

cumulative_size; total_size - cumulative_size; allocation
------------------------------------------------------------------------------
   40.3KiB( 99%);       242B; allocation 2: size 40.3KiB, preallocated-temp:
   40.4KiB(100%);       100B; allocation 0: size 72B, color 1, parameter 3, shape |f32[], x| at \
ShapeIndex {{1}}, output shape is |(f32[], s32[])|, maybe-live-out:
The rest 1 allocations are less than 5% of the total size and not shown.


Allocations sorted by size with their values:
allocation 2: size 40.3KiB, preallocated-temp:

\t{HEAD}
\t{DASHES}
\t  39.1KiB(100%);    39.1KiB;          640;                6; f32[10000], 5{TIMES}s32[]

allocation 0: size 72B, color 1, maybe-live-out:
allocation 1: size 1B, constant:
""".replace("f32[], x|", "(f32[], s32[])|")


def _assert_same(text: str, name: str = "<text>") -> MemoryUsageReport:
    """Assert that scanner and grammar give equal models of a report; return the model."""
    source = clean(text, name)
    scanned = parse_memory_usage_report(source)
    assert scanned.gaps == ()
    with lark_alone():
        assert scanned == parse_memory_usage_report(source)
    return scanned


def test_the_form_by_memory_space() -> None:
    report = _assert_same(BY_SPACE)
    assert (report.is_by_memory_space, report.is_complete) == (True, True)
    assert report.bytes_by_color() == {0: 81527260, 6: 0}
    assert report.total_bytes == 81527260
    assert [space.name for space in report.spaces] == ["default", "color_6"]
    size = HumanSize("8.00MiB")
    shapes = (f"f32[2048,1024], 3{TIMES}f32[64,2048]", "(s32[], /*index=1*/f32[2])")
    assert report.rows == [
        (size, 25165824, 2, shapes[0]),
        (size, 0, 1, shapes[1]),
        (HumanSize("4B"), 0, 1, "f32[]"),
    ]


def test_the_form_by_allocation() -> None:
    report = _assert_same(BY_ALLOCATION)
    assert (report.is_by_memory_space, report.is_complete) == (False, True)
    assert (report.total_bytes, report.bytes_by_color()) == (41526, None)
    assert report.rows == [(HumanSize("39.1KiB"), 640, 6, f"f32[10000], 5{TIMES}s32[]")]
    fewer = BY_ALLOCATION.replace("allocation 1: size 1B, constant:\n", "")
    assert not parse_memory_usage_report(fewer).is_complete


def test_a_total_of_nothing_has_no_share() -> None:
    text = BY_SPACE.replace("(100%)", "(-nan%)")
    assert _assert_same(text).is_complete


def test_other_white_space_goes_to_the_grammar() -> None:
    loose = BY_SPACE.replace("8.00MiB( 33%);", "8.00MiB ( 33%) ;")
    assert _assert_same(loose) == parse_memory_usage_report(BY_SPACE)
    loose = BY_ALLOCATION.replace("242B; allocation", "242B ;  allocation ")
    assert _assert_same(loose) == parse_memory_usage_report(BY_ALLOCATION)


@pytest.mark.parametrize("text", [BY_SPACE, BY_ALLOCATION], ids=["by space", "by allocation"])
def test_a_truncated_report_keeps_what_is_there(text: str) -> None:
    whole = parse_memory_usage_report(text)
    for cut in range(90, len(text)):
        report = parse_memory_usage_report(text[:cut])
        assert [s.color for s in report.spaces] == [s.color for s in whole.spaces][
            : len(report.spaces)
        ]
        sure = max(0, len(report.rows) - 1)
        assert report.rows[:sure] == whole.rows[:sure]
        if text[cut - 1] != "\n" and text[:cut].rstrip() != text.rstrip():
            assert not report.is_complete or text[cut - 1] in " \t"


def test_lines_of_others_are_gaps() -> None:
    lines = BY_SPACE.splitlines()
    report = parse_memory_usage_report("\n".join(["x", *lines[:5], "y", *lines[5:], "", "z\n"]))
    assert report.spaces == parse_memory_usage_report(BY_SPACE).spaces
    assert [gap.line for gap in report.gaps] == [1, 7, 23]


ERRORS = {
    "percent": ("    8.00MiB( x%);    8.00MiB;  0;  2; f32[]", 5, 12),
    "size": ("    8.00MiB( 33%);    8.00XiB;  0;  2; f32[]", 5, 23),
    "offset": ("    8.00MiB( 33%);    8.00MiB;  x;  2; f32[]", 5, 33),
    "row": ("    8.00MiB and so on", 5, 5),
}


@pytest.mark.parametrize(("row", "line", "column"), ERRORS.values(), ids=ERRORS)
def test_errors_are_placed(row: str, line: int, column: int) -> None:
    head = "\n".join(BY_SPACE.split("\n")[:4])
    gap = parse_memory_usage_report(f"{head}\n{row}\n", path="x.txt").gaps[0]
    assert (gap.path, gap.line, gap.column) == ("x.txt", line, column)
    with pytest.raises(DumpSyntaxError):
        parse_memory_usage_report(f"{head}\n{row}\n", strict=True)


@pytest.mark.parametrize(
    "text",
    ["", "hello\n", "\nTotal bytes used: 5 (5B)\n\nUsed values:\n"],
    ids=["nothing", "junk", "used values"],
)
def test_a_text_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(DumpSyntaxError):
        parse_memory_usage_report(text)


# ---- sizes for people --------------------------------------------------------------------------


def _printed(size: int) -> str:
    """Print as strings::HumanReadableNumBytes does (tsl/platform/numbers.cc)."""
    sign, size, unit = "-" * (size < 0), abs(size), 0
    if size < 1024:
        return f"{sign}{size}B"
    while size >= 1024 * 1024:
        size //= 1024
        unit += 1
    return f"{sign}{size / 1024:.{2 if unit else 1}f}{'KMGTPE'[unit]}iB"


BOUNDS = {
    "0B": (0, 0),
    "1023B": (1023, 1023),
    "1.0KiB": (1024, 1075),
    "1024.0KiB": (1048525, 1048575),
    "1.00MiB": (1048576, 1054719),
    "8.00MiB": (8383488, 8394751),
    "-5B": (-5, -5),
    "-1.0KiB": (-1075, -1024),
    "-8E": (None, None),
    "much": (None, None),
    "0.5KiB": (None, None),
}


@pytest.mark.parametrize(("text", "bounds"), BOUNDS.items(), ids=BOUNDS)
def test_a_size_for_people_stands_for_a_range(
    text: str, bounds: tuple[int | None, int | None]
) -> None:
    size = HumanSize(text)
    assert (size.at_least, size.at_most, str(size)) == (*bounds, text)


@pytest.mark.parametrize("seed", range(20))
def test_the_range_is_just_what_is_printed_so(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        number = chance.randrange(1 << chance.randrange(1, 63))
        size = HumanSize(_printed(number))
        assert size.matches(number)
        least, most = size.at_least, size.at_most
        assert least is not None
        assert most is not None
        assert _printed(least) == _printed(most) == size.text
        assert size.text not in (_printed(least - 1), _printed(most + 1))
