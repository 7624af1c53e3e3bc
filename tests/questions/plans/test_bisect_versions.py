"""Search between two versions of jax that the user's cache has, compiled for CPU."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.questions.what_if.environments import cached_versions, version_key
from tests.corpus import SAMPLES


def test_program_of_a_sample_is_compiled_with_two_versions() -> None:
    known = [one for one in cached_versions("jax", "cpu") if version_key(one) >= (0, 5)]
    if len(known) < 2:
        pytest.skip("the cache has no two environments: hlo-lens what-if DIR --with 'jax==0.9.2'")
    found = hlo_lens.bisect(
        SAMPLES / "cpu/tp_mlp",
        good=f"jax=={known[0]}",
        bad=f"jax=={known[-1]}",
        fail_on="memory.total_bytes>1PiB",
    ).bisection
    assert [step.outcome for step in found.steps] == ["good", "good"]
    assert [step.versions["jax"] for step in found.steps] == [known[0], known[-1]]
    assert "is good, not bad" in found.problem
