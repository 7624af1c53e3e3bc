"""The result of an all-reduce is cut to the device's own part at once.

What:
    Each use of an all-reduce's result is a slice at an offset that depends on the device: a
    reduce-scatter that was not formed.

Why it costs:
    An all-reduce sends 2(n-1)/n of its payload, a reduce-scatter half as much; and the whole result
    is in memory for a while.

Fix:
    Ask for the divided result where it is made: with_sharding_constraint on the gradient with the
    sharding of its parameter, out_shardings of the step, or lax.psum_scatter in a shard_map.

Fine when:
    The dump is of a CPU, whose compiler forms no reduce-scatter: TPU's and GPU's do, also behind
    this text. Then it is an info, and what-if --target shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.summary import backend_of_dump, hlo_text
from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import (
    Transfer,
    by_line,
    finding_of,
    is_cut_to_own_part,
    shape_of,
    subject,
    transfers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding


def sliced_all_reduce(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line whose all-reduces are only sliced."""
    module = hlo_text(known)
    sliced = [
        one
        for one in transfers(known)
        if one.collective.kind == "all-reduce"
        and one.parts
        and all(is_cut_to_own_part(module, part.result) for part in one.parts)
    ]
    asked = _asked(known) if sliced else frozenset()
    for group in by_line(one.collective for one in sliced if _dimensions(module, one) not in asked):
        yield finding_of(
            group,
            f"{subject(group)}: each device uses only its own part of the result",
            "divide the result where it is made: with_sharding_constraint, or lax.psum_scatter",
            saved_share=0.5,
            severity=Severity.INFO if backend_of_dump(known) == "cpu" else None,
        )


def _asked(known: ModuleDump) -> frozenset[object]:
    """Return the dimensions of the operands of reduce-scatters that the program asks for.

    XLA may perform them as an all-reduce and a slice, which is its choice.
    """
    before = known.before
    if before is None:
        return frozenset()
    rows = (row for row, opcode in enumerate(before.opcodes) if opcode == "reduce-scatter")
    shapes = (before.instruction(row).operand_shape(0) for row in rows)
    return frozenset(one.dimensions for one in shapes if one is not None)


def _dimensions(module: HloModule, one: Transfer) -> object:
    shape = shape_of(module, one.parts[0].operand)
    return None if shape is None else shape.dimensions


RULE = ModuleRule("C004", sliced_all_reduce)
