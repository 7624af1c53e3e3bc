"""Modules and their computations."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import pytest

from hlo_lens.hlo.columns import NameIndex
from hlo_lens.hlo.module_reader import parse_hlo, parse_hlo_modules
from hlo_lens.hlo.text import InputOutputAlias
from hlo_lens.text.source import clean
from tests.hlo_texts import E2, E3, E4, E5, entry, one, read


def test_marked_entry_may_be_at_any_position() -> None:
    module = read(
        "ENTRY e {\n  ROOT a = f32[] constant(1)\n}\n\nf {\n  ROOT b = f32[] constant(1)\n}\n"
    )
    assert module.entry.name == "e"
    assert [c.is_entry for c in module.computations] == [True, False]
    module = read("e {\n  ROOT a = f32[] constant(1)\n}\n\nf {\n  b = f32[] constant(1)\n}\n")
    assert module.entry.name == "f", "the last one if none is marked"


def test_marked_root_may_be_at_any_position() -> None:
    module = entry("  a = f32[] constant(1)\n  ROOT b = f32[] negate(a)\n  c = f32[] abs(a)")
    assert module.entry.root is not None
    assert module.entry.root.name == "b"
    assert [i.is_root for i in module.entry.instructions] == [False, True, False]
    module = entry("  a = f32[] constant(1)\n  b = f32[] negate(a)")
    assert [i.is_root for i in module.entry.instructions] == [False, True], "the last one"


def test_empty_computation_has_no_root() -> None:
    computation = read("HloModule m\n\nENTRY e {\n}\n").entry
    assert computation.root is None
    assert computation.parameters == ()
    assert list(computation.instructions) == []


def test_parameters_are_sorted_by_number_with_unnumbered_ones_last() -> None:
    module = entry(
        "  c = f32[] parameter(10)\n  n = f32[] parameter()\n  b = f32[] parameter(2)\n"
        "  a = f32[] parameter(0)"
    )
    assert [(p.name, p.parameter_number) for p in module.entry.parameters] == [
        ("a", 0),
        ("b", 2),
        ("c", 10),
        ("n", None),
    ]


def test_computations_are_found_by_name_with_or_without_percent() -> None:
    module = read(E5)
    found = module.computation("body")
    assert found == module.computation("%body") == module.computations[0]
    assert module.computation("nobody") is None


def test_instructions_are_found_by_name_with_or_without_percent() -> None:
    computation = read(E5).entry
    found = computation.instruction("while.1")
    assert found is not None
    assert found == computation.instruction("%while.1")
    assert found.opcode == "while"
    assert computation.instruction("while.2") is None
    assert computation.instruction("state") is None


def test_last_instruction_of_a_repeated_name_is_found() -> None:
    text = "ENTRY e {\n  a = f32[] constant(1)\n  ROOT a = f32[2] constant({1, 2})\n}\n"
    found = parse_hlo(text).entry.instruction("a")
    assert found is not None
    assert found.shape_text == "f32[2]"


CALLS = """HloModule m

f {
  ROOT z = f32[] parameter(0)
}

g {
  ROOT z = f32[] parameter(0)
}

ENTRY main {
  p = f32[8]{0} parameter(0)
  ROOT r = f32[8]{0} made-up(p), CALL
}
"""


CALLING = [
    ("to_apply=f", ("f",)),
    ("calls=%f", ("f",)),
    ("condition=%f, body=%g", ("f", "g")),
    ("true_computation=g, false_computation=f", ("g", "f")),
    ("branch_computations={%g, %f}", ("g", "f")),
    ("branch_computations={f}", ("f",)),
    ("branch_computations={%f, %g, %f}", ("f", "g", "f")),
    ("called_computations={%f, %g}", ("f", "g")),
    ("called_computations={}", ()),
    ("select=%f, scatter=%g", ("f", "g")),
    ("dimensions={0}, to_apply=%f, kind=kLoop, calls=%g", ("f", "g")),
]


@pytest.mark.parametrize(("attribute", "called"), CALLING)
def test_called_computations_come_from_every_calling_attribute(
    attribute: str, called: tuple[str, ...]
) -> None:
    module = read(CALLS.replace("CALL", attribute))
    root = module.entry.root
    assert root is not None
    assert root.called_computations == called
    assert {c.name for c in module.computations if c.callers} == set(called)
    assert all(len(c.callers) <= 1 for c in module.computations), "of one name given twice, too"


def test_other_attributes_call_nothing() -> None:
    assert one('r = f32[8] custom-call(p), custom_call_target="calls=%f"').called_computations == ()
    assert one("r = f32[8] add(p, q), to_apply_later=f").called_computations == ()


def test_callers_are_in_text_order() -> None:
    module = read(
        "HloModule m\n\nf {\n  ROOT z = f32[] parameter(0)\n}\n\nENTRY e {\n"
        "  p = f32[] parameter(0)\n  b = f32[] call(p), to_apply=f\n"
        "  ROOT a = f32[] call(b), to_apply=f\n}\n"
    )
    called = module.computation("f")
    assert called is not None
    assert [i.name for i in called.callers] == ["b", "a"]
    assert module.entry.callers == ()


def test_truncated_text_without_entry_takes_no_other_computation_for_it() -> None:
    module = parse_hlo(
        "HloModule m\n\nsmall {\n  ROOT a = f32[] parameter(0)\n}\n\n"
        "big {\n  a = f32[] parameter(0)\n  b = f32[] negate(a)\n"
        "  c = f32[] call(b), to_apply=helper\n}\n\n"
        "helper {\n  a = f32[] parameter(0)\n  b = f32[] negate(a)\n"
        "  c = f32[] negate(b)\n  d = f32[] abs(c)\n}\n\n"
        "cut {\n  a = f32[] parameter(0)\n"
    )
    assert module.is_truncated
    assert not module.has_entry
    assert (list(module.entry.rows), module.entry.root) == ([], None)
    assert module.computations[-1].root is None
    assert [c.is_complete for c in module.computations] == [True, True, True, False]
    assert [gap.message for gap in module.gaps] == ["expected '}', found the end: cut is cut off"]


def test_truncated_text_keeps_complete_instructions() -> None:
    whole = read(E5)
    cut = parse_hlo(E5[: E5.index("%while.1 =") + 60])
    assert cut.is_truncated
    assert [c.name for c in cut.computations] == ["body", "condition", "main"]
    assert cut.computations[:2] == whole.computations[:2]
    assert [i.name for i in cut.entry.instructions] == ["x", "zero", "start"]


def test_numbers_may_be_any_of_64_bits() -> None:
    names = {0: "a", 7: "b", 1 << 40: "c"}
    index = NameIndex(tuple(names), names.__getitem__, names.values())
    assert [index.get(name) for name in "abcd"] == [0, 7, 1 << 40, None]


def test_partitions_and_replicas_default_to_one_unscheduled() -> None:
    module = entry("  ROOT p = f32[] parameter(0)")
    assert (module.is_scheduled, module.num_partitions, module.replica_count) == (False, 1, 1)
    assert module.entry_computation_layout is None
    assert module.input_output_alias == ()
    assert module.buffer_donor == ()
    assert module.frontend_attributes == {}


def test_layout_of_the_entry_is_a_program_shape() -> None:
    header = (
        "HloModule m, entry_computation_layout={(f32[8]{0}, s32[], f32[2,2]{0,1}, s32[], s32[], "
        "/*index=5*/(s32[], pred[4]{0}))->(f32[8]{0}, s32[])}"
    )
    layout = entry("  ROOT p = f32[] parameter(0)", header).entry_computation_layout
    assert layout is not None
    assert [str(shape) for shape in layout.parameters] == [
        "f32[8]{0}",
        "s32[]",
        "f32[2,2]{0,1}",
        "s32[]",
        "s32[]",
        "(s32[], pred[4]{0})",
    ]
    assert str(layout.result) == "(f32[8]{0}, s32[])"


def test_aliasing_pairs_outputs_with_parameters() -> None:
    header = (
        "HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1,2}: (3, {4}, must-alias), "
        "{}: (5, {}) }"
    )
    assert entry("  ROOT p = f32[] parameter(0)", header).input_output_alias == (
        InputOutputAlias(output_index=(0,), parameter_number=0, parameter_index=()),
        InputOutputAlias(
            output_index=(1, 2), parameter_number=3, parameter_index=(4,), kind="must-alias"
        ),
        InputOutputAlias(output_index=(), parameter_number=5, parameter_index=()),
    )


def test_donors_are_parameters_that_any_output_may_use() -> None:
    header = "HloModule m, buffer_donor={ (0, {}), (3, {1,2}) }"
    module = entry("  ROOT p = f32[] parameter(0)", header)
    assert module.buffer_donor == ((0, ()), (3, (1, 2)))


def test_frontend_attributes_of_the_module_are_unquoted() -> None:
    header = (
        r'HloModule m, frontend_attributes={xla.sdy.meshes={mesh = <["x"=2]>},k="a\"b\303\251"}'
    )
    module = entry("  ROOT p = f32[] parameter(0)", header)
    assert module.frontend_attributes == {
        "xla.sdy.meshes": '{mesh = <["x"=2]>}',
        "k": 'a"b\u00e9',
    }


def test_module_without_a_name_has_an_empty_one() -> None:
    module = read("HloModule , is_scheduled=true\n\nENTRY {\n  ROOT a = f32[] constant(1)\n}\n")
    assert (module.name, module.is_scheduled, module.entry.name) == ("", True, "")


def test_header_alone_is_a_module_without_computations_and_cut_off() -> None:
    module = parse_hlo("HloModule empty, replica_count=2\n")
    assert [g.message for g in module.gaps] == ["expected an ENTRY computation, found the end"]
    assert module.is_truncated
    assert not module.has_entry
    assert (module.name, module.replica_count, module.computations) == ("empty", 2, [])
    assert module.instruction_count == 0


def test_several_modules_of_one_text_are_read_in_order() -> None:
    modules = parse_hlo_modules(clean(E3 + E2 + E4))
    assert [m.name for m in modules] == ["jit_h", "jit_f", "jit_k"]
    assert [m.instruction_count for m in modules] == [3, 10, 8]
    assert [m.gaps for m in modules] == [(), (), ()]
    assert [m.entry.instructions[0].line for m in modules] == [4, 21, 52]
    assert [bool(m.stack_frames) for m in modules] == [False, False, True]


def test_progress_never_goes_back() -> None:
    seen: list[int] = []
    parse_hlo_modules(clean(E5 + E4), progress=seen.append)
    assert seen == sorted(seen)
    assert 0 < seen[-1] <= len(E5 + E4)


IN_ANOTHER_PROCESS = """
import pickle, sys
module = pickle.load(sys.stdin.buffer)
assert all(module.computation(c.name) == c for c in module.computations)
assert all(c.instruction(i.name) == i for c in module.computations for i in c.instructions)
print(module.instruction_count)
"""


def test_names_are_found_in_a_copy_and_in_another_process() -> None:
    module = parse_hlo(E2)
    for computation in module.computations:
        assert module.computation(computation.name) is not None
        assert computation.instruction("nothing") is None
    other = copy.deepcopy(module)
    found = other.computation(module.entry.name)
    assert found is not None
    assert found.module is other
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    code, data = [sys.executable, "-c", IN_ANOTHER_PROCESS], pickle.dumps(module)
    run = subprocess.run(code, input=data, capture_output=True, env=environment)
    assert run.stdout.split() == [str(module.instruction_count).encode()], run.stderr
