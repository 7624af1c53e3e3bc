"""M003: values that a free mesh axis could divide."""

from __future__ import annotations

from hlo_lens.analysis.findings.finding import Remedy
from tests.analysis.findings.programs import findings_of
from tests.analysis.sharding.programs import AFTER, BEFORE

WIDE = "64,64"


def _larger(text: str) -> str:
    """Return a text of arrays with 64 rows, so that savings are worth mentioning."""
    return text.replace("f32[8,", "f32[64,").replace("f32[6,", "f32[48,")


def test_a_value_is_divided_over_the_axis_that_saves_most() -> None:
    found = findings_of(_larger(AFTER), "M003", _larger(BEFORE))
    by_value = {one.values: one for one in found}
    one = by_value[("x",)]
    assert one.message == "x (12.0KiB) is replicated over model (4 copies)"
    assert one.fix == "PartitionSpec P(None, 'model') divides dimension 1 over model"
    assert one.remedies == (Remedy(kind="shard", target="x=P(None, 'model')"),)
    assert one.saves.own_bytes == 48 * 64 * 4 * 3 // 4
    assert one.saves.bytes is not None
    assert one.saves.bytes > one.saves.own_bytes  # what is computed from it may be divided too
    assert by_value[("w",)].fix == "PartitionSpec P('data', 'model') divides dimension 0 over data"


def test_values_divided_over_all_axes_have_no_finding() -> None:
    divided = "sharding={devices=[2,4]<=[8]}"
    before = _larger(BEFORE).replace("sharding={replicated}", divided)
    before = before.replace("{{replicated}, {replicated}}", f"{{{divided[9:]}, {divided[9:]}}}")
    before = before.replace("[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate", "[2,4]<=[8]")
    before = before.replace('[{}, {\\"model\\"}]', '[{\\"data\\"}, {\\"model\\"}]')
    after = _larger(AFTER).replace("f32[64,16]", "f32[32,16]").replace("f32[48,64]", "f32[24,16]")
    assert findings_of(after, "M003", before) == ()
