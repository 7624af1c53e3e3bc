"""Sentences on the reasons for a collective."""

from __future__ import annotations

import hlo_lens
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.explanation import Why, asked_collectives, why
from hlo_lens.shapes.mesh import Mesh
from tests.questions.texts import module_of

AFTER = """HloModule jit_f, is_scheduled=true, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main_spmd {
  x = f32[8,4] parameter(0), sharding={devices=[1,4]<=[4]}, metadata={op_name="x"}
  w = f32[4,16] parameter(1), sharding={devices=[4,1]<=[4]}, metadata={op_name="w"}
  m = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="jit(f)/dot_general" source_file="/f.py" source_line=3}
  r = f32[8,16] all-reduce(m), channel_id=1, replica_groups=[1,4]<=[4], \
use_global_device_ids=true, to_apply=add, \
metadata={op_name="jit(f)/dot_general" source_file="/f.py" source_line=3}
  t = f32[4,8] transpose(x), dimensions={1,0}
  g = f32[16,8] all-gather(t), channel_id=2, replica_groups=[1,4]<=[4], \
use_global_device_ids=true, dimensions={0}, \
metadata={op_name="jit(f)/outer" source_file="/f.py" source_line=4}
  v = f32[16,8] copy(g)
  k = f32[8,8] dot(r, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  p = f32[8,8] collective-permute(k), channel_id=3, \
source_target_pairs={{0,1},{1,2},{2,3},{3,0}}, metadata={op_name="jit(f)/ppermute"}
  ROOT o = (f32[8,8]) tuple(p)
}
"""
BEFORE = """HloModule jit_f, num_partitions=4

ENTRY main {
  x = f32[8,16] parameter(0), sharding={mesh['model'=4], [{}, {'model'}]}, metadata={op_name="x"}
  w = f32[16,16] parameter(1), sharding={mesh['model'=4], [{'model'}, {}]}, metadata={op_name="w"}
  c = f32[16,16] convert(w)
  ROOT m = f32[8,16] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="jit(f)/dot_general" source_file="/g.py" source_line=3}
}
"""


def _why(name: str, text: str = BEFORE, after: str = AFTER) -> Why:
    module = module_of(after).stating(mesh=Mesh.of({"model": 4}))
    before = hlo_lens.parse_hlo(text)
    found = collectives(module)
    (collective,), _ = asked_collectives(found, name)
    return why(hlo_text(module), collective, found, before)


def test_all_reduce_is_explained_by_the_dimension_that_is_summed_over() -> None:
    assert _why("r").sentences == (
        "the partitioner put it in for dot_general at /f.py:3",
        "before optimizations, m sums over dimension 1 of operand 0 (as x) and dimension 0 of "
        "operand 1 (as w), divided over model",
    )


def test_operand_is_followed_through_a_long_chain_of_operations() -> None:
    chain = "\n".join(f"  c{k + 1} = f32[16,16] sine(c{k})" for k in range(900))
    text = BEFORE.replace("  c = f32[16,16] convert(w)", f"  c0 = f32[16,16] sine(w)\n{chain}")
    found = _why("r", text.replace("dot(x, c)", "dot(x, c900)")).sentences
    assert "dimension 0 of operand 1 (as w), divided over model" in found[1]


def test_cause_without_an_operation_of_its_path_is_not_determined() -> None:
    computed = AFTER.replace("v = f32[16,8] copy(g)", "v = f32[16,8] sine(g)")
    assert _why("g", after=computed).sentences[1] == (
        "the cause is not determined: before optimizations, no instruction has its operation path"
    )


def test_argument_that_is_stored_divided_is_gathered_for_a_product() -> None:
    found = _why("%g")
    assert found.sentences == (
        "the partitioner put it in for outer at /f.py:4",
        "x is stored with dimension 1 divided over model; k needs it whole",
    )


GATHERED = """HloModule jit_f, is_scheduled=true, num_partitions=4

ENTRY main_spmd {
  x = f32[8,4] parameter(0)
  s = f32[8,4] sine(x), metadata={op_name="jit(f)/sin"}
  ROOT g = f32[8,16] all-gather(s), channel_id=1, replica_groups=[1,4]<=[4], \
use_global_device_ids=true, dimensions={1}, metadata={op_name="PATH"}
}
"""
CONSTRAINED = """HloModule jit_f, num_partitions=4

ENTRY main {
  x = f32[8,16] parameter(0), sharding={mesh['model'=4], [{}, {'model'}]}, metadata={op_name="x"}
  w = f32[16,16] parameter(1), sharding={mesh['model'=4], [{'model'}, {}]}, metadata={op_name="w"}
  y = f32[16,8] parameter(2), sharding={mesh['model'=4], [{}, {'model'}]}, metadata={op_name="y"}
  s = f32[8,16] sine(x), metadata={op_name="jit(f)/sin"}
  d = f32[8,16] dot(y, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}, \
metadata={op_name="jit(f)/dot"}
  n = f32[8,16] negate(s), metadata={op_name="jit(f)/neg"}
  ROOT c = f32[8,16] custom-call(n), custom_call_target="Sharding", \
sharding={mesh['model'=4], [DIMENSIONS]}, \
metadata={op_name="sharding_constraint" source_file="/f.py" source_line=9}
}
"""


def _causes(path: str, dimensions: str = "{}, {}") -> tuple[str, ...]:
    module = module_of(GATHERED.replace("PATH", path)).stating(mesh=Mesh.of({"model": 4}))
    found = collectives(module)
    before = hlo_lens.parse_hlo(CONSTRAINED.replace("DIMENSIONS", dimensions))
    (one,) = found.collectives
    return why(hlo_text(module), one, found, before).sentences[1:]


def test_constraint_on_the_result_is_the_cause() -> None:
    assert _causes("jit(f)/sin")[0] == ("a sharding constraint (c of n) drops model (as x)")
    assert _causes("jit(f)/sin", "{'model'}, {}")[0] == (
        "a sharding constraint (c of n) moves model from dimension 1 to 0 (as x)"
    )


def test_constraint_that_leaves_a_dimension_open_is_no_cause() -> None:
    assert _causes("jit(f)/sin", "{}, {?}")[0].startswith("the cause is not determined")


def test_operands_that_cannot_all_stay_divided_are_the_cause() -> None:
    assert _causes("jit(f)/dot")[0] == (
        "before optimizations, d cannot keep all that model divides: dimension 0 of operand 1 "
        "(as w), which it sums over and dimension 1 of operand 0 (as y), which it keeps"
    )


def _sentences_of_used(path: str, argument: str) -> tuple[str, ...]:
    """Return the reasons for a gather of a path of an argument; its consumer is that of sin."""
    text = GATHERED.replace("PATH", path).replace(
        "parameter(0)", f'parameter(0), metadata={{op_name="{argument}"}}'
    )
    text = text.replace(', metadata={op_name="jit(f)/sin"}', "").replace("ROOT g", "g")
    after = text.replace(
        "\n}", '\n  ROOT n = f32[8,16] negate(g), metadata={op_name="jit(f)/sin"}\n}'
    )
    module = module_of(after).stating(mesh=Mesh.of({"model": 4}))
    found = collectives(module)
    before = hlo_lens.parse_hlo(CONSTRAINED.replace("DIMENSIONS", "{}, {}"))
    return why(hlo_text(module), found.collectives[0], found, before).sentences


def test_gather_with_the_name_of_an_argument_is_explained_by_its_consumer() -> None:
    sentences = _sentences_of_used("w", "w")
    assert sentences[0] == "the text does not show which operation it belongs to"
    assert sentences[1].startswith("a sharding constraint (c of n) drops model")
    assert "it moves the argument w" in sentences


def test_gather_that_another_one_continues_is_explained_by_the_consumer_of_that() -> None:
    first = (
        "g = f32[8,8] all-gather(s), channel_id=1, replica_groups={{0,1},{2,3}}, "
        "use_global_device_ids=true, dimensions={1}"
    )
    second = (
        "h = f32[8,16] all-gather(g), channel_id=2, replica_groups={{0,2},{1,3}}, "
        "use_global_device_ids=true, dimensions={1}"
    )
    text = GATHERED[: GATHERED.index("  ROOT g")].replace(', metadata={op_name="jit(f)/sin"}', "")
    used = 'ROOT n = f32[8,16] negate(h), metadata={op_name="jit(f)/sin"}'
    module = module_of(f"{text}  {first}\n  {second}\n  {used}\n}}\n").stating(
        mesh=Mesh.of({"model": 4})
    )
    found = collectives(module)
    before = hlo_lens.parse_hlo(CONSTRAINED.replace("DIMENSIONS", "{}, {}"))
    (one,), _ = asked_collectives(found, "g")
    sentences = why(hlo_text(module), one, found, before).sentences
    assert any(
        sentence.startswith("a sharding constraint (c of n) drops model") for sentence in sentences
    ), sentences


EQUAL_PATHS = """HloModule jit_f, num_partitions=4

FileNames
1 "/model.py"
2 "/train.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=26 end_line=26 column=1 end_column=2}
2 {file_name_id=1 function_name_id=1 line=27 end_line=27 column=1 end_column=2}
3 {file_name_id=2 function_name_id=1 line=26 end_line=26 column=1 end_column=2}

StackFrames
1 {file_location_id=3 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}
3 {file_location_id=2 parent_frame_id=2}

ENTRY main {
  w = f32[16,16] parameter(0), sharding={mesh['model'=4], [{'model'}, {}]}, metadata={op_name="w"}
  y = f32[16,8] parameter(1), sharding={mesh['model'=4], [{}, {'model'}]}, metadata={op_name="y"}
  z = f32[16,16] parameter(2), sharding={mesh['model'=4], [{'model'}, {}]}, metadata={op_name="z"}
  d = f32[8,16] dot(y, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}, \
metadata={op_name="jit(f)/dot" stack_frame_id=3}
  e = f32[8,16] dot(y, z), lhs_contracting_dims={0}, rhs_contracting_dims={0}, \
metadata={op_name="jit(f)/dot" stack_frame_id=2}
  ROOT t = (f32[8,16], f32[8,16]) tuple(d, e)
}
"""


def test_of_operations_with_equal_paths_the_one_at_the_line_is_the_cause() -> None:
    """Both are called from line 26 of another file."""
    text = GATHERED.replace('"PATH"', '"jit(f)/dot" source_file="/model.py" source_line=26')
    module = module_of(text).stating(mesh=Mesh.of({"model": 4}))
    found = collectives(module)
    before = hlo_lens.parse_hlo(EQUAL_PATHS)
    assert not before.gaps
    sentences = why(hlo_text(module), found.collectives[0], found, before).sentences
    assert sentences[1].startswith("before optimizations, e cannot keep all that model divides")


def test_collective_that_the_program_calls_is_named_so() -> None:
    found = _why("p")
    assert found.sentences == ("the program asks for it: ppermute",)


def test_neighbours_are_rows() -> None:
    rows = [dict(zip((c.name for c in Why.COLUMNS), r, strict=True)) for r in _why("g").rows()]
    assert [(row["role"], row["name"], row["opcode"]) for row in rows] == [
        ("producer", "x", "parameter"),
        ("consumer", "k", "dot"),
    ]
    assert rows[0]["sharding"] == "P(None, 'model')"
