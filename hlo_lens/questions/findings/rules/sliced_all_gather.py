"""A value is gathered and then cut into parts at once: it could not be resharded directly.

What:
    Each use of an all-gather's result is a slice at an offset that depends on the device, or
    another all-gather of which this holds. Where the gathers reach all devices, the value is whole
    on every one of them: the partitioner warns of an "involuntary full rematerialization".

Why it costs:
    The bytes of the whole value on the wire, and in memory, where an all-to-all, or a slice of
    what the device has, would do. Typical causes: a reshape that splits or merges a sharded
    dimension so that the wanted tiling is no regular part of it; a constraint that moves an axis to
    another dimension; jax.lax.all_gather of tokens in a shard_map, of which each device takes those
    of its experts.

Fix:
    Keep the sharded dimension through the reshape (shard the part that stays major), or give the
    sharding with jax.lax.with_sharding_constraint before and after it. In a shard_map:
    jax.lax.all_to_all.

Fine when:
    The value is small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import (
    Transfer,
    finding_of,
    is_cut_to_own_part,
    transfers,
    uses_of,
)
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding


_KEEP = (
    "keep the sharded dimension through the reshape, or give the sharding before and after it with "
    "jax.lax.with_sharding_constraint"
)
_EXCHANGE = (
    "exchange the parts instead of gathering all: jax.lax.all_to_all(x, axis, split_axis, "
    "concat_axis, tiled=True)"
)


def sliced_all_gather(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line whose all-gathers are only sliced."""
    module = hlo_text(known)
    chains: dict[str | None, list[list[Transfer]]] = {}
    for chain in _chains(module, transfers(known)):
        chains.setdefault(chain[-1].collective.source, []).append(chain)
    devices = module.num_partitions * module.replica_count
    for found in chains.values():
        gathers = [one.collective for chain in found for one in chain]
        size = max(one.payload_bytes or 0 for one in gathers)
        is_full = any(
            math.prod(one.collective.group_size or 0 for one in chain) == devices for chain in found
        )
        whole = " whole on every device (involuntary full rematerialization)" if is_full else ""
        subject = plural(len(gathers), "all-gather")
        is_asked = (gathers[-1].op_name or "").endswith("/all_gather")
        yield finding_of(
            gathers,
            f"{subject}: up to {format_bytes(size)}{whole}, then cut into each device's part",
            _EXCHANGE if is_asked else _KEEP,
        )


def _chains(module: HloModule, found: Sequence[Transfer]) -> Iterator[list[Transfer]]:
    """Yield chains of all-gathers, each the only use of the one before, the last only sliced."""
    gathers = [one for one in found if one.collective.kind == "all-gather" and len(one.parts) == 1]
    by_name = {(one.collective.computation, one.collective.name): one for one in gathers}
    before: dict[tuple[str, str], Transfer] = {}
    ends: list[Transfer] = []
    for one in gathers:
        uses = uses_of(module, one.parts[0].result)
        if is_cut_to_own_part(module, one.parts[0].result):
            ends.append(one)
        elif uses and len(uses) == 1:
            user = uses[0].instruction
            key = (user.computation.name, user.name)
            if key in by_name:
                before[key] = one
    for end in ends:
        chain = [end]
        while (first := before.get(_key(chain[0]))) is not None and first not in chain:
            chain.insert(0, first)
        yield chain


def _key(one: Transfer) -> tuple[str, str]:
    return one.collective.computation, one.collective.name


RULE = ModuleRule("C005", sliced_all_gather)
