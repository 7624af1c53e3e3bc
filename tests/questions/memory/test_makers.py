"""Instructions by the names of values, and the loops around an instruction."""

from __future__ import annotations

import hlo_lens
from hlo_lens.questions.memory.peak import loop_path
from tests.questions.memory.layouts import TEXT, peak_of_program


def test_carried_values_are_made_in_the_body_of_the_loop() -> None:
    makers = peak_of_program().makers
    assert {name: maker.name for name, maker in makers.items()} == {
        "p{}": "p",
        "q{1}": "y",
        "y{}": "y",
    }


def test_loop_path_names_the_loops_outermost_first() -> None:
    module = hlo_lens.parse_hlo(TEXT)
    body = module.computation("body")
    assert body is not None
    instruction = body.instruction("y")
    assert instruction is not None
    assert loop_path(instruction) == ("w",)
