"""Limit of the estimates of memory that are computed together with other results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.text.shell_words import shell_word

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump

MOST_ESTIMATED = 50_000
"""Instructions of the largest module whose memory is estimated together with other results.

An estimate takes about 12 us per instruction: half a second for so many.
"""


def not_estimated_text(instructions: int, path: str, name: str) -> str:
    """Return why the memory of a module was not estimated, and the command that does.

    Args:
        instructions: Number of its instructions.
        path: File, folder or archive that it was read from; empty if unknown.
        name: Its name, or address.
    """
    command = f"hlo-lens memory {shell_word(path) if path else 'PATH'} --module {shell_word(name)}"
    return (
        f"not estimated: {instructions:,} instructions, more than {MOST_ESTIMATED:,}; "
        f"for an estimate: {command}"
    )


def exceeds_limit(module: ModuleDump, text: HloModule) -> bool:
    """Return whether estimates are limited and a text has too many instructions for one."""
    return module.given.limits_estimate and len(text.columns) > MOST_ESTIMATED


def is_estimate_left_out(module: ModuleDump) -> bool:
    """Return whether memory could be estimated, but the module has too many instructions."""
    if module.buffers.assignment is not None or module.hlo is None:
        return False
    return module.hlo.is_scheduled and exceeds_limit(module, module.hlo)
