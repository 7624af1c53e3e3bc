"""Strategies of modules: meaningful programs, and forms of other versions of XLA."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.strategies.bodies import Body, Builder
from tests.strategies.parts import arrays
from tests.strategies.programs import NAMING, Array, Computation, Instruction, Module, numbered
from tests.strategies.ways import WAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """Return a module whose programs mean something, with all that XLA prints around them."""
    frames = draw(st.sampled_from([0, 0, 3]))
    builder = Builder(draw, WAYS, frames)
    shapes = draw(st.lists(arrays(), min_size=1, max_size=3))
    body = Body(builder, shapes, 0)
    body.grow(draw(st.integers(2, 12)))
    name = builder.name(draw(st.sampled_from(["main", "main_spmd", "entry"])))
    *most, last = body.instructions
    if draw(st.booleans()):  # parameters at any place
        most = [*most[1:], most[0]] if most and not _is_used(most[0], most[1:]) else most
    entry = Computation(name, (*most, replace(last, is_root=True)), is_entry=True)
    computations = (*builder.computations, entry)
    return Module(
        name=draw(st.sampled_from(["jit_f", "m", "train__step.7"])),
        computations=computations,
        header=tuple(_header(draw, entry)),
        tables=TABLES if frames else "",
    )


def _is_used(value: Instruction, others: Sequence[Instruction]) -> bool:
    return any(
        value.name in other.operands or f"%{value.name}" in dict(other.attributes).get(key, "")
        for other in others
        for key in NAMING
    )


def _header(draw: st.DrawFn, entry: Computation) -> Iterator[tuple[str, str]]:
    if draw(st.booleans()):
        yield "is_scheduled", "true"
    if draw(st.booleans()):
        yield "buffer_donor", "{ (0, {}) }"
    if draw(st.booleans()):
        given = ", ".join(numbered([p.shape.text() for p in entry.parameters]))
        yield "entry_computation_layout", f"{{({given})->{entry.result.text()}}}"
    if draw(st.booleans()):
        yield "allow_spmd_sharding_propagation_to_output", "{true}"
    if draw(st.booleans()):
        yield "num_partitions", "8"
    if draw(st.booleans()):
        yield "frontend_attributes", '{xla.sdy.meshes={mesh = #sdy.mesh<["x"=2]>},k="a\\"b"}'


TABLES = """FileNames
1 "/home/me/f.py"
2 "\\303\\251.py"

FunctionNames
1 "main"
2 "layer.<locals>.step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=4 end_column=20}
2 {file_name_id=2 function_name_id=2 line=9 end_line=11 column=11 end_column=40}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=2 parent_frame_id=1}
"""


@st.composite
def novelties(draw: st.DrawFn) -> Module:
    """Return a module with parts unknown to jaxlib's parser, which must be kept."""
    module = draw(modules())
    entry = module.computations[-1]
    shape = draw(arrays())
    pair = Array(parts=(shape, Array(parts=(shape, Array("s32")))))
    wide = Instruction("novel.pair", pair, "custom-call", attributes=(("made_up", '{[1](2) "x"}'),))
    compact = Instruction(
        "novel.sum", shape, "opcode-of-next-year", ("novel.pair#0", "novel.pair#1#0")
    )
    typed = Instruction(
        "novel.type", Array("f9e9m9", (2,), "0:T(8)Z(3)"), "bitcast", ("novel.sum",)
    )
    sugar = Instruction(
        "novel.start",
        Array(parts=(Array(parts=(shape,)), shape, Array("u32"))),
        "reduce-scatter-start",
        ("novel.sum",),
        attributes=(
            ("frontend_attributes", '{a="1"}'),
            ("replica_groups", "[1,8]<=[8]"),
            ("frontend_attributes", '{a="2"}'),
            ("operation", "Some.Word-1"),
        ),
    )
    chosen = draw(st.lists(st.sampled_from([typed, sugar]), unique=True))
    added = (*entry.instructions, wide, compact, *chosen)
    header = (*module.header, ("of_next_year", "{a={b=[1]}}"))
    computations = (*module.computations[:-1], replace(entry, instructions=added))
    return replace(module, computations=computations, header=header)
