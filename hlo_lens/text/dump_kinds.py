"""The table of dump kinds: one row for each kind of text that hlo-lens reads or recognizes.

A row has the kind's part of XLA's file names, its header lines, its parser, the field that keeps
the parsed text, and the XLA flag that writes it. Everything that depends on the kind of a dump
(recognizing content, splitting file names, cutting logs, reading, advice) asks this table.

Source of the file names: xla/service/dump.cc, FilenameFor; of the headers: each kind's printer.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class DumpKind(enum.Enum):
    """Kinds of text that XLA and the programs around it write."""

    HLO = "HLO module"
    BUFFER_ASSIGNMENT = "BufferAssignment"
    BUFFER_VALUES = "used values of a BufferAssignment"
    LIVE_RANGE = "HloLiveRange"
    MEMORY_USAGE_REPORT = "memory-usage report"
    LOG = "log of a compiler or of a program"
    CALL_TREE = "call tree"
    MLIR = "MLIR"
    TEXTPROTO = "text proto"
    LAZY_IR = "IR of PyTorch's lazy tensors"
    TORCH_MESSAGE = "memory message of PyTorch"
    NEURON_MESSAGE = "message of Neuron's compiler"
    SNAPSHOT = "snapshot of hlo-lens"
    LLVM_IR = "LLVM IR"
    PTX = "PTX"
    GRAPH = "drawn graph"
    ARCHIVE = "archive"
    HLO_PROTO = "HLO proto"
    BINARY = "binary data"
    EMPTY = "empty"
    OTHER = "text of unknown kind"


PROTO = "hlo-proto"
"""Part of a module that a ``.hlo.pb`` file holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """Everything that depends on one dump kind.

    Attributes:
        kind: The kind.
        part: Part of the module that a file of this kind holds, as in XLA's file names:
            ``live-range`` in ``x-live-range.txt``; empty for HLO text; None if it holds no part.
        headers: Words that a header line of this kind alone begins with; the first one begins the
            text in a log.
        signs: Regular expressions (multi-line) of the first lines.
        parser: ``module:function`` that parses the text; empty if hlo-lens does not read it.
        field: Field of `BufferTexts` that keeps the parsed text; empty for kinds that are no
            buffer-side text.
        flag: XLA flag that writes it; empty if XLA writes no file of it.
        used_for: What hlo-lens shows of it; empty if ``hlo-lens doctor`` does not ask for it.
        refusal: Error message for a file of this kind, if it is not read.
    """

    kind: DumpKind
    part: str | None = None
    headers: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    parser: str = ""
    field: str = ""
    flag: str = ""
    used_for: str = ""
    refusal: str = ""


AS_TEXT = "--xla_dump_hlo_as_text"
TEXT_FLAGS = f"--xla_dump_to=DIR {AS_TEXT}"
"""Flags that write the texts of all modules into a folder."""

TREE_FORMS = (
    "a drawn call tree ('├── function, file:line', '|-- function') or the stacks of Python's "
    "faulthandler"
)
"""Texts that `hlo-lens tree` reads."""

_SHAPE = r"(?:\(|b\(|[a-z][a-z0-9]*\[)"

_LAZY_IR = r"[ \t]*IR[ \t]*\{[ \t]*\n[^\n=]*=[^\n]*\w::\w"

ROWS = (
    KindRow(
        kind=DumpKind.HLO,
        part="",
        headers=("HloModule ",),
        signs=(
            r"^[ \t]*HloModule(?:[ ,]|$)",
            rf"^(?!{_LAZY_IR})"
            r"[ \t]*(?:ENTRY[ \t]+)?%?[A-Za-z_][\w.-]*[ \t]*(?:\((?=.*->).*)?\{[ \t]*\n"
            r"\s*(?:ROOT\s+)?%?[\w.-]+\s+=\s",
            r"^[ \t]*ENTRY[ \t]*\{",
            rf"\A\s*(?:(?:ROOT\s+)?%?[\w.-]+\s+=\s+(?:{_SHAPE}.*?\s)?|{_SHAPE}\S*\s)[a-z][a-z0-9-]*\(",
        ),
        parser="hlo_lens.hlo.module_reader:parse_hlo_modules",
        flag=AS_TEXT,
    ),
    KindRow(
        kind=DumpKind.BUFFER_ASSIGNMENT,
        part="buffer-assignment",
        headers=("BufferAssignment:",),
        signs=(r"^BufferAssignment:",),
        parser="hlo_lens.buffers.assignment_reader:parse_buffer_assignment",
        field="assignment",
        flag=AS_TEXT,
        used_for="memory as XLA assigned it",
    ),
    KindRow(
        kind=DumpKind.BUFFER_VALUES,
        part="buffer-assignment-values",
        headers=("Used values:",),
        signs=(r"^Total bytes used: .*\n\s*Used values:|^Used values:",),
        parser="hlo_lens.buffers.assignment_reader:parse_buffer_values",
        field="values",
        flag=AS_TEXT,
    ),
    KindRow(
        kind=DumpKind.LIVE_RANGE,
        part="live-range",
        headers=("HloLiveRange (", "HloLiveRange not available"),
        signs=(r"^HloLiveRange ",),
        parser="hlo_lens.buffers.live_range_reader:parse_live_range",
        field="live_range",
        flag="--xla_dump_buffer_assignment_analysis=true",
        used_for="what is alive at the peak",
    ),
    KindRow(
        kind=DumpKind.MEMORY_USAGE_REPORT,
        part="memory-usage-report",
        headers=("Memory Space: ", "Allocations sorted by size"),
        signs=(r"^Memory Space: |^Allocations sorted by size",),
        parser="hlo_lens.buffers.memory_usage_reader:parse_memory_usage_report",
        field="usage_report",
        flag=AS_TEXT,
        used_for="a check of our sums",
    ),
    KindRow(
        kind=DumpKind.HLO_PROTO,
        part=PROTO,
        parser="hlo_lens.load.protos:read_proto",
        flag="--xla_dump_hlo_as_proto",
    ),
    KindRow(kind=DumpKind.LOG, parser="hlo_lens.logs.logs_log:parse_log"),
    KindRow(kind=DumpKind.CALL_TREE, parser="hlo_lens.call_trees.reader:parse_call_trees"),
    KindRow(
        kind=DumpKind.MLIR,
        signs=(r"^(?:#loc|module @|module attributes|module \{|func\.func )",),
        parser="hlo_lens.hlo.lowered_reader:parse_stablehlo",
    ),
    KindRow(
        kind=DumpKind.LAZY_IR,
        signs=(rf"^{_LAZY_IR}",),
        refusal=f"this is the IR of PyTorch's lazy tensors, not HLO; for HLO run the program with "
        f'XLA_FLAGS="{TEXT_FLAGS}", or print torch_xla._XLAC._get_xla_tensors_hlo([tensor])',
    ),
    KindRow(
        kind=DumpKind.TORCH_MESSAGE,
        signs=(r"^[^\n]{0,200}(?:CUDA|HIP|XPU) out of memory\. Tried to allocate ",),
        refusal="this is a message of PyTorch's own allocator, not of XLA; it has no values of a "
        "program: torch.cuda.memory._dump_snapshot has them",
    ),
    KindRow(
        kind=DumpKind.NEURON_MESSAGE,
        signs=(r"^[^\n]{0,400}(?:\|\|NEURON_C|neuronx?-cc\b|\[(?:TENSORIZER|NLA\d+|NCC_\w+)\])",),
        refusal="this is a message of Neuron's compiler (neuronx-cc), not of XLA; it has no values "
        "of a program: hlo-lens reads the .hlo_module.pb that it compiles",
    ),
    KindRow(
        kind=DumpKind.SNAPSHOT,
        signs=(r'\A\s*\{\s*"schema_version": ?\d{1,9},\s*"kind": ?"snapshot"',),
        refusal="this is a snapshot of hlo-lens save, which diff and check compare with a dump; "
        "give the dump that it was made from",
    ),
    KindRow(
        kind=DumpKind.LLVM_IR,
        signs=(r"^(?:; ModuleID|source_filename = |target (?:datalayout|triple))",),
        refusal="this is LLVM IR, not HLO",
    ),
    KindRow(
        kind=DumpKind.PTX,
        signs=(r"^(?:\.version \d|// Generated by LLVM NVPTX)",),
        refusal="this is PTX, not HLO",
    ),
    KindRow(
        kind=DumpKind.GRAPH,
        signs=(
            r"\A\s*digraph G \{\s*rankdir",
            r"\A\s*<!DOCTYPE html>\s*<html>\s*<head>\s*<meta charset=\"utf-8\">\s*<style[^>]*>"
            r"[^<>]*#(?:rendered|graph-container) \{",
        ),
        refusal=f"this is a graph that XLA drew, without the text; dump text with {AS_TEXT}",
    ),
    KindRow(
        kind=DumpKind.TEXTPROTO,
        signs=(r"\A\s*(?:#.*\n\s*)*[a-z_][a-z_0-9]*(?:: ?\S| ?\{)",),
        refusal="this looks like a text proto, not HLO",
    ),
    KindRow(kind=DumpKind.ARCHIVE, refusal="this is an archive, not HLO"),
    KindRow(kind=DumpKind.EMPTY, refusal="the file is empty"),
    KindRow(
        kind=DumpKind.BINARY,
        refusal=f"this is binary data, neither text nor a proto of XLA; dump text with {AS_TEXT}",
    ),
    KindRow(
        kind=DumpKind.OTHER,
        refusal="expected 'HloModule' or a computation, found no dump of XLA",
    ),
)

ROW_OF = {row.kind: row for row in ROWS}
BUFFER_ROWS = tuple(row for row in ROWS if row.field)
"""Rows of the buffer-side texts."""

BUFFER_PARTS = {row.kind: row.part for row in BUFFER_ROWS if row.part is not None}
"""Kinds of buffer-side text and their parts of XLA's file names."""

BUFFER_HEADERS = (*(word for row in BUFFER_ROWS for word in row.headers), "Total bytes used: ")
"""Words that header lines of the buffer-side texts begin with; two kinds share the last."""


def part_of(kind: DumpKind | None) -> str | None:
    """Return the part of a module that a file of a kind holds; None if it holds none."""
    return None if kind is None else ROW_OF[kind].part
