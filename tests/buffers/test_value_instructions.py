"""Instructions that used values print have opcode, source and parameter number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hlo_lens
from tests import corpus

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
BufferAssignment:
allocation 0: 0x1, size 32, parameter 0, shape |f32[8]| at ShapeIndex {}:
 value: <1 p @0> (size=32,offset=0): f32[8]{0}
allocation 1: 0x2, size 32, output shape is |f32[8]|, maybe-live-out:
 value: <2 sum @0> (size=32,offset=0): f32[8]{0}
allocation 2: 0x3, size 4, thread-local:
 value: <0 inner @0> (size=4,offset=0): f32[]

Total bytes used: 68 (68B)

Used values:
<0 inner @0>
 positions:
  inner
 uses:
 from instruction:%inner = f32[] parameter(0)
<1 p @0>
 positions:
  p
 uses:
  sum, operand 0
 from instruction:%p = f32[8]{0} parameter(0)
<2 sum @0>
 positions:
  sum
 uses:
 from instruction:%sum = f32[8]{0} add(f32[8]{0} %p, f32[8]{0} %p), \
metadata={op_name="jit(f)/add" source_file="a.py" source_line=7}


HloLiveRange (max 2):
  InstructionSequence:
    0:p
    1:sum
  BufferLiveRange:
    p{}:0-2
    sum{}:1-2
  Live ranges at 1 (peak):
    p{}: 32 bytes
    sum{}: 32 bytes
"""


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "module_0000.m.buffer-assignment.txt"
    path.write_text(TEXT, "utf-8")
    return path


def test_values_have_opcode_and_source_of_their_instructions(dump: Path) -> None:
    (module,) = hlo_lens.load(dump).modules
    assert module.hlo is None
    assert module.instructions is not None
    assert [one.name for one in module.instructions.entry.instructions] == ["p", "sum"]
    peak = hlo_lens.memory(dump).peak
    assert peak is not None
    rows = {str(row["value"]): (row["opcode"], row["source"]) for row in peak.objects()}
    assert rows == {"p{}": ("parameter", None), "sum{}": ("add", "a.py:7")}


def test_values_without_printed_instructions_have_none(tmp_path: Path) -> None:
    path = tmp_path / "module_0000.m.buffer-assignment.txt"
    path.write_text(TEXT[: TEXT.index("\nUsed values")], "utf-8")
    (module,) = hlo_lens.load(path).modules
    assert module.instructions is None


@corpus.needs_corpus
def test_seed_without_hlo_text_has_opcodes_at_the_peak() -> None:
    (path,) = (corpus.SHARED / "seeds").glob("004_*")
    peak = hlo_lens.memory(path).peak
    assert peak is not None
    assert all(row["opcode"] for row in peak.objects())
