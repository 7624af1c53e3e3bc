"""Kinds of dumps: their table, their recognition by content, names of their files."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from hlo_lens.load.module import BufferTexts
from hlo_lens.text.dump_kinds import (
    BUFFER_ROWS,
    ROWS,
    DumpFileName,
    DumpKind,
    KindRow,
    sniff,
    sniff_start,
    split_file_name,
)
from hlo_lens.text.source import decode
from tests import corpus
from tests.timing import cpu_seconds

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("row", [row for row in ROWS if row.parser], ids=lambda row: row.kind.name)
def test_parsers_exist(row: KindRow) -> None:
    module, _, function = row.parser.partition(":")
    assert callable(getattr(import_module(module), function))


def test_fields_are_those_of_buffer_texts() -> None:
    known = {field.name for field in fields(BufferTexts)}
    others = {"traces", "instructions"}  # of protos alone; of the text of used values
    assert {row.field for row in BUFFER_ROWS} == known - others


@pytest.mark.parametrize("row", [row for row in ROWS if row.headers], ids=lambda row: row.kind.name)
def test_headers_begin_texts_of_their_kind(row: KindRow) -> None:
    assert {sniff(f"{header}\n") for header in row.headers} == {row.kind}


KINDS = {
    "header": (DumpKind.HLO, "HloModule m, is_scheduled=true\n\nENTRY e {\n}\n"),
    "header alone": (DumpKind.HLO, "HloModule"),
    "indented header": (DumpKind.HLO, "\n  HloModule m\n"),
    "entry without header": (DumpKind.HLO, "ENTRY %e (p: f32[]) -> f32[] {\n  %p = f32[] x()\n}\n"),
    "entry without name": (DumpKind.HLO, "ENTRY {\n  ROOT p = f32[] parameter(0)\n}\n"),
    "computation": (DumpKind.HLO, "region_0.1 {\n  a = f32[] parameter(0)\n}\n"),
    "computation with a name that a text proto could have": (
        DumpKind.HLO,
        "\nscaled_dot {\n  lhs = bf16[4,4] parameter(0)\n}\n",
    ),
    "signature": (DumpKind.HLO, "%c (p: f32[2]{0}) -> (f32[2]) {\n  ROOT %p = f32[2] x()\n}\n"),
    "instruction": (DumpKind.HLO, "%sum.1 = f32[8]{0} add(f32[8]{0} %a, f32[8]{0} %b)\n"),
    "instruction without shape": (DumpKind.HLO, "ROOT r = add(a, b)"),
    "log with a module": (DumpKind.HLO, "starting\nloss: 3.5\n" * 5000 + "HloModule m\n"),
    "log line with a module": (
        DumpKind.HLO,
        "module: x\nafter: HloModule jit_f, is_scheduled=true\n",
    ),
    "framed module": (DumpKind.HLO, "*** Begin module_0000.jit_f.txt ***\nHloModule jit_f\n"),
    "buffer assignment": (
        DumpKind.BUFFER_ASSIGNMENT,
        "BufferAssignment:\nallocation 0: size 4:\n value: <1 p @0> (size=4,offset=0): f32[]\n",
    ),
    "used values": (
        DumpKind.BUFFER_VALUES,
        "\nTotal bytes used: 12 (12B)\n\nUsed values:\n<0 x @0>\n",
    ),
    "live range": (DumpKind.LIVE_RANGE, "HloLiveRange (max 3):\n  InstructionSequence:\n    0:p\n"),
    "memory usage report": (
        DumpKind.MEMORY_USAGE_REPORT,
        "Memory Space: default\nTotal bytes used: 12 (12B)\n",
    ),
    "older memory usage report": (
        DumpKind.MEMORY_USAGE_REPORT,
        "Total bytes used: 12 (12B)\n\nAllocations sorted by size:\n",
    ),
    "call tree": (DumpKind.CALL_TREE, "└── main, a.py:1\n    └── f, a.py:2\n"),
    "call tree in a log": (
        DumpKind.CALL_TREE,
        "step: 1\nINFO - ├── main, a.py:1\nINFO - │   ├── f, a.py:2\n",
    ),
    "call tree in ascii": (DumpKind.CALL_TREE, "main\n|-- f, a.py:1\n`-- g\n"),
    "call tree of two lines": (DumpKind.CALL_TREE, "main, a.py:1\n+-- f (a.py:2)\n"),
    "call tree without places": (DumpKind.CALL_TREE, "main\n|-- step\n|   `-- f\n`-- g\n"),
    "stacks of threads": (
        DumpKind.CALL_TREE,
        'Thread 0x00007f02 (most recent call first):\n  File "a.py", line 3 in f\n',
    ),
    "numbers after words": (DumpKind.OTHER, "main; 3 files\nstep; done\n"),
    "call tree far down": (
        DumpKind.CALL_TREE,
        "log line\n" * 9000 + "├── main, a.py:1\n└── f, a.py:2\n",
    ),
    "boxes": (DumpKind.LOG, "┌───────┐\n│ CPU 0 │\n├───────┤\n│ CPU 1 │\n└───────┘\n"),
    "table": (DumpKind.OTHER, "+----+\n| a1 |\n|----|\n| 12 |\n+----+\n"),
    "lazy tensors": (
        DumpKind.LAZY_IR,
        "IR {\n  %0 = f32[] prim::Constant(), xla_shape=f32[]\n  %1 = f32[] aten::add(%0, %0)\n}\n",
    ),
    "lazy tensors after a debug print": (
        DumpKind.LAZY_IR,
        "[ScheduleSyncTensorsGraph]\n\n## BEGIN_GRAPH\nIR {\n"
        "  %0 = [Float[2]] lazy_tensors::device_data(), device=CPU0\n}\n## END_GRAPH\n",
    ),
    "lazy tensors and their HLO": (
        DumpKind.HLO,
        "IR {\n  %0 = f32[] prim::Constant()\n}\nHloModule m\n\nENTRY %e {\n"
        "  ROOT %p = f32[] parameter(0)\n}\n",
    ),
    "message of PyTorch": (
        DumpKind.TORCH_MESSAGE,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0\n",
    ),
    "message of Neuron": (
        DumpKind.NEURON_MESSAGE,
        "04:44:13:  39  ERROR ||NEURON_CC_WRAPPER||: Failed compilation with ['neuronx-cc'",
    ),
    "snapshot": (DumpKind.SNAPSHOT, '{\n "schema_version": 3,\n "kind": "snapshot",\n'),
    "stablehlo": (DumpKind.MLIR, "module @jit_f attributes {mhlo.num_partitions = 8 : i32} {\n"),
    "mlir locations": (DumpKind.MLIR, '#loc = loc(unknown)\n#loc1 = loc("x")\nmodule @m {\n'),
    "llvm": (DumpKind.LLVM_IR, "; ModuleID = 'x'\nsource_filename = \"x\"\n"),
    "ptx": (DumpKind.PTX, "//\n// Generated by LLVM NVPTX Back-End\n//\n.version 8.3\n"),
    "graph of dot": (DumpKind.GRAPH, "digraph G {\nrankdir = TB;\nlabel = <<b>m</b>>;\n"),
    "graph in a page": (
        DumpKind.GRAPH,
        '\n<!DOCTYPE html>\n<html>\n<head>\n  <meta charset="utf-8">\n  <style>\n    html, body '
        "{height: 100%;}\n    #rendered {height: 70%; }\n",
    ),
    "graph in a page of 2021": (
        DumpKind.GRAPH,
        '<!DOCTYPE html>\n<html>\n<head>\n  <meta charset="utf-8">\n  <style type="text/css">\n'
        "    body {\n      margin: 0;\n    }\n    #graph-container {height:95vh;}\n",
    ),
    "page of another program": (
        DumpKind.OTHER,
        '<!DOCTYPE html>\n<html>\n<head>\n  <meta charset="utf-8">\n  <style>p {}</style>\n',
    ),
    "debug options": (DumpKind.TEXTPROTO, 'xla_dump_to: "/tmp/x"\nxla_cpu_x: true\n'),
    "text proto": (
        DumpKind.TEXTPROTO,
        "# proto-file: x\ndevice_assignment {\n  replica_count: 1\n}\n",
    ),
    "proto": (DumpKind.BINARY, "\n\x0c\x01jit_f\x12\x0bmain\x1a\x02\x08\x01\x10\x01" * 20),
    "thunk sequence": (DumpKind.OTHER, "001: kGemm [source | next=002 (1)] custom-call\n"),
    "python": (DumpKind.OTHER, "import jax\n\nprint(jax.devices())\n"),
    "json": (DumpKind.OTHER, '{\n  "a": 1\n}\n'),
    "prose": (DumpKind.OTHER, "This is what the HloModule class does.\n"),
    "nothing": (DumpKind.EMPTY, ""),
    "white space": (DumpKind.EMPTY, " \n\t\n"),
}


@pytest.mark.parametrize(("kind", "text"), KINDS.values(), ids=KINDS)
def test_kind_is_recognized_by_content(kind: DumpKind, text: str) -> None:
    assert sniff(text) is kind


@pytest.mark.parametrize(("kind", "text"), KINDS.values(), ids=KINDS)
def test_kind_by_the_first_words_is_the_kind_by_the_whole_text(kind: DumpKind, text: str) -> None:
    assert sniff_start(text.encode()) in (None, kind)


def test_first_dump_decides() -> None:
    hlo, ranges = KINDS["header"][1], KINDS["live range"][1]
    assert sniff(hlo + ranges) is DumpKind.HLO
    assert sniff(ranges + hlo) is DumpKind.LIVE_RANGE


@given(st.binary(max_size=300))
def test_any_bytes_have_a_kind(data: bytes) -> None:
    assert isinstance(sniff(decode(data)), DumpKind)


HOSTILE = {
    "arrows": "a (" + ")->" * 40_000,
    "arrows and braces": "a (" + ")->{" * 40_000,
    "equal signs": "a = " * 100_000,
    "words": "a = f32[" + " a" * 100_000,
    "comments": "#\n" * 100_000,
    "white space": " " * 5_000_000 + "x",
    "lines": "a (\n" * 100_000,
    "headers that are none": "HloModule a" * 100_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_kind_of_hostile_text_is_found_in_time(text: str) -> None:
    assert cpu_seconds(lambda: sniff(text)) < 5


# ---- kinds of real files ------------------------------------------------------------------------

BY_NAME: list[tuple[str, DumpKind]] = [
    (r"-buffer-assignment\.txt$", DumpKind.BUFFER_ASSIGNMENT),
    (r"-buffer-assignment-values\.txt$", DumpKind.BUFFER_VALUES),
    (r"-live-range\.txt$", DumpKind.LIVE_RANGE),
    (r"-memory-usage-report\.txt$", DumpKind.MEMORY_USAGE_REPORT),
    (r"\.hlo\.pb$|compile_options\.pb$|report\.pb$", DumpKind.BINARY),
    (r"\.mlir$|\.ttir(\.txt)?$", DumpKind.MLIR),
    (r"\.pbtxt$|\.textproto$|\.debug_options$", DumpKind.TEXTPROTO),
    (
        r"\.(basic_compiler_metadata|execution_options|target_arguments|transfer_stats)\.txt$",
        DumpKind.TEXTPROTO,
    ),
    (r"thunk_sequence\w*\.txt$|truth\.json$|std(out|err)\.txt$", DumpKind.OTHER),
    (r"(before|after)_\w+\.txt$|(^|/)compiled\b.*\.txt$|\.hlo$", DumpKind.HLO),
]
"""Kind that the name of a file of XLA implies; content must agree."""


def promised(name: str) -> DumpKind | None:
    """Return the kind that a name promises, or None."""
    return next((kind for pattern, kind in BY_NAME if re.search(pattern, name)), None)


@pytest.mark.parametrize(
    "path", sorted(corpus.SAMPLES.glob("*/*/*.txt*")), ids=lambda p: "/".join(p.parts[-3:])
)
def test_samples_are_of_the_kind_of_their_names(path: Path) -> None:
    kind = promised(path.name.removesuffix(".gz"))
    assert kind is not None
    assert sniff(decode(corpus.read(path))) is kind


@pytest.mark.parametrize(
    ("marked", "number"),  # module, stage and part, with a bar between them
    [
        ("module_0000.jit_f|before_optimizations|.txt", 0),
        ("module_0012.jit_f|cpu_after_optimizations|.txt", 12),
        ("module_0012.jit_f|cpu_after_optimizations|buffer-assignment.txt", 12),
        ("module_0012.jit_f|cpu_after_optimizations|buffer-assignment-values.txt.gz", 12),
        ("module_0001.jit_f|sm_9.0a_gpu_after_optimizations|memory-usage-report.txt", 1),
        ("module_0001.jit_f|gfx942_gpu_after_optimizations|live-range.txt", 1),
        ("module_0000.jit_f.cl_1003875606|after_optimizations|.txt", 0),
        ("17.module_0000.jit_f|after_optimizations_before_buffer_assignment|.txt", 0),
        ("module_0114.a.b.68|after_codegen|.txt", 114),
        ("module_0003.jit_f|0005.algsimp.after_dce.before_cse|.txt", 3),
        ("module_12345.jit_f|after_spmd_partitioner|.txt", 12345),
    ],
)
def test_parts_of_a_file_name(marked: str, number: int) -> None:
    module, stage, end = marked.split("|")
    part = end.partition(".")[0]
    name = f"{module}.{stage}{'-' if part else ''}{end}"
    assert split_file_name(name) == DumpFileName(
        module=module, number=number, stage=stage, part=part
    )


@pytest.mark.parametrize("name", ["compiled.txt", "some/folder/dump.hlo", ""])
def test_other_file_names_have_no_parts(name: str) -> None:
    module = name.rpartition("/")[2]
    assert split_file_name(name) == DumpFileName(module=module, number=None, stage=None, part="")


def test_number_of_thousands_of_digits_in_a_file_name_is_read() -> None:
    found = split_file_name(f"module_{'9' * 5000}.jit_f.before_optimizations.txt")
    assert (found.number, found.stage) == (2**64, "before_optimizations")
