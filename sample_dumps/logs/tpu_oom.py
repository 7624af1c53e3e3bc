"""Two programs that do not fit into a TPU, for the compiler's messages; there is no TPU.

`train_step` keeps the activations of all layers; `invert` works on matrices so small that the
device pads them to 32 times their size. Argument: name of a topology.
"""

import sys

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

LAYERS, WIDTH, TOKENS, MATRICES = 8, 2048, 1 << 18, 1 << 23


def layer(hidden, weight):
    """Returns the next activations, for `lax.scan`."""
    return jax.nn.gelu(hidden @ weight), None


def loss(weights, hidden):
    """Returns the loss after all layers."""
    hidden, _ = jax.lax.scan(layer, hidden, weights)
    return (hidden.astype(jnp.float32) ** 2).sum()


def train_step(weights, hidden):
    """Returns the new weights."""
    return weights - jax.grad(loss)(weights, hidden)


def invert(matrices):
    """Returns the inverses of many small matrices."""
    return jnp.linalg.inv(matrices + jnp.eye(4))


def say(text):
    """Writes a line to standard output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(topology):
    """Compiles both programs for one device of a topology."""
    device = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[0]

    def abstract(shape, dtype):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=SingleDeviceSharding(device))

    weights = abstract((LAYERS, WIDTH, WIDTH), jnp.bfloat16)
    hidden = abstract((TOKENS, WIDTH), jnp.bfloat16)
    matrices = abstract((MATRICES, 4, 4), jnp.float32)
    for program, arguments in ((train_step, (weights, hidden)), (invert, (matrices,))):
        say(f"compiling {program.__name__} for one {device.device_kind}")
        try:
            jax.jit(program).lower(*arguments).compile()
            say("compiled")
        except Exception as error:
            say(f"{type(error).__name__}: {error}")
    say("done")


main(sys.argv[1])
