"""Protos of all kinds of instructions are printed as XLA prints them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.load.proto import read_proto
from tests import corpus
from tests.oracle import xla

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens import HloInstruction

pytest.importorskip("google.protobuf", reason="protobuf is not installed")

KINDS = r"""HloModule ops, num_partitions=8

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

%less (x: f32[], y: f32[]) -> pred[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %l = pred[] compare(%x, %y), direction=LT, type=TOTALORDER
}

ENTRY %main (p0: f32[8,16,32,4], p1: s32[2], p2: c64[4], p3: u8[16]) -> f32[8,16,32,4] {
  %p0 = f32[8,16,32,4]{3,2,1,0} parameter(0), parameter_replication={true}
  %p1 = s32[2]{0} parameter(1)
  %p2 = c64[4]{0} parameter(2)
  %p3 = u8[16]{0} parameter(3)
  %zero = f32[] constant(0)
  %k = f32[3,3,4,16]{3,2,1,0} broadcast(%zero), dimensions={}
  %conv = f32[8,8,32,16]{3,2,1,0} convolution(%p0, %k),
    window={size=3x3 stride=2x1 pad=0_1x1_1 rhs_dilate=1x1}, dim_labels=b01f_01io->b01f,
    operand_precision={highest,default}
  %rw = f32[8,8,16,4]{3,2,1,0} reduce-window(%p0, %zero), window={size=1x2x2x1 stride=1x2x2x1},
    to_apply=%sum
  %pad = f32[8,17,34,4]{3,2,1,0} pad(%p0, %zero), padding=0_0x0_1x1_1x0_0
  %pad2 = f32[8,31,32,4]{3,2,1,0} pad(%p0, %zero), padding=0_0_0x0_0_1x0_0_0x0_0_0
  %sl = f32[4,16,32,4]{3,2,1,0} slice(%p0), slice={[0:4], [0:16], [0:32], [0:4]}
  %sl2 = f32[4,8,32,4]{3,2,1,0} slice(%p0), slice={[0:4:1], [0:16:2], [0:32:1], [0:4:1]}
  %red = f32[8,4]{1,0} reduce(%p0, %zero), dimensions={1,2}, to_apply=%sum
  %srt = f32[8,4]{1,0} sort(%red), dimensions={1}, is_stable=true, to_apply=%less
  %fft = c64[4]{0} fft(%p2), fft_type=FFT, fft_length={4}
  %rng = f32[4]{0} rng(%zero, %zero), distribution=rng_uniform
  %state = u64[2]{0} constant({1, 18446744073709551615})
  %bits = (u64[2]{0}, u32[5]{0}) rng-bit-generator(%state), algorithm=rng_three_fry
  %g = f32[2,16,32,4]{3,2,1,0} gather(%p0, %p1), offset_dims={1,2,3}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,16,32,4}, indices_are_sorted=true
  %upd = f32[2,16,32,4]{3,2,1,0} broadcast(%zero), dimensions={}
  %sc = f32[8,16,32,4]{3,2,1,0} scatter(%p0, %p1, %upd), update_window_dims={1,2,3},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
    unique_indices=true, to_apply=%sum
  %i0 = s32[] constant(-3)
  %ds = f32[1,16,32,4]{3,2,1,0} dynamic-slice(%p0, %i0, %i0, %i0, %i0),
    dynamic_slice_sizes={1,16,32,4}
  %iota = s32[4,2]{1,0} iota(), iota_dimension=1
  %rev = f32[8,4]{1,0} reverse(%red), dimensions={0}
  %cat = f32[16,4]{1,0} concatenate(%red, %rev), dimensions={0}
  %t = f32[4,8]{1,0} transpose(%red), dimensions={1,0}
  %dot = f32[8,8]{1,0} dot(%red, %t), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    algorithm=dot_bf16_bf16_f32_x6
  %chol = f32[8,8]{1,0} cholesky(%dot), lower=true
  %tri = f32[8,8]{1,0} triangular-solve(%chol, %dot), left_side=true, lower=true,
    unit_diagonal=true, transpose_a=TRANSPOSE
  %rp = f32[8,8]{1,0} reduce-precision(%tri), exponent_bits=5, mantissa_bits=10
  %cs4 = s4[5]{0} constant({-8, 7, 0, -1, 3})
  %cu2 = u2[3]{0} constant({1, 2, 3})
  %cp = pred[2,2]{1,0} constant({ { 1, 0 }, { 0, 1 } })
  %cpt = pred[] constant(true)
  %cbf = bf16[2]{0} constant({0.1001, 3})
  %cf16 = f16[2,1]{1,0} constant({ {0.5}, {-2.25} })
  %cc = c64[] constant((1.5, -2))
  %cinf = f32[3]{0} constant({inf, -inf, nan})
  %cd = f64[2]{0} constant({0.1, 1e+300})
  %cs8 = s8[2]{0} constant({-128, 127})
  %cempty = f32[0]{0} constant({})
  %cbig = s32[20]{0} iota(), iota_dimension=0
  %ag = f32[8,16,32,32]{3,2,1,0} all-gather(%p0), channel_id=1, replica_groups=[1,8]<=[8],
    dimensions={3}, use_global_device_ids=true
  %a2a = f32[8,16,32,4]{3,2,1,0} all-to-all(%p0), channel_id=2,
    replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}
  %cperm = f32[8,16,32,4]{3,2,1,0} collective-permute(%p0), channel_id=3,
    source_target_pairs={{0,1},{1,0}}
  %ar = f32[8,4]{1,0} all-reduce(%red), replica_groups={}, to_apply=%sum
  %cc2 = (f32[8,4]{1,0}, u8[128]{0}) custom-call(%red, %rev), custom_call_target="a\"b\\c",
    operand_layout_constraints={f32[8,4]{1,0}, f32[8,4]{1,0}},
    custom_call_has_side_effect=true, output_to_operand_aliasing={{0}: (0, {})},
    api_version=API_VERSION_TYPED_FFI, backend_config="opaque \001 data"
  %cc3 = f32[8,4]{1,0} custom-call(%red), custom_call_target="x", schedule=SCHEDULE_LATEST,
    frontend_attributes={a="q\"uote",b={c=1}},
    metadata={op_type="t" op_name="it's \"quoted\"" source_file="a\\b.py" source_line=3},
    backend_config={"k":{"v":"}"}}
  %bn = (f32[8,16,32,4]{3,2,1,0}, f32[4]{0}, f32[4]{0}) batch-norm-training(%p0, %rng, %rng),
    epsilon=0.001, feature_index=3
  %tok = token[] after-all()
  %snd = (f32[8,4]{1,0}, u32[], token[]) send(%red, %tok), channel_id=5, is_host_transfer=true
  %sdone = token[] send-done(%snd), channel_id=5, is_host_transfer=true
  %inf = ((f32[3]{0}), token[]) infeed(%tok), infeed_config="conf"
  %outf = token[] outfeed(%red, %tok), outfeed_shape=f32[8,4]{1,0}
  %tanh = f32[8,4]{1,0} tanh(%red), result_accuracy={tolerance={atol=0.1,rtol=0,ulps=3}}
  %dyn = f32[<=8,4]{1,0} set-dimension-size(%red, %i0), dimensions={0}
  %gds = s32[] get-dimension-size(%dyn), dimensions={0}
  %topk = (f32[8,2]{1,0}, s32[8,2]{1,0}) topk(%red), k=2, largest=true
  ROOT %out = f32[8,16,32,4]{3,2,1,0} add(%sc, %p0), control-predecessors={%tanh, %outf},
    sharding={devices=[2,1,1,1,4]<=[8] last_tile_dim_replicate}
}
"""

SUGARED = ("async-start", "async-update", "async-done")
"""Instructions that XLA's printer, but not its dumps, writes in place of their wrapper."""


def facts(instruction: HloInstruction) -> tuple[object, ...]:
    operands = re.sub(r"/\*.*?\*/", "", instruction.operand_text)
    attributes = [pair for pair in instruction.attribute_list if pair[0] != "origin"]
    return (instruction.opcode, instruction.shape_text, operands, attributes)


def differences(text: str) -> list[tuple[object, object]]:
    """Return what we print otherwise than XLA, of a text that XLA takes."""
    proto, printed = xla.proto_and_text(text)
    ours, theirs = hlo_lens.parse_hlo(read_proto(proto).hlo), hlo_lens.parse_hlo(printed)
    assert ours.gaps == ()
    found: list[tuple[object, object]] = []
    for other in theirs.computations:
        one = ours.computation(other.name)
        assert one is not None
        assert [i.name for i in one.instructions] == [i.name for i in other.instructions]
        pairs = zip(one.instructions, other.instructions, strict=True)
        found += [
            (facts(a), facts(b))
            for a, b in pairs
            if a.opcode not in SUGARED and facts(a) != facts(b)
        ]
    return found


def test_every_kind_of_instruction_and_literal() -> None:
    assert differences(KINDS) == []


def small_texts() -> list[Path]:
    """Return the small texts of XLA's own tests."""
    return [path for path in corpus.corpus_hlo() if "xla_tests" in path.parts]


@corpus.needs_corpus
def test_texts_of_xlas_tests() -> None:
    tried = 0
    for path in small_texts():
        text = corpus.read(path).decode("utf-8", "replace")
        if "metadata=" in text or "backend_config" in text:
            continue  # whose order of keys is not fixed
        if isinstance(xla.read(text), xla.XlaRefusal):
            continue
        tried += 1
        assert differences(text) == [], path
    assert tried > 30
