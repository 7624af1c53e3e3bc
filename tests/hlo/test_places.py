"""Lines and columns in every kind of log, and tokens at any place."""

from __future__ import annotations

import pytest

from hlo_lens.hlo.module_reader import parse_hlo
from tests.hlo_texts import E3, E4, E5, names, one, read


def test_instruction_knows_its_line_and_span() -> None:
    root = read(E3).entry.root
    assert root is not None
    assert root.line == 6
    assert E3[root.span.start : root.span.end].startswith("add.1 = f32[8,8]{1,0} add(")
    assert E3[root.span.start : root.span.end].endswith("source_end_column=9}")


BAD = """HloModule m

ENTRY e {
  p = f32[8]{0} parameter(0)
  q = f32[8]{0} add(p, p]
  ROOT r = f32[8]{0} negate(p)
}
"""
"""One bad place: line 5, column 25."""


def places(text: str) -> list[tuple[int, int]]:
    module = parse_hlo(text)
    assert [i.name for i in module.instructions] == ["p", "r"]
    return [(gap.line, gap.column) for gap in module.gaps]


def test_place_is_that_of_the_plain_text() -> None:
    assert places(BAD) == [(5, 25)]


PREFIXES = {
    "glog": "I1120 11:50:17.144151     619 hlo_pass.cc:579] ",
    "absl before InitializeLog": "W0000 00:00:1795175081.402356   26392 cpu_compiler.cc:9] ",
    "tensorflow": "2024-05-20 12:34:56.789012: I external/xla/xla/service/dump.cc:123] ",
    "mpirun": "[1,3]<stdout>:",
    "kubernetes": "2024-05-20T12:34:56.789012345Z ",
    "cri": "2024-05-20T12:34:56.789012345+00:00 stdout F ",
    "rank and glog": "[7]: I1120 11:50:17.144151     619 hlo_pass.cc:579] ",
    "srun and glog": "3: I1120 11:50:17.144151     619 hlo_pass.cc:579] ",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_log_prefixes_that_begin_late_are_cut(prefix: str) -> None:
    quiet = "plain line of a program\n" * 4000
    text = quiet + "".join(f"{prefix}{line}\n" for line in E3.splitlines())
    module = parse_hlo(text)
    assert (module.name, module.instruction_count) == ("jit_h", 3)
    assert (module.gaps, module.passed_lines) == ((), 4000)
    assert module.entry.instructions[0].line == 4004


def test_log_lines_around_a_module_are_passed_over_and_counted() -> None:
    module = parse_hlo("compiling jit_h now\nthis takes a while\n" + E3 + "done in 3 s\n")
    assert (module.name, module.instruction_count) == ("jit_h", 3)
    assert (module.gaps, module.passed_lines) == ((), 3)


def test_log_lines_inside_a_computation_are_gaps() -> None:
    text = E3.replace("\n  %all-gather", "\nstep 100: loss 3.5\n  %all-gather")
    module = parse_hlo(text)
    assert module.instruction_count == 3
    assert [(gap.line, gap.message) for gap in module.gaps] == [
        (5, "expected an instruction or '}'")
    ]


def test_header_may_stand_behind_other_words_of_a_log() -> None:
    module = parse_hlo("module after pipeline: " + E3)
    assert (module.name, module.instruction_count) == ("jit_h", 3)
    assert (module.gaps, module.passed_lines) == ((), 1)


def test_whole_module_may_stand_on_one_line() -> None:
    module = read(E5.replace("\n", " "))
    assert module == read(E5)
    assert {i.line for i in module.instructions} == {1}


def test_any_token_may_stand_on_a_line_of_its_own() -> None:
    module = read(
        "HloModule m\nENTRY\ne\n{\nROOT\nc\n=\nf32[\n2\n]{\n0\n}\nconstant\n(\n{\n1\n,\n2\n}\n)\n,"
        '\nmetadata=\n{\nop_name=\n"x"\n}\n}\n'
    )
    root = module.entry.root
    assert root is not None
    assert (root.name, str(root.shape), root.line) == ("c", "f32[2]{0}", 6)
    assert root.metadata is not None
    assert root.metadata.op_name == "x"


def test_tokens_need_no_space_where_they_can_not_run_together() -> None:
    module = read("HloModule m ENTRY%e{ROOT%c=f32[]constant(1)}")
    assert names(module) == {"e": ["c"]}


def test_comments_may_stand_between_any_tokens() -> None:
    module = read(
        "/* a */ HloModule m // b\n// c\nENTRY /* d */ e { // e\n  ROOT /* f */ c = /* g */ f32[] "
        "/* h */ add(/* i */ p /* j */, q) /* k */ , /* l */ channel_id=1 // m\n} // n\n"
    )
    root = module.entry.root
    assert root is not None
    assert (root.name, root.operand_names, root.channel_id) == ("c", ("p", "q"), 1)


@pytest.mark.parametrize("number", ["7", " 7 ", "/*index=7*/ 7", "7 // the last\n"])
def test_comments_may_stand_beside_the_number_of_a_parameter(number: str) -> None:
    assert one(f"r = f32[] parameter({number})").parameter_number == 7


def test_bytes_are_read_like_text() -> None:
    assert parse_hlo(E4.encode()) == read(E4)
    assert parse_hlo(E4.encode("utf-16")) == read(E4)
