"""The handbook's examples on JAX have the outputs shown, in each version of jax."""

from __future__ import annotations

import doctest

from tests.corpus import WRITE
from tests.docs.documents import MANUAL, examples, failures, rewrite_examples
from tests.load.jax import programs  # which skips where there is no jax

JAX = MANUAL / "jax.md"


def test_examples_on_jax_print_what_they_show() -> None:
    programs.mesh()
    assert len(examples(JAX).examples) > 10
    if WRITE:
        rewrite_examples(JAX)
    assert failures(JAX, optionflags=doctest.ELLIPSIS) == []
