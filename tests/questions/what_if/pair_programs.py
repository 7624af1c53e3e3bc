"""Programs with variants, compiled before and after a change; run by any Python that has jax.

A program is a function of `Variant` that returns a jitted function and its arguments. A variant
states what the program is written with: donated arguments, shardings, element types, the mesh,
a constraint. Imports nothing of hlo_lens.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

P = PartitionSpec
REPLICATED = P()
F32 = jnp.float32


class Opt(NamedTuple):
    """State of an optimizer."""

    mu: Any
    nu: Any


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What a program is written with.

    Attributes:
        devices: Devices to compile for.
        donate: Names of donated arguments.
        specs: Values with another sharding than the program's own: name to ``P(..)``.
        dtypes: Values that are stored with another element type.
        mesh: Sizes of mesh axes.
        states: Whether the program states the shardings of its results: ``all``, ``part`` or none.
        constraint: Another sharding constraint than the program's own; ``none`` for none.
    """

    devices: Any
    donate: tuple[str, ...] = ()
    specs: dict[str, str] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    mesh: dict[str, int] = field(default_factory=lambda: {"data": 2, "model": 4})
    states: str = ""
    constraint: str = ""

    @functools.cached_property
    def jax_mesh(self) -> Mesh:
        """The mesh of its first devices."""
        sizes = tuple(self.mesh.values())
        used = np.array(self.devices[: int(np.prod(sizes))])
        return Mesh(used.reshape(sizes), tuple(self.mesh))

    def sharded(self, spec: Any) -> NamedSharding:
        """Return a sharding over the mesh."""
        return NamedSharding(self.jax_mesh, spec)

    def value(self, name: str, shape: tuple[int, ...], spec: Any = None, dtype: Any = F32) -> Any:
        """Return the shape of an argument; one of a program for one device has no spec."""
        stored = getattr(jnp, self.dtypes[name]) if name in self.dtypes else dtype
        if name in self.specs:
            spec = parsed(self.specs[name])
        if spec is None:
            placed: Any = jax.sharding.SingleDeviceSharding(self.devices[0])
        else:
            placed = self.sharded(spec)
        return jax.ShapeDtypeStruct(shape, stored, sharding=placed)

    def constrained(self, value: Any, spec: Any) -> Any:
        """Return a value with the program's constraint, or that of the variant."""
        if self.constraint == "none":
            return value
        spec = parsed(self.constraint) if self.constraint else spec
        return jax.lax.with_sharding_constraint(value, self.sharded(spec))  # CONSTRAINT

    def jitted(self, function: Any, arguments: dict[str, Any], results: Any = None) -> Any:
        """Return a jitted function and its arguments.

        Args:
            function: The function.
            arguments: Arguments by name.
            results: Shapes of the results whose shardings the program may state; None for XLA's.
        """
        made: dict[str, Any] = {"donate_argnums": tuple(map([*arguments].index, self.donate))}
        if self.states and results is not None:
            given = jax.tree.map(lambda one: one.sharding, results)
            rest = None if self.states == "part" else self.sharded(REPLICATED)
            made["out_shardings"] = (given, rest)
        return jax.jit(function, **made), tuple(arguments.values())


def parsed(text: str) -> Any:
    """Return the PartitionSpec of a text of our own."""
    return eval(text, {"P": P})


def like(new: Any, stored: Any) -> Any:
    """Return arrays with the element types that they are stored with."""
    return jax.tree.map(lambda a, b: a.astype(b.dtype), new, stored)


def wide(values: Any) -> Any:
    """Return arrays in f32, that they are computed in."""
    return jax.tree.map(lambda one: one.astype(F32), values)


def scan(v: Variant) -> Any:
    """A step of layers in a scan, with momentum."""
    layers, d, f, rows = 4, 256, 1024, 128

    def step(state: Any, x: Any) -> Any:
        params, mu = state["params"], wide(state["opt"].mu)

        def loss(params: Any) -> Any:
            def body(h: Any, w: Any) -> Any:
                h = v.constrained(jnp.tanh(h @ w["w1"]), P("data", "model"))
                return h @ w["w2"], None

            h, _ = jax.lax.scan(body, x, params["layers"])
            return jnp.mean((h @ params["w3"]) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, grads)
        params = jax.tree.map(lambda p, m: p - 0.1 * m, params, mu)
        opt = Opt(like(mu, state["opt"].mu), state["opt"].nu)
        return {"params": params, "opt": opt}, value

    def tree(name: str) -> Any:
        return {
            "layers": {
                "w1": v.value(f"{name}.w1", (layers, d, f), P(None, None, "model")),
                "w2": v.value(f"{name}.w2", (layers, f, d), P(None, "model", None)),
            },
            "w3": v.value(f"{name}.w3", (d, d), REPLICATED),
        }

    nu = v.value("nu", (8,), REPLICATED, jnp.int32)
    state = {"params": tree("params"), "opt": Opt(tree("mu"), nu)}
    return v.jitted(step, {"state": state, "x": v.value("x", (rows, d), P("data"))}, state)


def manual(v: Variant) -> Any:
    """A product inside shard_map."""

    def step(w: Any, x: Any, b: Any) -> Any:
        @functools.partial(
            jax.shard_map,
            mesh=v.jax_mesh,
            in_specs=(P(None, "model"), P("data", None)),
            out_specs=P("data", None),
        )
        def product(w: Any, x: Any) -> Any:
            return jax.lax.psum(jnp.maximum(x @ w, 0) @ w.T, "model")

        y = product(w, x) + wide(b)
        return w - 1e-3 * (x.T @ y) @ w, y.sum()

    w = v.value("w", (512, 2048), P(None, "model"))
    x, b = v.value("x", (256, 512), P("data", None)), v.value("b", (256, 512), REPLICATED)
    return v.jitted(step, {"w": w, "x": x, "b": b}, w)


def adam(v: Variant) -> Any:
    """A step of Adam on one device."""

    def step(state: Any, x: Any) -> Any:
        params, opt = state

        def loss(p: Any) -> Any:
            return jnp.mean((jnp.tanh(x @ p["a"]) @ p["b"]) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        mu = jax.tree.map(lambda m, g: 0.9 * m + g, wide(opt.mu), grads)
        nu = jax.tree.map(lambda m, g: 0.9 * m + g * g, wide(opt.nu), grads)
        params = jax.tree.map(lambda p, m, n: p - m * jax.lax.rsqrt(n + 1e-6), params, mu, nu)
        return (params, Opt(like(mu, opt.mu), like(nu, opt.nu))), value

    def tree(name: str) -> Any:
        shapes = {"a": (512, 2048), "b": (2048, 512)}
        return {key: v.value(name, shape) for key, shape in shapes.items()}

    state = (tree("params"), Opt(tree("mu"), tree("nu")))
    return v.jitted(step, {"state": state, "x": v.value("x", (256, 512))})


def decode(v: Variant) -> Any:
    """One token of attention over a cache."""
    d, words, rows, length = 512, 4096, 32, 1024

    def step(params: Any, cache: Any, token: Any, at: Any) -> Any:
        x = params["emb"][token]
        new = (x @ params["wk"])[:, None, :]
        keys = jax.lax.dynamic_update_slice(wide(cache["k"]), new, (0, at, 0))
        weights = jax.nn.softmax(jnp.einsum("bd,bsd->bs", x @ params["wq"], keys))
        y = v.constrained(jnp.einsum("bs,bsd->bd", weights, keys), P("data", "model"))
        return like({"k": keys}, cache), y @ params["emb"].T

    params = {
        "emb": v.value("emb", (words, d), P("model", None)),
        "wk": v.value("wk", (d, d), P(None, "model")),
        "wq": v.value("wq", (d, d), P(None, "model")),
    }
    cache = {"k": v.value("cache", (rows, length, d), P("data", None, "model"))}
    token, at = (
        v.value("token", (rows,), P("data"), jnp.int32),
        v.value("at", (), REPLICATED, jnp.int32),
    )
    named = {"params": params, "cache": cache, "token": token, "at": at}
    return v.jitted(step, named, cache)


def transformer(v: Variant) -> Any:
    """A step of attention and a network, its block computed again for the gradient."""
    d, heads, rows, length = 256, 8, 8, 128

    def block(p: Any, x: Any) -> Any:
        q, k, w = ((x @ p[name]).reshape(*x.shape[:2], heads, -1) for name in ("wq", "wk", "wv"))
        scores = jnp.einsum("blhd,bmhd->bhlm", q, k) / 8
        a = jnp.einsum("bhlm,bmhd->blhd", jax.nn.softmax(scores), w).reshape(x.shape)
        h = v.constrained(jax.nn.gelu((x + a @ p["wo"]) @ p["up"]), P("data", None, "model"))
        return x + h @ p["down"]

    def step(params: Any, mu: Any, x: Any) -> Any:
        def loss(p: Any) -> Any:
            h = jax.checkpoint(block)(p["one"], x)
            return jnp.mean(jax.checkpoint(block)(p["two"], h) ** 2)

        grads = jax.grad(loss)(wide(params))
        new = jax.tree.map(lambda m, g: 0.9 * m + g, wide(mu), grads)
        made = jax.tree.map(lambda p, m: p - 0.01 * m, wide(params), new)
        return (like(made, params), like(new, mu)), x.sum()

    def tree(name: str) -> Any:
        shapes = {
            **{key: ((d, d), P(None, "model")) for key in ("wq", "wk", "wv")},
            "wo": ((d, d), P("model", None)),
            "up": ((d, 4 * d), P(None, "model")),
            "down": ((4 * d, d), P("model", None)),
        }
        return {
            part: {key: v.value(f"{name}.{key}", *one) for key, one in shapes.items()}
            for part in ("one", "two")
        }

    params, mu = tree("params"), tree("mu")
    x = v.value("x", (rows, length, d), P("data"))
    return v.jitted(step, {"params": params, "mu": mu, "x": x}, (params, mu))


def experts(v: Variant) -> Any:
    """A step of experts, each on a part of the mesh."""
    count, d, f, rows = 8, 128, 512, 256

    def step(params: Any, x: Any) -> Any:
        def loss(p: Any) -> Any:
            gates = jax.nn.softmax(x @ p["gate"])
            chosen = gates * jax.nn.one_hot(jnp.argmax(gates, -1), count)
            h = v.constrained(jnp.einsum("nd,edf->enf", x, p["up"]), P("model", "data", None))
            return jnp.mean(jnp.einsum("enf,efd,ne->nd", jax.nn.relu(h), p["down"], chosen) ** 2)

        value, grads = jax.value_and_grad(loss)(wide(params))
        made = jax.tree.map(lambda p, g: p - 0.1 * g, wide(params), grads)
        return like(made, params), value

    params = {
        "gate": v.value("gate", (d, count), REPLICATED),
        "up": v.value("up", (count, d, f), P("model")),
        "down": v.value("down", (count, f, d), P("model")),
    }
    return v.jitted(step, {"params": params, "x": v.value("x", (rows, d), P("data"))}, params)


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
