"""Python in README and handbook: outputs of examples are real, and names in them exist."""

from __future__ import annotations

import ast
import doctest
import importlib
from typing import TYPE_CHECKING

import pytest

from tests.corpus import WRITE
from tests.docs.documents import DOCUMENTS, MANUAL, blocks, has_block
from tests.docs.python_examples import failures, rewrite_examples

if TYPE_CHECKING:
    from pathlib import Path

NEEDS_JAX = MANUAL / "jax.md"  # run by tests/jax_bridge, in several versions of jax
WITH_EXAMPLES = [d for d in DOCUMENTS if d != NEEDS_JAX and has_block(d, "pycon")]
WITH_SCRIPTS = [d for d in DOCUMENTS if has_block(d, "python")]


@pytest.mark.parametrize("document", WITH_EXAMPLES, ids=lambda d: d.stem)
def test_examples_print_what_they_show(
    document: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(request.config.rootpath)
    if WRITE:
        rewrite_examples(document)
    assert failures(document, optionflags=doctest.NORMALIZE_WHITESPACE) == []


@pytest.mark.parametrize("document", WITH_SCRIPTS, ids=lambda d: d.stem)
def test_scripts_name_only_what_hlo_lens_has(document: Path) -> None:
    for block in blocks(document):
        if block.info == "python":
            missing = [n for n in _hlo_lens_names(block.text) if not _exists(n)]
            assert missing == [], f"{document.name}:{block.line}"


def test_a_name_that_hlo_lens_lacks_is_found() -> None:
    names = _hlo_lens_names("import hlo_lens\nfrom hlo_lens.testing import x\nhlo_lens.load.y(1)\n")
    assert names == ["hlo_lens", "hlo_lens.testing.x", "hlo_lens.load.y", "hlo_lens.load"]
    assert [n for n in names if not _exists(n)] == ["hlo_lens.testing.x", "hlo_lens.load.y"]


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
