"""Names that a text uses and does not define: a part of the text is lost.

An operand counts as defined if any instruction of the module has its name: XLA gives no name twice,
so that a lost line leaves its users behind. The result of a computation has no users; XLA always
marks it ROOT. A text with ``entry_computation_layout`` in its header is one that XLA printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.query import unknown_names

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule


def undefined_names(module: HloModule, *, with_operands: bool = True) -> tuple[str, ...]:
    """Return the names of computations, operands and results that the text of a module lacks.

    Each kind in order. A lost result is called ``ROOT of`` the computation that must have one.

    Args:
        module: The module.
        with_operands: Whether to look for operands too, which takes a microsecond per instruction.
    """
    computations = set(module.links.calls.undefined.values())
    operands = _lost_operands(module) if with_operands else set()
    return (*sorted(computations), *sorted(operands), *_lost_results(module))


def _lost_results(module: HloModule) -> list[str]:
    if "entry_computation_layout" not in module.header:
        return []
    marked = {module.links.owners[row] for row in module.columns.roots}
    if len(marked) == len(module.computations):
        return []
    without = (c for place, c in enumerate(module.computations) if place not in marked)
    return sorted(f"ROOT of {computation.name}" for computation in without)


def _lost_operands(module: HloModule) -> set[str]:
    rows = module.links.undefined_operands()
    names = {name for row in rows for name in module.instruction(row).operand_names if name}
    return unknown_names(module, names) if names else set()
