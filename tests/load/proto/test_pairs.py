"""The text that we print of a proto is the one that XLA printed of the same compile."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.load.proto import read_proto
from tests.protos import PAIRS, text_beside, unpacked

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.hlo.instruction import HloInstruction

pytest.importorskip("google.protobuf", reason="protobuf is not installed")

NOT_IN_PROTOS = {
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
}


def facts(instruction: HloInstruction) -> tuple[object, ...]:
    """Return the content of an instruction; the order of keys in a backend config is ignored."""
    attributes = [
        (name, json.loads(value) if name == "backend_config" and value[0] == "{" else value)
        for name, value in instruction.attribute_list
    ]
    operands = re.sub(r"/\*.*?\*/", "", instruction.operand_text)
    return (
        *(instruction.name, instruction.opcode, instruction.shape_text, operands),
        *(instruction.is_root, attributes),
    )


def test_there_is_a_pair_of_each_backend() -> None:
    assert {path.parts[-3] for path in PAIRS} >= {"cpu", "gpu", "tpu"}


@pytest.mark.parametrize("proto", PAIRS, ids=lambda p: p.parts[-3])
def test_every_instruction_is_printed_as_by_xla(proto: Path) -> None:
    ours = hlo_lens.parse_hlo(read_proto(unpacked(proto)).hlo)
    theirs = hlo_lens.parse_hlo(text_beside(proto).read_bytes())
    assert ours.gaps == ()
    assert [c.name for c in ours.computations] == [c.name for c in theirs.computations]
    for one, other in zip(ours.computations, theirs.computations, strict=True):
        assert [facts(i) for i in one.instructions] == [facts(i) for i in other.instructions]
        assert (one.is_entry, one.signature_text) == (other.is_entry, other.signature_text)
    assert ours.stack_frames == theirs.stack_frames
    header = {k: v for k, v in theirs.header.items() if k not in NOT_IN_PROTOS}
    assert dict(ours.header) == header


@pytest.mark.parametrize("proto", PAIRS, ids=lambda p: p.parts[-3])
def test_every_allocation_and_value_is_printed_as_by_xla(proto: Path) -> None:
    text = read_proto(unpacked(proto)).assignment
    assert text is not None
    beside = text_beside(proto)
    theirs = beside.with_name(f"{beside.stem}-buffer-assignment.txt").read_text("utf-8")
    known = re.sub(r", page -?\d+| \(phi\)", "", theirs)  # which protos do not have
    assert text.strip().splitlines() == known.strip().splitlines()
