"""A small training step divided by JAX, and edits of it as people make them.

Mesh ('data', 'model') = (4, 2), an embedding, layers in a scan with rematerialisation, a momentum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from programs.common import Program, abstract, device_mesh

if TYPE_CHECKING:
    from collections.abc import Sequence

STEP_EDITS = {
    "step": "nothing",
    "moved_lines": "other names of functions and files, other lines",
    "renamed_weight": "the weight 'up' is called 'a_in'",
    "replicated_weight": "the weight 'up' is called 'a_in' and is replicated",
    "other_mesh": "the mesh is (2, 4)",
    "larger_batch": "a batch of 128, which was 64",
    "longer_sequence": "sequences of 64, which were 32",
    "larger_vocabulary": "a vocabulary of 2048, which was 1024",
    "more_layers": "six layers, which were four",
    "no_remat": "layers are not computed again",
    "other_policy": "results of products are saved",
    "microbatches": "gradients of four microbatches are added in a loop",
    "unrolled": "layers are not in a loop",
    "bf16_logits": "logits are bf16",
    "bf16_weights": "weights and momenta are bf16",
    "bf16_momentum": "momenta are bf16",
    "f32_layers": "layers compute in f32",
    "no_constraint": "the result of the embedding is replicated",
    "added_norm": "each layer normalises its input",
    "undonated": "the state is not donated",
    "update_apart": "the update of the weights is a jit of its own",
    "added_constraint": "the hidden values of layers are not divided over 'model'",
    "other_flags": "nothing; `make.py` compiles it without a pass",
}
"""Name of each edit, and what it does to the base ``step``."""

LAYERS, MICROBATCHES = 4, 4
WIDTH = 128
HIDDEN = 512
RATE = 1e-2

State: TypeAlias = "tuple[dict[str, jax.Array], dict[str, jax.Array]]"


def shard(x: jax.Array, *spec: str | None) -> jax.Array:
    """Returns a value with a sharding constraint."""
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*spec))


def layer(edit: str, x: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """Returns the result of one layer."""
    dtype = jnp.float32 if edit == "f32_layers" else jnp.bfloat16
    h = x
    if edit == "added_norm":
        h = h * jax.lax.rsqrt(jnp.mean(jnp.square(h), -1, keepdims=True) + 1)
    h = hidden(edit, jnp.tanh(h.astype(dtype) @ up.astype(dtype)))
    return x + (h @ down.astype(dtype)).astype(x.dtype)


def block(edit: str, x: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """Returns the result of one layer, on other lines and from a function of another name.

    It is what the base computes, so that only names and places differ: a comparison finds no
    change.
    """
    hidden = jnp.tanh(x.astype(jnp.bfloat16) @ up.astype(jnp.bfloat16))

    return x + (hidden @ down.astype(jnp.bfloat16)).astype(x.dtype)


def loss_of(edit: str, params: dict[str, jax.Array], tokens: jax.Array) -> jax.Array:
    """Returns the loss of a batch."""
    function = block if edit == "moved_lines" else layer
    up_name = next(name for name in params if name in ("up", "a_in"))

    def body(x: jax.Array, weights: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        return function(edit, x, *weights), None

    policy = jax.checkpoint_policies.dots_saveable if edit == "other_policy" else None
    inner = body if edit == "no_remat" else jax.checkpoint(body, policy=policy)
    x = params["embedding"].astype(jnp.bfloat16)[tokens]
    x = shard(x, None if edit == "no_constraint" else "data", None, None)
    weights = params[up_name], params["down"]
    x, _ = jax.lax.scan(inner, x, weights, unroll=edit == "unrolled")
    logits = x @ params["embedding"].T.astype(jnp.bfloat16)
    logits = logits if edit == "bf16_logits" else logits.astype(jnp.float32)
    return jnp.mean(jax.nn.logsumexp(logits, -1))


def updated(state: State, gradients: dict[str, jax.Array]) -> State:
    """Returns weights and momenta after a step."""
    params, momenta = state
    momenta = jax.tree.map(lambda m, g: (0.9 * m + g).astype(m.dtype), momenta, gradients)
    return jax.tree.map(lambda p, m: (p - RATE * m).astype(p.dtype), params, momenta), momenta


def gradients_of(
    edit: str, params: dict[str, jax.Array], tokens: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns loss and gradients of a batch, or of its parts in a loop."""
    gradient = jax.value_and_grad(lambda p, t: loss_of(edit, p, t))
    if edit != "microbatches":
        return gradient(params, tokens)
    parts = tokens.reshape(MICROBATCHES, -1, tokens.shape[-1])
    zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)

    def add(sums: object, part: jax.Array) -> tuple[object, None]:
        return jax.tree.map(jnp.add, sums, gradient(params, part)), None

    (loss, gradients), _ = jax.lax.scan(add, zeros, parts)
    return jax.tree.map(lambda x: x / MICROBATCHES, (loss, gradients))


def build(devices: Sequence[jax.Device], backend: str, edit: str = "step") -> Program:
    """Returns the step for eight devices with one of `STEP_EDITS`."""
    del backend
    sizes = {"data": 2, "model": 4} if edit == "other_mesh" else {"data": 4, "model": 2}
    mesh = device_mesh(devices, **sizes)
    layers = 6 if edit == "more_layers" else LAYERS
    vocabulary = 2048 if edit == "larger_vocabulary" else 1024
    up = "a_in" if edit in ("renamed_weight", "replicated_weight") else "up"
    dtype = jnp.bfloat16 if edit == "bf16_weights" else jnp.float32
    of_up = () if edit == "replicated_weight" else (None, "data", "model")
    arrays = {
        "embedding": ((vocabulary, WIDTH), ("model", "data")),
        up: ((layers, WIDTH, HIDDEN), of_up),
        "down": ((layers, HIDDEN, WIDTH), (None, "model", "data")),
    }
    params = {name: abstract(mesh, shape, dtype, *spec) for name, (shape, spec) in arrays.items()}
    state = jnp.bfloat16 if edit == "bf16_momentum" else dtype
    momenta = {name: abstract(mesh, shape, state, *spec) for name, (shape, spec) in arrays.items()}
    batch = 128 if edit == "larger_batch" else 64
    length = 64 if edit == "longer_sequence" else 32
    tokens = abstract(mesh, (batch, length), jnp.int32, "data")
    out = jax.tree.map(lambda leaf: leaf.sharding, (params, momenta))
    loss = NamedSharding(mesh, PartitionSpec())

    def train_step(state: State, tokens: jax.Array) -> tuple[object, jax.Array]:
        value, gradients = gradients_of(edit, state[0], tokens)
        return (gradients if edit == "update_apart" else updated(state, gradients)), value

    donated = () if edit in ("undonated", "update_apart") else (0,)
    kept = out[0] if edit == "update_apart" else out
    jax.set_mesh(mesh)
    if edit == "update_apart":
        jax.jit(updated, donate_argnums=(0,), out_shardings=out).lower(
            (params, momenta), params
        ).compile()
    return Program(
        step=jax.jit(train_step, donate_argnums=donated, out_shardings=(kept, loss)),
        arguments=((params, momenta), tokens),
        mesh=mesh,
        planted={"edit": STEP_EDITS[edit]},
    )


def hidden(edit: str, h: jax.Array) -> jax.Array:
    """Returns the hidden values of a layer, with a sharding constraint in one of the edits."""
    return shard(h, "data", None, None) if edit == "added_constraint" else h
