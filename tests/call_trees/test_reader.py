"""Drawn call trees: all forms of lines and labels; unread lines are gaps."""

from __future__ import annotations

import pytest

from hlo_lens.call_trees.tree import CallFrame, CallTree, parse_call_trees
from hlo_lens.text.errors import DumpSyntaxError
from tests.corpus import SHARED
from tests.timing import cpu_seconds

TRACE = """\
└── main, /w/train.py:7
    ├── step, /w/train.py:3
    │   ├── matmul, /lib/ops.py:10
    │   └── matmul, /lib/ops.py:10
    └── save, /w/train.py:20
"""
SHAPE = [(0, "main"), (1, "step"), (2, "matmul"), (2, "matmul"), (1, "save")]

SEEDS = sorted((SHARED / "seeds").glob("001_*")) if SHARED.is_dir() else []


def shape(tree: CallTree) -> list[tuple[int, str]]:
    """Return depth and function of each node."""
    return [(tree.depths[n], tree.frame(n).function) for n in range(len(tree))]


def only(text: str) -> CallTree:
    (tree,) = parse_call_trees(text).trees
    return tree


def drawn(
    nodes: list[tuple[int, str]], *, fork: str = "├── ", last: str = "└── ", bar: str = "│   "
) -> str:
    """Return nodes drawn with branches; depth 0 has one too."""
    lines = []
    bars: list[str] = []
    for at, (depth, label) in enumerate(nodes):
        later = next((d for d, _ in nodes[at + 1 :] if d <= depth), -1)
        is_last = later != depth
        del bars[depth:]
        lines.append(f"{''.join(bars)}{last if is_last else fork}{label}")
        bars.append(" " * len(bar) if is_last else bar)
    return "\n".join(lines) + "\n"


def test_depth_function_place_and_line() -> None:
    tree = only(TRACE)
    assert shape(tree) == SHAPE
    assert tree.frame(2) == CallFrame(function="matmul", file="/lib/ops.py", line=10)
    assert list(tree.lines) == [1, 2, 3, 4, 5]
    assert list(tree.parents) == [-1, 0, 1, 1, 0]
    assert list(tree.totals) == [5, 3, 1, 1, 1]
    assert len(tree.frames) == 4
    assert not tree.is_cut


@pytest.mark.parametrize(
    ("fork", "last", "bar"),
    [
        ("├── ", "└── ", "│   "),
        ("├──", "└──", "│  "),
        ("├── ", "╰── ", "│   "),
        ("┣━━ ", "┗━━ ", "┃   "),
        ("╠══ ", "╚══ ", "║   "),
        ("|-- ", "`-- ", "|   "),
        ("+-- ", "`-- ", "|   "),
        ("    ├── ", "    └── ", "    │   "),
    ],
)
def test_branches_of_all_styles_give_one_tree(fork: str, last: str, bar: str) -> None:
    nodes = [(d, f"{name}, a.py:{d + 1}") for d, name in SHAPE]
    assert shape(only(drawn(nodes, fork=fork, last=last, bar=bar))) == SHAPE


@pytest.mark.parametrize(
    ("label", "function", "file"),
    [
        ("f, a.py:3", "f", "a.py"),
        ("f, /home/John Doe/a.py:3", "f", "/home/John Doe/a.py"),
        ("f, /foo (1).py:3", "f", "/foo (1).py"),
        ("f, C:\\w\\a.py:3", "f", "C:\\w\\a.py"),
        ("ns::f(int, char), a.cc:3", "ns::f(int, char)", "a.cc"),
        ("f, g, h.py:3", "f, g", "h.py"),
        (
            "<lambda>, <frozen importlib._bootstrap>:3",
            "<lambda>",
            "<frozen importlib._bootstrap>",
        ),
        ("Block.forward", "Block.forward", None),
        ("linear x 2", "linear x 2", None),
        ("f, a.py:12345678901", "f, a.py:12345678901", None),
        ("f(a.py:3) (b)", "f(a.py:3) (b)", None),
    ],
)
def test_labels(label: str, function: str, file: str | None) -> None:
    tree = only(f"root, r.py:1\n└── {label}\n")
    line = 3 if file else None
    assert tree.frame(1) == CallFrame(function=function, file=file, line=line)


def test_several_trees_with_other_lines_between() -> None:
    text = f"loss 0.1\n\n{TRACE}loss 0.2\nloss 0.3\n\n{TRACE}{TRACE}done\n"
    found = parse_call_trees(text)
    assert [shape(tree) for tree in found.trees] == [SHAPE] * 3
    assert found.passed_over == ((1, 1), (8, 2), (21, 1))
    assert found.passed_lines == 4
    assert not found.gaps


def test_other_lines_inside_a_tree_are_a_gap_and_the_tree_goes_on() -> None:
    lines = TRACE.splitlines(keepends=True)
    lines[3:3] = ["UserWarning: slow\n", "  warnings.warn()\n"]
    found = parse_call_trees("".join(lines))
    assert [shape(tree) for tree in found.trees] == [SHAPE]
    assert [(gap.line, gap.lines) for gap in found.gaps] == [(4, 2)]


def test_text_that_begins_inside_a_tree() -> None:
    found = parse_call_trees("".join(TRACE.splitlines(keepends=True)[2:]))
    (tree,) = found.trees
    assert shape(tree) == [(0, "matmul"), (0, "matmul"), (0, "save")]
    assert tree.is_cut
    assert found.gaps[0].line == 1


@pytest.mark.parametrize(
    "text", ["", "no tree\n", "├──────┤\n└──────┘\n", "| a | b |\n|---|---|\n", "+----+\n| x  |\n"]
)
def test_text_without_a_tree(text: str) -> None:
    with pytest.raises(DumpSyntaxError, match="expected a drawn call tree"):
        parse_call_trees(text)


@pytest.mark.skipif(not SEEDS, reason="the documents of the corpus are not beside this checkout")
def test_real_trace_is_read_whole() -> None:
    found = parse_call_trees(SEEDS[0].read_text("utf-8"))
    (tree,) = found.trees
    assert (len(tree), len(tree.frames), found.gaps, found.passed_over) == (9363, 254, (), ())
    assert not tree.is_cut


@pytest.mark.parametrize(
    "text",
    [
        "1.533 main  a.py:1\n└─ 1.500 f  a.py:2\n",
        "100.0% main  a.py:1\n├─ 60.5% f  a.py:2\n└─ 9.5% g  a.py:3\n",
        "main;step;f 12\nmain;step 1\n",
        "Global\n  FORWARD PASS\n    *c10d_functional.all_reduce: 2\n",
    ],
    ids=["seconds", "percent", "folded stacks", "table of CommDebugMode"],
)
def test_profiles_are_refused(text: str) -> None:
    with pytest.raises(DumpSyntaxError, match="expected a drawn call tree"):
        parse_call_trees(text)


@pytest.mark.parametrize(
    "text",
    [
        "└── a" + " " * 200_000 + "b",
        "└── " + "(" * 200_000,
        "└── " + "a, " * 70_000,
        "".join(f"└── f{k}, a.py:1\n" for k in range(10_000)),
    ],
    ids=["blanks", "brackets", "commas", "labels"],
)
def test_time_is_linear_in_the_length(text: str) -> None:
    assert cpu_seconds(lambda: parse_call_trees(text)) < 5
