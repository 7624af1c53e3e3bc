"""Small steps with one planted waste each, and their clean twins, on the mesh of `plants`.

A comment `# planted: NAME` marks the line that a finding should name.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from programs.common import Program, abstract, device_mesh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.sharding import Mesh

    Loss: TypeAlias = Callable[..., jax.Array]

WIDTH, WORDS, HEADS, DEPTH = 128, 32768, 4, 64
BF16, F32 = jnp.bfloat16, jnp.float32
BOTH = ("data", "model")


def trained(loss: Loss, mesh: Mesh, *arguments: object) -> Program:
    """Returns a training step: the first argument has the weights, which it updates."""

    def train_step(params: object, *rest: object) -> object:
        value, gradients = jax.value_and_grad(loss)(params, *rest)
        return jax.tree.map(lambda p, g: (p - 0.1 * g).astype(p.dtype), params, gradients), value

    kept = jax.tree.map(lambda one: one.sharding, arguments[0])
    step = jax.jit(train_step, donate_argnums=0, out_shardings=(kept, None))
    return Program(step=step, arguments=arguments, mesh=mesh, planted={})


def scores(mesh: Mesh, *, is_clean: bool) -> Program:
    """Attention whose scores are whole; the twin makes them for 256 queries at a time."""

    def attend(k: jax.Array, v: jax.Array, q: jax.Array) -> jax.Array:
        products = jnp.einsum("bqhd,bkhd->bhqk", q, k)  # planted: scores
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(products, axis=-1), v)

    def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        q, k, v = (jnp.einsum("btw,whd->bthd", x, params[name]) for name in "qkv")
        if not is_clean:
            return jnp.mean(attend(k, v, q) ** 2)
        chunks = jnp.moveaxis(q.reshape(q.shape[0], -1, 256, *q.shape[2:]), 1, 0)
        return jnp.mean(jax.lax.map(jax.checkpoint(partial(attend, k, v)), chunks) ** 2)

    params = {k: abstract(mesh, (WIDTH, HEADS, DEPTH), F32, None, "model") for k in "qkv"}
    return trained(loss, mesh, params, abstract(mesh, (8, 8192, WIDTH), F32, "data"))


def logits(mesh: Mesh, *, is_clean: bool) -> Program:
    """A loss over the logits of all tokens; the twin makes them for 256 positions at a time."""

    def loss_of(table: jax.Array, x: jax.Array, labels: jax.Array) -> jax.Array:
        found = x @ table.T  # planted: logits
        chosen = jnp.take_along_axis(found, labels[..., None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(found, axis=-1) - chosen)

    def loss(params: dict[str, jax.Array], x: jax.Array, labels: jax.Array) -> jax.Array:
        x = jnp.tanh(x @ params["w"])
        if not is_clean:
            return loss_of(params["table"], x, labels)
        parts = [
            jnp.moveaxis(one.reshape(16, -1, 256, *one.shape[2:]), 1, 0) for one in (x, labels)
        ]
        each = jax.checkpoint(lambda part: loss_of(params["table"], *part))
        return jnp.mean(jax.lax.map(each, tuple(parts)))

    params = {
        "w": abstract(mesh, (WIDTH, WIDTH), F32),
        "table": abstract(mesh, (WORDS, WIDTH), F32),
    }
    batch = abstract(mesh, (16, 4096, WIDTH), F32, BOTH)
    return trained(loss, mesh, params, batch, abstract(mesh, (16, 4096), jnp.int32, BOTH))


def one_hot(mesh: Mesh, *, is_clean: bool) -> Program:
    """A lookup as a product with a one-hot table; the twin takes rows."""

    def loss(params: dict[str, jax.Array], tokens: jax.Array) -> jax.Array:
        table = params["table"]
        if is_clean:
            x = jnp.take(table, tokens, axis=0)
        else:
            x = jax.nn.one_hot(tokens, WORDS, dtype=F32) @ table  # planted: one_hot
        return jnp.mean(jnp.tanh(x @ params["w"]) ** 2)

    params = {
        "w": abstract(mesh, (WIDTH, WIDTH), F32),
        "table": abstract(mesh, (WORDS, WIDTH), F32),
    }
    return trained(loss, mesh, params, abstract(mesh, (16, 4096), jnp.int32, BOTH))


def heads(mesh: Mesh, *, is_clean: bool) -> Program:
    """A decode step that repeats the heads of its cache; the twin groups the queries."""

    def decode(cache: dict[str, jax.Array], q: jax.Array) -> jax.Array:
        k, v = cache["k"], cache["v"]
        if is_clean:
            q = q.reshape(q.shape[0], 2, -1, DEPTH)
            weights = jax.nn.softmax(jnp.einsum("bngd,btnd->bngt", q, k), axis=-1)
            return jnp.einsum("bngt,btnd->bngd", weights, v)
        k = jnp.repeat(k, 8, axis=2)  # planted: heads
        v = jnp.repeat(v, 8, axis=2)
        weights = jax.nn.softmax(jnp.einsum("bhd,bthd->bht", q, k), axis=-1)
        return jnp.einsum("bht,bthd->bhd", weights, v)

    cache = {k: abstract(mesh, (16, 16384, 2, DEPTH), BF16, "data", None, "model") for k in "kv"}
    q = abstract(mesh, (16, 16, DEPTH), BF16, "data", "model")
    return Program(step=jax.jit(decode), arguments=(cache, q), mesh=mesh, planted={})


def accumulated(mesh: Mesh, *, is_clean: bool) -> Program:
    """Gradients of 8 microbatches, added up over the devices in each; the twin does so once."""

    def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return jnp.mean(jnp.tanh(jnp.tanh(x @ params["up"]) @ params["down"]) ** 2)

    def summed(params: dict[str, jax.Array], batch: jax.Array) -> dict[str, jax.Array]:
        def add(total: dict[str, jax.Array], x: jax.Array) -> tuple[dict[str, jax.Array], None]:
            gradients = jax.grad(loss)(params, x)
            added = jax.tree.map(lambda t, g: t + g / 8, total, gradients)  # planted: accumulated
            return added, None

        return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), batch)[0]

    def train_step(params: dict[str, jax.Array], batch: jax.Array) -> dict[str, jax.Array]:
        gradients = summed(params, batch)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

    def on_each(params: dict[str, jax.Array], batch: jax.Array) -> dict[str, jax.Array]:
        local = jax.tree.map(lambda one: jax.lax.pcast(one, BOTH, to="varying"), params)
        gradients = jax.lax.psum(summed(local, batch), BOTH)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

    spec = PartitionSpec(None, BOTH)
    mapped = jax.shard_map(
        on_each, mesh=mesh, in_specs=(PartitionSpec(), spec), out_specs=PartitionSpec()
    )
    params = {
        "up": abstract(mesh, (WIDTH, 4 * WIDTH), F32),
        "down": abstract(mesh, (4 * WIDTH, WIDTH), F32),
    }
    batch = abstract(mesh, (8, 512, WIDTH), F32, None, BOTH)
    step = jax.jit(mapped if is_clean else train_step, donate_argnums=0)
    return Program(step=step, arguments=(params, batch), mesh=mesh, planted={})


def fused(mesh: Mesh, *, is_clean: bool) -> Program:
    """One product for q, k and v, which 'model' divides, is split; the twin divides heads."""

    def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        for number in range(2):
            w = params[f"qkv{number}"]
            if is_clean:
                q, k, v = jnp.einsum("btw,wnhd->nbthd", x, w)
            else:
                q, k, v = jnp.split(x @ w, 3, axis=-1)  # planted: fused
                q, k, v = (one.reshape(*one.shape[:2], HEADS, DEPTH) for one in (q, k, v))
            weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k), axis=-1)
            mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
            x = x + jnp.einsum("bqhd,hdw->bqw", mixed, params[f"o{number}"])
        return jnp.mean(x**2)

    params = {}
    for number in range(2):
        shape = (3, HEADS, DEPTH) if is_clean else (3 * HEADS * DEPTH,)
        spec = (None, None, "model") if is_clean else (None, "model")
        params[f"qkv{number}"] = abstract(mesh, (WIDTH, *shape), F32, *spec)
        params[f"o{number}"] = abstract(mesh, (HEADS, DEPTH, WIDTH), F32, "model")
    return trained(loss, mesh, params, abstract(mesh, (32, 256, WIDTH), F32, "data"))


EXPERTS, CAPACITY = 8, 64


def gathered(mesh: Mesh, *, is_clean: bool) -> Program:
    """Each device gathers the tokens of all, and takes those of its experts; the twin exchanges."""

    def on_each(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        experts = jnp.argmax(x @ params["router"], axis=-1)
        chosen = jax.nn.one_hot(experts, EXPERTS)
        slots = jax.nn.one_hot(jnp.cumsum(chosen, axis=0) * chosen - 1, CAPACITY)
        own = jnp.einsum("tec,tw->ecw", slots, x)
        if is_clean:
            own = jax.lax.all_to_all(own, "data", 0, 1, tiled=True)
        else:
            own = jax.lax.all_gather(own, "data", axis=1, tiled=True)  # planted: gathered
            first = jax.lax.axis_index("data") * (EXPERTS // 4)
            own = jax.lax.dynamic_slice_in_dim(own, first, EXPERTS // 4, 0)
        hidden = jnp.tanh(jnp.einsum("ecw,ewf->ecf", own, params["up"]))
        made = jnp.einsum("ecf,efw->ecw", hidden, params["down"])
        made = jax.lax.all_to_all(made, "data", 1, 0, tiled=True)
        return jnp.einsum("tec,ecw->tw", slots, made)

    def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        by_expert, by_token = PartitionSpec("data"), PartitionSpec(BOTH)
        specs = {"router": PartitionSpec(), "up": by_expert, "down": by_expert}
        mapped = jax.shard_map(on_each, mesh=mesh, in_specs=(specs, by_token), out_specs=by_token)
        return jnp.mean(mapped(params, x) ** 2)

    params = {
        "router": abstract(mesh, (WIDTH, EXPERTS), F32),
        "up": abstract(mesh, (EXPERTS, WIDTH, 32), F32, "data"),
        "down": abstract(mesh, (EXPERTS, 32, WIDTH), F32, "data"),
    }
    return trained(loss, mesh, params, abstract(mesh, (4096, WIDTH), F32, BOTH))


def resharded(mesh: Mesh, *, is_clean: bool) -> Program:
    """Constraints divide activations along the sequence and along the features in turn."""
    along_sequence = NamedSharding(mesh, PartitionSpec("data", "model", None))
    along_features = NamedSharding(mesh, PartitionSpec("data", None, "model"))

    def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        for number in range(3):
            x = jax.lax.with_sharding_constraint(x, along_sequence)
            x = x + jnp.tanh(x @ params[f"w{number}"])
            if not is_clean:
                x = jax.lax.with_sharding_constraint(x, along_features)  # planted: resharded
            x = jnp.sin(x) * params[f"scale{number}"]
        return jnp.mean(x**2)

    params = {}
    for number in range(3):
        params[f"w{number}"] = abstract(mesh, (WIDTH, WIDTH), F32)
        params[f"scale{number}"] = abstract(mesh, (WIDTH,), F32)
    return trained(loss, mesh, params, abstract(mesh, (32, 1024, WIDTH), F32, "data"))


def carried(mesh: Mesh, *, is_clean: bool) -> Program:
    """Layers in 16 bits hand on and save their sum in f32; the twin keeps 16 bits."""

    def block(x: jax.Array, w: dict[str, jax.Array]) -> tuple[jax.Array, None]:
        y = jnp.tanh(x.astype(BF16) @ w["up"]) @ w["down"]
        return x + y, None

    def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        if not is_clean:
            x = x.astype(F32)  # planted: carried
        return jnp.mean(jax.lax.scan(jax.checkpoint(block), x, params)[0].astype(F32) ** 2)

    params = {
        "up": abstract(mesh, (8, WIDTH, 2 * WIDTH), BF16, None, None, "model"),
        "down": abstract(mesh, (8, 2 * WIDTH, WIDTH), BF16, None, "model"),
    }
    return trained(loss, mesh, params, abstract(mesh, (64, 4096, WIDTH), BF16, "data"))


def turned(mesh: Mesh, *, is_clean: bool) -> Program:
    """A constraint on the queries alone takes 'data' from their batch to the sequence."""
    spec = PartitionSpec(*("data", None)[:: 1 if is_clean else -1], "model")

    def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        q, k, v = (jnp.einsum("btw,whd->bthd", x, params[name]) for name in "qkv")
        q = jax.lax.with_sharding_constraint(q, NamedSharding(mesh, spec))  # planted: turned
        weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k), axis=-1)
        return jnp.mean(jnp.einsum("bhqk,bkhd->bqhd", weights, v) ** 2)

    params = {k: abstract(mesh, (WIDTH, HEADS, DEPTH), F32, None, "model") for k in "qkv"}
    return trained(loss, mesh, params, abstract(mesh, (32, 256, WIDTH), F32, "data"))


def contracted(mesh: Mesh, *, is_clean: bool) -> Program:
    """A lookup in a table that 'data' divides takes it from the batch; then products contract it.

    Nothing is repeated. The twin names 'data' after the lookup.
    """
    return looked_up(mesh, PartitionSpec("data") if is_clean else None)


def stationary(mesh: Mesh, *, is_clean: bool) -> Program:
    """The same where constraints divide the features over 'data' on purpose."""
    del is_clean
    return looked_up(mesh, PartitionSpec(None, None, "data"))


def looked_up(mesh: Mesh, spec: PartitionSpec | None) -> Program:
    """Returns a step of two residual blocks of looked up tokens, with constraints of a spec."""

    def constrained(x: jax.Array) -> jax.Array:
        if spec is None:
            return x
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))

    def loss(params: dict[str, jax.Array], tokens: jax.Array) -> jax.Array:
        x = jnp.take(params["table"], tokens, axis=0)  # planted: contracted
        x = constrained(x)
        for number in range(2):
            x = x + jax.nn.gelu(x @ params[f"up{number}"]) @ params[f"down{number}"]
            x = constrained(x)
        return jnp.mean(x**2)

    params = {"table": abstract(mesh, (256, WIDTH), F32, "model", "data")}
    for number in range(2):
        params[f"up{number}"] = abstract(mesh, (WIDTH, 4 * WIDTH), F32, *BOTH)
        params[f"down{number}"] = abstract(mesh, (4 * WIDTH, WIDTH), F32, *BOTH[::-1])
    return trained(loss, mesh, params, abstract(mesh, (32, 128), jnp.int32, "data"))


def normed(mesh: Mesh, *, is_clean: bool) -> Program:
    """A lookup moves 'data' from the batch to the features, and norms make those whole again.

    Attention over the whole batch is repeated. The twin names 'data' after the lookup.
    """
    heads = 4

    def norm(x: jax.Array) -> jax.Array:
        return x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6)

    def block(x: jax.Array, layer: dict[str, jax.Array]) -> tuple[jax.Array, None]:
        q = jnp.einsum("bsd,dhk->bshk", norm(x), layer["q"])
        scores = jax.nn.softmax(jnp.einsum("bshk,bthk->bhst", q, q), axis=-1)
        x = x + jnp.einsum("bshk,hkd->bsd", jnp.einsum("bhst,bthk->bshk", scores, q), layer["o"])
        return x + jax.nn.gelu(norm(x) @ layer["up"]) @ layer["down"], None

    def loss(params: dict[str, Any], tokens: jax.Array) -> jax.Array:
        x = jnp.take(params["table"], tokens, axis=0)  # planted: normed
        if is_clean:
            x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec("data")))
        x, _ = jax.lax.scan(block, x, params["layers"])
        return jnp.mean(norm(x) ** 2)

    shapes = {
        "q": (WIDTH, heads, WIDTH // heads),
        "o": (heads, WIDTH // heads, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }
    specs = {"q": BOTH, "o": ("model", None, "data"), "up": BOTH, "down": BOTH[::-1]}
    layers = {n: abstract(mesh, (2, *one), F32, None, *specs[n]) for n, one in shapes.items()}
    params = {"table": abstract(mesh, (256, WIDTH), F32, *BOTH), "layers": layers}
    return trained(loss, mesh, params, abstract(mesh, (32, 128), jnp.int32, "data"))


def experts(mesh: Mesh, *, is_clean: bool) -> Program:
    """Weights of experts are gathered; the twin sends the tokens to them instead."""

    def divided(x: jax.Array) -> jax.Array:
        if not is_clean:
            return x
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(*BOTH[::-1])))

    def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        chosen = jnp.argmax(x @ params["router"], axis=-1)
        slots = jax.nn.one_hot(chosen, 8, dtype=F32)[..., None] * jnp.eye(64)[None, :, None]
        sent = jnp.einsum("btec,btw->ebcw", slots, x)  # planted: experts
        sent = divided(sent)
        made = jnp.einsum("ebcw,ewh->ebch", sent, params["up"])
        made = divided(jnp.einsum("ebch,ehw->ebcw", jax.nn.gelu(made), params["down"]))
        return jnp.mean(jnp.einsum("btec,ebcw->btw", slots, made) ** 2)

    params = {
        "router": abstract(mesh, (WIDTH, 8), F32),
        "up": abstract(mesh, (8, WIDTH, 8 * WIDTH), F32, "model"),
        "down": abstract(mesh, (8, 8 * WIDTH, WIDTH), F32, "model"),
    }
    x = abstract(mesh, (16, 64, WIDTH), F32, BOTH)

    def train_step(params: dict[str, jax.Array], x: jax.Array) -> object:
        gradients = jax.grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

    step = jax.jit(train_step, donate_argnums=0)
    return Program(step=step, arguments=(params, x), mesh=mesh, planted={})


WASTES = {
    one.__name__: one
    for one in (
        *(scores, logits, one_hot, heads, accumulated),
        *(fused, gathered, resharded, carried, turned),
        *(contracted, stationary, normed, experts),
    )
}
"""Name of each waste, and the function that returns a step with it."""


def build(devices: Sequence[jax.Device], backend: str, edit: str) -> Program:
    """Returns a step.

    Args:
        devices: Eight devices.
        backend: Not used: all compile the same step.
        edit: A key of `WASTES`; with ``_clean`` its twin.
    """
    del backend
    mesh = device_mesh(devices, data=4, model=2)
    return WASTES[edit.removesuffix("_clean")](mesh, is_clean=edit.endswith("_clean"))
