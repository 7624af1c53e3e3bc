"""The same value is gathered more than once.

What:
    Two all-gathers of one computation have the same operand, dimension and groups: the second
    makes what the first made.

Why it costs:
    The bytes of the second all-gather on the wire. XLA merges equal all-gathers, unless something
    keeps them apart: different channels or metadata of the partitioner, a barrier, a copy or a
    conversion between operand and gather.

Fix:
    Give the value its gathered sharding once, before its uses, with all other axes that divide it:
    y = jax.lax.with_sharding_constraint(x, P(None, "model")), and use y. It is in memory from the
    first use to the last then.

Fine when:
    XLA gathers it again to save memory (``.remat`` in the name), or one is of the forward and one
    of the backward pass (fully sharded parameters are gathered again on purpose, since the gathered
    ones do not fit): those are no findings. The two are so far apart that keeping the result costs
    more memory than there is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import Transfer, finding_of, maker_of, shape_of, transfers
from hlo_lens.questions.memory.roles import BACKWARD, RECOMPUTED
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.shapes.named_sharding import axes_of_entry, spec_of_axes, written_spec
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.value_flow import Value
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.findings.finding import Finding

_REMAT = ".remat"
"""Part of the names of instructions that XLA computes again to save memory."""

_AGAIN = (BACKWARD, RECOMPUTED, "checkpoint")
"""Parts of the operation paths of the backward pass."""


def repeated_all_gather(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each value that several all-gathers make."""
    groups: dict[object, list[Transfer]] = {}
    for one in transfers(known):
        is_own = _REMAT not in one.collective.name
        if one.collective.kind == "all-gather" and len(one.parts) == 1 and is_own:
            groups.setdefault(_key(known, one), []).append(one)
    for found in groups.values():
        if len(found) < 2:
            continue
        gathers = [one.collective for one in found]
        first = gathers[0]
        what = first.argument or _name(hlo_text(known), found[0].parts[0].operand)
        shape = shape_of(hlo_text(known), found[0].parts[0].result)
        held = None if shape is None else shape.padded_size_bytes
        cost = "" if held is None else f"; gathered once, it takes {format_bytes(held)} meanwhile"
        made = finding_of(
            gathers[1:],
            f"{what} is gathered {len(found)} times over {first.axis}, first by {first.name}{cost}",
            f"gather it once before its uses, over {first.axis} alone: "
            f"y = jax.lax.with_sharding_constraint(x, {_spec(known, first)}), use y",
        )
        yield replace(made, has_cost=True)


def _spec(known: ModuleDump, gather: Collective) -> str:
    """Return the spec of a gathered argument without the axes of the gather."""
    shardings = sharding_results(known)
    values = () if shardings is None else shardings.table.parameters
    own = next((one.spec for one in values if one.value.name == gather.argument), None)
    if own is None or gather.axes is None:
        return f"its PartitionSpec without {gather.axis}"
    kept = [tuple(a for a in axes_of_entry(one) if a not in gather.axes) for one in own]
    return written_spec(spec_of_axes(kept))


def _key(known: ModuleDump, one: Transfer) -> object:
    """Return the key that all-gathers of one result share."""
    made = maker_of(hlo_text(known), one.parts[0].operand)
    shape = shape_of(hlo_text(known), one.parts[0].result)
    path = one.collective.op_name or ""
    is_again = any(word in path for word in _AGAIN)
    if made is None:
        return one
    collective = one.collective
    dimensions = None if shape is None else (shape.element_type, shape.dimensions)
    return collective.computation, made, dimensions, collective.groups, is_again


def _name(module: HloModule, operand: Value) -> str:
    """Return the name of what an array is made by; an element as XLA prints it, ``w#1``."""
    made = maker_of(module, operand)
    if made is None:
        return "one value"
    source = module.instruction(made.row)
    if source.opcode == "parameter" and not made.element and source.op_name:
        return source.op_name
    return "#".join([source.name, *map(str, made.element)])


RULE = ModuleRule("C007", repeated_all_gather)
