"""networkx graphs of a module, and files of them: GraphML (yEd, Gephi) and DOT (Graphviz).

networkx is imported when a graph is made: the import takes a tenth of a second.

Both formats hold only text, numbers and booleans, and GraphML refuses characters that XML does not
have. Attributes with other objects are written as text, or left out if they are empty. Node names
are unchanged.
"""

from __future__ import annotations

import io
from itertools import repeat
from typing import TYPE_CHECKING, Any

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.patterns import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import networkx as nx

    from hlo_lens.hlo.module import HloComputation, HloModule

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
