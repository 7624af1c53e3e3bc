"""What pages of programs share: the module they are about, marks of origins, texts without HLO.

A process compiles many small programs around its step (constants, random keys, conversions): the
module beside which the others are small leads. Texts that are no compiled program (buffer texts,
logs, StableHLO, call trees) have sections here.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from hlo_lens.load.fact import fact
from hlo_lens.load.programs import Program, modules_of
from hlo_lens.program.flops import flops
from hlo_lens.program.origins import INFERRED, marked
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import NOT_COMPILED, no_hlo_text
from hlo_lens.render.table import Section, Table
from hlo_lens.render.to_json import ModulePage
from hlo_lens.text.dump_kinds import TEXT_FLAGS
from hlo_lens.text.errors import HloLensError, UsageError
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.hlo.lowered import LoweredModule, LoweredValue
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.render.result import Row
    from hlo_lens.render.table import Table


def module_head(dump: ModuleDump) -> dict[str, object]:
    """Return the keys that every JSON object of a module begins with."""
    return {"name": dump.name, "stage": dump.stage, "files": list(dump.files)}


def page_without_hlo(dump: ModuleDump, **parts: object) -> ModulePage:
    """Return the page of a module without HLO text: a note, and a JSON object of these parts."""
    return ModulePage(
        sections=(Section(title=dump.name, notes=(no_hlo_text(dump),)),),
        make_object=lambda: {**module_head(dump), **parts},
    )


_ROWS = 1000
"""Rows that are searched for a mark."""

LEGEND = (
    f"{INFERRED} inferred: not of the instruction's own metadata, but of what it runs, is computed "
    "from or is used by (hlo-lens help source)"
)


def with_marks(table: Table) -> Table:
    """Return a table whose inferred source lines are marked, with the legend if there are any.

    People see the name of the argument that a value is computed from in place of the operation
    path.
    """
    places = {column.name: place for place, column in enumerate(table.columns)}
    source, basis = places["source"], places["origin_basis"]
    op_name, argument = places["op_name"], places.get("argument")

    def shown(row: Row) -> Row:
        cells = list(row)
        if row[source] is not None:
            found = None if row[basis] is None else str(row[basis])
            cells[source] = marked(str(row[source]), found)
        if argument is not None:
            cells[op_name] = row[argument] or row[op_name]
        return tuple(cells)

    return _with_legend(table, source, shown)


def with_marked_groups(table: Table) -> Table:
    """Return a table of groups; labels of which some bytes are inferred are marked."""
    places = {column.name: place for place, column in enumerate(table.columns)}
    group, inferred = places["group"], places["inferred_bytes"]

    def shown(row: Row) -> Row:
        label = f"{row[group]} {INFERRED}" if row[inferred] else row[group]
        return (*row[:group], label, *row[group + 1 :])

    return _with_legend(table, group, shown)


def _with_legend(table: Table, place: int, shown: Callable[[Row], Row]) -> Table:
    read = table.read_shown or table.read_rows
    marks = (str(shown(row)[place] or "") for row in islice(read(), _ROWS))
    is_marked = any(mark.endswith(f" {INFERRED}") for mark in marks)
    notes = (*table.notes, LEGEND) if is_marked else table.notes
    return replace(table, read_shown=lambda: map(shown, read()), notes=notes)


def text_sections(module: ModuleDump, topic: str | None = None) -> Iterator[Section]:
    """Yield a section for each text of a module without HLO text.

    For the topic ``memory`` or ``shardings`` those about it, with those of a program that is not
    compiled.
    """
    if topic != "shardings":
        yield from _buffer_sections(module)
    log = module.log
    if log is not None:
        from hlo_lens.logs.page import MEMORY, SHARDINGS, WARNINGS, log_sections

        has = {MEMORY: log.has_memory, SHARDINGS: log.shardings is not None, None: True}
        if has[topic]:
            topics = (MEMORY, WARNINGS, SHARDINGS) if topic is None else (topic,)
            yield from log_sections(module.name, log, topics)
    yield from _lowered_sections(module)
    if module.call_trees is not None and topic is None:
        from hlo_lens.call_trees.page import drawn_trees, tree_section

        yield from map(tree_section, drawn_trees(module.name, module.call_trees))


def text_objects(module: ModuleDump) -> dict[str, object]:
    """Return the JSON objects of the log, StableHLO and call trees that a module has."""
    objects: dict[str, object] = {}
    if module.log is not None:
        from hlo_lens.logs.page import log_object

        objects["log"] = log_object(module.log)
    if module.lowered is not None:
        objects["lowered"] = _lowered_object(module.lowered)
    if module.call_trees is not None:
        from hlo_lens.call_trees.page import drawn_trees, trees_object

        trees = drawn_trees(module.name, module.call_trees)
        objects["call_trees"] = trees_object(module.call_trees, trees)
    return objects


# ---- StableHLO ----------------------------------------------------------------------------------


def _lowered_sections(module: ModuleDump) -> Iterator[Section]:
    lowered = module.lowered
    if lowered is None:
        return
    partitions, replicas = lowered.num_partitions, lowered.replica_count
    parts = [plural(partitions, "partition")] if partitions is not None else []
    parts += [plural(replicas, "replica")] if replicas is not None else []
    meshes = ", ".join(f"@{name} {mesh}" for name, mesh in lowered.meshes.items())
    facts = (
        ("program", f"StableHLO, {NOT_COMPILED}"),
        ("devices", " x ".join(parts) or "not printed"),
        ("meshes", meshes or "none"),
        ("arguments", _sum(lowered.arguments)),
        ("donated", _sum([one for one in lowered.arguments or () if one.is_donated])),
        ("results", _sum(lowered.results)),
        ("operations", str(lowered.operations.total())),
    )
    yield Section(
        title=lowered.name or module.name,
        facts=facts,
        notes=tuple(str(gap) for gap in lowered.gaps),
    )


def _lowered_object(lowered: LoweredModule) -> dict[str, object]:
    return {
        "name": lowered.name,
        "num_partitions": lowered.num_partitions,
        "replica_count": lowered.replica_count,
        "meshes": {name: str(mesh) for name, mesh in lowered.meshes.items()},
        "arguments": _objects(lowered.arguments),
        "results": _objects(lowered.results),
        "operations": dict(lowered.operations.most_common()),
        "custom_calls": dict(lowered.custom_calls.most_common()),
    }


def _sum(values: Sequence[LoweredValue] | None) -> str:
    """Return number and bytes of some values, global and on each device."""
    if values is None:
        return "not known: the signature could not be read"
    known = [one.size_bytes for one in values]
    if not values or None in known:
        return plural(len(values), "value") if values else "none"
    total = sum(size for size in known if size is not None)
    devices = [one.device_bytes for one in values if one.device_bytes is not None]
    sharded = ""
    if devices:
        of = "" if len(devices) == len(values) else f" of {len(devices)} with a sharding"
        sharded = f"; {format_bytes(sum(devices))} on each device{of}"
    return f"{plural(len(values), 'value')}, {format_bytes(total)} in all{sharded}"


def _objects(values: Sequence[LoweredValue] | None) -> list[dict[str, object]] | None:
    if values is None:
        return None
    names = ["size_bytes", "device_bytes", "sharding_text", "is_donated", "output_number"]
    return [
        {
            "name": value.name,
            "shape": value.type_text if value.shape is None else str(value.shape),
            **{name: getattr(value, name) for name in names},
        }
        for value in values
    ]


# ---- buffer texts -------------------------------------------------------------------------------


def _buffer_sections(module: ModuleDump) -> Iterator[Section]:
    """Yield a section for each buffer-side text of a module without a buffer assignment."""
    from hlo_lens.logs.page import gap_notes

    usage, ranges, values = module.memory_usage_report, module.live_range, module.buffer_values
    if usage is not None:
        spaces = [(f"{one.name} ({one.color})", one.total_bytes) for one in usage.spaces]
        facts = [("total", f"{format_bytes(usage.total_bytes)} in all memory spaces")]
        if usage.is_by_memory_space:
            facts += [(name, format_bytes(size)) for name, size in spaces]
        notes = gap_notes(usage.gaps, usage.is_complete)
        yield Section(title=f"{module.name}: memory-usage report", facts=tuple(facts), notes=notes)
    if ranges is not None:
        facts = [
            ("schedule", plural(len(ranges.flattened_instruction_sequence), "instruction")),
            ("values", plural(len(ranges.buffer_live_ranges), "live range")),
        ]
        if ranges.peak_moment is not None and ranges.peak_bytes is not None:
            at = f"{ranges.instruction_at(ranges.peak_moment)} ({ranges.peak_moment})"
            what = "whole instructions, no padding; often not the true peak"
            facts.append(("XLA's peak", f"{format_bytes(ranges.peak_bytes)} at {at}: {what}"))
        advice = (
            "with the buffer assignment of the same compile, hlo-lens finds the true "
            f"peak; XLA writes it with {TEXT_FLAGS}"
        )
        notes = (*gap_notes(ranges.gaps, ranges.is_complete), advice)
        if not ranges.is_available:
            notes = ("XLA had no live ranges: the executable was finalized or came from a proto",)
            facts = []
        yield Section(title=f"{module.name}: live ranges", facts=tuple(facts), notes=notes)
    if values is not None:
        facts = [("values", plural(len(values), "used value"))]
        if values.total_bytes is not None:
            facts.append(("total", f"{format_bytes(values.total_bytes)} in all memory spaces"))
        notes = gap_notes(values.gaps, values.is_complete)
        yield Section(title=f"{module.name}: used values", facts=tuple(facts), notes=notes)


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
    """Return the only module of a program, or the leading one; else raise `UsageError`."""
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
