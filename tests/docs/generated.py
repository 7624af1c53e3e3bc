"""Blocks of the handbook that are made from the code: columns of results, rooms, rules."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import textwrap
import tomllib
from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.questions.findings.rule import PARTS, all_rules
from hlo_lens.render.result import Result, Unit
from tests.corpus import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.questions.findings.rule import Rule

_WIDTH = 78
_PACKAGE = ROOT / "hlo_lens"


def columns() -> str:
    """Return each kind of result with its columns: name, unit, meaning."""
    for module in pkgutil.walk_packages(hlo_lens.__path__, "hlo_lens."):
        if "__main__" not in module.name and "pytest_plugin" not in module.name:
            importlib.import_module(module.name)
    results = sorted(set(_results(Result)), key=lambda r: r.KIND)
    return "\n".join("".join(_lines_of(result)) for result in results)


def _results(base: type[Result]) -> Iterator[type[Result]]:
    for result in base.__subclasses__():
        if "KIND" in vars(result) and result.__module__.startswith("hlo_lens."):
            yield result
        yield from _results(result)


def _lines_of(result: type[Result]) -> Iterator[str]:
    yield f"{result.KIND}\n"
    width = max(len(column.name) for column in result.COLUMNS)
    for column in result.COLUMNS:
        unit = "" if column.unit is Unit.NONE else column.unit.value
        yield _hanging(f"  {column.name:{width}}  {unit:{len('bytes-delta')}}  ", column.meaning)


def rooms() -> str:
    """Return each package with the first line of its docstring, front doors first."""
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    floors: list[str] = layers["tool"]["importlinter"]["contracts"][0]["layers"]
    names = [name.strip() for floor in floors for name in floor.split("|")]
    packages = [
        package
        for name in names
        if (_PACKAGE / name).is_dir()
        for package in sorted((_PACKAGE / name).rglob("__init__.py"))
    ]
    rows = [
        (str(package.parent.relative_to(_PACKAGE)) + "/", _summary(package.read_text("utf-8")))
        for package in packages
    ]
    assert hlo_lens.__path__ == [str(_PACKAGE)]
    width = max(len(name) for name, _ in rows)
    return "".join(_hanging(f"{name:{width}}  ", summary) for name, summary in rows)


def _summary(code: str) -> str:
    return (ast.get_docstring(ast.parse(code)) or "").partition("\n")[0]


def rules() -> str:
    """Return the description of each rule of ``lint``, by code."""
    return "\n".join("".join(_lines_of_rule(rule)) for rule in all_rules())


def _lines_of_rule(rule: Rule) -> Iterator[str]:
    yield f"{rule.code} {rule.name}\n"
    yield _hanging("  ", rule.text.title)
    width = max(map(len, PARTS))
    for heading, text in rule.text.parts.items():
        yield _hanging(f"  {heading:{width}}  ", text)


def _hanging(lead: str, text: str) -> str:
    """Return a text after a lead, wrapped under itself."""
    width = max(_WIDTH - len(lead), 24)
    lines = textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False) or [""]
    return "".join(
        f"{lead if not number else ' ' * len(lead)}{line}".rstrip() + "\n"
        for number, line in enumerate(lines)
    )


GENERATORS = {"text columns": columns, "text rooms": rooms, "text rules": rules}
"""Text after the opening fence of a block, to its required content."""
