"""M009: host memory that is asked for and not used."""

from __future__ import annotations

from tests.questions.findings.programs import findings_of, with_lines

BEFORE = with_lines("""HloModule m

ENTRY main {
  x = f32[1024]{0} parameter(0)
  a = f32[1024]{0} negate(x), @neg:4
  PLACED
  ROOT y = f32[1024]{0} cosine(h), @cos:6
}
""")
PLACED = with_lines("""h = f32[1024]{0} custom-call(a),
  custom_call_target="annotate_device_placement",
  frontend_attributes={_xla_buffer_placement="pinned_host"}, @device_put:5""")
AFTER = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[1024]{0:T(1024)} parameter(0)
  ROOT y = f32[1024]{0:T(1024)} cosine(x), backend_config={"device_type":"DEVICE_TYPE_HOST"}
}
"""
"""A text of a GPU by its backend_config."""


def test_a_placement_that_is_lost_is_found_at_its_line() -> None:
    (found,) = findings_of(AFTER, "M009", BEFORE.replace("PLACED", PLACED))
    assert found.message == (
        "1 value placed in host memory before optimizations, none in the compiled program"
    )
    assert (found.values, found.source_line) == (("h",), 5)


def test_host_memory_that_is_used_has_no_finding() -> None:
    text = AFTER.replace("x = f32[1024]{0:T(1024)}", "x = f32[1024]{0:T(1024)S(5)}")
    assert findings_of(text, "M009", BEFORE.replace("PLACED", PLACED)) == ()


def test_placement_on_the_device_has_no_finding() -> None:
    before = BEFORE.replace("PLACED", PLACED.replace("pinned_host", "device"))
    assert findings_of(AFTER, "M009", before) == ()
