"""Results that may be written over an operand."""

from __future__ import annotations

from hlo_lens.buffers.estimate.buffer_sharing import BufferSharing
from hlo_lens.buffers.estimate.values import NODES
from tests.buffers.estimate.flows import flow_of, name_of
from tests.questions.texts import entry_of


def test_elementwise_results_may_share_an_operand_of_their_shape() -> None:
    flow = flow_of(
        entry_of("""  p = f32[8]{0} parameter(0)
  a = f32[8]{0} negate(p)
  b = f32[8]{0} add(a, p)
  c = bf16[8]{0} convert(b)
  ROOT d = bf16[8]{0} reverse(c), dimensions={0}""")
    )
    sharing = BufferSharing(flow, "cpu")
    places = {name_of(flow, value): flow.values.last_places[value] for value in range(5)}
    rows = {name: place // NODES for name, place in places.items()}
    assert sharing.may_share(places["a{}"], rows["b{}"], 0)
    assert not sharing.may_share(places["b{}"], rows["c{}"], 0)
    assert not sharing.may_share(places["c{}"], rows["d{}"], 0)
