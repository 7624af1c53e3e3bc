"""Header fields are compared once, by meaning."""

from __future__ import annotations

import pytest

from tests.questions.matching.programs import changes_between

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
        ("{(f32[8,4]{1,0})", "{(f32[8,4]{0,1})", "parameter 0 f32[8,4]{0,1}"),
        ("{(f32[8,4]{1,0})", "{(f32[8,4]{1,0:S(5)})", "parameter 0 f32[8,4]{1,0:S(5)}"),
        ("{1,0}}", "{1,0:T(8,128)}}", "result f32[8,4]{1,0:T(8,128)}"),
    ],
)
def test_layouts_that_the_header_alone_has_are_compared(
    before: str, after: str, change: str
) -> None:
    changes = [f"entry_computation_layout (none) -> {change}"]
    assert changes_between(text(), text().replace(before, after, 1)) == changes


def test_a_layout_that_the_header_repeats_is_one_change() -> None:
    head = text().replace("{(f32[8,4]{1,0})", "{(f32[8,4]{0,1})", 1)
    head = head.replace("%a = f32[8,4]{1,0}", "%a = f32[8,4]{0,1}")
    assert changes_between(text(), head) == ["layout {1,0} -> {0,1}"]


def test_header_without_layout_has_that_of_the_entry() -> None:
    silent = text().replace("entry_computation_layout={(f32[8,4]{1,0})->f32[8,4]{1,0}}", "a=b")
    base = text("a=b")
    assert changes_between(base, silent) == []


# ---- other values ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("", 'frontend_attributes={a="1"}', "frontend_attributes.a (none) -> 1"),
        (
            "",
            "allow_spmd_sharding_propagation_to_output={true}",
            "allow_spmd_sharding_propagation_to_output (none) -> {true}",
        ),
        ("foo=1", "foo=2", "foo 1 -> 2"),
        ("num_partitions=2", "num_partitions=4", "num_partitions 2 -> 4"),
        ("is_scheduled=true", "is_scheduled=false", "is_scheduled true -> false"),
        ("is_scheduled=false", "", ""),
        ('frontend_attributes={a="1",b="2"}', 'frontend_attributes={b="2",a="1"}', ""),
        ('backend_config={"a":1,"b":[]}', 'backend_config={"b":[],"a":1}', ""),
        ('backend_config={"a":1}', 'backend_config={"a":2}', 'backend_config {"a": 1} -> {"a": 2}'),
        ("", 'frontend_attributes={fingerprint_before_lhs="1"}', ""),
    ],
)
def test_each_value_is_compared_by_its_name(before: str, after: str, change: str) -> None:
    assert changes_between(text(before), text(after)) == ([change] if change else [])


def test_list_follows_the_parameters() -> None:
    lists = [
        f"allow_spmd_sharding_propagation_to_parameters={{{v}}}" for v in ("true", "true,true")
    ]
    one_more = text(lists[1]).replace("  ROOT", "  %b = f32[8,4]{1,0} parameter(1)\n  ROOT")
    assert changes_between(text(lists[0]), one_more) == []


# ---- donations ---------------------------------------------------------------------------------

ALIAS = "input_output_alias={ {}: (0, {}, may-alias) }"
LINE = "  %a = f32[8,4]{1,0} parameter(0)\n"


def test_a_donation_of_a_parameter_whose_line_one_text_lacks_is_no_change() -> None:
    base = text(ALIAS)
    for one, other in ((base, base.replace(LINE, "")), (base.replace(LINE, ""), base)):
        assert not any("alias" in change for change in changes_between(one, other))


def test_donations_of_parameters_without_lines_are_compared_by_number() -> None:
    base, head = text(ALIAS).replace(LINE, ""), text().replace(LINE, "")
    assert changes_between(base, head) == ["input_output_alias parameter 0 in output {} -> (none)"]


def test_removed_parameter_has_lost_no_donation() -> None:
    donor = text("buffer_donor={ (1, {}) }")
    base = donor.replace(LINE, f"{LINE}  %b = f32[2] parameter(1)\n")
    assert changes_between(base, text()) == []


# ---- computations that the entry does not run --------------------------------------------------

DEAD = """%dead (p: f32[]) -> f32[] {
  %p = f32[] parameter(0)
  ROOT %s = f32[] sine(%p)
}

"""


def test_computations_that_the_entry_does_not_run_count() -> None:
    base = text().replace("ENTRY", f"{DEAD}ENTRY")
    assert changes_between(base, base.replace("sine", "cosine")) == ["opcode sine -> cosine"]
    assert changes_between(base, text()) == []  # its two instructions are removed
