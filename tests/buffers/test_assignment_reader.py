"""Buffer assignments and used values of all years, from text to model."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from hlo_lens.buffers.assignment_reader import parse_buffer_assignment, parse_buffer_values
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import clean
from tests.buffer_texts import assigned_values
from tests.lark_alone import lark_alone

if TYPE_CHECKING:
    from hlo_lens.buffers.assignment import BufferAllocation, BufferAssignment

ALLOCATIONS = """BufferAssignment:
allocation 0: size 8192, parameter 3, shape |f32[64,32]| at ShapeIndex {}:
 value: <11 param.2 @0> (size=8192,offset=0): f32[64,32]{1,0}
allocation 1: size 4096, parameter 1, shape |f32[32,32]| at ShapeIndex {}, maybe-live-out:
 value: <10 param.1 @0> (size=4096,offset=0): f32[32,32]{1,0}
 value: <25 fusion.5{0} @0> (size=4096,offset=0): f32[1024]{0}
allocation 2: size 300, preallocated-temp:
 value: <26 add.7 @0> (size=44,offset=256): f32[11]{0}
"""

VALUES = """
Total bytes used: 12588 (12.3KiB)

Used values:
<10 param.1 @0>
 positions:
  param.1
  tuple.2 {0,1}
 uses:
  fusion.5, operand 0
  while.3, operand 1 {2}
 from instruction: %param.1 = f32[32,32]{1,0} parameter(1), sharding={replicated}
<11 param.2 @0>
 positions:
  param.2
 uses:
  (none)
 from instruction: %param.2 = f32[64,32]{1,0} parameter(3)
<25 fusion.5{0} @0>
 positions:
  fusion.5 {0}
 uses:
 from instruction: %fusion.5 = (f32[1024]{0}, f32[256]{0}) fusion(%param.1), kind=kLoop
<26 add.7 @0>
 positions:
  add.7
 uses are not initialized yet.
 from instruction: %add.7 = f32[11]{0} add(%a, %b)
"""

RANGES = """

HloLiveRange (max 1):
  InstructionSequence:
    0:param.1
  BufferLiveRange:
    param.1{}:0-1
  Live ranges at 0 (peak):
    param.1: 4096 bytes
"""


def _assert_same(text: str, name: str = "<text>") -> BufferAssignment:
    """Assert that scanner and grammar give equal models of allocations; return the model."""
    source = clean(text, name)
    scanned = parse_buffer_assignment(source)
    assert scanned.gaps == ()
    with lark_alone():
        assert scanned.allocations == parse_buffer_assignment(source).allocations
    return scanned


def _assert_same_values(text: str, name: str = "<text>") -> None:
    source = clean(text, name)
    scanned = parse_buffer_values(source)
    assert scanned.gaps == ()
    with lark_alone():
        assert scanned == parse_buffer_values(source)


def _one(line: str) -> BufferAllocation:
    (allocation,) = _assert_same(f"BufferAssignment:\n{line}\n").allocations
    return allocation


# ---- allocation lines --------------------------------------------------------------------------

FORMS: dict[str, tuple[str, dict[str, object]]] = {
    "plain": ("allocation 0: size 8:", {"index": 0, "size": 8, "color": 0}),
    "pointer of 2022": ("allocation 13: 0x15c66da0, size 13456:", {"index": 13, "size": 13456}),
    "no pointer": ("allocation 0: (nil), size 1:", {"size": 1}),
    "colour": ("allocation 0: size 8, color 5:", {"color": 5}),
    "page": ("allocation 0: size 8, page 0:", {"color": 0}),
    "colour and page": ("allocation 0: size 8, color 1, page -1:", {"color": 1}),
    "part of a parameter": (
        "allocation 0: size 8, parameter 3, shape |(f32[2], /*index=1*/s32[])|"
        " at ShapeIndex {1,0}:",
        {"parameter_number": 3, "maybe_live_out": False},
    ),
    "unknown parameter": (
        "allocation 0: size 8, parameter 0, shape |<unknown shape>| at ShapeIndex {}:",
        {"parameter_number": 0},
    ),
    "parameter without its shape": (
        "allocation 0: size 8, parameter 2 at ShapeIndex {1}:",
        {"parameter_number": 2},
    ),
    "donated output": (
        "allocation 0: size 8, color 1, parameter 0, shape |f32[2]| at ShapeIndex {},"
        " output shape is |f32[2]|, maybe-live-out:",
        {"parameter_number": 0, "maybe_live_out": True, "color": 1},
    ),
    "constant": ("allocation 0: size 8, constant:", {"is_constant": True}),
    "thread-local": ("allocation 0: size 8, thread-local:", {"is_thread_local": True}),
    "temp": (
        "allocation 0: size 8, preallocated-temp:",
        {"is_preallocated_temp": True, "is_constant": False, "maybe_live_out": False},
    ),
    "new words between the known ones": (
        "allocation 0: size 8, color 1, heap 3 of 4, page 2, made by |f, g| at {1,2}, constant:",
        {"color": 1, "is_constant": True},
    ),
    "new words with colons": (
        "allocation 0: size 8, kind: device, constantly:",
        {"is_constant": False},
    ),
    "of a repeated word the first counts": (
        "allocation 0: size 8, color 1, color 2, parameter 3, parameter 4:",
        {"color": 1, "parameter_number": 3},
    ),
    "other white space": (
        "  allocation  7 :  size\t8 ,  color  1 ,constant  :  ",
        {"index": 7, "size": 8, "color": 1, "is_constant": True},
    ),
}


@pytest.mark.parametrize(("line", "expected"), FORMS.values(), ids=FORMS)
def test_words_of_an_allocation(line: str, expected: dict[str, object]) -> None:
    allocation = _one(line)
    figures = {"index": allocation.index, "size": allocation.size, **allocation.words._asdict()}
    assert {name: figures[name] for name in expected} == expected


VALUE_FORMS = {
    "plain": ("<7 add.2 @0>", 7, "add.2", (), "add.2{}", False, 0),
    "of a tuple": ("<7 fusion.5{1,0} @0>", 7, "fusion.5", (1, 0), "fusion.5{1,0}", False, 0),
    "the table of a tuple": ("<7 tuple{} @0>", 7, "tuple", (), "tuple{}", False, 0),
    "phi": ("<7 while.3{2} (phi) @1>", 7, "while.3", (2,), "while.3{2}", True, 1),
    "without colour": ("<7 add>", 7, "add", (), "add{}", False, None),
    "odd names": (
        "<7 a..sunk2.12-b_c @6>",
        7,
        "a..sunk2.12-b_c",
        (),
        "a..sunk2.12-b_c{}",
        False,
        6,
    ),
    "more space": ("< 7  add {1}  (phi) @ 3 >", 7, "add", (1,), "add{1}", True, 3),
}


@pytest.mark.parametrize("form", VALUE_FORMS.values(), ids=VALUE_FORMS)
def test_names_of_values(
    form: tuple[str, int, str, tuple[int, ...], str, bool, int | None],
) -> None:
    text, *expected = form
    allocation = _one(f"allocation 0: size 9:\n value: {text} (size=4,offset=5): f32[]{{:T(128)}}")
    (value,) = allocation.values
    found = [value.id, value.instruction_name, value.index, value.name, value.is_phi, value.color]
    assert found == expected
    assert (value.size, value.offset, value.shape_text) == (4, 5, "f32[]{:T(128)}")
    assert value.shape.padded_size_bytes == 512


def test_values_of_other_colours_are_kept_apart() -> None:
    allocation = _one(
        "allocation 0: size 64, color 1:\n"
        " value: <1 a @1> (size=64,offset=0): f32[16]{0:S(1)}\n"
        " reused by buffers of a different color:\n"
        "  value: <2 b{0} (phi) @2> (color=2)\n"
        "   value:  <3 c @3> ( color=3 )"
    )
    assert [v.name for v in allocation.values] == ["a{}"]


# ---- used values -------------------------------------------------------------------------------


def test_used_values_are_listed() -> None:
    values = parse_buffer_values(VALUES)
    assert (values.total_bytes, values.is_complete) == (12588, True)
    assert [value.id for value in values] == [10, 11, 25, 26]
    assert (values[2].name, values[2].color) == ("fusion.5{0}", 0)
    _assert_same_values(VALUES)


def test_the_space_after_from_instruction_came_in_2024() -> None:
    assert parse_buffer_values(VALUES.replace("instruction: ", "instruction:")) == (
        parse_buffer_values(VALUES)
    )


def test_in_mid_2024_the_line_goes_on_with_the_next_value() -> None:
    lines = VALUES.split("\n<")
    text = "\n<".join(lines[:2]) + "<" + "<".join(lines[2:])
    assert "replicated}<11 param.2 @0>\n" in text
    assert parse_buffer_values(text) == parse_buffer_values(VALUES)
    _assert_same_values(text)


def test_a_lost_id_is_not_mistaken_for_the_next_value() -> None:
    text = VALUES.replace("<11 param.2 @0>\n", "").replace("sharding=", 'op_name="<lambda>",')
    values = parse_buffer_values(text)
    assert [v.id for v in values] == [10, 25, 26]
    assert (len(values.gaps), values.is_complete) == (1, False)


def test_used_values_written_otherwise_go_to_the_grammar() -> None:
    text = VALUES.replace("  param.1\n  tuple", " param.1   tuple").replace("\n uses:", " uses:")
    assert parse_buffer_values(text) == parse_buffer_values(VALUES)


# ---- files -------------------------------------------------------------------------------------


def test_three_blocks_in_one_file_are_those_of_three_files() -> None:
    combined = parse_buffer_assignment(ALLOCATIONS + VALUES + RANGES)
    alone = parse_buffer_assignment(ALLOCATIONS)
    assert combined.allocations == alone.allocations
    assert combined.values == parse_buffer_values(VALUES)
    assert combined.values == parse_buffer_values(ALLOCATIONS + VALUES + RANGES)
    assert (combined.total_bytes, alone.total_bytes) == (12588, None)
    assert combined.gaps == alone.gaps == ()
    assert combined.is_complete
    assert alone.is_complete


@pytest.mark.parametrize("form", [str, bytes], ids=["str", "bytes"])
def test_line_ends_and_marks_make_no_difference(form: type) -> None:
    text = "\ufeff" + (ALLOCATIONS + VALUES + RANGES).replace("\n", "\r\n")
    read = parse_buffer_assignment(text if form is str else text.encode())
    assert read == parse_buffer_assignment(ALLOCATIONS + VALUES)
    assert read.is_complete


PREFIXES = {
    "glog": "I1120 11:50:17.144151     619 buffer_assignment.cc:579] ",
    "tensorflow": "2024-05-20 12:34:56.789012: I external/xla/xla/service/dump.cc:123] ",
    "kubernetes": "2024-05-20T12:34:56.789012345Z stdout F ",
    "mpirun": "[1,3]<stdout>:",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_prefixes_of_a_log_are_cut(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in (ALLOCATIONS + VALUES).rstrip().split("\n"))
    read = parse_buffer_assignment(text)
    assert read == parse_buffer_assignment(ALLOCATIONS + VALUES)
    assert (read.gaps, read.is_complete) == ((), True)


def test_lines_of_others_in_a_log_are_gaps_and_nothing_is_lost() -> None:
    lines = ALLOCATIONS.split("\n")
    text = "\n".join(["started", *lines[:3], "compiling took long", "so", *lines[3:], "ended\n"])
    read = parse_buffer_assignment(text)
    assert read.allocations == parse_buffer_assignment(ALLOCATIONS).allocations
    assert [(g.line, g.lines) for g in read.gaps] == [(1, 1), (5, 2), (13, 1)]
    assert read.is_complete


def test_files_framed_on_stdout_are_told_apart() -> None:
    text = (
        f"*** Begin module_0000.f-buffer-assignment.txt ***\n{ALLOCATIONS}\n*** End x ***\n"
        f"*** Begin module_0000.f-buffer-assignment-values.txt ***\n{VALUES}\n*** End x ***\n"
    )
    read = parse_buffer_assignment(text)
    assert (len(read.allocations), read.values, read.gaps) == (3, None, ())
    assert len(parse_buffer_values(text)) == 4


def test_a_second_assignment_is_a_gap() -> None:
    read = parse_buffer_assignment(ALLOCATIONS + ALLOCATIONS)
    assert len(read.allocations) == 3
    assert [g.line for g in read.gaps] == [9]
    assert "a second BufferAssignment" in read.gaps[0].message


def test_a_report_of_old_form_is_not_taken_for_values() -> None:
    text = ALLOCATIONS + "Total bytes used: 5 (5B)\n\nAllocations sorted by size:\n\nx; y\n"
    assert parse_buffer_assignment(text).values is None
    assert parse_buffer_assignment(text).gaps == ()


def test_an_empty_assignment_is_one() -> None:
    read = parse_buffer_assignment("BufferAssignment:\n")
    assert (len(read.allocations), read.gaps, read.is_complete) == (0, (), True)


# ---- damaged texts ------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(20, len(ALLOCATIONS + VALUES), 7))
def test_what_is_there_of_a_truncated_text_is_kept(cut: int) -> None:
    text = (ALLOCATIONS + VALUES)[:cut]
    whole = parse_buffer_assignment(ALLOCATIONS + VALUES)
    read = parse_buffer_assignment(text)
    lines = text.rpartition("\n")[0].split("\n")
    assert len(read.allocations) - sum(line.startswith("allocation ") for line in lines) in (0, 1)
    for allocation, expected in zip(read.allocations, whole.allocations, strict=False):
        assert (allocation.index, allocation.size) == (expected.index, expected.size)
    used = sum(line.startswith(" from instruction: ") for line in lines)
    assert read.values is None or len(read.values) - used in (0, 1)
    if text[-1] != "\n":
        assert not read.is_complete


def test_a_cut_line_is_a_gap_at_the_end() -> None:
    read = parse_buffer_assignment(ALLOCATIONS[:-20])
    assert (len(read.allocations), len(assigned_values(read))) == (3, 3)
    assert [(g.line, g.column, g.message) for g in read.gaps] == [
        (8, 32, "expected 'offset', found 'offs'")
    ]
    assert not read.is_complete


RESERVED = "allocation 3: size 64, color 1, preallocated-temp:\n"


def test_used_values_show_that_an_allocation_without_values_is_no_cut() -> None:
    values = VALUES.replace("12588 (12.3KiB)", "12652 (12.4KiB)")
    alone = parse_buffer_assignment(ALLOCATIONS + RESERVED)
    assert (alone.is_complete, alone.ends_without_values) == (False, True)
    assert alone.is_complete_with(parse_buffer_values(values))
    assert not alone.is_complete_with(parse_buffer_values(VALUES))
    assert not alone.is_complete_with(None)
    assert parse_buffer_assignment(ALLOCATIONS + RESERVED + values).is_complete
    assert not parse_buffer_assignment(ALLOCATIONS + RESERVED + VALUES).is_complete


def test_a_wrong_total_or_a_missing_header_marks_it_incomplete() -> None:
    text = (ALLOCATIONS + VALUES).replace("allocation 2: size 300", "allocation 2: size 301")
    assert not parse_buffer_assignment(text).is_complete
    read = parse_buffer_assignment(ALLOCATIONS.partition("\n")[2])
    assert (len(read.allocations), read.gaps, read.is_complete) == (3, (), False)


ERRORS = {
    "size": ("allocation 0: size x:", 2, 20, "expected a number, found 'x'"),
    "end": ("allocation 0: size 1, constant", 2, 31, "expected ',' or ':', found the end"),
    "bar": (
        "allocation 0: size 1, parameter 0, shape |f32[2] at ShapeIndex {}:",
        2,
        50,
        "expected '|' or a layout, found 'at'",
    ),
    "layout": (
        "allocation 0: size 1:\n value: <0 a @0> (size=4,offset=0): f32[2]{1,0}",
        3,
        43,
        "layout",
    ),
    "index": (
        "allocation 0: size 1:\n value: <0 a{x} @0> (size=4,offset=0): f32[2]",
        3,
        14,
        "expected a number",
    ),
    "offset": (
        "allocation 0: size 1:\n value: <0 a @0> (size=4,offset=-1): f32[2]",
        3,
        33,
        "expected a number, found '-1'",
    ),
    "large": (
        f"allocation 0: size {'9' * 40}:",
        2,
        20,
        f"expected a number, found '{'9' * 29}...'",
    ),
    "no shape": ("allocation 0: size 1:\n value: <0 a @0> (size=4,offset=0): ?", 3, 37, "a shape"),
    "stray value": (" value: <0 a @0> (size=4,offset=0): f32[]", 2, 2, "outside any allocation"),
    "junk": ("allocations are here", 2, 1, "expected 'BufferAssignment:', an allocation or a"),
    "use": (
        "<0 a @0>\n positions:\n  a\n uses:\n  b, oper 1\n from instruction: x",
        6,
        6,
        "operand",
    ),
}


@pytest.mark.parametrize(("text", "line", "column", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_are_placed(text: str, line: int, column: int, message: str) -> None:
    whole = f"BufferAssignment:\n{text}\n"
    gap = parse_buffer_assignment(whole, path="x.txt").gaps[0]
    assert (gap.path, gap.line, gap.column) == ("x.txt", line, column)
    assert message in gap.message
    with pytest.raises(DumpSyntaxError) as caught:
        parse_buffer_assignment(whole, strict=True)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    "text",
    ["", "hello\n", "HloModule m\n", RANGES, VALUES],
    ids=["nothing", "junk", "HLO", "live range", "values"],
)
def test_a_text_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(DumpSyntaxError, match="BufferAssignment:") as caught:
        parse_buffer_assignment(text)
    assert (caught.value.line, caught.value.column) == (1, 1)


# ---- robustness, time and memory ---------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_what_is_deleted_inside_is_noticed(seed: int) -> None:
    chance = random.Random(seed)
    text = ALLOCATIONS + VALUES
    start = chance.randrange(len(text) - 60)
    read = parse_buffer_assignment(text[:start] + text[start + chance.randrange(1, 200) :])
    same = read == parse_buffer_assignment(text)
    assert same or read.gaps or not read.is_complete or _says_the_same_amounts(read)


def _says_the_same_amounts(read: BufferAssignment) -> bool:
    """Return whether only words or digits are lost, which no reader can detect."""
    counts = (len(read.allocations), len(assigned_values(read)), len(read.values or ()))
    return counts == (3, 4, 4) and read.total_bytes == read.allocated_bytes


HOSTILE = {
    "ids": "<1 a @0>\n positions:\n",
    "values": " value: <1 a @0> (size=4,offset=0: f32[]\n",
    "openings": " value: <",
    "shapes": " value: <1 a @0> (size=4,offset=0): f3?2[\n",
    "words": "allocation 1: size 4, a|b, c{d: e\n",
    "positions": "  a {1}\n positions:\n",
    "headers": "BufferAssignment:\nUsed values:\n",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_repeated_nonsense_takes_linear_time(unit: str) -> None:
    text = ALLOCATIONS + unit * (300_000 // len(unit))
    read = parse_buffer_assignment(text)
    assert len(read.allocations) >= 3
    assert sum(gap.lines for gap in read.gaps) >= 1


def test_one_line_of_ten_megabytes_is_read() -> None:
    shapes = ", ".join(["f32[8,128]{1,0:T(8,128)}"] * 400_000)
    text = (
        f"BufferAssignment:\nallocation 0: size 4, constant:\n"
        f" value: <0 t{{}} @0> (size=4,offset=0): ({shapes})\n"
        f"\nTotal bytes used: 4 (4B)\n\nUsed values:\n"
        f"<0 t{{}} @0>\n positions:\n  t {{}}\n uses:\n from instruction: %t = ({shapes}) tuple()\n"
    )
    read = parse_buffer_assignment(text)
    assert (read.gaps, read.is_complete) == ((), True)
    assert len(assigned_values(read)[0].shape_text) > 10_000_000
    assert read.values is not None
