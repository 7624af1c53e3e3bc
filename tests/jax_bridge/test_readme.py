"""What README shows of the bridge is what Python prints."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from tests.jax_bridge import programs  # which skips where there is no jax

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCK = re.compile(r"```pycon\n(.*?)```", re.DOTALL)


def test_the_section_on_jax_shows_what_python_prints() -> None:
    programs.mesh()
    section = README.read_text("utf-8").partition("## From JAX\n")[2].partition("\n## ")[0]
    text = "".join(BLOCK.findall(section))
    test = doctest.DocTestParser().get_doctest(text, {}, "README.md", str(README), 0)
    assert len(test.examples) > 10
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failures: list[str] = []
    runner.run(test, out=failures.append)
    assert failures == []
