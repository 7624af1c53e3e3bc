"""Small steps with one planted waste each, and their clean twins.

Mesh ('data', 'model') = (4, 2). The step has two residual blocks of attention and MLP; what is
planted is in `PLANTS`. A comment `# planted: NAME` marks the line that a finding should name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from programs.common import Program, abstract, device_mesh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.sharding import Mesh

BATCH, LENGTH, WIDTH, HIDDEN, WORDS, LAYERS = 16, 64, 128, 512, 256, 2
HEADS = 4

PLANTS = {
    "embedding": "the sharding of the table takes 'data' from the batch of what is looked up",
    "embedding_clean": "the same with a constraint after the lookup",
    "constraint": "a constraint left from debugging makes the input whole on every device",
    "constraint_clean": "the same constraint over 'data'",
    "merged": "a reshape merges the batch, which 'data' divides, as the minor dimension",
    "specs": "the specs of shard_map leave 'data' out",
    "specs_clean": "the specs name 'data'",
    "undivided": "in_shardings leave the batch whole",
    "megatron_clean": "'model' divides weights alone, activations are whole along it by design",
    "rolled_clean": "the batch is rolled along 'data' and stays divided",
}
"""Name of each program, and what is planted in it; ``_clean`` for nothing."""

Params: TypeAlias = dict[str, jax.Array]


def blocks(params: Params, x: jax.Array) -> jax.Array:
    """Returns the result of the residual blocks."""
    for number in range(LAYERS):
        q = (x @ params[f"q{number}"]).reshape(*x.shape[:-1], -1, WIDTH // HEADS)
        scores = jax.nn.softmax(jnp.einsum("...shd,...thd->...hst", q, q), axis=-1)
        mixed = jnp.einsum("...hst,...thd->...shd", scores, q)
        x = x + mixed.reshape(*x.shape[:-1], -1) @ params[f"o{number}"]
        x = x + jax.nn.gelu(x @ params[f"up{number}"]) @ params[f"down{number}"]
    return x


def forward(plant: str, mesh: Mesh, params: Params, x: jax.Array) -> jax.Array:
    """Returns the result of a step, with what is planted."""
    name = plant.removesuffix("_clean")
    divided = NamedSharding(mesh, PartitionSpec("data"))
    if name == "embedding":
        x = jnp.take(params["table"], x, axis=0)  # planted: embedding
        if plant == "embedding_clean":
            x = jax.lax.with_sharding_constraint(x, divided)
    elif name == "constraint":
        whole = divided if plant == "constraint_clean" else NamedSharding(mesh, PartitionSpec())
        x = jax.lax.with_sharding_constraint(x * 2, whole)  # planted: constraint
    elif name == "merged":
        x = x.swapaxes(0, 1).reshape(-1, 32, WIDTH)  # planted: merged
    elif name == "rolled":
        x = jnp.roll(x, 1, axis=0)
    if name != "specs":
        return blocks(params, x)
    spec = PartitionSpec(("data", "model") if plant == "specs_clean" else "model")
    mapped = jax.shard_map(blocks, mesh=mesh, in_specs=(PartitionSpec(), spec), out_specs=spec)
    return mapped(params, x)  # planted: specs


def build(devices: Sequence[jax.Device], backend: str, edit: str) -> Program:
    """Returns a training step.

    Args:
        devices: Eight devices.
        backend: Not used: all compile the same step.
        edit: A key of `PLANTS`.
    """
    del backend
    mesh = device_mesh(devices, data=4, model=2)
    weights: dict[str, tuple[object, ...]] = {
        "embedding": ("data", "model"),
        "embedding_clean": ("data", "model"),
        "undivided": ("data", "model"),
        "megatron_clean": (None, "model"),
        "specs": (),
        "specs_clean": (),
    }
    spec = weights.get(edit, (None, "model"))
    f32 = jnp.float32
    params = {}
    for number in range(LAYERS):
        for into, out_of, hidden in (("q", "o", WIDTH), ("up", "down", HIDDEN)):
            params[f"{into}{number}"] = abstract(mesh, (WIDTH, hidden), f32, *spec)
            params[f"{out_of}{number}"] = abstract(mesh, (hidden, WIDTH), f32, *spec[::-1])
    if edit.startswith("embedding"):
        params["table"] = abstract(mesh, (WORDS, WIDTH), f32, "model", "data")
        batch = abstract(mesh, (BATCH, LENGTH), jnp.int32, "data")
    else:
        divided = {"undivided": (), "merged": ("data", None)}
        batch = abstract(mesh, (BATCH, LENGTH, WIDTH), f32, *divided.get(edit, ("data",)))

    def train_step(params: Params, batch: jax.Array) -> tuple[Params, jax.Array]:
        def loss_of(params: Params) -> jax.Array:
            return jnp.mean(forward(edit, mesh, params, batch) ** 2)

        loss, gradients = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), loss

    step: Callable[..., object] = train_step
    return Program(
        step=jax.jit(step, donate_argnums=0),
        arguments=(params, batch),
        mesh=mesh,
        planted={"planted": PLANTS[edit]},
    )
