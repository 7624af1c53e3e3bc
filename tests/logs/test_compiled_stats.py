"""Printed results of methods of compiled programs."""

from __future__ import annotations

import pytest

from hlo_lens.logs.compiled_stats import needed_bytes
from hlo_lens.logs.log import PrintKind
from hlo_lens.logs.logs_log import parse_log

MEMORY = (
    "CompiledMemoryStats(generated_code_size_in_bytes=7, argument_size_in_bytes=100, "
    "output_size_in_bytes=40, alias_size_in_bytes=30, temp_size_in_bytes=20, "
    "host_temp_size_in_bytes=0, serialized_buffer_assignment_proto=b'')"
)
COST = "{'flops': 1000.0, 'bytes accessed0{}': 64.0, 'utilization1{}': 9.0, 'bytes accessed': 96.0}"


def test_memory_analysis_has_what_must_fit() -> None:
    (stats,) = parse_log(f"memory: {MEMORY}\nloss 3\n").stats
    assert stats.kind is PrintKind.MEMORY
    assert (stats.value("temp_size_in_bytes"), needed_bytes(stats)) == (20, 130)


PRINTS = {
    "dict": COST,
    "list of one dict": f"cost = [{COST}]",
    "json": COST.replace("'", '"'),
    "a key on each line": COST.replace(", ", ",\n ").replace("{'flops", "{\n'flops"),
}


@pytest.mark.parametrize("text", PRINTS.values(), ids=PRINTS)
def test_cost_analysis_is_read_as_python_prints_it(text: str) -> None:
    log = parse_log(f"before\n{text}\nafter\n")
    (stats,) = log.stats
    assert stats.kind is PrintKind.COST
    assert dict(stats.values)["bytes accessed0{}"] == 64.0
    assert (stats.value("flops"), stats.value("bytes accessed")) == (1000.0, 96.0)
    assert (stats.line, log.passed_lines, log.gaps) == (2, 2, ())


def test_what_must_fit_is_not_known_without_all_sizes() -> None:
    (stats,) = parse_log("{'argument_size_in_bytes': 4, 'temp_size_in_bytes': 5}").stats
    assert needed_bytes(stats) is None
