"""The structure of the package, read from its source: sizes of rooms, circles, docstrings."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import networkx as nx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hlo_lens"


class Size(NamedTuple):
    """Size of a room.

    Attributes:
        code: Lines without blank lines, comments, docstrings and imports.
        files: Python files.
    """

    code: int
    files: int


MOST = {
    ".": Size(41, 2),
    "buffers": Size(2826, 11),
    "call_trees": Size(793, 4),
    "cli": Size(611, 5),
    "grammar": Size(521, 4),
    "hlo": Size(3154, 12),
    "load": Size(2278, 11),
    "logs": Size(1951, 7),
    "program": Size(3158, 11),
    "pytest_plugin": Size(215, 2),
    "questions": Size(0, 1),
    "questions/check": Size(1327, 7),
    "questions/collectives": Size(2683, 10),
    "questions/diff": Size(3345, 14),
    "questions/dumps": Size(1349, 8),
    "questions/findings": Size(3517, 19),
    "questions/matching": Size(2064, 8),
    "questions/memory": Size(2414, 11),
    "questions/plans": Size(1564, 7),
    "questions/report": Size(1592, 8),
    "questions/sharding": Size(1740, 8),
    "questions/snapshots": Size(756, 5),
    "questions/source": Size(544, 4),
    "questions/stacks": Size(201, 2),
    "questions/what_if": Size(2355, 11),
    "questions/work": Size(420, 3),
    "render": Size(1079, 8),
    "shapes": Size(1376, 6),
    "testing": Size(365, 3),
    "text": Size(1218, 13),
}
"""Largest size of each room. It may only fall; who raises a number says why in the commit."""


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))


def _documentation(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield docstrings, and the strings after fields and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            below = node.body if isinstance(node, ast.Module | ast.ClassDef) else node.body[:1]
            for text in below:
                value = text.value if isinstance(text, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield text


_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Return the number of lines of code of a source text."""
    tree = ast.parse(source)
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in (*_imports(tree), *_documentation(tree)):
        lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def sizes() -> dict[str, Size]:
    """Return the size of each room: folders of the package and of ``questions``."""
    code: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts[:-1]
        room = "/".join(parts[:2] if parts[:1] == ("questions",) else parts[:1]) or "."
        code[room] += code_lines(path.read_text("utf-8"))
        files[room] += 1
    return {room: Size(code[room], files[room]) for room in sorted(files)}


def test_code_is_counted_without_words() -> None:
    source = '"""Doc."""\nimport ast\n\nX = 1\n"""Word."""\n# word\n'
    source += 'def f():\n    """Doc."""\n    return X\n'
    assert code_lines(source) == 3


SIZES = sizes()


@pytest.mark.parametrize("room", SIZES)
def test_a_room_does_not_grow(room: str) -> None:
    assert SIZES[room].code <= MOST[room].code
    assert SIZES[room].files <= MOST[room].files


def test_the_table_of_sizes_has_the_rooms_there_are() -> None:
    assert sorted(MOST) == sorted(SIZES)


IN_CIRCLE: set[str] = set()
"""Files that may name one another's types: none."""


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {_module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _imported_files(source: str) -> Iterator[str]:
    """Yield the files that a source names in imports, those for types only included."""
    for node in _imports(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            assert node.module is not None, "a relative import"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in FILES else node.module


def _circles(imports: dict[str, set[str]]) -> list[list[str]]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edges_from((file, other) for file, others in imports.items() for other in others)
    return [sorted(files) for files in nx.strongly_connected_components(graph) if len(files) > 1]


def test_imports_for_types_count() -> None:
    source = "if TYPE_CHECKING:\n    from hlo_lens.load.module import Dump\nimport hlo_lens.load\n"
    assert sorted(_imported_files(source)) == ["hlo_lens.load", "hlo_lens.load.module"]


def test_a_circle_is_found() -> None:
    assert _circles({"a": {"b"}, "b": set()}) == []
    assert _circles({"a": {"b"}, "b": {"a"}}) == [["a", "b"]]


def test_no_files_import_each_other_in_a_circle() -> None:
    imports = {
        name: {other for other in _imported_files(path.read_text()) if other in FILES} - {name}
        for name, path in FILES.items()
    }
    circles = [files for files in _circles(imports) if not IN_CIRCLE.issuperset(files)]
    assert circles == []


def test_every_package_has_a_docstring() -> None:
    packages = [path for path in FILES.values() if path.name == "__init__.py"]
    assert [path for path in packages if not ast.get_docstring(ast.parse(path.read_text()))] == []
