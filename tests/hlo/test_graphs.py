"""networkx graphs: nodes, edges and attributes, also as GraphML."""

from __future__ import annotations

import subprocess
import sys

import networkx as nx
import pytest

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
    text = "\n".join(nx.generate_graphml(hlo_lens.def_use_graph(module.entry)))
    read = nx.parse_graphml(text)
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
    assert graph.edges["p", "r", 0]["index"] == "0"


def test_calls_name_the_instruction() -> None:
    graph = call_graph(hlo_lens.parse_hlo(CALLS))
    assert list(graph.edges(data=True)) == [
        ("main", "add", {"instruction": "r", "opcode": "reduce"})
    ]
    assert graph.nodes["main"]["is_entry"]


def test_undefined_names_are_bare_nodes() -> None:
    module = hlo_lens.parse_hlo("ENTRY e { ROOT r = f32[] call(gone), to_apply=lost }")
    assert not def_use_graph(module.entry).nodes["gone"]
    assert not call_graph(module).nodes["lost"]


def test_networkx_is_imported_only_for_graphs() -> None:
    code = (
        "import sys, hlo_lens.hlo.query, hlo_lens; "
        "hlo_lens.parse_hlo('ENTRY e { ROOT p = f32[] parameter(0) }'); "
        "sys.exit('networkx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
