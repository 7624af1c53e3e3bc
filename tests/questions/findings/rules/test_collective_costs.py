"""Tests of rules about collectives that cost time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.findings.finding import Severity
from tests.questions.findings.programs import findings_of, looped, with_lines

if TYPE_CHECKING:
    from pathlib import Path


# ---- C001: transfers in loops without work beside them -------------------------------------------


BODY = """
  r = f32[SIZE]{0} all-reduce(v), channel_id=1, replica_groups={{0,1},{2,3}},\
 use_global_device_ids=true, to_apply=add
"""
ASYNC = """
  s = f32[SIZE]{0} all-reduce-start(v), channel_id=1, replica_groups={{0,1},{2,3}},\
 use_global_device_ids=true, to_apply=add
  w = f32[SIZE,64]{1,0} broadcast(v), dimensions={0}
  u = f32[SIZE,64]{1,0} exponential(w)
  r = f32[SIZE]{0} all-reduce-done(s)
"""


def test_a_reduction_without_work_beside_it_is_found() -> None:
    (found,) = findings_of(looped(BODY, size=1 << 16, trips=4), "C001")
    assert found.message == (
        "all-reduce over axis_1 in a loop: 1.00MiB of one run, 100% of all bytes sent, "
        "are not covered by work"
    )


@pytest.mark.parametrize(("body", "backend"), [(ASYNC, None), (BODY, "cpu")])
def test_covered_ones_and_those_of_cpu_are_not(body: str, backend: str | None) -> None:
    assert findings_of(looped(body, size=1 << 16, trips=4, backend=backend), "C001") == ()


# ---- C002: small collectives that run many times -------------------------------------------------


def test_a_small_reduction_in_each_trip_is_found() -> None:
    (found,) = findings_of(looped(BODY, size=64, trips=48), "C002")
    assert found.message == "all-reduce over axis_1 of at most 256B, 48 runs in a loop"


def test_few_runs_and_large_payloads_are_not() -> None:
    assert findings_of(looped(BODY, size=64, trips=8), "C002") == ()
    assert findings_of(looped(BODY, size=1 << 16, trips=48), "C002") == ()


@pytest.mark.parametrize(
    ("trips", "backend", "severity"),
    [
        (127, None, Severity.INFO),
        (128, None, Severity.WARNING),
        (128, "cpu", Severity.INFO),
    ],
)
def test_many_runs_are_a_warning_but_on_cpu(
    trips: int, backend: str | None, severity: Severity
) -> None:
    (found,) = findings_of(looped(BODY, size=64, trips=trips, backend=backend), "C002")
    assert found.severity is severity


def test_many_of_one_line_are_found_outside_of_loops() -> None:
    steps = "\n".join(
        f"  a{k} = f32[] all-reduce(t{k}), channel_id={k + 1}, replica_groups={{{{0,1,2,3}}}}, "
        f"use_global_device_ids=true, to_apply=add, @psum:7\n  t{k + 1} = f32[] tanh(a{k})"
        for k in range(24)
    )
    text = f"""HloModule m, is_scheduled=true, num_partitions=4

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

ENTRY main {{
  t0 = f32[] parameter(0)
{steps}
  ROOT o = f32[] negate(t24)
}}
"""
    (found,) = findings_of(with_lines(text), "C002")
    assert "24 all-reduces" in found.message
    assert found.message.endswith(" of at most 4B, one after another")
    assert (found.severity, found.source_line) == (Severity.WARNING, 7)  # one could carry all


# ---- C006: collectives whose groups are of one device --------------------------------------------


IDLE_TEXT = """HloModule m, is_scheduled=true, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[256]{0} parameter(0)
  ROOT r = f32[256]{0} all-reduce(x), channel_id=1, replica_groups=GROUPS,\
 use_global_device_ids=true, to_apply=add
}
"""


def test_a_reduction_within_one_device_is_found() -> None:
    (found,) = findings_of(IDLE_TEXT.replace("GROUPS", "{{0},{1},{2},{3}}"), "C006")
    assert found.message == "all-reduce: each group is one device, nothing is moved"
    assert (found.values, found.severity) == (("r",), Severity.INFO)
    assert found.saves.sent_bytes is None


def test_a_reduction_between_devices_is_not() -> None:
    assert findings_of(IDLE_TEXT.replace("GROUPS", "{{0,1},{2,3}}"), "C006") == ()


# ---- C008: transfers between slices and between hosts --------------------------------------------


BETWEEN_TEXT = """HloModule m, num_partitions=4

ENTRY main {
  x = f32[1024,4] parameter(0)
  t = token[] after-all()
  s = (f32[1024,4], u32[], token[]) send(x, t), channel_id=2, is_host_transfer=true, \
frontend_attributes={_xla_host_transfer_handler_name="HANDLER",\
_xla_megascale_transfer_type="ALL_REDUCE"}
  ROOT e = token[] send-done(s), channel_id=2, is_host_transfer=true
}
"""


def test_a_transfer_of_the_multi_slice_runtime_is_found() -> None:
    (found,) = findings_of(BETWEEN_TEXT.replace("HANDLER", "xla_megascale_runtime"), "C008")
    assert found.message == (
        "1 all-reduce between slices: 16.0KiB of one run on the data center network"
    )
    assert (found.values, found.severity) == (("s",), Severity.INFO)


@pytest.mark.parametrize(
    ("ids", "where"),
    [
        (None, " over d between slices, if devices are numbered in order"),
        ([100_000, 100_001, 100_002, 100_003, 200_000, 200_001, 200_002, 200_003], " over d"),
        (
            [100_000, 200_000, 100_001, 200_001, 100_002, 200_002, 100_003, 200_003],
            " over groups of 2 along m",
        ),
    ],
)
def test_axis_between_slices_is_that_of_the_device_assignment(
    tmp_path: Path, ids: list[int] | None, where: str
) -> None:
    stem = "module_0001.jit_m"
    mesh = ', frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["d"=2, "m"=4]>}}'
    text = BETWEEN_TEXT.replace("HANDLER", "xla_megascale_runtime").replace(
        "=4\n", f"=4{mesh}\n", 1
    )
    (tmp_path / f"{stem}.after_optimizations.txt").write_text(text)
    devices = "".join(f"computation_devices {{ replica_device_ids: {one} }}\n" for one in ids or ())
    if ids is not None:
        (tmp_path / stem).mkdir()
        options = tmp_path / stem / "compile_options.textproto"
        options.write_text(f"executable_build_options {{\ndevice_assignment {{\n{devices}}}\n}}\n")
    (found,) = hlo_lens.lint(tmp_path, select=["C008"]).findings
    assert found.message.startswith(f"1 all-reduce{where}")
    assert found.message.endswith("16.0KiB of one run on the data center network")


HOSTS = """HloModule m, is_scheduled=true, num_partitions=32

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[1048576]{0} parameter(0)
  y = f32[65536]{0} parameter(1)
  r = f32[1048576]{0} all-reduce(x), channel_id=1, replica_groups=mesh['outer'=4,'inner'=8] \
{FIRST}, use_global_device_ids=true, to_apply=add, backend_config={"operation_queue_id":"0"}
  q = f32[65536]{0} all-reduce(y), channel_id=2, replica_groups=mesh['outer'=4,'inner'=8] \
{SECOND}, use_global_device_ids=true, to_apply=add, backend_config={"operation_queue_id":"0"}
  ROOT t = (f32[1048576]{0}, f32[65536]{0}) tuple(r, q)
}
"""


def _between(first: str, second: str) -> str:
    return HOSTS.replace("FIRST", f"'{first}'").replace("SECOND", f"'{second}'")


def test_an_axis_that_sends_much_between_hosts_is_a_warning() -> None:
    (found,) = findings_of(_between("outer", "inner"), "C008")
    assert found.message == (
        "1 all-reduce over outer between hosts (taken to have 8 GPUs each, numbered in order): "
        "6.00MiB of one run on the network"
    )
    assert found.severity is Severity.WARNING
    assert found.evidence[-1] == "inner, which stays inside of hosts, sends 448.0KiB"


def test_an_axis_that_sends_little_between_hosts_is_an_info() -> None:
    (found,) = findings_of(_between("inner", "outer"), "C008")
    assert (found.values, found.severity) == (("q",), Severity.INFO)


def test_groups_inside_of_hosts_have_no_finding() -> None:
    assert findings_of(_between("inner", "inner"), "C008") == ()


def test_devices_of_one_host_have_no_finding() -> None:
    text = _between("outer", "inner").replace("=32", "=8").replace("'outer'=4", "'outer'=1")
    assert findings_of(text, "C008") == ()


def test_hosts_of_a_slice_make_no_difference() -> None:
    text = _between("outer", "inner").replace('"operation_queue_id":"0"', '"aliasing_operands":{}')
    assert findings_of(text, "C008") == ()


def test_ids_of_devices_and_not_of_partitions_decide(tmp_path: Path) -> None:
    stem = "module_0001.jit_m"
    text = _between("outer", "inner")
    (tmp_path / f"{stem}.sm_9.0a_gpu_after_optimizations.txt").write_text(text)
    ids = [number % 4 * 8 + number // 4 for number in range(32)]  # outer is a host
    devices = "".join(f"computation_devices {{ replica_device_ids: {one} }}\n" for one in ids)
    (tmp_path / f"{stem}.config.pbtxt").write_text(f"static_device_assignment {{\n{devices}}}\n")
    found = hlo_lens.lint(tmp_path, select=["C008"]).findings
    assert [one.values for one in found] == [("q",)]


def test_gpus_of_a_rack_are_joined(tmp_path: Path) -> None:
    stem = "module_0001.jit_m"
    (tmp_path / f"{stem}.sm_10.0a_gpu_after_optimizations.txt").write_text(
        _between("outer", "inner")
    )
    config = 'device_description_str: "NVIDIA GB200"'
    (tmp_path / f"{stem}.gpu_target_config.pbtxt").write_text(config)
    assert hlo_lens.lint(tmp_path, select=["C008"]).findings == ()
