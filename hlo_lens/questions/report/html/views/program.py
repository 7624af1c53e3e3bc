"""Data of the views Summary (head of the text report), Your code and Program.

Program has text, operands, users and origin of the instructions on the page. Collectives and the
work that overlaps them come first, then loops, values by size, and the rest in text order, as far
as the limits allow.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import END, NAME, NOTHING
from hlo_lens.program.instructions import entry_first, largest_instructions, users_of
from hlo_lens.program.origins import origins, stack_texts
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.loop_levels import loops, schedule_places
from hlo_lens.questions.memory.peak import rows_of_names
from hlo_lens.questions.memory.results import memory_results, peak_of
from hlo_lens.questions.report.html.data import View, section_object
from hlo_lens.questions.report.module_page import (
    head_facts,
    head_notes,
    leading_tables,
    memory_lines,
)
from hlo_lens.questions.source.checkout import in_checkout
from hlo_lens.questions.source.lines import own_lines
from hlo_lens.render.table import Section
from hlo_lens.text.errors import printable
from hlo_lens.text.source_files import Checkout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.report.html.data import Strings, Subject

MOST_INSTRUCTIONS = 2500
"""Instructions that are listed."""

MOST_CHARACTERS = 600_000
"""Characters of their texts together."""

LONGEST_TEXT = 1200
"""Characters of one text; the number of further ones is stored."""

MOST_EDGES = 16
"""Operands, and users, that are listed of one instruction; the others are counted."""

_MOST_OF_A_KIND = 1000

_ROWS = 10
"""Rows of the tables of the summary."""


def _summary(subject: Subject, strings: Strings) -> Mapping[str, object]:
    """Return the head of the module, and the table of its peak where no view has its lines."""
    del strings
    analysis = subject.analysis
    if not analysis.has_hlo:
        files = ("files", ", ".join(analysis.files))
        section = Section(title=subject.title, facts=(files, *memory_lines(analysis)))
        return section_object(section, _ROWS)
    tables = islice(leading_tables(analysis, subject.command_tail), 1)
    section = Section(
        title=subject.title,
        facts=tuple(f for f in head_facts(analysis, subject.role) if f[0] != "verdict"),
        tables=() if own_lines(analysis).lines else tuple(tables),
        notes=tuple(head_notes(analysis)),
    )
    return section_object(section, _ROWS)


def _source(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return the lines of the program with what they cost, and their text in the checkout."""
    del strings
    analysis = subject.analysis
    if not analysis.has_hlo or not own_lines(analysis).lines:
        return None
    found = in_checkout(own_lines(analysis), hlo_text(analysis), Checkout.here())
    residuals = {label: amounts._asdict() for label, amounts in found.residuals.items()}
    return {"rows": found.objects(), "residuals": residuals, "whole": found.whole._asdict()}


def _program(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return columns of instructions; None without HLO text."""
    analysis = subject.analysis
    if not analysis.has_hlo or not len(hlo_text(analysis).columns):
        return None
    rows = _rows(analysis)
    module = hlo_text(analysis)
    names = list(module.columns.names(rows))
    owners = module.links.owners
    texts = [_text(analysis, row) for row in rows]
    operands = [_edges(analysis, strings, module.links.operands_of(row)) for row in rows]
    users = [_edges(analysis, strings, users_of(module, row)) for row in rows]
    return {
        "count": len(module.columns),
        "name": strings.numbers(names),
        "opcode": strings.numbers(module.opcodes[row] for row in rows),
        "shape": strings.numbers(printable(module.shape_texts[row]) for row in rows),
        "computation": strings.numbers(module.computations[owners[row]].name for row in rows),
        "text": [text for text, _ in texts],
        "more": [more for _, more in texts],
        "operands": [names for names, _ in operands],
        "operand_count": [count for _, count in operands],
        "users": [names for names, _ in users],
        "user_count": [count for _, count in users],
        "calls": {place: calls for place, row in enumerate(rows) if (calls := _calls(module, row))},
        "callers": _callers(analysis, strings, {owners[row] for row in rows}),
        **_origins(analysis, rows, strings),
    }


def _calls(module: HloModule, row: int) -> list[tuple[str, str]]:
    """Return attribute and name of the computations that an instruction calls."""
    names, found = module.computation_names, module.links.calls.of_row(row)[:MOST_EDGES]
    return [(one.role, printable(names[one.place])) for one in found if one.place != NOTHING]


def _callers(
    analysis: ModuleDump, strings: Strings, places: Iterable[int]
) -> Mapping[int, tuple[list[int], int]]:
    """Return the callers of computations, by the number of the computation's name."""
    module = hlo_text(analysis)
    found = {}
    for place in sorted(places):
        rows = dict.fromkeys(call.row for call in module.links.calls.of_computation(place))
        if rows:
            name = strings.number(module.computation_names[place])
            found[name] = _edges(analysis, strings, list(rows))
    return found


def _origins(
    analysis: ModuleDump, rows: Sequence[int], strings: Strings
) -> Mapping[str, list[int]]:
    """Return source line, operation path and call stack of instructions."""
    known = origins(analysis)
    found = [known.of_row(row) for row in rows]
    stacks = (" < ".join(stack_texts(known.stack(one))) or None for one in found)
    return {
        "source": strings.numbers(one.marked_source for one in found),
        "op_name": strings.numbers(one.op_name for one in found),
        "stack": strings.numbers(stacks),
    }


def _rows(analysis: ModuleDump) -> list[int]:
    """Return the rows that are listed: those of the entry, then the others in text order."""
    module = hlo_text(analysis)
    names = dict.fromkeys(_names(analysis))
    known = rows_of_names(module, set(names))
    first = (known[name] for name in names if name in known)
    wanted = dict.fromkeys(chain(first, range(len(module.columns))))
    chosen, left = [], MOST_CHARACTERS
    starts, ends = module.columns.column(NAME), module.columns.column(END)
    for row in islice(wanted, MOST_INSTRUCTIONS):
        left -= min(ends[row] - starts[row], LONGEST_TEXT)
        if left < 0:
            break
        chosen.append(row)
    return entry_first(module, chosen)


def _names(analysis: ModuleDump) -> Iterator[str]:
    """Yield the names of instructions that other views show, the important ones first."""
    found = collectives(analysis).collectives[:_MOST_OF_A_KIND]
    for one in found:
        yield from filter(None, (one.name, one.started_by, one.ended_by))
    yield from (level.loop for level in loops(analysis).levels[:_MOST_OF_A_KIND])
    for place in schedule_places(analysis)[:_MOST_OF_A_KIND]:
        yield from place.work or ()
    memory = memory_results(analysis)
    if memory is not None:
        peak = peak_of(analysis, 0)
        yield from () if peak is None else (one.value.partition("{")[0] for one in peak.live)
        values = sorted(memory.layout.values, key=lambda one: -one.size)
        yield from (one.instruction_name for one in values[:_MOST_OF_A_KIND])
    yield from (str(row[0]) for row in islice(largest_instructions(analysis).rows(), 100))


def _text(analysis: ModuleDump, row: int) -> tuple[str, int]:
    """Return the text of an instruction, cut, and the number of characters that are left out."""
    whole = hlo_text(analysis).columns.text(row, NAME, END)
    return printable(whole[:LONGEST_TEXT]), max(0, len(whole) - LONGEST_TEXT)


def _edges(analysis: ModuleDump, strings: Strings, rows: Sequence[int]) -> tuple[list[int], int]:
    """Return the names of the first rows, and the number of all."""
    known = [row for row in rows if row != NOTHING]
    names = hlo_text(analysis).columns.names(known[:MOST_EDGES])
    return strings.numbers(names), len(known)


VIEWS = (
    View("source", 25, _source),
    View("summary", 30, _summary),
    View("program", 70, _program),
)
