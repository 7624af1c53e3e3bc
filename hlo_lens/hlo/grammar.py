"""Reading of HLO text by the grammar: the reference, and the fallback of the scanner.

The results are places in the text, in the form of the scanner, so that both fill the same columns.
A tree with places needs about 80 times the memory of its text, so instructions and computations are
converted as soon as they are parsed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lark import Lark, Token, Transformer_NonRecursive, Tree
from lark.exceptions import UnexpectedInput, VisitError

from hlo_lens.grammar.files import MisplacedError
from hlo_lens.grammar.parsers import build_parser, syntax_error
from hlo_lens.hlo.metadata import tables_of_rows
from hlo_lens.hlo.rows import ReadComputation, ReadInstruction, ReadOperand
from hlo_lens.hlo.text import CALLING_ATTRIBUTES, parse_string
from hlo_lens.shapes.replica_groups import DEVICE_LIST_NAMES
from hlo_lens.shapes.shape import SHAPE_NAMES
from hlo_lens.shapes.sharding import SHARDING_NAMES
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source, Span
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from hlo_lens.hlo.metadata import StackFrames

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
"""Names of the terminals for users."""


class ReadModule(NamedTuple):
    """The parts of a module outside its computations.

    Attributes:
        name: Name in the header; empty without one.
        header: Name, start and end of the value of each header attribute.
        stack_frames: The stack frame tables.
    """

    name: str
    header: list[tuple[str, int, int]]
    stack_frames: StackFrames


def _build(transformer: _Conversion | None = None) -> Lark:
    return build_parser(
        *GRAMMARS,
        start=["module", "instruction", "unnamed_instruction", "header", "computation_head"],
        transformer=transformer,
        has_positions=True,
    )


_parser = functools.cache(_build)

_ONE_AT_A_TIME = threading.Lock()
"""Held while a whole module is parsed: its parser converts for one text at a time."""


@functools.cache
def _module_parser() -> tuple[Lark, _Conversion]:
    """Return the parser of whole modules, and the conversion that is part of it."""
    conversion = _Conversion(0)
    return _build(conversion), conversion


@functools.cache
def _names() -> Mapping[str, str]:
    """Return the names of all terminals for users, those without a name in the grammar included."""
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


def read_instruction(
    source: Source, start: int, end: int, *, has_name: bool = True
) -> ReadInstruction:
    """Return the one instruction between two offsets of a source.

    Args:
        source: The text.
        start: Offset of its name, or of its shape.
        end: Offset of its end.
        has_name: Whether a name and ``=`` begin it.

    Raises:
        DumpSyntaxError: If there is no instruction, or more than one.
    """
    rule = "instruction" if has_name else "unnamed_instruction"
    tree = _parse(source, rule, source.text[start:end], start)
    try:
        return cast("ReadInstruction", _Conversion(start).transform(tree))
    except VisitError as error:
        if not isinstance(error.orig_exc, MisplacedError):
            raise
        raise _placed(source, error.orig_exc) from error


def _placed(source: Source, error: MisplacedError) -> DumpSyntaxError:
    """Return an error of the conversion as one in the source."""
    return DumpSyntaxError.at(source, Span(error.start, error.end), error.message)


def check(source: Source, rule: str, start: int, end: int) -> None:
    """Raise DumpSyntaxError if the text between two offsets is not of a rule."""
    _parse(source, rule, source.text[start:end], start)


def read_module(source: Source, add: Callable[[ReadComputation], object]) -> ReadModule:
    """Read the one module of a source by the grammar alone.

    Args:
        source: The text.
        add: Called with each computation as soon as it is parsed.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    parser, conversion = _module_parser()
    try:
        with _ONE_AT_A_TIME:
            conversion.add = add
            header, tables, *_ = _children(parser.parse(source.text, start="module"))
    except UnexpectedInput as error:
        raise syntax_error(error, source, _names()) from error
    except MisplacedError as error:
        raise _placed(source, error) from error
    name, attributes = "", []
    if isinstance(header, Tree):
        name = _bare(header.children[1] or "").removesuffix(":")
        attributes = [conversion.named_value(n) for n in header.children[2:] if isinstance(n, Tree)]
    return ReadModule(name=name, header=attributes, stack_frames=cast("StackFrames", tables))


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
    """Converts instructions and computations to places, inner ones first.

    Args:
        offset: Offset in the source of the text that was parsed.

    Attributes:
        add: Called with each computation, which is not kept otherwise.
    """

    def __init__(self, offset: int) -> None:
        super().__init__()
        self._offset = offset
        self.add: Callable[[ReadComputation], object] | None = None

    def _span(self, node: _Node | Token) -> tuple[int, int]:
        if isinstance(node, Token):
            return self._offset + (node.start_pos or 0), self._offset + (node.end_pos or 0)
        return self._offset + node.meta.start_pos, self._offset + node.meta.end_pos

    def _optional(self, node: object) -> tuple[int, int] | None:
        return None if node is None else self._span(cast("_Node", node))

    def table_string(self, children: list[Token]) -> str:
        """Return the text of a row of the tables of files and functions."""
        return parse_string(str(children[1]))

    def table_record(self, children: list[_Node | Token | None]) -> dict[str, int]:
        """Return the fields of a row of the tables of locations and frames."""
        pairs = (child.children for child in children if isinstance(child, Tree))
        return {str(name)[:-1]: bounded_int(str(number)) for name, number in pairs}

    def stack_frame_index(self, tables: list[Tree[Any] | None]) -> StackFrames:
        rows: list[list[Any]] = [[] if table is None else table.children for table in tables]
        return tables_of_rows(*rows)

    def computation(self, children: list[_Node | Token | None]) -> None:
        """Pass a computation of the module to `add`."""
        entry, name, signature, body, *attributes = children
        start = next(self._span(child)[0] for child in children if child is not None)
        end = self._span(cast("_Node", body))[1]
        last = self._span(cast("_Node", attributes[-1]))[1] if attributes else end
        read = ReadComputation(
            is_entry=entry is not None,
            name="" if name is None else _bare(name),
            signature=self._optional(signature),
            start=start,
            attributes=(end, last),
            instructions=_body(body),
        )
        if self.add is not None:
            self.add(read)

    def instruction(self, children: list[_Node | Token | None]) -> ReadInstruction:
        """Return an instruction with its nested calls and the bodies printed in its attributes."""
        root, name, right = children
        read = self.unnamed_instruction([right])
        read.is_root = root is not None
        token = cast("Token", name)
        start, end = self._span(token)
        read.name = (start + token.startswith("%"), end)
        return read

    def unnamed_instruction(self, children: list[_Node | Token | None]) -> ReadInstruction:
        """Read an instruction from its shape on."""
        (right,) = children
        shape, call, *attributes = _children(cast("_Node", right))
        read = self._call(cast("_Node", call), shape)
        for attribute in attributes:
            tree = cast("_Node", attribute)
            found = self.named_value(tree)
            read.attributes.append(found)
            if found[0] in CALLING_ATTRIBUTES:
                self._add_called(read, cast("_Node", tree.children[1]))
        read.end = self._span(cast("_Node", right))[1]
        return read

    def named_value(self, node: _Node) -> tuple[str, int, int]:
        """Return the name of an attribute, and start and end of its value."""
        name = cast("Token", node.children[0])
        start, _ = self._span(cast("_Node", node.children[1]))
        return str(name)[:-1], start, self._span(node)[1]

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
            start, end = self._span(child)
            instructions = _body(last)
            nesting = 1 + max((one.nesting for one in instructions), default=0)
            if nesting > _MOST_NESTED:
                raise MisplacedError(_TOO_DEEP, start, end)
            read.nesting = max(read.nesting, nesting)
            read.called.append(None)
            read.bodies.append(
                ReadComputation(
                    is_entry=False,
                    name="" if name is None else _bare(name),
                    signature=self._optional(signature),
                    start=start,
                    attributes=(end, end),
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


def _body(node: object) -> list[ReadInstruction]:
    """Return the instructions between the braces of a computation."""
    return cast("list[ReadInstruction]", cast("_Node", node).children)
