"""Opcode histogram."""

from __future__ import annotations

from hlo_lens.program.opcodes import opcodes
from tests.questions.texts import entry_module


def test_opcodes_are_as_written_and_the_most_frequent_first() -> None:
    module = entry_module(
        """
  x = f32[4]{0} parameter(0)
  s = ((f32[4]{0}), f32[2]{0}, u32[]) slice-start(x), slice={[0:2]}
  d = f32[2]{0} slice-done(s)
  n = f32[2]{0} negate(d)
  ROOT m = f32[2]{0} negate(n)"""
    )
    assert opcodes(module).counts == (
        ("negate", 2, 16, 0),
        ("parameter", 1, 16, 0),
        ("slice-done", 1, 8, 0),
        ("slice-start", 1, 28, 0),
    )


def test_unknown_sizes_are_counted_beside_the_sum() -> None:
    module = entry_module("  x = f32[?] parameter(0)\n  ROOT y = f32[3] parameter(1)")
    assert opcodes(module).counts == (("parameter", 2, 12, 1),)
    assert opcodes(module).totals() == {"instructions": 2, "result_bytes": 12, "unknown_sizes": 1}


def test_opcode_of_a_future_xla_is_kept_and_named() -> None:
    module = entry_module("  x = f32[3] parameter(0)\n  ROOT y = f32[3] warp-drive(x)")
    assert opcodes(module).unknown_opcodes == ("warp-drive",)
