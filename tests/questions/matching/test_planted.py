"""Planted edits are found and classified."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.matching.edits import Added, Change, Changed, Moved, Noise, Removed
from hlo_lens.questions.matching.fingerprints import program_fingerprint
from hlo_lens.questions.matching.program_diff import program_diff
from tests.corpus import SAMPLES, read
from tests.questions.matching.programs import parsed

if TYPE_CHECKING:
    from hlo_lens.questions.matching.program_diff import ProgramDiff

BACKENDS = ("cpu", "tpu", "gpu")
SUM = """sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

"""
ALL = "replica_groups={{0,1,2,3}}, to_apply=sum"


def sample(backend: str) -> str:
    (path,) = (SAMPLES / backend / "tp_mlp").glob("*after_optimizations.txt")
    return read(path).decode()


def diff(base: str, head: str, *heed: Noise) -> ProgramDiff:
    forth = program_diff(parsed(base), parsed(head), heed=heed)
    back = program_diff(parsed(head), parsed(base), heed=heed)
    assert (forth.added, forth.removed, forth.changed) == (back.removed, back.added, back.changed)
    return forth


def entry(lines: str, header: str = "", before: str = SUM) -> str:
    return f"HloModule m, is_scheduled=true{header}\n\n{before}ENTRY main {{\n{lines}\n}}\n"


_OUTPUT = re.compile(r"  ROOT (\S+ = \((\w+\[[\d,]*\](?:\{[^}]*\})?).*? tuple\()(%[\w.-]+)")


def put_before_output(text: str, opcode: str, attributes: str) -> str:
    """Return a module with one more instruction before its first output."""
    start = text.index("ENTRY ")
    root = _OUTPUT.search(text, start)
    assert root is not None
    new = f"  %planted.1 = {root[2]} {opcode}({root[3]}){attributes}\n"
    return f"{text[: root.start()]}{new}  ROOT {root[1]}%planted.1{text[root.end() :]}"


# ---- in samples of all backends ----------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("opcode", "attributes"),
    [
        ("all-gather", ", channel_id=99, replica_groups={{0},{1},{2},{3}}, dimensions={0}"),
        ("copy", ""),
    ],
)
def test_new_instruction_is_added_and_its_users_are_unchanged(
    backend: str, opcode: str, attributes: str
) -> None:
    text = sample(backend)
    found = diff(text, put_before_output(text, opcode, attributes))
    (group,) = found.groups
    assert (group.edit, group.opcode, group.instructions, group.where) == (
        "added",
        opcode,
        1,
        "entry",
    )
    assert (found.added, found.removed, found.changed, found.moved) == (1, 0, 0, 0)
    (edit,) = found.edits
    assert isinstance(edit, Added)
    assert edit.head.name == "planted.1"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_lost_donation_is_a_change_of_the_module(backend: str) -> None:
    text = sample(backend)
    module = parsed(text)
    head = re.sub(r", input_output_alias=\{.*?\) \}", "", text, count=1)
    found = diff(text, head)
    assert found.edits == ()
    assert not found.identical
    assert len(found.module_changes) == len(module.input_output_alias) > 0
    assert {(c.what, c.head) for c in found.module_changes} == {("input_output_alias", None)}
    assert "params['b_in']" in str(found.module_changes[0].base)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trip_count_is_one_changed_constant(backend: str) -> None:
    text = sample(backend)
    wanted = re.compile(r"(= s32\[\](?:\{[^}]*\})? constant\()4(\))")
    head = wanted.sub(r"\g<1>6\g<2>", text)
    found = diff(text, head)
    assert found.changed == len(wanted.findall(text)) > 0
    assert (found.added, found.removed, found.moved) == (0, 0, 0)
    assert {change for group in found.groups for change in group.changes} == {"value 4 -> 6"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_layout_is_named(backend: str) -> None:
    text = sample(backend)
    line = re.compile(r"^(  %\S+ = f32\[4,1024,1024\]\{)2,1,0(\S* fusion\(.*)$", re.MULTILINE)
    head = line.sub(r"\g<1>1,2,0\g<2>", text, count=1)
    assert head != text
    found = diff(text, head)
    assert found.changed == 1
    assert found.groups[0].changes[0].startswith("layout {2,1,0")


# ---- in small programs -------------------------------------------------------------------------


LOOP = """body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[8] sine(x)
INSIDE
  ROOT t = (s32[], f32[8]) tuple(n, OUT)
}

cond {
  s.1 = (s32[], f32[8]) parameter(0)
  i.1 = s32[] get-tuple-element(s.1), index=0
  four = s32[] constant(4)
  ROOT l = pred[] compare(i.1, four), direction=LT
}

"""


def loop(*, inside: bool) -> str:
    path = "while/body/closed_call/" if inside else ""
    reduce = f'all-reduce(IN), {ALL}, metadata={{op_name="jit(f)/{path}psum"}}'
    body = f"  r = f32[8] {reduce.replace('IN', 'y')}" if inside else ""
    before = SUM + LOOP.replace("INSIDE", body).replace("OUT", "r" if inside else "y")
    out = "  ROOT g = f32[8] get-tuple-element(w), index=1"
    if not inside:
        out = out.replace("ROOT ", "") + f"\n  ROOT r2 = f32[8] {reduce.replace('IN', 'g')}"
    lines = f"""  p = f32[8] parameter(0)
  z = s32[] constant(0)
  t.2 = (s32[], f32[8]) tuple(z, p)
  w = (s32[], f32[8]) while(t.2), condition=cond, body=body
{out}"""
    return entry(lines, before=before)


def test_a_collective_that_left_a_loop_moved() -> None:
    found = diff(loop(inside=True), loop(inside=False))
    moved = [edit for edit in found.edits if isinstance(edit, Moved)]
    assert [(edit.base.name, edit.head.name, edit.changes) for edit in moved] == [("r", "r2", ())]
    (group,) = [g for g in found.groups if g.edit == "moved"]
    assert group.where == "body of w -> entry"
    assert (found.added, found.removed, found.changed) == (0, 0, 0)


def layers(count: int, *, element: str = "bf16", first: int = 0, last: int = -1) -> str:
    """Return layers of two products, some of them in another element type."""
    lines = ['  x = bf16[16,64] parameter(0), metadata={op_name="x"}']
    made = "x"
    lines += [
        f"  w{layer} = bf16[64,64] parameter({layer + 1}), "
        f"metadata={{op_name=\"params['layer_{layer}']\"}}"
        for layer in range(count)
    ]
    for layer in range(count):
        kind = element if first <= layer <= last else "bf16"
        path = f'metadata={{op_name="jit(f)/layer_{layer}/NAME" source_file="f.py" source_line=7}}'
        if kind != "bf16":
            lines.append(f"  c{layer} = {kind}[16,64] convert({made}), {path}")
            made = f"c{layer}"
        lines += [
            f"  d{layer} = {kind}[16,64] dot({made}, w{layer}), lhs_contracting_dims={{1}}, "
            f"rhs_contracting_dims={{0}}, {path.replace('NAME', 'dot_general')}",
            f"  t{layer} = {kind}[16,64] tanh(d{layer}), {path.replace('NAME', 'tanh')}",
        ]
        made = f"t{layer}"
        if kind != "bf16":
            lines.append(f"  b{layer} = bf16[16,64] convert({made}), {path}")
            made = f"b{layer}"
    return entry("\n".join([*lines, f"  ROOT out = bf16[16,64] negate({made})"]))


def test_layers_two_to_four_add_each_thing_twice() -> None:
    found = diff(layers(2), layers(4))
    assert {(g.edit, g.opcode, g.instructions) for g in found.groups} == {
        ("added", "parameter", 2),
        ("added", "dot", 2),
        ("added", "tanh", 2),
    }
    assert (found.changed, found.removed, found.unchanged) == (0, 0, 11)
    assert {g.op_name for g in found.groups if g.opcode == "dot"} == {"jit(f)/layer_*/dot_general"}


def test_the_same_change_of_sixty_layers_is_one_row() -> None:
    found = diff(layers(60), layers(60, element="f32", last=59))
    rows = {(g.edit, g.opcode, g.instructions, g.changes) for g in found.groups}
    upcast = ("element type bf16 -> f32",)
    assert rows == {
        ("added", "convert", 60, ()),
        ("changed", "dot", 60, upcast),
        ("changed", "tanh", 60, upcast),
    } | {("added", "convert", 60, ())}
    assert found.added == 120
    assert {g.source for g in found.groups} == {"f.py:7"}


def test_a_literal_in_a_fusion_is_a_change_there_and_not_of_its_caller() -> None:
    fused = """fused {
  p0 = f32[8] parameter(0)
  k = f32[] constant(2)
  b = f32[8] broadcast(k), dimensions={}
  ROOT m = f32[8] multiply(p0, b)
}

"""
    lines = """  p = f32[8] parameter(0)
  f = f32[8] fusion(p), kind=kLoop, calls=fused
  ROOT n = f32[8] negate(f)"""
    base = entry(lines, before=fused)
    found = diff(base, base.replace("constant(2)", "constant(3)"))
    (edit,) = found.edits
    assert isinstance(edit, Changed)
    assert (edit.base.name, [str(c) for c in edit.changes]) == ("k", ["value 2 -> 3"])
    assert found.groups[0].where == "fusion f in entry"


def test_operands_of_a_fusion_in_another_order_with_their_parameters_are_no_change() -> None:
    fused = """fused {
  p0 = f32[8] parameter(A)
  p1 = f32[8] parameter(B)
  ROOT s = f32[8] subtract(p0, p1)
}

"""
    lines = """  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  ROOT f = f32[8] fusion(OPS), kind=kLoop, calls=fused"""
    one, other = (
        entry(lines.replace("OPS", ops), before=fused.replace("A", a).replace("B", b))
        for ops, a, b in (("p, q", "0", "1"), ("q, p", "1", "0"))
    )
    swapped = entry(lines.replace("OPS", "q, p"), before=fused.replace("A", "0").replace("B", "1"))
    assert diff(one, other).identical
    assert not diff(one, swapped).identical


def test_other_operands_are_a_change_of_the_user() -> None:
    lines = """  p = f32[8] parameter(0)
  a = f32[8] sine(p)
  b = f32[8] cosine(p)
  c = f32[8] negate(WHICH)
  ROOT t = (f32[8], f32[8], f32[8]) tuple(a, b, c)"""
    found = diff(entry(lines.replace("WHICH", "a")), entry(lines.replace("WHICH", "b")))
    (edit,) = found.edits
    assert isinstance(edit, Changed)
    assert [str(c) for c in edit.changes] == ["operand 0 sine a -> cosine b"]


def test_new_carried_value_does_not_change_users_of_others() -> None:
    base = loop(inside=False)
    wide = base.replace("(s32[], f32[8])", "(s32[], f32[4], f32[8])")
    wide = wide.replace("index=1", "index=2").replace("tuple(n, y)", "tuple(n, e, y)")
    wide = wide.replace("tuple(z, p)", "tuple(z, q, p)")
    wide = wide.replace("  one =", "  e = f32[4] get-tuple-element(s), index=1\n  one =")
    wide = wide.replace("  z =", "  q = f32[4] constant({0, 0, 0, 0})\n  z =")
    found = diff(base, wide)
    changes = {g.changes for g in found.groups if g.edit == "changed"}
    assert changes == {("tuple elements 2 -> 3",)}
    assert found.changed == 5  # two parameters, two tuples, the loop
    added = [edit.head.opcode for edit in found.edits if isinstance(edit, Added)]
    assert sorted(added) == ["constant", "get-tuple-element"]
    assert found.removed == 0


def test_a_synchronous_collective_that_became_asynchronous_is_the_same_one() -> None:
    base = entry(f"  p = f32[8] parameter(0)\n  ROOT r = f32[8] all-reduce(p), {ALL}")
    head = entry(
        f"  p = f32[8] parameter(0)\n  s = f32[8] all-reduce-start(p), {ALL}\n"
        "  ROOT d = f32[8] all-reduce-done(s)"
    )
    found = diff(base, head)
    kinds = {g.opcode: (g.edit, g.changes) for g in found.groups}
    assert kinds == {
        "all-reduce": ("changed", ("opcode all-reduce -> all-reduce-start",)),
        "all-reduce-done": ("added", ()),
    }


def test_removed_fusion_is_counted_with_its_instructions() -> None:
    fused = "fused {\n  p0 = f32[8] parameter(0)\n  ROOT e = f32[8] exponential(p0)\n}\n\n"
    base = entry(
        "  p = f32[8] parameter(0)\n  f = f32[8] fusion(p), kind=kLoop, calls=fused\n"
        "  ROOT n = f32[8] negate(f)",
        before=fused,
    )
    head = entry("  p = f32[8] parameter(0)\n  ROOT n = f32[8] negate(p)", before="")
    found = diff(base, head)
    (group,) = found.groups
    assert (group.edit, group.opcode, group.instructions, group.inside) == (
        "removed",
        "fusion",
        1,
        2,
    )
    assert found.removed == 3
    assert all(isinstance(edit, Removed) for edit in found.edits)
    assert group.result_bytes == 32


def test_sides_that_cannot_be_partners_are_all_added_and_removed() -> None:
    base = entry("  p = f32[8] parameter(0)\n  ROOT a = f32[8] sine(p)")
    head = entry("  c = s32[] constant(7)\n  ROOT b = pred[4] broadcast(c), dimensions={}")
    found = diff(base, head)
    assert (found.unchanged, found.removed, found.added) == (3, 2, 2)


# ---- noise -------------------------------------------------------------------------------------

NOISE = """  p = f32[8,4]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}, metadata={op_name="p"}
  s = f32[8,4]{1,0} sine(p), metadata={op_name="f/sin"}, backend_config={"a":1,"b":[2]}
  v = f32[8,4]{1,0} cosine(p)
  r = f32[8,4]{1,0} all-reduce(s), channel_id=1, replica_groups=[1,4]<=[4], to_apply=sum
  ROOT o = f32[8,4]{1,0} add(r, v)"""


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("v = f32", "q = f32", Noise.NAMES),
        ("channel_id=1", "channel_id=7", Noise.CHANNEL_IDS),
        ('"f/sin"', '"g/sin"', Noise.METADATA),
        ('{"a":1,"b":[2]}', '{"b": [2], "a": 1}', Noise.KEY_ORDER),
        ("[2,1]<=[2]", "[2,1]0,1", Noise.SPELLING),
        ("[1,4]<=[4]", "{{0,1,2,3}}", Noise.SPELLING),
    ],
)
def test_noise_is_counted_and_is_a_change_on_request(before: str, after: str, kind: Noise) -> None:
    base = entry(NOISE)
    head = base.replace(before, after)
    if kind is Noise.NAMES:
        head = head.replace("add(r, v)", "add(r, q)")
    found = diff(base, head)
    assert found.identical
    assert found.ignored == {kind: 1}
    heeded = diff(base, head, kind)
    assert (heeded.identical, heeded.ignored) == (False, {})
    assert heeded.module_changes == (Change(kind.value, None, "1 time"),)


def test_another_schedule_is_noise() -> None:
    lines = NOISE.splitlines()
    base, head = entry(NOISE), entry("\n".join([lines[0], lines[2], lines[1], *lines[3:]]))
    found = diff(base, head)
    assert found.identical
    assert found.ignored == {Noise.INSTRUCTION_ORDER: 1}


def test_numbers_of_frames_that_are_the_same_place_are_noise() -> None:
    tables = """FileNames
1 "f.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=2}
2 {file_name_id=1 function_name_id=1 line=5 end_line=5 column=1 end_column=2}

StackFrames
FRAMES
"""
    lines = '  ROOT p = f32[] parameter(0), metadata={op_name="p" stack_frame_id=1}'
    first = "1 {file_location_id=1 parent_frame_id=1}\n2 {file_location_id=2 parent_frame_id=1}"
    second = "1 {file_location_id=2 parent_frame_id=1}\n2 {file_location_id=1 parent_frame_id=1}"
    one, other = (
        entry(line).replace("\n\n", f"\n\n{tables.replace('FRAMES', frames)}\n", 1)
        for line, frames in ((lines, first), (lines.replace("id=1}", "id=2}"), second))
    )
    found = diff(one, other)
    assert found.identical
    assert found.ignored == {Noise.STACK_FRAMES: 1}
    moved = diff(one, other.replace("stack_frame_id=2", "stack_frame_id=1"))
    assert moved.ignored == {Noise.METADATA: 1}


def test_a_moved_line_is_counted_once_for_each_instruction_of_inner_computations() -> None:
    text = """HloModule m

FileNames
1 "f.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY main {
  p = f32[8] parameter(0), metadata={op_name="p"}
  ROOT r = f32[8] map(p, p), dimensions={0}, to_apply={
    a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT c = f32[] add(a, b), metadata={op_name="c" stack_frame_id=1}
  }, metadata={op_name="r" stack_frame_id=1}
}
"""
    found = diff(text, text.replace("line=3 ", "line=4 "))
    assert found.identical
    assert found.ignored == {Noise.METADATA: 2}


def partners(found: ProgramDiff, base: str, head: str) -> dict[str, str]:
    """Return the names of matched instructions."""
    mine, yours = parsed(base), parsed(head)
    rows = found.matched_rows.items()
    return {mine.instruction(a).name: yours.instruction(b).name for a, b in rows}


def test_partners_may_be_in_other_computations() -> None:
    base, head = loop(inside=True), loop(inside=False)
    found = diff(base, head)
    names = partners(found, base, head)
    assert (names["r"], names["i"]) == ("r2", "i")
    assert found.matched_computations["cond"] == "cond"


def test_programs_in_another_order_have_other_digests() -> None:
    lines = """  p = f32[8] parameter(0)
  a = f32[8] sine(p)
  b = f32[8] cosine(p), control-predecessors={a}
  ROOT t = (f32[8], f32[8]) tuple(a, b)"""
    base = entry(lines)
    swapped = lines.replace(", control-predecessors={a}", "")
    other = entry(swapped.replace("sine(p)\n", "sine(p), control-predecessors={b}\n", 1))
    renamed = entry(lines.replace("a =", "c =").replace("{a}", "{c}").replace("(a,", "(c,"))
    digests = [program_fingerprint(parsed(text)) for text in (base, other, renamed)]
    assert digests[0] == digests[2] != digests[1]


def called(before: str, after: str, body: str = "subtract(x, y)") -> str:
    lines = f"""  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  {before}
  ROOT r = f32[8] fusion({after}), kind=kLoop, calls=f"""
    inner = f"""f {{
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  ROOT z = f32[8] {body}
}}

"""
    return entry(lines, before=inner)


def test_swapped_operands_are_a_change_of_the_caller() -> None:
    found = diff(called("k = f32[8] sine(p)", "k, q"), called("k = f32[8] sine(p)", "q, k"))
    (edit,) = found.edits
    assert isinstance(edit, Changed)
    assert (edit.base.name, [str(c) for c in edit.changes]) == (
        "r",
        ["order of operands 0,1 -> 1,0"],
    )


FUSED = (("sine", "sin"), ("cosine", "cos"), ("tanh", "tanh"))


def fused(*, is_fused: bool) -> str:
    lines, taken = [], "x" if is_fused else "p"
    for opcode, name in FUSED:
        root = "ROOT " if opcode == "tanh" else ""
        path = f'metadata={{op_name="jit(f)/{name}"}}'
        lines.append(f"  {root}{name} = f32[8] {opcode}({taken}), {path}")
        taken = name
    if not is_fused:
        return entry("\n".join(["  p = f32[8] parameter(0)", *lines]), before="")
    inner = "\n".join(["f {", "  x = f32[8] parameter(0)", *lines, "}\n\n"])
    fusion = 'fusion(p), kind=kLoop, calls=f, metadata={op_name="jit(f)/tanh"}'
    return entry(f"  p = f32[8] parameter(0)\n  ROOT r = f32[8] {fusion}", before=inner)


def test_newly_fused_instructions_moved_into_the_added_fusion() -> None:
    found = diff(fused(is_fused=False), fused(is_fused=True))
    moved = [edit for edit in found.edits if isinstance(edit, Moved)]
    assert [(e.base.name, e.head.name, e.changes) for e in moved] == [
        (name, name, ()) for _, name in FUSED
    ]
    assert (found.added, found.removed, found.changed) == (2, 0, 0)  # fusion and parameter
    wheres = {group.where for group in found.groups if group.edit == "moved"}
    assert wheres == {"entry -> fusion r in entry"}


def test_parameter_removed_from_the_middle_is_removed() -> None:
    def text(names: str) -> str:
        lines = []
        for number, name in enumerate(names):
            path = f', metadata={{op_name="{name}"}}'
            lines.append(f"  {name} = f32[2] parameter({number}){path}")
        for name in names:
            lines.append(f"  c{name} = f32[2] constant({{{ord(name)}, 1}})")
            lines.append(f"  m{name} = f32[2] multiply({name}, c{name})")
        shape = f"({', '.join(['f32[2]'] * len(names))})"
        taken = ", ".join(f"m{name}" for name in names)
        return entry("\n".join([*lines, f"  ROOT t = {shape} tuple({taken})"]))

    found = diff(text("uvwxyz"), text("uvxyz"))
    removed = [edit.base.name for edit in found.edits if isinstance(edit, Removed)]
    assert sorted(removed) == ["cw", "mw", "w"]
    assert (found.changed, found.added, found.moved) == (1, 0, 0)  # the tuple


# ---- damaged texts and large programs ----------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_text_is_still_counted_whole(seed: int) -> None:
    source = random.Random(seed)
    text = sample("gpu")
    letters = list(text[: source.randrange(len(text) // 2, len(text))])
    for _ in range(20):
        letters[source.randrange(len(letters))] = source.choice('{}()%=,"x0 \n')
    module, other = parse_hlo("".join(letters)), parsed(text)
    same = program_diff(module, parse_hlo("".join(letters)))
    assert same.identical
    assert same.unchanged == module.instruction_count
    forth, back = program_diff(module, other), program_diff(other, module)
    both = forth.unchanged + forth.changed + forth.moved
    assert both == back.unchanged + back.changed + back.moved
    assert both + forth.removed == module.instruction_count
    assert both + forth.added == other.instruction_count
    assert (forth.added, forth.removed) == (back.removed, back.added)


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m\n",
        "e {\n  a = f32[] add(b, b)\n  b = f32[] add(a, a)\n"
        "  ROOT c = f32[] call(a), to_apply=e\n}",
        "e {\n  a = f32[] sine(a)\n  a = f32[] sine(a)\n  ROOT a = f32[] sine(zz)\n}",
        "e {\n  g = f32[] get-tuple-element(h), index=0\n"
        "  h = f32[] get-tuple-element(g), index=1\n  ROOT k = f32[] negate(g)\n}",
    ],
)
def test_unusual_texts_do_not_differ_from_themselves(text: str) -> None:
    found = program_diff(parse_hlo(text), parse_hlo(text))
    assert found.identical
    assert found.unchanged == parse_hlo(text).instruction_count


def copies(count: int) -> str:
    same = "\n".join(f"  a{k} = f32[8] add(p, p)" for k in range(count))
    return entry(f"  p = f32[8] parameter(0)\n{same}\n  ROOT n = f32[8] negate(a0)")


def test_one_more_of_many_equal_instructions_is_one_added() -> None:
    found = diff(copies(3000), copies(3001))
    assert (found.added, found.removed, found.changed) == (1, 0, 0)
