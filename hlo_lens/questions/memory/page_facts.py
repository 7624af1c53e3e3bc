"""Facts and notes on the memory of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.memory.makers import instructions_by_name, loop_path
from hlo_lens.questions.memory.statement import memory_amount, space_name
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.questions.memory.peak import PeakMemory
    from hlo_lens.questions.memory.results import MemoryResults


def memory_facts(
    results: MemoryResults, instant: PeakMemory | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the lines on the memory of a module and on the bytes in use at an instant.

    Args:
        results: The memory of the module.
        instant: An instant or memory space other than the peak of the default one.
    """
    statement = results.statement
    layout = results.layout
    word = "" if layout.is_complete else "of a text that is not complete: "

    def text(figure: str, size_bytes: int) -> str:
        return memory_amount(statement, figure, size_bytes, results.stated).text(format_bytes)

    yield (
        "memory",
        f"{word}{text('total', statement.total_bytes)} must fit{_same_device_text(results)}: "
        f"arguments {format_bytes(statement.argument_bytes)} "
        f"({format_bytes(statement.alias_bytes)} reused for outputs), "
        f"outputs {text('output', statement.output_bytes)}, "
        f"temp {text('temp', statement.temp_bytes)}, "
        f"constants {format_bytes(statement.constant_bytes)}",
    )
    peak = results.peak
    if peak is not None:
        bound = "" if layout.is_complete and layout.are_ranges_complete else "at least "
        size = text("peak", peak.total_bytes)
        yield "peak", f"{word}{bound}{size} {where_text(results, peak)}"
    if instant is not None and instant is not peak:
        space = space_name(instant.color, results.backend)
        what = "peak" if instant.is_peak else "in use"
        size = text("peak", instant.total_bytes)
        yield f"{what} {space}", f"{word}{size} {where_text(results, instant)}"


def _same_device_text(results: MemoryResults) -> str:
    """Return the bytes of other memory spaces that the same device must hold; empty for none."""
    return "".join(
        f", plus {format_bytes(space.total_bytes or 0)} {space.name} memory (color {space.color}) "
        "on the same device"
        for space in results.statement.on_same_device(results.backend)
    )


def where_text(results: MemoryResults, peak: PeakMemory) -> str:
    """Return the place of an instant in the program: position, instruction, loop, source line."""
    length = len(results.layout.schedule or ())
    if peak.position is None:
        return "during the whole program (no temporaries)"
    if peak.instruction is None:
        return f"at the end of the schedule ({peak.position} of {length})"
    text = f"at {peak.instruction} ({peak.position} of {length})"
    if results.module is None:
        return text
    instruction = instructions_by_name(results.module, {peak.instruction}).get(peak.instruction)
    if instruction is None:
        return text
    loops = loop_path(instruction)
    if loops:
        text += f" in {' > '.join(loops)}"
    elif not instruction.computation.is_entry:
        text += f" in {instruction.computation.name}"
    source = peak.instruction_origin.marked_source
    return text if source is None else f"{text}, {source}"


def memory_notes(results: MemoryResults) -> Iterator[str]:
    """Yield the limits of the numbers, the missing dumps, and the figures of other tools."""
    yield from results.statement.notes
    yield from _framework_notes(results)
    layout = results.layout
    if not layout.is_complete:
        parts = [f"{plural(layout.unassigned, 'value')} without memory"] * bool(layout.unassigned)
        if layout.misfits:
            parts.append(f"{plural(layout.misfits, 'size')} that do not fit the others")
        lost = f": {', '.join(parts)}" if parts else ""
        yield f"the buffer assignment is not complete{lost}; sums are of the part that is there"
    if results.unknown_values:
        yield (
            f"{plural(results.unknown_values, 'value')} of instructions that the HLO text does "
            "not have"
        )
    if not layout.are_ranges_complete:
        yield "the live ranges are not complete: the peak is at least what is found"
    if layout.schedule is not None and layout.unplaced_held and not layout.are_ranges_complete:
        yield f"{plural(layout.unplaced_held, 'held value')} without a live range"
    if layout.schedule is not None and layout.unplaced:
        yield f"{plural(layout.unplaced, 'temporary value')} without a live range, in no instant"
    for name, flag in results.missing:
        yield f"missing: {name}; XLA writes it with {flag}"
    yield from _other_tools(results)


def _framework_notes(results: MemoryResults) -> Iterator[str]:
    for name, ours, theirs in results.mismatches:
        yield (
            f"memory_analysis() has {name} {theirs:,}, hlo-lens {ours:,}: trust neither until the "
            "difference is explained"
        )
    if results.stated and not results.mismatches:
        is_told = any(value for name, value in results.stated.items() if "size_in" in name)
        yield (
            "equal to memory_analysis()"
            if is_told
            else "memory_analysis() is all zeros here, so nothing was compared"
        )


def _other_tools(results: MemoryResults) -> Iterator[str]:
    """Yield the peaks of other tools that differ from ours."""
    texts = []
    for one in results.other_peaks:
        size = "not known" if one.peak_bytes is None else format_bytes(one.peak_bytes)
        texts.append(f"{one.tool} {size} ({one.definition})")
    if texts:
        yield f"peaks of other tools: {'; '.join(texts)}"
