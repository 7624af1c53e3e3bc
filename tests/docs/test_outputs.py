"""Outputs in README and handbook are those of the program; ``make docs`` rewrites them."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.metadata
import json
import pkgutil
import re
import shutil
import textwrap
import tomllib
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.questions.findings.rule import PARTS, all_rules
from hlo_lens.render.result import Result, Unit
from tests.corpus import ROOT, WRITE
from tests.docs.documents import (
    CACHE,
    DOCUMENTS,
    MANUAL,
    README,
    TOPICS,
    Block,
    blocks,
    failures,
    has_block,
    rewrite,
    rewrite_examples,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hlo_lens.questions.findings.rule import Rule

README_COLUMNS = 100
TOPIC_COLUMNS = 78  # a terminal of 80 columns, and the margin of a rendered block

NEEDS_JAX = MANUAL / "jax.md"  # run by tests/load/jax, in several versions of jax
WITH_OUTPUT = [d for d in DOCUMENTS if has_block(d, "console")]
WITH_EXAMPLES = [d for d in DOCUMENTS if d != NEEDS_JAX and has_block(d, "pycon")]


def _printed(document: Path, block: Block) -> str:
    command, _, _ = block.text.partition("\n")
    assert command.startswith("$ "), f"{document.name}:{block.line}: begins with no command"
    columns = README_COLUMNS if document == README else TOPIC_COLUMNS
    return f"{command}\n{run(command.removeprefix('$ '), columns=columns)}"


@pytest.mark.parametrize("document", WITH_OUTPUT, ids=lambda d: d.stem)
def test_outputs_are_what_the_program_prints(document: Path) -> None:
    if WRITE:
        rewrite(document, lambda b: _printed(document, b) if b.info == "console" else b.text)
    for block in blocks(document):
        if block.info == "console":
            assert _printed(document, block) == block.text


@pytest.mark.parametrize("document", WITH_EXAMPLES, ids=lambda d: d.stem)
def test_examples_print_what_they_show(
    document: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(request.config.rootpath)
    if WRITE:
        rewrite_examples(document)
    assert failures(document, optionflags=doctest.NORMALIZE_WHITESPACE) == []


def test_documents_show_output() -> None:
    assert (len(WITH_OUTPUT) >= 10, len(WITH_EXAMPLES) >= 4) == (True, True)


def test_questions_of_readme_are_those_of_the_handbook() -> None:
    """The table of the start page, with links from the root of the checkout."""
    text = (MANUAL / "help.md").read_text("utf-8")
    table = re.sub(r"\]\((?=\w)", f"]({MANUAL.relative_to(ROOT)}/", text.split("\n\n")[1])
    readme = README.read_text("utf-8")
    if WRITE:
        readme = re.sub(r"^\| question \|(?:.*\|\n)+", f"{table}\n", readme, flags=re.MULTILINE)
        README.write_text(readme, "utf-8")
    assert f"\n\n{table}\n\n" in readme


# ---- savings that were compiled -----------------------------------------------------------------

PROVEN = ROOT / "sample_dumps" / "plants" / "cpu" / "constraint.tar.xz"


def test_proofs_are_what_lint_compiles(tmp_path: Path) -> None:
    kept = {file.name: file.read_text("utf-8") for file in (CACHE / "proofs").iterdir()}
    made_by = {json.loads(text)["toolchain"] for text in kept.values()}
    tools = [f"{name} {_version(name)}" for name in ("jax", "jaxlib")]
    if made_by != {"\n".join(tools)} and not WRITE:
        pytest.skip(f"proofs are by {made_by}, installed are {tools}")
    environment = {"HLO_LENS_CACHE": str(tmp_path), "HLO_LENS_PROVE": ""}
    done = CliRunner().invoke(main, ["lint", str(PROVEN)], env=environment)
    assert (done.exit_code, "[compiled]" in done.output) == (0, True), done.output
    if WRITE:
        shutil.rmtree(CACHE / "proofs")
        shutil.copytree(tmp_path / "proofs", CACHE / "proofs")
        return
    assert {f.name: f.read_text("utf-8") for f in (tmp_path / "proofs").iterdir()} == kept


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


# ---- blocks that are made from the code: columns of results, rooms, rules -----------------------

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


@pytest.mark.parametrize("info", GENERATORS)
def test_block_is_current(info: str) -> None:
    text = GENERATORS[info]()
    (topic,) = [t for t in TOPICS if has_block(t, info)]
    if WRITE:
        rewrite(topic, lambda b: text if b.info == info else b.text)
    assert [b.text for b in blocks(topic) if b.info == info] == [text]


def test_every_package_has_a_line_in_the_map() -> None:
    lines = rooms()
    for package in _PACKAGE.rglob("__init__.py"):
        name = package.parent.relative_to(_PACKAGE).as_posix()
        if name != ".":
            assert len(_summary(package.read_text("utf-8")).split()) > 2, name
            assert f"{name}/ " in lines
