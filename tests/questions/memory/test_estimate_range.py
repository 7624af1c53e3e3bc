"""What estimates are worth: exact forms, and ranges of all others."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.buffers.estimate.backend_rules import backend_rules
from hlo_lens.hlo.query import tabulate
from hlo_lens.questions.memory.estimate import MemoryEstimate, memory_estimate
from hlo_lens.questions.memory.exact_forms import EXACT_FORMS
from hlo_lens.questions.memory.forms import forms_of

TEXT = """HloModule m, is_scheduled=true

body {
  q = f32[64]{0} parameter(0)
  ROOT n.1 = f32[64]{0} negate(q)
}

ENTRY e {
  p = f32[64]{0} parameter(0)
  negate_fusion = f32[64]{0} fusion(p), kind=kLoop, calls=body
  LINE
  ROOT r = f32[64]{0} negate(x)
}
"""
PLAIN = "x = f32[64]{0} add(negate_fusion, negate_fusion)"
NEW_OPCODE = "x = f32[64]{0} odd-opcode(negate_fusion)"
UNKNOWN_VALUE = f"{PLAIN}, sharding={{odd[device=0]}}"
LOST = "y = f32[64]{0} add(negate_fusion\n  x = f32[64]{0} negate(negate_fusion)"


def estimate_of(line: str, backend: str | None = "cpu") -> MemoryEstimate:
    found = memory_estimate(
        tabulate(hlo_lens.parse_hlo(TEXT.replace("LINE", line))), backend=backend
    )
    assert found is not None
    return found


def test_a_text_of_shown_forms_is_exact() -> None:
    found = estimate_of(PLAIN)
    assert found.range.is_exact
    assert found.range.temp_bytes == (found.temp_bytes, found.temp_bytes)
    assert found.range.notes == ()
    bounds = found.range.bounds(1000, 0, 2000)
    assert bounds is not None
    assert bounds.peak_bytes == (1000, 1000)
    assert bounds.total_bytes == (2000, 2000)


@pytest.mark.parametrize(
    ("line", "backend", "reason"),
    [
        (NEW_OPCODE, "cpu", "forms not known as exact: opcode odd-opcode"),
        (UNKNOWN_VALUE, "cpu", "some attributes are not understood"),
        (PLAIN, None, "the text does not show a compiler whose rules are known"),
        (PLAIN, "tpu", "the text does not show the chip"),
    ],
)
def test_other_texts_have_a_range_with_a_reason(
    line: str, backend: str | None, reason: str
) -> None:
    found = estimate_of(line, backend)
    assert not found.range.is_exact
    assert any(text.startswith(reason) for text in found.range.reasons)
    assert found.range.temp_bytes is not None
    least, most = found.range.temp_bytes
    assert least <= found.temp_bytes <= most
    assert least < most


def test_tables_among_temporaries_are_in_the_bounds_of_the_total() -> None:
    array = estimate_of(PLAIN, "tpu").range.total_more
    pair = 't = (f32[64]{0}, f32[64]{0}) custom-call(negate_fusion), custom_call_target="f"'
    held = estimate_of(f"{pair}\n  x = f32[64]{{0}} get-tuple-element(t), index=0", "tpu")
    (table,) = [value for value in held.layout.values if value.is_table]
    assert table.size in (32, 512)
    assert held.range.total_more[0] >= array[0] + 512 - 32
    assert held.range.total_more[1] >= array[1] + 512 - 32


def test_an_unknown_opcode_may_share_or_add_its_result_and_operands() -> None:
    found = estimate_of(NEW_OPCODE)
    assert found.range.temp_bytes is not None
    least, most = found.range.temp_bytes
    assert least <= max(0, found.temp_bytes - 2 * 256)
    assert most >= found.temp_bytes + 2 * 256


def test_a_text_that_lost_an_instruction_has_no_range() -> None:
    found = estimate_of(LOST)
    assert (found.range.is_exact, found.range.temp_bytes) == (False, None)
    assert found.range.bounds(10, 0, 20) is None
    assert found.range.notes == ("the estimate has no bound: the text is not complete",)


def test_forms_name_what_rules_depend_on() -> None:
    line = """s = ((f32[64]{0}), f32[64]{0}) all-reduce-start(negate_fusion), to_apply=body, \
output_to_operand_aliasing={{1}: (0, {})}, backend_config={"communication_domain":1}
  d = f32[64]{0} all-reduce-done(s)
  x = f32[64]{0} custom-call(d), custom_call_target="odd"
"""
    forms = forms_of(tabulate(hlo_lens.parse_hlo(TEXT.replace("LINE", line))))
    assert {
        "opcode all-reduce-start",
        "all-reduce-start of tuples in a domain",
        "aliasing all-reduce-start",
        "custom-call to odd",
        "attribute to_apply",
        "key communication_domain",
    } <= forms.names
    assert "custom-call to odd" in forms.unshown("cpu, jaxlib 0.4.35 and newer")


def test_shown_forms_have_compilers_of_each_backend() -> None:
    assert {group.partition(",")[0] for group in EXACT_FORMS} == {"cpu", "gpu", "tpu"}


SHARING = """HloModule m, is_scheduled=true

body {
  a = f32[4096]{0} parameter(0)
  b = f32[4096]{0} negate(a)
  c = f32[64]{0} slice(a), slice={[0:64]}
  ROOT t = (f32[4096]{0}, f32[64]{0}) tuple(b, c)
}

ENTRY e {
  p = f32[4096]{0} parameter(0)
  n = f32[4096]{0} negate(p)
  f = (f32[4096]{0}, f32[64]{0}) fusion(n), kind=kInput, calls=body, backend_config={CONFIG}
  g = f32[4096]{0} get-tuple-element(f), index=0
  ROOT r = f32[4096]{0} negate(g)
}
"""
QUEUE = '"operation_queue_id":"0","wait_on_operation_queues":[],"force_earliest_schedule":false'
COLLECTIVE = '"collective_backend_config":{"is_sync":true,"reification_cost":[]}'


@pytest.mark.parametrize(
    ("config", "is_known", "alignment"),
    [
        (QUEUE, True, 128),
        (f"{QUEUE},{COLLECTIVE}", True, 128),
        (f'{QUEUE},"reification_cost":[]', False, 256),
        (f'"reification_cost":[],{QUEUE}', False, 256),
        (f'{QUEUE},"reification_cost":[],"device_type":"DEVICE_TYPE_INVALID"', True, 256),
    ],
)
def test_which_results_of_fusions_share_memory_is_open_for_unknown_gpu_compilers(
    config: str, is_known: bool, alignment: int
) -> None:
    module = hlo_lens.parse_hlo(SHARING.replace("CONFIG", f"{{{config}}}"))
    rules = backend_rules(module, "gpu")
    assert (rules.are_known, rules.layout.alignment) == (is_known, alignment)
    found = memory_estimate(tabulate(module), backend="gpu")
    assert found is not None
    assert found.range.temp_bytes is not None
    spread = found.range.temp_bytes[1] - found.temp_bytes
    assert (spread >= 4096 * 4) is not is_known
