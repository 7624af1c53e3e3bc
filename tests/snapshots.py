"""Snapshots built by hand, for tests of comparisons."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

from hlo_lens.program.summary import Coverage
from hlo_lens.questions.collectives.collective import Collective, CollectiveTotals
from hlo_lens.questions.memory.statement import HostBytes, MemoryStatement, PeakFacts, SpaceFacts
from hlo_lens.questions.snapshots.figures import (
    AliveGroup,
    EntryFact,
    ModuleFacts,
    ShardingFacts,
    SpacePeak,
)
from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot

if TYPE_CHECKING:
    from hlo_lens.questions.diff.memory import PeakRow

GROUP = AliveGroup(
    category="temp",
    op_name="jit(f)/dot_general",
    source="moe.py:212",
    opcode="fusion",
    shape="bf16[64,32768]",
    values=1,
    size_bytes=4 << 20,
)

COLLECTIVE = Collective(
    kind="all-reduce",
    axes=("data",),
    axis_parts=("data",),
    are_axes_named=True,
    devices="aa",
    group_size=4,
    num_groups=2,
    payload_bytes=1024,
    wire_bytes_per_device=1536,
    element_type="bf16",
    dynamic_count=1,
    is_at_most=False,
    loops=(),
    is_async=False,
    overlap_instructions=0,
    op_name="jit(f)/psum",
    source_file="moe.py",
    source_line=7,
)

ENTRY = EntryFact(
    kind="parameter",
    number=0,
    index="",
    name="params['w']",
    global_shape="f32[8,16]",
    device_shape="f32[4,16]",
    device_bytes=256,
    padded_device_bytes=256,
    spec=None,
    sharding="{devices=[2,1]<=[2]}",
    replication_factor=1,
    donation=None,
    aliased_with=None,
)

FACTS = ModuleFacts(
    backend="cpu",
    is_scheduled=True,
    num_partitions=8,
    evident_partitions=8,
    replica_count=1,
    instructions=10,
    coverage=Coverage(instructions=10),
)

MEMORY = MemoryStatement(
    source="buffer-assignment",
    argument_bytes=40,
    output_bytes=60,
    alias_bytes=0,
    temp_bytes=100,
    constant_bytes=0,
    thread_local_bytes=0,
    total_bytes=200,
    host_bytes=HostBytes(),
    spaces=(SpaceFacts(color=0, name="HBM", temp_bytes=100, total_bytes=200),),
    peak=PeakFacts(bytes=150),
)


def group(**changes: object) -> AliveGroup:
    return dataclasses.replace(GROUP, **changes)  # type: ignore[arg-type] # fields by name


def collective(**changes: object) -> Collective:
    return dataclasses.replace(COLLECTIVE, **changes)  # type: ignore[arg-type] # fields by name


def entry(**changes: object) -> EntryFact:
    return dataclasses.replace(ENTRY, **changes)  # type: ignore[arg-type] # fields by name


def peak(*groups: AliveGroup) -> SpacePeak:
    return SpacePeak(
        color=0,
        name="HBM",
        is_peak=True,
        bytes=sum(g.size_bytes for g in groups),
        op_name="jit(f)/while/body/add",
        source="moe.py:3",
        opcode="add",
        groups=groups,
    )


def module(
    name: str = "jit_f",
    *,
    facts: ModuleFacts = FACTS,
    collectives: tuple[Collective, ...] | None = (),
    entries: tuple[EntryFact, ...] | None = (),
    **changes: object,
) -> ModuleSnapshot:
    known = None
    if collectives is not None:
        counts = Counter(one.kind for one in collectives)
        known = CollectiveTotals(
            static=counts, dynamic=counts, wire_bytes_per_device=0, rows=collectives
        )
    sharding = None if entries is None else ShardingFacts(rows=entries)
    if facts.collectives is None:
        facts = dataclasses.replace(facts, collectives=known, sharding=sharding)
    values: dict[str, object] = {
        "target": None,
        "toolchain": None,
        "signature": "s",
        "fingerprint": None,
        "peaks": (),
        "annotations": (),
    }
    return ModuleSnapshot(name=name, facts=facts, **{**values, **changes})  # type: ignore[arg-type] # fields by name


def peak_sides(row: PeakRow) -> tuple[tuple[object, ...], ...]:
    """Return bytes, number, shape and source of the values of a row in the base and in the head."""
    names = ("bytes", "values", "shape", "source")
    return tuple(
        tuple(getattr(row, f"{side}_{name}") for name in names) for side in ("base", "head")
    )
