"""A small sharded training step, as a user would write it, compiled from abstract arguments."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

import jax.numpy as jnp  # noqa: E402 # only where there is a jax
import numpy as np  # noqa: E402 # as above
from jax.sharding import (  # noqa: E402 # as above
    Mesh,
    NamedSharding,
    PartitionSpec as P,  # as jax's documentation calls it
)

BATCH, WIDTH, HIDDEN = 32, 64, 128


def mesh(*, reverse: bool = False) -> Any:
    """Return a mesh of all devices, data=4 x model=2."""
    devices = jax.devices()
    if len(devices) != 8:
        pytest.skip(f"{len(devices)} devices: jax was imported before the tests asked for eight")
    listed = devices[::-1] if reverse else devices
    return Mesh(np.array(listed).reshape(4, 2), ("data", "model"))


def abstract(where: Any, shape: tuple[int, ...], *spec: Any) -> Any:
    """Return an abstract array on a mesh."""
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(where, P(*spec)))


def arguments(where: Any) -> tuple[Any, Any]:
    """Return parameters and batch."""
    params = {
        "layer_0": {
            "kernel": abstract(where, (WIDTH, HIDDEN), None, "model"),
            "bias": abstract(where, (HIDDEN,), "model"),
        },
        "spare": abstract(where, (4,)),
    }
    return params, abstract(where, (BATCH, WIDTH), "data")


def train_step(params: Any, x: Any, *, scale: Any) -> Any:
    """Return updated parameters and the loss; `params['spare']` is not used."""
    layer = params["layer_0"]

    def loss(layer: Any) -> Any:
        return jnp.mean((x @ layer["kernel"] + layer["bias"]) ** 2)

    value, grads = jax.value_and_grad(loss)(layer)
    return jax.tree_util.tree_map(lambda p, g: p - scale * g, layer, grads), value


def lowered(where: Any) -> Any:
    """Return the lowered step; its parameters are donated."""
    params, x = arguments(where)
    step = jax.jit(train_step, donate_argnums=0)
    return step.lower(params, x, scale=abstract(where, ()))
