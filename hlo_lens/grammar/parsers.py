"""Parsers built from the grammar files, and conversion of Lark's exceptions to ours.

Grammars do not import each other (imported terminals are renamed, and their callbacks are silently
not called); a parser is built from the joined text of the files it needs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from lark import Lark, Token, Transformer, Tree, v_args
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from hlo_lens.grammar.files import MisplacedError, Spans, grammar_text
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lark.parsers.lalr_interactive_parser import InteractiveParser


SHOWN_ALTERNATIVES = 4
"""Number of alternatives that a message lists."""

COMMON_NAMES = {
    **{"COMMA": "','", "COLON": "':'", "EQUAL": "'='", "LPAR": "'('", "RPAR": "')'"},
    **{"LSQB": "'['", "RSQB": "']'", "LBRACE": "'{'", "RBRACE": "'}'", "HASH": "'#'"},
    **dict.fromkeys(("INT", "NUMBER"), "a number"),
    "NAME": "a name",
    "STRING": "a string",
    "QUOTED": "a quoted name",
    "BOOL": "true or false",
    "$END": "the end of the text",
}
"""Names for users of the terminals of hlo_tokens and of punctuation."""

_FOUND = re.compile(r"-?[\w.]+|\S")
_LONGEST_FOUND = 32


def parse_with(
    parser: Lark, source: Source, names: Mapping[str, str], *, start: str | None = None
) -> object:
    """Parse a text with a parser that has an embedded transformer, and return its result.

    Raises:
        DumpSyntaxError: If the text is not of this form.
    """
    return grammar_tree(parser, names, source, start, 0, len(source.text))


def syntax_error(
    error: UnexpectedInput,
    source: Source,
    names: Mapping[str, str],
    *,
    offset: int,
    end: int,
) -> DumpSyntaxError:
    """Return the error for an exception of Lark: expected, found, and the place.

    `offset` and `end` are those of the parsed text in the source; of `names`, terminals to words
    for users, the first ones are listed first.
    """
    last = end
    while last > offset and source.text[last - 1].isspace():
        last -= 1
    start = last  # Lark puts the end of input at the last token
    if not (isinstance(error, UnexpectedToken) and error.token.type == "$END"):
        position: int | None = getattr(error, "pos_in_stream", None)
        start = last if position is None else min(offset + position, last)
    match = _FOUND.match(source.text, start, last)
    word = match[0] if match else ""
    shown = word if len(word) <= _LONGEST_FOUND else word[: _LONGEST_FOUND - 3] + "..."
    found, stop = f"'{shown}'" if word else "the end", start + max(1, len(word))
    # Lark's own list also has terminals of other contexts, which LALR merges, so each is tried.
    parser: InteractiveParser | None = getattr(error, "interactive_parser", None)
    accepted: set[str] = parser.accepts() if parser else set()  # type: ignore[no-untyped-call]
    # None is allowed where the text is complete but continues.
    ranks = {name: rank for rank, name in enumerate((*names, *COMMON_NAMES))}
    known = {**COMMON_NAMES, **names}
    ordered = sorted(accepted or {"$END"}, key=lambda name: (ranks.get(name, len(ranks)), name))
    words = list(dict.fromkeys(known.get(n) or n.lower().replace("_", " ") for n in ordered))
    *others, last_word = words[:SHOWN_ALTERNATIVES]
    listed = f"{', '.join(others)} or {last_word}" if others else last_word
    message = f"expected {listed}, found {found}"
    return DumpSyntaxError.at(source, Span(start, stop), message)


def terminal_names(parser: Lark, names: Mapping[str, str]) -> Mapping[str, str]:
    """Return the names of terminals for users: that of one that is a string is the string."""
    strings = {
        terminal.name: f"'{terminal.pattern.value}'"
        for terminal in parser.terminals
        if isinstance(terminal.pattern, PatternStr)
        and terminal.name not in {**names, **COMMON_NAMES}
    }
    return {**names, **strings}


def grammar_tree(
    parser: Lark, names: Mapping[str, str], source: Source, rule: str | None, start: int, end: int
) -> Tree[Token]:
    """Return the tree of the text between two offsets; its offsets count from `start`.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    try:
        return parser.parse(source.text[start:end], start=rule)
    except UnexpectedInput as error:
        words = terminal_names(parser, names)
        raise syntax_error(error, source, words, offset=start, end=end) from error
    except MisplacedError as error:
        place = Span(start + error.start, start + error.end)
        raise DumpSyntaxError.at(source, place, error.message) from error


def tree_spans(tree: Tree[Token], groups: Mapping[str, int], start: int, end: int) -> Spans:
    """Return the spans of the groups of a line rule in its tree, those of the whole first."""
    found = [(-1, -1)] * (1 + len(groups))
    found[0] = start, end
    stack: list[Tree[Token] | Token | None] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Token):
            if number := groups.get(node.type):
                found[number] = start + (node.start_pos or 0), start + (node.end_pos or 0)
        elif node is not None:
            number = groups.get(str(node.data))
            if number is None:
                stack += node.children
            elif node.meta.empty:
                found[number] = start, start
            else:
                found[number] = start + node.meta.start_pos, start + node.meta.end_pos
    return tuple(found)


def inline_transformer(results: object) -> Transformer[Any, Any]:
    """Return the transformer that calls the methods of an object with the parts of a rule."""
    base = type(results)
    # Lark applies the decorator to members of the class itself only.
    members = {name: getattr(base, name) for name in dir(base) if not name.startswith("_")}
    made = v_args(inline=True)(type(base.__name__, (base, Transformer), members))
    return cast("Transformer[Any, Any]", made())


def build_parser(
    *names: str,
    start: str | list[str],
    transformer: Transformer[Any, Any] | None = None,
    has_positions: bool = False,
    has_placeholders: bool = True,
) -> Lark:
    """Return an LALR parser with a contextual lexer for the joined grammar files.

    Args:
        names: Grammar files without ``.lark``, each after the files that its head comment needs.
        start: Start rule, or several.
        transformer: Applied while parsing, so that no tree is kept.
        has_positions: Whether trees have the positions of their text.
        has_placeholders: Whether an optional part that is missing is None in its tree.
    """
    return Lark(
        grammar_text(*names),
        start=start,
        parser="lalr",
        lexer="contextual",
        transformer=transformer,
        propagate_positions=has_positions,
        maybe_placeholders=has_placeholders,
    )
