"""Changes by source line, and the causes of the changes of a module."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.collective_diff import collective_diff
from hlo_lens.analysis.comparison.line_causes import Cause
from hlo_lens.analysis.comparison.line_diff import LineDiff, line_diff
from hlo_lens.analysis.comparison.line_edits import ProgramLines, program_lines
from hlo_lens.analysis.program_diff.difference import program_diff
from hlo_lens.syntax.hlo.module import parse_hlo
from tests.snapshots import collective, module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.comparison.line_rows import LineRow

Line = tuple[str, int, str]
"""Instruction without name and metadata, source line, operation path."""


def text(lines: Sequence[Line], *, more: str = "") -> str:
    """Return a module whose last line is the result; ``$n`` is the result of line n."""
    made = []
    for number, (body, line, path) in enumerate(lines):
        for place in range(number, -1, -1):
            body = body.replace(f"${place}", f"%v.{place}")
        root = "ROOT " if number == len(lines) - 1 else ""
        where = f'op_name="jit(f)/{path}" source_file="/home/me/p/t.py" source_line={line}'
        shape, _, rest = body.partition(" ")
        made.append(f"  {root}%v.{number} = {shape} {rest}, metadata={{{where}}}")
    return "\n".join(["HloModule m", "", more, "ENTRY %main {", *made, "}", ""])


def lines_of(base: str, head: str) -> ProgramLines:
    modules = parse_hlo(base), parse_hlo(head)
    return program_lines(program_diff(*modules), *modules, is_source=True)


def found(base: str, head: str) -> LineDiff:
    return line_diff(lines_of(base, head), None, None, None, None)


def rows(base: str, head: str) -> dict[str | None, LineRow]:
    return {row.source: row for row in found(base, head).lines}


def causes(base: str, head: str) -> list[tuple[tuple[str, ...], str]]:
    return [(cause.sources, cause.what) for cause in found(base, head).causes]


PARAMETER = ("bf16[8,8]{1,0} parameter(0)", 1, "x")
TANH = ("bf16[8,8]{1,0} tanh($0)", 3, "tanh")
DOT = (
    "bf16[8,8]{1,0} dot($1, $0), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    4,
    "dot_general",
)
BASE = text([PARAMETER, TANH, DOT])


def test_lines_that_an_edit_further_up_shifted_are_no_change() -> None:
    moved = text([(body, line + 5, path) for body, line, path in (PARAMETER, TANH, DOT)])
    assert found(BASE, moved).lines == ()
    assert found(BASE, moved).causes == ()


def test_another_value_or_property_of_an_operation_is_a_cause() -> None:
    constant = ("bf16[] constant(2)", 2, "mul")
    scaled = ("bf16[8,8]{1,0} broadcast($1), dimensions={}", 2, "mul")
    base = text([PARAMETER, constant, scaled])
    assert causes(base, base.replace("(2)", "(3)")) == [(("p/t.py:2",), "value 2 -> 3 (1)")]
    other = BASE.replace("lhs_contracting_dims={1}", "lhs_contracting_dims={0}")
    assert causes(BASE, other) == [(("p/t.py:4",), "lhs_contracting_dims {1} -> {0} (1)")]


def test_swapped_operands_are_a_cause() -> None:
    minus = ("bf16[8,8]{1,0} subtract($1, $0)", 4, "sub")
    swapped = ("bf16[8,8]{1,0} subtract($0, $1)", 4, "sub")
    base, head = text([PARAMETER, TANH, minus]), text([PARAMETER, TANH, swapped])
    assert causes(base, head) == [(("p/t.py:4",), "operands changed (1)")]


def test_an_inserted_line_is_new_and_named_with_its_instructions() -> None:
    scaled = ("bf16[8,8]{1,0} multiply($1, $0)", 4, "mul")
    body, _, path = DOT
    head = text([PARAMETER, TANH, scaled, (body.replace("$1", "$2"), 5, path)])
    assert causes(BASE, head) == [(("p/t.py:4",), "new line: multiply")]
    assert rows(BASE, head)["p/t.py:4"].added == 1
    assert causes(head, BASE) == [(("p/t.py:4 (base)",), "gone line: multiply")]


def test_another_element_type_is_a_cause_at_its_line() -> None:
    def typed(line: Line) -> Line:
        return line[0].replace("bf16", "f32", 1), line[1], line[2]

    convert = ("f32[8,8]{1,0} convert($0)", 3, "convert_element_type")
    tanh = ("f32[8,8]{1,0} tanh($1)", 3, "tanh")
    dot = (
        "f32[8,8]{1,0} dot($2, $0), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        4,
        "dot_general",
    )
    assert causes(BASE, text([PARAMETER, convert, tanh, dot])) == [
        (("p/t.py:3",), "element type bf16 -> f32 (1); convert added"),
        (("p/t.py:4",), "element type bf16 -> f32 (1)"),
    ]


def test_recomputation_that_is_gone_is_one_cause_of_all_its_lines() -> None:
    again = (
        ("bf16[8,8]{1,0} tanh($2)", 3, "checkpoint/rematted_computation/tanh"),
        ("bf16[8,8]{1,0} multiply($2, $3)", 6, "mul"),
    )
    without = ("bf16[8,8]{1,0} multiply($2, $1)", 6, "mul")
    base, head = text([PARAMETER, TANH, DOT, *again]), text([PARAMETER, TANH, DOT, without])
    gone = "recomputation gone: 1 instruction in rematted_computation"
    assert causes(base, head)[0] == (("p/t.py:3",), gone)
    assert rows(base, head)["p/t.py:3"].recomputed == -1
    assert causes(head, base)[0] == (("p/t.py:3",), gone.replace("gone", "new"))


def test_a_constraint_of_a_helper_is_at_the_line_that_calls_the_helper() -> None:
    tables = (
        'FileNames\n1 "/home/me/p/t.py"\n\nFunctionNames\n1 "cs"\n2 "layer"\n\nFileLocations\n'
        "1 {file_name_id=1 function_name_id=1 line=2 column=1}\n"
        "2 {file_name_id=1 function_name_id=2 line=7 column=1}\n"
        "3 {file_name_id=1 function_name_id=2 line=9 column=1}\n\nStackFrames\n"
        "1 {file_location_id=2 parent_frame_id=1}\n"
        "2 {file_location_id=1 parent_frame_id=2}\n"
        "3 {file_location_id=3 parent_frame_id=1}\n"
        "4 {file_location_id=1 parent_frame_id=4}\n\n"
    )

    def program(second: str) -> str:
        def constraint(name: str, operand: str, sharding: str, frame: int) -> str:
            return (
                f'%{name} = f32[8]{{0}} custom-call(%{operand}), custom_call_target="Sharding", '
                f"sharding={sharding}, "
                f'metadata={{op_name="jit(f)/{name}/sharding_constraint" stack_frame_id={frame}}}'
            )

        return (
            f"HloModule m\n\n{tables}ENTRY %main {{\n  %p = f32[8]{{0}} parameter(0)\n"
            f"  {constraint('a', 'p', '{devices=[2]<=[2]}', 2)}\n"
            f"  ROOT {constraint('b', 'a', second, 4)}\n}}\n"
        )

    (cause,) = causes(program("{devices=[2]<=[2]}"), program("{replicated}"))
    assert cause == (("p/t.py:9",), "sharding constraint changed")


def test_bytes_on_the_wire_that_are_not_known_are_none() -> None:
    known = collective(source_file="p/t.py", source_line=3)
    unknown = dataclasses.replace(known, wire_bytes_per_device=None)
    for added, expected in (((known,), known.wire_bytes_per_run), ((known, unknown), None)):
        changes = collective_diff(module(collectives=()), module(collectives=added))
        (row,) = line_diff(None, None, changes, None, None).lines
        assert (row.source, row.delta_wire_bytes, row.added) == ("p/t.py:3", expected, None)


def test_lines_of_unchanged_figures_have_no_row() -> None:
    assert line_diff(None, None, None, None, None) == LineDiff(lines=(), causes=(), is_source=None)
    assert Cause(sources=(), what="x").delta_bytes is None
