"""Programs that JAX and XLA warn about: a reshard through full copies, donations without use.

Its standard error is the log. Eight fake CPU devices; XLA_FLAGS of the caller may ask for dumps.
"""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P


def reshape_across(x):
    """Returns a reshape whose two sides are divided along other dimensions."""
    rows = jax.lax.with_sharding_constraint(jnp.sin(x).reshape(384, 128), P(("y", "x"), None))
    turned = jnp.exp(jnp.cos(rows).T.reshape(128, 32, 12))
    return jax.lax.with_sharding_constraint(turned, P("x", None, "y"))


def update(weights, scratch, step):
    """Returns new weights; the other two arguments have no output of their shapes."""
    return weights * 0.5 + scratch.sum() + step.sum()


def main():
    """Compiles both programs."""
    jax.config.update("jax_num_cpu_devices", 8)
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto, AxisType.Auto))
    with jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else mesh:
        value = jax.ShapeDtypeStruct(
            (32, 12, 128), jnp.float32, sharding=NamedSharding(mesh, P("x", "y"))
        )
        jax.jit(reshape_across).lower(value).compile()
    arrays = [
        jax.ShapeDtypeStruct(shape, dtype)
        for shape, dtype in (((128, 4), jnp.float32), ((32, 7), jnp.float32), ((3,), jnp.bfloat16))
    ]
    jax.jit(update, donate_argnums=(0, 1, 2)).lower(*arrays).compile()


main()
