"""Changes of a program's text: what they write, and why some cannot be made."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from hlo_lens import parse_hlo
from hlo_lens.questions.what_if.arguments import EntryArrays
from hlo_lens.questions.what_if.edits import Change
from hlo_lens.questions.what_if.recompiling import edited
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.text.errors import UsageError
from tests.questions.what_if.texts import GSPMD, ONE_DEVICE, SHARDY

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloInstruction, HloModule

MESHES = (Mesh.of({"data": 2, "model": 4}),)
BOTH = pytest.mark.parametrize("text", [SHARDY, GSPMD], ids=["Shardy", "GSPMD"])


class Edited(NamedTuple):
    """A program after changes."""

    module: HloModule
    parts: list[Change]

    @property
    def text(self) -> str:
        return self.module.columns.source.text

    @property
    def notes(self) -> list[str | None]:
        return [part.note for part in self.parts]

    @property
    def reasons(self) -> list[str | None]:
        return [part.why_not for part in self.parts]


def changed(text: str, *asked: str, meshes: tuple[Mesh, ...] = MESHES) -> Edited:
    """Return a text with changes, each a kind and its value: ``donate state``."""
    pairs = [one.split(" ", 1) for one in asked]
    changes = [Change(kind=kind, target=target) for kind, target in pairs]
    module, made = edited(parse_hlo(text), changes, meshes)
    assert not module.gaps
    return Edited(module, [part for one in made for part in one.parts])


def producer(user: HloInstruction | None, position: int) -> HloInstruction:
    assert user is not None
    made = user.producer(position)
    assert made is not None
    return made[0]


def test_results_go_to_arguments_in_order() -> None:
    made = changed(ONE_DEVICE, "donate state.*")
    assert made.module.header["input_output_alias"] == (
        "{ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"
    )
    assert [(part.target, part.note) for part in made.parts] == [
        ("state['w'][0].mu", "result{0} has its memory"),
        ("state['w'][0].nu", "result{1} has its memory"),
    ]


def test_pairs_are_made_again_as_jax_makes_them() -> None:
    first = changed(ONE_DEVICE, "donate state/w/0/nu").text
    assert "{ {0}: (1, {}, may-alias) }" in first
    assert changed(first, "donate state").text == changed(ONE_DEVICE, "donate state").text


def test_pairs_that_jax_would_not_make_stay() -> None:
    header = "HloModule jit_step, input_output_alias={ {1}: (0, {}, must-alias) }"
    text = ONE_DEVICE.replace("HloModule jit_step", header)
    both = "{ {0}: (1, {}, may-alias), {1}: (0, {}, must-alias) }"
    assert both in changed(text, "donate state").text


def test_a_result_of_as_many_elements_is_left_to_xla() -> None:
    text = changed(ONE_DEVICE, "donate c", "donate state['w'][0].mu").text
    assert "input_output_alias={ {0}: (0, {}, may-alias) }, buffer_donor={ (2, {}) }" in text


@pytest.mark.parametrize("patterns", [["state"], ["c"], ["state['w'][0].nu", "c"]])
def test_undonated_after_donated_is_the_text_again(patterns: list[str]) -> None:
    donated = changed(ONE_DEVICE, *(f"donate {one}" for one in patterns)).text
    assert donated != ONE_DEVICE
    assert changed(donated, *(f"undonate {one}" for one in patterns)).text == ONE_DEVICE


def test_reasons_why_an_argument_is_not_donated() -> None:
    donated = changed(ONE_DEVICE, "donate state['w'][0].mu").text
    made = changed(donated, "donate d", "donate state", "donate x", "undonate c")
    assert made.reasons == [
        "no free result has its shape or number of elements",
        "already donated; result{0} has its memory",
        None,
        "no argument is called 'x'; there is state['w'][0].mu, state['w'][0].nu, c, d",
        "it is not donated",
    ]


def test_an_argument_is_donated_that_has_the_sharding_of_a_result_after_a_change() -> None:
    """JAX drops a donation where both are divided in different ways."""
    closed = SHARDY.replace("{false,true}", "{false,false}")
    whole = changed(closed, "shard p['w']=P('data')", "shard result{0}=P()").text
    alone = changed(whole, "donate p['w']")
    assert alone.reasons == ["no free result has its shape or number of elements"]
    both = changed(whole, "donate p['w']", "shard p['w']=P()")
    assert both.notes == ["result{0} has its memory", "P() over mesh['data'=2,'model'=4]"]


def test_results_of_a_sharding_that_xla_chooses_are_left_to_xla() -> None:
    header = "HloModule jit_step, num_partitions=2, allow_spmd_sharding_propagation_to_output={"
    text = ONE_DEVICE.replace("HloModule jit_step", header + "true,false,false,true}")
    header_of = changed(text, "donate state", "donate d").module.header
    assert header_of["input_output_alias"] == "{ {1}: (1, {}, may-alias) }"
    assert header_of["buffer_donor"] == "{ (0, {}), (3, {}) }"


def test_conversions_at_the_border() -> None:
    module = changed(ONE_DEVICE, "dtype state['w'][0].mu=bfloat16").module
    parameter, root = module.entry.parameters[0], module.entry.root
    assert parameter.shape_text == "bf16[8,16]{1,0}"
    ((row, _),) = module.links.users_of(parameter.row)
    convert = module.instruction(row)
    assert (convert.name, convert.opcode, convert.shape_text) == (
        "a.1",
        "convert",
        "f32[8,16]{1,0}",
    )
    assert root is not None
    assert root.shape_text.startswith("(bf16[8,16]{1,0}, f32[8,16]{1,0}")
    assert producer(root, 0).opcode == "convert"
    assert producer(root, 0).operand_names == ("add.1",)
    layout = module.entry_computation_layout
    assert layout is not None
    assert [shape.element_type for shape in layout.parameters] == ["bf16", "f32", "f32", "f32"]
    assert [shape.element_type for shape in layout.result.tuple_shapes] == ["bf16", *["f32"] * 3]


def test_the_result_with_the_memory_is_what_an_argument_becomes() -> None:
    header = "HloModule jit_step, input_output_alias={ {1}: (0, {}, may-alias) }"
    text = ONE_DEVICE.replace("HloModule jit_step", header)
    made = changed(text, "dtype state['w'][0].mu=bf16", "donate state['w'][0].mu")
    assert made.notes[0] == "f32 is stored as bf16; so is result{1}, which it becomes"
    assert made.reasons[1] == "already donated; result{1} has its memory"


@BOTH
def test_a_result_of_stated_sharding_is_stored_as_another_type(text: str) -> None:
    module = changed(text, "dtype p=bf16").module
    made = producer(module.entry.root, 0)
    assert made.shape_text == "bf16[8,64]{1,0}"
    assert made.opcode == ("custom-call" if text is SHARDY else "convert")
    types = {one.opcode: one.shape_text.partition("[")[0] for one in module.entry.instructions}
    assert types["reshape"] == ("bf16" if text is SHARDY else "f32")
    assert types["negate"] == types["dot"] == "f32"


def test_a_program_whose_signature_is_printed() -> None:
    signature = "%main.1 (a: f32[8,16], b: f32[8,16], c: f32[16,8], /*index=3*/d: f32[4]) -> ("
    text = ONE_DEVICE.replace("%main.1", signature + "f32[8,16], f32[8,16], f32[128], f32[])")
    module = changed(text, "dtype d=f16", "dtype state['w'][0].nu=f64").module
    assert module.entry.signature_text == (
        "(a: f32[8,16], b: f64[8,16], c: f32[16,8], /*index=3*/d: f16[4]) -> "
        "(f32[8,16], f64[8,16], f32[128], f32[])"
    )


def test_an_argument_that_is_the_result() -> None:
    text = "HloModule m\n\nENTRY %e {\n  ROOT %a = f32[2]{0} parameter(0)\n}\n"
    module = changed(text, "dtype a=bf16").module
    opcodes = [(one.opcode, one.shape_text, one.is_root) for one in module.entry.instructions]
    assert opcodes == [
        ("parameter", "bf16[2]{0}", False),
        ("convert", "f32[2]{0}", False),
        ("convert", "bf16[2]{0}", True),
    ]


def test_reasons_why_a_type_stays() -> None:
    text = ONE_DEVICE.replace("f32[4]", "s32[4]")
    made = changed(text, "dtype d=bf16", "dtype c=f32", "dtype y=f32")
    assert made.reasons[:2] == ["s32 is not stored as bf16", "it is f32 already"]
    assert made.text == text
    with pytest.raises(UsageError, match="not a type of arguments"):
        changed(text, "dtype c=real")


def test_argument_with_the_sharding_of_the_result_becomes_it() -> None:
    text = (
        "HloModule jit_f, entry_computation_layout={(f32[8,64]{1,0}, f32[8,64]{1,0})->(f32[8,64]"
        "{1,0})}, allow_spmd_sharding_propagation_to_output={false}, num_partitions=8\n\n"
        "ENTRY %main.1 {\n"
        "  %a.1 = f32[8,64]{1,0} parameter(0), sharding={devices=[2,1,4]<=[8] "
        'last_tile_dim_replicate}, metadata={op_name="a"}\n'
        "  %b.1 = f32[8,64]{1,0} parameter(1), sharding={devices=[1,8]<=[8]}, "
        'metadata={op_name="b"}\n'
        "  %c.1 = f32[8,64]{1,0} add(%a.1, %b.1)\n"
        "  ROOT %t.1 = (f32[8,64]{1,0}) tuple(%c.1), sharding={{devices=[1,8]<=[8]}}\n}\n"
    )
    for name, result in (("a", "f32"), ("b", "bf16")):
        root = changed(text, f"dtype {name}=bf16").module.entry.root
        assert root is not None
        assert root.shape_text.startswith(f"({result}[")


def specs(text: str) -> dict[str, str]:
    arrays = EntryArrays(parse_hlo(text))
    values = (*arrays.arguments, *arrays.results)
    names = [*arrays.names, *(f"result{one.value.index}" for one in arrays.results)]
    found = [one.sharding and one.sharding.to_partition_spec(MESHES[0]) for one in values]
    return {name: str(spec) for name, spec in zip(names, found, strict=True)}


@BOTH
def test_sharding_of_an_argument(text: str) -> None:
    parameter = changed(text, "shard x=P(('data','model'))").module.entry.parameters[1]
    assert parameter.sharding is not None
    assert parameter.sharding.text == "{devices=[8,1]<=[8]}"
    shardy = '#sdy.sharding<@mesh, [{"data", "model"}, {}]>' if text is SHARDY else None
    assert parameter.frontend_attributes.get("xla.sdy.sharding") == shardy


@BOTH
def test_result_that_has_the_memory_follows(text: str) -> None:
    donated = changed(text, "donate p").text
    alone = specs(changed(text, "shard p=P('data')").text)
    assert (alone["p['w']"], alone["result{0}"]) == ("('data',)", "(None, 'model')")
    both = specs(changed(donated, "shard p=P('data')").text)
    assert (both["p['w']"], both["result{0}"]) == ("('data',)", "('data',)")
    apart = specs(changed(donated, "shard p=P('data')", "shard result{0}=P(None, 'data')").text)
    assert (apart["p['w']"], apart["result{0}"]) == ("('data',)", "(None, 'data')")


@BOTH
def test_sharding_of_a_result_that_was_left_to_xla(text: str) -> None:
    made = changed(text, "shard result[1]=P('data')")
    assert made.module.header["allow_spmd_sharding_propagation_to_output"] == "{false,false}"
    assert specs(made.text)["result{1}"] == "('data',)"
    call = producer(made.module.entry.root, 1)
    assert ("FuncResultSharding" in str(call.attributes)) == (text is SHARDY)


@BOTH
def test_sharding_and_back_is_the_text_again(text: str) -> None:
    there = changed(text, "shard p=P('data')", "shard x=P()", "shard result{0}=P('data')").text
    back = ("p=P(None, 'model')", "x=P('data')", "result{0}=P(None, 'model')")
    assert there != text
    assert changed(there, *(f"shard {one}" for one in back)).text == text


@pytest.mark.parametrize(
    ("text", "request_text", "reason"),
    [
        (SHARDY, "x=P('z')", "no axis z in mesh['data'=2,'model'=4]"),
        (SHARDY, "x=P('data', 'data')", "axes 'data' and 'data' overlap"),
        (SHARDY, "x=P('data', None, None)", "P('data', None, None) is for 3 dimensions, it has 2"),
        (SHARDY, "x=P('data')", "it is sharded so: P('data',)"),
        (SHARDY, "result{2}=P()", "no result is called 'result{2}'; there is result{0}, result{1}"),
        (SHARDY, "y=P('data')", "no argument is called 'y'; there is p['w'], x"),
        (
            SHARDY.replace("f32[16,8]", "f32[16,6]"),
            "x=P(None,'model')",
            "dimension 1 of 6 does not divide by 4",
        ),
        (ONE_DEVICE, "c=P('x')", "the program runs on one device"),
        (GSPMD, "x=P()", "the text names no mesh axes"),
    ],
)
def test_reasons_why_a_sharding_stays(text: str, request_text: str, reason: str) -> None:
    (why_not,) = changed(text, f"shard {request_text}", meshes=()).reasons
    assert why_not is not None
    assert reason in why_not


def test_single_result_is_taken_from_a_tuple() -> None:
    text = SHARDY[: SHARDY.index("  %res.1")] + "}\n"
    text = text.replace("%neg.1 =", "ROOT %neg.1 =").replace("{false,true}", "{true}")
    text = text.replace("(f32[8,64]{1,0}, f32[16,64]{1,0})", "f32[8,64]{1,0}")
    for start in (text, changed(text, "shard result=P('model')").text):
        made = changed(start, "shard result=P('data')")
        assert made.module.entry.root is not None
        assert made.module.entry.root.opcode == "get-tuple-element"
        assert made.module.entry.root.attribute("sharding") is not None
        assert "propagation_to_output" not in made.text
        assert made.text.count("FuncResultSharding") == 1


def test_other_texts_are_no_shardings() -> None:
    with pytest.raises(UsageError, match="not a sharding"):
        changed(SHARDY, "shard x")


CHAIN = """HloModule jit_f, num_partitions=8

body (x: f32[8]) -> f32[8] {
  x = f32[8]{0} parameter(0)
  a = f32[8]{0} custom-call(x), custom_call_target="Sharding", metadata={source_file="f.py" source_line=3}
  ROOT b = f32[8]{0} custom-call(a), custom_call_target="Sharding", metadata={source_file="f.py" source_line=3}
}

ENTRY main (p: f32[8]) -> f32[8] {
  p = f32[8]{0} parameter(0)
  ROOT c = f32[8]{0} call(p), to_apply=body
}
"""  # noqa: E501

GRADIENT = """HloModule jit_f, num_partitions=8

ENTRY main (p: f32[8]) -> (f32[8], f32[8]) {
  p = f32[8]{0} parameter(0)
  a = f32[8]{0} tanh(p), metadata={op_name="jit(f)/tanh" source_file="f.py" source_line=3}
  s = f32[8]{0} multiply(a, a), metadata={op_name="jit(f)/mul" source_file="f.py" source_line=3}
  b = f32[8]{0} sine(a), metadata={op_name="jit(f)/sin" source_file="f.py" source_line=4}
  g = f32[8]{0} cosine(b), metadata={op_name="transpose(f)/g" source_file="f.py" source_line=4}
  t = f32[8]{0} multiply(g, s), metadata={op_name="transpose(f)/mul" source_file="f.py" source_line=3}
  ROOT r = (f32[8]{0}, f32[8]{0}) tuple(b, t)
}
"""  # noqa: E501


@BOTH
def test_constraint_is_dropped_at_its_line(text: str) -> None:
    made = changed(text, "constraint drop f.py:7")
    assert made.module.entry.instruction("con.1") is None
    assert producer(made.module.entry.root, 1).name == "dot.1"
    assert [(part.target, part.note) for part in made.parts] == [("f.py:7", "1 dropped")]


@BOTH
def test_constraint_is_added_where_the_value_leaves_its_line(text: str) -> None:
    module = changed(text, "constraint add u/f.py:6=P('data', 'model')").module
    old = module.entry.instruction("con.1")
    assert old is not None
    new, attributes = producer(old, 0), dict(old.attributes)
    assert new.operand_names == ("dot.1",)
    del attributes["metadata"]
    assert dict(new.attributes) == attributes


def test_a_chain_of_constraints_that_is_the_result() -> None:
    (body, _) = changed(CHAIN, "constraint drop f.py:3").module.computations
    assert [(one.name, one.is_root) for one in body.instructions] == [("x", True)]


def test_gradients_are_constrained_too() -> None:
    made = changed(GRADIENT, "constraint add f.py:3=P('data')")
    assert made.notes == ["1 of P('data',) over mesh['data'=2,'model'=4] added and 1 of gradients"]
    operands = {one.name: one.operand_names for one in made.module.entry.instructions}
    assert operands["s"] == ("a", "a")
    assert operands["b"] == ("a.edited.1",)
    assert operands["t"] == ("g.edited.1", "s")


def test_constraint_added_and_dropped_is_the_text_again() -> None:
    text = changed(GRADIENT, "constraint add f.py:4=P('data')").text
    sharding = "sharding={devices=[2,4]<=[8] last_tile_dim_replicate}"
    marked = text.replace(sharding, 'metadata={source_file="f.py" source_line=9}')
    assert changed(marked, "constraint drop f.py:9").text == GRADIENT


@pytest.mark.parametrize(
    ("request_text", "reason"),
    [
        ("drop f.py:6", "there is no sharding constraint; there are at /u/f.py:7"),
        ("drop g.py:7", "there is no sharding constraint; there are at /u/f.py:7"),
        ("add f.py:99=P('data')", "no array is computed at this line"),
        ("add f.py:6=P('z')", "no axis z in mesh['data'=2,'model'=4]"),
        ("add f.py:6=P(None, None, 'data')", "is for 3 dimensions, it has 2"),
    ],
)
def test_reasons_why_a_constraint_stays(request_text: str, reason: str) -> None:
    (why_not,) = changed(SHARDY, f"constraint {request_text}").reasons
    assert why_not is not None
    assert reason in why_not


def test_constraints_of_a_shard_map_stay() -> None:
    text = SHARDY.replace('"sharding_constraint"', '"jit(f)/shard_map"')
    assert changed(text, "constraint drop f.py:7").reasons == ["it belongs to a shard_map"]


@pytest.mark.parametrize("bad", ["f.py:7", "add f.py:7", "drop f.py:7=P()", "drop f.py"])
def test_other_texts_are_no_constraints(bad: str) -> None:
    with pytest.raises(UsageError, match="not a constraint"):
        changed(SHARDY, f"constraint {bad}")


NAMED = """HloModule jit_f, num_partitions=8

ENTRY %main.1 {
  %x.1 = f32[16,8]{1,0} parameter(0), sharding={mesh['data'=2,'model'=4], [{'data'}, {}]}
  ROOT %r.1 = f32[16,8]{1,0} negate(%x.1), sharding={mesh['data'=2,'model'=4], [{}, {'model'}]}
}
"""


def test_shardy_keeps_its_shardings_and_gets_other_meshes() -> None:
    made = changed(SHARDY, "mesh data=8,model=2")
    assert made.module.num_partitions == 16
    assert '{mesh = #sdy.mesh<["data"=8, "model"=2]>}' in made.text
    assert all(one.attribute("sharding") is None for one in made.module.instructions)
    assert made.text.count("xla.sdy.sharding=") == SHARDY.count("xla.sdy.sharding=")
    assert made.notes == [
        "mesh['data'=8,'model'=2] for mesh['data'=2,'model'=4]: 16 devices instead of 8"
    ]


def test_shardings_by_device_number_are_translated_with_a_given_mesh() -> None:
    module = changed(GSPMD, "mesh data=4").module
    assert [one.sharding and one.sharding.text for one in module.entry.instructions] == [
        "{devices=[1,4,4]<=[4,4]T(1,0) last_tile_dim_replicate}",
        "{devices=[4,1,4]<=[16] last_tile_dim_replicate}",
        None,
        "{devices=[1,4,4]<=[4,4]T(1,0) last_tile_dim_replicate}",
        None,
        "{devices=[4,4]<=[16]}",
        "{{devices=[1,4,4]<=[4,4]T(1,0) last_tile_dim_replicate}, {replicated}}",
    ]


@pytest.mark.parametrize("text", [GSPMD, NAMED])
def test_mesh_and_back_is_the_text_again(text: str) -> None:
    there = changed(text, "mesh data=4,model=2").text
    assert there != text
    back = changed(there, "mesh data=2,model=4", meshes=(Mesh.of({"data": 4, "model": 2}),))
    assert back.text == text


def test_shardings_that_name_axes_with_sizes() -> None:
    assert changed(NAMED, "mesh model=8").text.count("mesh['data'=2,'model'=8]") == 2


def test_one_device_is_not_partitioned() -> None:
    assert "num_partitions" not in changed(SHARDY, "mesh data=1,model=1").module.header


NUMBERED = "the text numbers devices and names no mesh axes"
TWO_MESHES = SHARDY.replace('"model"=4]>}', '"model"=4]>, m2 = #sdy.mesh<["z"=8]>}')
SUB_AXIS = SHARDY.replace(r"{\"model\"}", r"{\"model\":(1)2}", 1)
MANUAL = SHARDY.replace('"Sharding"', '"xla.sdy.GlobalToLocalShape"')
COLLECTIVE = SHARDY.replace("negate(%w.1)", "all-reduce(%w.1), replica_groups={{0,1}}")


@pytest.mark.parametrize(
    ("text", "request_text", "reason"),
    [
        (GSPMD, "data=4", NUMBERED),
        (ONE_DEVICE, "data=4", NUMBERED),
        (SHARDY, "x=4", "no axis x in mesh['data'=2,'model'=4]"),
        (SHARDY, "data=3", "dimension 0 of x, 16, does not divide by 3"),
        (SHARDY.replace("num_", "replica_count=2, num_"), "data=4", "the program has 2 replicas"),
        (TWO_MESHES, "data=4", "it has several meshes"),
        (SUB_AXIS, "model=8", "a sharding has a part of axis model"),
        (MANUAL, "data=4", "con.1 (/u/f.py:7) has shapes or groups for the devices of this mesh"),
        (COLLECTIVE, "data=4", "neg.1 (/u/f.py:5) has shapes or groups"),
    ],
)
def test_reasons_why_a_mesh_stays(text: str, request_text: str, reason: str) -> None:
    made = changed(text, f"mesh {request_text}", meshes=())
    assert made.text == text
    assert str(made.reasons[0]).startswith(reason)


def test_other_texts_are_no_meshes() -> None:
    with pytest.raises(UsageError, match="not a mesh"):
        changed(SHARDY, "mesh data")


def test_mesh_of_as_many_devices_names_the_axes_of_a_text_without_names() -> None:
    shard = "shard x=P(None, 'model')"
    named = changed(GSPMD, "mesh data=2,model=4", shard, meshes=())
    assert [part.applies for part in named.parts] == [True, True]
    assert "name them with --mesh" in str(changed(GSPMD, shard, meshes=()).reasons[0])


def test_changes_follow_each_other() -> None:
    asked = (
        "mesh data=4,model=2",
        "donate p",
        "shard p=P('model')",
        "dtype p=bf16",
        "constraint drop f.py:7",
    )
    made = changed(SHARDY, *asked[::-1], meshes=())
    assert sorted(f"{part.kind} {part.request}" for part in made.parts) == sorted(asked)
    assert all(part.applies for part in made.parts)
    assert made.module.header["input_output_alias"] == "{ {0}: (0, {}, may-alias) }"
    (call,) = (one for one in made.module.entry.instructions if one.opcode == "custom-call")
    assert call.shape_text == "bf16[8,64]{1,0}"
    assert call.frontend_attributes["xla.sdy.sharding"] == (
        '#sdy.sharding_per_value<[<@mesh, [{"model"}, {}]>]>'
    )
    assert made.module.entry.parameters[0].shape_text == "bf16[8,64]{1,0}"


def test_pairs_that_no_longer_agree_are_made_again() -> None:
    made = changed(SHARDY, "donate p", "shard p=P('data')", "shard result{0}=P('model')")
    assert made.notes[0] == "result{0} has its memory"
    assert "input_output_alias" not in made.module.header
    assert made.module.header["buffer_donor"] == "{ (0, {}) }"
