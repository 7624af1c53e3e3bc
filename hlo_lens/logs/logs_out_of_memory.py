"""Reader of the TPU compiler's out-of-memory messages in a log.

Regular expressions find start and end of a message; the grammar parses each of its sections. A
section that the grammar refuses is a gap, and the message is marked as incomplete.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping

from lark import Lark, Tree

from hlo_lens.buffers.lines import Node, find_all
from hlo_lens.grammar.parsers import build_parser, grammar_tree
from hlo_lens.logs.log_text import Block, Found, cut_block
from hlo_lens.logs.oom_values import SECTION_READERS, read_allocation, sentence_fields
from hlo_lens.logs.out_of_memory import CompileOutOfMemory, ProgramAllocation
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source

GRAMMARS = ("hlo_tokens", "out_of_memory")

STARTS = (
    "compile_oom",
    "ran_out",
    "hbm_usage",
    "output_size",
    "requirement",
    "allocation",
    "failed_operation",
    "failed_allocation",
    "allocator_state",
    "rematerialization_limit",
)

NAMES: Mapping[str, str] = {
    "SIZE": "a size such as 12.50G",
    "NATURAL": "a number",
    "SPACE": "a memory space",
    "WORD": "a word",
    "NUMBERED": "a numbered 'Size:'",
    "OPERATOR": "'Operator:'",
    "SHAPE": "'Shape:'",
    "LABEL": "'XLA label:'",
    "ALLOCATION_TYPE": "'Allocation type:'",
    "RULE": "'======'",
    "PART_NAME": "a part such as 'HLO temp'",
    "PERCENT": "a share such as 99.5%",
    "EXPANSION": "a factor such as '2.0x expansion'",
}
"""Names of the terminals in error messages."""

SIZE = r"-?\d+(?:\.\d+)?(?:[KMGTPE](?:i?B)?|B)"
_SENTENCE = re.compile(
    rf"""Ran[ ]out[ ]of[ ]memory[ ]in[ ]memory[ ]space[ ][a-z]\w*
      (?:\.(?:\s+Used\s+{SIZE}\s+of\s+{SIZE}(?:[ ]\w+)?\.?)?
         (?:\s+Exceeded\s+\w+\s+capacity\s+by\s+{SIZE}\.?)?
       | [ ]while[ ]allocating[ ]on[ ]stack[ ]for[ ]
         (?:[^\n]*?\.?\s*Scoped[ ]allocation[ ]with[ ]size\s+{SIZE}\s+and[ ]limit[ ]{SIZE}
          [ ]exceeded[ ]scoped[ ]\w+[ ]limit[ ]by[ ]{SIZE}\.?
         |[^\n]+))
      (?:\s+It[ ]should[ ]not[ ]be[ ]possible[^\n]*)?
    | Ran[ ]out[ ]of[ ]memory[ ]on[ ]HBM,[ ]the[ ]total[ ]memory[ ]required[ ]for[ ][\w ]+
      \({SIZE}\)\s+exceeds[ ]available[ ]\w+[ ]\({SIZE}\)\.(?:\s+HLO[ ]module:\s+[^\s]+)?
    | Allocation[ ]\(size=\d{{1,18}}\)[ ]would[ ]exceed[ ]memory[ ]\(size=\d{{1,18}}\)
      (?:[ ]::[ ]\#\w+[ ]\[[^\n]*?\](?=\s*(?:::|\n|\Z)))?(?:[ ]::[ ][^\n]+)?
    | TPU[ ]TensorCore[ ]Hbm[ ]usage:[ ]{SIZE},[ ]SparseCore[ ]Hbm[ ]usage[ ]{SIZE},[ ]exceeding
      [ ]available[ ]bytes:[ ]{SIZE}""",
    re.VERBOSE,
)
"""First sentence of a message."""

_LINE = re.compile(
    r"""\s*(?:
      Used[ ]-?\d | Exceeded[ ]\w+[ ]capacity | Scoped[ ]allocation[ ]with
    | It[ ]should[ ]not[ ]be[ ]possible
    | Total[ ]\w+[ ]usage[ ]>= | Output[ ]size[ ] | Program[ ]\w+[ ]requirement[ ]
    | (?:HLO[ ]temp|[a-z][a-z_ ]{1,30}?)[ ]+
      (?:-?\d+(?:\.\d+)?(?:[KMGTPE]|B)|unknown[ ]size)[ ]*(?:\(.*)?$
    | Largest[ ]program[ ]allocations[ ]in[ ] | \d{1,9}\.[ ]+Size: | Operator: | Shape:
    | Unpadded[ ]size: | Extra[ ]memory[ ]due[ ]to[ ]padding: | XLA[ ]label:
    | Allocation[ ]type: | ={5,}
    )""",
    re.VERBOSE,
)
_GLUED = re.compile(
    r"(?<=[^\s\d])[ ]*(?=Output size (?:\d|unknown)|Program \w+ requirement \d"
    r"|Largest program allocations in |\d{1,3}\. Size: )"
)
"""Position of a missing line end; web pages and chats lose them."""

_LONG_FIELD = re.compile(r"\s*(?:Operator|Shape|XLA label):")
_OTHERS = re.compile(r"[IWEF]\d{4} |\d{4}-\d\d-\d\d|[A-Z]+:|\s*\(|Traceback ")
"""Start of lines of other writers."""

_METADATA = re.compile(r"\s*[a-z_]+=")
_STOP = re.compile(
    r"Ran out of memory |would exceed memory \(|RESOURCE_EXHAUSTED|Resource exhausted"
)
_SECTION = re.compile(
    r"\s*(?:(Total \w+ usage)|(Output size)|(Program \w+ requirement)|(Largest program alloc)"
    r"|(\d{1,9}\.\s+Size:)|(={5,}))"
)
_SECTIONS = ("hbm_usage", "output_size", "requirement", "largest", "allocation", "rule")


def read_compile_oom(source: Source, place: int) -> Found[CompileOutOfMemory] | None:
    """Return the message around an offset; None if there is none."""
    start = source.text.rfind("Allocation (size=", max(0, place - 64), place)
    if start < 0 or not source.text.startswith("would exceed", place):
        start = place
    if not source.text.startswith(("Ran", "TPU", "Allocation"), start):
        return None
    block = cut_block(source, start, _Order(), wraps=_wraps, stops=_STOP.search)
    _unglue(block)
    text = "\n".join(block.lines)
    match = _SENTENCE.match(text)
    if match is None:
        return None
    reader = _Reader(block)
    taken = text.count("\n", 0, match.end()) + 1
    reader.sentence(match[0])
    if "would exceed" not in match[0]:
        reader.sections(taken)
    return Found(reader.done(), start, block.end, block.gaps)


class _Order:
    """Test whether a line belongs to a message and does not begin the next one."""

    def __init__(self) -> None:
        self._rank = 0

    def __call__(self, line: str) -> bool:
        first, *glued = _GLUED.split(line) if len(line) < _LONGEST_GLUED else [line]
        if _LINE.match(first) is None:
            return False
        for part in (first, *glued):
            match = _SECTION.match(part)
            rank = 0 if match is None else match.lastindex or 0
            if 0 < rank < _LISTED:
                if rank <= self._rank:
                    return False
                self._rank = rank
        return True


_LISTED = 5
"""Groups of `_SECTION` from this one on repeat within a message."""

_LONGEST_GLUED = 4096


def _wraps(line: str, other: str) -> bool:
    """Whether a long field is still open at the end of its line."""
    if _LONG_FIELD.match(line) is None or _OTHERS.match(other) is not None:
        return False
    if line.count('"') % 2 or _METADATA.match(other) is not None:
        return True
    return not line.endswith("...") and any(
        line.count(opening) != line.count(closing) for opening, closing in ("()", "[]", "{}")
    )


def _unglue(block: Block) -> None:
    """Insert missing line ends."""
    lines: list[str] = []
    offsets: list[int] = []
    for line, offset in zip(block.lines, block.offsets, strict=True):
        parts = _GLUED.split(line) if len(line) < _LONGEST_GLUED else [line]
        lines += parts
        offsets += [offset] * len(parts)
    block.lines, block.offsets = lines, offsets


class _Reader:
    """Reader of the sections of a block."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.fields: dict[str, object] = {}
        self.allocations: list[ProgramAllocation] = []
        self.is_complete = True

    def sentence(self, text: str) -> None:
        tree = self._tree("ran_out", text, 0, 1)
        if tree is not None:
            self.fields.update(sentence_fields(tree))

    def sections(self, first: int) -> None:
        """Read the sections from a line on."""
        if self.block.gaps:
            self.is_complete = False
        for kind, begin, end in _sections(self.block.lines, first):
            text = "\n".join(self.block.lines[begin:end])
            if kind == "largest" or not text.strip():
                continue
            if kind == "allocation" and end == len(self.block.lines) and self._is_cut(text):
                self.is_complete = False
                self.block.gap(begin, "the last allocation is cut off", lines=end - begin)
                continue
            tree = self._tree(kind, text, begin, end - begin)
            if tree is None:
                continue
            if kind in ("allocation", "failed_operation"):
                self.allocations.append(read_allocation(tree))
            else:
                self.fields.update(SECTION_READERS[kind](tree))

    def _is_cut(self, text: str) -> bool:
        """Whether the log ends inside a line that may be longer."""
        log = self.block.source.text
        at_end = self.block.end >= len(log) and not log.endswith("\n")
        return at_end and not text.rstrip().endswith("=====")

    def done(self) -> CompileOutOfMemory:
        fields = {"memory_space": "", **self.fields}
        return CompileOutOfMemory(
            **fields,  # type: ignore[arg-type] # fields by name, of the types that it has
            allocations=tuple(self.allocations),
            is_complete=self.is_complete,
        )

    def _tree(self, rule: str, text: str, index: int, lines: int) -> Node | None:
        """Return the tree of a section; None, with a gap, if the grammar refuses it."""
        try:
            return grammar_tree(parser(), NAMES, Source(text), rule, 0, len(text))
        except DumpSyntaxError as error:
            self.is_complete = False
            self.block.error(index, error, lines)
            return None


def _sections(lines: list[str], first: int) -> Iterator[tuple[str, int, int]]:
    """Yield kind, first line and line after the last of each section."""
    kind, begin, is_closed = "", first, False
    is_list = False
    for index in range(first, len(lines)):
        if not lines[index].strip():
            continue
        match = _SECTION.match(lines[index])
        found = "" if match is None else _SECTIONS[(match.lastindex or 1) - 1]
        if not found and is_list and (kind != "allocation" or is_closed):
            found = "allocation"  # lists without sizes have no numbers
        elif not found and not kind and _LONG_FIELD.match(lines[index]) is not None:
            found = "failed_operation"  # fields below the sentence, without a list
        if found and found != "rule":
            if kind:
                yield kind, begin, index
            kind, begin = found, index
        is_list = is_list or found == "largest"
        is_closed = found == "rule" or _TYPE.match(lines[index]) is not None
    if kind:
        yield kind, begin, len(lines)


_TYPE = re.compile(r"\s*Allocation type:")


@functools.cache
def parser() -> Lark:
    """Return the parser of all messages about memory."""
    return build_parser(*GRAMMARS, start=[*STARTS], has_positions=True, has_placeholders=False)


def parse_oom_with_grammar(source: Source) -> CompileOutOfMemory:
    """Return the one message in a source, read by the grammar alone.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    tree = grammar_tree(parser(), NAMES, source, "compile_oom", 0, len(source.text))
    sentence, *sections = (child for child in tree.children if isinstance(child, Tree))
    fields: dict[str, object] = {"memory_space": "", **sentence_fields(sentence)}
    allocations: list[ProgramAllocation] = []
    for section in sections:
        if section.data == "largest":
            allocations += [read_allocation(node) for node in find_all(section, "allocation")]
        elif section.data == "failed_operation":
            allocations.append(read_allocation(section))
        else:
            fields.update(SECTION_READERS[str(section.data)](section))
    return CompileOutOfMemory(**fields, allocations=tuple(allocations))  # type: ignore[arg-type] # fields by name
