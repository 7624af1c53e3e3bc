"""What the header says of a program is compared once, by what it means."""

from __future__ import annotations

import pytest

from tests.analysis.diff.programs import told

TEXT = """HloModule m, HEADERentry_computation_layout={(f32[8,4]{1,0})->f32[8,4]{1,0}}

ENTRY %main (a: f32[8,4]) -> f32[8,4] {
  %a = f32[8,4]{1,0} parameter(0)
  ROOT %r = f32[8,4]{1,0} negate(%a)
}
"""


def text(header: str = "") -> str:
    return TEXT.replace("HEADER", header and f"{header}, ")


# ---- layouts of the entry ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("{(f32[8,4]{1,0})", "{(f32[8,4]{0,1})", "parameter 0 layout {1,0} -> {0,1}"),
        ("{(f32[8,4]{1,0})", "{(f32[8,4]{1,0:S(5)})", "parameter 0 memory space 0 -> 5"),
        ("{1,0}}", "{1,0:T(8,128)}}", "result layout {1,0} -> {1,0:T(8,128)}"),
    ],
)
def test_layouts_that_the_header_alone_has_are_compared(
    before: str, after: str, change: str
) -> None:
    what, _, last = change.rpartition(" -> ")
    name = what.rpartition(" ")[0]
    changes = [f"entry_computation_layout {what} -> {name} {last}"]
    assert told(text(), text().replace(before, after, 1)) == changes


def test_a_layout_that_the_header_repeats_is_one_change() -> None:
    head = text().replace("{(f32[8,4]{1,0})", "{(f32[8,4]{0,1})", 1)
    head = head.replace("%a = f32[8,4]{1,0}", "%a = f32[8,4]{0,1}")
    assert told(text(), head) == ["layout {1,0} -> {0,1}"]


def test_a_parameter_that_took_on_what_the_header_demanded_is_one_change() -> None:
    base = text().replace("{(f32[8,4]{1,0})", "{(f32[8,4]{0,1})", 1)
    head = base.replace("%a = f32[8,4]{1,0}", "%a = f32[8,4]{0,1}")
    assert told(base, head) == ["layout {1,0} -> {0,1}"]


def test_a_header_that_is_silent_demands_what_the_entry_prints() -> None:
    silent = text().replace("entry_computation_layout={(f32[8,4]{1,0})->f32[8,4]{1,0}}", "a=b")
    base = text("a=b")
    assert told(base, silent) == []
