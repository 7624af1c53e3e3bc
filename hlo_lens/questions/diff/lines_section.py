"""Changes by source line as text and tables, a part of ``hlo-lens diff``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.render.table import Table
from hlo_lens.text.units import format_delta, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.questions.diff.line_causes import Cause
    from hlo_lens.questions.diff.line_diff import LineDiff
    from hlo_lens.questions.diff.module_diff import ModuleDiff

MOST_CAUSES = 4
_MOST_LINES = 4
_QUANTITIES = {
    "total_bytes": " must fit",
    "peak_bytes": " at the peak",
    "argument_bytes": " of arguments",
}
SAME_PROGRAM = "none in the program, which is the same"
OTHER_MEMORY = f"{SAME_PROGRAM}: the compiler assigned memory otherwise"
SAME_SOURCE = (
    "none in the program: the texts from before optimizations are the same; compiler, flags or "
    "target differ"
)
OTHER_TOOLS = (
    "no line of your program: the texts from before optimizations differ only in what JAX makes of "
    "the same operations"
)

NOT_FOUND = "not found among the changes of the lines of your program, which are below"


def cause_facts(diff: ModuleDiff) -> Iterator[tuple[str, str]]:
    """Yield the causes of the changes of a module, the first few."""
    lines, program = diff.lines, diff.program
    if lines is None:
        return
    if not lines.causes and program is not None and program.identical:
        has_other_memory = diff.memory is not None and diff.memory.is_changed
        yield "cause", OTHER_MEMORY if has_other_memory else SAME_PROGRAM
    elif not lines.causes and lines.is_source:
        is_changed = any(row.source is not None and row.changed for row in lines.lines)
        other = NOT_FOUND if is_changed else OTHER_TOOLS
        yield "cause", SAME_SOURCE if lines.is_source_equal else other
    elif not lines.causes and any(row.source is not None for row in lines.lines):
        yield "cause", NOT_FOUND
    for cause in lines.causes[:MOST_CAUSES]:
        yield "cause", cause_text(cause)
    more = len(lines.causes) - MOST_CAUSES
    if more > 0:
        yield "cause", f"[{plural(more, 'other cause')}] (--by source)"


def cause_text(cause: Cause) -> str:
    """Return lines, bytes and description of a cause."""
    places = list(cause.sources[:_MOST_LINES])
    more = len(cause.sources) - len(places)
    parts = [", ".join([*places, *([f"{more} more"] if more else [])])] if places else []
    if cause.delta_bytes:
        of = _QUANTITIES.get(cause.delta_bytes_of or "", "")
        parts.append(f"{format_delta(cause.delta_bytes)}{of}")
    parts += [f"{format_delta(cause.delta_wire_bytes)} sent"] if cause.delta_wire_bytes else []
    return "  ".join([*parts, cause.what])


def lines_table(lines: LineDiff, *, is_whole: bool = False) -> Table:
    """Return the lines of the user's program that changed."""
    shown = [
        "source",
        "added",
        "removed",
        "changed",
        "delta_peak_bytes",
        "delta_wire_bytes",
        "what",
    ]
    if lines.is_source is None:  # of a snapshot
        shown = ["source", "delta_peak_bytes", "delta_wire_bytes"]
    table = Table.of(
        lines,
        title="Lines of your program that changed",
        shown=shown,
        notes=("instructions are those after optimizations",) if lines.is_source is False else (),
    )
    return replace(table, is_whole=is_whole, wrapped=("what",))
