"""HLO text compared with XLA's own parser: corpus, generated modules, places of errors.

The corpus (see its README) holds what jaxlib 0.10.2 found in each text; generated modules and bad
texts are given to the jaxlib that is installed, if one is.
"""

from __future__ import annotations

import collections
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.text.errors import DumpSyntaxError
from tests import corpus
from tests.oracle import xla
from tests.strategies.modules import modules
from tests.strategies.printing import STYLES, print_module

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloComputation, HloInstruction, HloModule
    from hlo_lens.text.errors import Gap
    from tests.strategies.programs import Module

# ---- (a) the corpus -----------------------------------------------------------------------------

_MANIFEST = corpus.CORPUS / "hlo" / "manifest.jsonl"
_SUGAR = re.compile(
    r"\b(?!all-gather|all-reduce|collective-permute|copy|async|send|recv)[a-z][a-z0-9-]*"
    r"-(?:start|update|done)\("
)
_COMPACT = re.compile(r"[\w.-]#\d")


def _entries() -> list[dict[str, Any]]:
    if not _MANIFEST.is_file():
        return []
    return [json.loads(line) for line in _MANIFEST.read_text("utf-8").splitlines()]


def _content(entry: dict[str, Any]) -> bytes:
    path = _MANIFEST.parent / entry["file"]
    return corpus.read(path if path.exists() else path.with_name(f"{path.name}.gz"))


def _bytes(instructions: list[HloInstruction]) -> int | None:
    """Return the bytes of all results, None where the text leaves a shape out."""
    shapes = [i.shape for i in instructions]
    return None if None in shapes else sum(s.size_bytes or 0 for s in shapes if s is not None)


def _plain_facts(module: HloModule, truth: dict[str, Any]) -> dict[str, object]:
    """Return the facts of any text, sugared or not, under the names of the truth."""
    entry = module.entry
    names = [i.name for i in module.instructions]
    facts: dict[str, object] = {
        "replica_count": module.replica_count,
        "num_partitions": module.num_partitions,
        "is_scheduled": module.is_scheduled,
        "n_io_alias": len(module.input_output_alias),
        "n_buffer_donor": len(module.buffer_donor),
        "entry_name": entry.name,
        "entry_n_parameters": len(entry.parameters),
        "entry_parameter_bytes": _bytes(list(entry.parameters)),
        "n_control_edges": sum(len(i.control_predecessors) for i in module.instructions),
        "n_with_sharding": sum(i.sharding is not None for i in module.instructions),
        "n_with_origin": sum("origin" in i.attributes for i in module.instructions),
    }
    if module.name:  # XLA makes up a name where there is none
        facts["module_name"] = module.name
    if entry.root is not None:
        facts["entry_result_bytes"] = _bytes([entry.root])
        is_nested = any(".nested." in name for name in names)
        if len(set(names)) == len(names) and not is_nested:  # XLA renames duplicates
            facts["entry_root"] = entry.root.name
            listed = "\n".join(sorted(i.name for i in entry.instructions))
            facts["entry_sha_names"] = hashlib.sha256(listed.encode()).hexdigest()[:16]
    return {name: value for name, value in facts.items() if value is not None and name in truth}


def _exact_facts(module: HloModule) -> dict[str, object]:
    """Return the facts of a text to which XLA's parser adds nothing."""
    instructions = list(module.instructions)
    leaves = [leaf for i in instructions if i.shape for _, leaf in i.shape.leaves()]
    opcodes = module.opcode_counts()
    facts: dict[str, object] = {
        "n_computations": len(module.computations),
        "n_instructions": module.instruction_count,
        "entry_n_instructions": len(module.entry.instructions),
        "opcodes": dict(opcodes),
        "n_operand_edges": sum(len(i.operands) for i in instructions),
        "n_called_edges": sum(len(i.called_computations) for i in instructions),
        "n_with_metadata": sum(i.metadata is not None for i in instructions),
        "n_with_frontend_attributes": sum(bool(i.frontend_attributes) for i in instructions),
        "n_with_backend_config": sum("backend_config" in i.attributes for i in instructions),
        "computations": [_computation_facts(c) for c in module.computations],
    }
    if _bytes(instructions) is not None:
        arrays = [i for i in instructions if i.shape is not None and not i.shape.is_tuple]
        by_opcode: collections.Counter[str] = collections.Counter()
        for i in instructions:
            by_opcode[i.opcode] += _bytes([i]) or 0
        facts |= {
            "sum_result_bytes": _bytes(instructions),
            "sum_array_result_bytes": _bytes(arrays),
            "entry_instr_bytes_sum": _bytes(list(module.entry.instructions)),
            "opcode_result_bytes": {k: v for k, v in by_opcode.items() if v},
            "dtypes": dict(collections.Counter(leaf.element_type for leaf in leaves)),
            "n_opaque_leafs": sum(leaf.is_opaque for leaf in leaves),
            "n_unbounded_leafs": sum(None in leaf.dimensions for leaf in leaves),
            "n_dynamic_leafs": sum(any(leaf.dynamic_dimensions) for leaf in leaves),
            "n_tiled_leaf_shapes": sum(bool(s.layout and s.layout.tiles) for s in leaves),
        }
    return facts


def _computation_facts(computation: HloComputation) -> list[object]:
    root = computation.root
    assert root is not None
    return [_stem(computation.name), len(computation.instructions), root.opcode]


def _stem(name: str) -> str:
    """Return a computation's name without numbers, which XLA may change."""
    return re.sub(r"(?:\.\d+)+$", "", name)


def _known(name: str, value: Any) -> object:
    """Return a truth in the form in which `_exact_facts` has it."""
    if name == "computations":
        return [[_stem(c[0]), c[1], c[3]] for c in value]
    if name == "opcode_result_bytes":
        return {opcode: size for opcode, size in value.items() if size}
    return value


ENTRIES = _entries()


@corpus.needs_corpus
@pytest.mark.parametrize("entry", ENTRIES, ids=[e["name"] for e in ENTRIES])
def test_corpus_text_is_read_as_xla_reads_it(entry: dict[str, Any]) -> None:
    data, truth = _content(entry), entry.get("truth")
    if entry["expected"] == "error":
        _reads_or_refuses(data)
        return
    module = parse_hlo(data)
    assert module.computations
    if entry["expected"] != "ok":
        return
    assert [str(gap) for gap in module.gaps] == []
    assert truth is not None
    text = data.decode("utf-8", "replace")
    found = _plain_facts(module, truth)
    is_sugared = truth["n_computations"] != truth["n_computations_printed"] or _SUGAR.search(text)
    if is_sugared:  # then XLA's parser makes computations that the text does not have
        counts = {truth["n_computations"], truth["n_computations_printed"]}
        assert len(module.computations) in counts
    elif not _COMPACT.search(text):
        found |= _exact_facts(module)
    assert found == {name: _known(name, truth[name]) for name in found}


def _reads_or_refuses(data: bytes) -> None:
    try:
        parse_hlo(data)
    except DumpSyntaxError:
        return


@corpus.needs_corpus
def test_corpus_has_truth_to_compare_with() -> None:
    assert sum(entry.get("truth") is not None for entry in ENTRIES) > 100


# ---- (b) generated modules ----------------------------------------------------------------------


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(module=modules(), style=st.sampled_from(sorted(STYLES)))
def test_generated_module_is_what_xla_reads(module: Module, style: str) -> None:
    text = print_module(module, STYLES[style])
    theirs = xla.read(text)
    assert not isinstance(theirs, xla.XlaRefusal), theirs
    ours = parse_hlo(text)
    assert ours.gaps == ()
    assert [c.name for c in ours.computations] == list(theirs)
    for computation in ours.computations:
        found = [(i.name, i.opcode, i.operand_names) for i in computation.instructions]
        listed = theirs[computation.name]
        assert sorted(found) == sorted((i.name, i.opcode, i.operands) for i in listed)
        packed = {i.name for i in computation.instructions if _loses_packing(i)}
        sizes = {i.name: i.shape.size_bytes for i in computation.instructions if i.shape}
        for i in listed:
            assert i.name in packed or i.size_bytes == sizes[i.name]


def _loses_packing(instruction: HloInstruction) -> bool:
    """Whether XLA's parser drops E(4) from the layout: that of a literal cannot have it."""
    return instruction.opcode == "constant" and "E(" in instruction.shape_text


# ---- (c) refused by XLA -------------------------------------------------------------------------

_AROUND = """HloModule m

f {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}

ENTRY e {
  p = f32[8]{0} parameter(0)
  c = f32[] constant(0)
  INSTRUCTION
  ROOT r = f32[8]{0} negate(p)
}

"""

_TOKEN = re.compile(r'"[^"\n]*"|[\w.%#-]+|\S')


def _around(instruction: str) -> str:
    return _AROUND.replace("INSTRUCTION", instruction)


def _place(text: str, line: int, column: int) -> int:
    """Return the number of words before a place: the unit in which places are compared.

    XLA reports the unexpected word, which may be on the next line.
    """
    offset = sum(len(before) + 1 for before in text.split("\n")[: line - 1]) + column - 1
    return sum(match.end() <= offset for match in _TOKEN.finditer(text))


def _first(text: str) -> Gap | DumpSyntaxError:
    try:
        gaps = parse_hlo(text).gaps
    except DumpSyntaxError as error:
        return error
    assert gaps
    return gaps[0]


SAME_PLACES = ("0.10.2", "0.12.0")
"""Versions of jaxlib that name the places below; the messages of another may have moved."""

needs_known_version = pytest.mark.skipif(
    xla.version() not in SAME_PLACES, reason=f"places are those of jaxlib {SAME_PLACES}"
)

# Line and column are those that XLA names, columns from 1.
REFUSED: list[tuple[str, int, int]] = [
    ("q = f32[8] add(p, p", 12, 21),
    ("q = f32[8] add(p, p]", 12, 21),
    ("q = f32[8] add(p p)", 12, 18),
    ("q = f32[8] add p, p)", 12, 18),
    ("q = f32[8] add(p#, p)", 12, 18),
    ('q = f32[8] add(p, "p")', 12, 21),
    ("q = f32[8] parameter(x)", 12, 24),
    ("q = f32[8] parameter(1, 2)", 12, 25),
    ("q = f32[8] parameter(1", 13, 3),
    ("q = f32[8} add(p, p)", 12, 12),
    ("q = f32[8,] add(p, p)", 12, 13),
    ("q = f32[a] add(p, p)", 12, 11),
    ("q = f32[8]{0,} add(p, p)", 12, 16),
    ("q = f32[8]{x} add(p, p)", 12, 13),
    ("q = f32[8]{0:T(8,x)} add(p, p)", 12, 20),
    ("q = (f32[8], f32[8] tuple(p, p)", 12, 23),
    ("q = (f32[8], tuple(p, p)", 12, 16),
    ("q = f32[99999999999999999999] add(p, p)", 12, 11),
    ("q = F32[8] add(p, p)", 12, 7),
    ("q = f32 add(p, p)", 12, 11),
    ("q = f32[8]", 13, 3),
    ("q = f32[8] Add(p, p)", 12, 14),
    ("q = f32[8] 3(p, p)", 12, 14),
    ("q =", 13, 3),
    ("q", 13, 3),
    ("q f32[8] add(p, p)", 12, 5),
    ("= f32[8] add(p, p)", 12, 3),
    ("q= f32[8] add(p, p)", 12, 3),
    ("3q = f32[8] add(p, p)", 12, 3),
    ('"q" = f32[8] add(p, p)', 12, 3),
    ("q = f32[] constant(", 13, 3),
    ("q = f32[] constant(x)", 12, 22),
    ("q = f32[2] constant({1, x})", 12, 27),
    ("q = f32[2] constant({1, 2)", 12, 28),
    ("q = c64[] constant((1, 2)", 13, 3),
    ("q = f32[8] add(p, p),", 13, 3),
    ("q = f32[8] add(p, p), 3", 12, 25),
    ("q = f32[8] add(p, p), dimensions", 12, 25),
    ("q = f32[8] add(p, p), metadata ={}", 12, 25),
    ("q = f32[8] add(p, p) metadata={}", 12, 24),
    ("q = f32[8] add(p, p) x", 13, 3),
    ('q = f32[8] add(p, p), metadata="x"', 12, 34),
    ("q = f32[8] add(p, p), metadata={op_name=}", 12, 43),
    ('q = f32[8] add(p, p), metadata={op_name="x}', 12, 43),
    ('q = f32[8] add(p, p), metadata={op_name="x"', 13, 3),
    ("q = f32[8] add(p, p), sharding=replicated", 12, 34),
    ("q = f32[8] add(p, p), sharding={replicate}", 12, 35),
    ("q = f32[8] add(p, p), sharding={devices=[2]}", 12, 46),
    ("q = f32[8] add(p, p), sharding={devices=[2]0,x}", 12, 48),
    ("q = f32[8] add(p, p), sharding={mesh['a'], [{'a'}]}", 12, 43),
    ("q = f32[8] add(p, p), sharding={{replicated}, replicated}", 12, 49),
    ("q = f32[8] add(p, p), control-predecessors=p", 12, 46),
    ("q = f32[8] add(p, p), control-predecessors={3}", 12, 47),
    ('q = f32[8] add(p, p), frontend_attributes="x"', 12, 45),
    ('q = f32[8] add(p, p), frontend_attributes={"a"="b"}', 12, 46),
    ("q = f32[8] reverse(p), dimensions=", 13, 3),
    ("q = f32[8] reverse(p), dimensions=0", 12, 37),
    ("q = f32[8] reverse(p), dimensions={0,}", 12, 40),
    ("q = f32[8] reverse(p), dimensions={a}", 12, 38),
    ("q = pred[8] compare(p, p), direction=3", 12, 40),
    ("q = f32[8] fusion(p), kind=kLoop, calls={1}", 12, 44),
    ('q = f32[8] fusion(p), kind="kLoop", calls=f', 12, 30),
    ("q = f32[8] all-reduce(p), replica_groups={{0,1},{2,x}}, to_apply=f", 12, 54),
    ("q = f32[8] all-reduce(p), replica_groups={0,1}, to_apply=f", 12, 45),
    ("q = f32[8] all-reduce(p), replica_groups=[2,4], to_apply=f", 12, 49),
    ("q = f32[8] all-reduce(p), replica_groups={}, to_apply=f, channel_id=x", 12, 71),
    ("q = f32[8] all-reduce(p), replica_groups={}, to_apply=f, use_global_device_ids=yes", 12, 82),
    ("q = f32[8] collective-permute(p), source_target_pairs={0,1}", 12, 58),
    ("q = f32[8] collective-permute(p), source_target_pairs={{0,1},{1}", 13, 3),
    ("q = f32[8] custom-call(p), custom_call_target=x", 12, 49),
    ('q = f32[8] custom-call(p), custom_call_target="x', 12, 49),
    ('q = f32[8] custom-call(p), custom_call_target="x" "y"', 12, 53),
    ("q = f32[8] pad(p, c), padding=1", 12, 33),
    ("q = f32[4] slice(p), slice={0:4}", 12, 31),
    ("q = f32[4] slice(p), slice={[0:4],}", 12, 37),
    ("q = f32[] reduce(p, c), dimensions={0}, to_apply=", 13, 3),
    ("q = f32[] get-tuple-element(p), index=x", 12, 41),
    ("q = f32[1,8,8,2] convolution(p, p), window={size=3x}, dim_labels=b01f_01io->b01f", 12, 53),
    (
        "q = f32[1,8,8,2] convolution(p, p), window={size=3x3, pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f",
        12,
        55,
    ),
    ("q = f32[1,8,8,2] convolution(p, p), window=size=3x3, dim_labels=b01f_01io->b01f", 12, 46),
    ("q = f32[1,8,8,2] convolution(p, p), window={size=3x3}, dim_labels=b0f_0io-b0f", 12, 69),
    ("q = f32[1,8,8,2] convolution(p, p), window={size=3x3}, dim_labels=b01f", 12, 69),
    ("q = f32[8] sort(p), dimensions={0}, is_stable=yes, to_apply=f", 12, 49),
    (
        "q = (f32[8], f32[8], f32[8]) batch-norm-training(p, p, p), epsilon=x, feature_index=0",
        12,
        70,
    ),
    ("q = f32[8] add(p, \0p)", 12, 21),
    ("ROOT", 13, 3),
    ("step 100: loss 3.5", 12, 8),
]


@pytest.mark.parametrize(("instruction", "line", "column"), REFUSED)
def test_gap_is_where_xla_stops(instruction: str, line: int, column: int) -> None:
    text = _around(instruction)
    gap = _first(text)
    assert abs(_place(text, gap.line, gap.column) - _place(text, line, column)) <= 1
    assert gap.line == 12


FARTHER = {
    "q = f32[8] add(p, p), backend_config=x": (12, 25, "XLA names the attribute"),
    "q = f32[8] add(p, p), backend_config=3": (12, 25, "XLA names the attribute"),
    "q = f32[8] add(p, p), frontend_attributes={a=1}": (12, 25, "XLA names the attribute"),
    "q = f32[4] slice(p), slice={[0:4}": (12, 35, "a range is one word of the grammar"),
    "q = f32[4] slice(p), slice={[0,4]}": (12, 33, "a range is one word of the grammar"),
}
"""Text, XLA's place, and why ours is another: more than a word away, but in the same attribute."""


@pytest.mark.parametrize("instruction", FARTHER)
def test_gap_is_on_the_line_where_xla_stops(instruction: str) -> None:
    assert _first(_around(instruction)).line == FARTHER[instruction][0] == 12


@needs_known_version
@pytest.mark.parametrize(
    ("instruction", "line", "column"),
    [*REFUSED, *((text, *place[:2]) for text, place in FARTHER.items())],
)
def test_xla_still_stops_there(instruction: str, line: int, column: int) -> None:
    refusal = xla.read(_around(instruction))
    assert isinstance(refusal, xla.XlaRefusal)
    assert (refusal.line, refusal.column) == (line, column)
