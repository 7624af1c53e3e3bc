"""Names of instructions and modules in a dump, for the completion of a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.load import quick_names

if TYPE_CHECKING:
    from collections.abc import Sequence


def instruction_names(path: str) -> Sequence[str]:
    """Return the names of the instructions of a small dump."""
    return quick_names.instruction_names(path)


def collective_names(path: str) -> Sequence[str]:
    """Return the names of the collectives of a small dump."""
    return quick_names.instruction_names(path, COLLECTIVE_KINDS)


def module_names(path: str) -> Sequence[str]:
    """Return the names of the modules of a dump."""
    return quick_names.module_names(path)
