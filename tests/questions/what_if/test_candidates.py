"""Changes that could lower the memory of a program."""

from __future__ import annotations

from hlo_lens import parse_hlo
from hlo_lens.questions.plans.plans import Candidate, candidates
from hlo_lens.questions.what_if.arguments import EntryArrays

TWO_ARGUMENTS = """\
HloModule jit_f, entry_computation_layout={(f32[64]{0}, f32[64]{0}, s32[])->(f32[64]{0}, f32[64]{0})}

ENTRY main {
  mu = f32[64]{0} parameter(0), metadata={op_name="state.opt[0].mu"}
  w = f32[64]{0} parameter(1), metadata={op_name="state.w"}
  n = s32[] parameter(2), metadata={op_name="step"}
  a = f32[64]{0} add(mu, w)
  b = f32[64]{0} multiply(mu, w)
  ROOT r = (f32[64]{0}, f32[64]{0}) tuple(a, b)
}
"""  # noqa: E501
SHARDED = """\
HloModule jit_f, entry_computation_layout={(f32[64,8]{1,0}, f32[64,8]{1,0}, f32[8]{0})->(f32[64,8]{1,0}, f32[64,8]{1,0})}, num_partitions=8, frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[\\"data\\"=2, \\"model\\"=4]>}"}

ENTRY main {
  mu = f32[64,8]{1,0} parameter(0), sharding={replicated}, metadata={op_name="opt.mu"}
  w = f32[64,8]{1,0} parameter(1), sharding={replicated}, metadata={op_name="w"}
  x = f32[8]{0} parameter(2), sharding={devices=[2,4]<=[8] last_tile_dim_replicate}, metadata={op_name="x"}
  a = f32[64,8]{1,0} add(mu, w)
  b = f32[64,8]{1,0} multiply(mu, w)
  ROOT r = (f32[64,8]{1,0}, f32[64,8]{1,0}) tuple(a, b), sharding={{replicated}, {replicated}}
}
"""  # noqa: E501


def found(text: str) -> tuple[Candidate, ...]:
    return candidates(EntryArrays(parse_hlo(text)).table)


def test_donations_are_grouped_by_argument_of_the_function() -> None:
    (donation,) = found(TWO_ARGUMENTS)
    assert (donation.kind, donation.requests) == ("donate", ("state",))
    assert donation.values == ("state.opt[0].mu", "state.w")
    assert donation.saves_bytes == 2 * 64 * 4


def test_values_of_one_shape_are_divided_together_with_their_results() -> None:
    shards = [one for one in found(SHARDED) if one.kind == "shard"]
    over_data = next(one for one in shards if one.change.endswith("over data in dimension 0"))
    assert over_data.values == ("opt.mu", "result{0}", "w", "result{1}")
    assert over_data.requests[:2] == ("opt.mu=P('data')", "result{0}=P('data')")
    assert over_data.saves_bytes == 4 * 64 * 8 * 4 // 2
    assert any("over model in dimension 0" in one.change for one in shards)


def test_changes_of_one_value_conflict() -> None:
    shards = [one for one in found(SHARDED) if one.kind == "shard"]
    (donation,) = [one for one in found(SHARDED) if one.kind == "donate"][:1]
    assert shards[0].conflicts_with(shards[1])
    assert not shards[0].conflicts_with(donation)
