"""Buffer statistics and peak buffers in logs, and printed results of compiled programs."""

from __future__ import annotations

import pytest

from hlo_lens.buffers.memory_usage import HumanSize
from hlo_lens.logs.compiler_output import PrintKind
from hlo_lens.logs.log import parse_log, without_repeats
from tests import corpus

ASKED = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2110783616 bytes.\n"
STATS = """BufferAssignment stats:
             parameter allocation:    1.02GiB
              constant allocation:         0B
        maybe_live_out allocation:    4.89GiB
     preallocated temp allocation:    1.97GiB
  preallocated temp fragmentation:     2.0KiB (0.00%)
                 total allocation:    7.88GiB
              total fragmentation:       112B (4.37%)
"""
PEAK = """Peak buffers:
\tBuffer 1:
\t\tSize: 4.89GiB
\t\tOperator: op_name="jit(f)/dot[dims=(((2,), (0,)), ((), ()))]" source_file="/b.py" source_line=17
\t\tXLA Label: custom-call
\t\tShape: f32[5104,257152]
\t\t==========================

\tBuffer 2:
\t\tSize: 1004.50MiB
\t\tEntry Parameter Subshape: f16[2048,257152]
\t\t==========================

\tBuffer 3:
\t\tSize: 16B
\t\tXLA Label: fusion
\t\tShape: (f32[8], s8[4])
\t\t==========================

"""
OOM = "BufferAssignment OOM Debugging.\n" + STATS + PEAK


def test_an_out_of_memory_report() -> None:
    log = parse_log("before\n" + ASKED + OOM + "after\n", path="x.log")
    (entry,) = log.buffers
    assert (log.gaps, entry.is_complete, log.path) == ((), True, "x.log")
    assert (entry.is_oom, entry.line) == (True, 3)
    stats = entry.stats
    assert stats is not None
    assert (stats.parameter, stats.constant) == (HumanSize("1.02GiB"), HumanSize("0B"))
    assert (stats.maybe_live_out, stats.total) == (HumanSize("4.89GiB"), HumanSize("7.88GiB"))
    assert stats.preallocated_temp_fragmentation == HumanSize("2.0KiB")
    first, second, third = entry.peak_buffers
    assert (first.number, first.size.text, first.label) == (1, "4.89GiB", "custom-call")
    assert first.operator is not None
    assert first.operator.op_name == "jit(f)/dot[dims=(((2,), (0,)), ((), ()))]"
    assert (first.operator.source_file, first.operator.source_line) == ("/b.py", 17)
    assert (second.is_entry_parameter, second.shape, second.label) == (
        True,
        "f16[2048,257152]",
        None,
    )
    assert (third.operator, third.shape) == (None, "(f32[8], s8[4])")


FORMS = {
    "all": OOM,
    "statistics": STATS,
    "no fragmentation": "\n".join(line for line in STATS.split("\n") if "fragm" not in line),
    "no constants (2021)": STATS.replace("              constant allocation:         0B\n", ""),
    "nothing at the peak": "BufferAssignment OOM Debugging.\n" + STATS + "Peak buffers:\n",
    "spaces for tabs": OOM.replace("\t", "        "),
    "nan": STATS.replace("(0.00%)", "(-nan%)"),
    "cut": OOM[:-30],
}


def test_a_report_that_is_printed_again_is_one_entry() -> None:
    (entry,) = without_repeats(parse_log(OOM + "INFO: done\n" + OOM)).buffers
    assert (entry.line, entry.repeats) == (1, (OOM.count("\n") + 2,))


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_each_form_is_read(text: str) -> None:
    assert parse_log(text).gaps == ()


def test_several_blocks_in_a_log() -> None:
    log = parse_log(f"a\n{STATS}b\nc\n{ASKED}{OOM}d\n{STATS}{STATS}")
    assert [(e.is_oom, e.line, len(e.peak_buffers)) for e in log.buffers] == [
        (False, 2, 0),
        (True, 13, 3),
        (False, 42, 0),
        (False, 50, 0),
    ]
    assert log.gaps == ()


def test_truncated_block_keeps_its_complete_lines() -> None:
    whole = parse_log(OOM).buffers[0]
    for cut in range(60, len(OOM)):
        log = parse_log(OOM[:cut])
        (entry,) = log.buffers
        sure = entry.peak_buffers[:-1]
        assert sure == whole.peak_buffers[: len(sure)]
    assert not parse_log(OOM[: OOM.index("XLA Label")]).buffers[0].is_complete
    assert not parse_log(STATS[:-90]).buffers[0].is_complete


@corpus.needs_corpus
def test_a_report_from_the_corpus() -> None:
    path = corpus.CORPUS / "buffer" / "oom" / "oom_gpu_2024_alphafold.txt"
    (entry,) = parse_log(corpus.read(path)).buffers
    assert (entry.is_oom, len(entry.peak_buffers)) == (True, 15)
    assert entry.stats is not None
    temp = entry.stats.preallocated_temp
    assert temp == HumanSize("32.51GiB")
    assert temp.matches(34912723376)  # the failed request
    assert not entry.is_complete  # its author cut the last line


# ---- printed results of compiled programs -------------------------------------------------------

MEMORY = (
    "CompiledMemoryStats(generated_code_size_in_bytes=7, argument_size_in_bytes=100, "
    "output_size_in_bytes=40, alias_size_in_bytes=30, temp_size_in_bytes=20, "
    "host_temp_size_in_bytes=0, serialized_buffer_assignment_proto=b'')"
)
COST = "{'flops': 1000.0, 'bytes accessed0{}': 64.0, 'utilization1{}': 9.0, 'bytes accessed': 96.0}"


def test_memory_analysis_has_what_must_fit() -> None:
    (stats,) = parse_log(f"memory: {MEMORY}\nloss 3\n").stats
    assert stats.kind is PrintKind.MEMORY
    assert (stats.value("temp_size_in_bytes"), stats.needed_bytes) == (20, 130)


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
