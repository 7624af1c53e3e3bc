"""Tables of CommDebugMode of all versions and noise levels count each collective once."""

from __future__ import annotations

import pytest

from hlo_lens.call_trees.drawn_trees import parse_call_trees
from hlo_lens.text.content_kind import sniff
from hlo_lens.text.dump_kinds import DumpKind
from tests import corpus

COUNTS = """\
  Global
    FORWARD PASS
      *c10d_functional.all_reduce: 2
      Net
        FORWARD PASS
          *c10d_functional.all_reduce: 2
          Net.a
            FORWARD PASS
              *c10d_functional.all_reduce: 2
"""
OPERATORS = "".join(
    f"              **{name}\n"
    for name in (
        "aten.mm.default",
        "_c10d_functional.all_reduce.default",
        "_c10d_functional.wait_tensor.default",
        "_c10d_functional.all_reduce.default",
    )
)
OLD = """\
Global
*c10d_functional.all_reduce: 2
Net
    *c10d_functional.all_reduce: 2
    Net.a
    *c10d_functional.all_reduce: 1
    Net.b
    *c10d_functional.all_reduce: 1
"""
TABLES = {"counts": COUNTS, "counts and operators": COUNTS + OPERATORS, "PyTorch 2.4": OLD}


def collectives(text: str) -> int:
    (tree,) = parse_call_trees(text).trees
    names = [tree.frame(node).function for node in range(len(tree))]
    return sum(tree.own[k] for k, name in enumerate(names) if "all_reduce" in name)


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
def test_each_collective_is_counted_once(text: str) -> None:
    assert sniff(text) is DumpKind.CALL_TREE
    assert collectives(text) == 2
    assert parse_call_trees(text).gaps == ()


def test_operator_without_a_count_is_a_call() -> None:
    more = OPERATORS.replace("all_reduce", "all_gather_into_tensor")
    (tree,) = parse_call_trees(COUNTS + more).trees
    assert tree.total == 2 + 4


@corpus.needs_corpus
@pytest.mark.parametrize(("name", "count"), [("36", 1), ("37", 6), ("38", 1)])
def test_tables_of_the_corpus_have_the_counts_of_their_first_lines(name: str, count: int) -> None:
    paths = list((corpus.CORPUS / "texts" / "t").glob(f"{name}_commdebug*"))
    if not paths:
        pytest.skip("the corpus has no texts")
    assert collectives(paths[0].read_text("utf-8")) == count
