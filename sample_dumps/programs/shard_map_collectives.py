"""Every collective of `jax.lax` that lowers on the backend, inside one `shard_map`.

The mesh is ('data', 'model') = (2, 4). Each collective stands in its own `jax.named_scope`, whose
name is part of `op_name` in the dump, and works on the result of the one before, so XLA cannot
merge two of them. After the straight-line part come a scan (5 trips), a scan in a scan (3 by 2), a
`while_loop` whose trip count depends on data, and a `cond` with different collectives in its
branches. `planted["collectives"]` says how often each one runs per step.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from programs.common import Program, abstract, device_mesh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

AXES = {"data": 2, "model": 4}
MODEL = AXES["model"]
ROWS, COLUMNS = 128, 256
"""Shape of the f32 block that each device holds between two collectives."""

SCAN_TRIPS = 5
OUTER_TRIPS = 3
INNER_TRIPS = 2

RING = [(source, (source + 1) % MODEL) for source in range(MODEL)]
PAIRS = [(0, 1), (2, 3)]
SWAP = [1, 0, 3, 2]


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of the program.

    Attributes:
        scope: Name of its `named_scope`, unique in the program.
        opcode: The HLO opcode that jax lowers it to; a `send` comes with its `recv`.
        axes: Mesh axes it runs over.
        run: From the block of one device to a block of the same shape.
        operand_shape: Shape of the HLO instruction's operand on one device, before optimization.
        result_shape: Shape of its result, likewise.
        group_size: Devices in one group, where that is not the product of the axes' sizes.
    """

    scope: str
    opcode: str
    axes: tuple[str, ...]
    run: Callable[[jax.Array], jax.Array]
    operand_shape: tuple[int, ...] = (ROWS, COLUMNS)
    result_shape: tuple[int, ...] = (ROWS, COLUMNS)
    group_size: int | None = None

    def __call__(self, x: jax.Array) -> jax.Array:
        """Returns the collective of `x`, after an elementwise step that keeps it from merging."""
        with jax.named_scope(self.scope):
            return self.run(jnp.sin(x))

    def fact(self, runs_in: str, times: int | None, branch: str | None = None) -> dict[str, object]:
        """Returns what is known about it by construction.

        Args:
            runs_in: The part of the program it stands in.
            times: Executions per step; None if that depends on data.
            branch: The branch of the `cond` it stands in; `times` then counts if it is taken.
        """
        size = self.group_size or math.prod(AXES[axis] for axis in self.axes)
        return {
            "scope": self.scope,
            "opcode": self.opcode,
            "axes": list(self.axes),
            "group_size": size,
            "dtype": "f32",
            "operand_shape": list(self.operand_shape),
            "result_shape": list(self.result_shape),
            "in": runs_in,
            "branch": branch,
            "times_per_step": times,
        }


def gather_and_fold(x: jax.Array) -> jax.Array:
    """Returns the sum over 'model' of all blocks, by way of an all-gather along the rows."""
    return jnp.sin(lax.all_gather(x, "model", tiled=True)).reshape(MODEL, ROWS, COLUMNS).sum(0)


def scatter_and_repeat(x: jax.Array) -> jax.Array:
    """Returns the reduce-scattered block repeated to its former shape."""
    return jnp.tile(lax.psum_scatter(x, "model", tiled=True), (MODEL, 1))


def exchange_tiled(x: jax.Array) -> jax.Array:
    """Returns column blocks exchanged for row blocks over 'model'."""
    return lax.all_to_all(x, "model", 1, 0, tiled=True).reshape(ROWS, COLUMNS)


def exchange_untiled(x: jax.Array) -> jax.Array:
    """Returns the first of four row groups exchanged for the place along 'model'."""
    return lax.all_to_all(x.reshape(MODEL, -1, COLUMNS), "model", 0, 0).reshape(ROWS, COLUMNS)


def exchange_ragged(x: jax.Array) -> jax.Array:
    """Returns row groups exchanged over 'model' with sizes given at run time."""
    rows = ROWS // MODEL
    place = lax.axis_index("model").astype(jnp.int32)
    offsets = jnp.arange(MODEL, dtype=jnp.int32) * rows
    sizes = jnp.full((MODEL,), rows, jnp.int32)
    targets = jnp.full((MODEL,), place * rows, jnp.int32)
    return lax.ragged_all_to_all(
        x, jnp.zeros_like(x), offsets, sizes, targets, sizes, axis_name="model"
    )


def send_and_receive(x: jax.Array) -> jax.Array:
    """Returns the block of the neighbour, by a `send` and its `recv`; zeros at the senders."""
    token = lax.psend(x, "model", PAIRS)
    return lax.precv(token, jax.ShapeDtypeStruct(x.shape, x.dtype), "model", PAIRS)


def mean_groups(x: jax.Array) -> jax.Array:
    """Returns the mean over pairs of neighbours along 'model'."""
    gathered = lax.all_gather(x, "model", axis_index_groups=[[0, 1], [2, 3]])
    return jnp.sin(gathered).mean(0)


GATHERED = (MODEL * ROWS, COLUMNS)
SCATTERED = (ROWS // MODEL, COLUMNS)
OVER_MODEL = functools.partial(Collective, axes=("model",))

STRAIGHT = (
    OVER_MODEL("psum_model", "all-reduce", run=lambda x: lax.psum(x, "model")),
    Collective("psum_data", "all-reduce", ("data",), lambda x: lax.psum(x, "data")),
    Collective("psum_both", "all-reduce", ("data", "model"), lambda x: lax.psum(x, tuple(AXES))),
    OVER_MODEL("pmean_model", "all-reduce", run=lambda x: lax.pmean(x, "model")),
    Collective("pmax_data", "all-reduce", ("data",), lambda x: lax.pmax(x, "data")),
    OVER_MODEL("pmin_model", "all-reduce", run=lambda x: lax.pmin(x, "model")),
    OVER_MODEL("all_gather_model", "all-gather", run=gather_and_fold, result_shape=GATHERED),
    OVER_MODEL(
        "all_gather_pairs",
        "all-gather",
        run=mean_groups,
        result_shape=(2, ROWS, COLUMNS),
        group_size=2,
    ),
    OVER_MODEL(
        "psum_scatter_model", "reduce-scatter", run=scatter_and_repeat, result_shape=SCATTERED
    ),
    OVER_MODEL("all_to_all_tiled", "all-to-all", run=exchange_tiled),
    OVER_MODEL(
        "all_to_all_untiled",
        "all-to-all",
        run=exchange_untiled,
        operand_shape=(MODEL, ROWS // MODEL, COLUMNS),
        result_shape=(MODEL, ROWS // MODEL, COLUMNS),
    ),
    OVER_MODEL(
        "ppermute_model", "collective-permute", run=lambda x: lax.ppermute(x, "model", RING)
    ),
    Collective(
        "ppermute_data",
        "collective-permute",
        ("data",),
        lambda x: lax.ppermute(x, "data", [(0, 1), (1, 0)]),
    ),
    OVER_MODEL(
        "pshuffle_model", "collective-permute", run=lambda x: lax.pshuffle(x, "model", SWAP)
    ),
)

ONLY_ON: dict[str, tuple[Collective, ...]] = {
    "cpu": (),
    "tpu": (OVER_MODEL("ragged_all_to_all", "ragged-all-to-all", run=exchange_ragged),),
    "gpu": (
        OVER_MODEL("ragged_all_to_all", "ragged-all-to-all", run=exchange_ragged),
        OVER_MODEL("psend_precv", "send", run=send_and_receive),
        OVER_MODEL(
            "pbroadcast_model",
            "collective-broadcast",
            run=lambda x: lax.pbroadcast(x, ("model",), 0),
        ),
    ),
}

SCAN_SUM = OVER_MODEL("scan_psum", "all-reduce", run=lambda x: lax.psum(x, "model"))
SCAN_SHIFT = OVER_MODEL(
    "scan_ppermute", "collective-permute", run=lambda x: lax.ppermute(x, "model", RING)
)
OUTER_GATHER = OVER_MODEL(
    "outer_all_gather", "all-gather", run=gather_and_fold, result_shape=GATHERED
)
INNER_SCATTER = OVER_MODEL(
    "inner_psum_scatter", "reduce-scatter", run=scatter_and_repeat, result_shape=SCATTERED
)
WHILE_MAX = Collective("while_pmax", "all-reduce", ("data",), lambda x: lax.pmax(x, "data"))
COND_TRUE = OVER_MODEL("cond_true_all_to_all", "all-to-all", run=exchange_tiled)
COND_FALSE = Collective("cond_false_psum", "all-reduce", ("data",), lambda x: lax.psum(x, "data"))


def loops(x: jax.Array, limit: jax.Array, flag: jax.Array) -> jax.Array:
    """Returns `x` after the scan, the nested scans, the `while_loop` and the `cond`."""

    def scanned(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        return SCAN_SHIFT(SCAN_SUM(carry)), None

    def inner(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        return INNER_SCATTER(carry), None

    def outer(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        carry, _ = lax.scan(inner, OUTER_GATHER(carry), length=INNER_TRIPS)
        return carry, None

    x, _ = lax.scan(scanned, x, length=SCAN_TRIPS)
    x, _ = lax.scan(outer, x, length=OUTER_TRIPS)
    _, x = lax.while_loop(
        lambda state: state[0] < limit, lambda state: (state[0] + 1, WHILE_MAX(state[1])), (0, x)
    )
    return lax.cond(flag, COND_TRUE, COND_FALSE, x)


def planted(straight: Sequence[Collective]) -> dict[str, object]:
    """Returns the trip counts and how often each collective runs per step."""
    nested = OUTER_TRIPS * INNER_TRIPS
    return {
        "loops": [
            {"what": "scan", "trip_count": SCAN_TRIPS},
            {"what": "outer scan", "trip_count": OUTER_TRIPS},
            {"what": "inner scan, in the outer scan", "trip_count": INNER_TRIPS},
            {"what": "while_loop up to an argument", "trip_count": None},
        ],
        "collectives": [
            *(collective.fact("entry", 1) for collective in straight),
            SCAN_SUM.fact("scan", SCAN_TRIPS),
            SCAN_SHIFT.fact("scan", SCAN_TRIPS),
            OUTER_GATHER.fact("outer scan", OUTER_TRIPS),
            INNER_SCATTER.fact("inner scan", nested),
            WHILE_MAX.fact("while_loop", None),
            COND_TRUE.fact("cond", 1, "true"),
            COND_FALSE.fact("cond", 1, "false"),
        ],
    }


def build(devices: Sequence[jax.Device], backend: str) -> Program:
    """Returns the program for eight devices, with the collectives that `backend` has."""
    mesh = device_mesh(devices, **AXES)
    straight = STRAIGHT + ONLY_ON[backend]
    split = PartitionSpec(("data", "model"))

    def collectives(x: jax.Array, limit: jax.Array, flag: jax.Array) -> jax.Array:
        def per_device(x: jax.Array, limit: jax.Array, flag: jax.Array) -> jax.Array:
            for collective in straight:
                x = collective(x)
            return loops(x, limit, flag)

        return jax.shard_map(
            per_device,
            mesh=mesh,
            in_specs=(split, PartitionSpec(), PartitionSpec()),
            out_specs=split,
            check_vma=False,
        )(x, limit, flag)

    x = abstract(mesh, (math.prod(AXES.values()) * ROWS, COLUMNS), jnp.float32, ("data", "model"))
    return Program(
        step=jax.jit(collectives),
        arguments=(x, abstract(mesh, (), jnp.int32), abstract(mesh, (), jnp.bool_)),
        mesh=mesh,
        planted=planted(straight),
    )
