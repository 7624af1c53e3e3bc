"""Pairs of the modules of two dumps."""

from __future__ import annotations

import dataclasses

from hlo_lens.questions.diff.pairs import IN_ORDER, ONLY_ONES, SIGNATURE_DIFFERS, pair_modules
from tests.snapshots import FACTS, MEMORY, module

ASSIGNED = dataclasses.replace(FACTS, memory=MEMORY)


def test_modules_are_paired_by_name_whatever_their_order() -> None:
    base = [module("jit_a"), module("jit_b")]
    pairs = pair_modules(base, base[::-1])
    assert pairs.pairs == ((0, 1, ""), (1, 0, ""))
    assert (pairs.removed, pairs.added) == ((), ())


def test_numbers_in_names_are_no_difference() -> None:
    base = [module("SyncTensorsGraph.12"), module("jit_b")]
    head = [module("SyncTensorsGraph.1417"), module("jit_b")]
    assert pair_modules(base, head).pairs == ((0, 0, ""), (1, 1, ""))


def test_retraces_of_one_name_are_paired_by_signature_and_others_listed() -> None:
    base = [module(signature="8"), module(signature="16")]
    head = [module(signature="32"), module(signature="8")]
    pairs = pair_modules(base, head)
    assert pairs.pairs == ((0, 1, ""),)
    assert (pairs.removed, pairs.added) == ((1,), (0,))


def test_a_name_that_occurs_once_on_each_side_is_paired_with_a_note() -> None:
    base = [module(signature="8"), module("jit_g")]
    head = [module("jit_g"), module(signature="32")]
    assert pair_modules(base, head).pairs == ((0, 1, SIGNATURE_DIFFERS), (1, 0, ""))


def test_copies_do_not_keep_a_name_from_being_paired_across_signatures() -> None:
    base = [module(signature="8", facts=ASSIGNED), module(signature="8")]
    head = [module(signature="32"), module(signature="32", facts=ASSIGNED)]
    pairs = pair_modules(base, head, base_copies={1: 0}, head_copies={0: 1})
    assert pairs.pairs == ((0, 1, SIGNATURE_DIFFERS),)
    assert (pairs.removed, pairs.added) == ((), ())
    assert (pairs.base_copies, pairs.head_copies) == ((1,), (0,))


def test_another_retrace_makes_no_pair_of_the_wrong_signature() -> None:
    pairs = pair_modules([module(signature="8")], [module(signature="16"), module(signature="32")])
    assert (pairs.pairs, pairs.removed, pairs.added) == ((), (0,), (0, 1))


def test_equal_programs_are_paired_among_modules_of_one_signature() -> None:
    base = [module(fingerprint="x"), module(fingerprint="y")]
    assert [p[:2] for p in pair_modules(base, base[::-1]).pairs] == [(0, 1), (1, 0)]


def test_copies_of_a_program_are_paired_by_the_source_of_their_memory() -> None:
    known = module(fingerprint="x", facts=ASSIGNED)
    pairs = pair_modules([module(fingerprint="x"), known], [known, module(fingerprint="x")])
    assert (pairs.pairs, pairs.base_copies, pairs.head_copies) == (((1, 0, ""),), (0,), (1,))
    pairs = pair_modules([module(fingerprint="x")], [module(fingerprint="x"), known])
    assert (pairs.pairs, pairs.head_copies) == (((0, 0, ""),), (1,))


def test_indistinguishable_modules_are_paired_in_order_with_a_note() -> None:
    base = [module(fingerprint="x"), module(fingerprint="y")]
    head = [module(fingerprint="p"), module(fingerprint="q")]
    note = IN_ORDER.format(count=2)
    assert pair_modules(base, head).pairs == ((0, 0, note), (1, 1, note))


def test_different_numbers_of_modules_of_one_signature_are_not_paired() -> None:
    base = [module(fingerprint="x"), module(fingerprint="y")]
    pairs = pair_modules(base, [module(fingerprint="p"), module("jit_g")])
    assert (pairs.pairs, pairs.removed, pairs.added) == ((), (0, 1), (0, 1))


def test_the_copy_of_a_program_with_the_best_known_memory_is_compared() -> None:
    base = [module(fingerprint="x")]
    head = [module(fingerprint="y"), module(fingerprint="y", facts=ASSIGNED)]
    pairs = pair_modules(base, head)
    assert pairs.pairs == ((0, 1, ""),)
    assert (pairs.removed, pairs.added, pairs.head_copies) == ((), (), (0,))


def test_two_single_modules_are_a_pair_whatever_their_names() -> None:
    assert pair_modules([module("jit_a")], [module("jit_b")]).pairs == ((0, 0, ONLY_ONES),)


def test_equal_programs_with_different_memory_are_no_copies() -> None:
    small, large = (
        module(fingerprint="x", facts=dataclasses.replace(FACTS, memory=memory))
        for memory in (MEMORY, dataclasses.replace(MEMORY, total_bytes=400))
    )
    pairs = pair_modules([small], [small, large])
    assert (pairs.pairs, pairs.added, pairs.head_copies) == (((0, 0, ""),), (1,), ())
    pairs = pair_modules([large, small], [small, large, small])
    assert sorted(pairs.pairs) == [(0, 1, ""), (1, 0, "")]
    assert (pairs.added, pairs.head_copies) == ((), (2,))
