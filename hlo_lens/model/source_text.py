"""The text from before optimizations, which can be compiled again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.text.dump_files import BEFORE

if TYPE_CHECKING:
    from hlo_lens.model.dump import ModuleDump


def has_program(dump: ModuleDump) -> bool:
    """Whether a dump has a module's text from before optimizations."""
    return dump.stage == BEFORE or dump.before_text is not None
