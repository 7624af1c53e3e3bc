"""What a text uses and does not define: a part of it is lost, or it is a part of a text.

An operand counts as defined if any instruction of the module has its name: XLA gives no name twice,
so that a lost line leaves its users behind. The result of a computation, which nothing uses, XLA
always marks ROOT; what has ``entry_computation_layout`` in its header XLA has printed.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from hlo_lens.model.hlo.columns import END, OPERANDS, OPERANDS_END, STRIDE
from hlo_lens.model.hlo.instruction import CALLING_ATTRIBUTES
from hlo_lens.model.hlo.query import unknown_names

if TYPE_CHECKING:
    from collections.abc import Collection

    from hlo_lens.model.hlo.query import InstructionTable

_CALLED = re.compile(rf", (?:{'|'.join(CALLING_ATTRIBUTES)})=(\{{[^{{}}]*\}}|%?[\w.-]+)")
_NAME = re.compile(r"[\w.-]+")
_OPERAND = re.compile(r"%([\w.-]+)")
_PLAIN_OPERAND = re.compile(r"(?<![\w.%-])([A-Za-z_][\w.-]*)\s*(?=[,#\n]|\Z)")


def undefined_names(table: InstructionTable, *, with_operands: bool = True) -> tuple[str, ...]:
    """Return what the text of a module lacks: names of computations, of operands, of lost results.

    Each in order. A result is called ``ROOT of`` the computation that must have one.

    Args:
        table: The module's instructions.
        with_operands: Whether to look for operands too, which takes ten times as long.
    """
    computations = _lost_computations(table)
    operands = _lost_operands(table) if with_operands else set()
    return (*sorted(computations), *sorted(operands), *_lost_results(table))


def _lost_computations(table: InstructionTable) -> set[str]:
    module = table.module
    text, spans = module.columns.source.text, module.columns.spans
    rows: dict[str, int] = {}  # the first that has a value, as written
    for row in table.rows_where(lambda traits: traits.is_caller or not traits.is_known):
        at = row * STRIDE
        for match in _CALLED.finditer(text, spans[at + OPERANDS_END], spans[at + END]):
            rows.setdefault(match[1], row)
    defined = {computation.name for computation in module.computations}
    if defined.issuperset(_NAME.findall("\n".join(rows))):
        return set()
    # what looks like a value may stand in a string
    suspects = {row for value, row in rows.items() if not defined.issuperset(_NAME.findall(value))}
    called = (table.instruction(row).called_computations for row in suspects)
    return {*chain(*called)} - defined


def _lost_results(table: InstructionTable) -> list[str]:
    module = table.module
    if "entry_computation_layout" not in module.header:
        return []
    marked = {table.owners[row] for row in module.columns.roots}
    if len(marked) == len(module.computations):
        return []
    without = (c for place, c in enumerate(module.computations) if place not in marked)
    return sorted(f"ROOT of {computation.name}" for computation in without)


def _lost_operands(table: InstructionTable) -> set[str]:
    module = table.module
    text, spans = module.columns.source.text, module.columns.spans
    written: dict[str, int] = {}
    for row in table.rows_where(lambda traits: not traits.is_nullary):
        at = row * STRIDE
        written.setdefault(text[spans[at + OPERANDS] : spans[at + OPERANDS_END]], row)
    suspects = unknown_names(module, _names(written))
    if not suspects:
        return set()
    rows = {row for operands, row in written.items() if not suspects.isdisjoint(_names([operands]))}
    names = {name for row in rows for name in table.instruction(row).operand_names}
    return unknown_names(module, names)


def _names(written: Collection[str]) -> set[str]:
    """Return the names in operand lists, and other words where no ``%`` tells names."""
    plain = [operands for operands in written if "%" not in operands]
    return {*_OPERAND.findall("\n".join(written)), *_PLAIN_OPERAND.findall("\n".join(plain))}
