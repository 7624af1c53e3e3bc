"""A two-layer decoder-only transformer, fully sharded over eight devices, one Adam step.

Parameters are bf16, both Adam moments f32; each of these arrays is split over the one mesh axis
'fsdp'. The layers are a rematerialized `lax.scan`. In the scan the weights of one layer are
gathered, so the step all-gathers parameters in the forward and again in the backward loop, and
sums gradients by reduce-scatter (on CPU, XLA uses all-reduce). The whole state is donated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from programs.common import Program, abstract, device_mesh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.sharding import Mesh

LAYERS = 2
VOCAB = 512
D_MODEL = 256
HEADS = 4
HEAD_DIM = D_MODEL // HEADS
D_FF = 4 * D_MODEL
BATCH = 32
SEQUENCE = 512
LEARNING_RATE = 3e-4
BETA1, BETA2, EPSILON = 0.9, 0.95, 1e-8

Tree: TypeAlias = dict[str, jax.Array]
Leaf = TypeVar("Leaf")

LAYER_SHAPES: dict[str, tuple[int, ...]] = {
    "w_qkv": (D_MODEL, 3, HEADS, HEAD_DIM),
    "w_out": (D_MODEL, HEADS, HEAD_DIM),
    "w_up": (D_MODEL, D_FF),
    "w_down": (D_MODEL, D_FF),
}
SHARED_SHAPES: dict[str, tuple[int, ...]] = {"embedding": (VOCAB, D_MODEL)}


class State(NamedTuple, Generic[Leaf]):
    """What a step takes and gives back: weights, Adam's two moments and the number of steps."""

    params: dict[str, Leaf]
    m: dict[str, Leaf]
    v: dict[str, Leaf]
    steps: Leaf


def rms_norm(x: jax.Array) -> jax.Array:
    """Returns `x` scaled to unit root mean square over its last axis, computed in f32."""
    x32 = x.astype(jnp.float32)
    normal = x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, axis=-1, keepdims=True) + 1e-6)
    return normal.astype(x.dtype)


def attention(x: jax.Array, w_qkv: jax.Array, w_out: jax.Array) -> jax.Array:
    """Returns causal multi-head self-attention of `x`, of shape (batch, sequence, d_model)."""
    q, k, v = jnp.einsum("bsd,dthk->tbhsk", x, w_qkv)
    scores = jnp.einsum("bhsk,bhtk->bhst", q, k).astype(jnp.float32) * HEAD_DIM**-0.5
    causal = jnp.tril(jnp.ones((SEQUENCE, SEQUENCE), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e30)).astype(x.dtype)
    mixed = jnp.einsum("bhst,bhtk->bshk", weights, v)
    return jnp.einsum("bshk,dhk->bsd", mixed, w_out)


def make_loss(mesh: Mesh) -> Callable[[Tree, jax.Array], jax.Array]:
    """Returns the loss function, with activations kept split by batch over `mesh`."""
    by_batch = NamedSharding(mesh, PartitionSpec("fsdp"))
    whole = NamedSharding(mesh, PartitionSpec())

    def gather(weight: jax.Array) -> jax.Array:
        return jax.lax.with_sharding_constraint(weight, whole)

    def layer(x: jax.Array, split: Tree) -> tuple[jax.Array, None]:
        p = {name: gather(weight) for name, weight in split.items()}
        x = x + attention(rms_norm(x), p["w_qkv"], p["w_out"])
        hidden = jax.nn.relu(jnp.einsum("bsd,df->bsf", rms_norm(x), p["w_up"]))
        x = x + jnp.einsum("bsf,df->bsd", hidden, p["w_down"])
        return jax.lax.with_sharding_constraint(x, by_batch), None

    def loss(params: Tree, tokens: jax.Array) -> jax.Array:
        embedding = gather(params["embedding"])
        x = jax.lax.with_sharding_constraint(embedding[tokens[:, :-1]], by_batch)
        stacked = {name: params[name] for name in LAYER_SHAPES}
        x, _ = jax.lax.scan(jax.checkpoint(layer), x, stacked)
        x = rms_norm(x)
        logits = jnp.einsum("bsd,vd->bsv", x, embedding).astype(jnp.float32)
        wanted = jnp.sum(logits * jax.nn.one_hot(tokens[:, 1:], VOCAB), axis=-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - wanted)

    return loss


def adam(state: State[jax.Array], grads: Tree) -> State[jax.Array]:
    """Returns the state after one Adam step, computed in f32 and rounded to bf16 at the end."""
    steps = state.steps + 1
    t = steps.astype(jnp.float32)
    rate = LEARNING_RATE * jnp.sqrt(1 - BETA2**t) / (1 - BETA1**t)
    params, m, v = {}, {}, {}
    for name, grad in grads.items():
        g = grad.astype(jnp.float32)
        m[name] = BETA1 * state.m[name] + (1 - BETA1) * g
        v[name] = BETA2 * state.v[name] + (1 - BETA2) * g * g
        change = rate * m[name] / (jnp.sqrt(v[name]) + EPSILON)
        params[name] = (state.params[name].astype(jnp.float32) - change).astype(jnp.bfloat16)
    return State(params, m, v, steps)


def build(devices: Sequence[jax.Device], backend: str) -> Program:
    """Returns the program for eight devices; it is the same on every backend."""
    del backend
    mesh = device_mesh(devices, fsdp=8)
    loss = make_loss(mesh)

    def train_step(
        state: State[jax.Array], tokens: jax.Array
    ) -> tuple[State[jax.Array], jax.Array]:
        value, grads = jax.value_and_grad(loss)(state.params, tokens)
        return adam(state, grads), value

    def weights(dtype: type) -> dict[str, jax.ShapeDtypeStruct]:
        stacked = {
            name: abstract(mesh, (LAYERS, *shape), dtype, None, "fsdp")
            for name, shape in LAYER_SHAPES.items()
        }
        shared = {
            name: abstract(mesh, shape, dtype, "fsdp") for name, shape in SHARED_SHAPES.items()
        }
        return stacked | shared

    state = State(
        params=weights(jnp.bfloat16),
        m=weights(jnp.float32),
        v=weights(jnp.float32),
        steps=abstract(mesh, (), jnp.int32),
    )
    tokens = abstract(mesh, (BATCH, SEQUENCE + 1), jnp.int32, "fsdp")
    shardings = jax.tree_util.tree_map(lambda array: array.sharding, state)
    step = jax.jit(train_step, donate_argnums=0, out_shardings=(shardings, state.steps.sharding))
    return Program(
        step=step,
        arguments=(state, tokens),
        mesh=mesh,
        planted={
            "loops": [
                {"what": "scan over layers, forward", "trip_count": LAYERS},
                {"what": "scan over layers, backward with recomputation", "trip_count": LAYERS},
            ],
            "parameters": sum(array.size for array in jax.tree_util.tree_leaves(state.params)),
            "whole_state_donated": True,
        },
    )
