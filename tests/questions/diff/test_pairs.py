"""Pairs of items by keys, of modules, and of files in renamed folders."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from hlo_lens.questions.diff.pairs import (
    IN_ORDER,
    ONLY_ONES,
    SIGNATURE_DIFFERS,
    pair_items,
    pair_modules,
    renamed_files,
    renamed_source,
    with_folders_of,
)
from tests.questions.diff.test_line_diff import BASE, causes
from tests.snapshots import FACTS, MEMORY, collective, group, module, peak

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


Item = tuple[str, int]
STAGES: tuple[Callable[[Item], Hashable], ...] = (
    lambda item: item,
    lambda item: item[0] and (item[0],),
)
items = st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.integers(0, 3)), max_size=8)


def _order(item: Item) -> tuple[object, ...]:
    return (item[1],)


@given(items, items)
def test_each_item_is_in_one_pair_or_left_over(base: list[Item], head: list[Item]) -> None:
    found = pair_items(base, head, STAGES, _order)
    assert sorted(one for one, _ in found if one is not None) == sorted(base)
    assert sorted(other for _, other in found if other is not None) == sorted(head)


@given(items, items)
def test_exchanged_sides_give_exchanged_pairs(base: list[Item], head: list[Item]) -> None:
    found, mirrored = (pair_items(*sides, STAGES, _order) for sides in ((base, head), (head, base)))
    assert Counter((b, a) for a, b in found) == Counter(mirrored)


ASSIGNED = dataclasses.replace(FACTS, memory=MEMORY)


def test_modules_are_paired_by_name_whatever_their_order() -> None:
    base = [module("jit_a"), module("jit_b")]
    pairs = pair_modules(base, base[::-1])
    assert pairs.pairs == ((0, 1, ""), (1, 0, ""))
    assert (pairs.removed, pairs.added) == ((), ())


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
    assert pairs.pairs == ((0, 1, ""),)
    assert (pairs.removed, pairs.added) == ((), ())
    assert (pairs.base_copies, pairs.head_copies) == ((1,), (0,))


def test_another_retrace_makes_no_pair_of_the_wrong_signature() -> None:
    pairs = pair_modules([module(signature="8")], [module(signature="16"), module(signature="32")])
    assert (pairs.pairs, pairs.removed, pairs.added) == ((), (0,), (0, 1))


def test_equal_programs_are_paired_among_modules_of_one_signature() -> None:
    base = [module(fingerprint="x"), module(fingerprint="y")]
    assert [p[:2] for p in pair_modules(base, base[::-1]).pairs] == [(0, 1), (1, 0)]


def test_the_copies_with_the_best_known_memory_are_paired() -> None:
    known = module(fingerprint="x", facts=ASSIGNED)
    pairs = pair_modules([module(fingerprint="x"), known], [known, module(fingerprint="x")])
    assert (pairs.pairs, pairs.base_copies, pairs.head_copies) == (((1, 0, ""),), (0,), (1,))


def test_indistinguishable_modules_are_paired_in_order_with_a_note() -> None:
    base = [module(fingerprint="x"), module(fingerprint="y")]
    head = [module(fingerprint="p"), module(fingerprint="q")]
    note = IN_ORDER.format(count=2)
    assert pair_modules(base, head).pairs == ((0, 0, note), (1, 1, note))


def test_different_numbers_of_modules_of_one_signature_are_not_paired() -> None:
    base = [module(fingerprint="x"), module(fingerprint="y")]
    pairs = pair_modules(base, [module(fingerprint="p"), module("jit_g")])
    assert (pairs.pairs, pairs.removed, pairs.added) == ((), (0, 1), (0, 1))


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


def test_files_of_one_name_in_one_folder_of_each_side_are_the_same() -> None:
    found = renamed_files(["a/train.py", "a/x.py", "lib/ops.py"], ["b/train.py", "lib/ops.py"])
    assert found == {"a/train.py": "b/train.py"}
    assert renamed_files(["a/model.py"], ["b/model.py", "c/model.py"]) == {}
    assert renamed_files(["a/model.py"], ["a/model.py", "c/model.py"]) == {}
    assert renamed_files(["a/__init__.py"], ["b/__init__.py"]) == {}


def test_lines_of_sources_follow_their_file() -> None:
    files = {"a/train.py": "b/train.py"}
    assert renamed_source("a/train.py:7", files) == "b/train.py:7"
    assert renamed_source("a/train.py", files) == "b/train.py"
    assert renamed_source("c/train.py:7", files) == "c/train.py:7"
    assert renamed_source(None, files) is None


def test_a_rewritten_line_of_a_renamed_folder_is_no_new_line() -> None:
    head = BASE.replace("/home/me/p/", "/home/me/q/").replace("tanh(", "negate(")
    ((places, what),) = causes(BASE, head)
    assert places == ("q/t.py:3",)
    assert what == "opcode tanh -> negate (1)"


def test_values_and_collectives_of_a_renamed_folder_are_no_change() -> None:
    mine = collective(source_file="p/train.py", wire_bytes_per_device=1)
    yours = replace(mine, source_file="q/train.py", payload_bytes=1023)
    held = [peak(group(source=f"{folder}/train.py:3")) for folder in ("p", "q")]
    base = module(collectives=(mine,), peaks=(held[0],))
    head = module(collectives=(yours,), peaks=(held[1],))
    found = with_folders_of(base, head)
    assert found.peaks[0].groups == head.peaks[0].groups
    assert found.collectives is not None
    assert found.collectives[0].source_file == "q/train.py"
    assert with_folders_of(base, base) is base
