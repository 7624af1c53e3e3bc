"""GraphML and DOT: valid files with all nodes, edges and attributes."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hlo_lens
from tests.corpus import SAMPLES

TEXT = """HloModule m, is_scheduled=true
ENTRY %e (p: f32[8], q: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0), metadata={op_name="params['a\\"b']"}
  %q = f32[8]{0} parameter(1)
  %n = f32[8]{0} negate(%p), control-predecessors={%q},
    metadata={source_file="a\\\\b.py" source_line=3}
  ROOT %r = f32[8]{0} add(%n, %n)
}
"""
STRING = r'"(?:\\.|[^"\\])*"'
LISTED = rf"\[[a-z_]+={STRING}(?:, [a-z_]+={STRING})*\]"
STATEMENT = re.compile(
    rf"(?s)(?:  node {LISTED};|  {STRING}(?: (?:->|--) {STRING})?(?: {LISTED})?;)\n"
)


def statements(dot: str) -> list[str]:
    """Return the statements of a DOT text; fails if it does not follow DOT's grammar."""
    head = re.match(rf"(?:di)?graph {STRING} \{{\n", dot)
    assert head is not None
    found, position = [], head.end()
    while match := STATEMENT.match(dot, position):
        found.append(match[0])
        position = match.end()
    assert dot[position:] == "}\n"
    return found


@pytest.fixture
def module() -> hlo_lens.HloModule:
    return hlo_lens.parse_hlo(TEXT)


def test_graphml_reads_back_with_all_nodes_edges_and_attributes(
    module: hlo_lens.HloModule,
) -> None:
    read = nx.parse_graphml(hlo_lens.to_graphml(hlo_lens.def_use_graph(module.entry)))
    assert set(read.nodes) == {"p", "q", "n", "r"}
    assert read.nodes["p"] == {
        "opcode": "parameter",
        "hlo_shape": "f32[8]{0}",
        "op_name": "params['a\"b']",
    }
    assert read.nodes["n"]["source"] == "a\\b.py:3"
    edges = sorted((a, b, d["kind"]) for a, b, d in read.edges(data=True))
    assert edges == [
        ("n", "r", "operand"),
        ("n", "r", "operand"),
        ("p", "n", "operand"),
        ("q", "n", "control"),
    ]


def test_dot_escapes_quotes(module: hlo_lens.HloModule) -> None:
    dot = hlo_lens.to_dot(hlo_lens.def_use_graph(module.entry))
    assert len(statements(dot)) == 1 + 4 + 4
    assert 'op_name="params[\'a\\"b\']"' in dot
    assert 'source="a\\\\b.py:3"' in dot
    assert '"q" -> "n" [kind="control", style="dashed"];' in dot


def test_call_graphs_export_too() -> None:
    module = hlo_lens.parse_hlo((SAMPLES / "cpu/tp_mlp/compiled.txt").read_text("utf-8"))
    graph = hlo_lens.call_graph(module)
    assert len(statements(hlo_lens.to_dot(graph))) == 1 + len(graph) + graph.number_of_edges()
    read = nx.parse_graphml(hlo_lens.to_graphml(graph))
    assert read.number_of_edges() == graph.number_of_edges()
    entries = [name for name, data in read.nodes(data=True) if data["is_entry"]]
    assert entries == [module.entry.name]


@given(st.text(), st.text(), st.text())
def test_any_text_makes_valid_files(name: str, key: str, value: str) -> None:
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=value)
    graph.add_node(name, opcode=value, nothing=None, listed=(1, 2), empty=())
    graph.add_edge(name, key, kind=value)
    statements(hlo_lens.to_dot(graph))
    root = ET.fromstring(hlo_lens.to_graphml(graph))
    assert len(root.findall(".//{*}edge")) == 1


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
def test_graphviz_reads_it(module: hlo_lens.HloModule) -> None:
    dot = hlo_lens.to_dot(hlo_lens.def_use_graph(module.entry))
    done = subprocess.run(
        ["dot", "-Tplain"], input=dot, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
