"""Reading of single instructions by the grammar: the fallback of the scanner.

The results are places in the text. A tree with places needs about 80 times the memory of its text,
so inner instructions are converted as soon as they are parsed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, cast

from lark import Lark, Token, Transformer_NonRecursive, Tree
from lark.exceptions import VisitError

from hlo_lens.grammar.files import MisplacedError
from hlo_lens.grammar.lines import READ_BY_LARK
from hlo_lens.grammar.parsers import build_parser, grammar_tree
from hlo_lens.hlo.columns import ReadBody, ReadInstruction, ReadOperand
from hlo_lens.hlo.text import CALLING_ATTRIBUTES, GRAMMARS
from hlo_lens.shapes.shape import SHAPE_NAMES
from hlo_lens.shapes.sharding import SHARDING_NAMES
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source, Span
from hlo_lens.text.units import bounded_int

_Node = Tree[Token]

NAMES: Mapping[str, str] = {
    "ROOT": "'ROOT'",
    "OPCODE": "an opcode",
    "RBRACE": "'}'",
    "NAME": "a name",
    **SHAPE_NAMES,
    "CONSTANT": "'constant'",
    "PARAMETER": "'parameter'",
    "ATTRIBUTE": "an attribute",
    "VALUE": "a value",
    "LITERAL_ATOM": "a number",
    "ELLIPSIS": "'...'",
    "PARAMETER_NAME": "a parameter's name",
    "WORD": "a word",
    "RAW": "text",
    "PADDING_PATTERN": "padding such as 0_1x2_3",
    "WINDOW_PATTERN": "numbers such as 3x3",
    "DIM_LABELS": "labels such as b01f_01io->b01f",
    "SLICE_RANGE": "a range such as [0:8]",
    **SHARDING_NAMES,
    "$END": "the end",
}
"""Names of the terminals for users."""


@functools.cache
def _parser() -> Lark:
    return build_parser(*GRAMMARS, start="instruction", has_positions=True)


@functools.cache
def _names() -> Mapping[str, str]:
    """Return the names of all terminals for users, those without a name in the grammar included."""
    known = (one.name for one in _parser().terminals if one.name.endswith("_IS"))
    return {**NAMES, **dict.fromkeys(known, NAMES["ATTRIBUTE"])}


def read_instruction(source: Source, start: int, end: int) -> ReadInstruction:
    """Return the one instruction between two offsets of a source.

    Raises:
        DumpSyntaxError: If there is no instruction, or more than one.
    """
    tree = grammar_tree(_parser(), _names(), source, None, start, end)
    READ_BY_LARK["characters"] += end - start
    try:
        return cast("ReadInstruction", _Conversion(start).transform(tree))
    except VisitError as error:
        if not isinstance(error.orig_exc, MisplacedError):
            raise
        place = Span(error.orig_exc.start, error.orig_exc.end)
        raise DumpSyntaxError.at(source, place, error.orig_exc.message) from error


_MOST_NESTED = 40
_DEEPEST_CALL = 8192
"""Deepest nesting of instructions. Source: hlo_parser.h, `kDefaultMaxRecursionDepth`."""

_TOO_DEEP_CALL = f"instructions are nested deeper than {_DEEPEST_CALL}"
_TOO_DEEP = f"computations are printed inside one another deeper than {_MOST_NESTED}"


def _children(node: _Node) -> list[_Node | Token | None]:
    """Return the children of a node, with None where an optional part is absent."""
    return cast("list[_Node | Token | None]", node.children)


def _bare(token: object) -> str:
    return str(token).removeprefix("%")


class _Conversion(Transformer_NonRecursive[Token, Any]):
    """Converts instructions to places, inner ones first; `offset` is that of the parsed text."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self._offset = offset

    def _span(self, node: _Node | Token) -> tuple[int, int]:
        if isinstance(node, Token):
            return self._offset + (node.start_pos or 0), self._offset + (node.end_pos or 0)
        return self._offset + node.meta.start_pos, self._offset + node.meta.end_pos

    def _optional(self, node: object) -> tuple[int, int] | None:
        return None if node is None else self._span(cast("_Node", node))

    def instruction(self, children: list[_Node | Token | None]) -> ReadInstruction:
        """Return an instruction with its nested calls and the bodies printed in its attributes."""
        root, name, right = children
        shape, call, *attributes = _children(cast("_Node", right))
        read = self._call(cast("_Node", call), shape)
        for attribute in attributes:
            tree = cast("_Node", attribute)
            key, value = str(tree.children[0])[:-1], cast("_Node", tree.children[1])
            read.attributes.append((key, self._span(value)[0], self._span(tree)[1]))
            if key in CALLING_ATTRIBUTES:
                self._add_called(read, value)
        read.end = self._span(cast("_Node", right))[1]
        read.is_root = root is not None
        token = cast("Token", name)
        start, end = self._span(token)
        read.name = (start + token.startswith("%"), end)
        return read

    def _add_called(self, read: ReadInstruction, node: _Node) -> None:
        """Note the computations that an attribute calls, in order; None for a body in place."""
        for child in _children(node) if node.data == "computations" else [node]:
            if not isinstance(child, Tree):
                read.called += [] if child is None else [_bare(child)]
                continue
            *front, last = _children(child)
            if not isinstance(last, Tree):
                read.called.append(_bare(last))
                continue
            name, signature = front
            instructions = cast("list[ReadInstruction]", last.children)
            nesting = 1 + max((one.nesting for one in instructions), default=0)
            if nesting > _MOST_NESTED:
                raise MisplacedError(_TOO_DEEP, *self._span(child))
            read.nesting = max(read.nesting, nesting)
            read.called.append(None)
            read.bodies.append(
                ReadBody(
                    name="" if name is None else _bare(name),
                    signature=self._optional(signature),
                    span=self._span(child),
                    instructions=instructions,
                )
            )

    def _call(self, node: _Node, shape: object) -> ReadInstruction:
        """Return a call with its nested calls, without recursion."""
        top = self._one_call(node, shape)
        stack = [(node, top, 1)]
        while stack:
            current, read, depth = stack.pop()
            if depth > _DEEPEST_CALL:
                raise MisplacedError(_TOO_DEEP_CALL, *self._span(current))
            arguments = cast("_Node", current.children[1])
            if arguments.data != "operands":
                continue
            for child in _children(arguments):
                if child is None:
                    continue
                argument = cast("_Node", child)
                operand = self._operand(argument)
                read.arguments.append(operand)
                if operand.nested is not None:
                    inner = cast("_Node", argument.children[1])
                    stack.append((inner, operand.nested, depth + 1))
        return top

    def _one_call(self, node: _Node, shape: object) -> ReadInstruction:
        opcode, arguments = node.children
        start, end = self._span(cast("_Node", arguments))
        return ReadInstruction(
            is_root=False,
            name=None,
            shape=self._optional(shape),
            opcode=self._span(cast("Token", opcode)),
            operands=(start + 1, end - 1),
            end=end,
        )

    def _operand(self, node: _Node) -> ReadOperand:
        if len(node.children) == 1:
            return ReadOperand(shape=self._optional(node.children[0]))
        shape, name, *indices = _children(node)
        if node.data == "nested_instruction":
            return ReadOperand(nested=self._one_call(cast("_Node", name), shape))
        index = tuple(bounded_int(str(cast("_Node", i).children[0])) for i in indices)
        return ReadOperand(name=_bare(name), index=index, shape=self._optional(shape))
