r"""Line rules of the grammars as regular expressions, and small languages.

A line rule is a sequence of terminals, options, alternatives and repetitions without recursion.
Lark reads it as it reads any rule; `LineRule` makes it one possessive regular expression, which
takes a line as XLA prints it in a microsecond or two. A line that the expression does not take goes
to Lark (`LineParser`), which returns the same spans or names the error.

- Each named terminal has a group of its name; those whose names begin with ``_`` have none.
- A rule that contains a repetition is one group, without groups inside.
- So is a recursive rule: the comment ``//~ /regex/`` before it is its text in a line,
  or the name of a terminal.
- ``//? /regex/`` is what shows that a line is of a rule, where its first token does not.
- White space is that of the examples before the rule (``//| value: <2 add @0>``): XLA's own.

Grammar files are read here by a reader of their notation, since `lark.load_grammar` costs 90 ms at
the start of every command with the import of Lark, and this 2 ms. Tests hold the two together.

Small languages (shapes, shardings, device lists) are read likewise: the import of Lark and their
parsers cost 0.2 s at the start of each command, and Lark takes 0.2 ms a shape. So a text is first
read by a predictive reader that interprets the same rules: alternatives in order, no backtracking
into a token, results by the same methods. A text that it does not take goes to Lark, which takes it
or names the error.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hlo_lens.grammar.files import MisplacedError, Spans, grammar_text
from hlo_lens.text.errors import UsageError
from hlo_lens.text.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lark import Lark, Token, Tree

    Reader: TypeAlias = Callable[[str, int, list[Any]], int]
    """Appends the results at an offset of a text; returns the offset after them, or -1."""


READ_BY_LARK: Counter[str] = Counter()
"""Characters of the lines that Lark has read in this process."""

_DEFINITION = re.compile(
    r"(?P<notes>(?:^//[|~?].*\n)*)^(?P<inline>\??)(?P<name>\w+)(?:\.\d+)?:"
    r"(?P<body>.*\n(?:[ \t]+\|.*\n)*)",
    re.MULTILINE,
)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|/(?![/*])(?:\\.|[^/\\])*/[ims]*|//.*|->|\w+|[()\[\]|?*+]')
_MAY_BACKTRACK = re.compile(
    r"(?:\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[:=!<>]+|[?*+}]\+|[^?*+}|])*+[?*+}|]", re.DOTALL
)
"""A regular expression with a repetition that is not possessive, or with alternatives."""


class Node(NamedTuple):
    """A part of a rule.

    Attributes:
        kind: ``token``, ``rule``, ``sequence``, ``choice``, ``option``, ``maybe`` (an option for
            whose parts Lark puts None) or ``many``.
        text: Name of a terminal or rule (empty for a literal); quantifier of a repetition.
        regex: Regular expression of a token.
        gap: White space before a token in the examples.
    """

    kind: str
    text: str = ""
    children: tuple[Node, ...] = ()
    regex: str = ""
    gap: str = ""


class Definition(NamedTuple):
    """A rule or terminal, with the comments before it that are meant for this module."""

    body: str
    example: str
    text: str
    sign: str
    is_inline: bool


@functools.cache
def definitions(files: tuple[str, ...]) -> Mapping[str, Definition]:
    """Return the rules and terminals of grammar files by name."""
    if len(files) > 1:
        return {name: found for file in files for name, found in definitions((file,)).items()}
    found: dict[str, Definition] = {}
    for match in _DEFINITION.finditer(grammar_text(*files)):
        notes = match["notes"].splitlines()
        example = "".join(f"{note[3:]}\n" for note in notes if note.startswith("//|"))
        text, sign = (
            next((note[3:].strip() for note in notes if note.startswith(mark)), "")
            for mark in ("//~", "//?")
        )
        found[match["name"]] = Definition(match["body"], example, text, sign, bool(match["inline"]))
    return found


def parsed(body: str) -> Node:
    """Return the body of a definition."""
    tokens = [m[0] for m in _TOKEN.finditer(body) if not m[0].startswith("//")]
    tokens.reverse()

    def choice() -> Node:
        sequences = [sequence()]
        while tokens and tokens[-1] == "|":
            tokens.pop()
            sequences.append(sequence())
        return sequences[0] if len(sequences) == 1 else Node("choice", "", tuple(sequences))

    def sequence() -> Node:
        items: list[Node] = []
        while tokens and tokens[-1] not in "|)]":
            token = tokens.pop()
            if token == "->":
                tokens.pop()  # a name for Lark's tree
            elif token in "?*+":
                items[-1] = Node("option" if token == "?" else "many", token, (items[-1],))
            elif token in "([":
                inner = choice()
                tokens.pop()
                items.append(inner if token == "(" else Node("maybe", "?", (inner,)))
            elif token[0] in '"/':
                items.append(Node("token", regex=_literal(token)))
            else:
                items.append(Node("token" if token.isupper() else "rule", token))
        return items[0] if len(items) == 1 else Node("sequence", "", tuple(items))

    return choice()


def _literal(token: str) -> str:
    """Return the regular expression of a string or a pattern in a grammar file."""
    if token[0] == '"':
        return re.escape(str(ast.literal_eval(token)))
    pattern, _, flags = token[1:].rpartition("/")
    pattern = pattern.replace(r"\/", "/")
    return f"(?{flags}:{pattern})" if flags else pattern


def noted(note: str, files: tuple[str, ...]) -> str:
    """Return the regular expression in a comment: in slashes, or the name of a terminal."""
    if not note:
        return ""
    return _literal(note) if note.startswith("/") else terminal(note, *files)


@functools.cache
def terminal(name: str, *files: str) -> str:
    """Return the regular expression of a terminal of some grammar files."""

    def regex(node: Node) -> str:
        parts = [regex(child) for child in node.children]
        match node.kind:
            case "token":
                return node.regex or f"(?:{terminal(node.text, *files)})"
            case "choice":
                return f"(?:{'|'.join(parts)})"
            case "sequence":
                return "".join(parts)
        return f"(?:{parts[0]}){node.text}"

    body = parsed(definitions(files)[name].body)
    return terminal(body.text, *files) if body.kind == "token" and body.text else regex(body)


@functools.cache
def space(files: tuple[str, ...]) -> str:
    """Return the regular expression of what a grammar ignores between tokens."""
    ignored = re.findall(r"^%ignore (\w+)", grammar_text(*files), re.MULTILINE)
    return f"(?:{'|'.join(terminal(name, *files) for name in ignored)})*+"


def alternatives(name: str, *files: str) -> Iterator[tuple[str, LineRule]]:
    """Yield the first terminal of each alternative of a rule, and its rest as a loose rule."""
    for number, sequence in enumerate(parsed(definitions(files)[name].body).children):
        first, *rest = sequence.children
        rule = LineRule(f"{name}[{number}]", *files, is_line=False, is_loose=True)
        rule.body = rest[0] if len(rest) == 1 else Node("sequence", "", tuple(rest))
        yield first.text, rule


def first_word(name: str, *files: str) -> str:
    """Return the text that every token of a terminal begins with."""
    found = re.match(r"(?:\\[^\w]|[^\\()\[\]{}|?*+.^$])*", terminal(name, *files))
    return re.sub(r"\\(.)", r"\1", found[0]) if found else ""


class LineRule:
    """A line rule of some grammar files; nothing is read or compiled before it is used.

    Args:
        is_line: Whether it ends with its line.
        is_loose: Whether any white space and comments may be between its tokens, instead of the
            layout of the examples, and line ends in them.
        before: Regular expression of what may be before it.
        after: The same of what must follow.
    """

    def __init__(
        self,
        name: str,
        *files: str,
        is_line: bool = True,
        is_loose: bool = False,
        before: str = "",
        after: str = "",
    ) -> None:
        self.name = name
        self.files = files
        self._end = after or (r"(?:\n|\Z)" if is_line else "")
        self._gap = space(files) if is_loose else None
        self._before = before
        self.body: Node | None = None  # of a rule that has no name

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """The regular expression of a text in the layout of the examples."""
        return re.compile(self._before + _possessive(self._tree, self._gap) + self._end)

    @functools.cached_property
    def match(self) -> Callable[..., re.Match[str] | None]:
        return self.pattern.match

    @functools.cached_property
    def groups(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(_groups(self._tree), 1)}

    @property
    def beginning(self) -> str:
        """The regular expression of what shows that a line is of this rule: the first token."""
        sign = definitions(self.files)[self.name].sign
        return rf"[ \t]*+(?:{noted(sign, self.files) or next(_nodes(self._tree, 'token')).regex})"

    @functools.cached_property
    def block(self) -> re.Pattern[str]:
        """The regular expression of many lines at once, without groups."""
        line = _possessive(self._tree, None, has_groups=False)
        return re.compile(rf"(?:{line}\n){{1,2048}}+")

    @functools.cached_property
    def begins(self) -> re.Pattern[str]:
        return re.compile(self.beginning)

    @functools.cached_property
    def _tree(self) -> Node:
        if self.body is not None:
            return self._resolved(self.body, ())
        return self._rule(self.name, ())._replace(text="")  # the whole has no group

    def _rule(self, name: str, path: tuple[str, ...]) -> Node:
        """Return a rule with its inner rules in place, and with the gaps of all their examples."""
        definition = definitions(self.files)[name]
        if definition.text:
            return Node("token", name, regex=noted(definition.text, self.files))
        if name in path:
            raise ValueError(f"{self.name}: {name} is recursive and has no text for a line")
        body = self._resolved(parsed(definition.body), (*path, name))
        return Node("rule", name, (_spaced(body, definition.example),))

    def _resolved(self, node: Node, path: tuple[str, ...]) -> Node:
        """Return a node with inner rules and the terminals of the grammar in place."""
        if node.kind == "rule":
            return self._rule(node.text, path)
        if node.kind == "token":
            return node._replace(regex=node.regex or terminal(node.text, *self.files))
        return node._replace(children=tuple(self._resolved(c, path) for c in node.children))


class LineParser:
    """Line rules of some grammar files, as Lark reads them; Lark is imported when it is needed.

    `names` are those of terminals for users; that of a terminal that is one string is the string.
    """

    def __init__(self, *files: str, rules: Iterable[LineRule], names: Mapping[str, str]) -> None:
        self._files = files
        self._rules = [rule.name for rule in rules]
        self._names = names
        self._parsers: dict[str, Lark] = {}

    def spans(self, rule: LineRule, source: Source, start: int, end: int) -> Spans:
        """Return the spans of a line that is not in the layout of the examples.

        Raises:
            DumpSyntaxError: At the first place that the grammar does not allow.
        """
        from hlo_lens.grammar.parsers import tree_spans

        tree = self._tree(rule.name, source, start, end)
        READ_BY_LARK["characters"] += end - start
        return tree_spans(tree, rule.groups, start, end)

    def items(self, list_rule: str, rule: LineRule, text: str) -> list[Spans]:
        """Return the spans of the items of a list that was read as one group."""
        found, position = [], 0
        comma = 0 if text.startswith(",") else 2  # whether it is between the items
        while (match := rule.match(text, position)) is not None:
            found.append(match.regs)
            position = match.end() + comma * text.startswith(", ", match.end())
        if not text[position:].strip():
            return found
        from hlo_lens.grammar.parsers import tree_spans

        tree = self._tree(list_rule, Source(text), 0, len(text))
        # An empty optional part of the list is None.
        items = [child for child in tree.children if child and not isinstance(child, str)]
        return [tree_spans(item, rule.groups, 0, 0) for item in items]

    def _tree(self, rule: str, source: Source, start: int, end: int) -> Tree[Token]:
        from hlo_lens.grammar.parsers import build_parser, grammar_tree

        # A list has a parser alone: as a start rule it would end lines wherever a list may end.
        key = "" if rule in self._rules else rule
        if key not in self._parsers:
            start_rules = key or self._rules
            self._parsers[key] = build_parser(*self._files, start=start_rules, has_positions=True)
        return grammar_tree(self._parsers[key], self._names, source, rule, start, end)


def _spaced(tree: Node, example: str) -> Node:
    """Return a rule with the white space before its tokens in examples of it."""
    gaps = [node.gap for node in _nodes(tree, "token")]
    if example:
        numbers = iter(range(len(gaps)))
        pattern = re.compile(_loose(tree, numbers) + r"(?:(?<=\n)|(?=\n|\Z))")
        position = 0
        while match := pattern.match(example, position):
            gaps = [gap or match[f"g{number}"] or "" for number, gap in enumerate(gaps)]
            position = match.end() + example.startswith("\n", match.end())
        if not position:
            raise ValueError(f"the rule does not read its example {example!r}")
    rest = iter(gaps)

    def spaced(node: Node) -> Node:
        gap = next(rest) if node.kind == "token" else ""
        return node._replace(gap=gap, children=tuple(map(spaced, node.children)))

    return spaced(tree)


def _loose(node: Node, numbers: Iterator[int]) -> str:
    """Return the regular expression of a node with groups for the white space before tokens."""
    if node.kind == "token":
        regex = node.regex if len(node.regex) < 120 else r"\S.*?"  # compiles in no time
        return rf"(?P<g{next(numbers)}>\s*?)(?:{regex})"
    parts = [_loose(child, numbers) for child in node.children]
    quantifier = node.text if node.kind in ("option", "maybe", "many") else ""
    return f"(?:{('|' if node.kind == 'choice' else '').join(parts)}){quantifier}"


def _nodes(node: Node, kind: str) -> Iterator[Node]:
    """Yield the nodes of a kind, in order."""
    if node.kind == kind:
        yield node
    for child in node.children:
        yield from _nodes(child, kind)


def _is_list(node: Node) -> bool:
    """Return whether a rule has a repetition of its own, not in a rule inside it."""
    return any(c.kind == "many" or (c.kind != "rule" and _is_list(c)) for c in node.children)


def _group(node: Node) -> Node | None:
    """Return what a node has a group of its own for: a token, or the rule that is a list."""
    if not node.text or node.text.startswith("_"):
        return None
    if node.kind == "token":
        return node
    if node.kind != "rule":
        return None
    (body,) = node.children
    return node if _is_list(node) or (body.kind == "rule" and _group(body)) else None


def _groups(node: Node) -> Iterator[str]:
    """Yield the names of the groups, in order."""
    if _group(node):
        yield node.text
    elif node.kind != "many":
        for child in node.children:
            yield from _groups(child)


def _possessive(
    node: Node, space: str | None, *, has_groups: bool = True, is_tail: bool = False
) -> str:
    """Return the regular expression of a node, which never backtracks into it.

    `space` is what may be before each token; None for the gaps of the examples. `is_tail`: it ends
    a part that is never entered again, so that it needs no atomic group of its own, which takes as
    long as a short token.
    """
    is_group = has_groups and _group(node) is not None
    if node.kind == "token":
        # Tokens of a printed line have no line end.
        regex = node.regex if space is not None else node.regex.replace("[^", r"[^\n")
        if is_tail:
            regex = f"(?:{regex})"
        elif _MAY_BACKTRACK.match(regex):
            regex = f"(?>{regex})"
        gap = re.escape(node.gap) if space is None else space
        return gap + (f"({regex})" if is_group else regex)
    is_repeated = node.kind in ("option", "maybe", "many")
    inner = has_groups and not is_group and node.kind != "many"
    are_tails = is_repeated or node.kind == "choice"
    tails = [are_tails] * (len(node.children) - 1) + [are_tails or is_tail]
    parts = [
        _possessive(child, space, has_groups=inner, is_tail=tail)
        for child, tail in zip(node.children, tails, strict=False)
    ]
    if node.kind == "choice":
        return f"({'?:' if is_tail else '?>'}{'|'.join(parts)})"
    if is_repeated:
        return f"(?:{parts[0]}){node.text}+"
    if not is_group:
        return "".join(parts)
    first = node
    while first.kind in ("rule", "sequence"):
        first = first.children[0]
    gap = re.escape(first.gap) if space is None else ""  # none where the token may be absent
    return f"{gap}({''.join(parts).removeprefix(gap)})"


class SmallLanguage:
    """The language of one rule.

    `results` has a method for each rule that takes its parts, as an inline transformer of Lark.
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
            end = self._rule(self._start)(text, 0, found)
        except (MisplacedError, UsageError, RecursionError):
            end = -1
        blank = re.compile(space(self._files))
        if end < 0 or (end < len(text) and blank.fullmatch(text, end) is None):
            return self.parse_with_lark(text)
        return found[0]

    def parse_with_lark(self, text: str) -> Any:
        from hlo_lens.grammar.parsers import parse_with

        return parse_with(self._lark, Source(text), self._names)

    @functools.cached_property
    def _lark(self) -> Lark:
        from hlo_lens.grammar.parsers import build_parser, inline_transformer

        transformer = inline_transformer(self._results)
        return build_parser(*self._files, start=self._start, transformer=transformer)

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
            if whole is not None and whole[1] in known:
                found.append(known[whole[1]])
                return whole.end()
            end = read(text, position, found)
            if whole is not None and end == whole.end() and len(known) < _REMEMBERED:
                known[whole[1]] = found[-1]
            return end

        return remembered

    def _made(self, node: Node) -> Reader:
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
            many = _many(readers[0])
            return _sequence([readers[0], many]) if node.text == "+" else many
        size = self._size(node.children[0]) if node.kind == "maybe" else 0
        return _choice([readers[0], functools.partial(_absent, size)])

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


def _many(read: Reader) -> Reader:
    def many(text: str, position: int, found: list[Any]) -> int:
        while (end := read(text, position, found)) > position:
            position = end
        return position

    return many


def _absent(size: int, _: str, position: int, found: list[Any]) -> int:
    found.extend([None] * size)
    return position
