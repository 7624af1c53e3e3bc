"""Collectives of modules for people and for scripts: facts, groups, single ones, loops, why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.analysis.collectives.collectives import collectives
from hlo_lens.analysis.collectives.grouping import collectives_by, source_of, times_of
from hlo_lens.analysis.result import Column, Unit
from hlo_lens.model.hlo.query import tabulate
from hlo_lens.report.collectives.objects import collectives_object, rows_of
from hlo_lens.report.render.envelope import SCHEMA_VERSION
from hlo_lens.report.render.table import Report, Section, Table
from hlo_lens.report.render.units import format_bytes, plural
from hlo_lens.text.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.collectives.collectives import Collective, Collectives
    from hlo_lens.analysis.collectives.data_movement import DataMovement
    from hlo_lens.analysis.collectives.explanation import Why
    from hlo_lens.analysis.result import Row
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.shapes.mesh import Mesh

CONVENTION = (
    "wire: bytes that leave each device in the ring algorithm; all-reduce 2(n-1)/n of the payload, "
    "all-gather, reduce-scatter and all-to-all (n-1)/n, collective-permute 1 x share of sources"
)
NO_HLO = "no HLO text; XLA writes it with --xla_dump_to=DIR --xla_dump_hlo_as_text"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivesView:
    """What ``hlo-lens collectives`` shows.

    Attributes:
        by: What the collectives are grouped by; None for kind and axis.
        is_dynamic: Whether bytes are those of one run, not those of the text.
        mesh: Mesh that the user names.
        why: Name of a collective to explain.
    """

    by: str | None = None
    is_dynamic: bool = True
    mesh: Mesh | None = None
    why: str | None = None


def collectives_report(
    modules: Sequence[ModuleDump],
    view: CollectivesView,
    *,
    tool_version: str,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Return the report on the collectives of some modules.

    Raises:
        UnknownNameError: If no module has the collective that is to be explained.
    """
    sections: list[Section] = []
    objects: list[Mapping[str, object]] = []
    explained = 0
    for done, dump in enumerate(modules):
        if progress is not None and len(modules) > 1:
            progress(done, len(modules))
        module = dump.hlo
        if module is None:
            sections.append(Section(title=dump.name, notes=(NO_HLO,)))
            objects.append({**_head(dump), "collectives": None})
            continue
        found = module_collectives(dump, module, mesh=view.mesh)
        reasons = _reasons(dump, module, found, view.why)
        explained += len(reasons)
        sections.append(_section(dump, found, view, reasons))
        objects.append(_object(dump, found, view, reasons))
    if view.why is not None and not explained:
        message = f"no collective is named {view.why!r}; see hlo-lens collectives PATH -n 0"
        raise UnknownNameError(message)
    data = {
        "schema_version": SCHEMA_VERSION,
        "kind": "collectives",
        "tool_version": tool_version,
        "modules": objects,
    }
    return Report(kind="collectives", sections=tuple(sections), data=data)


def module_collectives(
    dump: ModuleDump, module: HloModule, *, mesh: Mesh | None = None
) -> Collectives:
    """Return the collectives of a module, their axes named by its own texts if need be."""
    return collectives(tabulate(module), mesh=mesh, before=lambda: dump.before)


def _reasons(
    dump: ModuleDump, module: HloModule, found: Collectives, name: str | None
) -> list[Why]:
    if name is None:
        return []
    from hlo_lens.analysis.collectives.explanation import (  # a report does not ask
        find_collectives,
        why,
    )

    chosen = find_collectives(found, name)
    before = dump.before if chosen else None
    return [why(module, collective, found, before) for collective in chosen]


# ---- for scripts -------------------------------------------------------------------------------


def _head(dump: ModuleDump) -> Mapping[str, object]:
    return {"name": dump.name, "stage": dump.stage, "files": list(dump.files)}


def _object(
    dump: ModuleDump, found: Collectives, view: CollectivesView, reasons: Sequence[Why]
) -> Mapping[str, object]:
    groups = collectives_by(
        found.collectives, view.by or "kind and axis", is_dynamic=view.is_dynamic
    )
    made: dict[str, object] = {
        **_head(dump),
        "collectives": collectives_object(found),
        "by": view.by,
        "bytes_of": "run" if view.is_dynamic else "text",
        "groups": rows_of(groups),
    }
    if reasons:
        made["why"] = [
            {
                "name": reason.collective.name,
                "because": list(reason.sentences),
                "neighbours": rows_of(reason),
            }
            for reason in reasons
        ]
    return made


# ---- for people --------------------------------------------------------------------------------


def _section(
    dump: ModuleDump, found: Collectives, view: CollectivesView, reasons: Sequence[Why]
) -> Section:
    if reasons:
        facts = [fact for reason in reasons for fact in _why_facts(reason)]
        tables = tuple(_why_table(reason) for reason in reasons)
        return Section(title=dump.name, facts=tuple(facts), tables=tables)
    listed = [groups_table(found, view.by or "kind and axis", is_dynamic=view.is_dynamic)]
    if view.by is None:
        listed.append(collectives_table(found, is_dynamic=view.is_dynamic))
    return Section(
        title=dump.name,
        facts=tuple(_facts(dump, found)),
        tables=(*listed, *movement_tables(found.movement)),
        notes=tuple(collectives_notes(found)),
    )


def _facts(dump: ModuleDump, found: Collectives) -> Iterator[tuple[str, str]]:
    yield "module", dump.stage or "stage not told by the file name"
    mesh = str(found.meshes[0]) if found.meshes else "not known; name it with --mesh data=4,model=2"
    if found.collectives:
        yield "mesh", mesh
    yield "collectives", collectives_text(found)
    loops = found.trips.loops
    if loops:
        known = sum(loop.trip_count is not None for loop in loops)
        yield "loops", f"{len(loops):,}, trip count of {known:,} known"


def collectives_text(found: Collectives) -> str:
    """Return how many there are in the text and in one run, what they move, what is exposed."""
    if not found.collectives:
        return "none"
    one = len(found.collectives)
    parts = [f"{one:,} in the text", f"{_times_text(found)} in one run", _wire_text(found)]
    known = [c for c in found.collectives if c.is_exposed is not None and not c.moves_nothing]
    if known:
        exposed = sum(c.is_exposed is True for c in known)
        parts.append(f"{exposed:,} of {len(known):,} exposed")
    return ", ".join(parts)


def _times_text(found: Collectives) -> str:
    by = collectives_by(found.collectives, "kind")
    known = sum(c.dynamic_count or 0 for c in found.collectives)
    unknown = any(c.dynamic_count is None for c in found.collectives)
    bound = "at most " if any(g.times.startswith("<=") for g in by.groups) else ""
    return f"{bound}{known:,}{' + x?' if unknown else ''}"


def _wire_text(found: Collectives) -> str:
    total = found.wire_bytes_per_device
    known = sum(c.wire_bytes_per_run or 0 for c in found.collectives)
    text = f"{format_bytes(known)} on the wire per device"
    return text if total is not None else f"{text} as far as known"


def collectives_notes(found: Collectives) -> Iterator[str]:
    """Yield what a reader must know that no number shows."""
    listed = found.collectives
    if not listed:
        return
    yield CONVENTION
    for holds, text in _MARKS:
        count = sum(holds(collective) for collective in listed)
        if count:
            yield text.format(plural(count, "collective"))
    if not found.is_scheduled:
        yield "the text is not scheduled: it does not tell what runs meanwhile"
    if found.clones:
        yield f"{plural(found.clones, 'instruction')} that are parts of collectives counted already"


_MARKS: tuple[tuple[Callable[[Collective], bool], str], ...] = (
    (lambda c: c.moves_nothing, "{} over groups of one device: nothing is moved"),
    (
        lambda c: c.dynamic_count is None,
        "{} in loops of unknown trip count (x?): sums of one run leave them out or are blank",
    ),
    (lambda c: c.is_at_most, "{} in conditionals, counted as if they always ran (<=)"),
    (
        lambda c: c.performed_as is not None and not c.crosses_slices,
        "{} (all-reduce) fused with the slice that each device keeps: moved as reduce-scatter",
    ),
    (lambda c: c.crosses_slices, "{} between slices, by the multi-slice runtime"),
    (
        lambda c: c.is_host_transfer and not c.crosses_slices,
        "{} (send, recv) between a device and its host: nothing goes between devices",
    ),
    (
        lambda c: c.near_source is not None,
        "{} without a source line: ~ marks that of the first operand",
    ),
)
"""What a collective may be, and what is said of those that are."""


def groups_table(found: Collectives, by: str, *, is_dynamic: bool = True) -> Table:
    """Return the table of groups of collectives, those that move the most first."""
    groups = collectives_by(found.collectives, by, is_dynamic=is_dynamic)
    times = "one run" if is_dynamic else "the text, loops not multiplied"
    shown = ["static", "times", "payload_bytes", "wire_bytes", "exposed"]
    first = {
        "kind": ["kind", "axis"],
        "axis": ["axis", "kind"],
        "kind and axis": ["kind", "axis", "devices", "dtype"],
    }.get(by, ["group", "kind", "axis"])
    if not found.is_scheduled:
        shown.remove("exposed")
    last = ["where"] if by != "source" and any(group.where for group in groups.groups) else []
    return replace(
        Table.of(
            groups,
            title=f"Collectives by {by}, bytes of {times}",
            shown=(*first, *shown, *last),
        ),
        name="collectives-by-kind" if by == "kind and axis" else "collectives-by",
    )


_EXTRA = (
    Column("dtype", Unit.NONE, "element type of the payload"),
    Column("axis", Unit.NONE, "mesh axes of the groups of devices"),
    Column("times", Unit.NONE, "how often one run performs it, with bounds and x?"),
    Column("run_wire_bytes", Unit.BYTES, "bytes that leave each device in one run"),
    Column("meanwhile", Unit.NONE, "what runs between start and end"),
    Column("loops", Unit.NONE, "enclosing loops"),
    Column("source", Unit.NONE, "innermost place in the user's program, file:line"),
)


def collectives_table(found: Collectives, *, is_dynamic: bool = True) -> Table:
    """Return the table of single collectives, those that move the most first."""

    def measure(collective: Collective) -> tuple[tuple[int, int], str]:
        size = collective.wire_bytes_per_run if is_dynamic else collective.wire_bytes_per_device
        return ((0, 0) if size is None else (1, -size), collective.name)

    order = sorted(found.collectives, key=measure)
    ordered = replace(found, collectives=tuple(order))

    def rows() -> Iterator[Row]:
        for collective, row in zip(order, ordered.rows(), strict=True):
            yield (*row, *_extra(collective))

    shown = ["kind", "axis", "dtype", "times", "payload_bytes", "run_wire_bytes"]
    if not is_dynamic:
        shown[-1] = "wire_bytes_per_device"
    if found.is_scheduled:
        shown.append("meanwhile")
    if any(collective.loop_path for collective in order):
        shown.append("loops")
    return Table(
        name=found.KIND,
        title="Single collectives, those that move the most first",
        columns=(*found.COLUMNS, *_EXTRA),
        read_rows=rows,
        row_count=len(order),
        shown=(*shown, "name", "source"),
    )


def _extra(collective: Collective) -> Row:
    return (
        collective.element_type,
        collective.axis_label,
        times_of(collective),
        collective.wire_bytes_per_run,
        _meanwhile(collective),
        " > ".join(collective.loop_path),
        source_of(collective),
    )


def _meanwhile(collective: Collective) -> str | None:
    """Return what runs meanwhile in a few words."""
    if collective.moves_nothing:
        return "moves nothing"
    count = collective.overlap_instructions
    if count is None:
        return None
    if not count:
        return "exposed"
    flops = collective.overlap_flops
    work = f", {flops / 1e6:,.1f} MFLOP" if flops else ""
    return f"{count:,} instr{work}"


def movement_tables(movement: DataMovement) -> Iterator[Table]:
    """Yield the table of copies between the memories of device and host, if there are any."""
    if movement.copies:
        yield Table.of(
            movement,
            title="Data movement between the memories of device and host",
            shown=("direction", "size_bytes", "dynamic_count", "loop_path", "name", "source"),
        )


# ---- why ---------------------------------------------------------------------------------------


def _why_facts(reason: Why) -> Iterator[tuple[str, str]]:
    collective = reason.collective
    wire = collective.wire_bytes_per_device
    yield "collective", f"{collective.name}: {collective.kind} over {collective.axis_label}"
    size = "payload not known"
    if collective.payload_bytes is not None:
        size = f"{collective.element_type} {format_bytes(collective.payload_bytes)}"
    moved = "" if wire is None else f", {format_bytes(wire)} leave each device"
    yield "moves", f"{size}{moved}, {times_of(collective)} times in one run"
    if collective.loop_path:
        yield "loops", " > ".join(collective.loop_path)
    if collective.op_name:
        yield "op_name", collective.op_name
    place = source_of(collective)
    if place:
        yield "source", place
    if len(collective.stack) > 1:
        yield "stack", " < ".join(collective.stack)
    for number, sentence in enumerate(reason.sentences):
        yield "" if number else "because", sentence


def _why_table(reason: Why) -> Table:
    return Table.of(
        reason,
        title=f"What {reason.collective.name} stands between",
        shown=("role", "name", "opcode", "shape", "sharding", "op_name"),
    )
