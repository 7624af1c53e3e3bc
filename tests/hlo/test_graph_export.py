"""networkx graphs; GraphML and DOT: valid files with all nodes, edges and attributes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import networkx as nx
import pytest
from hypothesis import given, strategies as st

import hlo_lens
from hlo_lens.hlo.query import call_graph, def_use_graph

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


def test_call_graph_takes_an_executable_of_jax() -> None:
    jax = pytest.importorskip("jax")
    compiled = jax.jit(lambda x: x + 1).lower(1.0).compile()
    assert any(is_entry for _, is_entry in hlo_lens.call_graph(compiled).nodes(data="is_entry"))


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


CALLS = """HloModule m

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (p: (f32[8], f32[])) -> f32[] {
  %p = (f32[8], f32[]) parameter(0)
  %zero = f32[] constant(0)
  %twice = f32[] add(%zero, %zero), control-predecessors={%p}
  ROOT %r = f32[] reduce(%p#0, %twice), dimensions={0}, to_apply=%add
}
"""


def test_edges_go_from_definition_to_use() -> None:
    graph = def_use_graph(hlo_lens.parse_hlo(CALLS).entry)
    edges = {(a, b, d.get("operand_number"), d["kind"]) for a, b, d in graph.edges(data=True)}
    assert edges == {
        ("zero", "twice", 0, "operand"),
        ("zero", "twice", 1, "operand"),
        ("p", "twice", None, "control"),
        ("p", "r", 0, "operand"),
        ("twice", "r", 1, "operand"),
    }
    assert graph.edges["p", "r", 0]["index"] == (0,)


def test_calls_name_the_instruction() -> None:
    graph = call_graph(hlo_lens.parse_hlo(CALLS))
    assert list(graph.edges(data=True)) == [
        ("main", "add", {"instruction": "r", "opcode": "reduce"})
    ]
    assert graph.nodes["main"]["is_entry"]


def test_undefined_names_are_bare_nodes() -> None:
    module = hlo_lens.parse_hlo("ENTRY e { ROOT r = f32[] call(gone), to_apply=lost }")
    assert "instruction" not in def_use_graph(module.entry).nodes["gone"]
    assert "computation" not in call_graph(module).nodes["lost"]


def test_networkx_is_imported_only_for_graphs() -> None:
    code = (
        "import sys, hlo_lens.hlo.query, hlo_lens; "
        "hlo_lens.parse_hlo('ENTRY e { ROOT p = f32[] parameter(0) }'); "
        "sys.exit('networkx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
