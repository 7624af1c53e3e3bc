"""Views of the page: the data of each, from facts of the module.

Collectives, parameters, outputs and findings are in the object of ``-f json``; tables are texts as
the commands print them. The memory over the schedule has bytes of each role as changes over the
instants, and values as columns: values below a share of the peak are folded, except those alive at
the peak. Of the instructions those that other views show come first, then values by size, then the
rest in text order, as far as the limits allow.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from itertools import accumulate, chain, islice, pairwise, takewhile
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import END, NAME, NOTHING
from hlo_lens.program.instructions import entry_first, largest_instructions, users_of
from hlo_lens.program.origins import origins, stack_texts
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.collectives.collective import axis_text, collectives
from hlo_lens.questions.collectives.loop_levels import collectives_by, loops, schedule_places
from hlo_lens.questions.collectives.page import (
    collectives_notes,
    collectives_table,
    collectives_text,
    groups_table,
    loop_notes,
    tree_lines,
)
from hlo_lens.questions.diff.page import module_section
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.peak import DESCRIPTIONS, described_values, rows_of_names
from hlo_lens.questions.memory.results import memory_results, peak_by, peak_of
from hlo_lens.questions.memory.roles import ROLES, memory_roles
from hlo_lens.questions.memory.statement import space_name
from hlo_lens.questions.memory.timeline import loop_bands, role_series
from hlo_lens.questions.report.first_page import summary_section
from hlo_lens.questions.sharding.page import pages as sharding_pages
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.questions.sharding.shard import drawings
from hlo_lens.questions.source.lines import in_checkout, own_lines
from hlo_lens.render.result import Column, Unit
from hlo_lens.render.table import Section, Table, cut_table, filled
from hlo_lens.text.errors import printable
from hlo_lens.text.source_files import Checkout
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.devices import Topology
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.loop_levels import LoopLevel
    from hlo_lens.questions.diff.module_diff import ModuleDiff
    from hlo_lens.questions.matching.program_diff import ComputationPair
    from hlo_lens.questions.memory.layout import MemoryLayout, Occupant
    from hlo_lens.questions.memory.peak import PeakMemory
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.render.result import Row
    from hlo_lens.shapes.mesh import Mesh

_ALL = 0
_ROWS = 200
"""Rows of the tables of a section."""


class Subject(NamedTuple):
    """Module that a view shows; of a diff its head, and `base`, None for a snapshot.

    `title` differs from those of other modules; `role` is its place among them. `command_tail` and
    `pair_tail` are arguments of commands on it and on both sides. `objects` are JSON objects by
    command, where the JSON of the page is another one; `verdict` is the sentence below the title.
    """

    analysis: ModuleDump
    title: str
    role: str = ""
    devices: str = ""
    command_tail: str = "PATH"
    base: ModuleDump | None = None
    diff: ModuleDiff | None = None
    pair_tail: str = "BASE HEAD"
    objects: Mapping[str, object] | None = None
    computations: Sequence[ComputationPair] = ()
    verdict: str = ""
    fits: bool | None = None
    topology: Topology | None = None


class Strings:
    """Different strings of a page, without control characters; data has their numbers, or -1."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def number(self, text: str | None) -> int:
        """Return the number of a string, which is added if it is new."""
        return -1 if text is None else self._places.setdefault(printable(text), len(self._places))

    def numbers(self, texts: Iterable[str | None]) -> list[int]:
        """Return the numbers of strings."""
        return [self.number(text) for text in texts]

    @property
    def texts(self) -> list[str]:
        """The strings by number."""
        return list(self._places)


def differences(numbers: Iterable[int]) -> list[int]:
    """Return ascending numbers as differences to the one before, which compress well.

    >>> differences([5, 6, 9])
    [5, 1, 3]
    """
    return [number - last for last, number in pairwise(chain((0,), numbers))]


class View(NamedTuple):
    """A view of the page, drawn by ``scripts/views/NAME.js``, and the reports that have it."""

    name: str
    data: Callable[[Subject, Strings], Mapping[str, object] | None]
    kinds: tuple[str, ...] = ("report", "check", "ls")


def section_object(
    section: Section, rows: int, *, is_leading: bool = False, command: str = ""
) -> dict[str, object]:
    """Return a section: title, facts, drawing, tables of at most `rows` (0 for all), notes.

    `is_leading` states that it precedes the views; `command` prints it.
    """
    return {
        "command": command,
        "is_leading": is_leading,
        "title": printable(section.title),
        "facts": [[label, printable(text)] for label, text in section.facts],
        "drawing": list(map(printable, section.drawing)),
        "tables": [table_object(table, rows) for table in section.shown_tables],
        "notes": [printable(note) for note in section.notes],
    }


def table_object(table: Table, rows: int) -> dict[str, object]:
    """Return a table as texts: columns with meaning and whether they are numbers, rows, sums."""
    cut = cut_table(table, rows)
    return {
        "name": table.name,
        "title": printable(table.title),
        "columns": [[c.name, c.meaning, c.unit is not Unit.NONE] for c in cut.columns],
        "rows": cut.rows,
        "tail": cut.tail,
        "notes": [printable(note) for note in table.notes],
        "command": table.command,
    }


LEAST_SHARE = 1000
"""Values of less than this part of the peak are folded."""

MOST_VALUES = 4000
"""Values of a memory space that are listed, besides those alive at the peak."""

MOST_INSTANTS = 1 << 16
"""Instants that are stored; of a longer schedule each is the largest of some neighbours."""

_CELLS = ("name", "size", "offset", "allocation", "start", "end", "category", "shape")
"""Columns of a value without its role and origin."""

_ROLE_NUMBERS = {role: number for number, role in enumerate(ROLES)}


def _memory(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return the memory of a module over its schedule; None where live ranges are not known."""
    analysis = subject.analysis
    memory = memory_results(analysis)
    if memory is None or not has_schedule(analysis):
        return None
    limit, layout = memory.statement.limit_bytes, memory.layout
    used = (
        c for c in layout.colors if layout.held_bytes(c) or any(layout.temporary_series(c) or ())
    )
    spaces = [_space(analysis, memory, color, strings) for color in used]
    return {
        "source": memory.layout.source,
        "limit": None if limit is None else [limit, memory.statement.limit_source],
        "roles": list(ROLES.items()),
        "spaces": spaces,
        "loops": [[strings.number(one.loop), *one[1:]] for one in loop_bands(analysis)],
    }


def has_schedule(analysis: ModuleDump) -> bool:
    """Return whether the memory of a module over its schedule is known."""
    memory = memory_results(analysis)
    return memory is not None and memory.layout.schedule is not None and memory.peak is not None


def _space(
    analysis: ModuleDump, memory: MemoryResults, color: int, strings: Strings
) -> Mapping[str, object]:
    layout = memory.layout
    peak = memory.peak if color == DEFAULT_SPACE else peak_of(analysis, color)
    series = role_series(analysis, color)
    assert series is not None  # there is a schedule
    assert peak is not None
    held, schedule = layout.held_series(color) or [], layout.schedule or ()
    instants = largest_instants(held, MOST_INSTANTS) if len(held) > MOST_INSTANTS else None
    shown = range(len(schedule)) if instants is None else instants
    names = [schedule[t] if t < len(schedule) else None for t in shown]
    totals = {space.color: space.total_bytes for space in memory.statement.spaces}
    totals[DEFAULT_SPACE] = memory.statement.total_bytes
    listed, folded, least = _temporaries(layout, peak)
    changes = {role: dict(steps) for role, steps in series.changes.items()}
    for role in changes if instants is not None else ():
        sizes = [0, *map(series.series(role).__getitem__, instants or ())]
        steps = enumerate(after - before for before, after in pairwise(sizes))
        changes[role] = {place: step for place, step in steps if step}
    return {
        "color": color,
        "name": space_name(color, memory.backend),
        "length": len(held),
        "instants": None if instants is None else differences(instants),
        "schedule": strings.numbers(names),
        "peak": {"bytes": peak.total_bytes, "position": peak.position},
        "total_bytes": totals.get(color),
        "changes": [
            [_ROLE_NUMBERS[role], differences(steps), list(steps.values())]
            for role, steps in changes.items()
        ],
        "values": _value_columns(analysis, peak, layout, listed, strings),
        "folded": _folded(folded, shown),
        "least_bytes": least,
        "allocations": [
            [allocation.index, allocation.size, allocation.category]
            for allocation in layout.allocations
            if allocation.color == color and allocation.category == "temp"
        ],
    }


def largest_instants(held: Sequence[int], most: int) -> list[int]:
    """Return the largest instant of each few neighbours of a schedule."""
    width = -(-len(held) // most)
    ranges = (range(k, min(k + width, len(held))) for k in range(0, len(held), width))
    return [max(some, key=held.__getitem__) for some in ranges]


def _temporaries(
    layout: MemoryLayout, peak: PeakMemory
) -> tuple[list[Occupant], list[Occupant], int]:
    """Return the temporaries not alive at the peak, listed and folded ones; least listed bytes."""
    alive = {(value.value, value.allocation) for value in peak.live if value.category == "temp"}
    values = layout.values
    others = [
        one
        for one in layout.occupants(peak.color, is_temp=True)
        if (values[one.key].name, values[one.key].allocation) not in alive
    ]
    least = peak.total_bytes // LEAST_SHARE
    large = [occupant for occupant in others if occupant.size >= max(1, least)]
    large.sort(key=lambda occupant: (-occupant.size, occupant.start, occupant.key))
    if len(large) > MOST_VALUES:
        least = large[MOST_VALUES - 1].size + 1
    chosen = {occupant.key for occupant in large[:MOST_VALUES]}
    folded = [occupant for occupant in others if occupant.key not in chosen]
    return large[:MOST_VALUES], folded, least


def _folded(folded: Sequence[Occupant], shown: Sequence[int]) -> Mapping[str, object] | None:
    if not folded:
        return None
    changes = Counter(bisect_left(shown, occupant.start) for occupant in folded)
    changes.subtract(bisect_left(shown, occupant.end + 1) for occupant in folded)
    places = sorted(place for place, change in changes.items() if change)
    sizes = [changes[place] for place in places]
    return {"count": len(folded), "places": differences(places), "changes": sizes}


def _value_columns(
    analysis: ModuleDump,
    peak: PeakMemory,
    layout: MemoryLayout,
    listed: Sequence[Occupant],
    strings: Strings,
) -> Mapping[str, Sequence[object]]:
    rows = [
        (v.value, v.size_bytes, v.offset, v.allocation, v.start, v.end, v.category, v.shape)
        for v in sorted(peak.live, key=lambda value: -value.size_bytes)
    ]
    for occupant in listed:
        value = layout.values[occupant.key]
        place = (value.name, value.size, value.offset, value.allocation)
        rows.append((*place, occupant.start, occupant.end, "temp", value.shape_text))
    columns = dict(zip(_CELLS, zip(*rows, strict=True) if rows else [()] * 8, strict=True))
    names, roles = columns["name"], memory_roles(analysis)
    assert roles is not None
    known = {
        key: strings.numbers(cells) if key in ("name", "category", "shape") else cells
        for key, cells in columns.items()
    }
    found = [roles.of_value(*one) for one in zip(names, columns["allocation"], strict=True)]
    described = described_values(analysis, names)
    return {
        **known,
        "role": [_ROLE_NUMBERS[role.role] for role in found],
        "basis": strings.numbers(role.basis for role in found),
        **{
            key: strings.numbers(one[place] for one in described)
            for place, key in enumerate(DESCRIPTIONS)
        },
    }


_MOST_STORED = 1500
"""Instants of a schedule that are stored; each is the largest of its neighbours."""

MOST_GROUPS = 800
"""Groups of values that are stored of both sides; the others are summed."""

MOST_COMPARED = 600_000
"""Characters of the lines side by side."""

LONGEST_LINE = 1500
"""Characters of one line."""

_SNAPSHOT = (
    "A snapshot has figures alone. Memory over the schedule, at both peaks, and programs side by "
    "side need the dumps: hlo-lens diff BASE_DIR HEAD_DIR."
)
_METADATA = re.compile(r', metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}]*\})*\}')
"""Metadata of an instruction, with strings and one level of braces."""


def _diff(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return both schedules, groups at both peaks, and lines side by side; None outside a diff.

    With a snapshot the text alone is known.
    """
    base, head, found = subject.base, subject.analysis, subject.diff
    if found is None:
        return None
    whole = module_section(found)
    facts = tuple(one for one in whole.facts if one[0] != "memory")  # the head of the page has it
    is_whole = base is not None and (bool(head.files) or head.has_hlo)
    groups: dict[str, object] = {"op": None}
    spaces: list[Mapping[str, object]] = []
    if base is not None and is_whole:
        groups = {by: _groups(base, head, by, strings) for by in ("op", "source")}
        spaces = _spaces(base, head, strings)
    return {
        "note": "" if is_whole else _SNAPSHOT,
        "section": section_object(replace(whole, facts=facts), _ROWS),
        "spaces": spaces,
        "groups": groups,
        "computations": _computations(subject),
        "computation_count": len(subject.computations),
    }


def _spaces(base: ModuleDump, head: ModuleDump, strings: Strings) -> list[Mapping[str, object]]:
    before, after = memory_results(base), memory_results(head)
    if before is None or after is None:
        return []
    found: list[Mapping[str, object]] = []
    for color in sorted({*before.layout.colors, *after.layout.colors}):
        sides = [_side(one.layout, color, strings) for one in (before, after)]
        if any(side is not None and side["largest"] for side in sides):
            name = space_name(color, after.backend)
            found.append({"color": color, "name": name, "base": sides[0], "head": sides[1]})
    return found


def _side(layout: MemoryLayout, color: int, strings: Strings) -> dict[str, object] | None:
    held, schedule = layout.held_series(color), layout.schedule
    if held is None or schedule is None:
        return None
    instants = largest_instants(held, _MOST_STORED)
    last = len(schedule)
    return {
        "length": len(held),
        "largest": max(held),
        "instants": differences(instants),
        "held": [held[k] for k in instants],
        "schedule": strings.numbers(schedule[k] if k < last else None for k in instants),
    }


def _groups(
    base: ModuleDump, head: ModuleDump, by: str, strings: Strings
) -> Mapping[str, object] | None:
    """Return label, bytes before and bytes after of each group of values at the peaks.

    They are the largest groups of both sides, and the sums of the others.
    """
    sides = peak_by(base, by), peak_by(head, by)
    if sides[0] is None or sides[1] is None:
        return None
    sizes = [Counter({group[0]: group[1] for group in side.groups}) for side in sides if side]
    both = sizes[0] | sizes[1]  # the larger of each
    labels = sorted({*sizes[0], *sizes[1]}, key=lambda one: (-both[one], one))
    listed, others = labels[:MOST_GROUPS], labels[MOST_GROUPS:]
    made: dict[str, object] = {"label": strings.numbers(listed), "others": len(others)}
    for key, side in zip(("base", "head"), sizes, strict=True):
        made[key] = [side[one] for one in listed]
        made[f"others_{key}"] = sum(side[one] for one in others)
    return made


def _computations(subject: Subject) -> list[Mapping[str, object]]:
    base = subject.base
    if base is None or not base.has_hlo or not subject.analysis.has_hlo:
        return []
    modules = hlo_text(base), hlo_text(subject.analysis)
    left = MOST_COMPARED
    found: list[Mapping[str, object]] = []
    for pair in subject.computations:
        lines = [
            (one.kind, one.base, None)
            if one.kind == "left out"
            else (one.kind, _line(modules[0], one.base), _line(modules[1], one.head))
            for one in pair.lines
        ]
        left -= sum(len(str(text)) for line in lines for text in line[1:] if text)
        if left < 0:
            break
        found.append({"base": printable(pair.base), "head": printable(pair.head), "lines": lines})
    return found


def _line(module: HloModule, row: int | None) -> str | None:
    if row is None:
        return None
    text = module.columns.text(row, NAME, END)
    text = _METADATA.sub("", text, count=1)
    cut = f" ... [{len(text) - LONGEST_LINE:,} more]" if len(text) > LONGEST_LINE else ""
    return printable(text[:LONGEST_LINE]) + cut


MOST_LEVELS = 500
"""Levels of loops that are listed; the others are counted."""

_MOST_NOTES = 20
_MOST_DEVICES = 1024
"""Devices of a mesh that are drawn with their ids."""

_NO_AXIS = {"?": "unknown axis", "-": "no axis"}


def _summary(subject: Subject, strings: Strings) -> Mapping[str, object]:
    section = summary_section(subject.analysis)
    tables = () if has_schedule(subject.analysis) else section.tables
    command = f"hlo-lens report {subject.command_tail} --full"
    return section_object(replace(section, tables=tables), _ROWS, command=command)


def _source(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    analysis = subject.analysis
    if not analysis.has_hlo or not own_lines(analysis).lines:
        return None
    found = in_checkout(own_lines(analysis), hlo_text(analysis), Checkout.here())
    known = {column.name: column for column in found.COLUMNS}
    amounts = ("peak_bytes", "wire_bytes", "flops", "flops_share")
    names = (*amounts, "times", "copies")
    meaning = "line of the program; a click on its bytes shows its values"
    place = Column("source", Unit.NONE, meaning)
    lines = sorted(found.lines, key=lambda one: (-(one.peak_bytes or 0), -(one.flops or 0)))
    rows: list[Row] = [
        (
            *(getattr(one, name) or None for name in amounts),
            *(count if (count or 0) > 1 else None for count in (one.times, one.copies)),
            f"{one.source_file}:{one.source_line}",
            ", ".join(one.findings) or None,
            "[changed since the compile]" if one.is_changed else one.text,
        )
        for one in lines
    ]
    columns = (*(known[name] for name in names), place, known["findings"], known["text"])
    shown = filled(columns, rows, [column.name for column in columns])
    residuals = tuple(
        (*(amount or None for amount in sums), None, None, None, label, None, None)
        for label, sums in found.residuals.items()
    )
    table = Table(
        name="source",
        title="Lines of the program",
        columns=columns,
        read_rows=lambda: rows,
        row_count=len(rows),
        residual_rows=residuals,
        totals=found.totals(),
        shown=tuple(shown),
    )
    return {"table": table_object(table, _ALL)}


def _collectives(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    analysis = subject.analysis
    if not analysis.has_hlo or not collectives(analysis).collectives:
        return None
    result, places = collectives(analysis), schedule_places(analysis)
    memory = memory_results(analysis)
    axes = collectives_by(result.collectives, "axis").groups
    tables = (groups_table(analysis), groups_table(analysis, "axis"))
    singles = collectives_table(result)
    shown = tuple(name for name in singles.shown if name != "element_type")  # the sums have it
    return {
        "text": collectives_text(analysis),
        "notes": [printable(note) for note in collectives_notes(result)],
        "tables": [table_object(table, _ALL) for table in tables],
        "singles": table_object(replace(singles, shown=shown), _ALL),
        "lanes": [one.group for one in collectives_by(result.collectives).groups],
        "axes": [
            (one.group, _NO_AXIS.get(one.group, axis_text(one.group)), one.wire_bytes_per_run)
            for one in axes
        ],
        "length": None if memory is None else memory.layout.length,
        "start": [-1 if place.start is None else place.start for place in places],
        "end": [-1 if place.end is None else place.end for place in places],
        "meshes": [_mesh_object(use.mesh, subject.topology) for use in result.meshes],
    }


def _mesh_object(mesh: Mesh, topology: Topology | None) -> Mapping[str, object]:
    devices, places = mesh.device_ids, () if topology is None else topology.places
    is_drawn, chips = len(devices) <= _MOST_DEVICES, None
    if is_drawn and all(k < len(places) for k in devices):
        chips = {key: getattr(topology, key) for key in ("name", "sizes", "wraps")}
        chips["places"] = [places[k] for k in devices]
    return {
        "axes": list(zip(mesh.axis_names, mesh.axis_sizes, strict=True)),
        "devices": list(devices) if is_drawn else None,
        "topology": chips,
    }


def _loops(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    analysis = subject.analysis
    if not analysis.has_hlo or len(loops(analysis).levels) < 2:
        return None
    known = loops(analysis)
    levels = _merged_levels(known.levels)
    left = len(levels) - MOST_LEVELS
    notes = [f"[{plural(left, 'other level')}]"] if left > 0 else []
    notes += islice(loop_notes(known), _MOST_NOTES)
    drawing = tree_lines(replace(known, levels=tuple(levels[:MOST_LEVELS])))
    section = Section(title="Loops", drawing=tuple(drawing), notes=tuple(notes))
    command = f"hlo-lens collectives {subject.command_tail} --by loop"
    return section_object(section, _ROWS, command=command)


def _merged_levels(levels: Sequence[LoopLevel]) -> list[LoopLevel]:
    """Return levels with equal ones once, and their number in place of the name.

    Levels of one parent are equal if they differ in names alone, and all that is inside them too.
    Each is before those inside it; those inside are of the first of the equal ones.
    """
    first = levels[0].depth if levels else 0
    starts = [k for k, level in enumerate(levels) if level.depth == first]
    equal: dict[tuple[object, ...], list[Sequence[LoopLevel]]] = {}
    for start, end in pairwise([*starts, len(levels)]):
        key = tuple(map(_shape, levels[start:end]))
        equal.setdefault(key, []).append(levels[start:end])
    found: list[LoopLevel] = []
    for parts in equal.values():
        top, *inside = parts[0]
        word = f"{len(parts)} x {'while' if top.kind == 'loop' else top.loop}"
        found.append(top if len(parts) == 1 else replace(top, loop=word))
        found.extend(_merged_levels(inside))
    return found


def _shape(level: LoopLevel) -> tuple[object, ...]:
    """Return all of a level but its names."""
    sent = tuple((one.kind, one.axis, one.wire_bytes_per_run) for one in level.collectives)
    runs = level.kind, level.branch, level.trip_count, level.times, level.is_at_most
    return (level.depth, *runs, level.instructions, level.source, sent)


def _sharding(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    results = sharding_results(subject.analysis)
    if results is None or results.table.num_devices < 2 or not results.is_complete:
        return None
    (page,) = sharding_pages([subject.analysis])
    section, drawn = page.sections[0], drawings(subject.analysis)
    tables = tuple(  # in the order of the drawings; the page sorts them
        replace(table, read_shown=None, title=table.name.capitalize())
        if table.name in ("parameters", "outputs")
        else table
        for table in section.tables
    )
    section = replace(section, facts=section.facts[1:], tables=tables)
    shown = section_object(section, _ALL)
    return {"section": shown, "drawing": drawn.numbers, "drawings": drawn.drawings}


MOST_INSTRUCTIONS = 2500
"""Instructions that are listed."""

MOST_CHARACTERS = 600_000
"""Characters of their texts together."""

LONGEST_TEXT = 1200
"""Characters of one text; the number of further ones is stored."""

MOST_EDGES = 16
"""Operands, and users, that are listed of one instruction; the others are counted."""

_MOST_OF_A_KIND = 1000


def _program(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    analysis = subject.analysis
    if not analysis.has_hlo or not len(hlo_text(analysis).columns):
        return None
    rows, module, known = _rows(analysis), hlo_text(analysis), origins(analysis)
    owners = module.links.owners
    texts = [module.columns.text(row, NAME, END) for row in rows]
    operands = [_edges(analysis, strings, module.links.operands_of(row)) for row in rows]
    users = [_edges(analysis, strings, users_of(module, row)) for row in rows]
    found = [known.of_row(row) for row in rows]
    stacks = (" < ".join(stack_texts(known.stack(one))) or None for one in found)
    return {
        "count": len(module.columns),
        "name": strings.numbers(module.columns.names(rows)),
        "opcode": strings.numbers(module.opcodes[row] for row in rows),
        "shape": strings.numbers(printable(module.shape_texts[row]) for row in rows),
        "computation": strings.numbers(module.computations[owners[row]].name for row in rows),
        "text": [printable(text[:LONGEST_TEXT]) for text in texts],
        "more": [max(0, len(text) - LONGEST_TEXT) for text in texts],
        "operands": [names for names, _ in operands],
        "operand_count": [count for _, count in operands],
        "users": [names for names, _ in users],
        "user_count": [count for _, count in users],
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
    starts, ends = module.columns.column(NAME), module.columns.column(END)
    rows = list(islice(wanted, MOST_INSTRUCTIONS))
    sums = accumulate(min(ends[row] - starts[row], LONGEST_TEXT) for row in rows)
    fitting = takewhile(MOST_CHARACTERS.__ge__, sums)
    return entry_first(module, [row for row, _ in zip(rows, fitting, strict=False)])


def _names(analysis: ModuleDump) -> Iterator[str]:
    """Yield the names of instructions that other views show, the important ones first."""
    found = collectives(analysis).collectives[:_MOST_OF_A_KIND]
    for one in found:
        yield from filter(None, (one.name, one.started_by, one.ended_by))
    yield from (level.loop for level in loops(analysis).levels[:_MOST_OF_A_KIND])
    memory = memory_results(analysis)
    if memory is not None:
        peak = peak_of(analysis, 0)
        yield from () if peak is None else (one.value.partition("{")[0] for one in peak.live)
        values = sorted(memory.layout.values, key=lambda one: -one.size)
        yield from (one.instruction_name for one in values[:_MOST_OF_A_KIND])
    yield from (str(row[0]) for row in islice(largest_instructions(analysis).rows(), 100))


def _edges(analysis: ModuleDump, strings: Strings, rows: Sequence[int]) -> tuple[list[int], int]:
    """Return the names of the first rows, and the number of all."""
    known = [row for row in rows if row != NOTHING]
    names = hlo_text(analysis).columns.names(known[:MOST_EDGES])
    return strings.numbers(names), len(known)


_OF_MEMORY = {"values_of": "memory"}
"""The view What is alive shows the data of another."""

VIEWS = (
    View("memory", _memory),
    View("diff", _diff, ("diff", "check")),
    View("alive", lambda one, _: _OF_MEMORY if has_schedule(one.analysis) else None),
    View("source", _source),
    View("summary", _summary),
    View("collectives", _collectives),
    View("loops", _loops),
    View("sharding", _sharding),
    View("program", _program),
)
