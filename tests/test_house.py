"""The structure of the package, read from its source: no circles, passes run in api only."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import networkx as nx

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hlo_lens"


class Import(NamedTuple):
    """A name that a file imports when it runs, at its head or inside a function."""

    file: str
    module: str
    name: str


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {_module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, without the bodies of ``if TYPE_CHECKING``."""
    yield node
    below = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        below = list(node.orelse)
    for child in below:
        yield from _run_time_nodes(child)


def _imports(source: str, module: str) -> Iterator[Import]:
    for node in _run_time_nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (Import(module, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{module}: a relative import"
            yield from (Import(module, node.module, alias.name) for alias in node.names)


IMPORTS = [found for name, path in FILES.items() for found in _imports(path.read_text(), name)]


def _imported_file(found: Import) -> str:
    """Return the file that an import runs: the submodule that is named, else the module."""
    submodule = f"{found.module}.{found.name}"
    return submodule if submodule in FILES else found.module


def _circles(imports: list[Import]) -> list[list[str]]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for found in imports:
        target = _imported_file(found)
        if target in FILES and target != found.file:
            graph.add_edge(found.file, target)
    return [sorted(files) for files in nx.strongly_connected_components(graph) if len(files) > 1]


def test_the_graph_has_imports_inside_functions_and_none_for_types() -> None:
    source = """
if TYPE_CHECKING:
    from hlo_lens.load.module import Dump
else:
    import hlo_lens.load
def read():
    from hlo_lens.hlo.module_reader import parse_hlo
"""
    assert list(_imports(source, "m")) == [
        Import("m", "hlo_lens.load", ""),
        Import("m", "hlo_lens.hlo.module_reader", "parse_hlo"),
    ]


def test_a_circle_is_found() -> None:
    one, other = "hlo_lens.load.module", "hlo_lens.load"
    there, back = Import(one, other, "load"), Import(other, one, "Dump")
    assert _circles([there]) == []
    assert _circles([there, back]) == [sorted([one, other])]


def test_no_files_import_each_other_in_a_circle() -> None:
    assert _circles(IMPORTS) == []


def test_load_imports_no_analysis() -> None:
    assert [
        found
        for found in IMPORTS
        if found.file.startswith("hlo_lens.load") and found.module.startswith("hlo_lens.analysis")
    ] == []


def test_every_package_has_a_docstring() -> None:
    packages = [path for path in FILES.values() if path.name == "__init__.py"]
    assert [path for path in packages if not ast.get_docstring(ast.parse(path.read_text()))] == []
