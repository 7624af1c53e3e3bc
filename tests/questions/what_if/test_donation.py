"""Donation edited in the header."""

from __future__ import annotations

import pytest

from hlo_lens import parse_hlo
from hlo_lens.questions.what_if.edits import edited_text
from hlo_lens.questions.what_if.stored_types import edit_donation
from hlo_lens.text.errors import UsageError
from tests.questions.what_if.programs import ONE_DEVICE, edited


def donated(text: str, *patterns: str) -> str:
    module = parse_hlo(text)
    return edit_donation(module, donate=patterns).text_of(module)


def undonated(text: str, *patterns: str) -> str:
    module = parse_hlo(text)
    return edit_donation(module, undonate=patterns).text_of(module)


def test_results_go_to_arguments_in_order() -> None:
    edit = edit_donation(parse_hlo(ONE_DEVICE), donate=["state.*"])
    module = edited(ONE_DEVICE, edit)
    assert module.header["input_output_alias"] == (
        "{ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"
    )
    assert [(change.target, change.effect) for change in edit.changes] == [
        ("state['w'][0].mu", "result{0} has its memory"),
        ("state['w'][0].nu", "result{1} has its memory"),
    ]


def test_pairs_are_made_again_as_jax_makes_them() -> None:
    first = donated(ONE_DEVICE, "state/w/0/nu")
    assert "{ {0}: (1, {}, may-alias) }" in first
    assert donated(first, "state") == donated(ONE_DEVICE, "state")


def test_pairs_that_jax_would_not_make_stay() -> None:
    header = "HloModule jit_step, input_output_alias={ {1}: (0, {}, must-alias) }"
    text = donated(ONE_DEVICE.replace("HloModule jit_step", header), "state")
    assert "{ {0}: (1, {}, may-alias), {1}: (0, {}, must-alias) }" in text


def test_a_result_of_as_many_elements_is_left_to_xla() -> None:
    text = donated(ONE_DEVICE, "c", "state['w'][0].mu")
    assert "input_output_alias={ {0}: (0, {}, may-alias) }, buffer_donor={ (2, {}) }" in text


@pytest.mark.parametrize("patterns", [["state"], ["c"], ["state['w'][0].nu", "c"]])
def test_undonated_after_donated_is_the_text_again(patterns: list[str]) -> None:
    changed = donated(ONE_DEVICE, *patterns)
    assert changed != ONE_DEVICE
    assert undonated(changed, *patterns) == ONE_DEVICE


def test_reasons() -> None:
    module = parse_hlo(donated(ONE_DEVICE, "state['w'][0].mu"))
    edit = edit_donation(module, donate=["d", "state", "x"], undonate=["c"])
    assert [(change.target, change.why_not) for change in edit.changes] == [
        ("d", "no free result has its shape or number of elements"),
        ("state['w'][0].mu", "already donated; result{0} has its memory"),
        ("state['w'][0].nu", ""),
        ("x", "no argument is called 'x'; there is state['w'][0].mu, state['w'][0].nu, c, d"),
        ("c", "it is not donated"),
    ]


def test_results_of_a_sharding_that_xla_chooses_are_left_to_xla() -> None:
    header = "HloModule jit_step, num_partitions=2, allow_spmd_sharding_propagation_to_output={"
    text = ONE_DEVICE.replace("HloModule jit_step", header + "true,false,false,true}")
    edit = edit_donation(parse_hlo(text), donate=["state", "d"])
    module = edited(text, edit)
    assert module.header["input_output_alias"] == "{ {1}: (1, {}, may-alias) }"
    assert module.header["buffer_donor"] == "{ (0, {}), (3, {}) }"


def test_edits_of_the_same_part_cannot_be_combined() -> None:
    module = parse_hlo(ONE_DEVICE)
    edits = [edit_donation(module, donate=[name]) for name in ("state", "c")]
    with pytest.raises(UsageError, match="the same part"):
        edited_text(ONE_DEVICE, edits)
