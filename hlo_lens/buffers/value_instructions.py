"""Instructions that define the used values of a buffer assignment, as a module.

XLA prints each with its value (``from instruction:``). They have opcode, operands and metadata, but
no computations: the module has one, in the order of the values, without those of thread-local
allocations, which are inside reducers and the like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from hlo_lens.buffers.assignment import BufferAssignment
    from hlo_lens.buffers.values import BufferValues
    from hlo_lens.hlo.module import HloModule


def value_instructions(assignment: BufferAssignment, values: BufferValues) -> HloModule | None:
    """Return a module of the defining instructions; None if none is printed.

    Args:
        assignment: Allocations of the values.
        values: The used values.
    """
    inner = {
        value.instruction_name
        for allocation in assignment.allocations
        if allocation.is_thread_local
        for value in allocation.values
    }
    texts = dict.fromkeys(
        value.instruction_text for value in values if value.instruction_name not in inner
    )
    lines = [f"  {text}\n" for text in texts if text]
    if not lines:
        return None
    text = "".join(
        ("HloModule values\n\nENTRY values {\n", *lines[:-1], "  ROOT", lines[-1], "}\n")
    )
    try:
        return parse_hlo(text)
    except DumpSyntaxError:
        return None
