"""Memory of a module, from its dumps or estimated from its HLO text."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import OPCODE, OPCODE_END
from hlo_lens.hlo.query import names_printed_as, rows_named, unknown_names
from hlo_lens.load.fact import fact
from hlo_lens.program.summary import backend_of_dump, device_memory, instruction_table
from hlo_lens.questions.memory.layout import (
    DEFAULT_SPACE,
    MemoryLayout,
    layout_of_dump,
    with_gpu_temporaries,
)
from hlo_lens.questions.memory.peak import MemoryBy, PeakMemory, memory_by, peak_memory, peaks_of
from hlo_lens.questions.memory.statement import (
    FigureMismatch,
    MemoryStatement,
    is_integer_scalar,
    memory_amount,
    memory_statement,
    most_temp_bytes,
)
from hlo_lens.text.dump_kinds import ROW_OF, TEXT_FLAGS, DumpKind
from hlo_lens.text.errors import DumpMismatchError, UnknownNameError
from hlo_lens.text.names import did_you_mean, shell_word
from hlo_lens.text.units import listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump


ESTIMATE = (
    "an estimate: there is no buffer assignment beside this text, so live ranges and places follow "
    "from the schedule by XLA's rules"
)

_EXACT_CHANGE_LIST = 1003875606
"""Change list of libtpu 0.0.51, the first with a known rule for temporaries."""

_CHANGE_LIST = re.compile(r"\.cl_(\d+)\.")
_BELONGS = 0.5
"""Least fraction of the values' instructions in the HLO text, or the texts do not match."""


@dataclass(frozen=True, kw_only=True)
class MemoryResults:
    """Memory of one module: sums per memory space, and the peak of the default one.

    `peak` is None without live ranges; `backend` is ``cpu``, ``gpu``, ``tpu`` or None.
    """

    layout: MemoryLayout
    statement: MemoryStatement
    peak: PeakMemory | None
    backend: str | None
    module: HloModule | None = field(default=None, repr=False)

    def to_frame(self) -> pd.DataFrame:
        """Return the memory held at the peak as a pandas frame; no rows if unknown."""
        import pandas as pd

        if self.peak is None:
            return pd.DataFrame(columns=[column.name for column in PeakMemory.COLUMNS])
        return self.peak.to_frame()

    def to_dict(self) -> dict[str, object]:
        peak = None if self.peak is None else self.peak.to_dict()
        return {"statement": self.statement.to_dict(), "peak": peak}

    def _repr_html_(self) -> str:  # notebooks' name
        from html import escape

        results = (self.statement, *(() if self.peak is None else (self.peak,)))
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.statement.notes)
        tables = "".join(result._repr_html_() for result in results)
        return f"{tables}<ul>{notes}</ul>" if notes else tables


@fact
def memory_results(module: ModuleDump) -> MemoryResults | None:
    """Return the memory results of a module; None if nothing is known.

    Without a buffer assignment, memory is estimated from a scheduled HLO text. Figures of the
    framework, if known, are compared with ours.

    Raises:
        DumpMismatchError: If texts do not match, or sums differ from those that XLA printed.
    """
    results = _results(module, backend_of_dump(module))
    if results is not None and module.framework is not None:
        results = _checked(results, module)
    return None if results is None else _judged(results, module)


MOST_TPU_CODE = 39 << 20
"""Most bytes of generated code of a TPU's program, as libtpu counts them; the least are 30 MiB."""

_NEAR = 0.15
"""Share of the limit by which an estimate may be wrong."""


def _judged(results: MemoryResults, module: ModuleDump) -> MemoryResults:
    """Return results that say whether the program fits into the memory of its device.

    A TPU's holds the generated code too, whose size no dump has; a limit that the user states is
    one of the figures alone.
    """
    known = device_memory(module)
    if module.given.limit_bytes is not None:
        known = module.given.limit_bytes, "--limit"
    if known is None:
        return results
    limit, source = known
    statement = replace(results.statement, limit_bytes=limit, limit_source=source)
    excess = statement.total_bytes - limit
    is_near = statement.source == "estimate" and abs(excess) <= _NEAR * limit
    is_near |= statement.lacks_code and -MOST_TPU_CODE < excess <= 0
    statement = replace(
        statement,
        fits=None if is_near else excess <= 0,
        excess_bytes=None if is_near else max(0, excess),
    )
    return replace(results, statement=statement)


def peak_of(module: ModuleDump, color: int) -> PeakMemory | None:
    """Return the peak of a memory space; None where memory or live ranges are not known."""
    memory = memory_results(module)
    if memory is None:
        return None
    return peak_memory(memory.layout, color=color, module=_instructions(module))


@fact
def _instructions(module: ModuleDump) -> HloModule | None:
    """Return the HLO text; without one, the instructions that the used values print."""
    assignment, values = module.buffer_assignment, module.buffer_values
    if module.hlo is not None or assignment is None or values is None:
        return module.hlo
    from hlo_lens.buffers.assignment_reader import value_instructions

    return value_instructions(assignment, values)


def peak_by(module: ModuleDump, by: str) -> MemoryBy | None:
    """Return the bytes at the peak in groups, such as ``op``; None where it is not known."""
    if by == "source":
        return peak_by_source(module)
    memory = memory_results(module)
    return None if memory is None or memory.peak is None else memory_by(memory.peak, by)


@fact
def peak_by_source(module: ModuleDump) -> MemoryBy | None:
    """Return the bytes at the peak by source line; None where the peak is not known."""
    memory = memory_results(module)
    return None if memory is None or memory.peak is None else memory_by(memory.peak, "source")


def _results(dump: ModuleDump, backend: str | None) -> MemoryResults | None:
    assignment, module = dump.buffer_assignment, dump.hlo
    is_limited = module is None or exceeds_limit(dump, module)
    if assignment is None or not len(assignment.allocations):
        return None if is_limited else _estimated(dump, backend)
    given, computed = dump.live_range, None
    has_ranges = given is not None and given.is_available
    if not has_ranges and not is_limited:
        from hlo_lens.questions.memory.estimate import live_ranges

        computed = live_ranges(instruction_table(dump), backend=backend)
    used = dump.buffer_values if assignment.ends_without_values else None
    layout = layout_of_dump(assignment, computed or given, used)
    if module is not None and module.computations:
        lost = _lost(layout, module, () if has_ranges else instruction_table(dump).producers)
        if lost:
            layout = replace(layout, unassigned=layout.unassigned + lost, is_complete=False)
    layout = with_gpu_temporaries(_checked_sums(layout, dump), backend)
    names = {value.instruction_name for value in layout.values}
    missing_names = set() if module is None else unknown_names(module, names)
    unknown = sum(value.instruction_name in missing_names for value in layout.values)
    _check_one_compile(layout, dump, unknown)
    peaks = peaks_of(layout, _instructions(dump))
    version = _CHANGE_LIST.search(dump.parts.get("buffer-assignment", ""))
    statement = memory_statement(
        layout,
        peaks,
        backend=backend,
        opcodes=_opcodes(layout, module, backend),
        is_exact_tpu=version is not None and int(version[1]) >= _EXACT_CHANGE_LIST,
    )
    notes = statement.notes if computed is None else (*statement.notes, computed.source)
    statement = replace(statement, notes=notes, unknown_values=unknown, missing=_missing(dump))
    return MemoryResults(
        layout=layout,
        statement=statement,
        peak=peaks[DEFAULT_SPACE],
        backend=backend,
        module=module,
    )


def _estimated(dump: ModuleDump, backend: str | None) -> MemoryResults | None:
    from hlo_lens.questions.memory.estimate import memory_estimate

    table = instruction_table(dump)
    target = dump.setting("target_arguments.txt")
    estimate = memory_estimate(table, backend=backend, target=target)
    if estimate is None:
        return None
    layout, module = estimate.layout, table.module
    peaks = peaks_of(layout, module)
    gaps = plural(len(module.gaps), "place")
    lost = f"{gaps} of the text could not be read: what is lost may use memory, too"
    statement = replace(
        memory_statement(layout, peaks, backend=estimate.backend),
        temp_bytes=estimate.temp_bytes,
        notes=(ESTIMATE, *(lost for _ in module.gaps[:1]), *layout.notes),
        missing=_missing(dump),
    )
    return MemoryResults(
        layout=layout,
        statement=statement,
        peak=peaks[DEFAULT_SPACE],
        backend=estimate.backend,
        module=module,
    )


_FIGURES = ("argument", "output", "alias", "temp")


def _checked(results: MemoryResults, dump: ModuleDump) -> MemoryResults:
    """Return the results with the figures of ``memory_analysis()``.

    Its temporaries are taken where ours are a bound or an estimate that fits them.
    """
    stated = {} if dump.framework is None else dump.framework.memory
    statement = results.statement
    if not any(stated.get(f"{name}_size_in_bytes") for name in _FIGURES):
        return replace(results, statement=replace(statement, memory_analysis=dict(stated) or None))
    temp = stated.get("temp_size_in_bytes")
    ours = statement.temp_bytes
    if temp is not None and (
        ours <= temp <= most_temp_bytes(statement)
        or memory_amount(statement, "temp", ours).is_near(temp)
    ):
        is_exact = statement.source != "estimate"
        statement = replace(statement, temp_bytes=temp, is_exact=is_exact)
    code = stated.get("generated_code_size_in_bytes")
    if code is not None:
        total = statement.total_bytes + code
        statement = replace(statement, generated_code_bytes=code, total_bytes=total)
    pairs = [(f"{n}_size_in_bytes", getattr(statement, f"{n}_bytes")) for n in _FIGURES]
    host = zip(_FIGURES, statement.host_bytes, strict=True)
    pairs += [(f"host_{name}_size_in_bytes", size) for name, size in host]
    wrong = tuple(
        FigureMismatch(name=name, ours=ours, theirs=stated[name])
        for name, ours in pairs
        if name in stated and stated[name] != ours
    )
    statement = replace(statement, memory_analysis=dict(stated), mismatches=wrong)
    return replace(results, statement=statement)


def _check_one_compile(layout: MemoryLayout, dump: ModuleDump, unknown: int) -> None:
    """Raise `DumpMismatchError` for texts of several compiles.

    `unknown` values are of instructions that the HLO text does not have.
    """
    module = dump.hlo
    is_whole = module is not None and not module.is_truncated
    if module is not None and is_whole and unknown > _BELONGS * max(1, len(layout.values)):
        raise DumpMismatchError(
            f"{dump.parts['buffer-assignment']}: {unknown} of {len(layout.values)} values are of "
            f"instructions that {module.path} does not have: they are not of one compile"
        )
    indices = {one.index for one in layout.allocations if one.category == "temp"}
    temps = sum(value.allocation in indices for value in layout.values)
    if layout.schedule is not None and layout.unplaced > _BELONGS * max(1, temps):
        raise DumpMismatchError(
            f"{dump.parts.get('live-range', dump.name)}: {layout.unplaced} of {temps} "
            "temporary values have no live range: it is not of the same compile"
        )


def _checked_sums(layout: MemoryLayout, dump: ModuleDump) -> MemoryLayout:
    """Return a layout whose sizes sum to the printed totals, if it is complete.

    Raises:
        DumpMismatchError: If they do not.
    """
    values, report = dump.buffer_values, dump.memory_usage_report
    printed = layout.printed_total
    if printed is None and values is not None:
        printed = values.total_bytes
    place = dump.parts.get("buffer-assignment", dump.name)
    sums: Counter[int] = Counter()
    for allocation in layout.allocations:
        sums[allocation.color] += allocation.size
    total = sums.total()
    if not layout.is_complete:
        return layout
    if printed is not None and printed != total:
        raise DumpMismatchError(
            f"{place}: the allocations sum to {total} bytes, but XLA printed a total of {printed}"
        )
    if report is None:
        return layout
    printed_sums = report.bytes_by_color()
    if printed_sums is None:  # until March 2026 all memory spaces were one
        printed_sums, sums = {DEFAULT_SPACE: report.total_bytes}, Counter({DEFAULT_SPACE: total})
    for color, size in printed_sums.items():
        if sums[color] != size:
            raise DumpMismatchError(
                f"{dump.parts['memory-usage-report']}: {size} bytes of colour {color}, but the "
                f"allocations of {place} sum to {sums[color]}"
            )
    return layout


def _lost(layout: MemoryLayout, module: HloModule, producers: Iterable[int]) -> int:
    """Return the number of parameters and results in no allocation, plus 1 for no output at all.

    XLA allocates each value, and all instructions but views (see `InstructionTable`) define one.
    """
    numbers = {allocation.parameter_number for allocation in layout.allocations}
    parameters = {one.parameter_number for one in module.entry.parameters}
    has_result = any(allocation.is_output for allocation in layout.allocations)
    name, names = module.columns.name, {value.instruction_name for value in layout.values}
    lost = sum(name(row) not in names for row in producers)
    return lost + len(parameters - numbers) + (not has_result)


def _opcodes(
    layout: MemoryLayout, module: HloModule | None, backend: str | None
) -> Mapping[str, str] | None:
    """Return opcodes by name of values that may be scalars of a TPU; None without HLO text."""
    if module is None:
        return None
    if backend != "tpu":
        return {}
    names = {v.instruction_name for v in layout.values if is_integer_scalar(v.shape_text)}
    opcodes: dict[str, str] = {}
    for row, name in rows_named(module, names):
        opcodes.setdefault(name, module.columns.text(row, OPCODE, OPCODE_END))
    return opcodes


WRITERS: Mapping[str, str] = {
    "HLO text": TEXT_FLAGS,
    "buffer assignment": TEXT_FLAGS,
    "live ranges": f"{ROW_OF[DumpKind.LIVE_RANGE].flag} (the default)",
}
"""Kinds of text about memory, with the XLA flag that writes each."""


def _missing(dump: ModuleDump) -> tuple[str, ...]:
    texts = dump.module_text, dump.buffer_assignment, dump.live_range
    return tuple(name for name, text in zip(WRITERS, texts, strict=True) if text is None)


MOST_ESTIMATED = 50_000
"""Instructions of the largest module whose memory is estimated together with other results.

An estimate takes about 12 us per instruction: half a second for so many.
"""


def not_estimated_text(instructions: int, path: str, name: str) -> str:
    """Return why the memory of a module was not estimated, and the command that does."""
    command = f"hlo-lens memory {shell_word(path) if path else 'PATH'} --module {shell_word(name)}"
    return (
        f"not estimated: {instructions:,} instructions, more than {MOST_ESTIMATED:,}; "
        f"for an estimate: {command}"
    )


def not_known_text(module: ModuleDump) -> str:
    """Return why the memory of a module with HLO text is not known."""
    from hlo_lens.questions.memory.estimate import TOO_LARGE, why_no_estimate

    reason = why_no_estimate(instruction_table(module)) or TOO_LARGE
    return f"there is no buffer assignment with this text, and no estimate: {reason}"


def exceeds_limit(module: ModuleDump, text: HloModule) -> bool:
    """Return whether estimates are limited and a text has too many instructions for one."""
    return module.given.limits_estimate and len(text.columns) > MOST_ESTIMATED


def is_estimate_left_out(module: ModuleDump) -> bool:
    """Return whether memory could be estimated, but the module has too many instructions."""
    if module.buffers.assignment is not None or module.hlo is None:
        return False
    return module.hlo.is_scheduled and exceeds_limit(module, module.hlo)


def at_instant(results: MemoryResults, at: str, *, color: int = DEFAULT_SPACE) -> PeakMemory | None:
    """Return the memory held at ``peak``, at an instant, or while an instruction runs.

    A value of an instruction that is not in the schedule means the first instant of its life.

    Raises:
        UnknownNameError: If there is no such instruction, value or instant.
    """
    layout = results.layout
    module = results.module if results.peak is None else results.peak.module
    if at == "peak" or layout.schedule is None:
        return peak_memory(layout, color=color, module=module)
    position = _position(at, layout, layout.schedule)
    return peak_memory(layout, color=color, at=position, module=module)


def _position(at: str, layout: MemoryLayout, schedule: Sequence[str]) -> int:
    if at.isdecimal():
        position = int(at)
        if position > len(schedule):
            raise UnknownNameError(
                f"the schedule ends at {len(schedule)}, there is no instant {at}"
            )
        return position
    found = [*dict.fromkeys(names_printed_as(at, schedule))]
    if not found:
        starts = {value.instruction_name: value.start or 0 for value in layout.values}
        found = names_printed_as(at, starts)
        if len(found) == 1:
            return starts[found[0]]
        hint = did_you_mean(at.removeprefix("%"), schedule)
        raise UnknownNameError(f"no instruction {at} in the schedule{hint}")
    if len(found) > 1:
        names = f"{plural(len(found), 'name')}: {listed(found, 4)}"
        raise UnknownNameError(f"{at} is the end of {names}")
    return list(schedule).index(found[0])
