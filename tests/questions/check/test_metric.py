"""Paths into the facts of a module, and the values that they lead to."""

from __future__ import annotations

import dataclasses

import pytest

from hlo_lens.questions.check.metric import Metric
from hlo_lens.questions.collectives.collective import CollectiveTotals, LoopTrips, MeshSizes
from hlo_lens.questions.memory.statement import SpaceFacts
from hlo_lens.questions.snapshots.figures import ModuleFacts
from hlo_lens.text.errors import UsageError
from tests.snapshots import COLLECTIVE, ENTRY, MEMORY, module

ROW = dataclasses.replace(
    COLLECTIVE,
    kind="all-gather",
    axes=("data",),
    dynamic_count=4,
    payload_bytes=10,
    wire_bytes_per_device=5,
)
OTHER = dataclasses.replace(ROW, kind="all-reduce", axes=("data", "model"), dynamic_count=None)
MESH = MeshSizes(axes={"data": 2, "model": 4}, source="text")
FACTS = ModuleFacts(
    instructions=7,
    is_scheduled=True,
    backend="tpu",
    opcodes={"fusion": 3, "add": 4},
    memory=dataclasses.replace(
        MEMORY,
        spaces=(
            SpaceFacts(color=0, name="HBM", total_bytes=60, padding_bytes=3),
            SpaceFacts(color=1, name="VMEM", total_bytes=7),
        ),
    ),
    collectives=CollectiveTotals(
        static={"all-gather": 1, "all-reduce": 1},
        dynamic={"all-gather": 4, "all-reduce": None},
        wire_bytes_per_device=None,
        mesh=MESH,
        rows=(ROW, OTHER),
        loops=(
            LoopTrips(op_name="jit(f)/while", trip_count=4, trip_source="printed"),
            LoopTrips(op_name="jit(f)/while", trip_count=7, trip_source="derived"),
        ),
    ),
    sharding=module(entries=(ENTRY,)).facts.sharding,
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("instructions", 7),
        ("is_scheduled", 1),
        ("memory.temp_bytes", 100),
        ("$.modules[*].memory.temp_bytes", 100),
        ("memory.temp", 100),
        ("memory.peak.bytes", 150),
        ("memory.spaces[HBM].total_bytes", 60),
        ("memory.spaces[1].total_bytes", 7),
        ("memory.padding_bytes", 3),
        ("memory.spaces[*].total_bytes", 67),
        ("memory.spaces[name=VMEM].total_bytes", 7),
        ("opcodes.*", 7),
        ("collectives.dynamic.all-gather", 4),
        ("collectives.static.*", 2),
        ("collectives.rows", 2),
        ("collectives.rows[kind=all-gather]", 1),
        ("collectives.rows[kind=all-gather,axes=data].dynamic_count", 4),
        ("collectives.rows[kind=send]", 0),
        ("collectives.all-gather.count", 1),
        ("collectives.all-gather.dynamic", 4),
        ("collectives.all-gather.wire_bytes", 20),
        ("collectives.all-to-all.wire_bytes", 0),
        ("collectives.rows[axes=model+data]", 1),
        ("sharding.rows[kind=parameter,replication_factor=1].device_bytes", 256),
        ("collectives.rows[is_exposed=true]", 2),
        ("collectives.loops[trip_count=4]", 1),
        ("parameter_rows[*].size_bytes", 256),
        ("parameter_rows[is_donated=false].size_bytes", 256),
        ("parameter_rows[is_donated=true].size_bytes", 0),
        ("output_rows", 0),
    ],
)
def test_a_path_leads_to_a_number(path: str, value: int) -> None:
    assert Metric.parse(path).value(FACTS).number == value


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("flops", "flops is not known"),
        ("memory.tmp_bytes", "no figure is called memory.tmp_bytes; known here: temp_bytes"),
        (
            "memory.spaces[SMEM].total_bytes",
            "no row of memory.spaces is called 'SMEM'; there is HBM",
        ),
        ("memory.peak.bytes.x", "memory.peak.bytes has no parts"),
        ("backend", "backend is no number"),
        ("largest_instructions.rows", "no figure is called largest_instructions"),
        ("coverage.gaps", "coverage is not known"),
        ("collectives.wire_bytes_per_device", "is not known"),
        ("collectives.dynamic.all-reduce", "is not known"),
        ("collectives.dynamic.*", "is not known"),
        ("collectives.all-reduce.wire_bytes", "dynamic_count"),
        ("collectives.rows[kind=all_gather]", "no kind is called 'all_gather'"),
        ("collectives.rows[kindd=all-gather]", "rows of collectives.rows have no 'kindd'"),
        ("collectives.all-reduce.bus", "is not one of count"),
        ("collectives.rows[kind=all-gather,axes=dta]", "no mesh axis is called 'dta'"),
        ("memory.spaces[name=HMB].total_bytes", "no row of memory.spaces has name=HMB"),
    ],
)
def test_unknown_figures_and_wrong_paths_have_no_value(path: str, reason: str) -> None:
    found = Metric.parse(path).value(FACTS)
    assert found.number is None
    if reason != "dynamic_count":
        assert reason in found.reason


def test_without_collectives_an_axis_is_looked_up_in_a_known_mesh() -> None:
    none = CollectiveTotals(static={}, dynamic={}, wire_bytes_per_device=0, mesh=MESH)
    for facts in (none, dataclasses.replace(none, mesh=None)):
        metric = Metric.parse("collectives.rows[kind=all-gather,axes=dta]")
        found = metric.value(ModuleFacts(collectives=facts)).number
        assert found == (0 if facts.mesh is None else None)


@pytest.mark.parametrize("name", ["HBM", "memory", "device"])
def test_default_names_the_default_space_of_each_backend(name: str) -> None:
    spaces = (SpaceFacts(color=0, name=name, total_bytes=60), SpaceFacts(color=1, name="x"))
    facts = ModuleFacts(memory=dataclasses.replace(MEMORY, spaces=spaces))
    assert Metric.parse("memory.spaces[default].total_bytes").value(facts).number == 60


def test_hbm_is_the_default_space_if_none_has_that_name() -> None:
    path = "memory.spaces[HBM].total_bytes"
    host = SpaceFacts(color=1, name="host", total_bytes=7)
    spaces = (SpaceFacts(color=0, name="memory", total_bytes=60), host)
    memory = dataclasses.replace(MEMORY, spaces=spaces)
    assert Metric.parse(path).value(ModuleFacts(memory=memory)).number == 60
    memory = dataclasses.replace(MEMORY, spaces=(host,))
    assert Metric.parse(path).value(ModuleFacts(memory=memory)).number is None


def test_unknown_axes_have_no_value() -> None:
    known = FACTS.collectives
    assert known is not None
    found = dataclasses.replace(known, rows=(dataclasses.replace(ROW, axes=None),), mesh=None)
    metric = Metric.parse("collectives.rows[kind=all-gather,axes=data]")
    assert metric.value(ModuleFacts(collectives=found)).number is None


@pytest.mark.parametrize("text", ["", ".", "a..b", "a.", "a[", "a]b", "[0]"])
def test_texts_that_are_no_paths_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Metric.parse(text)
