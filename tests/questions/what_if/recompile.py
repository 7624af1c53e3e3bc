"""Script: compiles programs with a change, and the edited texts of the programs without it.

Prints a JSON object: name of the case to the figures of both, on CPU with 8 devices. Run with
``XLA_FLAGS=--xla_force_host_platform_device_count=8``. Names of jaxlib that are not public.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import _hlo, _jax
from jaxlib.mlir import ir

from hlo_lens import parse_hlo
from hlo_lens.questions.what_if.program_changes import EditRequest, edit_program
from hlo_lens.shapes.mesh import Mesh as HloMesh

FIGURES = ("argument", "output", "alias", "temp")
P = PartitionSpec
REPLICATED = P()


def step(mesh: Mesh, stored: Any, constraint: Any, state: Any, x: Any) -> Any:
    """Return the next state of a scanned network, its momentum in another type."""
    params, mu = state["params"], state["opt"][0]

    def loss(params: Any) -> Any:
        h, _ = jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, params["w"])
        return jnp.mean((h @ params["w3"]) ** 2)

    grads = jax.grad(loss)(params)
    mu = jax.tree.map(lambda m, g: 0.9 * m.astype(jnp.float32) + g, mu, grads)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, params, mu)
    norm = x @ params["w3"]  # LINE
    if constraint is not None:
        norm = jax.lax.with_sharding_constraint(norm, NamedSharding(mesh, constraint))
    mu = jax.tree.map(lambda m: m.astype(stored), mu)
    return {"params": params, "opt": (mu,)}, norm @ norm.T


def jitted(
    sizes: tuple[int, int] = (2, 4),
    donate: bool = False,
    w3: Any = REPLICATED,
    stored: Any = jnp.float32,
    constraint: Any = None,
) -> tuple[Any, tuple[Any, Any]]:
    """Return a program and its arguments."""
    devices = np.array(jax.devices()[: sizes[0] * sizes[1]])
    mesh = Mesh(devices.reshape(sizes), ("data", "model"))

    def value(shape: tuple[int, ...], spec: Any, dtype: Any = jnp.float32) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    def tree(dtype: Any) -> Any:
        w = value((4, 64, 64), P(None, None, "model"), dtype)
        return {"w": w, "w3": value((64, 64), w3, dtype)}

    state = {"params": tree(jnp.float32), "opt": (tree(stored),)}
    shardings = jax.tree.map(lambda one: one.sharding, state)

    def run(state: Any, x: Any) -> Any:
        return step(mesh, stored, constraint, state, x)

    made = jax.jit(run, donate_argnums=(0,) if donate else (), out_shardings=(shardings, None))
    return made, (state, value((32, 64), P("data")))


@functools.cache
def compiled(is_shardy: bool, **variant: Any) -> tuple[str, list[int]]:
    """Return the text before optimizations and the figures of a variant."""
    jax.config.update("jax_use_shardy_partitioner", is_shardy)
    made, arguments = jitted(**variant)
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_as_text": True}
        done = made.lower(*arguments).compile(options)
        (path,) = Path(folder).glob("*before_optimizations.txt")
        return path.read_text(), figures(done.memory_analysis())


def figures(stats: Any) -> list[int]:
    """Return the figures that are compared."""
    return [getattr(stats, f"{name}_size_in_bytes") for name in FIGURES]


def recompiled(text: str, count: int) -> list[int]:
    """Return the figures of a text compiled for some devices."""
    if "xla.sdy" in text:  # Shardy does not import the shardings of some results only
        text = re.sub(r"(\n  ROOT [^\n]* tuple\([^\n]*\)), sharding=\{\{.*\}\}", r"\1", text)
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    made = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(proto))
    with mlir.make_ir_context():
        module = ir.Module.parse(made) if isinstance(made, str | bytes) else made
    devices = tuple(jax.devices()[:count])
    options = xla_client.CompileOptions()
    for one in (options, options.executable_build_options):
        one.num_replicas, one.num_partitions = 1, count
        ids = np.array([[device.id for device in devices]])
        one.device_assignment = xla_client.DeviceAssignment.create(ids)
    build = options.executable_build_options
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = "xla.sdy" in text
    name = "allow_spmd_sharding_propagation_to_output"
    if match := re.search(rf"{name}=\{{([^}}]*)\}}", text.partition("\n")[0]):
        setattr(build, name, [word == "true" for word in match[1].split(",")])
    client: Any = devices[0].client
    done = client.compile_and_load(module, _jax.DeviceList(devices), options)
    return figures(done.get_compiled_memory_stats())


MESHES = (HloMesh.of({"data": 2, "model": 4}),)
LINE = 1 + Path(__file__).read_text().split("# LINE\n")[0].count("\n")
AT = f"recompile.py:{LINE}"
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], EditRequest]] = {
    "donate": ({}, {"donate": True}, EditRequest(donate=("state",))),
    "undonate": ({"donate": True}, {}, EditRequest(undonate=("state",))),
    "shard": (
        {"donate": True},
        {"donate": True, "w3": P("data", "model")},
        EditRequest(shard=("state/**/w3=P('data','model')",), meshes=MESHES),
    ),
    "dtype": ({}, {"stored": jnp.bfloat16}, EditRequest(dtype=("state['opt']=bf16",))),
    "constraint": (
        {},
        {"constraint": P("model")},
        EditRequest(constraint=(f"add {AT}=P('model')",), meshes=MESHES),
    ),
    "mesh": ({}, {"sizes": (2, 2)}, EditRequest(mesh="model=2", meshes=MESHES)),
    "all": (
        {},
        {"sizes": (4, 2), "donate": True, "w3": P("model"), "stored": jnp.bfloat16},
        EditRequest(
            mesh="data=4,model=2",
            donate=("state.*",),
            shard=("**/w3=P('model')",),
            dtype=("state/opt=bf16",),
            meshes=MESHES,
        ),
    ),
}


def main() -> None:
    """Print the figures of all cases."""
    found = {}
    cases = [(name, is_shardy) for name in CASES for is_shardy in (True, False)]
    for name, is_shardy in cases:
        if not is_shardy and name not in ("shard", "constraint", "all"):
            continue
        before, after, request = CASES[name]
        text, unchanged = compiled(is_shardy, **before)
        edited = edit_program(parse_hlo(text), request, parse_hlo)
        found[f"{name}, {'Shardy' if is_shardy else 'GSPMD'}"] = {
            "unchanged": unchanged,
            "wanted": compiled(is_shardy, **after)[1],
            "found": recompiled(edited.text, edited.module.num_partitions),
            "refused": [change.why_not for change in edited.changes if not change.applies],
            "gaps": len(edited.module.gaps),
        }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
