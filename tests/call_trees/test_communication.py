"""Calls of a trace that communicate, and their callers."""

from __future__ import annotations

import re

import pytest

from hlo_lens.call_trees.facts import (
    COLLECTIVE,
    REDISTRIBUTION,
    communication_kind,
    communication_paths,
)
from hlo_lens.call_trees.tree import CallFrame, parse_call_trees
from tests.call_trees.trees import tree_of
from tests.corpus import SAMPLES, SHARED

SEEDS = sorted((SHARED / "seeds").glob("001_*")) if SHARED.is_dir() else []


@pytest.mark.parametrize(
    ("function", "file", "kind"),
    [
        ("all_reduce", "a.py", COLLECTIVE),
        ("mesh_scatter", "a.py", COLLECTIVE),
        ("mesh_all_gather", None, COLLECTIVE),
        ("_allgather_base_", "a.py", COLLECTIVE),
        ("all_gather_into_tensor_coalesced", "a.py", COLLECTIVE),
        ("c10d_functional.all_reduce.default", None, COLLECTIVE),
        ("ncclAllReduce", "a.cc", COLLECTIVE),
        ("psum_scatter", "a.py", COLLECTIVE),
        ("broadcast", "/torch/distributed/distributed_c10d.py", COLLECTIVE),
        ("isend", "/torch/distributed/distributed_c10d.py", COLLECTIVE),
        ("broadcast", "/numpy/lib/stride_tricks.py", None),
        ("reduce", "functools.py", None),
        ("send", "/http/client.py", None),
        ("gather", "asyncio/tasks.py", None),
        ("reduce", "/compiler/passes.py", None),
        ("redistribute_local_args", "dispatch.py", REDISTRIBUTION),
        ("Redistribute.apply", "a.py", REDISTRIBUTION),
        ("forward", "/t/redistribute.py", REDISTRIBUTION),
        ("forward", "/t/linear.py", None),
        ("_reshard_to_replicate_with_pad_one_dim", "a.py", REDISTRIBUTION),
        ("distribute_tensor", "api.py", REDISTRIBUTION),
        ("redistribute_cost", "_collective_utils.py", None),
        ("generate_redistribute_costs", "utils.py", None),
        ("infer_broadcast_dims_map", "utils.py", None),
        ("map_placements_after_broadcast", "utils.py", None),
        ("all_reduce_strategy", "a.py", None),
        ("defer_resharding", "a.py", None),
        ("_enable_autoresharding", "a.py", None),
        ("spec_to_bytes", "_collective_utils.py", None),
    ],
)
def test_kind_of_a_function(function: str, file: str | None, kind: str | None) -> None:
    assert communication_kind(CallFrame(function=function, file=file, line=1)) == kind


def test_sample_has_caller_and_model_line_of_its_reductions() -> None:
    text = (SAMPLES / "logs" / "traced_dtensor.txt").read_bytes()
    (tree,) = parse_call_trees(text).trees
    found = communication_paths(tree)
    assert found.collectives == {
        "mesh_all_reduce": 4,
        "mesh_broadcast": 4,
        "mesh_scatter": 4,
    }
    (adding,) = [one for one in found.found if "mesh_all_reduce" in one.leads_to]
    assert (adding.calls, adding.idle, adding.leads_to) == (4, 0, "mesh_all_reduce x4")
    assert str(adding.caller).startswith("add, api.py:")
    assert str(adding.model).startswith("forward, train.py:")
    assert adding.path == ("forward > add > operator_dispatch > redistribute_local_args")


def test_collective_inside_another_is_part_of_it() -> None:
    tree = tree_of("""
main, /w/m.py:1
  all_reduce, /lib/c.py:1
    all_reduce_coalesced, /lib/c.py:9
""")
    found = communication_paths(tree)
    assert found.totals() == {"calls": 1, "idle": 0, "collectives": 1}
    assert sum(found.collectives.values()) == 2


@pytest.mark.skipif(not SEEDS, reason="the documents of the corpus are not beside this checkout")
def test_real_trace_has_the_counts_of_its_lines() -> None:
    text = SEEDS[0].read_text("utf-8")
    (tree,) = parse_call_trees(text).trees
    found = communication_paths(tree)
    for name, count in found.collectives.items():
        assert count == len(re.findall(rf"─ {name}, .*", text))
    collectives = len(re.findall(r"─ mesh_\w+, ", text))
    assert found.totals()["collectives"] == collectives == 37
