"""Captures: the compiles that they see, and that they restore jax."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import hlo_lens
from hlo_lens.testing import capture as module
from tests.load.jax import programs  # which skips where there is no jax

import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
from jax.sharding import NamedSharding  # isort: skip
from jax.sharding import PartitionSpec as P  # isort: skip


def compile_methods() -> list[Any]:
    return [owner.__dict__["compile"] for owner in module._owners()]


def fresh(name: str) -> Any:
    """Return a function that jit has not seen."""

    def function(x: Any) -> Any:
        return jnp.tanh(x) + 1

    function.__name__ = name
    return jax.jit(function)


def test_every_program_that_is_compiled_is_seen() -> None:
    x = jnp.ones(8)
    called, lowered = fresh("called"), fresh("lowered")
    with hlo_lens.capture() as c:
        called(x)
        lowered.lower(x).compile()
    assert [dump.name for dump in c.modules] == ["jit_called", "jit_lowered"]
    assert c.notes == []


def test_what_was_compiled_before_is_not_seen() -> None:
    x, known = jnp.ones(8), fresh("known")
    known(x)
    compiled_before = fresh("before").lower(x)
    compiled_before.compile()
    with hlo_lens.capture() as c:
        known(x)
        compiled_before.compile()
    assert list(c) == []
    assert "none" in repr(c)


def test_a_program_that_is_called_has_names_meshes_and_memory() -> None:
    mesh = programs.mesh()

    def step(state: Any, x: Any) -> Any:
        return {"w": state["w"] + (x @ state["w"]).sum()}

    sharding = NamedSharding(mesh, P(None, "model"))
    state = {"spare": jnp.ones(2), "w": jax.device_put(jnp.ones((64, 128)), sharding)}
    x = jax.device_put(jnp.ones((32, 64)), NamedSharding(mesh, P("data")))
    with hlo_lens.capture() as c:
        jax.jit(step, donate_argnums=0)(state, x)
    dump = next(dump for dump in c.modules if dump.name == "jit_step")
    assert dump.framework is not None
    arguments = [(v.name, v.number, v.is_donated) for v in dump.framework.arguments if v.is_used]
    assert arguments == [("state['w']", 0, True), ("x", 1, False)]
    assert [mesh.axis_names for mesh in dump.framework.meshes] == [("data", "model")]
    assert dump.framework.memory["argument_size_in_bytes"] > 0
    assert dump.before is not None
    assert c.collective_counts()["all-reduce"] >= 1
    assert "jit_step" in repr(c)


def test_jax_is_as_before_when_the_block_ends() -> None:
    before = compile_methods()
    with hlo_lens.capture():
        assert compile_methods() != before
    assert compile_methods() == before


def test_an_error_of_the_compiler_reaches_the_caller() -> None:
    with hlo_lens.capture() as c, pytest.raises(TypeError):
        jax.jit(lambda x: x + "text")(jnp.ones(2))
    assert [dump.name for dump in c.modules if "lambda" in dump.name] == []


def test_blocks_may_be_nested() -> None:
    x = jnp.ones(8)
    with hlo_lens.capture() as outer:
        fresh("first")(x)
        with hlo_lens.capture() as inner:
            fresh("second")(x)
        fresh("third")(x)
    assert [dump.name for dump in inner] == ["jit_second"]
    assert [dump.name for dump in outer] == ["jit_first", "jit_second", "jit_third"]


def run_in_thread(function: Any) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_block_sees_its_own_thread() -> None:
    x = jnp.ones(8)
    with hlo_lens.capture() as own:
        run_in_thread(lambda: fresh("elsewhere")(x))
        fresh("here")(x)
    assert [dump.name for dump in own] == ["jit_here"]


def test_blocks_of_two_threads_do_not_end_each_other() -> None:
    before = compile_methods()
    x = jnp.ones(8)
    inside, may_end = threading.Event(), threading.Event()

    def other() -> None:
        with hlo_lens.capture():
            inside.set()
            may_end.wait(20)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(20)
    with hlo_lens.capture() as c:
        may_end.set()
        thread.join()
        fresh("still")(x)
    assert [dump.name for dump in c] == ["jit_still"]
    assert compile_methods() == before


def test_an_unknown_version_of_jax_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PLACES", (("jax._src.interpreters.pxla", "NoSuchClass"),))
    with hlo_lens.capture() as c:
        fresh("called")(jnp.ones(8))
    assert c.modules == ()
    assert any("unknown place" in note for note in c.notes)
