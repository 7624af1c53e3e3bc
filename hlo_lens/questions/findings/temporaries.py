"""Savings of changes of temporary values.

What such a change saves is not only the bytes of the values that it removes: values computed from
them change too, and XLA fuses, schedules and places the rest anew. Certain is only that no more can
be saved than all temporaries take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Saves
from hlo_lens.questions.memory.results import memory_results

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump


def saves_of_temporaries(known: ModuleDump, own_bytes: int, *, other_bytes: int = 0) -> Saves:
    """Return a saving of some bytes of their own, and at most of all temporaries.

    Args:
        known: The module.
        own_bytes: Bytes of temporaries that the change removes.
        other_bytes: Bytes that it removes of arguments, results and constants.
    """
    own = own_bytes + other_bytes
    memory = memory_results(known)
    temporary = None if memory is None else memory.statement.temp_bytes
    if temporary is None:
        return Saves(own_bytes=own)
    return Saves.at_most(max(temporary, own_bytes) + other_bytes, own_bytes=own)
