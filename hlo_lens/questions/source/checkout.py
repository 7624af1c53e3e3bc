"""The lines of a program in the files of a checkout, which may have changed since the compile.

A dump has no text of the program, but dumps since December 2025 have for each line the function and
the columns at which expressions begin. A line of the checkout is taken for that of the compile if
it is in a function of that name, and expressions begin at these columns: of several such lines the
one that has moved as far as most lines of the function, or as the one before it. Where a dump has
no columns, the line of that number is taken.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.source.lines import SourceLines
    from hlo_lens.text.source_files import Checkout

Columns = dict[str, dict[int, set[int]]]
"""Function to line to the columns, from 0, at which expressions of it begin."""

_FEWEST = 3
"""Lines that have moved as far, among them a line for which that decides."""


def compiled_columns(module: HloModule) -> dict[str, Columns]:
    """Return the columns of the lines in the tables of a module, by file."""
    found: dict[str, Columns] = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
    tables = module.stack_frames
    for number in range(1, len(tables.frames) + 1):
        place = tables.location(number)
        if place is not None and place.line and place.function and place.column is not None:
            found[place.file][place.function][place.line].add(place.column)
    return found


def lines_now(compiled: Columns, text: str) -> dict[int, int | None]:
    r"""Return the line of a text for each line of the file that was compiled; None if it has none.

    >>> lines_now({"f": {2: {11}, 3: {5}}}, "import x\n\ndef f():\n    return g(h)\n")
    {2: 4, 3: None}
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return dict.fromkeys((line for lines in compiled.values() for line in lines), None)
    starts = _starts(tree)
    ranges = defaultdict(list)
    for name, first, last in _functions(tree, ""):
        ranges[name].append(range(first, last + 1))
    ranges["<module>"].append(range(1, text.count("\n") + 2))
    same: dict[tuple[str, int], list[int]] = {}
    for function, lines in compiled.items():
        inside = [
            line
            for name, spans in ranges.items()
            if name == function or ("." not in function and name.endswith(f".{function}"))
            for span in spans
            for line in span
        ]
        for line in sorted(lines):
            same[function, line] = [one for one in inside if lines[line] <= starts[one]]
    shifts = Counter(one - line for (_, line), ones in same.items() for one in ones)
    found: dict[int, int | None] = {}
    around, shift = "", 0
    for (function, line), ones in same.items():
        if function != around:
            pairs = ((n, many) for (name, n), many in same.items() if name == function)
            own = {one - n for n, many in pairs for one in many}
            around, shift = function, max(own, key=lambda s: (shifts[s], -abs(s)), default=0)
        now = min(ones, key=lambda one: (abs(one - line - shift), one), default=None)
        if now is not None and now != line and len(ones) > 1 and shifts[now - line] < _FEWEST:
            now = None  # nothing else has moved as far
        shift = shift if now is None else now - line
        found[line] = found.get(line) or now
    return found


def _starts(tree: ast.Module) -> defaultdict[int, set[int]]:
    """Return the columns at which expressions begin, and names of attributes, by line."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.AugAssign | ast.For | ast.With):
            found[node.lineno].add(node.col_offset)
        if isinstance(node, ast.Attribute) and node.end_col_offset is not None:
            found[node.end_lineno or node.lineno].add(node.end_col_offset - len(node.attr))
    return found


_SCOPES = {
    ast.Lambda: "<lambda>",
    ast.ListComp: "<listcomp>",
    ast.SetComp: "<setcomp>",
    ast.DictComp: "<dictcomp>",
    ast.GeneratorExp: "<genexpr>",
}


def _functions(node: ast.AST, outer: str) -> Iterator[tuple[str, int, int]]:
    """Yield the qualified name of each function below a node, with its first and last line."""
    for child in ast.iter_child_nodes(node):
        inner = outer
        if isinstance(child, ast.ClassDef):
            inner = f"{outer}{child.name}."
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{outer}{child.name}", child.lineno, child.end_lineno or child.lineno
            inner = f"{outer}{child.name}.<locals>."
        elif isinstance(child, ast.expr) and type(child) in _SCOPES:
            name = f"{outer}{_SCOPES[type(child)]}"
            yield name, child.lineno, child.end_lineno or child.lineno
            inner = f"{name}.<locals>."
        yield from _functions(child, inner)


def in_checkout(found: SourceLines, module: HloModule, checkout: Checkout) -> SourceLines:
    """Return lines with their text in a checkout, and the lines that they are now.

    Args:
        found: The lines.
        module: The module, for the columns of its lines.
        checkout: The checkout; lines of files that it does not have are returned as they are.
    """
    columns = compiled_columns(module)
    texts = {file: checkout.lines_of(file) for file in {one.source_file for one in found.lines}}
    now = {
        file: lines_now(columns[file], "\n".join(lines))
        for file, lines in texts.items()
        if lines and file in columns
    }
    placed = []
    for one in found.lines:
        lines = texts[one.source_file]
        number = now.get(one.source_file, {}).get(one.source_line, one.source_line)
        if not lines:
            placed.append(one)
        elif number is None or number > len(lines):
            placed.append(replace(one, is_changed=True))
        else:
            placed.append(replace(one, text=lines[number - 1], checkout_line=number))
    return replace(found, lines=tuple(placed))
