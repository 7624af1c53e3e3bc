"""Names: nearest ones, and names without what differs between compiles."""

from __future__ import annotations

from hlo_lens.text.names import did_you_mean, nearest_names
from tests.timing import cpu_seconds


def test_names_of_few_other_letters_come_before_names_that_contain_it() -> None:
    names = ["fused_all-reduce_computation", "all-reduce.1", "copy.1"]
    assert nearest_names("all-reduce", names) == ["all-reduce.1", "fused_all-reduce_computation"]
    assert nearest_names("", names) == []
    assert nearest_names("COPY", names) == ["copy.1"]


def test_message_has_at_most_four_names() -> None:
    names = [f"add.{k}" for k in range(10)]
    assert did_you_mean("add", names).count(" or ") == 3
    assert did_you_mean("zzz", names) == ""


def test_time_is_bounded_for_many_names() -> None:
    names = [f"fusion.{k}" for k in range(300_000)]
    assert cpu_seconds(lambda: nearest_names("fusoin.12345", names)) < 5
