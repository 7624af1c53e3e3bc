"""Further programs with variants: arrays, loops and optimizers; see `programs.py`."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from tests.what_if.programs import (
    REPLICATED,
    Opt,
    P,
    Variant,
    adam,
    decode,
    experts,
    like,
    manual,
    scan,
    transformer,
    wide,
)


def convolutions(v: Variant) -> Any:
    """A step of two convolutions, data parallel."""
    rows, size = 16, 32

    def step(params: Any, mu: Any, x: Any) -> Any:
        def convolved(x: Any, w: Any) -> Any:
            dims = ("NHWC", "HWIO", "NHWC")
            return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims)

        def loss(p: Any) -> Any:
            h = jax.nn.relu(convolved(x, p["one"]))
            return jnp.mean(convolved(h, p["two"]) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        new = jax.tree.map(lambda m, g: 0.9 * m + g, wide(mu), grads)
        made = jax.tree.map(lambda p, m: p - 0.1 * m, params, new)
        return (made, like(new, mu)), value

    def tree(name: str) -> Any:
        one = v.value(f"{name}.one", (3, 3, 16, 64), REPLICATED)
        return {"one": one, "two": v.value(f"{name}.two", (3, 3, 64, 64), REPLICATED)}

    params, mu = tree("params"), tree("mu")
    x = v.value("x", (rows, size, size, 16), P(("data", "model")))
    return v.jitted(step, {"params": params, "mu": mu, "x": x}, (params, mu))


def embedding(v: Variant) -> Any:
    """A step of an embedding whose logits are compared with the next token."""
    words, d, rows, length = 8192, 256, 16, 128

    def step(params: Any, mu: Any, tokens: Any) -> Any:
        def loss(p: Any) -> Any:
            x = p["emb"][tokens]
            h = jnp.tanh(x @ p["w"])
            logits = h @ p["emb"].T
            picked = jnp.take_along_axis(logits, tokens[..., None], -1)[..., 0]
            return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)

        value, grads = jax.value_and_grad(loss)(params)
        new = jax.tree.map(lambda m, g: 0.9 * m + g, wide(mu), grads)
        made = jax.tree.map(lambda p, m: p - 0.1 * m, params, new)
        return (made, like(new, mu)), value

    def tree(name: str) -> Any:
        emb = v.value(f"{name}.emb", (words, d), P("model", None))
        return {"emb": emb, "w": v.value(f"{name}.w", (d, d), REPLICATED)}

    params, mu = tree("params"), tree("mu")
    tokens = v.value("tokens", (rows, length), P("data"), jnp.int32)
    return v.jitted(step, {"params": params, "mu": mu, "tokens": tokens}, (params, mu))


def optimizer(v: Variant) -> Any:
    """The update of a sharded Adam alone, its gradients clipped by their norm."""

    def step(params: Any, opt: Any, grads: Any) -> Any:
        norm = jnp.sqrt(sum(jnp.sum(one**2) for one in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g / jnp.maximum(norm, 1), grads)
        mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, wide(opt.mu), grads)
        nu = jax.tree.map(lambda n, g: 0.99 * n + 0.01 * g * g, wide(opt.nu), grads)
        made = jax.tree.map(lambda p, m, n: p - m / (jnp.sqrt(n) + 1e-8), params, mu, nu)
        return (made, Opt(like(mu, opt.mu), like(nu, opt.nu))), norm

    def tree(name: str) -> Any:
        w = v.value(f"{name}.w", (1024, 2048), P("data", "model"))
        return {"w": w, "b": v.value(f"{name}.b", (2048,), P("model"))}

    params, opt = tree("params"), Opt(tree("mu"), tree("nu"))
    return v.jitted(step, {"params": params, "opt": opt, "grads": tree("grads")}, (params, opt))


def stencil(v: Variant) -> Any:
    """Heat over a plane, its neighbours on other devices."""

    def step(plane: Any, source: Any) -> Any:
        def body(_: Any, plane: Any) -> Any:
            moved = (jnp.roll(plane, shift, axis) for shift in (1, -1) for axis in (0, 1))
            return 0.2 * (plane + sum(moved)) + source

        made = jax.lax.fori_loop(0, 5, body, wide(plane))
        return like(made, plane), made.sum()

    plane = v.value("plane", (1024, 2048), P("data", "model"))
    source = v.value("source", (1024, 2048), REPLICATED)
    return v.jitted(step, {"plane": plane, "source": source}, plane)


def recurrent(v: Variant) -> Any:
    """A step of a gated recurrent network."""
    d, rows, length = 128, 64, 32

    def step(params: Any, x: Any) -> Any:
        def loss(p: Any) -> Any:
            def cell(h: Any, x: Any) -> Any:
                gate = jax.nn.sigmoid(x @ p["wz"] + h @ p["uz"])
                h = gate * h + (1 - gate) * jnp.tanh(x @ p["wh"] + h @ p["uh"])
                return h, h

            start = jnp.zeros((rows, d), x.dtype)
            _, seen = jax.lax.scan(cell, start, x)
            return jnp.mean(seen**2)

        value, grads = jax.value_and_grad(loss)(wide(params))
        return like(jax.tree.map(lambda p, g: p - g, wide(params), grads), params), value

    names = ("wz", "uz", "wh", "uh")
    params = {name: v.value(name, (d, d), P(None, "model")) for name in names}
    x = v.value("x", (length, rows, d), P(None, "data"))
    return v.jitted(step, {"params": params, "x": x}, params)


def pipeline(v: Variant) -> Any:
    """Stages that pass their results on, one a device of an axis."""
    rows, d = 64, 256

    def step(w: Any, x: Any) -> Any:
        count = v.mesh["model"]

        @functools.partial(
            jax.shard_map, mesh=v.jax_mesh, in_specs=(P("model"), P("data")), out_specs=P("data"),
            check_vma=False,
        )  # fmt: skip
        def stages(w: Any, x: Any) -> Any:
            def body(_: Any, h: Any) -> Any:
                made = jnp.tanh(h @ w[0])
                return jax.lax.ppermute(made, "model", [(k, (k + 1) % count) for k in range(count)])

            return jax.lax.fori_loop(0, count, body, x)

        y = stages(wide(w), x)
        return like(wide(w) * 0.99, w), y

    w = v.value("w", (v.mesh["model"], d, d), P("model"))
    return v.jitted(step, {"w": w, "x": v.value("x", (rows, d), P("data"))}, w)


def sampling(v: Variant) -> Any:
    """The most probable tokens of rows, by a sort."""

    def step(logits: Any, seen: Any) -> Any:
        values, places = jax.lax.top_k(jax.nn.log_softmax(wide(logits) - seen), 16)
        counts = seen.at[jnp.arange(64)[:, None], places].add(1.0)
        return counts, values.sum()

    logits = v.value("logits", (64, 4096), P("data", "model"))
    seen = v.value("seen", (64, 4096), P("data", None))
    return v.jitted(step, {"logits": logits, "seen": seen}, seen)


def power(v: Variant) -> Any:
    """The largest eigenvalue of a matrix, by a loop that ends when it is found."""

    def step(matrix: Any, vector: Any) -> Any:
        a = wide(matrix)

        def body(state: Any) -> Any:
            vector, old, _ = state
            made = a @ vector
            size = jnp.linalg.norm(made)
            return made / size, size, jnp.abs(size - old)

        start = (vector, jnp.float32(0), jnp.float32(1))
        vector, size, _ = jax.lax.while_loop(lambda s: s[2] > 1e-3, body, start)
        return vector, size

    matrix = v.value("matrix", (2048, 2048), P("data", "model"))
    vector = v.value("vector", (2048,), REPLICATED)
    return v.jitted(step, {"matrix": matrix, "vector": vector}, vector)


def adapters(v: Variant) -> Any:
    """A step of small matrices beside large ones that stay as they are."""
    d, f, rows = 512, 2048, 128

    def step(small: Any, mu: Any, base: Any, x: Any) -> Any:
        def loss(s: Any) -> Any:
            h = jax.nn.relu(x @ wide(base["up"]) + (x @ s["a"]) @ s["b"])
            return jnp.mean((h @ wide(base["down"])) ** 2)

        value, grads = jax.value_and_grad(loss)(small)
        new = jax.tree.map(lambda m, g: 0.9 * m + g, wide(mu), grads)
        made = jax.tree.map(lambda p, m: p - 0.1 * m, small, new)
        return (made, like(new, mu)), value

    def tree(name: str) -> Any:
        a = v.value(f"{name}.a", (d, 16), REPLICATED)
        return {"a": a, "b": v.value(f"{name}.b", (16, f), P(None, "model"))}

    small, mu = tree("small"), tree("mu")
    base = {
        "up": v.value("base.up", (d, f), P(None, "model")),
        "down": v.value("base.down", (f, d), P("model", None)),
    }
    x = v.value("x", (rows, d), P("data"))
    return v.jitted(step, {"small": small, "mu": mu, "base": base, "x": x}, (small, mu))


PROGRAMS = {
    one.__name__: one
    for one in (
        scan,
        manual,
        adam,
        decode,
        transformer,
        experts,
        convolutions,
        embedding,
        optimizer,
        stencil,
        recurrent,
        pipeline,
        sampling,
        power,
        adapters,
    )
}
"""All programs by name."""
