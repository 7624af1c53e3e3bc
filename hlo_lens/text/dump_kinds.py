"""Kinds of dumps: a table with one row each, and the kind of a file by its content.

A row has the kind's part of XLA's file names, its header lines, its parser, the field that keeps
the parsed text, and the XLA flag that writes it. Everything that depends on the kind of a dump
(recognizing content, splitting file names, cutting logs, reading, advice) asks this table.

A file is recognized by content, never by its name. First words of dumps are those of the grammars.
Source of the file names: xla/service/dump.cc, FilenameFor.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from hlo_lens.grammar.lines import first_word
from hlo_lens.text.log_words import has_log_words
from hlo_lens.text.names import lazy_pattern
from hlo_lens.text.units import bounded_int


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
    SNAPSHOT = "snapshot of hlo-lens"
    CODE = "LLVM IR or PTX"
    ARCHIVE = "archive"
    HLO_PROTO = "HLO proto"
    BINARY = "binary data"
    EMPTY = "empty"
    OTHER = "text of unknown kind"


PROTO = "hlo-proto"
"""Part of a module that a ``.hlo.pb`` file holds."""


AS_TEXT = "--xla_dump_hlo_as_text"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """Everything that depends on one dump kind.

    Attributes:
        part: Part of the module that a file of this kind holds, as in XLA's file names:
            ``live-range`` in ``x-live-range.txt``; empty for HLO text; None if it holds no part.
        headers: Words that a header line of this kind alone begins with; the first one begins the
            text in a log.
        parser: ``module:function`` that parses the text; empty if hlo-lens does not read it.
        field: Field of `BufferTexts` that keeps the parsed text; empty for kinds that are no
            buffer-side text.
        flag: XLA flag that writes it, if XLA writes a file of it.
        used_for: What hlo-lens shows of it; empty if ``hlo-lens doctor`` does not ask for it.
    """

    kind: DumpKind
    part: str | None = None
    headers: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    parser: str = ""
    field: str = ""
    flag: str = AS_TEXT
    used_for: str = ""
    refusal: str = ""


TEXT_FLAGS = f"--xla_dump_to=DIR {AS_TEXT}"
"""Flags that write the texts of all modules into a folder."""

TREE_FORMS = "a drawn call tree ('├── function, file:line', '|-- function')"
"""Texts that `hlo-lens tree` reads."""

_HLO, _ENTRY, _ROOT = (first_word(word, "hlo_module") for word in ("HLO_MODULE", "ENTRY", "ROOT"))
HLO_MODULE = _HLO + " "
TOTAL_BYTES = first_word("_TOTAL", "buffer_values") + " "
"""First words of a module, and of the used values and of a memory-usage report of 2024 to 2026."""

_ASSIGNMENT = first_word("_BUFFER_ASSIGNMENT", "buffer_assignment")
_USED_VALUES = first_word("_USED_VALUES", "buffer_values")
_RANGE, _NO_RANGE = (first_word(word, "live_range") for word in ("_LIVE_RANGE", "_NOT_AVAILABLE"))
_SPACE = first_word("_MEMORY_SPACE", "memory_usage_report") + " "
_SORTED = first_word("_SORTED", "memory_usage_report").removesuffix(":")

_SHAPE = r"(?:\(|b\(|[a-z][a-z0-9]*\[)"

_LAZY_IR = r"[ \t]*IR[ \t]*\{[ \t]*\n[^\n=]*=[^\n]*\w::\w"

_UNKNOWN = "expected 'HloModule' or a computation, found no dump of XLA"

ROWS = (
    KindRow(
        kind=DumpKind.HLO,
        part="",
        headers=(HLO_MODULE,),
        signs=(
            rf"^[ \t]*{_HLO}(?:[ ,]|$)",
            rf"^(?!{_LAZY_IR})"
            rf"[ \t]*(?:{_ENTRY}[ \t]+)?%?[A-Za-z_][\w.-]*[ \t]*(?:\((?=.*->).*)?\{{[ \t]*\n"
            rf"\s*(?:{_ROOT}\s+)?%?[\w.-]+\s+=\s",
            rf"^[ \t]*{_ENTRY}[ \t]*\{{",
            rf"\A\s*(?:{_ROOT}\s+)?%?[\w.-]+\s+=\s+(?:{_SHAPE}.*?\s)?[a-z][a-z0-9-]*\(",
        ),
        parser="hlo_lens.hlo.module_reader:parse_hlo_modules",
    ),
    KindRow(
        kind=DumpKind.BUFFER_ASSIGNMENT,
        part="buffer-assignment",
        headers=(_ASSIGNMENT,),
        signs=(rf"^{re.escape(_ASSIGNMENT)}",),
        parser="hlo_lens.buffers.assignment_reader:parse_buffer_assignment",
        field="assignment",
        used_for="memory as XLA assigned it",
    ),
    KindRow(
        kind=DumpKind.BUFFER_VALUES,
        part="buffer-assignment-values",
        headers=(_USED_VALUES,),
        signs=(rf"^{TOTAL_BYTES}.*\n\s*{_USED_VALUES}|^{_USED_VALUES}",),
        parser="hlo_lens.buffers.assignment_reader:parse_buffer_values",
        field="values",
    ),
    KindRow(
        kind=DumpKind.LIVE_RANGE,
        part="live-range",
        headers=(f"{_RANGE} (", _NO_RANGE),
        signs=(rf"^{_RANGE} ",),
        parser="hlo_lens.buffers.live_range:parse_live_range",
        field="live_range",
        flag="--xla_dump_buffer_assignment_analysis=true",
        used_for="what is alive at the peak",
    ),
    KindRow(
        kind=DumpKind.MEMORY_USAGE_REPORT,
        part="memory-usage-report",
        headers=(_SPACE, _SORTED),
        signs=(rf"^{_SPACE}|^{_SORTED}",),
        parser="hlo_lens.buffers.memory_usage:parse_memory_usage_report",
        field="usage_report",
        used_for="a check of our sums",
    ),
    KindRow(
        kind=DumpKind.HLO_PROTO,
        part=PROTO,
        parser="hlo_lens.load.protos:read_proto",
        flag="--xla_dump_hlo_as_proto",
    ),
    KindRow(kind=DumpKind.LOG, parser="hlo_lens.logs.log:parse_log"),
    KindRow(kind=DumpKind.CALL_TREE, parser="hlo_lens.call_trees.tree:parse_call_trees"),
    KindRow(
        kind=DumpKind.MLIR,
        signs=(r"^(?:#loc|module @|module attributes|module \{|func\.func )",),
        parser="hlo_lens.hlo.lowered:parse_stablehlo",
    ),
    KindRow(
        kind=DumpKind.SNAPSHOT,
        signs=(r'\A\s*\{\s*"schema_version": ?\d{1,9},\s*"kind": ?"snapshot"',),
        refusal="this is a snapshot of hlo-lens save; give the dump that it was made from",
    ),
    KindRow(
        kind=DumpKind.CODE,
        signs=(
            r"^(?:; ModuleID|source_filename = |target (?:datalayout|triple)|\.version \d"
            r"|// Generated by LLVM NVPTX)",
        ),
        refusal="this is LLVM IR or PTX, not HLO",
    ),
    KindRow(
        kind=DumpKind.TEXTPROTO,
        signs=(r"\A\s*(?:#.*\n\s*)*[a-z_][a-z_0-9]*(?:: ?\S| ?\{)",),
        refusal="this looks like a text proto, not HLO",
    ),
    KindRow(kind=DumpKind.ARCHIVE, refusal="this is an archive, not HLO"),
    KindRow(kind=DumpKind.EMPTY, refusal="the file is empty"),
    KindRow(kind=DumpKind.BINARY, refusal="this is binary data, neither text nor a proto of XLA"),
    KindRow(kind=DumpKind.OTHER, refusal=_UNKNOWN),
)

ROW_OF = {row.kind: row for row in ROWS}
BUFFER_ROWS = tuple(row for row in ROWS if row.field)
"""Rows of the buffer-side texts."""

BUFFER_PARTS = {row.kind: row.part for row in BUFFER_ROWS if row.part is not None}
"""Kinds of buffer-side text and their parts of XLA's file names."""

BUFFER_HEADERS = (*(word for row in BUFFER_ROWS for word in row.headers), TOTAL_BYTES)
"""Words that header lines of the buffer-side texts begin with; two kinds share the last."""


def part_of(kind: DumpKind | None) -> str | None:
    """Return the part of a module that a file of a kind holds; None if it holds none."""
    return None if kind is None else ROW_OF[kind].part


_BOX_LINE = (
    r"[ \t\xa0\u2502\u2503\u2551]*+[\u251c\u2523\u2560\u2514\u2517\u255a\u2570]"
    r"[\u2500\u2501\u2550]+\u252c?[ \t\xa0]*+[^\s\u2500-\u257f][^\n]*+"
)
_ASCII_LINE = r"(?:[ \t]|\|(?!-))*+[|+`\\]-{1,4}+[ \t][^\s|+`\\-][^\n]*+"
_ANY_LINE = rf"(?:{_BOX_LINE}|{_ASCII_LINE})"
_CALL_TREE = lazy_pattern(
    rf"^(?:[^\s|\u2500-\u257f][^\n|\u2500-\u257f]{{0,119}}?[\]:>-] ?)?{_BOX_LINE}\n"
    rf"(?:[^\n]*+\n)??[^\n\u2500-\u257f]{{0,121}}{_BOX_LINE}$"
    rf"|^[^\n]*+(?<=[\d)\]])[^\S\n]*+\n{_ANY_LINE}(?<=[\d)\]])$"
    rf"|^{_ASCII_LINE}(?<=[\d)\]])[^\S\n]*+\n{_ASCII_LINE}$",
    re.MULTILINE,
)
"""Two named branches (in ASCII the first one ends in a source location), or a source location
followed by a branch with one."""

BRANCHES = ("├─", "└─", "╰─", "┣━", "┗━", "╠═", "╚═", "|-", "+-", "`-", "\\-")
"""Character sequences of which every call tree has at least one: a quick test before the search."""


def call_tree_start(text: str) -> int | None:
    """Return the offset of the first call tree in a text, or None."""
    if not any(branch in text for branch in BRANCHES):
        return None
    match = _CALL_TREE.search(text)
    return None if match is None else match.start()


_PLACED = lazy_pattern(
    rf"^[^\n\u2500-\u257f]{{0,121}}?(?={_ANY_LINE})[^\n]*(?:\.[A-Za-z]\w{{0,4}}:\d|\bline \d)",
    re.MULTILINE,
)


def draws_calls(text: str) -> bool:
    """Whether a text has a tree of calls with places, not only of files as logs often have."""
    start = call_tree_start(text)
    return start is not None and _PLACED.search(text, start) is not None


_SIGNS = tuple((row.kind, lazy_pattern(sign, re.MULTILINE)) for row in ROWS for sign in row.signs)

_HEADER_INSIDE = lazy_pattern(rf"(?<![\w.\"'\\-]){HLO_MODULE}[A-Za-z_][\w.-]*+, [a-z_]++=")
"""A module header that follows other words on its line, as in a log."""

_WEAK = (DumpKind.TEXTPROTO, DumpKind.MLIR, DumpKind.CODE)
"""Kinds whose signs also occur in logs."""

_SNIFFED = 1 << 16
"""Characters that decide the kind, unless a dump begins further down in a log."""


def sniff(text: str) -> DumpKind:
    """Return the kind of a text by its content.

    The first dump in the text decides; a dump inside a log is found wherever it begins.
    """
    if text.startswith(HLO_MODULE):  # as almost all do; no other sign precedes it
        return DumpKind.HLO
    if not text or text.isspace():
        return DumpKind.EMPTY
    head = text[:_SNIFFED]
    if len(_STRANGE.findall(head)) * 20 > len(head) and _SIGNS[0][1].search(head) is None:
        return DumpKind.BINARY
    found = [
        (m.end() - len(m[0].lstrip()), rank, kind)
        for rank, (kind, sign) in enumerate(_SIGNS)
        if (m := sign.search(head)) is not None
    ]
    tree = call_tree_start(head)
    if tree is not None:
        found = [one for one in found if one[2] not in _WEAK]
        found.append((tree, len(_SIGNS), DumpKind.CALL_TREE))
    if found:
        kind = min(found)[2]
        if kind not in _WEAK:
            return kind
        if not _HEADER_INSIDE.search(text) and not has_log_words(text):
            return kind
    if _SIGNS[0][1].search(text) or _HEADER_INSIDE.search(text):
        return DumpKind.HLO
    if has_log_words(text):
        return DumpKind.LOG
    return DumpKind.OTHER if call_tree_start(text) is None else DumpKind.CALL_TREE


_STARTS = tuple((word.encode(), row.kind) for row in ROWS for word in row.headers)


def sniff_start(head: bytes) -> DumpKind | None:
    """Return the kind of a file by its first bytes; None where `sniff` has to read the text.

    Fast enough to sort folders of thousands of files.
    """
    if archive_form(head) is not None:
        return DumpKind.ARCHIVE
    if proto_message(head) is not None:
        return DumpKind.HLO_PROTO
    begin = head.lstrip()
    return next((kind for sign, kind in _STARTS if begin.startswith(sign)), None)


_STRANGE = lazy_pattern(r"[\0-\x08\x0e-\x1a\x1c-\x1f\ufffd]|\\x[89a-f]")
"""Control characters, and the escapes that `decode` writes for bytes that are no text."""


PROTO_MESSAGES = ("HloModuleProto", "HloProto", "HloSnapshot")
"""Kinds of proto; each one contains the one before it."""

PROTO_HEAD = 1 << 13
"""Bytes that `proto_message` needs."""

_PROTO_NAME = re.compile(rb"[\x21-\x7e]{1,4096}")
_VARINT = re.compile(rb"[\x80-\xff]{0,9}[\x00-\x7f]")


def proto_message(head: bytes) -> str | None:
    """Return the kind of proto that bytes begin, one of `PROTO_MESSAGES`; None for other bytes.

    Protos carry no type. Each of these begins with its first field: the next inner message, and in
    the innermost the module's name, followed by the name of the entry computation.
    """
    position = 0
    for message in PROTO_MESSAGES:
        if head[position : position + 1] != b"\x0a":  # field 1
            return None
        length, position = _varint(head, position + 1)
        end = position + length
        is_name = _PROTO_NAME.fullmatch(head, position, min(end, len(head)))
        if is_name and head[end : end + 1] == b"\x12":  # field 2
            return message
    return None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a varint and the offset of its end; 0 if it is cut off or too long."""
    found = _VARINT.match(data, position)
    if found is None:
        return 0, len(data)
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(found[0])), found.end()


def archive_form(head: bytes) -> str | None:
    """Return ``zip`` or ``tar`` if a file that begins with these bytes is one, else None."""
    if head.startswith((b"PK\3\4", b"PK\5\6", b"PK\7\x08")):
        return "zip"
    block, checksum = head[:512], slice(148, 156)
    stated = block[checksum].strip(b" \0")
    if len(block) < 512 or not stated or stated.strip(b"01234567"):
        return None
    known = sum(block) - sum(block[checksum]) + 8 * ord(" ")
    return "tar" if known == int(stated, 8) else None


BEFORE = "before_optimizations"
"""Stage whose text is the program as the framework gave it."""

AFTER = "after_optimizations"
"""End of the name of the stage whose text is the program that runs."""

_KNOWN = r"""
    (?:(?:cpu|gpu|sm_[\d.]+[a-z]?_gpu|gfx[0-9a-f]+_gpu)_)?
        after_optimizations(?:_before_buffer_assignment|_after_buffer_assignment)?
  | before_optimizations | after_spmd_partitioner | before_config_assignment
  | after_codegen(?:_after_hlo_sanitization)? | oom_intermediate_module
"""
_PASS = r"\d{4,5}\.[^/]+\.after_[^/]+\.before_[^/]+"
_PASS_STEP = r"\d{4}\.(?!autotuner_|triton_fusion|cudnn_fusion)[^/]+"
PACKED = r"(?:\.(?:gz|xz|bz2|zst))?"
"""Pattern of the optional second extension of compressed files."""

_PARTS = "|".join(sorted(BUFFER_PARTS.values(), key=len, reverse=True))
_STAGES = lazy_pattern(
    rf"""(?P<module>.*)\.(?P<stage>{_KNOWN} | {_PASS} | {_PASS_STEP})
    (?P<part>-(?:{_PARTS}))?
    \.(?:txt|hlo|(?P<proto>hlo\.pb)){PACKED}$""",
    re.VERBOSE | re.DOTALL,
)
"""Both module names and stages contain dots. The longest module name is the right one: no stage is
a suffix of another."""

_INSIDE_PASS = lazy_pattern(r"\.\d{4,5}\.[^/]+\.after_[^/]+$")
_PART_ONLY = lazy_pattern(rf"\.({_PARTS})\.txt{PACKED}$")
"""Names that users give to single parts."""

_NUMBERED = lazy_pattern(r"(?:^|\.)module_(\d{4,})(?:\.|$)")
_STAMPED = lazy_pattern(r"^\d+\.(?=module_\d{4,}(?:\.|$))")  # --xla_dump_include_timestamp
_TITLE = lazy_pattern(r"^(?:\d+\.)?module_\d{4,}\.?|\.cl_\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpFileName:
    """Parts of the name of a dump file.

    Attributes:
        module: Everything before the stage: time stamp, module number, module name, change list.
        stage: Stage such as ``cpu_after_optimizations``, None if the name has none.
        part: ``buffer-assignment`` and so on, ``hlo-proto``; empty for the HLO text.
    """

    module: str
    number: int | None
    stage: str | None
    part: str

    @property
    def is_stamped(self) -> bool:
        """Whether it has a time stamp of its own."""
        return _STAMPED.match(self.module) is not None

    @property
    def key(self) -> str:
        """Number, name and change list: equal for all files of one module in a folder."""
        return without_stamp(self.module)


def without_stamp(name: str) -> str:
    """Return a name without the time stamp that ``--xla_dump_include_timestamp`` puts before it."""
    return _STAMPED.sub("", name)


def title_of(module: str) -> str:
    """Return the module's name in the first part of a file name.

    >>> title_of("module_0012.jit_f.cl_1003875606")
    'jit_f'
    """
    return _TITLE.sub("", module)


def split_file_name(name: str) -> DumpFileName:
    """Return the parts of a file name; accepts any name."""
    stage = _STAGES.match(name)
    part = None if stage else _PART_ONLY.search(name)
    if part:
        return DumpFileName(module=name[: part.start()], number=None, stage="", part=part[1])
    module, found = (stage["module"], stage["stage"]) if stage else (name.split("/")[-1], None)
    if found is not None and (inside := _INSIDE_PASS.search(module)) is not None:
        module, found = module[: inside.start()], f"{module[inside.start() + 1 :]}.{found}"
    match = _NUMBERED.search(module)
    number = bounded_int(match[1]) if match else None
    text = (stage["part"] or "").removeprefix("-") if stage else ""
    text = PROTO if stage and stage["proto"] and not text else text
    return DumpFileName(module=module, number=number, stage=found, part=text)


def module_address(folder: str, name: str) -> str:
    """Return the folder and name of a module, which ``--module`` takes to select it alone.

    Newer dumps have a folder for each module, of its name, which is left out.

    >>> module_address("host0", "module_0001.jit_f"), module_address("jit_f", "jit_f")
    ('host0/module_0001.jit_f', 'jit_f')
    """
    above, _, last = folder.rpartition("/")
    return "/".join(part for part in (above if last == name else folder, name) if part)


_ARCHIVE_ENDS = lazy_pattern(r"\.(?:zip|t[gbxz]z2?|tar(?:\.\w+)?)$", re.IGNORECASE)


def without_archive_end(name: str) -> str:
    """Return the name of the folder that an archive was made from, by the archive's name.

    >>> without_archive_end("host0.tar.gz"), without_archive_end("jax-0.10.2")
    ('host0', 'jax-0.10.2')
    """
    return _ARCHIVE_ENDS.sub("", name)


_STAGE_FORMS = {
    r"before_optimizations$": 0,
    r"\d{4,5}\.": 10,
    r"after_spmd_partitioner$|before_config_assignment$|(?!.*after_(?:optimizations|codegen))": 40,
    r".*_before_buffer_assignment$": 60,
    r".*after_optimizations$": 100,
    r".*_after_buffer_assignment$": 90,
    r"after_codegen": 55,
    r"": 40,
}
"""Forms of stages in the order of compilation, and how close each is to the program that runs."""


def stage_rank(stage: str) -> int:
    """Return how close a stage is to the program that runs; final optimized text ranks highest."""
    ranks = (rank for form, rank in _STAGE_FORMS.items() if re.match(form, stage))
    return next(ranks) if stage else 50


def stage_order(stage: str) -> tuple[int, int, str]:
    """Return the place of a stage in the order of compilation, as a key for sorting."""
    number = stage.partition(".")[0]
    form = next(place for place, form in enumerate(_STAGE_FORMS) if re.match(form, stage))
    return form, bounded_int(number) if number.isdecimal() else 0, stage
