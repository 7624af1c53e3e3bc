"""Assertions on compiled programs, and failure messages with what is responsible.

Each takes what `hlo_lens.modules_of` takes, of one module, and raises AssertionError. An assertion
about something that is not known fails and says what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from hlo_lens.program.pages import one_module
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.diff.dump_diff import compare_programs
from hlo_lens.questions.diff.page import program_diff_facts
from hlo_lens.questions.findings.page import finding_text
from hlo_lens.questions.memory import memory
from hlo_lens.questions.memory.results import peak_of
from hlo_lens.questions.memory.statement import memory_amount, most_temp_bytes
from hlo_lens.questions.plans.lint import findings_at_least
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.shapes.named_sharding import axes_of_entry
from hlo_lens.text.errors import HloLensError, UsageError
from hlo_lens.text.names import matches
from hlo_lens.text.units import MARGIN, format_bytes, format_ratio, listed, parse_size, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Program
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
    for gap in known.hlo.gaps:
        parts = plural(len(known.hlo.gaps), "part")
        where = f"{gap.path}:{gap.line}: {gap.message}"
        fail_unknown(f"all of {known.title}: {parts} of the text not understood, first {where}")
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
    wanted = set(names_of(axis))
    axes = {name for mesh in found.meshes for name in mesh.mesh.axis_names}
    # a misspelt axis has no collectives
    if found.collectives and (missing := sorted(wanted - axes)):
        there = "; ".join(str(mesh) for mesh in found.meshes) or "no text names any"
        fail_unknown(f"what runs along {', '.join(missing)}: axes are {there}")
    for one in found.collectives:
        if one.payload_bytes is None and least:
            fail_unknown(f"the payload of {one.name} ({place_of(one)})")
        if (one.payload_bytes or 0) < least:
            continue
        if wanted and one.axes is None:
            fail_unknown(f"the mesh axes of {one.name} in {known.title}: no text names them")
        if axis is None or set(one.axes or ()) == wanted:
            yield one


def names_of(axis: Axes | None) -> tuple[str, ...]:
    """Return mesh axes; none for None."""
    return (axis,) if isinstance(axis, str) else axis or ()


def memory_space(results: MemoryResults, name: str | None) -> SpaceFacts:
    """Return a memory space by name, the default one for None; raises UsageError."""
    spaces = results.statement.spaces
    for space in spaces:
        if space.color == 0 if name is None else space.name.lower() == name.lower():
            return space
    raise UsageError(f"no memory space {name!r}; there is {', '.join(s.name for s in spaces)}")


def bytes_of(results: MemoryResults, space: SpaceFacts, of: str) -> tuple[Amount, int]:
    """Return a figure, and the most that it may be; fail if it is not known."""
    __tracebackhide__ = True
    layout, statement = results.layout, results.statement
    gaps = results.module is not None and results.module.gaps
    if not layout.is_complete or (statement.source == "estimate" and gaps):
        fail_unknown("the memory: the buffer assignment, or the text of an estimate, is incomplete")
    size: int | None = getattr(space, f"{of}_bytes")
    if of == "peak" and (size is None or not layout.are_ranges_complete):
        fail_unknown("the peak: no live ranges, or not all of them")
    if size is None:
        fail_unknown(f"the memory in {space.name}: an estimate does not know it")
    is_bounded = of in ("temp", "total") and not space.color
    more = most_temp_bytes(statement) - statement.temp_bytes if is_bounded else 0
    return memory_amount(statement, of, size), size + more


def not_donated(known: ModuleDump, value: ShardedValue) -> str:
    """Return a line with the reason why an argument's memory is not reused."""
    shardings, given = sharding_results(known), None
    key = (value.value.number, value.value.index)
    donations = () if shardings is None else shardings.donations.donations
    reasons = (d.reason for d in donations if (d.value.value.number, d.value.value.index) == key)
    reason = next(reasons, "")
    if known.framework is not None:
        given = known.framework.argument(value.value.number)
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


def place_of(one: Collective) -> str:
    """Return the source line of a collective, else its op_name, else its computation."""
    return one.source or one.op_name or one.computation


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
        return []
    lines = []
    for value in peak.live:
        origin = peak.origin_of(value)
        words = [value.value, value.category, origin.marked_source, origin.op_name]
        lines.append("  ".join([f"{format_bytes(value.size_bytes):>10}", *filter(None, words)]))
    return lines


# ---- argument patterns --------------------------------------------------------------------------


_SHOWN = 8


def find_arguments(known: ModuleDump, pattern: str) -> tuple[list[ShardedValue], list[str]]:
    """Return the parameters that match a pattern, and the names of unused arguments that do."""
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


_MEASURES = ("total", "peak", "temp", "argument", "output")


def assert_collectives(
    program: Program,
    expected: Mapping[str, int],
    *,
    axis: Axes | None = None,
    exact: bool = True,
    dynamic: bool = False,
    min_bytes: int | str = 0,
) -> None:
    """Assert the number of collectives of each kind, each logical operation counted once.

    >>> assert_collectives("sample_dumps/tpu/tp_mlp", {"all-reduce": 2}, axis="model")
    >>> assert_collectives("sample_dumps/tpu/tp_mlp", {"all-reduce": 8}, axis="model", dynamic=True)

    Args:
        program: One module.
        expected: Kind (``all-reduce``) to number.
        axis: Count only collectives along this mesh axis, or along these together; None for all.
        exact: Whether collectives of other kinds are an error.
        dynamic: Count executions instead of instructions in the text.
        min_bytes: Count only collectives with at least this payload (``"1KiB"``).
    """
    __tracebackhide__ = True
    known = one_module(program)
    chosen = list(chosen_collectives(known, axis, min_bytes))
    counts: Counter[str] = Counter()
    for one in chosen:
        times = one.dynamic_count if dynamic else one.static_count
        if times is None or (dynamic and one.branches):
            fail_unknown(f"how often {one.name} runs ({place_of(one)})")
        counts[one.kind] += times
    kinds = {*expected, *(counts if exact else ())}
    wrong = {kind for kind in kinds if counts[kind] != expected.get(kind, 0)}
    if wrong:
        where = f" along {','.join(names_of(axis))}" if axis is not None else ""
        texts = [
            ", ".join(f"{some.get(kind, 0)} {kind}" for kind in sorted(kinds)) or "nothing"
            for some in (counts, expected)
        ]
        head = f"{known.title} has {texts[0]}{where}, expected {texts[1]}"
        fail(head, collective_lines([one for one in chosen if one.kind in wrong]))


def assert_no_collectives(
    program: Program,
    *,
    inside_loops: bool = False,
    axis: Axes | None = None,
    min_bytes: int | str = 0,
) -> None:
    """Assert that a program has no collectives.

    >>> assert_no_collectives("sample_dumps/tpu/tp_mlp", inside_loops=True, min_bytes="1GiB")

    Args:
        program: One module.
        inside_loops: Consider only collectives inside loops, where each runs many times.
        axis: Consider only collectives along this mesh axis, or along these together.
        min_bytes: Consider only collectives with at least this payload.
    """
    __tracebackhide__ = True
    known = one_module(program)
    found = chosen_collectives(known, axis, min_bytes)
    chosen = [one for one in found if one.loop_path or not inside_loops]
    if chosen:
        where = " inside of loops" if inside_loops else ""
        head = f"{known.title} has {plural(len(chosen), 'collective')}{where}, expected none"
        fail(head, collective_lines(chosen))


def assert_memory_below(
    program: Program, limit: int | str, *, space: str | None = None, of: str = "total"
) -> None:
    """Assert that a program takes at most this much memory on a device.

    >>> assert_memory_below("sample_dumps/tpu/tp_mlp", "160MiB", space="HBM")

    Args:
        program: One module.
        limit: Bytes, or text such as ``"14GiB"`` (powers of 1024, with or without the i).
        space: Name of the memory space; None for the default one (HBM, device, memory).
        of: ``total`` (all allocations), ``peak`` (most in use at one instant), ``temp``,
            ``argument`` or ``output``.
    """
    __tracebackhide__ = True
    if of not in _MEASURES:
        raise UsageError(f"of={of!r}: expected one of {', '.join(_MEASURES)}")
    known, bound = one_module(program), parse_size(limit)
    try:
        results = memory(known)
    except HloLensError as error:
        fail_unknown(f"the memory of {known.title}: {error}")
    found = memory_space(results, space)
    amount, most = bytes_of(results, found, of)
    size = int(amount.value)
    for one in results.statement.mismatches:
        if one.theirs > bound:
            fail_unknown(f"{one.name}: jax says {one.theirs:,}, this says {one.ours:,}")
    if amount.is_near(bound) or size <= bound < most:
        fail_unknown(
            f"whether the {of} of {found.name}, {amount.text(format_bytes)}, at most "
            f"{format_bytes(most)}, is below {format_bytes(bound)} (estimates: within "
            f"{format_ratio(MARGIN)})"
        )
    if size > bound:
        head = (
            f"{known.title} takes {amount.text(format_bytes)} of {found.name} ({of}), "
            f"limit {format_bytes(bound)}, {format_bytes(size - bound)} too much"
        )
        fail(head, memory_lines(known, found))


def assert_fits(program: Program, *, target: str, module: str | None = None) -> None:
    """Assert that a program, compiled for a target, fits in the memory of its devices.

    Args:
        program: A dump with texts from before optimizations, or a program of `from_lowered`.
        target: Device and topology, such as ``v5e:4x4``.
        module: Regular expression to find in the names of the modules wanted.
    """
    __tracebackhide__ = True
    from hlo_lens.questions.what_if import what_if  # few tests compile again

    for row in what_if(program, module=module, target=target).modules:
        refused = [f"{one.target}: {one.why_not}" for one in row.changes if not one.applies]
        if row.fits is None or refused:
            why = "; ".join(filter(None, (row.refusal, *refused))) or "its memory is not known"
            fail_unknown(f"whether {row.name} fits on {target}: {why}")
        if not row.fits:
            limit = "?" if row.memory_limit is None else format_bytes(row.memory_limit)
            used = "does not fit"
            if row.predicted is not None and row.predicted.total_bytes is not None:
                used = f"takes {format_bytes(row.predicted.total_bytes)}"
            lines = [f"{label}: {text}" for label, text in row.shown.shortage]
            fail(f"{row.name} {used} on {target}, which has {limit} a device", lines)


def assert_donated(program: Program, arguments: str | Iterable[str]) -> None:
    """Assert that the memory of arguments is reused for results.

    >>> assert_donated("sample_dumps/tpu/tp_mlp", "params")

    Args:
        program: One module.
        arguments: A pattern, or several: the name of an argument with all its leaves (``state``),
            or a path (``params/*/kernel``, where ``*`` is one step and ``**`` any number of steps).
    """
    __tracebackhide__ = True
    known = one_module(program)
    wrong: list[str] = []
    total = 0
    for pattern in (arguments,) if isinstance(arguments, str) else arguments:
        values, unused = find_arguments(known, pattern)
        wrong += [f"{name}: the program does not use it" for name in unused]
        for value in values:
            if value.value.aliased_with is None:
                total += value.device_bytes or 0
                wrong.append(not_donated(known, value))
    if wrong:
        count = f"{plural(len(wrong), 'argument')} of {format_bytes(total)} per device"
        head = f"{known.title}: {count} not reused for results"
        fail(head, wrong)


def assert_no_findings(
    program: Program,
    *,
    ignore: str | Iterable[str] = (),
    select: str | Iterable[str] = (),
    severity: str = "warning",
) -> None:
    """Assert that ``hlo-lens lint`` finds nothing in a program.

    >>> assert_no_findings("sample_dumps/tpu/tp_mlp", select=["M001", "M002"])

    Args:
        program: One module.
        ignore: Codes of rules that do not count, or beginnings of codes: ``["M003", "X"]``;
            a text is one code.
        select: Codes of the only rules that count, or beginnings of them; empty for all.
        severity: Least severity that counts: ``error``, ``warning`` or ``info``.

    Raises:
        UsageError: If there is no such severity, or no rule of a code.
    """
    __tracebackhide__ = True
    known = understood(one_module(program))
    wrong = findings_at_least(known, severity, select=select, ignore=ignore)
    if wrong:
        lines = [f"{one.code} {one.severity}: {finding_text(one)}" for one in wrong]
        fail(f"{known.title}: {plural(len(wrong), 'finding')} (hlo-lens help CODE)", lines)


def assert_sharded(
    program: Program, pattern: str, *, axis: Axes, dimension: int | None = None
) -> None:
    """Assert that parameters are sharded over a mesh axis.

    >>> assert_sharded("sample_dumps/tpu/tp_mlp", "params/w_*", axis="model")

    Args:
        program: One module.
        pattern: As for `assert_donated`.
        axis: Name of the axis, or of several, all of which must shard it.
        dimension: The dimension that must be sharded; None for any.
    """
    __tracebackhide__ = True
    known = one_module(program)
    values, _ = find_arguments(known, pattern)
    unknown = [value for value in values if value.spec is None]
    if unknown:
        names = ", ".join(str(value.value.name) for value in unknown[:SHOWN])
        fail_unknown(f"the sharding over mesh axes of {names}")
    place = slice(None) if dimension is None else slice(dimension, dimension + 1)
    wrong = []
    for value in sorted(values, key=lambda value: -(value.device_bytes or 0)):
        axes = {name for entry in (value.spec or ())[place] for name in axes_of_entry(entry)}
        if not axes.issuperset(names_of(axis)):
            wrong.append(value)
    if wrong:
        size = format_bytes(sum(value.device_bytes or 0 for value in wrong))
        where = "" if dimension is None else f" in dimension {dimension}"
        count = f"{len(wrong)} of {plural(len(values), 'parameter')} not divided"
        over = f"over {','.join(names_of(axis))}{where}, {size} on each device"
        head = f"{known.title}: {count} {over}"
        lines = [
            f"{format_bytes(v.device_bytes or 0):>10}  {v.value.name}  {v.spec_text}  "
            f"{shape_text(v)}"
            for v in wrong
        ]
        fail(head, lines)


def assert_same_program(program: Program, golden: Program, *, heed: Iterable[str] = ()) -> None:
    """Assert that two programs are equal up to names, order and other noise.

    >>> assert_same_program("sample_dumps/tpu/tp_mlp", "sample_dumps/tpu/tp_mlp")

    Args:
        program: One module.
        golden: The expected module, or its path.
        heed: Noise kinds that count as differences too, such as ``layout``; see
            ``hlo-lens diff --help``.
    """
    __tracebackhide__ = True
    if isinstance(golden, (str, Path)) and "\n" not in str(golden) and not Path(golden).exists():
        fail_unknown(f"the golden program: {golden} is not there; write compiled.as_text() to it")
    head, base = understood(one_module(program)), understood(one_module(golden))
    diff = compare_programs(hlo_text(base), hlo_text(head), heed=tuple(heed))
    if diff.identical:
        return
    summary = ", ".join(text for _, text in program_diff_facts(diff))
    lines = [str(change) for change in diff.module_changes]
    lines += [
        f"{group.edit} {group.instructions} {group.opcode}  {group.what}  "
        f"{group.source or group.op_name or group.where}"
        for group in diff.groups
    ]
    fail(f"{head.title} is not the golden program: {summary}", lines)
