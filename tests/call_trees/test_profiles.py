"""Profiles as call trees: seconds of pyinstrument, stacks of threads, folded stacks."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from hlo_lens.call_trees.call_tree import in_unit
from hlo_lens.call_trees.drawn_trees import parse_call_trees
from hlo_lens.call_trees.drawn_trees_grammar import label_by_grammar
from hlo_lens.call_trees.tree_lines import label_of
from hlo_lens.text.errors import DumpSyntaxError
from tests import corpus
from tests.timing import cpu_seconds

if TYPE_CHECKING:
    from hlo_lens.call_trees.call_tree import CallTree

PYINSTRUMENT = """\
  _     ._   __/__   _ _  _  _ _/_   Recorded: 10:00:00  Samples:  10
 /_//_/// /_\\ / //_// / //_'/ //     Duration: 2.000     CPU time: 1.9

Program: a.py

2.000 <module>  a.py:1
└─ 1.900 step  a.py:4
   ├─ 1.250 all_reduce  a.py:7
   │  ├─ 0.750 [self]  a.py
   │  └─ 0.500 sleep  <built-in>
   ├─ [2 frames hidden]  asyncio
   │  └─ 0.125 run  runners.py:9
   └─ 0.025 f  a.py:9
"""

THREADS = """\
Process 7: python a.py
Python v3.12.1 (/usr/bin/python3.12)

Thread 7 (active+gil): "MainThread"
    f (a.py:3)
        Arguments:
            x: 3
    step (a.py:9)
    <module> (a.py:12)
Thread 0x7F01 (idle): "reader"
    wait (threading.py:320)
"""

FAULT = """\
Fatal Python error: Segmentation fault

Current thread 0x00007f01 (most recent call first):
  File "/w/a.py", line 3 in f
  File "/w/a.py", line 9 in <module>
"""


def outline(tree: CallTree) -> list[tuple[int, str, int]]:
    return [(tree.depths[n], str(tree.frame(n)), tree.totals[n] // 10**6) for n in range(len(tree))]


@pytest.mark.parametrize("is_ascii", [False, True])
def test_seconds_of_pyinstrument_are_amounts(is_ascii: bool) -> None:
    text = PYINSTRUMENT
    if is_ascii:
        text = text.replace("├─", "|-").replace("└─", "`-").replace("│", "|")
    (tree,) = parse_call_trees(text).trees
    assert tree.measure == "seconds"
    assert outline(tree) == [
        (0, "<module>, a.py:1", 2000),
        (1, "step, a.py:4", 1900),
        (2, "all_reduce, a.py:7", 1250),
        (3, "sleep, <built-in>", 500),
        (2, "[2 frames hidden]  asyncio", 125),
        (3, "run, runners.py:9", 125),
        (2, "f, a.py:9", 25),
    ]
    assert tree.total == 2 * 10**9
    assert tree.own[2] == 750 * 10**6
    assert list(tree.lines) == [6, 7, 8, 10, 11, 12, 13]


def test_callees_with_more_seconds_than_their_caller_are_a_gap() -> None:
    rounded = "0.010 f  a.py:1\n├─ 0.006 g  a.py:2\n└─ 0.005 h  a.py:3\n"
    assert parse_call_trees(rounded).gaps == ()
    (gap,) = parse_call_trees(rounded.replace("0.006", "0.060")).gaps
    assert (gap.line, gap.message) == (
        1,
        "the calls below have 0.055 more seconds or percent than this one",
    )


def test_tree_with_seconds_at_some_calls_only_counts_calls() -> None:
    (tree,) = parse_call_trees("0.010 f  a.py:1\n├─ g  a.py:2\n└─ 0.005 h  a.py:3\n").trees
    assert (tree.measure, tree.total) == ("calls", 3)


@pytest.mark.parametrize(
    ("label", "nanoseconds"),
    [
        ("1.533 f  a.py:3", 1533000000),
        ("1.5s f  a.py:3", 1500000000),
        ("71.25us f  a.py:3", 71250),
        ("12.5ns f  a.py:3", 12),
        ("0.1234567891 f  <built-in>", 123456789),
        ("1.5m f  a.py:3", None),
        ("60.5% f  a.py:3", 60500000000),
        ("f  a.py:3", None),
    ],
)
def test_seconds_of_labels(label: str, nanoseconds: int | None) -> None:
    assert label_of(label).nanoseconds == nanoseconds
    assert label_by_grammar(label) == label_of(label)


def test_stacks_of_threads_are_trees_from_the_outermost_function() -> None:
    found = parse_call_trees(THREADS)
    first, second = found.trees
    assert [str(first.frame(n)) for n in range(3)] == [
        "<module>, a.py:12",
        "step, a.py:9",
        "f, a.py:3",
    ]
    assert list(first.lines) == [9, 8, 5]
    assert first.title == 'Thread 7 (active+gil): "MainThread"'
    assert [str(frame) for frame in second.frames] == ["wait, threading.py:320"]
    assert found.passed_lines == 2


def test_stacks_of_faulthandler_are_trees() -> None:
    (tree,) = parse_call_trees(FAULT).trees
    assert [str(frame) for frame in tree.frames] == ["<module>, /w/a.py:9", "f, /w/a.py:3"]


def test_folded_stacks_are_a_tree_of_samples() -> None:
    text = (
        "main (a.py:1);step (a.py:2);f (b.py:3) 7\nmain (a.py:1) 2\nmain (a.py:1);step (a.py:2) 1\n"
    )
    (tree,) = parse_call_trees(text).trees
    assert tree.measure == "samples"
    assert [(tree.depths[n], str(tree.frame(n)), tree.own[n]) for n in range(3)] == [
        (0, "main, a.py:1", 2),
        (1, "step, a.py:2", 1),
        (2, "f, b.py:3", 7),
    ]


def test_folded_stacks_of_several_roots_are_in_preorder() -> None:
    (tree,) = parse_call_trees("a;b 1\nc;d 2\na;e 3\n").trees
    assert [(tree.depths[n], tree.frame(n).function, tree.own[n]) for n in range(5)] == [
        (0, "a", 0),
        (1, "b", 1),
        (1, "e", 3),
        (0, "c", 0),
        (1, "d", 2),
    ]


def test_line_that_is_no_folded_stack_is_a_gap() -> None:
    lines = [*(f"a;f{k} 1" for k in range(70)), "no number"]
    (gap,) = parse_call_trees("\n".join(lines)).gaps
    assert (gap.line, gap.message) == (71, "expected a stack such as 'a;b;c 12'")


def test_ascii_tree_without_places_is_a_tree() -> None:
    (tree,) = parse_call_trees("main\n|-- step\n|   `-- f\n`-- g\n").trees
    assert [(tree.depths[n], tree.frame(n).function) for n in range(4)] == [
        (0, "main"),
        (1, "step"),
        (2, "f"),
        (1, "g"),
    ]


def test_error_names_the_accepted_forms() -> None:
    with pytest.raises(DumpSyntaxError, match="folded stacks"):
        parse_call_trees("nothing\n")


@pytest.mark.parametrize("text", ["a" + " " * 200_000 + "b\n", "(" * 200_000, "a;b 1\n" * 50_000])
def test_time_is_linear_in_the_length(text: str) -> None:
    def read() -> None:
        for one in (text, f'Thread 1 (idle): "x"\n    {text}'):
            with suppress(DumpSyntaxError):
                parse_call_trees(one)

    assert cpu_seconds(read) < 5


@corpus.needs_corpus
def test_profiles_of_the_corpus() -> None:
    folder = corpus.SHARED / "corpus" / "texts" / "tr"
    (timed,) = parse_call_trees((folder / "pyinstrument_color.txt").read_bytes()).trees
    assert (timed.measure, timed.total) == ("seconds", 1_533_000_000)
    (dumped,) = parse_call_trees((folder / "pyspy_dump.txt").read_bytes()).trees
    assert [dumped.frame(n).function for n in (0, 2, 5)] == ["<module>", "step", "matmul"]


def test_stacks_of_austin_have_places_and_comments() -> None:
    text = "# mode: wall\n\nP4;T1;a.py:main:3;a.py:step:9 12\nP4;T1;a.py:main:3 1\n"
    (tree,) = parse_call_trees(text).trees
    assert [str(tree.frame(n)) for n in range(4)] == ["P4", "T1", "main, a.py:3", "step, a.py:9"]
    assert tree.total == 13


def test_percentages_are_amounts_of_their_own() -> None:
    text = "100.0% main  a.py:1\n├─ 60.5% f  a.py:2\n└─ 9.5% g  a.py:3\n"
    (tree,) = parse_call_trees(text).trees
    assert tree.measure == "percent"
    assert [tree.frame(n).function for n in range(3)] == ["main", "f", "g"]
    assert [in_unit(amount, tree.measure) for amount in tree.own] == [30.0, 60.5, 9.5]
