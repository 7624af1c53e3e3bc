"""Facts for assertions, and failure messages with the instructions or values responsible.

A fact that is not known makes the assertion fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeAlias

from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.results import memory_results, peak_of
from hlo_lens.questions.memory.statement import memory_amount, most_temp_bytes
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.text.errors import UsageError
from hlo_lens.text.patterns import matches
from hlo_lens.text.units import format_bytes, listed, parse_size, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.memory.statement import SpaceFacts
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.text.units import Amount

SHOWN = 5
"""Contributors that a failure lists; the others are counted."""

Axes: TypeAlias = str | tuple[str, ...]
"""One mesh axis, or several."""

# ---- facts -------------------------------------------------------------------------------------


def understood(known: ModuleDump) -> ModuleDump:
    """Return an analysis if its HLO text was understood in full; else fail."""
    __tracebackhide__ = True
    if known.hlo is None:
        fail_unknown(f"the program of {known.title}: there is no HLO text")
    if known.hlo.gaps:
        place = known.hlo.gaps[0]
        fail_unknown(
            f"all of {known.title}: {plural(len(known.hlo.gaps), 'part')} of the text not "
            f"understood, the first at {place.path}:{place.line}: {place.message}"
        )
    return known


def chosen_collectives(
    known: ModuleDump, axis: Axes | None, min_bytes: int | str
) -> Iterator[Collective]:
    """Yield the collectives of an axis and size; fail if one of these, or a kind, is not known."""
    __tracebackhide__ = True
    found, least = collectives(understood(known)), parse_size(min_bytes)
    if found.unknown_opcodes:
        names = ", ".join(name for name, _ in found.unknown_opcodes)
        fail_unknown(f"whether {names} are collectives")
    wanted = None if axis is None else {axis} if isinstance(axis, str) else set(axis)
    axes = {name for mesh in found.meshes for name in mesh.mesh.axis_names}
    # a misspelt axis has no collectives
    if found.collectives and (missing := sorted((wanted or set()) - axes)):
        there = "; ".join(str(mesh) for mesh in found.meshes) or "no text names any"
        fail_unknown(f"what runs along {', '.join(missing)}: axes are {there}")
    for one in found.collectives:
        if one.payload_bytes is None and least:
            fail_unknown(f"the payload of {one.name} ({place_of(one)})")
        if least and (one.payload_bytes or 0) < least:
            continue
        if wanted is not None and one.axes is None:
            fail_unknown(
                f"the mesh axes of {one.name} in {known.title}: no text names them, and the "
                "program was not given as jax has it"
            )
        if wanted is None or set(one.axes or ()) == wanted:
            yield one


def memory_space(results: MemoryResults, name: str | None) -> SpaceFacts:
    """Return a memory space by name, the default one for None; raises UsageError."""
    spaces = {space.name.lower(): space for space in results.statement.spaces}
    if name is None:
        return next(space for space in results.statement.spaces if space.color == 0)
    if name.lower() not in spaces:
        raise UsageError(
            f"no memory space {name!r}; there is {', '.join(s.name for s in spaces.values())}"
        )
    return spaces[name.lower()]


def bytes_of(results: MemoryResults, space: SpaceFacts, of: str) -> tuple[Amount, int]:
    """Return a figure, and the most that it may be; fail if it is not known."""
    __tracebackhide__ = True
    layout, statement = results.layout, results.statement
    if not layout.is_complete:
        fail_unknown("the memory: the buffer assignment is not complete")
    if statement.source == "estimate" and results.module is not None and results.module.gaps:
        fail_unknown("the memory: the text of the estimate is not complete")
    size: int | None = getattr(space, f"{of}_bytes")
    if of == "peak" and (size is None or not layout.are_ranges_complete):
        fail_unknown("the peak: no live ranges, or not all of them")
    if size is None:
        fail_unknown(f"the memory in {space.name}: an estimate does not know it")
    more = 0 if space.color or of == "peak" else most_temp_bytes(statement) - statement.temp_bytes
    amount = memory_amount(statement, of, size)
    return amount, size + (more if of in ("temp", "total") else 0)


def axes_of(value: ShardedValue, dimension: int | None) -> set[str]:
    """Return the mesh axes that shard a value, in one dimension or in any."""
    spec = value.spec or ()
    entries = spec if dimension is None else spec[dimension : dimension + 1]
    found: set[str] = set()
    for entry in entries:
        found |= {entry} if isinstance(entry, str) else set(entry or ())
    return found


def not_donated(known: ModuleDump, value: ShardedValue) -> str:
    """Return a line with the reason why an argument's memory is not reused."""
    shardings = sharding_results(known)
    listed = () if shardings is None else shardings.donations.donations
    key = (value.value.number, value.value.index)
    reason = next(
        (d.reason for d in listed if (d.value.value.number, d.value.value.index) == key), ""
    )
    framework = known.framework
    given = None if framework is None else framework.argument(value.value.number)
    if given is not None and given.is_donated is False:
        reason = "it is not donated (donate_argnums)"
    size = format_bytes(value.device_bytes or 0)
    return f"{size:>10}  {value.value.name}  {shape_text(value)}  {reason or 'not donated'}"


# ---- messages ----------------------------------------------------------------------------------


def fail(head: str, lines: Sequence[str]) -> NoReturn:
    """Raise AssertionError with a headline and the first contributors."""
    __tracebackhide__ = True
    rest = len(lines) - SHOWN
    tail = [f"    [{rest} more]"] if rest > 0 else []
    raise AssertionError("\n".join([head, *(f"    {line}" for line in lines[:SHOWN]), *tail]))


def fail_unknown(what: str) -> NoReturn:
    """Raise AssertionError because a fact is not known."""
    __tracebackhide__ = True
    raise AssertionError(f"not known: {what}")


def counts_text(counts: Mapping[str, int], kinds: Iterable[str]) -> str:
    """Return counts by kind as text."""
    return ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in sorted(kinds)) or "nothing"


def axis_text(axis: Axes) -> str:
    """Return axes as text."""
    return axis if isinstance(axis, str) else ",".join(axis)


def place_of(one: Collective) -> str:
    """Return the source line of a collective, else its op_name, else its computation."""
    if one.source_file:
        return f"{one.source_file}:{one.source_line}" if one.source_line else one.source_file
    return one.op_name or one.computation


def collective_lines(found: Iterable[Collective]) -> list[str]:
    """Return a line per collective, largest payload first, with its loops and source line."""
    lines = []
    for one in sorted(found, key=lambda one: (-(one.payload_bytes or 0), one.name)):
        size = "? bytes" if one.payload_bytes is None else format_bytes(one.payload_bytes)
        times = "?" if one.dynamic_count is None else one.dynamic_count
        loops = f" in {' > '.join(one.loop_path)} x{times}" if one.loop_path else ""
        axes = ",".join(one.axes or ("axis ?",))
        lines.append(f"{size:>10}  {one.kind} {axes}  {one.name}{loops}  {place_of(one)}")
    return lines


def shape_text(value: ShardedValue) -> str:
    """Return the shape of one device's shard as text."""
    shape = value.device_shape
    return "?" if shape is None else shape.to_text(layout=False)


def memory_lines(known: ModuleDump, space: SpaceFacts) -> list[str]:
    """Return a line per value alive at the peak, largest first, with its source line."""
    peak = peak_of(known, space.color)
    if peak is None:
        memory = memory_results(known)
        allocations = () if memory is None else memory.layout.allocations
        sizes = sorted((a for a in allocations if a.color == space.color), key=lambda a: -a.size)
        return [f"{format_bytes(a.size):>10}  allocation {a.index}  {a.category}" for a in sizes]
    lines = []
    for value in peak.live:
        origin = peak.origin_of(value)
        words = [value.value, value.category, origin.marked_source, origin.op_name]
        lines.append("  ".join([f"{format_bytes(value.size_bytes):>10}", *filter(None, words)]))
    return lines


# ---- argument patterns --------------------------------------------------------------------------


_SHOWN = 8


def find_arguments(known: ModuleDump, pattern: str) -> tuple[list[ShardedValue], list[str]]:
    """Return the parameters that match a pattern, and the names of unused arguments that do.

    Raises:
        AssertionError: If neither exists.
    """
    __tracebackhide__ = True
    shardings = sharding_results(known)
    if shardings is None:
        fail_unknown(f"the arguments of {known.title}: there is no HLO text")
    parameters = shardings.table.parameters
    found = [value for value in parameters if matches(pattern, str(value.value.name))]
    unread = () if known.framework is None else known.framework.unused
    unused = [value.name for value in unread if matches(pattern, value.name)]
    if not found and not unused:
        there = listed([str(value.value.name) for value in parameters], _SHOWN) or "none"
        fail(f"no argument of {known.title} is called {pattern!r}; there is {there}", ())
    return found, unused
