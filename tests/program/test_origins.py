"""Origins of values, and the way they are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.program.origins import Basis, Origin, Origins
from hlo_lens.program.value_flow import Value
from tests import corpus
from tests.hlo_texts import read
from tests.questions.texts import table_of

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.hlo.module import HloModule


_HEAD = """HloModule jit_f, is_scheduled=true

"""


def _row(module: HloModule, name: str) -> int:
    return next(one.row for one in module.instructions if one.name == name)


def _origin(text: str, name: str, *index: int) -> Origin:
    module = read(_HEAD + text)
    return Origins(module).of_value(Value(_row(module, name), index))


def _found(text: str, name: str, *index: int) -> tuple[str | None, Basis | None]:
    origin = _origin(text, name, *index)
    return origin.source, origin.basis


def _at(line: int, op_name: str = "jit(f)/op") -> str:
    return f'metadata={{op_name="{op_name}" source_file="a.py" source_line={line}}}'


ENTRY = f"""%fused (q: f32[8], r: f32[8]) -> f32[8] {{
  %q = f32[8] parameter(0)
  %r = f32[8] parameter(1)
  %inner = f32[8] multiply(%q, %r), {_at(3)}
  ROOT %root = f32[8] copy(%inner)
}}

%wrapped (s: f32[8]) -> f32[8] {{
  %s = f32[8] parameter(0)
  ROOT %only = f32[8] negate(%s)
}}

ENTRY %main (x: f32[8], w: f32[8], v: f32[8]) -> f32[8] {{
  %x = f32[8] parameter(0), metadata={{op_name="x"}}
  %w = f32[8] parameter(1), metadata={{op_name="params['w']"}}
  %v = f32[8] parameter(2)
  %own = f32[8] add(%x, %w), {_at(1)}
  %fusion.1 = f32[8] fusion(%x, %w), kind=kLoop, calls=%fused
  %fusion.2 = f32[8] fusion(%own), kind=kLoop, calls=%wrapped
  %numbered = f32[8] copy(%fusion.1), metadata={{op_name="copy.13"}}
  %gathered = f32[8] copy(%w)
  %again = f32[8] copy(%gathered)
  %bitcast.1 = f32[8] bitcast(%own), {_at(9)}
  %sum.1 = f32[8] add(%again, %numbered), {_at(5)}
  %unused = f32[8] copy(%v)
  %nothing = f32[8] iota(), iota_dimension=0
  ROOT %sum.2 = f32[8] add(%sum.1, %fusion.2), {_at(6)}
}}
"""


def test_own_metadata_comes_first() -> None:
    origin = _origin(ENTRY, "own")
    assert (origin.source, origin.basis, origin.op_name) == ("a.py:1", Basis.OWN, "jit(f)/op")
    assert not origin.is_inferred


def test_fusion_without_metadata_has_that_of_its_body() -> None:
    origin = _origin(ENTRY, "fusion.1")
    assert (origin.source, origin.basis) == ("a.py:3", Basis.FUSION_BODY)
    assert origin.is_inferred


def test_fusion_of_nothing_with_metadata_has_that_of_its_operand() -> None:
    assert _found(ENTRY, "fusion.2") == ("a.py:1", Basis.OPERAND)


def test_path_that_xla_numbered_is_no_origin() -> None:
    origin = _origin(ENTRY, "numbered")
    assert (origin.source, origin.basis, origin.op_name) == ("a.py:3", Basis.OPERAND, "jit(f)/op")


def test_copy_of_an_argument_has_its_user_and_the_argument() -> None:
    origin = _origin(ENTRY, "gathered")
    assert (origin.source, origin.basis) == ("a.py:5", Basis.USER)
    assert origin.argument == "params['w']"


def test_argument_has_its_name() -> None:
    origin = _origin(ENTRY, "w")
    assert (origin.op_name, origin.argument) == ("params['w']", "params['w']")
    assert (origin.source, origin.basis) == (None, Basis.ARGUMENT)


def test_copy_of_an_argument_that_nothing_uses_has_the_argument_only() -> None:
    origin = _origin(ENTRY, "unused")
    assert (origin.source, origin.basis, origin.op_name) == (None, Basis.ARGUMENT, "argument 2")


def test_value_of_nothing_for_nothing_has_no_origin() -> None:
    assert _origin(ENTRY, "nothing") == Origin()


def test_view_has_the_origin_of_its_value() -> None:
    module = read(_HEAD + ENTRY)
    origins, row = Origins(module), _row(module, "bitcast.1")
    assert origins.of_value(Value(row)).source == "a.py:1"
    assert origins.of_row(row).source == "a.py:9"


CARRIED = f"""%start (p: f32[8]) -> (f32[8], f32[16], u32[]) {{
  %p = f32[8] parameter(0)
  %g = f32[16] all-gather(%p), channel_id=1, dimensions={{0}}, metadata={{op_name="w"}}
  ROOT %s = (f32[8], f32[16], u32[]) custom-call(%g), custom_call_target="AsyncCollectiveStart"
}}

%beside (a: f32[8], b: f32[16], c: u32[], d: f32[8]) -> (f32[8], f32[8], f32[16], u32[]) {{
  %a = f32[8] parameter(0)
  %b = f32[16] parameter(1)
  %c = u32[] parameter(2)
  %d = f32[8] parameter(3)
  %work = f32[8] negate(%d), {_at(3)}
  %step = f32[16] all-gather(%a), channel_id=1, dimensions={{0}}, metadata={{op_name="w"}}
  ROOT %t = (f32[8], f32[8], f32[16], u32[]) tuple(%work, %a, %b, %c)
}}

%done (i: f32[8], j: f32[16], k: u32[]) -> f32[16] {{
  %i = f32[8] parameter(0)
  %j = f32[16] parameter(1)
  %k = u32[] parameter(2)
  ROOT %e = f32[16] custom-call(%i, %j, %k), custom_call_target="AsyncCollectiveDone"
}}

ENTRY %main (w: f32[8], x: f32[8]) -> (f32[8], f32[16]) {{
  %w = f32[8] parameter(0), metadata={{op_name="w"}}
  %x = f32[8] parameter(1), metadata={{op_name="x"}}
  %fusion.1 = (f32[8], f32[16], u32[]) fusion(%w), kind=kCustom, calls=%start
  %w.1 = f32[8] get-tuple-element(%fusion.1), index=0
  %g.1 = f32[16] get-tuple-element(%fusion.1), index=1
  %c.1 = u32[] get-tuple-element(%fusion.1), index=2
  %fusion.2 = (f32[8], f32[8], f32[16], u32[]) fusion(%w.1, %g.1, %c.1, %x), kind=kCustom, \
calls=%beside, {_at(3)}
  %work.1 = f32[8] get-tuple-element(%fusion.2), index=0
  %w.2 = f32[8] get-tuple-element(%fusion.2), index=1
  %g.2 = f32[16] get-tuple-element(%fusion.2), index=2
  %c.2 = u32[] get-tuple-element(%fusion.2), index=3
  %fusion.3 = f32[16] fusion(%w.2, %g.2, %c.2), kind=kCustom, calls=%done
  %used = f32[16] negate(%fusion.3), {_at(7)}
  ROOT %out = (f32[8], f32[16]) tuple(%work.1, %used)
}}
"""


def test_fusion_beside_a_collective_that_it_carries_is_no_user_of_it() -> None:
    assert _found(CARRIED, "g") == ("a.py:7", Basis.USER)
    assert _found(CARRIED, "fusion.1", 1) == ("a.py:7", Basis.USER)
    assert _found(CARRIED, "fusion.3") == ("a.py:7", Basis.USER)
    assert _found(CARRIED, "fusion.2", 0) == ("a.py:3", Basis.OWN)


def test_name_of_an_argument_is_no_operation_path() -> None:
    origin = _origin(CARRIED, "g")
    assert (origin.op_name, origin.argument, origin.has_own_path) == ("w", "w", False)


def test_operation_path_decides_where_nothing_has_a_source_line() -> None:
    text = """ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  %made = f32[8] negate(%x), metadata={op_name="model/negate"}
  ROOT %copied = f32[8] copy(%made)
}
"""
    origin = _origin(text, "copied")
    assert (origin.op_name, origin.basis) == ("model/negate", Basis.OPERAND)


LOOP = f"""%stored (buffer: f32[4,8], i: s32[], value: f32[8]) -> f32[4,8] {{
  %buffer = f32[4,8] parameter(0)
  %i = s32[] parameter(1)
  %value = f32[8] parameter(2)
  %part = f32[1,8] bitcast(%value)
  %zero = s32[] constant(0)
  ROOT %update = f32[4,8] dynamic-update-slice(%buffer, %part, %i, %zero), {_at(20)}
}}

%body (carry: (s32[], f32[8], f32[4,8], f32[4,8], f32[8])) -> (s32[], f32[8], f32[4,8], \
f32[4,8], f32[8]) {{
  %carry = (s32[], f32[8], f32[4,8], f32[4,8], f32[8]) parameter(0)
  %at = s32[] get-tuple-element(%carry), index=0
  %h = f32[8] get-tuple-element(%carry), index=1
  %saved = f32[4,8] get-tuple-element(%carry), index=2
  %cache = f32[4,8] get-tuple-element(%carry), index=3
  %kept = f32[8] get-tuple-element(%carry), index=4
  %tanh = f32[8] tanh(%h), {_at(11, "jit(f)/while/body/tanh")}
  %key = f32[1,8] bitcast(%h)
  %store = f32[4,8] fusion(%saved, %at, %tanh), kind=kLoop, calls=%stored, {_at(20)}
  %zero.1 = s32[] constant(0)
  %cached = f32[4,8] dynamic-update-slice(%cache, %key, %at, %zero.1), {_at(12)}
  %next = f32[8] add(%tanh, %kept), {_at(13)}
  %one = s32[] constant(1)
  %at.1 = s32[] add(%at, %one), {_at(20)}
  ROOT %result = (s32[], f32[8], f32[4,8], f32[4,8], f32[8]) tuple(%at.1, %next, %store, \
%cached, %kept)
}}

%cond (carry.1: (s32[], f32[8], f32[4,8], f32[4,8], f32[8])) -> pred[] {{
  %carry.1 = (s32[], f32[8], f32[4,8], f32[4,8], f32[8]) parameter(0)
  %at.2 = s32[] get-tuple-element(%carry.1), index=0
  %four = s32[] constant(4)
  ROOT %less = pred[] compare(%at.2, %four), direction=LT, {_at(20)}
}}

ENTRY %main (x: f32[8]) -> f32[4,8] {{
  %x = f32[8] parameter(0)
  %start = s32[] constant(0)
  %zeros = f32[4,8] broadcast(%start), dimensions={{}}
  %other = f32[4,8] copy(%zeros)
  %bias = f32[8] negate(%x), {_at(2)}
  %init = (s32[], f32[8], f32[4,8], f32[4,8], f32[8]) tuple(%start, %x, %zeros, %other, %bias)
  %while = (s32[], f32[8], f32[4,8], f32[4,8], f32[8]) while(%init), condition=%cond, body=%body
  %out = f32[4,8] get-tuple-element(%while), index=2
  ROOT %done = f32[4,8] copy(%out)
}}
"""


def test_saved_values_of_a_scan_have_the_line_of_the_slice() -> None:
    origin = _origin(LOOP, "while", 2)
    assert (origin.source, origin.basis) == ("a.py:11", Basis.LOOP_BODY)
    assert origin.op_name == "jit(f)/while/body/tanh"


def test_store_of_a_scan_has_the_line_of_the_slice() -> None:
    assert _found(LOOP, "store") == ("a.py:11", Basis.LOOP_BODY)


def test_slice_that_its_fusion_converts_has_the_line_it_is_computed_at() -> None:
    convert = f"convert(%value), {_at(20)}"
    text = LOOP.replace("%part = f32[1,8] bitcast(%value)", f"%part = f32[1,8] {convert}")
    assert convert in text
    assert _found(text, "store") == ("a.py:11", Basis.LOOP_BODY)
    assert _found(text, "while", 2) == ("a.py:11", Basis.LOOP_BODY)


def test_store_that_runs_asynchronously_has_the_line_of_the_slice() -> None:
    wrapper = f"""%async (b: f32[4,8], j: s32[], v: f32[8]) -> f32[4,8] {{
  %b = f32[4,8] parameter(0)
  %j = s32[] parameter(1)
  %v = f32[8] parameter(2)
  ROOT %inner = f32[4,8] fusion(%b, %j, %v), kind=kLoop, calls=%stored, {_at(20)}
}}

%body ("""
    start = "%store-start = ((f32[4,8], s32[], f32[8]), f32[4,8], u32[]) async-start"
    store = f"""{start}(%saved, %at, %tanh), calls=%async, {_at(20)}
  %store = f32[4,8] async-done(%store-start), {_at(20)}"""
    plain = "%store = f32[4,8] fusion(%saved, %at, %tanh), kind=kLoop, calls=%stored, "
    text = LOOP.replace("%body (", wrapper).replace(f"{plain}{_at(20)}", store)
    assert start in text
    assert _found(text, "store") == ("a.py:11", Basis.LOOP_BODY)
    assert _found(text, "while", 2) == ("a.py:11", Basis.LOOP_BODY)


def test_update_of_the_program_itself_keeps_its_line() -> None:
    assert _found(LOOP, "while", 3) == ("a.py:12", Basis.LOOP_BODY)
    assert _found(LOOP, "cached") == ("a.py:12", Basis.OWN)


def test_element_that_the_body_computes_anew_has_the_line_in_the_body() -> None:
    assert _found(LOOP, "while", 1) == ("a.py:13", Basis.LOOP_BODY)


def test_element_that_the_body_keeps_has_the_line_of_its_first_value() -> None:
    assert _found(LOOP, "while", 4) == ("a.py:2", Basis.OWN)
    assert _found(LOOP, "kept") == ("a.py:2", Basis.OWN)


def test_copy_of_saved_values_has_them_as_operand() -> None:
    assert _found(LOOP, "done") == ("a.py:11", Basis.OPERAND)


def test_first_value_of_saved_values_has_what_the_body_writes() -> None:
    assert _found(LOOP, "zeros")[1] is Basis.USER


def test_frames_of_the_user_come_before_those_of_libraries() -> None:
    text = """FileNames
1 "/home/me/train.py"
2 "/v/lib/python3.11/site-packages/flax/linen/linear.py"

FunctionNames
1 "step"
2 "dense"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=4 end_column=20}
2 {file_name_id=2 function_name_id=2 line=9 end_line=11 column=11 end_column=40}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  ROOT %made = f32[8] negate(%x), metadata={op_name="jit(f)/neg" stack_frame_id=2}
}
"""
    module = read(_HEAD + text)
    origins = Origins(module)
    origin = origins.of_row(_row(module, "made"))
    assert origin.source == "/home/me/train.py:30"
    assert [str(place.function) for place in origins.stack(origin)] == ["dense", "step"]


@pytest.mark.parametrize("path", corpus.sample_hlo()[::3], ids=lambda path: path.name)
def test_places_are_those_of_the_origins(path: Path) -> None:
    module = read(corpus.read(path).decode())
    origins, places = Origins(module), Origins(module)
    for row in range(len(module.columns)):
        assert places.place(row) == origins.of_row(row).place


CHAIN = """HloModule m

ENTRY main {
  c = f32[] constant(1)
  b = f32[64]{0} broadcast(c), dimensions={}
  x = f32[64]{0} parameter(0)
  a = f32[64]{0} add(b, x), metadata={op_name="add" source_file="/home/me/a.py" source_line=3}
  r = f32[8,8]{1,0} reshape(a)
  ROOT t = (f32[8,8]{1,0}, f32[64]{0}) tuple(r, x)
}
"""


def test_chains_of_single_users_and_operands_have_the_line_at_their_end() -> None:
    module = table_of(CHAIN).module
    origins = Origins(module)
    places = {one.name: str(origins.place(one.row)) for one in module.entry.instructions}
    line = "/home/me/a.py:3"
    assert places == {"c": line, "b": line, "x": "None", "a": line, "r": line, "t": line}


def test_elements_that_a_thousand_nested_loops_overwrite_have_an_end() -> None:
    state = "(f32[8], s32[])"
    bodies = [
        f"b{level} {{\n  s = {state} parameter(0)\n  w = {state} "
        + (f"while(s), condition=c, body=b{level - 1}" if level else "opt-barrier(s)")
        + "\n  x = f32[8] get-tuple-element(w), index=0\n"
        + "  i = s32[] get-tuple-element(w), index=1\n"
        + f"  n = f32[8] {'bitcast' if level else 'negate'}(x)\n"
        + f"  ROOT t = {state} tuple(n, i)\n}}\n\n"
        for level in range(1000)
    ]
    text = f"""HloModule m

c {{
  s = {state} parameter(0)
  ROOT l = pred[] constant(false)
}}

{"".join(bodies)}ENTRY main {{
  p = {state} parameter(0)
  w = {state} while(p), condition=c, body=b999
  e = f32[8] get-tuple-element(w), index=0
  ROOT r = f32[8] negate(e), metadata={{op_name="f" source_file="/home/me/a.py" source_line=3}}
}}
"""
    module = table_of(text).module
    root = module.entry.root
    assert root is not None
    assert str(Origins(module).place(root.row - 1)) == "/home/me/a.py:3"
