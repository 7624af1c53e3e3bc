"""Traits of opcodes: rows of the table, async sugar, and opcodes that are not in it."""

from __future__ import annotations

import pytest

from hlo_lens.hlo.opcodes import (
    COLLECTIVE_KINDS,
    OpcodeTraits,
    Produced,
    is_collective_like,
    opcode_traits,
    opcodes_where,
)


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("all-reduce", "all-reduce"),
        ("all-reduce-start", "all-reduce"),
        ("all-reduce-done", None),
        ("reduce-scatter-start", "reduce-scatter"),
        ("reduce-scatter-update", None),
        ("send", "send"),
        ("send-done", None),
        ("recv", "recv"),
        ("reduce", None),
        ("async-start", None),
        ("copy-start", None),
    ],
)
def test_collective_is_counted_at_its_start(opcode: str, kind: str | None) -> None:
    assert opcode_traits(opcode).collective_kind == kind


@pytest.mark.parametrize(
    ("opcode", "known", "collective_like"),
    [
        ("dot", True, False),
        ("dot-start", True, False),
        ("all-to-none", False, True),
        ("collective-swap-start", False, True),
        ("quantum-dot", False, False),
    ],
)
def test_opcode_of_a_later_xla_is_not_known(
    opcode: str, known: bool, collective_like: bool
) -> None:
    assert opcode_traits(opcode).is_known is known
    assert is_collective_like(opcode) is collective_like


def test_nothing_is_claimed_of_an_opcode_without_a_row() -> None:
    expected = OpcodeTraits(opcode="quantum-dot", base="quantum-dot")
    assert opcode_traits("quantum-dot") == expected


def test_sugar_may_name_what_it_wraps_and_claims_nothing_else() -> None:
    expected = OpcodeTraits(
        opcode="slice-start", base="slice", phase="start", is_known=True, is_caller=True
    )
    assert opcode_traits("slice-start") == expected
    assert expected.is_sugar
    assert not opcode_traits("all-reduce-start").is_sugar


@pytest.mark.parametrize(
    ("opcode", "produced"),
    [
        ("add", Produced.ALL),
        ("quantum-dot", Produced.ALL),
        ("all-reduce-start", Produced.ALL),
        ("copy-start", Produced.FIRST),
        ("recv", Produced.FIRST),
        ("all-gather-start", Produced.SECOND),
        ("slice-start", Produced.SECOND),
        ("slice-done", Produced.NONE),
        ("async-start", Produced.NONE),
        ("send", Produced.NONE),
        ("bitcast", Produced.NONE),
    ],
)
def test_new_part_of_a_result(opcode: str, produced: Produced) -> None:
    assert opcode_traits(opcode).produced is produced


@pytest.mark.parametrize(
    ("opcode", "is_start", "is_end"),
    [
        ("send", True, False),
        ("send-done", False, True),
        ("dot-start", True, False),
        ("dot-update", False, True),
        ("all-reduce", False, False),
    ],
)
def test_async_role(opcode: str, is_start: bool, is_end: bool) -> None:
    traits = opcode_traits(opcode)
    assert (traits.is_start, traits.is_end) == (is_start, is_end)


def test_collectives_are_listed_in_the_order_of_reports() -> None:
    assert COLLECTIVE_KINDS[:3] == ("all-reduce", "all-gather", "reduce-scatter")
    assert COLLECTIVE_KINDS[-2:] == ("send", "recv")


def test_copies_and_views_keep_all_elements_in_their_order() -> None:
    kept = {"add-dependency", "bitcast", "copy", "domain", "opt-barrier", "reshape", "async-done"}
    assert opcodes_where(lambda traits: traits.is_same) == kept
    moved = opcodes_where(lambda traits: traits.is_moving)
    assert kept - {"async-done"} < moved
    assert "broadcast" not in moved


def test_what_runs_or_applies_computations_may_name_them() -> None:
    callers = opcodes_where(lambda traits: traits.is_caller)
    runs = opcodes_where(lambda t: t.is_runner or t.is_applier or t.is_control_flow)
    assert callers - runs == {"async-update", "async-done"}
    assert runs < callers
