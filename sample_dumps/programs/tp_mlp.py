"""A tensor-parallel residual MLP: `lax.scan` over four layers, one SGD step, donated parameters.

The mesh is ('data', 'model') = (2, 4). As in Megatron, `w_in` is split by columns and `w_out` by
rows over 'model', so each layer needs one all-reduce over 'model' forward and one backward; the
gradients are summed over 'data'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp

from programs.common import Program, abstract, device_mesh

if TYPE_CHECKING:
    from collections.abc import Sequence

LAYERS = 4
D_MODEL = 1024
D_FF = 4096
BATCH = 8192
LEARNING_RATE = 1e-3

Params: TypeAlias = dict[str, jax.Array]


def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    """Returns the mean squared error of the network's output."""

    def layer(h: jax.Array, p: Params) -> tuple[jax.Array, None]:
        hidden = jax.nn.relu(h @ p["w_in"] + p["b_in"])
        return h + hidden @ p["w_out"] + p["b_out"], None

    out, _ = jax.lax.scan(layer, x, params)
    return jnp.mean((out - y) ** 2)


def train_step(params: Params, x: jax.Array, y: jax.Array) -> tuple[Params, jax.Array]:
    """Returns the parameters after one SGD step, and the loss before it."""
    value, grads = jax.value_and_grad(loss)(params, x, y)
    updated = jax.tree_util.tree_map(lambda p, g: p - LEARNING_RATE * g, params, grads)
    return updated, value


def build(devices: Sequence[jax.Device], backend: str) -> Program:
    """Returns the program for eight devices; it is the same on every backend."""
    del backend
    mesh = device_mesh(devices, data=2, model=4)
    params = {
        "w_in": abstract(mesh, (LAYERS, D_MODEL, D_FF), jnp.float32, None, None, "model"),
        "b_in": abstract(mesh, (LAYERS, D_FF), jnp.float32, None, "model"),
        "w_out": abstract(mesh, (LAYERS, D_FF, D_MODEL), jnp.float32, None, "model"),
        "b_out": abstract(mesh, (LAYERS, D_MODEL), jnp.float32),
    }
    batch = abstract(mesh, (BATCH, D_MODEL), jnp.float32, "data")
    param_shardings = {name: array.sharding for name, array in params.items()}
    loss_sharding = abstract(mesh, (), jnp.float32).sharding
    step = jax.jit(train_step, donate_argnums=0, out_shardings=(param_shardings, loss_sharding))
    return Program(
        step=step,
        arguments=(params, batch, batch),
        mesh=mesh,
        planted={
            "loops": [
                {"what": "scan over layers, forward", "trip_count": LAYERS},
                {"what": "scan over layers, backward", "trip_count": LAYERS},
            ],
            "donated_and_reused": [f"params['{name}']" for name in sorted(params)],
        },
    )
