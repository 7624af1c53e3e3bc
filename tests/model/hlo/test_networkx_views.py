"""networkx views of computations and modules."""

from __future__ import annotations

import subprocess
import sys

import hlo_lens
from hlo_lens.model.hlo.networkx_views import call_graph, def_use_graph

TEXT = """HloModule m

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
    graph = def_use_graph(hlo_lens.parse_hlo(TEXT).entry)
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
    graph = call_graph(hlo_lens.parse_hlo(TEXT))
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
        "import sys, hlo_lens.model.hlo.networkx_views, hlo_lens; "
        "hlo_lens.parse_hlo('ENTRY e { ROOT p = f32[] parameter(0) }'); "
        "sys.exit('networkx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
