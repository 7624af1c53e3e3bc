"""Assertions on compiled programs, for pytest and for anything that raises AssertionError.

Each takes what `hlo_lens.modules_of` takes: a path, a dump, a module, HLO text, or a compiled
program of jax. An assertion about something that is not known fails and says what is missing.
`capture` has the programs that jax compiles while a block runs.

>>> from hlo_lens.testing import assert_collectives, assert_memory_below
>>> assert_collectives("sample_dumps/tpu/tp_mlp", {"all-reduce": 2}, axis="model")
>>> assert_memory_below("sample_dumps/tpu/tp_mlp", "160MiB", space="HBM")
"""

from __future__ import annotations

from hlo_lens.testing.assertions import (
    assert_collectives as assert_collectives,
    assert_donated as assert_donated,
    assert_fits as assert_fits,
    assert_memory_below as assert_memory_below,
    assert_no_collectives as assert_no_collectives,
    assert_no_findings as assert_no_findings,
    assert_same_program as assert_same_program,
    assert_sharded as assert_sharded,
)
