"""A small tensor-parallel step, and six edits of it that each change one thing that matters.

Mesh ('data', 'model') = (2, 4), `shard_map` over both axes, one `lax.scan` over the layers, bf16.
Weights are split by rows over 'model', so each layer sums its product over 'model'; the scale of
the input is summed over 'data' once, before the loop. What each layer gives is kept for the loss,
so it lies in a stacked buffer, too large for the VMEM of a TPU.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from programs.common import Program, abstract, device_mesh

if TYPE_CHECKING:
    from collections.abc import Sequence

D_MODEL = 2048
BATCH = 65536
LAYERS = 2
RATE = 1e-3

EDITS = {
    "base": "nothing",
    "added_all_gather": "the result of the last layer is gathered over 'data'",
    "lost_donation": "the parameters are not donated",
    "doubled_buffer": "each layer keeps an array of twice the width",
    "moved_collective": "the scale is summed over 'data' in each layer, not once before the loop",
    "f32_upcast": "layers compute, sum and keep in f32",
    "four_layers": "four layers, where the base has two",
}
"""Name of each edit, and what it does to the base."""

Params: TypeAlias = dict[str, jax.Array]


def scale_of(h: jax.Array) -> jax.Array:
    """Returns a scale for an array that is divided over 'data'."""
    with jax.named_scope("scale"):
        return jax.lax.rsqrt(jax.lax.psum(jnp.max(h).astype(jnp.float32), "data"))


def local_step(edit: str, params: Params, x: jax.Array) -> tuple[Params, jax.Array]:
    """Returns updated parameters and a loss, on one device's part of everything."""
    if edit == "f32_upcast":
        x = x.astype(jnp.float32)
    once = scale_of(x)

    def layer(h: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        scale = scale_of(h) if edit == "moved_collective" else once
        with jax.named_scope("project"):
            # What is computed does not matter: every device takes the first columns.
            product = jnp.dot(h[:, : w.shape[0]], w.astype(h.dtype))
            h = jnp.tanh(jax.lax.psum(product, "model") * scale.astype(h.dtype))
        with jax.named_scope("keep"):
            kept = jnp.concatenate([h, jnp.sin(h)], -1) if edit == "doubled_buffer" else h
        return h, kept

    out, kept = jax.lax.scan(layer, x, params["w"])
    if edit == "added_all_gather":
        with jax.named_scope("gathered"):
            out = jax.lax.all_gather(out, "data", tiled=True)
    with jax.named_scope("loss"):
        loss = jax.lax.psum(jnp.max(kept) + jnp.max(out), ("data", "model"))
    updated = {"w": params["w"] * (RATE * loss).astype(jnp.bfloat16)}
    return updated, loss


def build(devices: Sequence[jax.Device], backend: str, edit: str = "base") -> Program:
    """Returns the program for eight devices with one of `EDITS`; it is the same everywhere."""
    del backend
    mesh = device_mesh(devices, data=2, model=4)
    layers = 4 if edit == "four_layers" else LAYERS
    weights, batch = PartitionSpec(None, "model", None), PartitionSpec("data", None)
    shape = (layers, D_MODEL, D_MODEL)
    params = {"w": abstract(mesh, shape, jnp.bfloat16, None, "model")}
    x = abstract(mesh, (BATCH, D_MODEL), jnp.bfloat16, "data")

    def train_step(params: Params, x: jax.Array) -> tuple[Params, jax.Array]:
        step = functools.partial(local_step, edit)
        specs = ({"w": weights}, batch), ({"w": weights}, PartitionSpec())
        return jax.shard_map(
            step, mesh=mesh, in_specs=specs[0], out_specs=specs[1], check_vma=False
        )(params, x)

    donated = () if edit == "lost_donation" else (0,)
    return Program(
        step=jax.jit(train_step, donate_argnums=donated),
        arguments=(params, x),
        mesh=mesh,
        planted={"edit": EDITS[edit]},
    )
