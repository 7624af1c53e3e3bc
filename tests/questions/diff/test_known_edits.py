"""Diffs of one program and known edits of it, on dumps for CPU, TPU and GPU."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from hlo_lens import Diff, diff
from tests.corpus import SAMPLES
from tests.snapshots import peak_sides

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = SAMPLES / "pairs"
BACKENDS = ("cpu", "tpu", "gpu")
EDITS = (
    *("added_all_gather", "lost_donation", "doubled_buffer", "moved_collective"),
    *("f32_upcast", "four_layers"),
)

every_backend = pytest.mark.parametrize("backend", BACKENDS)


def _dump(backend: str, edit: str) -> Path:
    return PAIRS / backend / f"{edit}.tar.xz"


@functools.cache
def _diff(backend: str, edit: str) -> Diff:
    return diff(_dump(backend, "base"), _dump(backend, edit))


def _module(backend: str, edit: str) -> dict[str, object]:
    modules = _diff(backend, edit).to_dict()["modules"]
    assert isinstance(modules, list)
    (module,) = modules
    assert isinstance(module, dict)
    return module


def _rows(module: dict[str, object], name: str) -> list[dict[str, object]]:
    rows = module[name]
    assert isinstance(rows, list)
    return rows


@every_backend
def test_the_base_against_itself_is_no_change(backend: str) -> None:
    module = _module(backend, "base")
    assert module["identical"] is True
    for name in ("memory_rows", "donation_rows", "collective_rows", "sharding_rows"):
        assert _rows(module, name) == []


@every_backend
def test_an_added_all_gather_is_found_with_its_line(backend: str) -> None:
    module = _module(backend, "added_all_gather")
    (row,) = _rows(module, "collective_rows")
    assert (row["change"], row["kind"], row["group_size"]) == ("added", "all-gather", 2)
    in_bf16 = 256 << 20  # the CPU gathers in f32
    assert row["source"] == "programs/pairs.py:67"
    assert row["payload_bytes"] == (2 * in_bf16 if backend == "cpu" else in_bf16)
    assert module["collectives"]["all-gather"] == {"base": 0, "head": 1}  # type: ignore[index] # JSON


@every_backend
def test_a_lost_donation_is_named(backend: str) -> None:
    module = _module(backend, "lost_donation")
    (row,) = _rows(module, "donation_rows")
    assert (row["change"], row["name"], row["device_bytes"]) == ("lost", "params['w']", 4 << 20)
    assert module["memory"]["alias_bytes"]["delta"] == -4 << 20  # type: ignore[index] # JSON
    assert _rows(module, "collective_rows") == []


@every_backend
def test_a_doubled_buffer_is_one_row_of_both_shapes(backend: str) -> None:
    rows = _rows(_module(backend, "doubled_buffer"), "memory_rows")
    shapes = [(row["base_shape"], row["head_shape"], row["source"]) for row in rows]
    assert ("bf16[2,32768,2048]", "bf16[2,32768,4096]", "programs/pairs.py:61") in shapes


@every_backend
def test_a_collective_that_moved_into_a_loop_is_weighted(backend: str) -> None:
    module = _module(backend, "moved_collective")
    (row,) = _rows(module, "collective_rows")
    assert (row["change"], row["kind"]) == ("moved", "all-reduce")
    assert (row["base_dynamic_count"], row["head_dynamic_count"]) == (1, 2)
    assert str(row["details"]).startswith("into a loop: while x2")
    assert module["collectives"]["all-reduce"] == {"base": 3, "head": 3}  # type: ignore[index] # JSON
    assert module["collectives_dynamic"]["all-reduce"] == {"base": 4, "head": 5}  # type: ignore[index] # JSON


@every_backend
def test_an_upcast_is_one_row_of_both_types(backend: str) -> None:
    module = _module(backend, "f32_upcast")
    shapes = [(row["base_shape"], row["head_shape"]) for row in _rows(module, "memory_rows")]
    assert ("bf16[2,32768,2048]", "f32[2,32768,2048]") in shapes
    if backend != "cpu":  # there XLA sums in f32 anyway
        rows = _rows(module, "collective_rows")
        assert rows[0]["payload_bytes"] == 256 << 20
        assert all("type bf16 -> f32" in str(row["details"]) for row in rows)


@every_backend
def test_more_layers_are_more_trips_and_larger_parameters(backend: str) -> None:
    module = _module(backend, "four_layers")
    (row,) = _rows(module, "collective_rows")
    assert (row["base_dynamic_count"], row["head_dynamic_count"]) == (2, 4)
    assert row["change"] == "changed"
    reshaped = [row["name"] for row in _rows(module, "sharding_rows")]
    assert sorted(map(str, reshaped)) == ["params['w']", "{0}"]
    assert "shapes of parameters or results differ" not in str(module["note"])


@every_backend
@pytest.mark.parametrize("edit", EDITS)
def test_a_diff_mirrors_its_reverse(backend: str, edit: str) -> None:
    (there,) = _diff(backend, edit).modules
    (back,) = diff(_dump(backend, edit), _dump(backend, "base")).modules
    assert there.memory is not None
    assert back.memory is not None
    for name, delta in there.memory.metrics.items():
        mirrored = back.memory.metrics[name]
        assert (mirrored.base, mirrored.head) == (delta.head, delta.base)
    for one, other in zip(there.memory.peaks, back.memory.peaks, strict=True):
        assert {*map(peak_sides, one.changed)} == {peak_sides(r)[::-1] for r in other.changed}
    assert there.collectives is not None
    assert back.collectives is not None
    assert {(r.base, r.head, r.count) for r in there.collectives.changed} == {
        (r.head, r.base, r.count) for r in back.collectives.changed
    }
    assert there.shardings is not None
    assert back.shardings is not None
    assert {(r.base, r.head) for r in there.shardings.entries} == {
        (r.head, r.base) for r in back.shardings.entries
    }
    assert there.program is not None
    assert back.program is not None
    assert (there.program.added, there.program.removed, there.program.changed) == (
        back.program.removed,
        back.program.added,
        back.program.changed,
    )
