"""Estimates against the figures of compilers, and invariants of every estimate."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.hlo.query import tabulate
from hlo_lens.questions.memory.estimate import MemoryEstimate, memory_estimate, why_no_estimate
from hlo_lens.questions.memory.peak import peak_memory, peaks_of
from hlo_lens.questions.memory.statement import memory_statement
from hlo_lens.text.errors import MissingDumpError
from tests.corpus import SAMPLES, archives, needs_corpus, read
from tests.estimate_cases import FIGURES, HOST_FIGURES, cases_of, found_figures
from tests.questions.texts import LOOP, entry_of

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = sorted(path.parent for path in SAMPLES.glob("*/*/expect.json"))
TEXTS = sorted(
    path
    for folder in FOLDERS
    for path in folder.iterdir()
    if path.name.endswith("after_optimizations.txt") or path.name == "compiled.txt"
)
LARGEST_ARCHIVE = 150_000
"""Largest archive that is tested here; ``python -m tests.estimate_table`` tests all."""

sample = pytest.mark.parametrize("path", TEXTS, ids=lambda path: "/".join(path.parts[-3:]))


@functools.cache
def _estimate(path: Path) -> MemoryEstimate:
    estimate = memory_estimate(tabulate(hlo_lens.parse_hlo(read(path))))
    assert estimate is not None
    return estimate


@sample
def test_figures_are_those_of_the_compiler(path: Path) -> None:
    said = json.loads((path.parent / "expect.json").read_text("utf-8"))["memory_analysis"]
    found = found_figures(_estimate(path))
    assert found == {name: said[f"{name}_size_in_bytes"] for name in (*FIGURES, *HOST_FIGURES)}


@sample
def test_values_alive_at_once_are_disjoint_or_begin_at_one_offset(path: Path) -> None:
    layout = _estimate(path).layout
    allocations = {one.index: one for one in layout.allocations}
    groups: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for value in layout.values:
        category = allocations[value.allocation].category
        if category != "thread-local" and not (category == "temp" and value.is_table):
            assert value.start is not None
            assert value.end is not None
            place = (value.allocation, value.offset)
            groups.setdefault(place, []).append((value.start, value.end, value.size))
    series = [0] * (layout.length or 0)
    for place, group in groups.items():
        if allocations[place[0]].color == 0:
            for instant in {t for start, end, _ in group for t in range(start, end + 1)}:
                series[instant] += max(size for a, b, size in group if a <= instant <= b)
    assert series == layout.used_series()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            LOOP.replace("is_scheduled=true, ", ""),
            "the instructions are not in execution order (no is_scheduled=true)",
        ),
        (LOOP[:-20], "the text is cut off: its missing part uses memory too"),
        (
            LOOP.replace("body=", "body=other_"),
            "the text lacks computations that it calls, such as other_",
        ),
        ("HloModule m, is_scheduled=true\n", "the text has no entry computation"),
    ],
)
def test_no_estimate_for_a_reason(text: str, reason: str) -> None:
    table = tabulate(hlo_lens.parse_hlo(text))
    assert (why_no_estimate(table) or "").startswith(reason)
    assert memory_estimate(table) is None


SMALL = """  p = f32[100]{0} parameter(0)
  a = f32[100]{0} reverse(p), dimensions={0}
  b = f32[25]{0} custom-call(a), custom_call_target="f"
  ROOT c = f32[50]{0} custom-call(b), custom_call_target="g\""""


def test_a_small_module() -> None:
    table = entry_of(SMALL, header=", is_scheduled=true")
    estimate = memory_estimate(table, backend="cpu")
    assert estimate is not None
    figures = found_figures(estimate)
    assert (figures["argument"], figures["output"]) == (400, 200)
    assert (figures["temp"], figures["alias"]) == (448 + 100, 0)
    peak = peak_memory(estimate.layout)
    assert peak is not None
    assert (peak.total_bytes, peak.position, peak.instruction) == (1100, 2, "b")
    assert [(v.value, v.owned_bytes, v.category, v.start, v.end) for v in peak.live] == [
        ("a{}", 400, "temp", 1, 2),
        ("p{}", 400, "argument", 0, 4),
        ("c{}", 200, "output", 0, 4),
        ("b{}", 100, "temp", 2, 3),
    ]
    assert estimate.layout.source == "estimate"
    assert estimate.layout.notes == ()


def test_backends_align_and_pad_their_own_way() -> None:
    table = entry_of(SMALL, header=", is_scheduled=true")
    found = [memory_estimate(table, backend=backend) for backend in ("cpu", "gpu", "tpu")]
    temps = [estimate.temp_bytes for estimate in found if estimate is not None]
    assert temps == [448 + 100, 512 + 100, 2 * 16384 + 16384 - 16384]


def test_an_unknown_backend_is_noted() -> None:
    estimate = memory_estimate(entry_of(SMALL, header=", is_scheduled=true"))
    assert estimate is not None
    assert estimate.layout.notes == ("the text does not show its backend; assumed to be cpu",)


def test_host_memory_counts_apart() -> None:
    text = SMALL.replace("c = f32[50]{0}", "c = f32[50]{0:S(5)}")
    estimate = memory_estimate(entry_of(text, header=", is_scheduled=true"), backend="gpu")
    assert estimate is not None
    figures = found_figures(estimate)
    assert (figures["output"], figures["host_output"]) == (0, 200)
    spaces = memory_statement(estimate.layout, peaks_of(estimate.layout), backend="gpu").spaces
    assert [(space.color, space.total_bytes) for space in spaces] == [(0, 400 + 612), (5, 200)]


def test_a_shape_of_unknown_size_is_noted() -> None:
    text = SMALL.replace("b = f32[25]{0}", "b = strange[25]{0}")
    estimate = memory_estimate(entry_of(text, header=", is_scheduled=true"), backend="cpu")
    assert estimate is not None
    assert not estimate.layout.is_complete
    assert "1 values of unknown size count as 0 bytes" in estimate.layout.notes


@needs_corpus
def test_real_dumps_are_met_exactly() -> None:
    small = [path for path in archives() if path.stat().st_size < LARGEST_ARCHIVE]
    cases = [case for path in small for case in cases_of(path)]
    assert len(cases) > 140
    assert [case for case in cases if case.found and not case.is_exact] == []


SCALARS = """HloModule m, is_scheduled=true, num_partitions=4

ENTRY e {
  p = f32[1024]{0:T(1024)} parameter(0)
  c = u32[] constant(7)
  s = (f32[1024]{0:T(1024)S(1)}, f32[1024]{0:T(1024)}, u32[]) copy-start(p)
  d = f32[1024]{0:T(1024)S(1)} copy-done(s)
  ROOT r = f32[1024]{0:T(1024)} negate(d)
}
"""


def test_only_scalars_in_tuples_are_semaphores_of_a_tpu() -> None:
    estimate = memory_estimate(tabulate(hlo_lens.parse_hlo(SCALARS)), backend="tpu")
    assert estimate is not None
    colors = {
        value.name: (estimate.layout.allocations[value.allocation].color, value.size)
        for value in estimate.layout.values
    }
    assert colors["c{}"] == (0, 4096)
    assert colors["s{2}"] == (2, 4)


@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
def test_memory_of_values_larger_than_the_heap_is_not_known(backend: str) -> None:
    table = entry_of(
        f"""  p = f32[8] parameter(0)
  a = f32[{2**62}] broadcast(p), dimensions={{}}
  b = f32[{2**62}] negate(a)
  ROOT r = f32[8] slice(b), slice={{[0:8]}}""",
        ", is_scheduled=true",
    )
    assert why_no_estimate(table) is None
    assert memory_estimate(table, backend=backend) is None
    with pytest.raises(MissingDumpError, match="its values are larger than the memory that XLA"):
        hlo_lens.memory(table.module)
