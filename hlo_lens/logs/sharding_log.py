"""Reader of the shardings in a log: values, drawings, and counts of skipped objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hlo_lens.logs.jax_items import CodeError
from hlo_lens.logs.jax_values import JaxValue, ShardingBoxes, ShardingLog
from hlo_lens.logs.log_text import find_anchors, line_end, line_range
from hlo_lens.logs.logs_jax_values import START, read_value, values_of
from hlo_lens.logs.mesh_texts import MESH_SHAPE, read_mesh_shape, with_device_ids
from hlo_lens.logs.sharding_boxes import read_boxes
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.log_words import BOXES, SHARDINGS, SHARDINGS_NEARBY
from hlo_lens.text.source import Source, Span

_OBJECT_LINE = re.compile(r"^[ \t]+\"[^\"\n]* - <class '[^\n]*$", re.MULTILINE)
"""A line of a dump of a Python object: name, class, value."""

_ARROW = re.compile(r"=>[ ]*[\w. ]+[ ]*:[ ]*(?P<value>[\[({a-z][^\n]*?)[ \t]*$", re.MULTILINE)
"""A line of a tracer: ``function => name : value``."""

_BARE = re.compile(
    r"\(?\[?(?:[a-z]\w*\[[\d,]*\](?:\{[^}\n]*\})?|\{(?:devices=|replicated|maximal|manual)[^\n]*)"
)
"""A shape or a sharding in XLA's notation, or a list of them."""

_LABEL_END = re.compile(r"(?:[ \t]|[:=(\[,]|\bis\b|->|=>)*$")
_LONGEST_LABEL = 160
_MOST_WORDS = 7
"""Words of a label; a sentence that has more is none."""

_EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception|Warning)\b")
_KEY_PATH = re.compile(r"\bkey path (\S+)")
_MOST_GAPS = 1000
_SHORT = 1 << 20
"""Texts shorter than this are searched for all words."""


def read_shardings(
    source: Source, others: Sequence[tuple[int, int]] = ()
) -> tuple[ShardingLog, list[tuple[int, int]]]:
    """Return the shardings in a log, and the span of each part.

    Args:
        source: The log.
        others: Spans of other messages, which are not searched.
    """
    scan = _Scan(source, others)
    scan.boxes_of()
    scan.values_of()
    return scan.log(), scan.spans


class _Scan:
    """Scanner of a log."""

    def __init__(self, source: Source, others: Sequence[tuple[int, int]]) -> None:
        self.source = source
        self.text = source.text
        self.values: list[JaxValue] = []
        self.boxes: list[ShardingBoxes] = []
        self.gaps: list[Gap] = []
        self.spans: list[tuple[int, int]] = []
        self.code_calls = 0
        self._objects = [(m.start(), m.end()) for m in self._object_lines()]
        self._object = 0
        self._skipped = list(others)
        self.dumps = self.dump_lines = 0

    def _object_lines(self) -> Iterator[re.Match[str]]:
        return _OBJECT_LINE.finditer(self.text) if " - <class '" in self.text else iter(())

    def log(self) -> ShardingLog:
        return ShardingLog(
            values=tuple(self.values),
            boxes=tuple(sorted(self.boxes, key=lambda b: b.line)),
            dumps=self.dumps,
            dump_lines=self.dump_lines,
            code_calls=self.code_calls,
            gaps=tuple(self.gaps),
        )

    def _find_dumps(self) -> None:
        """Find the dumps of objects, which are skipped."""
        end = brace = -1
        for start, stop in self._objects:
            if start < end:
                continue
            head = self.text.rfind("\n", 0, max(0, start - 1)) + 1
            if brace < stop:
                brace = self.text.find("\n}", stop)
                brace = len(self.text) if brace < 0 else brace
            close = stop if brace == len(self.text) else brace + 2
            self.dumps += 1
            self.dump_lines += line_range(self.source, head, close + 1)[1]
            end = close
            self._skipped.append((head, close))

    # ---- drawings ------------------------------------------------------------------------------

    def boxes_of(self) -> None:
        end = -1
        for place, _ in find_anchors(self.text, BOXES):
            if place < end:
                continue
            found = read_boxes(self.source, place)
            if found is None:
                continue
            drawing, end = found
            if any(cell.devices for cell in drawing.cells):
                self.boxes.append(drawing)
                self.spans.append((place, end))

    # ---- values --------------------------------------------------------------------------------

    def values_of(self) -> None:
        """Find all values, in text order, without overlaps, none in dumps of objects."""
        self._find_dumps()
        self._skipped.sort()
        end = -1
        for start, kind in self._candidates():
            if start < end or self._is_skipped(start):
                continue
            found = self._read(start, kind)
            if found is None:
                continue
            label = self._label(start, end)
            values, end = found
            line = self.source.line_column(start)[0]
            self.values += [replace(value, label=label, line=line) for value in values]
            if values:
                self.spans.append((start, end))

    def _is_skipped(self, start: int) -> bool:
        while self._object < len(self._skipped) and self._skipped[self._object][1] <= start:
            self._object += 1
        return self._object < len(self._skipped) and self._skipped[self._object][0] <= start

    def _candidates(self) -> Iterator[tuple[int, str]]:
        """Yield the possible starts of values, in text order, and the word found there."""
        found: list[tuple[int, str]] = []
        done = -1
        words = SHARDINGS if self.is_plain() else (*SHARDINGS, *SHARDINGS_NEARBY)
        for place, _ in find_anchors(self.text, words):
            line = self.text.rfind("\n", 0, place) + 1
            if line <= done:
                continue
            done = line
            end = line_end(self.text, place)
            found += [(m.start(), "call") for m in START.finditer(self.text, line, end)]
            found += [(m.start(), "mesh") for m in MESH_SHAPE.finditer(self.text, line, end)]
            arrow = _ARROW.search(self.text, line, end)
            if arrow is not None and _BARE.match(arrow["value"]):
                found.append((arrow.start("value"), "arrow"))
        return iter(sorted(set(found)))

    def is_plain(self) -> bool:
        """Whether the log lacks all words that only shardings have; others are then not tried."""
        if len(self.text) < _SHORT or self.boxes:
            return False
        return not any(word in self.text for word in SHARDINGS)

    def _read(self, start: int, kind: str) -> tuple[tuple[JaxValue, ...], int] | None:
        """Return the values that begin at an offset, and their end; None if there are none."""
        end = line_end(self.text, start)
        try:
            if kind == "arrow":
                return values_of(self.text[start:end]), end
            if kind == "call":
                return self._with_ids(read_value(self.source, start))
            return self._with_ids(read_mesh_shape(self.text, start))
        except CodeError:
            self.code_calls += 1
            return None
        except DumpSyntaxError as error:
            self._refuse(start, end, kind, error)
            return None

    def _with_ids(
        self, found: tuple[JaxValue, int] | None
    ) -> tuple[tuple[JaxValue, ...], int] | None:
        """Return a value; a mesh with the device ids printed below it."""
        if found is None:
            return None
        value, end = found
        if value.kind == "Mesh":
            value, end = with_device_ids(value, self.text, end)
        return (value,), end

    def _refuse(self, start: int, end: int, kind: str, error: DumpSyntaxError) -> None:
        """Add a gap for a value that the grammar refused, or count source code."""
        if kind == "arrow":
            return
        words = self.text[start:end].partition("(")[2]
        if re.match(r"\s*(?:$|\)|[A-Za-z_][\w.]*\s*[,.)(\[])", words) or "=" in words[:40]:
            self.code_calls += 1
            return
        if len(self.gaps) < _MOST_GAPS:
            span = Span(start, min(end, start + 60))
            self.gaps.append(Gap.at(self.source, span, error.message))

    def _label(self, start: int, least: int) -> str:
        """Return the text before a value on its line, after the value before it.

        A sentence is no name of an array; that of an exception may contain one.
        """
        line = self.text.rfind("\n", 0, start) + 1
        words = self.text[max(line, start - _LONGEST_LABEL, least) : start]
        words = _LABEL_END.sub("", words).strip()
        if _EXCEPTION.match(words) is None and len(words.split()) <= _MOST_WORDS:
            return words
        named = _KEY_PATH.search(words)
        return "" if named is None else named[1]
