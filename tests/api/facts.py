"""Snapshots made by hand, for tests of comparisons."""

from __future__ import annotations

import dataclasses

from hlo_lens.model.snapshot.facts import (
    AliveGroup,
    CollectiveFact,
    EntryFact,
    ModuleSnapshot,
    SpacePeak,
)

GROUP = AliveGroup(
    category="temp",
    op_name="jit(f)/dot_general",
    source="moe.py:212",
    opcode="fusion",
    shape="bf16[64,32768]",
    values=1,
    size_bytes=4 << 20,
)

COLLECTIVE = CollectiveFact(
    kind="all-reduce",
    axis="data",
    axes=("data",),
    are_axes_named=True,
    groups="aa",
    group_size=4,
    num_groups=2,
    payload_bytes=1024,
    wire_bytes_per_device=1536,
    element_type="bf16",
    dynamic_count=1,
    is_at_most=False,
    loops=(),
    is_async=False,
    is_exposed=True,
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

REPORT: dict[str, object] = {
    "backend": "cpu",
    "is_scheduled": True,
    "num_partitions": 8,
    "evident_partitions": 8,
    "replica_count": 1,
    "instructions": 10,
    "coverage": {"gaps": 0, "is_truncated": False},
}


def group(**changes: object) -> AliveGroup:
    return dataclasses.replace(GROUP, **changes)  # type: ignore[arg-type] # fields by name


def collective(**changes: object) -> CollectiveFact:
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


def module(name: str = "jit_f", **changes: object) -> ModuleSnapshot:
    known: dict[str, object] = {
        "name": name,
        "target": None,
        "toolchain": None,
        "signature": "s",
        "fingerprint": None,
        "report": REPORT,
        "peaks": (),
        "collectives": (),
        "entries": (),
        "annotations": (),
    }
    return ModuleSnapshot(**{**known, **changes})  # type: ignore[arg-type] # fields by name
