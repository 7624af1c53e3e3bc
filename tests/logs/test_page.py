"""Page of a log: memory messages of running programs."""

from __future__ import annotations

from hlo_lens.logs.log import parse_log
from hlo_lens.logs.page import log_sections

FAILED = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
    "allocate 1073741824 bytes.\n"
)


def test_a_failed_allocation_without_a_dump_names_the_next_command() -> None:
    notes = [note for one in log_sections("l", parse_log(FAILED)) for note in one.notes]
    assert any(note.endswith(": hlo-lens report DUMP --log LOG") for note in notes)
