"""Changes by source line, and the causes of the changes of a module."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.diff.causes import Changes, ranked_causes
from hlo_lens.questions.diff.collectives import collective_diff
from hlo_lens.questions.diff.explained import LineDiff, line_diff
from hlo_lens.questions.diff.line_edits import ProgramLines, program_lines
from hlo_lens.questions.diff.shardings import donation_diff, sharding_diff
from hlo_lens.questions.matching.program_diff import program_diff
from tests.snapshots import collective, entry, module
from tests.timing import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.questions.diff.line_edits import LineRow
    from hlo_lens.questions.snapshots.figures import EntryFact


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
    return line_diff(Changes(program=lines_of(base, head)), None, None)


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


def test_a_line_split_in_two_with_its_operations_unchanged_is_no_cause() -> None:
    body, _, path = TANH
    split = text([PARAMETER, TANH, DOT, ("bf16[8,8]{1,0} negate($2)", 9, "neg")])
    joined = text([PARAMETER, (body, 4, path), DOT, ("bf16[8,8]{1,0} tanh($2)", 9, "neg")])
    assert [places for places, _ in causes(joined, split)] == [("p/t.py:9",)]
    assert [places for places, _ in causes(split, joined)] == [("p/t.py:9",)]


def test_transfers_that_the_compiler_adds_are_no_cause() -> None:
    start = ("(bf16[8,8]{1,0:S(1)}, bf16[8,8]{1,0}, u32[]) copy-start($1)", 3, "tanh")
    done = ("bf16[8,8]{1,0:S(1)} copy-done($2)", 3, "tanh")
    body, line, path = DOT
    moved = text([PARAMETER, TANH, start, done, (body.replace("$1", "$3"), line, path)])
    sides = parse_hlo(BASE), parse_hlo(moved)
    program = program_lines(program_diff(*sides), *sides, is_source=False)
    rows = [dataclasses.replace(row, delta_peak_bytes=4096) for row in found(BASE, moved).lines]
    assert rows[0].what == "copy-done, copy-start added"
    assert ranked_causes(Changes(program=program, rows=rows)) == []


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
        (("p/t.py:3",), "activations are f32, were bf16: convert added")
    ]


def test_recomputation_that_is_gone_is_one_cause_of_all_its_lines() -> None:
    again = (
        ("bf16[8,8]{1,0} tanh($2)", 3, "checkpoint/rematted_computation/tanh"),
        ("bf16[8,8]{1,0} multiply($2, $3)", 6, "mul"),
    )
    without = ("bf16[8,8]{1,0} multiply($2, $1)", 6, "mul")
    base, head = text([PARAMETER, TANH, DOT, *again]), text([PARAMETER, TANH, DOT, without])
    gone = "rematerialisation gone: 1 instruction not computed again"
    assert causes(base, head)[0] == (("p/t.py:3",), gone)
    assert rows(base, head)["p/t.py:3"].recomputed == -1
    new = "rematerialisation new: 1 instruction computed again"
    assert causes(head, base)[0] == (("p/t.py:3",), new)


def test_recomputation_that_is_mostly_gone_is_a_cause() -> None:
    def recomputed(count: int) -> str:
        path = "checkpoint/rematted_computation/tanh"
        again = [(f"bf16[8,8]{{1,0}} tanh(${2 + n})", 3, path) for n in range(count)]
        last = (f"bf16[8,8]{{1,0}} multiply($2, ${2 + count})", 6, "mul")
        return text([PARAMETER, TANH, DOT, *again, last])

    gone = "rematerialisation policy changed: 3 instructions no longer computed again of 4"
    assert causes(recomputed(4), recomputed(1))[0] == (("p/t.py:3",), gone)
    new = gone.replace("no longer", "newly")
    assert causes(recomputed(1), recomputed(4))[0] == (("p/t.py:3",), new)


def loop(trips: int, body: Sequence[Line]) -> str:
    """Return a module with a loop of a number of trips, on line 9, around some lines."""
    counted = (
        ("s32[] get-tuple-element($0), index=0", 9, "while/body"),
        ("bf16[8,8]{1,0} get-tuple-element($0), index=1", 9, "while/body"),
        ("s32[] constant(1)", 9, "while/body"),
        ("s32[] add($1, $3)", 9, "while/body/add"),
        *body,
        (f"(s32[], bf16[8,8]{{1,0}}) tuple($4, ${4 + len(body)})", 9, "while/body"),
    )
    carried = ("(s32[], bf16[8,8]{1,0}) parameter(0)", 9, "while")
    inside = text([carried, *counted]).split("ENTRY %main")[1].replace("%v.", "%b.")
    ends = (
        carried,
        ("s32[] get-tuple-element($0), index=0", 9, "while/cond"),
        (f"s32[] constant({trips})", 9, "while/cond"),
        ("pred[] compare($1, $2), direction=LT", 9, "while/cond/lt"),
    )
    condition = text(ends).split("ENTRY %main")[1].replace("%v.", "%c.")
    start = (
        PARAMETER,
        ("s32[] constant(0)", 9, "while"),
        ("(s32[], bf16[8,8]{1,0}) tuple($1, $0)", 9, "while"),
        ("(s32[], bf16[8,8]{1,0}) while($2), condition=%ends, body=%inside", 9, "while"),
    )
    return text(start, more=f"%inside{inside}\n%ends{condition}")


def test_a_loop_with_another_trip_count_is_the_cause() -> None:
    body = [("bf16[8,8]{1,0} tanh($2)", 3, "while/body/tanh")]
    assert causes(loop(6, body), loop(7, body)) == [(("p/t.py:9",), "loop of 7 iterations, was 6")]


def test_a_loop_unrolled_in_part_is_the_cause() -> None:
    once = [
        ("bf16[8,8]{1,0} tanh($2)", 3, "while/body/tanh"),
        ("bf16[8,8]{1,0} negate($5)", 4, "while/body/neg"),
    ]
    twice = [
        *once,
        ("bf16[8,8]{1,0} tanh($6)", 3, "while/body/tanh"),
        ("bf16[8,8]{1,0} negate($7)", 4, "while/body/neg"),
    ]
    assert causes(loop(6, once), loop(3, twice)) == [
        (
            ("p/t.py:9",),
            "loop unrolled: its body appears 2 times; 3 iterations are left",
        )
    ]


def test_a_line_edited_in_a_loop_of_other_trips_is_a_cause_too() -> None:
    body = [("bf16[8,8]{1,0} tanh($2)", 3, "while/body/tanh")]
    edited = [*body, ("bf16[8,8]{1,0} negate($5)", 3, "while/body/neg")]
    assert causes(loop(6, body), loop(7, edited)) == [
        (("p/t.py:9",), "loop of 7 iterations, was 6"),
        (("p/t.py:3",), "negate added"),
    ]


def argument_changes(base: EntryFact, head: EntryFact, *, edited: str = BASE) -> list[str]:
    shardings = sharding_diff(module(entries=(base,)), module(entries=(head,)))
    changes = line_diff(Changes(program=lines_of(BASE, edited), shardings=shardings), None, None)
    return [cause.what for cause in changes.causes]


def test_other_arguments_are_causes() -> None:
    shape = entry(global_shape="f32[32,16]", device_shape="f32[16,16]")
    assert argument_changes(entry(), shape) == ["batch 8 -> 32 (1 argument)"]
    division = entry(sharding="{devices=[1,2]<=[2]}", spec="P(None, 'x')", device_shape="f32[16,8]")
    assert argument_changes(entry(spec="P('x',)"), division) == [
        "1 argument resharded, P('x',) -> P(None, 'x'): params['w']"
    ]
    assert argument_changes(entry(), entry(number=4)) == []


def test_another_order_of_operands_follows_from_renamed_arguments() -> None:
    minus = ("bf16[8,8]{1,0} subtract($1, $0)", 4, "sub")
    sides = (text([PARAMETER, TANH, (minus[0].replace(*pair), 4, "sub")]) for pair in _ORDERS)
    arguments = (module(entries=(entry(name=name),)) for name in ("params['up']", "params['a']"))
    changes = Changes(program=lines_of(*sides), shardings=sharding_diff(*arguments))
    assert [cause.what for cause in ranked_causes(changes)] == [
        "1 argument renamed, [up] -> [a]: params['a']"
    ]


_ORDERS = (("$1, $0", "$1, $0"), ("$1, $0", "$0, $1"))


def test_sizes_that_no_argument_has_are_one_cause_at_the_line_with_most_of_them() -> None:
    def heads(count: int) -> str:
        shape = f"bf16[8,{count},{8 // count}]{{2,1,0}}"
        turned = f"bf16[{count},8,{8 // count}]{{2,1,0}}"
        lines = (
            PARAMETER,
            (f"{shape} reshape($0)", 3, "reshape"),
            (f"bf16[8,{count}]{{1,0}} iota(), iota_dimension=0", 5, "iota"),
            (f"{turned} transpose($1), dimensions={{1,0,2}}", 4, "transpose"),
            (f"(bf16[8,{count}]{{1,0}}, {turned}) tuple($2, $3)", 4, "tuple"),
        )
        return text(lines)

    (cause,) = found(heads(2), heads(4)).causes
    assert (cause.sources[0], cause.what) == ("p/t.py:3", "dimensions 2 -> 4, 4 -> 2")


def test_arguments_of_equal_specs_on_other_meshes_have_other_parts() -> None:
    base = entry(spec="P('x',)", device_shape="f32[4,16]")
    head = entry(sharding="{devices=[4,1]<=[4]}", spec="P('x',)", device_shape="f32[2,16]")
    assert argument_changes(base, head) == [
        "1 argument resharded, f32[4,16] -> f32[2,16] on each device: params['w']"
    ]


def test_lines_that_follow_from_the_shape_of_an_argument_are_no_causes() -> None:
    shape = entry(global_shape="f32[32,16]", device_shape="f32[16,16]")
    wider = BASE.replace("[8,8]", "[16,8]")
    assert len(argument_changes(entry(), shape, edited=wider)) == 1
    body, _, path = DOT
    negated = ("bf16[8,8]{1,0} negate($1)", 3, "neg")
    added = text([PARAMETER, TANH, negated, (body.replace("$1", "$2"), 4, path)])
    assert argument_changes(entry(), shape, edited=added)[1:] == ["negate added"]


def test_lines_that_repeat_operations_for_added_arguments_follow_from_them() -> None:
    shardings = sharding_diff(module(entries=()), module(entries=(entry(),)))
    more = ("bf16[8,8]{1,0} parameter(1)", 1, "y")

    def whats(body: str) -> list[str]:
        added = text([PARAMETER, TANH, DOT, more, (body, 3, "x")])
        changes = Changes(program=lines_of(BASE, added), shardings=shardings)
        return [cause.what for cause in line_diff(changes, None, None).causes]

    what = "1 argument of 256B added: params['w']"
    assert whats("bf16[8,8]{1,0} tanh($3)") == [what]
    assert whats("bf16[8,8]{1,0} negate($2)") == [what, "negate added"]


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
        (row,) = line_diff(Changes(), None, changes).lines
        assert (row.source, row.delta_wire_bytes, row.added) == ("p/t.py:3", expected, None)


def test_a_lost_donation_is_no_claim_on_the_total() -> None:
    """Other changes and temporaries hide its bytes."""
    donated = entry(aliased_with="{0}", donation="may-alias")
    (one,) = ranked_causes(Changes(donations=donation_diff([(donated, entry())])))
    assert one.what == "donation lost for 1 argument of 256B: params['w']"
    assert one.delta_bytes is None


def test_time_grows_with_the_number_of_lines() -> None:
    def program(size: int, count: int) -> str:
        opcodes = ("add", "multiply", "maximum", "subtract")
        lines = [(f"f32[{size}]{{0}} parameter(0)", 1, "x")]
        for number in range(1, count):
            opcode = opcodes[number * size % 4]
            body = f"f32[{size}]{{0}} {opcode}(%v.{number - 1}, %v.0)"
            lines.append((body, number + 1, opcode))
        return text(lines)

    def seconds(count: int) -> float:
        found = lines_of(program(8, count), program(9, count))
        return min(cpu_seconds(lambda: ranked_causes(Changes(program=found))) for _ in range(3))

    few, many = seconds(250), seconds(2000)
    assert many < 40 * max(few, 0.001)


def test_equal_constraints_on_several_lines_are_one_cause() -> None:
    def constraint(operand: int, line: int) -> Line:
        call = f'custom-call(${operand}), custom_call_target="Sharding", sharding={{replicated}}'
        return f"bf16[8,8]{{1,0}} {call}", line, "sharding_constraint"

    tanh = ("bf16[8,8]{1,0} tanh($1)", 3, "tanh")
    head = text([PARAMETER, constraint(0, 2), tanh, constraint(2, 4)])
    base = text([PARAMETER, TANH])
    assert causes(base, head) == [(("p/t.py:2",), "sharding constraint added")]
