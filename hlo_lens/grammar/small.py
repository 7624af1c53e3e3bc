"""Small languages: shapes, shardings, device lists. One definition, two ways to parse it.

The import of Lark and the parsers of the three languages cost 0.2 s at the start of each command,
and Lark takes 0.2 ms a shape. So a text is first read by a predictive reader that interprets the
same rules: alternatives in order, no backtracking into a token, results by the same methods. A text
that it does not take goes to Lark, which takes it or names the error. Tests hold the two together.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from hlo_lens.grammar.lines import Definition, Node, definitions, noted, parsed, space, terminal
from hlo_lens.grammar.misplaced import MisplacedError
from hlo_lens.text.errors import UsageError
from hlo_lens.text.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lark import Lark

    Reader: TypeAlias = Callable[[str, int, list[Any]], int]
    """Appends the results at an offset of a text; returns the offset after them, or -1."""


class SmallLanguage:
    """The language of one rule.

    Args:
        start: The rule.
        files: The grammar files, without ``.lark``.
        results: Has a method for each rule that takes its parts, as an inline transformer of Lark.
        names: Names of the terminals for users.
    """

    def __init__(self, start: str, *files: str, results: object, names: Mapping[str, str]) -> None:
        self._start = start
        self._files = files
        self._results = results
        self._names = names
        self._rules: dict[str, Reader] = {}

    def parse(self, text: str) -> Any:
        """Return the result for a text.

        Raises:
            DumpSyntaxError: If it is malformed; line and column are those within the text.
        """
        found: list[Any] = []
        try:
            end = self._reader(text, 0, found)
        except (MisplacedError, UsageError, RecursionError):
            end = -1
        if end < 0 or (end < len(text) and self._blank.fullmatch(text, end) is None):
            return self.parse_with_lark(text)
        return found[0]

    def parse_with_lark(self, text: str) -> Any:
        """Return the same by Lark alone."""
        from hlo_lens.grammar.parsers import parse_with

        return parse_with(self._lark, Source(text), self._names)

    @functools.cached_property
    def _lark(self) -> Lark:
        from hlo_lens.grammar.parsers import build_parser, inline_transformer

        transformer = inline_transformer(self._results)
        return build_parser(*self._files, start=self._start, transformer=transformer)

    @functools.cached_property
    def _blank(self) -> re.Pattern[str]:
        return re.compile(space(self._files))

    @functools.cached_property
    def _reader(self) -> Reader:
        return self._rule(self._start)

    def _rule(self, name: str) -> Reader:
        """Return the reader of a rule, which is made when it is first used."""
        if name in self._rules:
            return self._rules[name]
        definition = definitions(self._files)[name]
        body: Reader | None = None
        result = getattr(self._results, name, None)
        is_spliced = name.startswith("_")

        def read(text: str, position: int, found: list[Any]) -> int:
            nonlocal body
            if body is None:
                body = self._made(parsed(definition.body))
            parts: list[Any] = []
            position = body(text, position, parts)
            if position < 0:
                return -1
            if is_spliced or (definition.is_inline and len(parts) == 1):
                found.extend(parts)
            elif result is not None:
                found.append(result(*parts))
            else:
                raise TypeError(f"no method for the rule {name}")
            return position

        self._rules[name] = self._remembering(read, definition) if definition.text else read
        return self._rules[name]

    def _remembering(self, read: Reader, definition: Definition) -> Reader:
        """Return a reader that reads each distinct text of a rule once."""
        match = re.compile(f"{space(self._files)}({noted(definition.text, self._files)})").match
        known: dict[str, Any] = {}

        def remembered(text: str, position: int, found: list[Any]) -> int:
            whole = match(text, position)
            if whole is None:
                return read(text, position, found)
            if whole[1] in known:
                found.append(known[whole[1]])
                return whole.end()
            end = read(text, position, found)
            if end == whole.end() and len(known) < _REMEMBERED:
                known[whole[1]] = found[-1]
            return end

        return remembered

    def _made(self, node: Node) -> Reader:
        """Return the reader of a part of a rule."""
        if node.kind == "rule":
            return self._rule(node.text)
        if node.kind == "token":
            return self._token(node)
        readers = [self._made(child) for child in node.children]
        if node.kind == "sequence":
            return _sequence(readers)
        if node.kind == "choice":
            return _choice(readers)
        if node.kind == "many":
            return _many(readers[0], is_needed=node.text == "+")
        return _option(readers[0], self._size(node.children[0]) if node.kind == "maybe" else 0)

    def _token(self, node: Node) -> Reader:
        regex = node.regex or terminal(node.text, *self._files)
        match = re.compile(f"{space(self._files)}({regex})").match
        is_kept = bool(node.text) and not node.text.startswith("_")

        def token(text: str, position: int, found: list[Any]) -> int:
            matched = match(text, position)
            if matched is None:
                return -1
            if is_kept:
                found.append(matched[1])
            return matched.end()

        return token

    def _size(self, node: Node) -> int:
        """Return the number of None that stand for an absent part in Lark's trees."""
        if node.kind in ("token", "rule"):
            return bool(node.text) and not node.text.startswith("_")
        sizes = [self._size(child) for child in node.children]
        if node.kind == "many":
            return 0
        return sum(sizes) if node.kind == "sequence" else max(sizes)


_REMEMBERED = 1 << 14


def _sequence(readers: list[Reader]) -> Reader:
    def sequence(text: str, position: int, found: list[Any]) -> int:
        count = len(found)
        for read in readers:
            position = read(text, position, found)
            if position < 0:
                del found[count:]
                return -1
        return position

    return sequence


def _choice(readers: list[Reader]) -> Reader:
    def choice(text: str, position: int, found: list[Any]) -> int:
        for read in readers:
            end = read(text, position, found)
            if end >= 0:
                return end
        return -1

    return choice


def _many(read: Reader, *, is_needed: bool) -> Reader:
    def many(text: str, position: int, found: list[Any]) -> int:
        end = read(text, position, found)
        if end < 0:
            return -1 if is_needed else position
        while end > position:
            position, end = end, read(text, end, found)
        return position

    return many


def _option(read: Reader, size: int) -> Reader:
    def option(text: str, position: int, found: list[Any]) -> int:
        end = read(text, position, found)
        if end >= 0:
            return end
        found.extend([None] * size)
        return position

    return option
