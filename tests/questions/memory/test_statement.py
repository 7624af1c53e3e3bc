"""The memory statement: bytes per memory space, by their use."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.memory.layout import LaidAllocation, LaidValue, MemoryLayout
from hlo_lens.questions.memory.peak import peaks_of
from hlo_lens.questions.memory.statement import memory_amount, memory_statement, most_temp_bytes
from hlo_lens.text.units import Amount, Kind
from tests.corpus import SAMPLES
from tests.questions.memory.layouts import layout

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hlo_lens.questions.memory.statement import MemoryStatement


def statement_of(
    laid: MemoryLayout,
    backend: str,
    opcodes: Mapping[str, str] | None = None,
    *,
    is_exact_tpu: bool = False,
) -> MemoryStatement:
    return memory_statement(
        laid, peaks_of(laid), backend=backend, opcodes=opcodes, is_exact_tpu=is_exact_tpu
    )


def test_statement_keeps_host_memory_apart() -> None:
    statement = statement_of(layout(), backend="gpu")
    assert statement.argument_bytes == 100
    assert statement.output_bytes == 8
    assert statement.temp_bytes == 64
    assert tuple(statement.host_bytes) == (0, 0, 0, 1000)
    assert [space.name for space in statement.spaces] == ["device", "host"]
    assert statement.spaces[0].fragmentation_bytes == 0
    assert (statement.total_bytes, statement.thread_local_bytes) == (172, 4)


def test_temporaries_of_a_gpu_with_a_color_of_their_own_count_as_device_memory(
    tmp_path: Path,
) -> None:
    source = SAMPLES / "gpu" / "tp_mlp"
    folder = shutil.copytree(source, tmp_path / "dump")
    for path in [*folder.glob("*memory-usage-report*"), *folder.glob("*buffer-assignment.txt")]:
        if "report" in path.name:
            path.unlink()
        else:
            text = path.read_text().replace(", preallocated-temp", ", color 2, preallocated-temp")
            path.write_text(text)
            assert ", color 2, preallocated-temp" in text
    found, plain = hlo_lens.memory(folder), hlo_lens.memory(source)
    assert found.statement.total_bytes == plain.statement.total_bytes
    assert [space.name for space in found.statement.spaces] == ["device"]
    assert found.peak is not None
    assert plain.peak is not None
    assert found.peak.total_bytes == plain.peak.total_bytes


@pytest.mark.parametrize(("color", "name"), [(1, "collective"), (7, "symmetric")])
def test_collective_memory_of_a_gpu_is_on_the_same_device_and_in_no_total(
    color: int, name: str
) -> None:
    more = LaidAllocation(index=5, size=12, color=color, category="temp")
    laid = replace(layout(), allocations=(*layout().allocations, more))
    statement = statement_of(laid, backend="gpu")
    assert [(s.name, s.total_bytes) for s in statement.on_same_device("gpu")] == [(name, 12)]
    assert statement.total_bytes == 172
    assert not statement_of(laid, backend="tpu").on_same_device("tpu")


def test_a_donated_argument_is_in_arguments_and_outputs() -> None:
    donated = MemoryLayout(
        source="buffer-assignment",
        allocations=(
            LaidAllocation(
                index=0, size=9, color=0, category="argument", is_output=True, parameter_number=0
            ),
        ),
        values=(),
    )
    statement = statement_of(donated, backend="cpu")
    assert (statement.argument_bytes, statement.alias_bytes, statement.output_bytes) == (9, 9, 9)


def tpu(shape: str, name: str = "v") -> MemoryLayout:
    return MemoryLayout(
        source="buffer-assignment",
        allocations=(LaidAllocation(index=0, size=512, color=0, category="temp"),),
        values=(LaidValue(f"{name}{{}}", name, 0, 0, 512, None, None, shape),),
    )


@pytest.mark.parametrize(
    ("shape", "opcode", "temp"),
    [
        ("f32[8]{0:T(128)}", "fusion", 16384),
        ("(f32[8]{0:T(128)})", "tuple", 0),
        ("s32[]{:T(128)}", "copy", 0),
        ("s32[]{:T(128)}", "fusion", 16384),
        ("pred[]{:T(512)}", "compare", 0),
        ("f32[]{:T(128)}", "copy", 16384),
    ],
)
def test_tables_and_integer_scalars_are_never_in_hbm(shape: str, opcode: str, temp: int) -> None:
    statement = statement_of(tpu(shape), backend="tpu", opcodes={"v": opcode}, is_exact_tpu=True)
    assert statement.temp_bytes == temp
    assert most_temp_bytes(statement) == temp


@pytest.mark.parametrize(
    ("shape", "opcodes", "is_exact_tpu", "least"),
    [
        ("f32[8]{0}", {"v": "fusion"}, False, 16384),
        ("s32[]{:T(128)}", {"v": "copy"}, False, 0),
        ("s32[]{:T(128)}", None, True, 0),
    ],
    ids=["an older libtpu", "scalars of an older libtpu", "scalars of unknown makers"],
)
def test_temporaries_that_are_not_exact_are_a_lower_bound(
    shape: str, opcodes: dict[str, str] | None, is_exact_tpu: bool, least: int
) -> None:
    statement = statement_of(tpu(shape), backend="tpu", opcodes=opcodes, is_exact_tpu=is_exact_tpu)
    assert (statement.is_exact, statement.temp_bytes) == (False, least)
    assert most_temp_bytes(statement) == 32768
    assert memory_amount(statement, "temp", least) == Amount(least, Kind.AT_LEAST)
    assert memory_amount(statement, "total", 512) == Amount(512)
    assert "temp is at most 32.0KiB" in statement.notes[-1]


def test_of_an_estimate_all_but_what_the_text_has_is_marked() -> None:
    layout = replace(tpu("f32[8]{0}"), source="estimate")
    statement = statement_of(layout, backend="cpu")
    assert not statement.is_exact
    assert memory_amount(statement, "argument", 9) == Amount(9)
    assert memory_amount(statement, "temp", 9) == Amount(9, Kind.ESTIMATE)
    compiled = replace(statement, memory_analysis={"temp_size_in_bytes": 9})
    assert memory_amount(compiled, "temp", 9) == Amount(9)


def test_vmem_of_an_estimate_is_not_known() -> None:
    layout = MemoryLayout(
        source="estimate",
        allocations=(
            LaidAllocation(index=0, size=64, color=0, category="temp"),
            LaidAllocation(index=1, size=32, color=1, category="temp"),
        ),
        values=(),
        schedule=["a"],
    )
    found = memory_statement(layout, peaks_of(layout), backend="tpu")
    hbm, vmem = found.spaces
    assert (hbm.total_bytes, hbm.temp_bytes) == (64, 64)
    assert (vmem.total_bytes, vmem.temp_bytes, vmem.peak_bytes) == (None, None, None)
    assert memory_statement(layout, peaks_of(layout), backend="gpu").spaces[1].total_bytes == 32
