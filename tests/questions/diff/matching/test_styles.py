"""Parts that a print style leaves out are no change; parts lost or gained are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.diff.matching.edits import Noise
from hlo_lens.questions.diff.matching.program_diff import program_diff
from tests.questions.diff.matching.programs import changes_between

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = """HloModule m

%f (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %s = f32[8]{0} negate(%p)
}

ENTRY %main (a: f32[8]) -> (f32[8], f32[8]) {
  %a = f32[8]{0} parameter(0), metadata={op_name="a"}
  %x = f32[8]{0} sine(%a)
  %y = f32[8]{0} fusion(%a), kind=kCustom, calls=%fCONTROLSCONFIG
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%x, %y)
}
"""
CONTROLS = ", control-predecessors={%x}"
CONFIG = ', backend_config={"a":1}'
CHANGES = {
    CONTROLS: "control-predecessors (none) -> sine NAME",
    CONFIG: 'backend_config (none) -> {"a": 1}',
}


def short(text: str) -> str:
    text = re.sub(r" \(.*?\) -> .* \{", " {", text)
    return re.sub(r", metadata=\{.*?\}", "", text).replace("%", "")


def canonical(text: str) -> str:
    names = {name: f"tmp_{k}" for k, name in enumerate("axytps")}
    return re.sub(r"\b[axytps]\b(?=[ ,)}])", lambda m: names[m[0]], short(text))


STYLES: dict[str, Callable[[str], str]] = {"long": str, "short": short, "canonical": canonical}


def filled(controls: str, config: str) -> str:
    return LONG.replace("CONTROLS", controls).replace("CONFIG", config)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("part", [CONTROLS, CONFIG])
def test_first_part_of_a_kind_in_two_texts_of_one_style_is_found(style: str, part: str) -> None:
    printed = STYLES[style]
    controls, config = (part if part == one else "" for one in (CONTROLS, CONFIG))
    base, head = printed(filled("", "")), printed(filled(controls, config))
    name = "tmp_1" if style == "canonical" else "x"
    assert changes_between(base, head) == [CHANGES[part].replace("NAME", name)]


@pytest.mark.parametrize(
    ("style", "controls", "config"), [("short", "", CONFIG), ("canonical", "", "")]
)
def test_parts_that_another_style_leaves_out_are_counted(
    style: str, controls: str, config: str
) -> None:
    modules = [
        parse_hlo(text)
        for text in (filled(CONTROLS, CONFIG), STYLES[style](filled(controls, config)))
    ]
    for base, head in (modules, modules[::-1]):
        found = program_diff(base, head)
        assert found.identical
        assert found.ignored[Noise.PRINTING] == 1
        assert Noise.SPELLING not in found.ignored


def test_a_short_style_prints_configs() -> None:
    found = program_diff(parse_hlo(filled("", CONFIG)), parse_hlo(short(filled("", ""))))
    assert [str(c) for c in found.module_changes] == []
    assert [group.changes for group in found.groups] == [('backend_config {"a": 1} -> (none)',)]


LITERAL = """HloModule m

ENTRY %main {
  %x = SHAPE parameter(0)
  %c = SHAPE constant(LITERAL)
  ROOT %r = SHAPE add(%x, %c), metadata={op_name="constant({...})"}
}
"""


@pytest.mark.parametrize(
    ("shape", "before", "after", "unseen"),
    [
        ("f32[11]{0}", "{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}", "{...}", 1),
        ("s8[]", "7", "{...}", 1),
        ("s8[]{:T(128)}", "7", "{...}", 1),
        ("f32[4]{0}", "{1, 2, 3, 4}", "{1, 2, 3, 5}", 0),
    ],
)
def test_literals_as_dots_are_counted(shape: str, before: str, after: str, unseen: int) -> None:
    text = LITERAL.replace("SHAPE", shape)
    base, head = (parse_hlo(text.replace("LITERAL", value)) for value in (before, after))
    found = program_diff(base, head)
    assert (found.identical, found.unseen_literals) == (unseen > 0, unseen)
