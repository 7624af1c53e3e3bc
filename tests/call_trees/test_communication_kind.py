"""Kind of communication of a function."""

from __future__ import annotations

import pytest

from hlo_lens.call_trees.call_tree import CallFrame
from hlo_lens.call_trees.communication_kind import COLLECTIVE, REDISTRIBUTION, communication_kind


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
