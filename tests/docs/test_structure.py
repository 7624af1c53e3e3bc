"""Structure of README and handbook: length, links, command lines, names, words of the output."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

import click
import pytest

import hlo_lens
from hlo_lens.cli import GROUPS, exit_codes, main
from hlo_lens.questions.memory.results import MOST_ESTIMATED
from tests.corpus import ROOT
from tests.docs.documents import DOCUMENTS, MANUAL, README, TOPICS, blocks, has_block, prose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FILE = re.compile(r"`([\w./-]+/[\w-]+\.(?:py|lark|toml))`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_INLINE = re.compile(r"`(hlo-lens [^`]+)`")
_LINE = re.compile(r"^ *(?:.* \| )?(hlo-lens [^\n]+)", re.MULTILINE)
_WITH_COMMANDS = {
    "console": re.compile(r"\A\$ (?:.* \| )?(hlo-lens [^\n]+)"),
    "": _LINE,
    "sh": _LINE,
    "yaml": _LINE,
}
_END_OF_COMMAND = re.compile(r" [|>#] .*| +#.*| 2>&1.*|; .*| && .*")


def test_readme_and_handbook_are_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 150
    assert len(TOPICS) <= 30


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda d: d.stem)
def test_every_fence_is_closed(path: Path) -> None:
    assert all(block.text.endswith("\n") for block in blocks(path))


@pytest.mark.parametrize("topic", TOPICS, ids=lambda d: d.stem)
def test_topic_begins_with_its_name_and_a_title(topic: Path) -> None:
    first = topic.read_text("utf-8").partition("\n")[0]
    assert re.fullmatch(rf"# {topic.stem}: [A-Z`].*[^.]", first), first
    assert len(first) <= 80


LISTED = [name for names in GROUPS.values() for name in names]


@pytest.mark.parametrize("command", LISTED)
def test_every_command_is_in_readme_and_has_a_topic(command: str) -> None:
    assert f"hlo-lens {command}" in README.read_text("utf-8")
    sections = {name for topic in TOPICS for name in _HEADING.findall(prose(topic))}
    assert command in {topic.stem for topic in TOPICS} | sections


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.stem)
def test_links_resolve(document: Path) -> None:
    for target in _LINK.findall(prose(document)):
        if not target.startswith("https://"):
            path, _, anchor = target.partition("#")
            file = document.parent / path if path else document
            assert file.exists(), target
            assert not anchor or anchor in _anchors(file), target


def _anchors(file: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a file."""
    titles = _HEADING.findall(prose(file))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.stem)
def test_files_exist(document: Path) -> None:
    for name in _FILE.findall(prose(document)):
        is_pattern = "ROOM" in name or name.rpartition("/")[2].startswith(("x.", "to_x."))
        assert is_pattern or (ROOT / name).exists() or (ROOT / "hlo_lens" / name).exists(), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.stem)
def test_command_lines_parse(document: Path) -> None:
    for line, command in _command_lines(document):
        arguments = shlex.split(command)[1:]
        try:
            _parse(arguments)
        except click.exceptions.Exit:
            pass  # --help, --version
        except click.ClickException as error:
            pytest.fail(f"{document.name}:{line}: {command}: {error.message}")


def _parse(arguments: list[str]) -> None:
    """Parse the arguments of a command; a command's name alone must exist."""
    context = main.make_context("hlo-lens", list(arguments))
    name, command, rest = main.resolve_command(context, arguments)
    assert command is not None
    if rest and "--help" not in rest:
        command.make_context(name, rest, parent=context)


def _command_lines(document: Path) -> Iterator[tuple[int, str]]:
    """Yield each command line of a document, in blocks and between backticks, with its line."""
    for block in blocks(document):
        if block.info in _WITH_COMMANDS:
            text = re.sub(r"(?<=>)\n|\\\n", " ", block.text)
            for command in _WITH_COMMANDS[block.info].findall(text):
                yield block.line, _END_OF_COMMAND.sub("", command)
    text = prose(document)
    for match in _INLINE.finditer(text):
        if match[1].split()[1] != "COMMAND":  # stands for any of them
            yield text.count("\n", 0, match.start()) + 1, _END_OF_COMMAND.sub("", match[1])


def test_topic_lists_every_exit_code() -> None:
    codes = {value for name, value in vars(exit_codes).items() if name.isupper()}
    rows = re.findall(r"^\| (\d+) \|", prose(MANUAL / "json.md"), re.MULTILINE)
    assert sorted(map(int, rows)) == sorted(codes)


def test_topic_has_the_limit_of_estimates() -> None:
    limit = f"modules of up to {MOST_ESTIMATED:,}"
    assert limit in (MANUAL / "limits.md").read_text("utf-8")


def test_topics_are_reached_from_the_start() -> None:
    start = (MANUAL / "help.md").read_text("utf-8")
    missing = [t.stem for t in TOPICS if t.stem != "help" and f"({t.name})" not in start]
    assert missing == []


# ---- names in Python ---------------------------------------------------------------------------

WITH_SCRIPTS = [d for d in DOCUMENTS if has_block(d, "python")]


@pytest.mark.parametrize("document", WITH_SCRIPTS, ids=lambda d: d.stem)
def test_scripts_name_only_what_hlo_lens_has(document: Path) -> None:
    for block in blocks(document):
        if block.info == "python":
            missing = [n for n in _hlo_lens_names(block.text) if not _exists(n)]
            assert missing == [], f"{document.name}:{block.line}"


def _hlo_lens_names(code: str) -> list[str]:
    """Return the names that a script imports from hlo_lens, and the attributes that it uses."""
    names: list[str] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names.append(ast.unparse(node))
    return [name for name in names if name.split(".")[0] == "hlo_lens"]


def _exists(name: str) -> bool:
    """Whether a dotted name can be imported, or is an attribute of an importable one."""
    module, _, attribute = name.rpartition(".")
    try:
        if not module:
            importlib.import_module(name)
            return True
        home = importlib.import_module(module)
    except ModuleNotFoundError:
        parent, _, last = module.rpartition(".")
        home = getattr(importlib.import_module(parent), last)
    return hasattr(home, attribute)


PYTHON = MANUAL / "python.md"
_PYTHON_ROW = re.compile(r"^\| (`[^|]*) \| (.*) \|$", re.MULTILINE)
_NAME = re.compile(r"`([A-Za-z_]\w*)[(`]")
_ATTRIBUTE = re.compile(r"`\.([\w.\[\]]+)(?:\(\))?`")
_TP_MLP = str(ROOT / "sample_dumps" / "tpu" / "tp_mlp")


@cache
def _example(name: str) -> object:
    """Return the result of a function, or an object of a type, on a sample."""
    module = hlo_lens.load(_TP_MLP).modules[0]
    assert module.hlo is not None
    root = module.hlo.entry.root
    assert root is not None
    objects: dict[str, object] = {
        "ModuleDump": module,
        "HloModule": module.hlo,
        "HloComputation": module.hlo.entry,
        "HloInstruction": root,
        "Shape": root.shape,
        "Layout": hlo_lens.Shape.parse("f32[2]{0}").layout,
        "HloSharding": hlo_lens.HloSharding.parse("{replicated}"),
        "parse_hlo": module.hlo,
        "why": hlo_lens.why(_TP_MLP, "all-reduce.11"),
        "diff": hlo_lens.diff(_TP_MLP, _TP_MLP),
        "check": hlo_lens.check(_TP_MLP, baseline=_TP_MLP),
    }
    return objects[name] if name in objects else getattr(hlo_lens, name)(_TP_MLP)


def _rows() -> list[tuple[str, str]]:
    return [
        (name, cells)
        for names, cells in _PYTHON_ROW.findall(prose(PYTHON))
        for name in _NAME.findall(names)
    ]


@pytest.mark.parametrize(("name", "cells"), _rows(), ids=lambda v: v if v.isidentifier() else "")
def test_attributes_of_a_row_exist(name: str, cells: str) -> None:
    assert name in hlo_lens.__all__
    for attribute in _ATTRIBUTE.findall(cells):
        found = _example(name)
        for part in re.findall(r"\w+|\[0\]", attribute):
            found = found[0] if part == "[0]" else getattr(found, part)  # type: ignore[index]  # a tuple


def test_every_public_name_is_in_the_topic() -> None:
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose(PYTHON)))))
    assert set(hlo_lens.__all__) - {"__version__"} <= words


def test_rows_have_attributes() -> None:
    assert sum(len(_ATTRIBUTE.findall(cells)) for _, cells in _rows()) > 40


# ---- words of the output: labels of page heads, headings of tables, rows of the statement ------

GOLDENS = sorted((ROOT / "tests" / "golden").glob("*.txt"))
_LABEL = re.compile(r"([a-z][a-z -]*?)(?:  +|, )\S.*")


def _terms() -> list[str]:
    """Return the bold terms that begin the entries of the glossary, without backticks."""
    lines = re.findall(r"^- (\*\*.*)", prose(MANUAL / "glossary.md"), re.MULTILINE)
    return [
        term.strip("`")
        for line in lines
        for bold in re.findall(r"\*\*([^*]+)\*\*", line)
        for term in bold.split(", ")
    ]


def _labels(golden: Path) -> set[str]:
    """Return the words that begin the lines of page heads: from a title to an empty line."""
    pages = re.split(r"\n\n+", golden.read_text("utf-8"))
    heads = [page.splitlines()[1:] for page in pages if _is_head(page)]
    return {match[1] for head in heads for line in head if (match := _LABEL.fullmatch(line))}


def _is_head(page: str) -> bool:
    """Whether a paragraph is a page's head: a name, then labelled lines; tables have titles."""
    first, *rest = page.splitlines() or [""]
    labelled = list(takewhile(lambda line: line.startswith(" ") or _LABEL.fullmatch(line), rest))
    return bool(rest) and labelled == rest and "  " not in first and not first[:1].isupper()


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda g: g.stem)
def test_labels_of_page_heads_are_in_the_glossary(golden: Path) -> None:
    assert _labels(golden) - set(_terms()) == set()


def test_rows_of_the_memory_statement_are_in_the_glossary() -> None:
    text = (ROOT / "tests" / "golden" / "memory_tpu_tp_mlp.txt").read_text("utf-8")
    table = text.partition("\nquantity ")[2].partition("\n\n")[0].splitlines()[1:]
    rows = {re.split(r"  +", line.strip())[0] for line in table if "  " in line}  # no notes
    assert len(rows) > 8
    assert rows - set(_terms()) == set()


def _headings(golden: Path) -> set[str]:
    """Return the column headings of a page's tables: the line below a title with a capital."""
    pages = [page.splitlines() for page in re.split(r"\n\n+", golden.read_text("utf-8"))]
    parts = ("Memory   ", "Sent ", "Work ")  # of first pages, without headings
    pages = [page for page in pages if not "".join(page[:1]).startswith(parts)]
    lines = [page[1] for page in pages if len(page) > 2 and page[0][:1].isupper()]
    return {word for line in lines for word in line.split() if "  " in line}


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda g: g.stem)
def test_column_headings_are_in_the_glossary_or_the_list_of_columns(golden: Path) -> None:
    (block,) = [b for b in blocks(MANUAL / "json.md") if b.info == "text columns"]
    columns = {line.split()[0] for line in block.text.splitlines() if line.startswith("  ")}
    unknown = _headings(golden) - columns - set(_terms())
    begun = {word for word in unknown if any(one.startswith(f"{word}_") for one in columns)}
    assert unknown == begun  # these go on in the next line


def test_terms_occur_once() -> None:
    terms = _terms()
    assert len(terms) > 150
    assert sorted({t for t in terms if terms.count(t) > 1}) == []
