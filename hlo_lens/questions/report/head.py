"""Facts and notes at the head of a module's page.

Order: what the module is and where it runs, what must fit, what could be donated, communication,
replicated values, arithmetic, and how much of the text was understood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.flops import flops
from hlo_lens.program.instructions import opcodes
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import backend_of_dump, hlo_text, no_hlo_text, summary
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.questions.collectives.page import collectives_text
from hlo_lens.questions.findings.places import argument_of
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.page import memory_facts, memory_notes
from hlo_lens.questions.memory.results import (
    is_estimate_left_out,
    memory_results,
    not_estimated_text,
)
from hlo_lens.questions.memory.statement import FEW_BYTES, space_name
from hlo_lens.questions.sharding.page import (
    NOT_KNOWN,
    donation_text,
    mesh_text,
    replicated_text,
    sum_text,
)
from hlo_lens.questions.sharding.savings import DonationStatus, sharding_results
from hlo_lens.text.dump_files import BEFORE
from hlo_lens.text.dump_kinds import TEXT_FLAGS
from hlo_lens.text.units import flops_text, format_bytes, format_ratio, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.framework import Framework
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.flops import Flops
    from hlo_lens.program.signature import EntryValue
    from hlo_lens.program.summary import Summary
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.questions.sharding.savings import ShardingResults

_NAMES_SHOWN = 5
"""Names that a line lists."""
_DONATIONS_SHOWN = 3
"""Arrays that are listed; more are listed by argument of the function."""


def head_facts(analysis: ModuleDump, role: str = "") -> Iterator[tuple[str, str]]:
    """Yield the lines at the head of a module with HLO text.

    Args:
        analysis: The module.
        role: Its place among the modules of the dump, such as the training step.
    """
    facts, shardings = summary(analysis), sharding_results(analysis)
    stage = f"{analysis.stage}, " if analysis.stage else ""
    backend = backend_of_dump(analysis) or "backend unknown"
    order = "scheduled" if facts.is_scheduled else "not scheduled"
    yield "module", f"{f'{role}; ' if role else ''}{stage}{backend}, {order}"
    mesh = "" if shardings is None else mesh_text(shardings.table.meshes)
    slices = "" if shardings is None else _slices_text(facts, shardings.table.num_devices)
    yield "devices", f"{_devices_text(facts)}{slices}{mesh}"
    yield from memory_lines(analysis)
    if not facts.computations:
        yield "interface", "not known: no computation was read"
    else:
        yield from _computation_facts(analysis)
    size = (
        f"{plural(facts.instructions, 'instruction')} in "
        f"{plural(facts.computations, 'computation')}"
    )
    yield "coverage", f"{_coverage_text(facts)}; {size}"


def _computation_facts(analysis: ModuleDump) -> Iterator[tuple[str, str]]:
    """Yield the lines on interface, donation, communication, replication and arithmetic."""
    signature, shardings = entry_signature(analysis), sharding_results(analysis)
    if memory_results(analysis) is None:
        yield "parameters", _interface_text(signature.parameter_count, signature.parameters)
        outputs = len(signature.outputs) if signature.has_outputs else None
        yield "outputs", _interface_text(outputs, signature.outputs)
    if shardings is not None:
        yield "donation", _donations(shardings)
    yield "collectives", _collectives_text(analysis)
    if shardings is not None and shardings.table.num_devices > 1:
        yield "replicated", replicated_text(shardings)
    is_partial = summary(analysis).coverage.gaps > 0
    work = work_text(flops(analysis), is_partial=is_partial)
    devices = summary(analysis).evident_partitions or 1
    if analysis.stage == BEFORE and devices > 1 and flops(analysis).at_least:
        work += f", before division over {devices} devices"
    yield "work", work


def memory_lines(analysis: ModuleDump) -> Iterator[tuple[str, str]]:
    """Yield the lines on the memory of a module; why it is not known, and how to get it."""
    memory = memory_results(analysis)
    if memory is not None:
        space = space_name(DEFAULT_SPACE, memory.backend)
        for label, text in memory_facts(memory):
            yield space if label == "memory" else label, text
        others = other_spaces(memory)
        if others:
            yield "others", others
    elif is_estimate_left_out(analysis):
        text = not_estimated_text(summary(analysis).instructions, analysis.path, analysis.address)
        yield "memory", text
    elif analysis.has_hlo and not hlo_text(analysis).is_scheduled:
        yield (
            "memory",
            "not known: no buffer assignment next to this text, and no schedule in it; XLA writes "
            f"both with {TEXT_FLAGS}",
        )
    elif not analysis.has_hlo:
        yield "memory", no_hlo_text(analysis)


def other_spaces(memory: MemoryResults) -> str:
    """Return the bytes of memory spaces besides the default one; the smallest ones together."""
    others = [space for space in memory.statement.spaces if space.color != DEFAULT_SPACE]
    sizes = [(space.total_bytes, space.name) for space in others if space.total_bytes]
    sizes.sort(key=lambda pair: -pair[0])
    large = [pair for pair in sizes if pair[0] >= FEW_BYTES]
    small = sizes[len(large) :]
    parts = [f"{name} {format_bytes(size)}" for size, name in large]
    parts += [f"{space.name} not known" for space in others if space.total_bytes is None]
    if small:
        size = format_bytes(sum(size for size, _ in small))
        parts.append(f"{size} in {', '.join(name for _, name in small)}")
    return ", ".join(parts)


def _donations(shardings: ShardingResults) -> str:
    """Return the outcomes of donation, and the largest arguments that could be donated."""
    text = donation_text(shardings)
    is_whole = shardings.is_complete
    possible = shardings.donations.of(DonationStatus.DONATABLE) if is_whole else ()
    if not possible:
        return text
    leaves: dict[str, list[ShardedValue]] = {}
    for one in possible:
        name = one.value.value.name or ""
        whole = argument_of(name) if len(possible) > _DONATIONS_SHOWN else name
        leaves.setdefault(whole, []).append(one.value)
    largest = sorted(leaves.items(), key=lambda item: -sum(v.device_bytes or 0 for v in item[1]))
    names = [_donatable_text(name, values) for name, values in largest]
    return f"{text}: {listed(names, _DONATIONS_SHOWN)}"


def _donatable_text(name: str, leaves: Sequence[ShardedValue]) -> str:
    """Return an argument, the number of its arrays if it has several, and their bytes."""
    size = sum_text(value.device_bytes for value in leaves)
    if len(leaves) == 1:
        return f"{leaves[0].value.name} {size}"
    return f"{name} ({plural(len(leaves), 'array')}) {size}"


def work_text(flops: Flops, *, is_partial: bool = False) -> str:
    """Return the arithmetic of one run, as far as it is known.

    Args:
        flops: The products of the program.
        is_partial: Whether parts of the text were not understood.
    """
    least = flops.at_least
    if least is None:
        return NOT_KNOWN
    if is_partial:
        return f"at least {flops_text(least)} of products, in the parts understood"
    unknown = ""
    if flops.opaque:
        unknown = f"; {plural(flops.opaque, 'custom call')} of unknown arithmetic"
    if flops.unknown_opcodes:
        unknown += f"; arithmetic of {', '.join(flops.unknown_opcodes)} not known"
    if flops.total is None:
        known = f"at least {flops_text(least)} of products in one run" if least else "not known"
        return f"{known}{unknown or _unknown_trips(flops)}"
    bound = "at most " * flops.is_at_most
    source = ", in part by estimates of kernels" * flops.is_estimate
    return f"{bound}{flops_text(flops.total)} of products in one run{source}{unknown}"


def _unknown_trips(flops: Flops) -> str:
    once = flops.of_single_trips
    if not once:
        return "; a trip count or a shape is not known"
    return f"; {flops_text(once)} of products if loops of unknown trip count run once"


def _devices_text(facts: Summary) -> str:
    """Return partitions and replicas; partitions by the shardings if the header has none."""
    replicas = plural(facts.replica_count, "replica")
    if facts.num_partitions is not None:
        return f"{plural(facts.num_partitions, 'partition')} x {replicas}"
    evident = plural(facts.evident_partitions or 1, "partition")
    return f"{evident} x {replicas} by its shardings; the header has no number"


def _slices_text(facts: Summary, devices: int) -> str:
    """Return in how many slices the program runs; empty where the text has all its devices."""
    own = (facts.num_partitions or facts.evident_partitions or 1) * facts.replica_count
    count, rest = divmod(devices, own)
    return f" in each of {count} slices" if count > 1 and not rest else ""


def _coverage_text(facts: Summary) -> str:
    found = facts.coverage
    is_empty = not found.instructions and not found.gaps
    parts = ["nothing to read" if is_empty else f"{format_ratio(found.ratio)} understood"]
    gaps = f"{plural(found.gaps, 'gap')} of {plural(found.gap_lines, 'line')}"
    parts.append(gaps if found.gaps else "no gaps")
    if found.is_truncated:
        parts.append("the text ends too early")
    if facts.undefined:
        names = listed(facts.undefined, _NAMES_SHOWN)
        parts.append(f"lacks {plural(len(facts.undefined), 'part')} that it uses: {names}")
    if found.passed_lines:
        parts.append(f"{plural(found.passed_lines, 'line')} of a log around it skipped")
    return ", ".join(parts)


def _interface_text(count: int | None, values: Sequence[EntryValue]) -> str:
    """Return the number of values, their bytes, and those donated or aliased."""
    if count is None:
        return NOT_KNOWN
    arrays = f" ({plural(len(values), 'array')})" if len(values) != count else ""
    size = sum_text([value.size_bytes for value in values])
    padded = sum_text([value.padded_size_bytes for value in values])
    padding = f" ({padded} with padding)" if padded != size else ""
    parts = [f"{count:,}{arrays} of {size}{padding}" if count else "none"]
    aliased = [value.size_bytes for value in values if value.aliased_with is not None]
    if aliased:
        is_input = values[0].kind == "parameter"
        where = "donated to outputs" if is_input else "in donated buffers"
        parts.append(f"{len(aliased):,} of {sum_text(aliased)} {where}")
    donors = [value.size_bytes for value in values if value.donation == "donor"]
    if donors:
        parts.append(f"{len(donors):,} of {sum_text(donors)} donated for reuse")
    return "; ".join(parts)


def _collectives_text(analysis: ModuleDump) -> str:
    """Return the number of collectives, their bytes and exposure, and the number of each kind."""
    found = collectives(analysis)
    counts = {k: n for k, n in found.static_counts().items() if n}
    if not counts:
        is_whole = found.is_complete and not summary(analysis).coverage.gaps
        return "none" if is_whole else "none in the parts that were understood"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    return collectives_text(analysis, kinds)


def head_notes(analysis: ModuleDump) -> Iterator[str]:
    """Yield what is not known of a module, and the limits of its numbers."""
    yield from _unknown_words(analysis)
    yield from _framework_notes(analysis.framework)
    memory = memory_results(analysis)
    if memory is not None:
        yield from memory_notes(memory)


def _unknown_words(analysis: ModuleDump) -> Iterator[str]:
    """Yield notes on opcodes and attributes that hlo-lens does not know."""
    if opcodes(analysis).unknown_opcodes:
        names = ", ".join(opcodes(analysis).unknown_opcodes)
        yield f"opcodes not known to this version of hlo-lens: {names}"
    if hlo_text(analysis).unknown_attributes:
        names = ", ".join(hlo_text(analysis).unknown_attributes)
        yield f"attributes not known to this version of hlo-lens: {names}"
    unknown = collectives(analysis).unknown_opcodes
    if unknown:
        names = ", ".join(f"{count} {name}" for name, count in unknown)
        yield f"not counted as collectives, though named like one: {names}"


def _framework_notes(framework: Framework | None) -> Iterator[str]:
    """Yield notes on facts that only the framework has."""
    if framework is None:
        return
    if framework.unused:
        names = ", ".join(value.name for value in framework.unused)
        yield f"arguments that the program does not use: {names}"
    for note in framework.notes:
        yield f"{framework.name}: {note}"
