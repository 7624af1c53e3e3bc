"""Reading of HLO text by the grammar: the reference, and the help of the scanner.

What is returned are places in the text, the same that the scanner notes, so that both can fill the
same columns. Trees keep the place of every rule; they take some 80 times the text in memory, which
is why only single instructions, and whole modules in tests, come here.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from hlo_lens.model.hlo.instruction import CALLING_ATTRIBUTES
from hlo_lens.syntax.grammar.errors import syntax_error
from hlo_lens.syntax.grammar.files import grammar_text
from hlo_lens.syntax.grammar.misplaced import MisplacedError
from hlo_lens.syntax.shapes.replica_groups_grammar import DEVICE_LIST_NAMES
from hlo_lens.syntax.shapes.shape_grammar import SHAPE_NAMES
from hlo_lens.syntax.shapes.sharding_grammar import SHARDING_NAMES
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.text.source import Source

_Node = Tree[Token]

GRAMMARS = ("hlo_tokens", "shape", "sharding", "replica_groups", "hlo_module")

NAMES: Mapping[str, str] = {
    "HLO_MODULE": "'HloModule'",
    "MODULE_NAME": "a name",
    "OPCODE": "an opcode",
    "ROOT": "'ROOT'",
    "NAME": "a name",
    **SHAPE_NAMES,
    "CONSTANT": "'constant'",
    "PARAMETER": "'parameter'",
    "ATTRIBUTE": "an attribute",
    "VALUE": "a value",
    "LITERAL_ATOM": "a number",
    "ELLIPSIS": "'...'",
    "ENTRY": "'ENTRY'",
    "PARAMETER_NAME": "a parameter's name",
    "WORD": "a word",
    "RAW": "text",
    "PADDING_PATTERN": "padding such as 0_1x2_3",
    "WINDOW_PATTERN": "numbers such as 3x3",
    "DIM_LABELS": "labels such as b01f_01io->b01f",
    "SLICE_RANGE": "a range such as [0:8]",
    "ALIAS_KIND": "may-alias or must-alias",
    "UNDERSCORE": "'_'",
    **SHARDING_NAMES,
    **DEVICE_LIST_NAMES,
    "$END": "the end",
}
"""What users call the terminals."""


@dataclass(slots=True)
class ReadOperand:
    """An operand: a name, or the instruction that stands in its place."""

    name: str = ""
    index: tuple[int, ...] = ()
    shape: tuple[int, int] | None = None
    nested: ReadInstruction | None = None


@dataclass(slots=True)
class ReadInstruction:
    """Places of the parts of one instruction, as offsets in the text that was read.

    Attributes:
        name: Start and end of the name without ``%``; None for a nested instruction.
        shape: Start and end; None where it is left out.
        operands: Inner start and end of the parentheses.
        arguments: The operands; empty for constants and parameters.
        attributes: Name, and start and end of the value.
        bodies: Computations that are printed in place, with the attribute that calls them.
    """

    is_root: bool
    name: tuple[int, int] | None
    shape: tuple[int, int] | None
    opcode: tuple[int, int]
    operands: tuple[int, int]
    end: int
    arguments: list[ReadOperand] = field(default_factory=list)
    attributes: list[tuple[str, int, int]] = field(default_factory=list)
    bodies: list[ReadComputation] = field(default_factory=list)
    called: list[str | None] = field(default_factory=list)


@dataclass(slots=True)
class ReadComputation:
    """Places of a computation; ``signature`` and ``attributes`` as start and end."""

    is_entry: bool
    name: str
    signature: tuple[int, int] | None
    start: int
    attributes: tuple[int, int]
    instructions: list[ReadInstruction]


@dataclass(slots=True)
class ReadModule:
    """A whole module: header attributes as (name, start, end), where the tables begin."""

    name: str
    header: list[tuple[str, int, int]]
    tables: int
    computations: list[ReadComputation]


@functools.cache
def _parser() -> Lark:
    return Lark(
        grammar_text(*GRAMMARS),
        start=["module", "instruction", "header", "computation_head"],
        parser="lalr",
        lexer="contextual",
        propagate_positions=True,
        maybe_placeholders=True,
    )


@functools.cache
def _names() -> Mapping[str, str]:
    """Return what users call the terminals, with those that the grammar only quotes."""
    names = dict(NAMES)
    for terminal in _parser().terminals:
        if terminal.name.endswith("_IS"):
            names[terminal.name] = NAMES["ATTRIBUTE"]
        elif terminal.name.startswith("__ANON"):
            names[terminal.name] = f"'{terminal.pattern.value}'"
    return names


def _parse(source: Source, start: str, text: str, offset: int) -> _Node:
    try:
        return _parser().parse(text, start=start)
    except UnexpectedInput as error:
        end = offset + len(text)
        raise syntax_error(error, source, _names(), offset=offset, end=end) from error


def read_instruction(source: Source, start: int, end: int) -> ReadInstruction:
    """Return the one instruction that stands between two offsets of a source.

    Raises:
        DumpSyntaxError: If there is no instruction, or more than one.
    """
    tree = _parse(source, "instruction", source.text[start:end], start)
    try:
        return _Places(start).instruction(tree)
    except MisplacedError as error:
        raise DumpSyntaxError.at(source, Span(error.start, error.end), error.message) from error


def check_header(source: Source, start: int, end: int) -> None:
    """Raise DumpSyntaxError if the text between two offsets is no module header."""
    _parse(source, "header", source.text[start:end], start)


def check_head(source: Source, start: int, end: int) -> None:
    """Raise DumpSyntaxError if the text between two offsets does not begin a computation."""
    _parse(source, "computation_head", source.text[start:end], start)


_MOST_NESTED = 40
_TOO_DEEP = f"computations are printed inside one another deeper than {_MOST_NESTED}"


def read_module(source: Source) -> ReadModule:
    """Return the one module that a source holds, read by the grammar alone.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    header, tables, *computations = _children(_parse(source, "module", source.text, 0))
    places = _Places(0)
    name, attributes = "", []
    if isinstance(header, Tree):
        name = _bare(header.children[1] or "").removesuffix(":")
        attributes = [places.attribute(n) for n in header.children[2:] if isinstance(n, Tree)]
    return ReadModule(
        name=name,
        header=attributes,
        tables=getattr(cast("_Node", tables).meta, "start_pos", 0),
        computations=[places.computation(cast("_Node", node)) for node in computations],
    )


def _children(node: _Node) -> list[_Node | Token | None]:
    """Return the children of a node, with None where an optional part is absent."""
    return cast("list[_Node | Token | None]", node.children)


def _bare(token: object) -> str:
    return str(token).removeprefix("%")


class _Places:
    """Reads the places of things from trees.

    Args:
        offset: Where in the source the text begins that was parsed.
    """

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._depth = 0

    def span(self, node: _Node | Token) -> tuple[int, int]:
        """Return where a token or rule stands in the source."""
        if isinstance(node, Token):
            return self._offset + (node.start_pos or 0), self._offset + (node.end_pos or 0)
        return self._offset + node.meta.start_pos, self._offset + node.meta.end_pos

    def _optional(self, node: object) -> tuple[int, int] | None:
        return None if node is None else self.span(cast("_Node", node))

    def computation(self, node: _Node) -> ReadComputation:
        """Return a computation that stands on its own."""
        entry, name, signature, body, *attributes = _children(node)
        start, last = self.span(node)
        end = self.span(cast("_Node", body))[1]
        return ReadComputation(
            is_entry=entry is not None,
            name="" if name is None else _bare(name),
            signature=self._optional(signature),
            start=start,
            attributes=(end, last if attributes else end),
            instructions=self._body(cast("_Node", body)),
        )

    def _body(self, node: _Node) -> list[ReadInstruction]:
        return [self.instruction(cast("_Node", child)) for child in node.children]

    def instruction(self, node: _Node) -> ReadInstruction:
        """Return an instruction with all that is written inside it."""
        root, name, right = _children(node)
        shape, call, *attributes = _children(cast("_Node", right))
        read = self._call(cast("_Node", call), shape)
        read.is_root = root is not None
        token = cast("Token", name)
        start, end = self.span(token)
        read.name = (start + token.startswith("%"), end)
        for attribute in attributes:
            tree = cast("_Node", attribute)
            found = self.attribute(tree)
            read.attributes.append(found)
            if found[0] in CALLING_ATTRIBUTES:
                self._add_called(read, cast("_Node", tree.children[1]))
        read.end = self.span(node)[1]
        return read

    def attribute(self, node: _Node) -> tuple[str, int, int]:
        """Return the name of an attribute and where its value stands."""
        name = cast("Token", node.children[0])
        start, _ = self.span(cast("_Node", node.children[1]))
        return str(name)[:-1], start, self.span(node)[1]

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
            start, end = self.span(child)
            self._depth += 1
            if self._depth > _MOST_NESTED:
                raise MisplacedError(_TOO_DEEP, start, end)
            read.called.append(None)
            read.bodies.append(
                ReadComputation(
                    is_entry=False,
                    name="" if name is None else _bare(name),
                    signature=self._optional(signature),
                    start=start,
                    attributes=(end, end),
                    instructions=self._body(last),
                )
            )
            self._depth -= 1

    def _call(self, node: _Node, shape: object) -> ReadInstruction:
        """Return a call with its nested calls, however deep they are nested."""
        top = self._one_call(node, shape)
        stack = [(node, top)]
        while stack:
            current, read = stack.pop()
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
                    stack.append((cast("_Node", argument.children[1]), operand.nested))
        return top

    def _one_call(self, node: _Node, shape: object) -> ReadInstruction:
        opcode, arguments = node.children
        start, end = self.span(cast("_Node", arguments))
        return ReadInstruction(
            is_root=False,
            name=None,
            shape=self._optional(shape),
            opcode=self.span(cast("Token", opcode)),
            operands=(start + 1, end - 1),
            end=end,
        )

    def _operand(self, node: _Node) -> ReadOperand:
        if len(node.children) == 1:
            return ReadOperand(shape=self._optional(node.children[0]))
        shape, name, *indices = _children(node)
        if node.data == "nested_instruction":
            return ReadOperand(nested=self._one_call(cast("_Node", name), shape))
        index = tuple(int(str(cast("_Node", i).children[0])) for i in indices)
        return ReadOperand(name=_bare(name), index=index, shape=self._optional(shape))
