"""Drawn call trees: all forms of lines and labels; unread lines are gaps."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings, strategies as st

from hlo_lens.call_trees.call_tree import CallFrame, CallTree
from hlo_lens.call_trees.comm_debug_table import table_rows
from hlo_lens.call_trees.drawn_trees import parse_call_trees
from hlo_lens.call_trees.tree_lines import label_of
from hlo_lens.grammar.parsers import build_parser
from hlo_lens.text.errors import DumpSyntaxError, HloLensError
from hlo_lens.text.source import clean
from tests.corpus import SAMPLES, SHARED

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
    assert not tree.missing_calls


@pytest.mark.parametrize(
    ("fork", "last", "bar"),
    [
        ("├── ", "└── ", "│   "),
        ("├─ ", "└─ ", "│  "),
        ("├──", "└──", "│  "),
        ("├── ", "╰── ", "│   "),
        ("┣━━ ", "┗━━ ", "┃   "),
        ("╠══ ", "╚══ ", "║   "),
        ("├──\xa0", "└──\xa0", "│\xa0\xa0\xa0"),
        ("|-- ", "`-- ", "|   "),
        ("|-- ", "+-- ", "|   "),
        ("+-- ", "`-- ", "|   "),
        ("+-- ", "+-- ", "|   "),
        ("|- ", "`- ", "|  "),
        ("+---", "\\---", "|   "),
        ("├─┬ ", "└─┬ ", "│ "),
        ("    ├── ", "    └── ", "    │   "),
    ],
)
def test_branches_of_all_styles_give_one_tree(fork: str, last: str, bar: str) -> None:
    nodes = [(d, f"{name}, a.py:{d + 1}") for d, name in SHAPE]
    assert shape(only(drawn(nodes, fork=fork, last=last, bar=bar))) == SHAPE


@pytest.mark.parametrize(
    ("label", "function", "file", "line", "times"),
    [
        ("f, a.py:3", "f", "a.py", 3, 1),
        ("f, /home/John Doe/a.py:3", "f", "/home/John Doe/a.py", 3, 1),
        ("f, /foo (1).py:3", "f", "/foo (1).py", 3, 1),
        ("f, C:\\w\\a.py:3", "f", "C:\\w\\a.py", 3, 1),
        ("ns::f(int, char), a.cc:3", "ns::f(int, char)", "a.cc", 3, 1),
        ("f (a.py:3)", "f", "a.py", 3, 1),
        ("f(x) [a.py:3]", "f(x)", "a.py", 3, 1),
        ("f at a.py:3", "f", "a.py", 3, 1),
        ("f @ a.py:3", "f", "a.py", 3, 1),
        ("f  pkg/a.py:3", "f", "pkg/a.py", 3, 1),
        ("0.512 f  a.py:3", "f", "a.py", 3, 1),
        ("a.py:3(f)", "f", "a.py", 3, 1),
        ("w/a.py(3): f", "f", "w/a.py", 3, 1),
        ("w/a.py(3): <listcomp> (2 calls)", "<listcomp>", "w/a.py", 3, 2),
        ("nn.Module: Linear_0", "nn.Module: Linear_0", None, None, 1),
        ("/w/a.py:3: f", "f", "/w/a.py", 3, 1),
        ("/w/a.py:3 f", "f", "/w/a.py", 3, 1),
        ('File "/w/a b.py", line 3, in f', "f", "/w/a b.py", 3, 1),
        ("/w/a.py:3", "", "/w/a.py", 3, 1),
        ("<lambda>, <frozen importlib._bootstrap>:24", "<lambda>", None, None, 1),
        ("Block.forward", "Block.forward", None, None, 1),
        ("f, a.py:3 x12", "f", "a.py", 3, 12),
        ("f, a.py:3  \u00d7 12", "f", "a.py", 3, 12),
        ("f, a.py:3 (12 calls)", "f", "a.py", 3, 12),
        ("f  x12", "f", None, None, 12),
        ("linear x 2", "linear x 2", None, None, 1),
        ("f, a.py:12345678901", "f, a.py:12345678901", None, None, 1),
    ],
)
def test_labels(label: str, function: str, file: str | None, line: int | None, times: int) -> None:
    frame, repeats, *_ = label_of(label)
    if function == "<lambda>":
        file, line = "<frozen importlib._bootstrap>", 24
    assert (frame.function, frame.file, frame.line, repeats) == (function, file, line, times)


def test_repeats_multiply_down_the_tree() -> None:
    tree = only("└── f, a.py:1 x3\n    └── g, a.py:2 x2\n")
    assert list(tree.own) == [3, 6]
    assert tree.total == 9


def test_repeats_beyond_all_bounds_are_a_gap() -> None:
    found = parse_call_trees("└── f, a.py:1 x999999999\n    └── g, a.py:2 x999999999\n")
    assert list(found.trees[0].own) == [999999999, 999999999]
    assert [(gap.line, gap.column) for gap in found.gaps] == [(2, 9)]


def test_root_without_branch() -> None:
    tree = only("main, a.py:1\n├── f, a.py:2\n│   └── g, a.py:3\n└── h, a.py:4\n")
    assert shape(tree) == [(0, "main"), (1, "f"), (2, "g"), (1, "h")]


def test_line_before_a_tree_is_its_title_where_it_names_no_place() -> None:
    found = parse_call_trees("Trace of rank 0:\n└── f, a.py:1\n    └── g, a.py:2\n")
    assert found.trees[0].title == "Trace of rank 0"
    assert shape(found.trees[0]) == [(0, "f"), (1, "g")]
    assert found.passed_over == ((1, 1),)


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
    with pytest.raises(DumpSyntaxError):
        parse_call_trees("".join(lines), strict=True)


def test_text_that_begins_inside_a_tree() -> None:
    found = parse_call_trees("".join(TRACE.splitlines(keepends=True)[2:]))
    (tree,) = found.trees
    assert shape(tree) == [(0, "matmul"), (0, "matmul"), (0, "save")]
    assert tree.is_cut
    assert found.gaps[0].line == 1


def test_text_that_ends_inside_a_tree() -> None:
    tree = only("".join(TRACE.splitlines(keepends=True)[:3]))
    assert tree.is_cut
    assert shape(tree) == SHAPE[:3]


def test_last_line_that_is_cut_off() -> None:
    found = parse_call_trees(TRACE[: TRACE.rindex("train.py") - 2])
    assert found.gaps[-1].message == "the last line is cut off"
    assert found.trees[0].is_cut


def test_missing_lines_are_counted_by_the_branches_that_announce_them() -> None:
    lines = TRACE.splitlines(keepends=True)
    del lines[3]
    assert only("".join(lines)).missing_calls == 1


def test_branch_without_function_is_a_gap() -> None:
    found = parse_call_trees("├── f, a.py:1\n└──\n")
    assert [gap.message for gap in found.gaps] == ["expected a function after the branch"]
    assert len(found.trees[0]) == 2


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank0]: ",
        "[default1]:",
        "2026-11-20 12:00:00,123 - trace - INFO - ",
        "INFO:trace:",
        "I1120 12:00:00.000000     123 trace.cc:33] ",
        "2026-11-20T12:00:00.1Z stdout F ",
    ],
)
def test_prefixes_of_logs(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in TRACE.splitlines())
    assert shape(only(text)) == SHAPE


def test_colours_carriage_returns_and_marks() -> None:
    text = "\ufeff" + TRACE.replace("matmul", "\x1b[1mmatmul\x1b[0m").replace("\n", "\r\n")
    assert shape(only(text)) == SHAPE
    assert shape(parse_call_trees(text.encode()).trees[0]) == SHAPE


@pytest.mark.parametrize(
    "text", ["", "no tree\n", "├──────┤\n└──────┘\n", "| a | b |\n|---|---|\n", "+----+\n| x  |\n"]
)
def test_text_without_a_tree(text: str) -> None:
    with pytest.raises(DumpSyntaxError, match="expected a drawn call tree"):
        parse_call_trees(text)


def test_depth_has_no_limit() -> None:
    deep = only("\n".join(f"{' ' * n}└─f, a.py:1" for n in range(6_000)))
    assert max(deep.depths) == 5_999
    assert deep.totals[0] == 6_000


def test_scanner_is_grammar_on_the_sample() -> None:
    source = clean((SAMPLES / "logs" / "traced_dtensor.txt").read_text("utf-8"))
    assert parse_call_trees(source, reader="grammar") == parse_call_trees(source)


@pytest.mark.skipif(not SEEDS, reason="the documents of the corpus are not beside this checkout")
def test_scanner_is_grammar_on_a_real_trace() -> None:
    source = clean(SEEDS[0].read_text("utf-8"))
    found = parse_call_trees(source)
    assert parse_call_trees(source, reader="grammar") == found
    (tree,) = found.trees
    assert (len(tree), len(tree.frames), found.gaps, found.passed_over) == (9363, 254, (), ())
    assert not tree.is_cut
    assert not tree.missing_calls


LABELS = st.sampled_from(
    [
        "f, a.py:1",
        "g  x3",
        "h (b.py:2) x2",
        "0.5 f  c/d.py:9",
        "a.py:3(f)",
        "a.py(3): f x2",
        "/w/a.py:3 f",
        "/w/a.py:3: f (2 calls)",
        'File "/w/a b.py", line 3, in f [x4]',
        "forward",
        "f at g at a.py:7",
        "f, g, h.py:1, k",
        "(a)",
        "x:y:12",
        "1.5",
        "<listcomp>, <string>:1",
        "a.py:4",
        "f(a.py:3) (b)",
    ]
)
WORDS = st.text(alphabet='abf.,:()[]/\\ x19@"', min_size=1, max_size=24).map(
    lambda text: f"w{text}"
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), LABELS | WORDS), min_size=1, max_size=8))
def test_scanner_is_grammar_on_generated_trees(rows: list[tuple[int, str]]) -> None:
    nodes: list[tuple[int, str]] = []
    for depth, label in rows:
        nodes.append((min(depth, nodes[-1][0] + 1) if nodes else 0, label))
    source = clean(drawn(nodes))
    scanned = parse_call_trees(source)
    assert parse_call_trees(source, reader="grammar") == scanned
    assert [d for tree in scanned.trees for d in tree.depths] == [d for d, _ in nodes]


def test_damaged_texts_give_a_result_or_an_error_of_ours() -> None:
    chance = random.Random(7)
    base = f"noise\n{TRACE}more: noise\nmain, a.py:1\n+-- f\n|   `-- g (b.py:2)\n{TRACE}"
    signs = "├└│─ |+`\\-:,()x19\n\r\t\x00\x1b[\xa0\ufeff"
    for number in range(500):
        text = list(base)
        for _ in range(chance.randint(1, 25)):
            at = chance.randrange(len(text))
            text[at : at + chance.randint(0, 6)] = chance.choices(signs, k=chance.randint(0, 4))
        damaged = "".join(text)
        try:
            found = parse_call_trees(damaged)
        except HloLensError:
            continue
        for tree in found.trees:
            assert all(parent < node for node, parent in enumerate(tree.parents))
            assert sum(tree.own) == sum(tree.totals[root] for root in tree.roots)
        lines = [line for tree in found.trees for line in tree.lines]
        assert lines == sorted(lines)
        if not number % 10:
            source = clean(damaged)
            assert parse_call_trees(source, reader="grammar") == parse_call_trees(source), damaged


TABLE = """\
Global
  FORWARD PASS
    *c10d_functional.all_reduce: 3
    *c10d_functional.all_gather_into_tensor: 1
    Model
    *module type: <class 'm.Model'>
    *Parameter List
     *weight: (Shard(dim=0),)
      FORWARD PASS
        *c10d_functional.all_reduce: 3
        **aten.addmm.default
          shape: [torch.Size([8, 10])]
          sharding: [(Shard(dim=0),)]
          device mesh: DeviceMesh([0, 1])
      BACKWARD PASS
        *c10d_functional.all_reduce: 2
        Model.net1
        Model.net2
          FORWARD PASS
            *c10d_functional.all_reduce: 2
            **aten.addmm.default
            **aten.relu.default
"""


def test_table_of_comm_debug_mode_counts_each_collective_in_its_innermost_module() -> None:
    found = parse_call_trees(f"run\n{TABLE}\x1b[0mdone\n")
    (tree,) = found.trees
    assert found.passed_over == ((1, 1), (24, 1))
    own = {
        tuple(tree.frame(at).function for at in tree.stack(node)): tree.own[node]
        for node in range(len(tree))
    }
    reduce = "c10d_functional.all_reduce"
    assert own["Global", "Global (forward)", reduce] == 0
    assert own["Global", "Model", "Model (forward)", reduce] == 1
    assert own["Global", "Model", "Model (backward)", reduce] == 2
    assert own["Global", "Model", "Model.net2", "Model.net2 (forward)", reduce] == 2
    assert own["Global", "Global (forward)", "c10d_functional.all_gather_into_tensor"] == 1
    assert tree.total == 3 + 2 + 1 + 3
    assert tree.lines[0] == 2


def test_table_rows_are_those_of_the_grammar() -> None:
    tree = build_parser("comm_debug", start="comm_debug").parse(TABLE)
    rows = [(token.type, str(token).strip()) for token in tree.scan_values(lambda _: True)]
    assert [(row.kind, row.text) for row in table_rows(TABLE, 0)] == rows
    assert len(rows) == 22
