"""Lines of operands and users, next to those that the search for origins returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.load import load
from hlo_lens.program.loop_lines import LoopLines
from hlo_lens.program.neighbour_places import NeighbourPlaces
from hlo_lens.program.origins import Origins
from hlo_lens.program.value_flow import Value
from tests.corpus import SAMPLES
from tests.questions.texts import table_of

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule

DUMPS = (
    "gpu/fsdp_transformer",
    "tpu/fsdp_transformer",
    "tpu/shard_map_collectives",
    "cpu/wasteful",
)

CHAIN = """HloModule m

ENTRY main {
  c = f32[] constant(1)
  b = f32[64]{0} broadcast(c), dimensions={}
  x = f32[64]{0} parameter(0)
  a = f32[64]{0} add(b, x), metadata={op_name="add" source_file="/home/me/a.py" source_line=3}
  r = f32[8,8]{1,0} reshape(a)
  ROOT t = (f32[8,8]{1,0}, f32[64]{0}) tuple(r, x)
}
"""


def neighbours(module: HloModule) -> tuple[Origins, NeighbourPlaces]:
    origins = Origins(module)
    loops = LoopLines(origins.steps, origins.places)
    return origins, NeighbourPlaces(origins.steps, origins.places, loops)


@pytest.mark.parametrize("path", DUMPS)
def test_lines_are_those_that_the_search_returns(path: str) -> None:
    found = 0
    for dump in load(SAMPLES / path).modules:
        for module in filter(None, (dump.hlo, dump.before)):
            origins, near = neighbours(module)
            for row in range(len(module.columns)):
                place = near.place(Value(row)) if origins.places.innermost(row) is None else None
                if place is not None:
                    found += 1
                    assert origins.of_value(Value(row)).place == place, module.instruction(row)
    assert found


def test_chains_of_single_users_and_operands_have_the_line_at_their_end() -> None:
    module = table_of(CHAIN).module
    _, near = neighbours(module)
    places = {one.name: near.place(Value(one.row)) for one in module.entry.instructions}
    assert {name for name, place in places.items() if place is not None} == {"c", "b", "r"}
    assert {str(place) for place in places.values() if place is not None} == {"/home/me/a.py:3"}
