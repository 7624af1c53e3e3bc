"""Instruction table of a module, and its graphs for networkx, GraphML and DOT.

A module has up to hundreds of thousands of instructions. The table of `tabulate` reads them once:
opcodes, the bytes of results, which instructions produce arrays. A shape is parsed once per
distinct text.

networkx is imported when a graph is made: the import takes a tenth of a second. GraphML (yEd,
Gephi) and DOT (Graphviz) hold only text, numbers and booleans, and GraphML refuses characters that
XML does not have. Attributes with other objects are written as text, or left out if empty.
"""

from __future__ import annotations

import functools
import io
import re
from array import array
from collections import Counter
from itertools import repeat
from typing import TYPE_CHECKING, Any

from hlo_lens.hlo.columns import NAME, NAME_END, NOTHING
from hlo_lens.hlo.opcodes import OpcodeTraits, Produced, opcode_traits
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.patterns import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import networkx as nx

    from hlo_lens.hlo.module import HloComputation, HloInstruction, HloModule
    from hlo_lens.hlo.text import HloReader
    from hlo_lens.shapes.shape import Shape


class InstructionTable:
    """Opcodes and result bytes of all instructions, one entry per row of the columns.

    Columns that only some passes read are made when first asked for.

    Args:
        module: The module.

    Attributes:
        module: The module.
        opcodes: Opcode as written.
    """

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.opcodes = module.opcodes
        self._sizes = _Sizes(module.reader)

    @property
    def owners(self) -> Sequence[int]:
        """Position, in the module's list, of the computation of each row."""
        return self.module.links.owners

    @property
    def different_opcodes(self) -> Collection[str]:
        """The different opcodes."""
        return self.opcodes.different

    @property
    def opcode_counts(self) -> dict[str, int]:
        """Number of instructions of each opcode."""
        return {opcode: len(rows) for opcode, rows in self.opcodes.places.items()}

    @functools.cached_property
    def opcode_sizes(self) -> Mapping[tuple[str, int | None], int]:
        """Number of instructions of each pair of opcode and bytes of a result.

        See `result_bytes`.
        """
        opcodes, shapes = self.opcodes, self.module.shape_texts
        found: Counter[tuple[str, int | None]] = Counter()
        pairs = Counter(zip(opcodes.numbers, shapes.numbers, strict=True))
        for (opcode, shape), count in pairs.items():
            found[opcodes.different[opcode], self._sizes[shapes.different[shape]]] += count
        return found

    @property
    def shape_texts(self) -> Collection[str]:
        """The different texts of result shapes, as written."""
        return self.module.shape_texts.different

    def result_bytes(self, row: int) -> int | None:
        """Return `Shape.size_bytes` of a row's result, of a tuple the sum over its leaves."""
        return self._sizes[self.module.shape_texts[row]]

    def rows_of(self, opcodes: Collection[str]) -> list[int]:
        """Return the rows whose opcode is one of these, in text order."""
        return self.opcodes.places_of(opcodes)

    @functools.cached_property
    def entry_parameters(self) -> list[int]:
        """Rows of the entry's parameters, in text order."""
        entry, owners = self.module.entry.place, self.owners
        return [row for row in self.opcodes.places.get("parameter", ()) if owners[row] == entry]

    def rows_where(self, predicate: Callable[[OpcodeTraits], bool]) -> list[int]:
        """Return the rows whose opcode has traits that satisfy a predicate, in text order."""
        return self.rows_of([o for o in self.different_opcodes if predicate(opcode_traits(o))])

    def instruction(self, row: int) -> HloInstruction:
        """Return the instruction of a row."""
        return self.module.instruction(row)

    # ---- producers -----------------------------------------------------------------------------

    @property
    def producers(self) -> Sequence[int]:
        """Rows that produce arrays of their own, in text order.

        No views (see `left_out_views`), nothing embedded (see `OpcodeTraits`).
        """
        return self._producers[0]

    @property
    def produced_bytes(self) -> Sequence[int | None]:
        """For each of `producers` the bytes of these arrays; None where unknown."""
        return self._producers[1]

    @property
    def left_out_views(self) -> int:
        """Number of rows that pass on arrays of others.

        These are tuple, get-tuple-element, bitcast, while, conditional, call, opt-barrier, send,
        async-start, ``-done``, ``-update`` and the parameters of computations other than the entry.
        """
        return self._shown - len(self.producers)

    @property
    def left_out_embedded(self) -> int:
        """Number of rows in computations that the entry does not run by itself.

        It reaches them only through fusions, reducers and the like, or not at all.
        """
        return len(self.opcodes) - self._shown

    @property
    def _shown(self) -> int:
        return sum(len(computation.rows) for computation in self._reached)

    @functools.cached_property
    def _reached(self) -> list[HloComputation]:
        module = self.module
        if not module.has_entry:
            return []
        places = module.links.reached(module.entry.place, lambda traits: traits.is_control_flow)
        return [module.computations[place] for place in places]

    @functools.cached_property
    def _producers(self) -> tuple[array[int], list[int | None]]:
        return _producers(self.module, self._reached, self._sizes)


def tabulate(module: HloModule) -> InstructionTable:
    """Return the instruction table of a module."""
    return InstructionTable(module)


def _producers(
    module: HloModule, computations: Sequence[HloComputation], sizes: _Sizes
) -> tuple[array[int], list[int | None]]:
    """Return the rows of some computations that produce arrays, and the bytes of these."""
    opcodes, shapes = module.opcodes, module.shape_texts
    numbers, shape_numbers = opcodes.numbers, shapes.numbers
    parts = [opcode_traits(opcode).produced for opcode in opcodes.different]
    producers = array("I")
    produced: list[int | None] = []
    is_view = [part is Produced.NONE for part in parts]
    known: dict[tuple[int, int], int | None] = {}
    for computation in computations:
        is_entry = computation.is_entry
        for row in computation.rows:
            number = numbers[row]
            if is_view[number] and not (is_entry and opcodes[row] == "parameter"):
                continue
            producers.append(row)
            key = (number, shape_numbers[row])
            if key not in known:
                part, text = parts[number], shapes[row]
                is_whole = part in (Produced.ALL, Produced.NONE)
                known[key] = sizes[text] if is_whole else sizes.element(text, part.value - 1)
            produced.append(known[key])
    return producers, produced


def rows_named(module: HloModule, names: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield row and name of each instruction with one of some names."""
    columns = module.columns
    for row, name in enumerate(columns.texts(NAME, NAME_END)):
        if name in names:
            yield row, name
    for row, overlay in columns.overlays.items():
        if overlay.name in names and overlay.name is not None:
            yield row, overlay.name


def unknown_names(module: HloModule, names: Collection[str]) -> set[str]:
    """Return the names that no instruction has."""
    columns = module.columns
    unknown = set(names)
    unknown.difference_update(columns.texts(NAME, NAME_END))
    unknown.difference_update(o.name for o in columns.overlays.values() if o.name is not None)
    return unknown


def evident_partitions(table: InstructionTable) -> int | None:
    """Return the printed number of partitions, else that of the entry's shardings, else None.

    XLA prints it since the end of 2023; before that, it follows from the devices of shardings.
    """
    module = table.module
    if "num_partitions" in module.header:
        return module.num_partitions
    shardings = (table.instruction(row).sharding for row in table.entry_parameters)
    most = max((one.num_devices or 0 for one in shardings if one is not None), default=0)
    return most // module.replica_count or None


def opcode_totals(table: InstructionTable) -> dict[str, tuple[int, int, int]]:
    """Return for each opcode its count, result bytes, and the count of unknown sizes."""
    count = table.opcode_counts
    size: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for (opcode, result_bytes), number in table.opcode_sizes.items():
        if result_bytes is None:
            unknown[opcode] += number
        else:
            size[opcode] += number * result_bytes
    return {opcode: (count[opcode], size[opcode], unknown[opcode]) for opcode in count}


class _Sizes(dict[str, "int | None"]):
    """Bytes of a result by shape text, parsed on first use."""

    def __init__(self, reader: HloReader) -> None:
        super().__init__({"": None})
        self._reader = reader
        self._elements: dict[tuple[str, int], int | None] = {}

    def __missing__(self, text: str) -> int | None:
        shape = self._shape(text)
        size = None if shape is None else shape.size_bytes
        self[text] = size
        return size

    def element(self, text: str, position: int) -> int | None:
        """Return the bytes of one element of a tuple, or of the whole array."""
        key = (text, position)
        if key not in self._elements:
            shape = self._shape(text)
            if shape is not None and position < len(shape.tuple_shapes):
                shape = shape.tuple_shapes[position]
            self._elements[key] = None if shape is None else shape.size_bytes
        return self._elements[key]

    def _shape(self, text: str) -> Shape | None:
        """Return the shape, or None if the text is no shape: its size is unknown."""
        if not text:
            return None
        try:
            return self._reader.shape(text)
        except DumpSyntaxError:
            return None


_PRINTED = re.compile(r"%?(\.\.\.)?(.*?)(\{[\d,\s]*\})?")


def names_printed_as(text: str, names: Collection[str]) -> list[str]:
    """Return the names that a printed name may be, in their order; several only for an end.

    >>> names_printed_as("while.3{2}", ["while.3", "add_fusion.12", "mul_fusion.12"])
    ['while.3']
    >>> names_printed_as("...d_fusion.12", ["while.3", "add_fusion.12", "mul_fusion.12"])
    ['add_fusion.12']
    """
    printed = _PRINTED.fullmatch(text.strip())
    if printed is None:
        return []
    dots, name, _ = printed.groups()
    if dots:
        return [one for one in names if one.endswith(name)]
    return [name] if name in names else []


_LONGEST_LABEL = 120
_NOT_IN_XML = lazy_pattern("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def def_use_graph(computation: HloComputation) -> nx.MultiDiGraph[str]:
    """Return the graph of a computation, with edges from each instruction to its users.

    Nodes are instruction names, with attributes ``opcode`` and ``instruction``. Edges have
    ``kind``: ``operand``, with ``operand_number`` and ``index`` (the tuple index of a compact
    get-tuple-element, () for the whole value), or ``control`` for control predecessors. A name that
    is used and not defined, as in a truncated text, is a node without ``instruction``.
    """
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=computation.name)
    for instruction in computation.instructions:
        graph.add_node(instruction.name, opcode=instruction.opcode, instruction=instruction)
    links, name_of = computation.module.links, computation.module.columns.name
    for instruction in computation.instructions:
        name, row = instruction.name, instruction.row
        targets = links.operands_of(row)
        names = instruction.operand_names if NOTHING in targets else map(name_of, targets)
        elements = links.operand_elements.get(row, repeat(()))
        for number, (operand, index) in enumerate(zip(names, elements, strict=False)):
            graph.add_edge(operand, name, kind="operand", operand_number=number, index=index)
        for before in instruction.control_predecessors:
            graph.add_edge(before, name, kind="control")
    return graph


def call_graph(module: HloModule) -> nx.MultiDiGraph[str]:
    """Return the graph of a module, with edges from each computation to those that it calls.

    Nodes are computation names, with attributes ``computation`` and ``is_entry``; edges have
    ``instruction`` (the caller's name) and ``opcode``. A called computation that is not in the
    text is a node without ``computation``.
    """
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=module.name)
    for computation in module.computations:
        graph.add_node(computation.name, computation=computation, is_entry=computation.is_entry)
    calls = module.links.calls
    for number, (row, place) in enumerate(zip(calls.rows, calls.places, strict=True)):
        caller = module.instruction(row)
        called = calls.undefined.get(number) or module.computations[place].name
        graph.add_edge(
            caller.computation.name, called, instruction=caller.name, opcode=caller.opcode
        )
    return graph


def to_graphml(graph: nx.MultiDiGraph[str]) -> str:
    """Return a graph as GraphML, with all attributes that are not empty.

    Args:
        graph: What `def_use_graph` or `call_graph` returned, or any graph of networkx.

    >>> import hlo_lens
    >>> module = hlo_lens.parse_hlo("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }")
    >>> text = hlo_lens.to_graphml(hlo_lens.def_use_graph(module.entry))
    >>> '<node id="n">' in text, ">negate<" in text, ">f32[8]<" in text
    (True, True, True)
    """
    import networkx as nx

    plain: nx.MultiDiGraph[str] = type(graph)()
    plain.graph.update(_attributes(graph.graph))
    for node, attributes in graph.nodes(data=True):
        plain.add_node(_xml(str(node)), **_attributes(attributes))
    for source, target, attributes in graph.edges(data=True):
        plain.add_edge(_xml(str(source)), _xml(str(target)), **_attributes(attributes))
    out = io.BytesIO()
    nx.write_graphml(plain, out)
    return out.getvalue().decode("utf-8")


def to_dot(graph: nx.MultiDiGraph[str]) -> str:
    r"""Return a graph in the DOT language of Graphviz, with all attributes that are not empty.

    Nodes are labelled with opcode, name and shape; control edges are dashed.

    Args:
        graph: What `def_use_graph` or `call_graph` returned, or any graph of networkx.

    >>> import hlo_lens
    >>> module = hlo_lens.parse_hlo("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }")
    >>> print(hlo_lens.to_dot(hlo_lens.def_use_graph(module.entry)))
    digraph "e" {
      node [shape="box"];
      "p" [label="parameter\np\nf32[8]", opcode="parameter", hlo_shape="f32[8]"];
      "n" [label="negate\nn\nf32[8]", opcode="negate", hlo_shape="f32[8]"];
      "p" -> "n" [kind="operand", operand_number="0"];
    }
    <BLANKLINE>
    """
    word, arrow = ("digraph", "->") if graph.is_directed() else ("graph", "--")
    lines = [f"{word} {_quoted(str(graph.graph.get('name', '')))} {{", '  node [shape="box"];']
    for node, attributes in graph.nodes(data=True):
        named = _attributes(attributes)
        listed = [("label", _label(str(node), named)), *named.items()]
        lines.append(f"  {_quoted(str(node))} {_listed(listed)};")
    for source, target, attributes in graph.edges(data=True):
        listed = list(_attributes(attributes).items())
        if attributes.get("kind") == "control":
            listed.append(("style", "dashed"))
        ends = f"{_quoted(str(source))} {arrow} {_quoted(str(target))}"
        lines.append(f"  {ends} {_listed(listed)};" if listed else f"  {ends};")
    return "\n".join([*lines, "}", ""])


def _listed(pairs: list[tuple[str, Any]]) -> str:
    return f"[{', '.join(f'{name}={_quoted(str(value))}' for name, value in pairs)}]"


def _quoted(text: str) -> str:
    """Return a quoted string of DOT, whose lexer has one escape: a backslash before a quote.

    Labels have more escapes, so every backslash is written twice.
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "")
    return '"' + escaped.replace("\r", "").replace("\n", "\\n") + '"'


def _label(node: str, attributes: Mapping[str, Any]) -> str:
    """Return the label of a node."""
    words = [attributes.get("opcode", ""), node, attributes.get("hlo_shape", "")]
    return "\n".join(_cut(str(word)) for word in words if word)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 3]}..."


def _attributes(attributes: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    return {
        key: _xml(value) if isinstance(value, str) else value
        for name, found in attributes.items()
        for key, value in _values(str(name), found)
    }


def _values(name: str, value: Any) -> Iterator[tuple[str, str | int | float | bool]]:
    """Yield the names and values that an attribute is exported as."""
    from hlo_lens.hlo.module import HloComputation, HloInstruction

    if isinstance(value, (str, bool, int, float)):
        yield name, value
    elif isinstance(value, HloInstruction):
        yield from _instruction_values(value)
    elif isinstance(value, HloComputation):
        yield "instructions", len(value.instructions)
    elif isinstance(value, (tuple, list)):
        if value:
            yield name, ",".join(map(str, value))
    elif value is not None:
        yield name, str(value)


def _instruction_values(instruction: Any) -> Iterator[tuple[str, str | int | float | bool]]:
    """Yield shape, bytes, operation and source line of an instruction, as far as known."""
    if instruction.shape_text:
        yield "hlo_shape", instruction.shape_text
    try:
        op_name, place = instruction.op_name, instruction.source
    except DumpSyntaxError:  # listed as a gap of the module
        return
    if op_name is not None:
        yield "op_name", op_name
    if place is not None:
        yield "source", place


def _xml(text: str) -> str:
    """Return a text without the characters that XML cannot hold."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
