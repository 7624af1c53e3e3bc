"""A step that wastes memory and communication on purpose, one defect per `jax.named_scope`.

The mesh is ('data', 'model') = (2, 4). `planted["defects"]` lists what is wrong. XLA repairs some
defects (it combines the independent tiny all-reduces, for example), so a planted defect need not
be visible in the optimized module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from programs.common import Program, abstract, device_mesh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.sharding import Mesh

VOCAB = 8192
D_MODEL = 512
D_FF = 2048
TOKENS = 1024
GATHER_TRIPS = 7
TINY_TRIPS = 16
TINY_CHAIN = 4
TINY_INDEPENDENT = 12
LEARNING_RATE = 1e-3

Tree: TypeAlias = dict[str, jax.Array]

TABLE = np.random.default_rng(0).standard_normal((D_MODEL, D_MODEL), dtype=np.float32)
"""Baked into the program as a constant of 1 MiB instead of being an argument."""


def loss(params: Tree, h: jax.Array) -> jax.Array:
    """Returns a loss whose gradients are bf16, like the weights."""
    with jax.named_scope("baked_constant"):
        h = h @ jnp.asarray(TABLE).astype(h.dtype)
    hidden = jax.nn.relu(h @ params["w_up"])
    return jnp.mean((hidden @ params["w_down"]).astype(jnp.float32) ** 2)


def gradients(params: Tree, h: jax.Array) -> tuple[Tree, jax.Array]:
    """Returns gradients summed over 'data' in f32 although they are bf16, and the loss."""
    value, grads = jax.value_and_grad(loss)(params, h)
    with jax.named_scope("f32_gradient_psum"):
        return {name: lax.psum(g.astype(jnp.float32), "data") for name, g in grads.items()}, value


def gather_in_loop(h: jax.Array, w_mix: jax.Array) -> jax.Array:
    """Returns `h` mixed seven times by the same weight, gathered anew in every trip."""

    def body(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        with jax.named_scope("invariant_all_gather"):
            whole = lax.all_gather(w_mix, "model", tiled=True)
        return jnp.tanh(carry @ whole), None

    h, _ = lax.scan(body, h, length=GATHER_TRIPS)
    return h


def tiny_sums(h: jax.Array) -> jax.Array:
    """Returns a scalar made by many all-reduces of a few bytes."""
    with jax.named_scope("tiny_independent_psums"):
        rows = h[:TINY_INDEPENDENT, :8].astype(jnp.float32)
        sums = [lax.psum(row * (place + 1), "model") for place, row in enumerate(rows)]

    def body(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        with jax.named_scope("tiny_chained_psums"):
            for _link in range(TINY_CHAIN):
                carry = jnp.sin(lax.psum(carry, "model"))
        return carry, None

    total, _ = lax.scan(body, jnp.sum(jnp.stack(sums)), length=TINY_TRIPS)
    return total


def make_step(mesh: Mesh) -> Callable[..., tuple[Tree, jax.Array, jax.Array, jax.Array]]:
    """Returns the step; only its argument `scratch` is meant to be donated."""
    spec = PartitionSpec

    def per_device(
        params: Tree, w_mix: jax.Array, h: jax.Array
    ) -> tuple[Tree, jax.Array, jax.Array]:
        h = gather_in_loop(h, w_mix)
        grads, value = gradients(params, h)
        return grads, lax.pmean(value, "data"), tiny_sums(h)

    def wasteful_step(
        params: Tree, embedding: jax.Array, scratch: jax.Array, step: jax.Array, tokens: jax.Array
    ) -> tuple[Tree, jax.Array, jax.Array, jax.Array]:
        del step
        with jax.named_scope("replicated_embedding"):
            h = embedding[tokens].astype(jnp.bfloat16)
        weights = {name: params[name] for name in ("w_up", "w_down")}
        grads, value, total = jax.shard_map(
            per_device,
            mesh=mesh,
            in_specs=(spec(), spec("model"), spec("data")),
            out_specs=(spec(), spec(), spec()),
            check_vma=False,
        )(weights, params["w_mix"], h)
        updated = {
            name: (weights[name] - LEARNING_RATE * grad).astype(jnp.bfloat16)
            for name, grad in grads.items()
        }
        with jax.named_scope("transposed_copy"):
            transposed = embedding.T
        with jax.named_scope("unusable_donation"):
            shorter = scratch.astype(jnp.float32) * total
        return updated | {"loss": value}, transposed, shorter, total

    return wasteful_step


def build(devices: Sequence[jax.Device], backend: str) -> Program:
    """Returns the program for eight devices; it is the same on every backend."""
    del backend
    mesh = device_mesh(devices, data=2, model=4)
    params = {
        "w_mix": abstract(mesh, (D_MODEL, D_MODEL), jnp.bfloat16, "model"),
        "w_up": abstract(mesh, (D_MODEL, D_FF), jnp.bfloat16),
        "w_down": abstract(mesh, (D_FF, D_MODEL), jnp.bfloat16),
    }
    embedding = abstract(mesh, (VOCAB, D_MODEL), jnp.float32)
    scratch = abstract(mesh, (TOKENS, D_MODEL), jnp.bfloat16, "data")
    step = abstract(mesh, (), jnp.int32)
    tokens = abstract(mesh, (TOKENS,), jnp.int32, "data")
    return Program(
        step=jax.jit(make_step(mesh), donate_argnums=2),
        arguments=(params, embedding, scratch, step, tokens),
        mesh=mesh,
        planted={"loops": planted_loops(), "defects": planted_defects()},
    )


def planted_loops() -> list[dict[str, object]]:
    """Returns the trip counts."""
    return [
        {"what": "scan with the all-gather", "trip_count": GATHER_TRIPS},
        {"what": "scan with the tiny all-reduces", "trip_count": TINY_TRIPS},
    ]


def planted_defects() -> list[dict[str, object]]:
    """Returns one entry per defect; bytes are those of one device."""
    f32, bf16 = 4, 2
    return [
        {
            "kind": "lost donation",
            "inputs": ["params['w_down']", "params['w_up']"],
            "bytes": 2 * D_MODEL * D_FF * bf16,
        },
        {"kind": "unusable donation", "inputs": ["scratch"], "why": "bf16 in, f32 out"},
        {"kind": "unused argument", "inputs": ["step"]},
        {
            "kind": "replicated parameter",
            "inputs": ["embedding"],
            "bytes": VOCAB * D_MODEL * f32,
            "copies": 8,
        },
        {
            "kind": "f32 reduction of bf16 gradients",
            "scope": "f32_gradient_psum",
            "opcode": "all-reduce",
            "axes": ["data"],
            "bytes_f32": 2 * D_MODEL * D_FF * f32,
            "bytes_bf16": 2 * D_MODEL * D_FF * bf16,
        },
        {"kind": "large constant", "scope": "baked_constant", "bytes": TABLE.nbytes},
        {"kind": "transposed copy", "scope": "transposed_copy", "bytes": VOCAB * D_MODEL * f32},
        {
            "kind": "all-gather of a loop-invariant operand",
            "scope": "invariant_all_gather",
            "opcode": "all-gather",
            "axes": ["model"],
            "times_per_step": GATHER_TRIPS,
            "times_needed": 1,
            "result_bytes": D_MODEL * D_MODEL * bf16,
        },
        {
            "kind": "tiny all-reduces, independent",
            "scope": "tiny_independent_psums",
            "opcode": "all-reduce",
            "axes": ["model"],
            "times_per_step": TINY_INDEPENDENT,
            "bytes": 8 * f32,
        },
        {
            "kind": "tiny all-reduces, each needing the one before",
            "scope": "tiny_chained_psums",
            "opcode": "all-reduce",
            "axes": ["model"],
            "times_per_step": TINY_TRIPS * TINY_CHAIN,
            "bytes": f32,
        },
    ]
