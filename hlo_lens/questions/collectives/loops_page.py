"""Page of ``hlo-lens loops``: the loops as a tree, with the communication of each level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.origins import marked
from hlo_lens.program.pages import module_head, page_without_hlo
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.questions.collectives.loops import loops
from hlo_lens.questions.collectives.page import collectives_text
from hlo_lens.questions.sharding.mesh_axes import meshes_text
from hlo_lens.render.envelope import ModulePage
from hlo_lens.render.table import Section, Table
from hlo_lens.render.text_table import without_arguments
from hlo_lens.text.units import format_bytes, format_count, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective_groups import CollectiveGroup
    from hlo_lens.questions.collectives.loops import LoopLevel, Loops


def loops_page(known: ModuleDump) -> ModulePage:
    """Return the page on the loops of a module."""
    if not known.has_hlo:
        return page_without_hlo(known, loops=None)
    levels = loops(known)
    return ModulePage(
        sections=(_section(known),),
        make_object=lambda: {
            **module_head(known),
            "loops": [
                {**row, "collectives": level.groups.objects()}
                for row, level in zip(levels.objects(), levels.levels, strict=True)
            ],
        },
    )


def _section(known: ModuleDump) -> Section:
    dump, found, levels = known, collectives(known), loops(known)
    facts = [("module", dump.stage or "stage unknown")]
    if found.collectives:
        mesh = meshes_text(found.meshes) or "not known; name it with --mesh"
        facts.append(("mesh", mesh))
    facts.append(("collectives", collectives_text(known)))
    return Section(
        title=dump.name,
        facts=tuple(facts),
        drawing=tuple(tree_lines(levels)),
        tables=(Table.of(levels, title="Loops", is_data_only=True),),
        notes=tuple(_notes(levels)),
    )


def _notes(levels: Loops) -> Iterator[str]:
    if not levels.levels:
        yield "loops not known: the text has no entry"
    if len(levels.levels) == 1:
        yield "no loops and no conditionals"
    for level in levels.levels:
        if level.kind == "loop" and level.reason:
            yield f"{level.loop} x?: {level.reason}"


def tree_lines(levels: Loops) -> Iterator[str]:
    """Yield the levels as a tree: each loop with its trip count, below it its communication."""
    listed = levels.levels
    for place, level in enumerate(listed):
        later = [other.depth for other in listed[place + 1 :]]
        above = range(1, level.depth)
        bars = "".join("│  " if _has_more(depth, later) else "   " for depth in above)
        is_last = not _has_more(level.depth, later)
        branch = "" if not level.depth else "└─ " if is_last else "├─ "
        yield f"{bars}{branch}{_title(level)}".rstrip()
        below = "" if not level.depth else "   " if is_last else "│  "
        inside = "│  " if later and later[0] > level.depth else "   "
        for group in level.groups.groups:
            yield f"{bars}{below}{inside}{_line(group, level)}".rstrip()


def _has_more(depth: int, later: Sequence[int]) -> bool:
    """Return whether a level of a depth follows before its parent ends."""
    return next((other for other in later if other <= depth), None) == depth


def _title(level: LoopLevel) -> str:
    if level.kind == "entry":
        return f"{level.loop}  {plural(level.instructions, 'instruction')}"
    if level.kind == "branch":
        return f"{level.loop} branch {level.branch}, at most {_times(level.times)}"
    trips = "x?" if level.trip_count is None else f"x{format_count(level.trip_count)}"
    nested = level.depth > 1 and level.times not in (None, level.trip_count)
    total = f" ({_times(level.times)} in one run)" if nested else ""
    path = level.op_name and without_arguments(level.op_name)
    origin = " ".join(part for part in (path, marked(level.source, level.origin_basis)) if part)
    return f"{level.loop}  {trips}{total}  {origin}"


def _times(times: int | None) -> str:
    return "x?" if times is None else f"{format_count(times)}x"


def _line(group: CollectiveGroup, level: LoopLevel) -> str:
    """Return the communication of a level by one kind along one axis."""
    wire = "?" if group.wire_bytes_per_run is None else format_bytes(group.wire_bytes_per_run)
    wire = f"{'at most ' * group.wire_bytes_is_at_most}{wire}"
    count = format_count(group.static_count)
    each = f"{count} each trip, {group.times} in one run" if level.kind == "loop" else group.times
    where = f"  {group.where}" if group.where else ""
    return f"{group.kind} {group.axis}  {each}, {wire} on the wire{where}"
