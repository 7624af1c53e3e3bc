"""Choice of the module that a command about one program uses; small ones around it are helpers.

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
    programs = _without_copies(modules)
    if len(modules) < 2 or not programs:
        return None
    sizes = [_known_bytes(module) for module in programs]
    *rest, largest = sorted(size or 0 for size in sizes)
    if not largest or None in sizes or any(size > MOST_OF_LEADING * largest for size in rest):
        return None
    lead = programs[sizes.index(largest)]
    most = max((flops(one).at_least or 0 for one in programs if one is not lead), default=0)
    if most > _FEW_FLOPS and most > MOST_OF_LEADING * (flops(lead).at_least or 0):
        return None
    return lead


def _without_copies(modules: Sequence[ModuleDump]) -> list[ModuleDump]:
    """Return modules without texts that a framework printed of one that XLA numbered."""
    titles = {module.title for module in modules if module.number is not None}
    return [one for one in modules if one.number is not None or one.title not in titles]


def with_leading_alone(modules: Sequence[ModuleDump]) -> tuple[Sequence[ModuleDump], str]:
    """Return modules without helpers, and a line that says so; no line where there are none.

    Commands need no ``--module`` for a module that leads alone. Logs are kept, and texts that may
    be of the same program.
    """
    programs = [module for module in modules if module.log is None]
    lead = leading_module(programs)
    others = [one for one in _without_copies(programs) if one is not lead]
    if lead is None or not others:
        return modules, ""
    kept = [one for one in modules if not any(one is other for other in others)]
    lead.is_only = len(programs) == len(others) + 1
    most = max(_known_bytes(one) or 0 for one in others)
    rest = plural(len(others), "other module")
    return kept, f"{lead.title} alone; {rest} of at most {format_bytes(most)}: --module . has all"


def meant_modules(program: Program, module: str | None = None) -> Sequence[ModuleDump]:
    """Return the modules of a program that are meant: no helpers, if none is chosen by name.

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
    lead = leading_module(modules) if module is None else None
    if lead is not None or len(modules) == 1:
        return lead or modules[0]
    names = listed([one.name for one in modules], _NAMES_SHOWN)
    raise UsageError(
        f"there are {len(modules)} modules; choose one with module=, or pass one of "
        f"load(...).modules: {names}"
    )


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
