"""The table of instructions, and names as printed."""

from __future__ import annotations

import pytest

from hlo_lens.hlo import query as hlo_query
from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.hlo.query import names_printed_as
from tests.questions.texts import LOOP, entry_of, table_of


@pytest.mark.parametrize(
    ("line", "produced"),
    [
        ("ROOT a = f32[4] add(x, x)", [16]),
        ("ROOT a = (f32[4], f32[4]) tuple(x, x)", []),
        ('ROOT a = (f32[4], s8[3]) custom-call(x), custom_call_target="f"', [19]),
        ("ROOT a = (f32[4], f32[4], u32[]) copy-start(x)", [16]),
        ("ROOT a = (f32[4], f32[16]) all-gather-start(x), replica_groups={}, dimensions={0}", [64]),
        ("ROOT a = f32[4] all-reduce-start(x), replica_groups={}, to_apply=add", [16]),
        ("ROOT a = ((f32[4]), f32[2], u32[]) slice-start(x), slice={[0:2]}", [8]),
        ("ROOT a = f32[?] add(x, x)", [None]),
        ("ROOT a = f32[2,2] bitcast(x)", []),
    ],
)
def test_producers_have_the_bytes_of_new_arrays(line: str, produced: list[int | None]) -> None:
    table = entry_of(f"  x = f32[4] parameter(0)\n  {line}")
    assert table.produced_bytes == [16, *produced]


def test_views_and_embedded_computations_are_left_out_and_counted() -> None:
    table = table_of(LOOP)
    names = [table.instruction(row).name for row in table.producers]
    assert names == ["y", "one", "next", "four", "less", "w", "b", "n"]
    assert table.left_out_embedded == 2
    assert table.left_out_views == len(table.opcodes) - len(names) - 2


def test_unprinted_partitions_are_those_of_shardings() -> None:
    line = "ROOT x = f32[8] parameter(0), sharding={devices=[4]0,1,2,3}"
    assert hlo_query.evident_partitions(entry_of(line)) == 4
    assert hlo_query.evident_partitions(entry_of(line, ", num_partitions=8")) == 8
    assert hlo_query.evident_partitions(entry_of("ROOT x = f32[8] parameter(0)")) is None


def test_module_without_computations_has_an_empty_table() -> None:
    table = hlo_query.tabulate(parse_hlo("HloModule nothing\n"))
    assert (len(table.opcodes), table.left_out_views, table.left_out_embedded) == (0, 0, 0)


NAMES = ("while.3", "add_fusion.12", "mul_fusion.12", "dot.1")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dot.1", ["dot.1"]),
        ("%dot.1", ["dot.1"]),
        ("while.3{}", ["while.3"]),
        ("while.3{0,1}", ["while.3"]),
        ("...l_fusion.12{}", ["mul_fusion.12"]),
        ("..._fusion.12", ["add_fusion.12", "mul_fusion.12"]),
        ("fusion.12", []),
        ("dot", []),
        ("a\nb", []),
    ],
)
def test_name_is_found_as_printed(text: str, found: list[str]) -> None:
    assert names_printed_as(text, NAMES) == found
