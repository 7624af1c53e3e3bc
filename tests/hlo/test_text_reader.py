"""The port between model and syntax."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hlo_lens.hlo import text_reader as port
from hlo_lens.hlo.reader import HloTextReader
from hlo_lens.shapes.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def _restored() -> Iterator[None]:
    """Put the reader back that `import hlo_lens` named."""
    factory = port._Port.factory
    yield
    port._Port.factory = factory
    port._Port.made = None


@pytest.mark.usefixtures("_restored")
def test_reader_is_made_once_and_when_needed() -> None:
    made: list[HloTextReader] = []

    def factory() -> HloTextReader:
        made.append(HloTextReader())
        return made[-1]

    port.use_reader(factory)
    assert made == []
    assert Shape.parse("f32[2]").size_bytes == 8
    assert port.reader() is port.reader() is made[0]
    assert len(made) == 1


@pytest.mark.usefixtures("_restored")
def test_model_without_a_reader_says_so() -> None:
    port._Port.factory = port._Port.made = None
    with pytest.raises(RuntimeError, match="import hlo_lens first"):
        Shape.parse("f32[2]")


def test_importing_the_package_loads_no_parser() -> None:
    code = "import hlo_lens, hlo_lens.shapes.sharding, sys; print('lark' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
