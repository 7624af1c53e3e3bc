"""Donations, simulated: aliases, copies that XLA keeps, copies that are no longer made."""

from __future__ import annotations

from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.what_if.simulation.donation import simulated_donation
from tests.questions.what_if.simulation.programs import simulator, step

ARRAY = 4096


def test_donated_argument_that_is_read_before_its_result_is_not_copied() -> None:
    known = step()
    edit = simulated_donation(known, ["w"], [])
    assert [(one.parameter_number, one.output_index) for one in edit.aliases] == [(0, (0,))]
    assert not edit.copies
    assert not edit.copied_bytes
    found = known.changed(edit.aliases, edit.values).figures
    assert found["alias_bytes"] == ARRAY
    assert found["total_bytes"] == known.own.figures["total_bytes"] - ARRAY


def test_donated_argument_that_is_read_by_another_result_is_copied() -> None:
    known = step(read="%w")
    edit = simulated_donation(known, ["w"], [])
    assert edit.copies == (("w", "neg_fusion"),)
    assert edit.copied_bytes == ARRAY
    found = known.changed(edit.aliases, edit.values).figures
    assert found["total_bytes"] == known.own.figures["total_bytes"]


def test_argument_of_a_result_computed_from_it_alone_is_not_copied() -> None:
    known = step(read="%w", alias="{0}: (0, {}, may-alias)")
    edit = simulated_donation(known, ["x"], [])
    assert [(one.parameter_number, one.output_index) for one in edit.aliases] == [
        (0, (0,)),
        (1, (1,)),
    ]
    assert not edit.values.copied_results


def test_undonated_argument_has_no_alias() -> None:
    known = step(alias="{0}: (0, {}, may-alias)")
    edit = simulated_donation(known, [], ["w"])
    assert edit.aliases == ()
    found = known.changed(edit.aliases, edit.values).figures
    assert found["alias_bytes"] == 0
    assert found["total_bytes"] == known.own.figures["total_bytes"] + ARRAY


def test_copy_for_a_donation_is_not_made_without_it() -> None:
    text = hlo_text(step().known).columns.source.text
    text = text.replace("  %exp_fusion", "  %copy.1 = f32[1024]{0} copy(%w)\n  %exp_fusion", 1)
    text = text.replace("fusion(%exp_fusion, %exp_fusion)", "fusion(%exp_fusion, %copy.1)")
    alias = "input_output_alias={ {0}: (0, {}, may-alias) }, entry_computation_layout"
    known = simulator(text.replace("entry_computation_layout", alias, 1))
    edit = simulated_donation(known, [], ["w"])
    assert len(edit.values.dropped) == 1
    found = known.changed(edit.aliases, edit.values).figures
    assert found["temp_bytes"] < known.own.figures["temp_bytes"] + ARRAY


def test_argument_of_no_result_is_refused() -> None:
    known = step()
    edit = simulated_donation(known, ["nothing"], [])
    assert edit.aliases == known.aliases
    assert edit.changes[0].why_not.startswith("no argument is called 'nothing'")


def test_tuple_in_itself_in_a_damaged_text_does_not_stop_a_donation() -> None:
    text = hlo_text(step().known).columns.source.text
    shape = "(f32[1024]{0}, (f32[1024]{0}, f32[1024]{0}))"
    text = text.replace("  %exp_fusion", f"  %loop = {shape} tuple(%w, %loop)\n  %exp_fusion", 1)
    edit = simulated_donation(simulator(text), ["w"], [])
    assert [one.parameter_number for one in edit.aliases] == [0]
