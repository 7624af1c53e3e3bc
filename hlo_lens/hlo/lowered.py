"""A program as the framework lowered it to StableHLO, before XLA compiles it."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lark import Lark, Token, Tree

from hlo_lens.grammar.parsers import build_parser, grammar_tree
from hlo_lens.shapes.shape import Shape
from hlo_lens.shapes.sharding import HloSharding, Meshes, meshes_by_name, shardy_shardings
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Source, clean, decode
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from hlo_lens.shapes.mesh import Mesh


@dataclass(frozen=True, kw_only=True)
class LoweredValue:
    """An argument or result of a lowered program.

    Attributes:
        name: Name in the text, such as ``%arg0`` or the ``jax.result_info`` of a result.
        sharding: The sharding; None if there is none, or if it cannot be read.
        is_donated: Whether its memory is donated (``jax.buffer_donor``, ``tf.aliasing_output``).
        output_number: Result that reuses its memory; None if none is chosen yet.
    """

    name: str
    type_text: str
    shape: Shape | None = None
    sharding_text: str | None = None
    sharding: HloSharding | None = None
    is_donated: bool = False
    output_number: int | None = None

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the whole array; None if not known."""
        return None if self.shape is None else self.shape.size_bytes

    @cached_property
    def device_bytes(self) -> int | None:
        """Bytes on each device; None if the sharding, or the size, is not known."""
        if self.shape is None or self.sharding is None:
            return None
        return self.sharding.shard_shape(self.shape).size_bytes


@dataclass(frozen=True, kw_only=True)
class LoweredModule:
    """A program in StableHLO: its signature, and counts of its operations.

    Attributes:
        num_partitions: Number of partitions; None if not printed.
        replica_count: Number of replicas; None if not printed.
        arguments: Arguments of the main function; None if its signature cannot be read.
        operations: Number of operations by name, as written, in all functions; returns are none.
    """

    name: str
    num_partitions: int | None = None
    replica_count: int | None = None
    meshes: Mapping[str, Mesh] = field(default_factory=dict)
    arguments: tuple[LoweredValue, ...] | None = None
    results: tuple[LoweredValue, ...] | None = None
    operations: Counter[str] = field(default_factory=Counter)
    custom_calls: Counter[str] = field(default_factory=Counter)
    gaps: tuple[Gap, ...] = ()


GRAMMARS = ("stablehlo",)
STARTS = ("header", "signature")

NAMES: Mapping[str, str] = {
    "SYMBOL": "a name such as @main",
    "VALUE": "a value such as %arg0",
    "WORD": "a word",
    "VISIBILITY": "'public'",
}
"""Names of the terminals in error messages."""

_HEADER = re.compile(r"^[ \t]*module\b[^\n]*\{[ \t]*$", re.MULTILINE)
_MAIN = re.compile(r"^[ \t]*func\.func[ \t]+(?:public[ \t]+)?@main\(", re.MULTILINE)
_FUNCTION = re.compile(r"^[ \t]*func\.func\b", re.MULTILINE)
_SIGNATURE_END = re.compile(r"\{[ \t]*(?:loc\([^\n]*\))?[ \t]*$", re.MULTILINE)
_OPERATION = re.compile(
    r'^[ \t]*(?:%[^=\n"]*= )?"?((?:stablehlo|mhlo|chlo|sdy|mpmd|func|tensor|arith|shape|scf)\.'
    r"(?!return\b|func\b|mesh\b)[a-z_0-9.]+)",
    re.MULTILINE,
)
_CUSTOM_CALL = re.compile(r'custom_call @([\w.$]+)|call_target_name = "([^"\n]*)"')
_TENSOR = re.compile(r"tensor<(?P<sizes>(?:[\d?]+x)*)(?P<type>[\w<>]+?)(?:, *#[^>]*>?)?>")
_TYPES = {"i1": "pred", "index": "s64", "complex<f32>": "c64", "complex<f64>": "c128"}
_NUMBER = re.compile(r"-?\d+")


@functools.cache
def parser() -> Lark:
    """Return the parser of headers and signatures."""
    return build_parser(*GRAMMARS, start=[*STARTS], has_positions=True, has_placeholders=False)


def parse_stablehlo(text: str | bytes | Source, *, path: str = "<text>") -> LoweredModule:
    """Return the signature and the counts of operations of a lowered program.

    Raises:
        DumpSyntaxError: If there is no function in it.
    """
    if isinstance(text, Source):
        source = text
    else:
        source = clean(decode(text) if isinstance(text, bytes) else text, path)
    function = _MAIN.search(source.text) or _FUNCTION.search(source.text)
    header = _HEADER.search(source.text)
    if function is None:
        message = "this is MLIR without 'func.func', so it is not StableHLO"
        raise DumpSyntaxError(message, path=source.path)
    gaps: list[Gap] = []
    tree = header and _tree(source, "header", header.start(), header.end(), gaps)
    attributes = _attributes(source, tree, header.start()) if header and tree else {}
    symbol = _optional_token(tree, "SYMBOL") if tree else None
    meshes = meshes_by_name(source.text)
    arguments, results = _signature(source, function, meshes, gaps)
    calls = (match[1] or match[2] for match in _CUSTOM_CALL.finditer(source.text))
    return LoweredModule(
        name=_plain(symbol[1:] if symbol else ""),
        num_partitions=_number(attributes.get("mhlo.num_partitions")),
        replica_count=_number(attributes.get("mhlo.num_replicas")),
        meshes=meshes,
        arguments=arguments,
        results=results,
        operations=Counter(match[1] for match in _OPERATION.finditer(source.text)),
        custom_calls=Counter(calls),
        gaps=tuple(gaps),
    )


def _signature(
    source: Source, match: re.Match[str], meshes: Meshes, gaps: list[Gap]
) -> tuple[tuple[LoweredValue, ...] | None, tuple[LoweredValue, ...] | None]:
    start = match.start()
    stop = _SIGNATURE_END.search(source.text, start)
    end = len(source.text) if stop is None else stop.start() + 1
    tree = _tree(source, "signature", start, end, gaps)
    if tree is None:
        return None, None
    arguments, results = (
        tuple(_value(source, node, start, meshes, f"result {k}") for k, node in enumerate(nodes))
        for nodes in (_find_all(tree, "argument"), _find_all(tree, "result"))
    )
    return arguments, results


def _tree(source: Source, rule: str, start: int, end: int, gaps: list[Gap]) -> Tree[Token] | None:
    try:
        return grammar_tree(parser(), NAMES, source, rule, start, end)
    except DumpSyntaxError as error:
        gaps.append(Gap.of(error, source.text.count("\n", start, end) + 1))
        return None


def _value(
    source: Source, node: Tree[Token], offset: int, meshes: Meshes, place: str
) -> LoweredValue:
    type_text = next((_text(source, one, offset) for one in _find_all(node, "type")), "")
    attributes = _attributes(source, node, offset)
    text = attributes.get("sdy.sharding") or attributes.get("mhlo.sharding")
    output = _number(attributes.get("tf.aliasing_output"))
    return LoweredValue(
        name=_optional_token(node, "VALUE") or _plain(attributes.get("jax.result_info", place)),
        type_text=type_text,
        shape=_shape(type_text),
        sharding_text=None if text is None else _plain(text),
        sharding=None if text is None else _sharding(_plain(text), meshes),
        is_donated=output is not None or attributes.get("jax.buffer_donor") == "true",
        output_number=output,
    )


def _attributes(source: Source, node: Tree[Token], offset: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for dictionary in _find_all(node, "dictionary"):
        for entry in _find_all(dictionary, "entry"):
            name = next(str(child) for child in entry.children if isinstance(child, Token))
            value = next((_text(source, one, offset) for one in _find_all(entry, "value")), "true")
            found[_plain(name)] = value
    return found


def _text(source: Source, node: Tree[Token], offset: int) -> str:
    return source.text[offset + node.meta.start_pos : offset + node.meta.end_pos]


def _plain(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _number(text: str | None) -> int | None:
    match = _NUMBER.match(text or "")
    return None if match is None or len(match[0]) > _LONGEST else int(match[0])


_LONGEST = 18


def _shape(type_text: str) -> Shape | None:
    """Return the shape of a tensor type; None for other types, and sizes that are no numbers."""
    match = _TENSOR.fullmatch(type_text)
    if match is None:
        return None
    sizes = match["sizes"].split("x")[:-1]
    if any(len(size) > _LONGEST or not (size == "?" or size.isdecimal()) for size in sizes):
        return None
    dimensions = tuple(None if size == "?" else bounded_int(size) for size in sizes)
    return Shape(
        element_type=_element_type(match["type"]),
        dimensions=dimensions,
        dynamic_dimensions=tuple(size is None for size in dimensions),
    )


def _element_type(text: str) -> str:
    if text in _TYPES:
        return _TYPES[text]
    signless = re.fullmatch(r"(u?)s?i(\d+)", text)
    return f"{signless[1] or 's'}{signless[2]}" if signless else text.lower()


def _sharding(text: str, meshes: Meshes) -> HloSharding | None:
    if text.startswith("#sdy"):
        found = shardy_shardings(text, meshes)
        return found[0] if len(found) == 1 else None
    try:
        return HloSharding.parse(text)
    except DumpSyntaxError:
        return None


def _find_all(node: Tree[Token], rule: str) -> Iterator[Tree[Token]]:
    return (c for c in node.children if isinstance(c, Tree) and c.data == rule)


def _optional_token(node: Tree[Token], kind: str) -> Token | None:
    return next((c for c in node.children if isinstance(c, Token) and c.type == kind), None)
