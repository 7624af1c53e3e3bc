"""Compiles one sample program and writes `expect.json`; started by `make.py`, one process each.

XLA reads its flags once per process and numbers the modules it dumps, so every program gets a
fresh process. The program is compiled from abstract arguments: nothing is ever run.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import inspect
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jax

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from programs.common import Program

HERE = Path(__file__).resolve().parent
TPU_TOPOLOGY = "v5e:2x4"
GPU_TOPOLOGY = "1x1x8"
GPU_TARGET = HERE / "gpu_target.txtpb"
PACKAGES = ("jax", "jaxlib", "libtpu", "jax-cuda12-pjrt", "jax-cuda12-plugin")
ONE_LINE = 330
"""Characters; longer parts of `expect.json` are broken over several lines."""


def devices(backend: str) -> Sequence[jax.Device]:
    """Returns eight devices to compile for; only those of the CPU exist."""
    if backend == "cpu":
        return jax.devices("cpu")
    from jax.experimental import topologies

    if backend == "tpu":
        return topologies.get_topology_desc(platform="tpu", topology_name=TPU_TOPOLOGY).devices
    return topologies.get_topology_desc(
        platform="cuda",
        topology_name="",
        target_config=GPU_TARGET.read_text(encoding="utf-8"),
        topology=GPU_TOPOLOGY,
    ).devices


def versions(backend: str) -> dict[str, str]:
    """Returns the versions of the packages that matter for `backend`."""
    used = {"cpu": PACKAGES[:2], "tpu": PACKAGES[:3], "gpu": PACKAGES[:2] + PACKAGES[3:]}
    return {name: importlib.metadata.version(name) for name in used[backend]}


def memory_analysis(compiled: jax.stages.Compiled) -> dict[str, int]:
    """Returns all integer fields of `Compiled.memory_analysis()`."""
    stats = compiled.memory_analysis()
    fields = {name: getattr(stats, name) for name in dir(stats) if not name.startswith("_")}
    return {name: value for name, value in fields.items() if isinstance(value, int)}


def kept_arguments(lowered: jax.stages.Lowered) -> list[int]:
    """Returns the flat numbers of the arguments that jit keeps, in ascending order.

    The place of a number in the list is its HLO parameter number.
    """
    # jax has no public name for this.
    return sorted(lowered._lowering.compile_args["kept_var_idx"])  # noqa: SLF001


def inputs(program: Program, lowered: jax.stages.Lowered) -> list[dict[str, object]]:
    """Returns one row per array argument, in the order in which jit flattens them."""
    kept = kept_arguments(lowered)
    names = list(inspect.signature(program.step).parameters)
    named = dict(zip(names, program.arguments, strict=True))
    donated = [info.donated for info in jax.tree_util.tree_leaves(lowered.args_info)]
    leaves = [
        (name + jax.tree_util.keystr(path), leaf)
        for name, tree in named.items()
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    ]
    return [
        {
            "name": name,
            "shape": list(leaf.shape),
            "dtype": leaf.dtype.name,
            "spec": str(leaf.sharding.spec),
            "shard_shape": list(leaf.sharding.shard_shape(leaf.shape)),
            "donated": is_donated,
            "hlo_parameter": kept.index(number) if number in kept else None,
        }
        for number, ((name, leaf), is_donated) in enumerate(zip(leaves, donated, strict=True))
    ]


def outputs(lowered: jax.stages.Lowered) -> list[dict[str, object]]:
    """Returns one row per array that the program returns, with its path in the result."""
    leaves = jax.tree_util.tree_flatten_with_path(lowered.out_info)[0]
    return [
        {
            "name": "result" + jax.tree_util.keystr(path),
            "shape": list(leaf.shape),
            "dtype": leaf.dtype.name,
        }
        for path, leaf in leaves
    ]


def expectations(
    program: Program,
    lowered: jax.stages.Lowered,
    compiled: jax.stages.Compiled,
    backend: str,
    dump_dir: Path,
) -> Mapping[str, object]:
    """Returns what `expect.json` holds."""
    axes = dict(program.mesh.shape)
    flags = os.environ["XLA_FLAGS"].replace(str(dump_dir), "DIR")
    targets = {"cpu": {}, "tpu": {"topology": TPU_TOPOLOGY}, "gpu": {"topology": GPU_TOPOLOGY}}
    return {
        "backend": backend,
        "versions": versions(backend),
        "xla_flags": flags.split(),
        **targets[backend],
        "device_kind": program.mesh.devices.flat[0].device_kind,
        "device_count": program.mesh.size,
        "mesh": axes,
        "mesh_device_ids": [device.id for device in program.mesh.devices.flat],
        "memory_analysis": memory_analysis(compiled),
        "inputs": inputs(program, lowered),
        "outputs": outputs(lowered),
        "planted": program.planted,
    }


def render(value: object, indent: str = "") -> str:
    """Returns JSON in which an object or list of up to ONE_LINE characters is on one line."""
    line = json.dumps(value)
    if len(line) <= ONE_LINE or not isinstance(value, dict | list):
        return line
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {render(part, inner)}" for key, part in value.items()]
        opened, closed = "{", "}"
    else:
        parts = [render(part, inner) for part in value]
        opened, closed = "[", "]"
    return f"{opened}\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}{closed}"


def main() -> None:
    """Compiles the program named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("backend", choices=("cpu", "tpu", "gpu"))
    parser.add_argument("dump_dir", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--compiled-text", action="store_true")
    parser.add_argument("--edit", help="one of those of pairs or plants; writes no expect.json")
    options = parser.parse_args()
    edit = {} if options.edit is None else {"edit": options.edit}
    program = importlib.import_module(f"programs.{options.program}").build(
        devices(options.backend), options.backend, **edit
    )
    lowered = program.step.lower(*program.arguments)
    compiled = lowered.compile()
    if options.edit is not None:
        sys.stderr.write(f"{options.edit} for {options.backend}: compiled\n")
        return
    expected = expectations(program, lowered, compiled, options.backend, options.dump_dir)
    (options.out / "expect.json").write_text(render(expected) + "\n", encoding="utf-8")
    if options.compiled_text:
        (options.out / "compiled.txt").write_text(compiled.as_text(), encoding="utf-8")
    sys.stderr.write(f"{options.program} for {options.backend}: compiled\n")


if __name__ == "__main__":
    main()
