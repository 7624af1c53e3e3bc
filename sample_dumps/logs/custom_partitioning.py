"""A row-wise normalisation with custom partitioning, whose callbacks say what they are given.

The rows are divided among both axes of the mesh by who calls it, but each row is needed whole: the
partition callback answers another sharding than the one that was inferred. Four fake CPU devices.
"""

import sys

import jax
import jax.numpy as jnp
from jax.debug import visualize_array_sharding
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec as P


def say(who, **values):
    """Writes what a function has seen."""
    for name, value in values.items():
        sys.stdout.write(f"{who} => {name} : {value} \n\n")
        fields = "".join(
            f'    "{key} - {type(getattr(value, key))}": "...",\n'
            for key in ("count", "index")
            if hasattr(value, key)
        )
        if fields:
            sys.stdout.write(f"{who} => {name} Json attribute dump: {{\n{fields}}}\n")


def normalized(x):
    """Returns each row divided by its length."""
    return x / jnp.sqrt((x * x).sum(axis=1, keepdims=True))


@custom_partitioning
def normalize(x):
    """The same, partitioned by hand."""
    return normalized(x)


def infer_sharding_from_operands(mesh, arg_shapes, result_shape):
    """Answers the sharding of the argument."""
    say("infer_sharding_from_operands", mesh=mesh, arg_shapes=arg_shapes, result_shape=result_shape)
    result_sharding = NamedSharding(mesh, P("x", "y"))
    say("OUT_infer_sharding_from_operands", result_sharding=result_sharding)
    return result_sharding


def partition(mesh, arg_shapes, result_shape):
    """Answers rows that are whole."""
    say("partition", mesh=mesh, arg_shapes=arg_shapes, result_shape=result_shape)
    whole = NamedSharding(mesh, P("x", None))
    local = jax.eval_shape(normalized, jax.ShapeDtypeStruct((10, 16), jnp.float32))
    say("partition_OUTPUT", result_sharding=whole, arg_shardings=(whole,))
    say("partition_OUTPUT", tiled_results=jax.core.ShapedArray(local.shape, local.dtype))
    return mesh, normalized, whole, (whole,)


def main():
    """Runs it on a value divided in both dimensions."""
    jax.config.update("jax_num_cpu_devices", 4)
    normalize.def_partition(
        infer_sharding_from_operands=infer_sharding_from_operands,
        partition=partition,
        sharding_rule="i j -> i j",
    )
    mesh = jax.make_mesh((2, 2), ("x", "y"))
    x = jax.device_put(jnp.arange(320.0).reshape(20, 16), NamedSharding(mesh, P("x", "y")))
    sys.stdout.write("x is divided like this\n")
    sys.stdout.flush()
    visualize_array_sharding(x, use_color=False)
    y = jax.jit(normalize)(x)
    sys.stdout.write(f"type of y: {y.aval}, y.sharding: {y.sharding}\n")
    sys.stdout.flush()
    visualize_array_sharding(y, use_color=False)


main()
