"""The module that a question about one program means: the one beside which others are helpers.

A process compiles many small programs around its step: constants, random keys, conversions.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hlo_lens.load.fact import fact
from hlo_lens.load.programs import Program, modules_of
from hlo_lens.program.flops import flops
from hlo_lens.program.signature import entry_signature
from hlo_lens.text.errors import HloLensError, UsageError
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump

MOST_OF_LEADING = 0.01
"""Share of the leading module's memory, and of its FLOP, that a helper has at most."""

_FEW_FLOPS = 1_000_000
"""FLOP of a helper that are few beside those of any step."""

_NAMES_SHOWN = 8


def leading_module(modules: Sequence[ModuleDump]) -> ModuleDump | None:
    """Return the module beside which all others are helpers; None where there is none.

    A module whose text is cut, or whose memory is not known, is no helper.
    """
    if len(modules) < 2:
        return None
    sizes = [_known_bytes(module) for module in modules]
    largest = max(sizes, key=lambda size: size or 0)
    if not largest or None in sizes:
        return None
    lead = modules[sizes.index(largest)]
    others = [(one, size) for one, size in zip(modules, sizes, strict=True) if one is not lead]
    if any((size or 0) > MOST_OF_LEADING * largest for _, size in others):
        return None
    most = max(flops(one).at_least or 0 for one, _ in others)
    if most > _FEW_FLOPS and most > MOST_OF_LEADING * (flops(lead).at_least or 0):
        return None
    return lead


def with_leading_alone(modules: Sequence[ModuleDump]) -> tuple[Sequence[ModuleDump], str]:
    """Return the leading module alone, and a line that says so; else all modules, and no line.

    Commands need no ``--module`` for a module that leads. Logs are kept.
    """
    programs = [module for module in modules if module.log is None]
    lead = leading_module(programs)
    if lead is None:
        return modules, ""
    lead.is_only = True
    most = max(_known_bytes(module) or 0 for module in programs if module is not lead)
    rest = plural(len(programs) - 1, "other module")
    note = f"{lead.title} alone; {rest} of at most {format_bytes(most)}: --module . has all"
    return [module for module in modules if module is lead or module.log is not None], note


def meant_modules(program: Program, module: str | None = None) -> Sequence[ModuleDump]:
    """Return the modules of a program that are meant: the leading one, if none is chosen by name.

    A line of the logger ``hlo_lens`` says so.
    """
    modules = modules_of(program, module=module)
    if module is not None:
        return modules
    chosen, note = with_leading_alone(modules)
    if note:
        logging.getLogger("hlo_lens").warning(note.replace("--module .", "module='.'"))
    return chosen


def one_module(program: Program, module: str | None = None) -> ModuleDump:
    """Return the only module of a program, or the leading one.

    Raises:
        UsageError: If there are several and none leads, or if there are none.
    """
    modules = meant_modules(program, module)
    if len(modules) != 1:
        names = listed([one.name for one in modules], _NAMES_SHOWN)
        raise UsageError(
            f"there are {len(modules)} modules; choose one with module=, or pass one of "
            f"load(...).modules: {names}"
        )
    return modules[0]


@fact
def _known_bytes(module: ModuleDump) -> int | None:
    """Return the bytes that a module allocates, or those of its arguments and results.

    None where they are not known, or the text is not whole.
    """
    hlo = module.hlo
    if hlo is None or hlo.is_truncated or not hlo.computations:
        return None
    try:
        assignment = module.buffer_assignment
    except HloLensError:
        return None
    if assignment is not None:
        return assignment.allocated_bytes
    signature = entry_signature(module)
    sizes = [value.size_bytes for value in (*signature.parameters, *signature.outputs)]
    return None if None in sizes else sum(filter(None, sizes))
