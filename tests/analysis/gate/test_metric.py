"""Paths into the report, and what they lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.analysis.gate.metric import Metric
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

ROW = {"kind": "all-gather", "axes": ["data"], "static_count": 1, "dynamic_count": 4}
ROW |= {"payload_bytes": 10, "wire_bytes_per_device": 5}
OTHER = {**ROW, "kind": "all-reduce", "axes": ["data", "model"], "dynamic_count": None}
REPORT: dict[str, object] = {
    "instructions": 7,
    "is_scheduled": True,
    "backend": "tpu",
    "opcodes": {"fusion": 3, "add": 4},
    "memory": {
        "temp_bytes": 100,
        "peak": {"bytes": 90},
        "output_bytes": None,
        "spaces": [
            {"color": 0, "name": "HBM", "total_bytes": 60},
            {"color": 1, "name": "VMEM", "total_bytes": 7},
        ],
    },
    "collectives": {
        "static": {"all-gather": 1, "all-reduce": 1},
        "dynamic": {"all-gather": 4, "all-reduce": None},
        "wire_bytes_per_device": None,
        "mesh": {"axes": {"data": 2, "model": 4}},
        "rows": [ROW, OTHER],
    },
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("instructions", 7),
        ("is_scheduled", 1),
        ("memory.temp_bytes", 100),
        ("$.modules[*].memory.temp_bytes", 100),
        ("memory.temp", 100),
        ("memory.peak.bytes", 90),
        ("memory.spaces[HBM].total_bytes", 60),
        ("memory.spaces[1].total_bytes", 7),
        ("memory.spaces[*].total_bytes", 67),
        ("memory.spaces[name=VMEM].total_bytes", 7),
        ("memory.hbm.total", 60),
        ("opcodes.*", 7),
        ('"opcodes".fusion', 3),
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
        ("modules[3].memory.temp_bytes", 100),
    ],
)
def test_a_path_leads_to_a_number(path: str, value: int) -> None:
    assert Metric.parse(path).value(REPORT).number == value


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("memory.output_bytes", "memory.output_bytes is not known"),
        ("memory.tmp_bytes", "memory.tmp_bytes is not in the report; there is temp_bytes"),
        (
            "memory.spaces[SMEM].total_bytes",
            "no row of memory.spaces is called 'SMEM'; there is HBM",
        ),
        ("memory.peak.bytes.x", "memory.peak.bytes has no parts"),
        ("backend", "backend is no number"),
        ("sharding.rows", "sharding is not in the report"),
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
def test_what_is_not_known_is_no_number(path: str, reason: str) -> None:
    found = Metric.parse(path).value(REPORT)
    assert found.number is None
    if reason != "dynamic_count":
        assert reason in found.reason


@pytest.mark.parametrize(
    ("path", "axis", "value"),
    [
        ("collectives.all-gather.count", "data", 1),
        ("collectives.static.all-gather", "data", 1),
        ("collectives.dynamic.all-gather", "model", 0),
        ("collectives.all-reduce.count", "data,model", 1),
        ("collectives.wire_bytes", "data", 20),
        ("collectives.all-reduce.count", "model,data", 1),
        ("collectives.rows[kind=all-reduce]", "data", 0),
        ("collectives.rows[kind=all-gather]", "data", 1),
        ("collectives.rows", "data", 1),
        ("collectives", "data", 1),
    ],
)
def test_an_axis_chooses_collectives(path: str, axis: str, value: int) -> None:
    assert Metric.parse(path, axis=axis).value(REPORT).number == value


def test_an_axis_that_the_mesh_does_not_have_is_no_zero() -> None:
    found = Metric.parse("collectives.all-gather.count", axis="dta").value(REPORT)
    assert (found.number, found.reason) == (
        None,
        "no mesh axis is called 'dta'; there is data, model",
    )


@pytest.mark.parametrize("mesh", [{"axes": {"data": 2, "model": 4}}, None])
def test_without_collectives_an_axis_is_looked_up_where_the_mesh_is_known(
    mesh: Mapping[str, object] | None,
) -> None:
    report: dict[str, object] = {"collectives": {"rows": [], "mesh": mesh}}
    assert Metric.parse("collectives.all-gather.count", axis="data").value(report).number == 0
    wrong = Metric.parse("collectives.all-gather.count", axis="dta").value(report)
    assert wrong.number == (0 if mesh is None else None)


@pytest.mark.parametrize("path", ["collectives.all-gathr.count", "collectives.rows[kind=gather]"])
def test_with_an_axis_too_a_mistake_counts_nothing(path: str) -> None:
    assert Metric.parse(path, axis="data").value(REPORT).number is None


@pytest.mark.parametrize("path", ["memory.hbm.total", "memory.spaces[HBM].total_bytes"])
def test_hbm_is_the_default_space_where_none_is_called_so(path: str) -> None:
    spaces = [{"color": 1, "name": "host", "total_bytes": 7}]
    report = {"memory": {"spaces": [{"color": 0, "name": "memory", "total_bytes": 60}, *spaces]}}
    assert Metric.parse(path).value(report).number == 60
    assert Metric.parse(path).value({"memory": {"spaces": spaces}}).number is None


def test_unknown_axes_are_no_zero() -> None:
    rows = [{**ROW, "axes": None}]
    found = Metric.parse("collectives.all-gather.count", axis="data").value(
        {"collectives": {"rows": rows, "mesh": None}}
    )
    assert found.number is None


@pytest.mark.parametrize("text", ["", ".", "a..b", "a.", "a[", "a]b", "[0]"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Metric.parse(text)


def test_an_axis_goes_with_collectives_only() -> None:
    with pytest.raises(UsageError, match="axis goes with"):
        Metric.parse("memory.temp_bytes", axis="data")
