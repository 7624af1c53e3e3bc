"""Shardings, meshes, types and drawings that a log prints, in text order.

Values are found by their first word and end where their brackets close. Dumps of Python objects are
skipped and counted, and so are calls in source code. ``mesh.shape`` is an OrderedDict, which
programs print of other things too: it is a mesh only if the lines around it contain the word.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from lark import Lark, Token

from hlo_lens.grammar.parsers import build_parser, parse_with
from hlo_lens.logs.jax_values import CodeError, JaxMesh, JaxValue, mesh_of, parse_value, values_of
from hlo_lens.logs.messages import Refusals, find_anchors, line_end, line_start
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.log_words import BOXES, SHARDINGS, SHARDINGS_NEARBY
from hlo_lens.text.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxCell:
    """One box of a drawing.

    Attributes:
        row: Its row of boxes.
        column: Its column of boxes.
        text: Text in it.
        devices: Device ids, ascending; None if the text has none, or not all.
    """

    row: int
    column: int
    text: str = ""
    devices: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingBoxes:
    """Drawn boxes: which devices hold which part of a value of one or two dimensions.

    Attributes:
        rows: Rows of boxes.
        columns: Columns of boxes.
        cells: The boxes, row by row.
        platform: Word before the device ids, such as ``GPU``.
        label: The last words before it.
        line: 1-based line of the file where it begins.
        lines: Number of its lines.
    """

    rows: int
    columns: int
    cells: tuple[BoxCell, ...]
    platform: str = ""
    label: str = field(default="", compare=False)
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)


@dataclass(kw_only=True)
class ShardingLog:
    """Shardings in a log, in text order.

    Attributes:
        values: Meshes, shardings, specs, types.
        boxes: Drawings.
        dumps: Number of skipped dumps of Python objects.
        dump_lines: Number of their lines.
        code_calls: Number of skipped calls in source code, whose arguments are names.
        gaps: Values that could not be read.
        spans: Start and end of values and drawings in the text.
    """

    values: tuple[JaxValue, ...] = ()
    boxes: tuple[ShardingBoxes, ...] = ()
    dumps: int = 0
    dump_lines: int = 0
    code_calls: int = 0
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)
    spans: tuple[tuple[int, int], ...] = field(default=(), repr=False, compare=False)


_MOST_GAPS = 1000
_SHORT = 1 << 20
"""Texts shorter than this are searched for all words."""


def read_shardings(source: Source, others: Sequence[tuple[int, int]] = ()) -> ShardingLog | None:
    """Return the shardings in a log; None if there are none.

    Args:
        source: The log.
        others: Spans of other messages, which are not searched.
    """
    text, log = source.text, ShardingLog()
    boxes = list(_drawings(source))
    log.boxes = tuple(drawing for drawing, _ in boxes)
    values, gaps, spans = list[JaxValue](), list[Gap](), [span for _, span in boxes]
    skipped = sorted((*others, *_object_dumps(source, log)))
    skip = iter((*skipped, (len(text) + 1, len(text) + 1)))
    (start, stop), end, resume, refusals = next(skip), -1, -1, Refusals(text)
    for place, is_arrow in _candidates(text, has_boxes=bool(boxes)):
        while stop <= place:
            start, stop = next(skip)
        if place < max(end, resume) or start <= place:
            continue
        before = end
        try:
            read, end = _read_values(text, place, is_arrow=is_arrow)
        except (CodeError, DumpSyntaxError) as error:
            resume = refusals.end_after(place)
            if isinstance(error, CodeError) or (not is_arrow and _is_code(text, place)):
                log.code_calls += 1
            elif not is_arrow and len(gaps) < _MOST_GAPS:
                span = Span(place, min(line_end(text, place), place + 60))
                gaps.append(Gap.at(source, span, error.message))
            continue
        if read:
            label, line = _label(text, place, before), source.line_column(place)[0]
            values += [replace(value, label=label, line=line) for value in read]
            spans.append((place, end))
        else:
            resume = refusals.end_after(place)
    log.values, log.gaps, log.spans = tuple(values), tuple(gaps), tuple(spans)
    return log if values or boxes or gaps else None


def _is_code(text: str, place: int) -> bool:
    """Whether a call that was refused has the arguments of source code."""
    arguments = text[place : line_end(text, place)].partition("(")[2]
    return _CODE.match(arguments) is not None or "=" in arguments[:40]


_OBJECT_LINE = re.compile(r"^[ \t]+\"[^\"\n]* - <class '[^\n]*$", re.MULTILINE)
"""A line of a dump of a Python object: name, class, value."""


def _object_dumps(source: Source, log: ShardingLog) -> Iterator[tuple[int, int]]:
    """Yield the spans of dumps of objects, and count them."""
    text = source.text
    if " - <class '" not in text:
        return
    end = brace = -1
    for match in _OBJECT_LINE.finditer(text):
        if match.start() < end:
            continue
        head = text.rfind("\n", 0, max(0, match.start() - 1)) + 1
        if brace < match.end():
            brace = text.find("\n}", match.end())
            brace = len(text) if brace < 0 else brace
        end = match.end() if brace == len(text) else brace + 2
        first, last = (source.line_column(place)[0] for place in (head, end))
        log.dumps += 1
        log.dump_lines += last - first + 1
        yield head, end


# ---- values ------------------------------------------------------------------------------------

_CALL = re.compile(
    r"(?<![\w.])(?:(?:jax\.sharding\.|jax\.)?(?:AbstractMesh|Mesh|NamedSharding|PartitionSpec"
    r"|ShapeDtypeStruct|ShapedArray)|P)\("
)
_PAIR, _ITEM = r"\('[^'\n]{1,80}', \d{1,9}\)", r"'[^'\n]{1,80}': \d{1,9}"
_MESH_SHAPE = re.compile(
    rf"OrderedDict\((?:\[(?:{_PAIR}(?:, {_PAIR}){{0,31}})\]"
    rf"|\{{(?:{_ITEM}(?:, {_ITEM}){{0,31}})\}})\)"
)
"""``OrderedDict([('x', 4), ('y', 2)])``, since Python 3.12 ``OrderedDict({'x': 4, 'y': 2})``."""

_START = re.compile(rf"{_CALL.pattern}|{_MESH_SHAPE.pattern}")
_ARROW = re.compile(
    r"=>[ ]{0,2}(?=\S)[\w. ]{1,80}?[ ]{0,2}:[ ]{0,2}(?P<value>\(?\[?(?:[a-z]\w*\[[\d,]*\]"
    r"|\{(?:devices=|replicated|maximal|manual)))"
)
"""A line of a tracer, ``function => name : value``, with shapes or shardings of XLA."""

_CODE = re.compile(r"\s*(?:$|\)|[A-Za-z_][\w.]*\s*[,.)(\[])")
"""Arguments of a call in source code."""


def _candidates(text: str, *, has_boxes: bool) -> list[tuple[int, bool]]:
    """Return the possible starts of values, in text order, and whether an arrow is before each."""
    is_plain = len(text) >= _SHORT and not has_boxes
    is_plain = is_plain and not any(word in text for word in SHARDINGS)
    words = SHARDINGS if is_plain else (*SHARDINGS, *SHARDINGS_NEARBY)
    places: set[tuple[int, bool]] = set()
    done = -1
    for place in find_anchors(text, words):
        if place < done:
            continue
        start, done = max(line_start(text, place), done), line_end(text, place)
        places |= {(match.start(), False) for match in _START.finditer(text, start, done)}
        arrow = _ARROW.search(text, start, done) if " => " in text[start:done] else None
        if arrow is not None:
            places.add((arrow.start("value"), True))
    return sorted(places)


def _read_values(text: str, start: int, *, is_arrow: bool) -> tuple[tuple[JaxValue, ...], int]:
    """Return the values that begin at an offset, and their end.

    Raises:
        CodeError: If it is a call in source code.
        DumpSyntaxError: If the grammar refuses it, or it has no meaning.
    """
    if is_arrow:
        end = line_end(text, start)
        return values_of(text[start:end]), end
    shape = _MESH_SHAPE.match(text, start)
    if shape is not None:
        end = shape.end()
        value = _mesh_of_sizes(text, shape)
    else:
        stop = _brackets_end(text, start)
        if stop is None:
            if len(text) - start < _LONGEST and "\n" not in text[start:]:
                raise DumpSyntaxError("the value is cut off")
            return (), start
        end, value = stop, parse_value(text[start:stop])
    if value is not None and value.kind == "Mesh" and value.mesh is not None:
        value, end = _with_device_ids(value, value.mesh, text, end)
    return (() if value is None else (value,)), end


_LONGEST = 1 << 15
"""Most characters of a value."""

_BRACKET = re.compile(r"[()\[\]{}\n]|'(?:[^'\\\n]|\\.){0,1000}+'|\"(?:[^\"\\\n]|\\.){0,1000}+\"")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_MOST_LINES, _DEEPEST = 64, 32
"""Limits without which nested brackets that never close cost quadratic time."""


def _brackets_end(text: str, start: int) -> int | None:
    """Return the end of the brackets of a value; None if they do not close."""
    closing: list[str] = []
    lines = 0
    for match in _BRACKET.finditer(text, start, start + _LONGEST):
        character = match[0]
        lines += character == "\n"
        if character in _CLOSING:
            closing.append(_CLOSING[character])
        elif character in (")", "]", "}"):
            if not closing or closing.pop() != character:
                return None
            if not closing:
                return match.end()
        if lines > _MOST_LINES or len(closing) > _DEEPEST:
            return None
    return None


_TYPE = r"(?:AxisType\.)?(?:Auto|Explicit|Manual)"
_TYPES = re.compile(rf"(?i:types?)\w*[^\w\n(]{{1,4}}\(({_TYPE}(?:, {_TYPE})*),?\)")


def _mesh_of_sizes(text: str, shape: re.Match[str]) -> JaxValue | None:
    """Return the mesh of an OrderedDict of sizes; None if no line nearby names a mesh."""
    end = line_end(text, shape.end())
    before = text[max(0, shape.start() - 1000) : shape.start()].rsplit("\n", 3)[-3:]
    if "mesh" not in "\n".join((*before, text[shape.start() : end])).lower():
        return None
    axes = re.findall(r"'([^']+)'(?:,|:) (\d+)", shape[0])
    names, sizes = tuple(name for name, _ in axes), tuple(int(size) for _, size in axes)
    try:
        mesh = mesh_of(names, sizes, None)
    except DumpSyntaxError:
        return None
    match = _TYPES.search(text, shape.end(), min(end, shape.end() + 400))
    types = () if match is None else tuple(match[1].replace("AxisType.", "").split(", "))
    types = types if len(types) == len(names) else ()
    return JaxValue(kind="Mesh", text=shape[0], mesh=JaxMesh(mesh=mesh, axis_types=types))


_TABLE = re.compile(
    r"[^\S\n]*(?i:[^\[\n]{0,120}devices?\b[^\[\n]{0,60}|[^\[\n]{0,120}device_ids[^\[\n]{0,60})"
    r"(?:\n[^\S\n]*)?(?:array\()?(?P<rows>\[)"
)


def _with_device_ids(
    value: JaxValue, jax_mesh: JaxMesh, text: str, end: int
) -> tuple[JaxValue, int]:
    """Return a mesh with the device ids that the lines below it print, and their end."""
    table = _TABLE.match(text, line_end(text, end) + 1)
    stop = None if table is None else _brackets_end(text, table.start("rows"))
    if table is None or stop is None or jax_mesh.is_abstract:
        return value, end
    rows = text[table.start("rows") : stop]
    mesh = jax_mesh.mesh
    depth = len(rows) - len(rows.lstrip("["))
    ids = tuple(map(int, re.findall(r"\d{1,9}", rows)))
    counts = [len(row.split()) for row in re.findall(r"[\d\s]+\d", rows.replace(",", " "))]
    is_alike = depth == len(mesh.axis_sizes) and set(counts) == {mesh.axis_sizes[-1]}
    if not is_alike or len(ids) != mesh.size or len(set(ids)) != len(ids):
        return value, end
    placed = replace(jax_mesh, mesh=mesh_of(mesh.axis_names, mesh.axis_sizes, ids))
    return replace(value, mesh=placed), stop


_LABEL_END = re.compile(r"(?:[ \t]|[:=(\[,]|\bis\b|->|=>)*$")
_LONGEST_LABEL = 160
_MOST_WORDS = 7
"""Words of a label; a sentence that has more is none."""

_EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception|Warning)\b")
_KEY_PATH = re.compile(r"\bkey path (\S+)")


def _label(text: str, start: int, least: int) -> str:
    """Return the text before a value on its line, after the value before it.

    A sentence is no name of an array; that of an exception may contain one.
    """
    begin = max(line_start(text, start), start - _LONGEST_LABEL, least)
    words = _LABEL_END.sub("", text[begin:start]).strip()
    if _EXCEPTION.match(words) is None and len(words.split()) <= _MOST_WORDS:
        return words
    named = _KEY_PATH.search(words)
    return "" if named is None else named[1]


# ---- drawings ----------------------------------------------------------------------------------

_LONGEST_DRAWING = 1 << 20
_TOP = re.compile(r"[ \t]*┌[─┬]+┐[ \t]*\n[ \t]*│")
_BOTTOM = re.compile(r"^[ \t]*└[^\n]*(?:\n|\Z)", re.MULTILINE)
_DEVICES = re.compile(r"(?P<word>[A-Za-z][\w ]*?) ?(?P<ids>\d{1,9}(?:,\d{1,9})*)")


@functools.cache
def box_parser() -> Lark:
    """Return the parser of the lines of a drawing, in which spaces count."""
    return build_parser("sharding_boxes", start="drawing")


def _drawings(source: Source) -> Iterator[tuple[ShardingBoxes, tuple[int, int]]]:
    """Yield the drawings of devices, and the span of each."""
    end = -1
    for place in find_anchors(source.text, BOXES):
        drawn = _read_boxes(source, place) if place >= end else None
        if drawn is not None:
            end = drawn[1]
            if any(cell.devices for cell in drawn[0].cells):
                yield drawn[0], (place, end)


def _read_boxes(source: Source, place: int) -> tuple[ShardingBoxes, int] | None:
    """Return the drawing whose corner is at an offset, and its end; None if it is none."""
    text = source.text
    start = line_start(text, place)
    if _TOP.match(text, start) is None:
        return None
    bottom = _BOTTOM.search(text, place, place + _LONGEST_DRAWING)
    if bottom is None:
        return None
    try:
        tree = parse_with(box_parser(), Source(text[start : bottom.end()]), {})
    except DumpSyntaxError:
        return None
    tokens = tree.scan_values(lambda leaf: isinstance(leaf, Token))  # type: ignore[attr-defined] # a tree
    cells = _cells([str(token).rstrip()[place - start :] for token in tokens])
    if not cells:
        return None
    words = Counter(match["word"] for c in cells if (match := _DEVICES.fullmatch(c.text)))
    boxes = ShardingBoxes(
        rows=cells[-1].row + 1,
        columns=cells[-1].column + 1,
        cells=tuple(cells),
        platform=next(iter(words)) if len(words) == 1 else "",
        label=_words_above(text, start),
        line=source.line_column(start)[0],
        lines=text.count("\n", start, bottom.end() - 1) + 1,
    )
    return boxes, bottom.end()


def _cells(lines: Sequence[str]) -> list[BoxCell]:
    """Return the boxes, row by row; none if the lines do not form a grid."""
    walls = [k for k, character in enumerate(lines[0]) if character in "┌┬┐"]
    cells: list[BoxCell] = []
    texts = [""] * (len(walls) - 1)
    for line in lines[1:]:
        if len(line) != len(lines[0]) or any(line[wall] not in "│├┼┤└┴┘" for wall in walls):
            return []
        if line[0] == "│":
            for k, (left, right) in enumerate(pairwise(walls)):
                word = line[left + 1 : right].strip()  # long texts are broken over lines
                is_apart = word and texts[k] and (texts[k][-1].isalpha() or word[0].isalpha())
                texts[k] += " " * bool(is_apart) + word
            continue
        row = len(cells) // len(texts)
        for k, text in enumerate(texts):
            match = _DEVICES.fullmatch(text)
            ids = None if match is None else tuple(sorted(map(int, match["ids"].split(","))))
            cells.append(BoxCell(row=row, column=k, text=text, devices=ids))
        texts = [""] * len(texts)
    return cells


def _words_above(text: str, start: int) -> str:
    """Return the last line of words before an offset, at most two lines above."""
    for line in reversed(text[max(0, start - 1000) : start].split("\n")[-3:-1]):
        words = line.strip()
        if words:
            is_label = any(c.isalpha() for c in words) and not words.startswith("└")
            return words[:120] if is_label else ""
    return ""
