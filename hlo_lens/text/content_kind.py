"""The kind of a dump by its content, never by its name: text, proto or archive."""

from __future__ import annotations

import re

from hlo_lens.text.dump_kinds import ROWS, DumpKind
from hlo_lens.text.log_words import has_log_words

_BOX_LINE = (
    r"[ \t\xa0\u2502\u2503\u2551]*+[\u251c\u2523\u2560\u2514\u2517\u255a\u2570]"
    r"[\u2500\u2501\u2550]+\u252c?[ \t\xa0]*+[^\s\u2500-\u257f][^\n]*+"
)
_ASCII_LINE = r"(?:[ \t]|\|(?!-))*+[|+`\\]-{1,4}+[ \t][^\s|+`\\-][^\n]*+"
_ANY_LINE = rf"(?:{_BOX_LINE}|{_ASCII_LINE})"
_TABLE_LINES = r"[ \t]*+(?:FORWARD|BACKWARD) PASS[ \t]*+\n[ \t]++\*{1,2}\S"
_CALL_TREE = re.compile(
    rf"^(?:[^\s|\u2500-\u257f][^\n|\u2500-\u257f]{{0,119}}?[\]:>-] ?)?{_BOX_LINE}\n"
    rf"(?:[^\n]*+\n)??[^\n\u2500-\u257f]{{0,121}}{_BOX_LINE}$"
    rf"|^[^\n]*+(?<=[\d)\]])[^\S\n]*+\n{_ANY_LINE}(?<=[\d)\]])$|^{_TABLE_LINES}"
    rf"|^{_ASCII_LINE}(?<=[\d)\]])[^\S\n]*+\n{_ASCII_LINE}$",
    re.MULTILINE,
)
"""Two branches with names; in ASCII also a place at the end of the first; or a place and a branch
with one; or what PyTorch's CommDebugMode prints."""

BRANCHES = (
    *("\u251c\u2500", "\u2514\u2500", "\u2570\u2500", "\u2523\u2501", "\u2517\u2501"),
    *("\u2560\u2550", "\u255a\u2550", "|-", "+-", "`-", "\\-", " PASS"),
)
"""What a call tree has at least one of; a text without any need not be searched for one."""


def call_tree_start(text: str) -> int | None:
    """Return where a text begins to draw a call tree, or None."""
    if not any(branch in text for branch in BRANCHES):
        return None
    match = _CALL_TREE.search(text)
    return None if match is None else match.start()


_BOX_LINE_HINT = re.compile("[\u251c\u2523\u2560\u2514\u2517\u255a\u2570]")
_PLACED = re.compile(rf"^[^\n\u2500-\u257f]{{0,121}}{_BOX_LINE}", re.MULTILINE)
_PLACE = re.compile(r"\.[A-Za-z]\w{0,4}:\d|\bline \d")


def draws_calls(text: str) -> bool:
    """Return whether a text draws a tree of calls: of lists of files and packages a log has many.

    Calls have places, a file and a line, or are those that PyTorch's CommDebugMode prints.
    """
    start = call_tree_start(text)
    if start is None:
        return False
    if not _BOX_LINE_HINT.search(text, start):
        return True
    return any(_PLACE.search(line[0]) for line in _PLACED.finditer(text, start))


_SIGNS = tuple((row.kind, re.compile(sign, re.MULTILINE)) for row in ROWS for sign in row.signs)

_HEADER_INSIDE = re.compile(r"(?<![\w.\"'\\-])HloModule [A-Za-z_][\w.-]*+, [a-z_]++=")
"""A header that a log prints after other words on its line."""

_WEAK = (DumpKind.TEXTPROTO, DumpKind.MLIR, DumpKind.LLVM_IR)
"""Kinds whose signs a log may have too."""

_SNIFFED = 1 << 16
"""How many characters decide the kind, unless a log holds the dump further down."""


def sniff(text: str) -> DumpKind:
    """Return the kind of a text by its content, never by its name.

    What stands first decides; a dump inside a log is found wherever it begins.
    """
    if not text or text.isspace():
        return DumpKind.EMPTY
    head = text[:_SNIFFED]
    if _is_binary(head):
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
    """Return what `sniff` returns for a text that begins so; None where only `sniff` can tell.

    A folder of thousands of files is sorted by it.
    """
    if archive_form(head) is not None:
        return DumpKind.ARCHIVE
    if proto_message(head) is not None:
        return DumpKind.HLO_PROTO
    begin = head.lstrip()
    return next((kind for sign, kind in _STARTS if begin.startswith(sign)), None)


_STRANGE = re.compile(r"[\0-\x08\x0e-\x1a\x1c-\x1f\ufffd]|\\x[89a-f]")
"""Control characters, and what `decode` makes of bytes that are no text."""


def _is_binary(head: str) -> bool:
    """Whether a text is the decoding of bytes that are no text."""
    strange = len(_STRANGE.findall(head))
    return strange * 20 > len(head) and _SIGNS[0][1].search(head) is None


PROTO_MESSAGES = ("HloModuleProto", "HloProto", "HloSnapshot")
"""By how many messages the module is inside of."""

PROTO_HEAD = 1 << 13
"""How many bytes tell a proto."""

_FIRST_FIELD, _SECOND_FIELD = b"\x0a", b"\x12"
_PROTO_NAME = re.compile(rb"[\x21-\x7e]{1,4096}")


def proto_message(head: bytes) -> str | None:
    """Return which proto some bytes are, or the beginning of; None if they are none of XLA's.

    Messages do not say what they are. Each of these begins with its first field, which is a message
    inside, or the module's name, behind which comes the name of the entry computation.
    """
    position = 0
    for message in PROTO_MESSAGES:
        if head[position : position + 1] != _FIRST_FIELD:
            return None
        length, position = _varint(head, position + 1)
        end = position + length
        is_name = _PROTO_NAME.fullmatch(head, position, min(end, len(head)))
        if is_name and head[end : end + 1] == _SECOND_FIELD:
            return message
    return None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number of a proto and the position behind it; 0 where it is cut off or too long."""
    number = 0
    for place, byte in enumerate(data[position : position + 10]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, position + place + 1
    return 0, len(data)


_TAR_CHECKSUM = slice(148, 156)
_TAR_BLOCK = 512


def archive_form(head: bytes) -> str | None:
    """Return ``zip`` or ``tar`` for a file that begins so; None for any other."""
    if head.startswith((b"PK\3\4", b"PK\5\6", b"PK\7\x08")):
        return "zip"
    block = head[:_TAR_BLOCK]
    stated = block[_TAR_CHECKSUM].strip(b" \0")
    if len(block) < _TAR_BLOCK or not stated or stated.strip(b"01234567"):
        return None
    known = sum(block) - sum(block[_TAR_CHECKSUM]) + 8 * ord(" ")
    return "tar" if known == int(stated, 8) else None
