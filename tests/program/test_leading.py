"""The module that is meant by a dump of several."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.program.pages import leading_module
from hlo_lens.testing import assert_memory_below
from hlo_lens.text.errors import UsageError
from tests.commands import output_of

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """HloModule {name}, is_scheduled=true

ENTRY main {{
  p = f32[{size}]{{0}} parameter(0)
  ROOT n = f32[{size}]{{0}} negate(p)
}}
"""


def _folder(path: Path, **sizes: int) -> Path:
    path.mkdir(exist_ok=True)
    for number, (name, size) in enumerate(sizes.items()):
        file = path / f"module_{number:04}.{name}.cpu_after_optimizations.txt"
        file.write_text(TEXT.format(name=name, size=size))
    return path


def _leading(path: Path) -> str | None:
    found = leading_module(hlo_lens.load(path).modules)
    return None if found is None else found.title


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"convert": 2, "step": 1000, "seed": 3}, "step"),
        ({"init": 900, "step": 1000}, None),
        ({"step": 1000}, None),
    ],
)
def test_a_module_leads_where_all_others_are_helpers(
    tmp_path: Path, sizes: dict[str, int], expected: str | None
) -> None:
    assert _leading(_folder(tmp_path, **sizes)) == expected


def test_a_text_that_is_cut_is_no_helper(tmp_path: Path) -> None:
    folder = _folder(tmp_path, convert=2, step=1000)
    small = next(folder.glob("*convert*"))
    small.write_text(small.read_text().partition("  ROOT")[0])
    assert _leading(folder) is None


def test_functions_of_python_take_the_leading_module_and_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = str(_folder(tmp_path / "one", convert=2, step=1000))
    with caplog.at_level(logging.WARNING, "hlo_lens"):
        assert hlo_lens.memory(folder).statement.argument_bytes == 4000
    assert caplog.messages == ["step alone; 1 other module of at most 16B: module='.' has all"]
    assert_memory_below(folder, "16KiB")
    assert len(hlo_lens.lint(folder).modules) == 1
    with pytest.raises(UsageError, match="there are 2 modules"):
        hlo_lens.memory(str(_folder(tmp_path / "two", init=900, step=1000)))


def test_a_baseline_is_compared_with_the_modules_that_it_was_saved_with(tmp_path: Path) -> None:
    folder, base = str(_folder(tmp_path / "dump", init=900, step=1000)), str(tmp_path / "base.json")
    main(["save", folder, "--module", "step", "-o", base], standalone_mode=False)
    assert "only in head" in output_of(["check", folder, "--baseline", base, "--module", "."])
    assert "only in head" not in output_of(["check", folder, "--baseline", base])
    assert "no change" in output_of(["diff", base, folder, "--exit-code"])
