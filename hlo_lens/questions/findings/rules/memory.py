"""Rules about what fills the memory at the peak."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.program.origins import origins, origins_of
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import backend_of_dump, hlo_text, instruction_table
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import MEMORY, PEAK, module_rule
from hlo_lens.questions.findings.values import undivided_axes
from hlo_lens.questions.memory.contents import Content, ContentKind, contents
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import BACKWARD, SAVED, memory_roles
from hlo_lens.questions.memory.statement import memory_amount
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.origins import Origin
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory


# ---- M011 ----------------------------------------------------------------------------------------
_LEAST_BYTES = 1 << 20
_WARNING_BYTES, _NEEDLESS_BYTES = 1 << 30, 64 << 20
"""Least bytes of a warning, and of one about needless values."""

_MOST_VALUES, _MOST_SHOWN = 64, 5
"""Limit on the values at the peak that are examined, largest first; most that are listed."""

_NEEDLESS = (ContentKind.ONE_HOT, ContentKind.REPEATED)
"""Contents that nothing needs: the fix costs no arithmetic."""

_FIXES = {
    ContentKind.SCORES: "compute attention in blocks: jax.nn.dot_product_attention(..., "
    'implementation="cudnn"), a flash attention kernel, or jax.lax.map with jax.checkpoint over '
    "some queries at a time; half the batch of a device or 16 bits halve it",
    ContentKind.LOGITS: "compute the loss for a part of the sequence at a time: "
    "jax.lax.map(jax.checkpoint(loss_of), parts); half the batch of a device or 16 bits halve it",
    ContentKind.ONE_HOT: "take rows instead of a product: jnp.take(table, tokens, axis=0)",
    ContentKind.MASK: "compare positions where the mask is used: jnp.where(queries[:, None] >= "
    "keys, ...), or is_causal=True of jax.nn.dot_product_attention",
    ContentKind.REPEATED: "divide the other operand into groups instead of repeating this one: "
    "q.reshape(batch, length, kv_heads, -1, depth), with one more letter in jnp.einsum",
}

_GROWTH = {
    ContentKind.SCORES: " (batch x heads x queries x keys)",
    ContentKind.LOGITS: " (the last is the vocabulary)",
}


@module_rule("M011", needs=PEAK)
def dominant_value(known: ModuleDump) -> Iterator[Finding]:
    """Values of one content are much of the memory at the peak: scores, logits, masks, repeats.

    What: Temporaries with the same content hold a quarter or more of the bytes at the peak:
    attention scores, logits, one-hot tables, masks, or arrays that are repeated for a product, as
    key and value heads of grouped queries. Or one value of another content holds more than half. Of
    a program that does not fit, a tenth is enough for either.
    Why it costs: The peak is these values. Attention scores grow with the square of the sequence,
    logits with the vocabulary, and both are there once more for the backward pass. The saving is
    their size.
    Fix: Attention in blocks: jax.nn.dot_product_attention(..., implementation="cudnn") on GPU, the
    flash or splash attention of jax.experimental.pallas.ops.tpu on TPU, or jax.lax.map with
    jax.checkpoint. The loss for a part of the sequence at a time:
    jax.lax.map(jax.checkpoint(loss_of), parts). jnp.take instead of a product with jax.nn.one_hot.
    Masks compared where they are used. Queries in groups instead of jnp.repeat of keys. Half the
    batch of a device, or 16 bits, halves each of them. --prove cannot apply these.
    Fine when: The program fits. Scores, logits and masks are a warning from half of the peak and 1
    GiB on, or where the program does not fit; one-hot tables and repeated arrays from 64 MiB on.
    Else an info.
    """
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if memory is None or peak is None or peak.total_bytes < _LEAST_BYTES:
        return
    is_too_large = memory.statement.fits is False
    least_of_value, least_of_content = (0.1, 0.1) if is_too_large else (0.5, 0.25)
    known_contents = contents(known)
    groups: dict[object, list[tuple[LiveValue, Content]]] = defaultdict(list)
    for one in peak.live[:_MOST_VALUES]:
        if one.category != "temp" or not one.owned_bytes or one.shape.startswith("("):
            continue
        elements = Shape.parse(one.shape).element_count
        origin = peak.origin_of(one)
        content = known_contents and elements and known_contents.of_value(origin, elements)
        if content:
            groups[content.kind, content.dimensions].append((one, content))
        elif one.owned_bytes > least_of_value * peak.total_bytes:
            is_grave = is_too_large or peak.total_bytes >= _WARNING_BYTES
            yield _value_finding(known, peak, one, is_grave=is_grave)
    for found in groups.values():
        values = [value for value, _ in found]
        size = sum(one.owned_bytes for one in values)
        if size >= least_of_content * peak.total_bytes:
            first = min((content for _, content in found), key=lambda one: str(one.place))
            is_needless = first.kind in _NEEDLESS
            share, least = (0.25, _NEEDLESS_BYTES) if is_needless else (0.5, _WARNING_BYTES)
            is_large = size >= least and size >= share * peak.total_bytes
            yield _content_finding(known, peak, values, first, is_grave=is_large or is_too_large)


def _content_finding(
    known: ModuleDump,
    peak: PeakMemory,
    values: Sequence[LiveValue],
    content: Content,
    *,
    is_grave: bool,
) -> Finding:
    size, kind = sum(one.owned_bytes for one in values), content.kind
    copies = f", {content.copies} copies of each," if content.copies > 1 else ""
    growth = _GROWTH.get(kind, "")
    if kind is ContentKind.SCORES and content.dimensions[-2:-1] == content.dimensions[-1:]:
        growth += ": they grow with the square of the sequence"
    return Finding(
        message=(
            f"{kind}{copies} {'hold' if kind.endswith('s') else 'holds'} {format_bytes(size)} "
            f"in {plural(len(values), 'value')}, {size / peak.total_bytes:.0%} of the memory at "
            "the peak"
        ),
        fix=_FIXES[kind],
        **at(content.place or peak.origin_of(values[0]).place),
        values=tuple(one.value for one in values),
        evidence=(
            f"{' x '.join(f'{one:,}' for one in content.dimensions)} elements on all devices"
            f"{growth}",
            listed([f"{one.value} {_shape(one)}" for one in values], _MOST_SHOWN),
        ),
        saves=Saves.up_to(size),
        severity=None if is_grave else Severity.INFO,
        has_cost=True,
        axes=undivided_axes(known, Shape.parse(values[0].shape).dimensions),
    )


def _value_finding(
    known: ModuleDump, peak: PeakMemory, one: LiveValue, *, is_grave: bool
) -> Finding:
    origin, roles = peak.origin_of(one), memory_roles(known)
    role = None if roles is None else roles.of_live(one)
    saved = (
        "compute it again in the backward pass: jax.checkpoint around the function that makes it, "
        "with flax nn.remat"
    )
    divided = (
        "divide it with jax.lax.with_sharding_constraint where it is made, or make it in parts "
        "with jax.lax.map"
    )
    notes = (("operation ", origin.op_name), ("role: ", role))
    return Finding(
        message=(
            f"{one.value} {_shape(one)} holds {format_bytes(one.owned_bytes)}, "
            f"{one.owned_bytes / peak.total_bytes:.0%} of the memory at the peak"
        ),
        fix=saved if role == SAVED else divided,
        **at(origin.place),
        values=(one.value,),
        evidence=tuple(f"{label}{text}" for label, text in notes if text),
        saves=Saves.up_to(one.owned_bytes),
        severity=None if is_grave else Severity.INFO,
        has_cost=True,
    )


def _shape(value: LiveValue) -> str:
    return value.shape.partition("{")[0]


# ---- M007 ----------------------------------------------------------------------------------------
_RESIDUALS_MOST_VALUES = 200
"""Limit on the values at the peak that are examined, largest first."""


class _Stack(NamedTuple):
    """A value at the peak with the saved values of all iterations."""

    value: LiveValue
    shape: Shape
    origin: Origin


@module_rule("M007", needs=PEAK)
def saved_residuals(known: ModuleDump) -> Iterator[Finding]:
    """Saved activations of a loop are a large part of the memory at the peak.

    What: The forward pass of a scan stores values of each iteration in stacks of shape [iterations,
    ...], and the backward pass reads them. A fifth of the memory at the peak or more would be free
    without these stacks, that of the input of each layer aside.
    Why it costs: Each value that the backward pass needs is stored once for each layer. With
    rematerialisation only the input of a layer is stored, and the layer is computed again: a third
    more arithmetic at most. The saving is the bytes of the stacks but those inputs.
    Fix: Wrap the body of the scan: jax.checkpoint(block, prevent_cse=False), or nn.remat(Block,
    prevent_cse=False) in flax. A policy keeps what is expensive to compute again:
    policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable. --prove cannot apply it: what
    is computed again is decided when JAX differentiates, before the program is text.
    Fine when: The program fits, and time matters more than memory; or the body is under
    jax.checkpoint with a policy that saves these values on purpose. It is a warning where the
    stacks, without the input of each layer and without one iteration, are half of the memory at the
    peak or more; else an info.
    """
    memory, roles = memory_results(known), memory_roles(known)
    peak = None if memory is None else memory.peak
    if peak is None or roles is None or BACKWARD not in hlo_text(known).columns.source.text:
        return
    is_too_large = memory is not None and memory.statement.fits is False
    least, grave = (0.02, 0.02) if is_too_large else (0.2, 0.5)
    loops: dict[str, list[_Stack]] = defaultdict(list)
    for value in peak.live[:_RESIDUALS_MOST_VALUES]:
        origin = peak.origin_of(value)
        loop, body, _ = (origin.op_name or "").partition("/while/body")
        is_forward = "jvp(" in (origin.op_name or "") and BACKWARD not in (origin.op_name or "")
        if value.category == "temp" and body and is_forward and not value.shape.startswith("("):
            shape = Shape.parse(value.shape)
            if loop and len(shape.dimensions) > 1 and roles.of_live(value) == SAVED:
                loops[loop].append(_Stack(value, shape, origin))
    for path, found in loops.items():
        loop_row = _forward_loop(known, path, {one.shape.dimensions[0] for one in found})
        if loop_row is None:
            continue
        trips, row = loop_row
        whole = hlo_text(known).instruction(row).shape
        parts = () if whole is None else whole.tuple_shapes
        carried = {one.dimensions for one in parts if one.element_type != "pred"}
        stacks = [one for one in found if one.shape.dimensions[0] == trips]
        size = sum(one.value.owned_bytes for one in stacks)
        inputs = [one.value.owned_bytes for one in stacks if one.shape.dimensions[1:] in carried]
        saved = size - max(inputs, default=0)  # the inputs of iterations stay
        share = saved * (trips - 1) // trips / peak.total_bytes
        if not stacks or share < least:
            continue
        yield Finding(
            message=(
                f"{plural(len(stacks), 'stack')} {'is' if len(stacks) == 1 else 'are'} saved for "
                f"the backward pass of a loop of {trips} iterations: {format_bytes(size)} of the "
                f"{format_bytes(peak.total_bytes)} at the peak; computed again, they cost up to a "
                "third more work"
            ),
            fix="wrap the body of the scan in jax.checkpoint(block, prevent_cse=False), with flax "
            "nn.remat(Block, prevent_cse=False)",
            **at(origins(known).place(row)),
            values=tuple(one.value.value for one in stacks),
            evidence=tuple(_by_line(stacks)),
            saves=Saves.up_to(saved),
            severity=None if share >= grave else Severity.INFO,
            has_cost=True,
            axes=undivided_axes(known, stacks[0].shape.dimensions),
        )


def _by_line(stacks: Sequence[_Stack]) -> Iterator[str]:
    lines: dict[str, list[_Stack]] = defaultdict(list)
    for one in stacks:
        lines[one.origin.source or str(one.origin.op_name)].append(one)
    sizes = {line: sum(one.value.owned_bytes for one in its) for line, its in lines.items()}
    for line in sorted(lines, key=lambda line: -sizes[line])[:_MOST_SHOWN]:
        first = lines[line][0]
        yield (
            f"{line}: {format_bytes(sizes[line])} in {plural(len(lines[line]), 'stack')}, "
            f"{first.value.value} is {first.shape.to_text(layout=False)}"
        )


def _forward_loop(known: ModuleDump, path: str, counts: set[int | None]) -> tuple[int, int] | None:
    for row in instruction_table(known).rows_of({"while"}):
        op_name = origins(known).places.op_name(row) or origins(known).of_row(row).op_name or ""
        trips = call_counts(known).trip_count(hlo_text(known).instruction(row))
        if op_name.startswith(f"{path}/while") and BACKWARD not in op_name and trips in counts:
            return None if trips is None else (trips, row)
    return None


# ---- M009 ----------------------------------------------------------------------------------------
@module_rule("M009", needs=MEMORY)
def lost_offload(known: ModuleDump) -> Iterator[Finding]:
    """The program asks for host memory, but the compiled program uses none.

    What: The text before optimizations places values in the memory of the host (jax.device_put to a
    sharding of memory kind pinned_host, or a checkpoint policy that offloads), and the compiled
    program has no bytes in host memory.
    Why it costs: The values stay in the memory of the device, as if nothing had been asked. XLA
    drops the placement without a message where it cannot move the value.
    Fix: Offload by the name of the value:
    jax.checkpoint_policies.save_and_offload_only_these_names( names_which_can_be_offloaded=["x"],
    offload_src="device", offload_dst="pinned_host", ...) with checkpoint_name(value, "x"); for
    arguments give in_shardings and out_shardings of memory kind pinned_host.
    Fine when: The program was compiled for CPU, whose device memory is the host's: this rule does
    not look at CPU dumps.
    """
    memory, before = memory_results(known), known.before
    is_on_cpu = backend_of_dump(known) in (None, "cpu")
    if memory is None or is_on_cpu or any(memory.statement.host_bytes) or before is None:
        return
    asked = [
        instruction
        for row in before.columns.rows_with_attribute_text("annotate_device_placement")
        if "pinned_host"
        in ((instruction := before.instruction(row)).attribute("frontend_attributes") or "")
    ]
    if not asked:
        return
    size = sum(one.shape.size_bytes or 0 for one in asked if one.shape is not None)
    yield Finding(
        message=(
            f"{plural(len(asked), 'value')} placed in host memory before optimizations, none in "
            "the compiled program"
        ),
        fix="offload by name, with save_and_offload_only_these_names and checkpoint_name, or by "
        "shardings of memory kind pinned_host for arguments and results",
        **at(origins_of(before).places.innermost(asked[0].row)),
        values=tuple(one.name for one in asked),
        evidence=(
            f"before optimizations: {listed([one.name for one in asked], _MOST_SHOWN)}, "
            f"{format_bytes(size)} of all devices",
            "host memory of the compiled program: 0B",
        ),
        severity=Severity.WARNING,
    )


# ---- M008 ----------------------------------------------------------------------------------------
@module_rule("M008")
def large_constant(known: ModuleDump) -> Iterator[Finding]:
    """The program contains a large constant.

    What: A constant of more than 1 MiB is part of the compiled program: an array that the function
    closed over, or one that XLA computed at compile time (constant folding).
    Why it costs: Its bytes on every device, whole, during the whole program, and again in each
    program that has it; and time to compile, because XLA hashes, copies and prints it.
    Fix: Pass the array as an argument of the jitted function, with a sharding. If XLA folded it,
    let it depend on an argument, or compute it from smaller arrays (jnp.arange, broadcasting) where
    it is used.
    Fine when: It is a table that all devices need whole, and the program is compiled once. An array
    that the function closed over is an info: as an argument it takes the same memory.
    """
    table = instruction_table(known)
    sizes = [(table.result_bytes(row) or 0, row) for row in table.rows_of({"constant"})]
    large = sorted((one for one in sizes if one[0] > _LEAST_BYTES), reverse=True)
    before = known.before if large else None
    rows = () if before is None else range(len(before.opcodes))
    written = {
        before.instruction(row).shape_text.partition("{")[0]
        for row in rows
        if before is not None and before.opcodes[row] == "constant"
    }
    for size, row in large[:10]:
        instruction = hlo_text(known).instruction(row)
        shape = instruction.shape_text.partition("{")[0]
        is_folded = before is not None and shape not in written
        how = ", which XLA computed at compile time" if is_folded else ""
        yield Finding(
            message=f"constant {shape} of {format_bytes(size)}{how}",
            fix="let it depend on an argument, or compute it from smaller arrays"
            if is_folded
            else "pass the array as an argument of the jitted function, with a sharding",
            **at(origins(known).place(row)),
            values=(instruction.name,),
            saves=Saves.up_to(size) if is_folded else Saves(),
            severity=None if is_folded else Severity.INFO,
        )


# ---- M012 ----------------------------------------------------------------------------------------
@module_rule("M012", needs=PEAK)
def fragmented_heap(known: ModuleDump) -> Iterator[Finding]:
    """The heap of temporaries is fragmented: a tenth of the memory is between values.

    What: XLA places temporaries in one heap. What must fit exceeds the bytes held at the peak by a
    tenth or more, because freed places are too small for the values that come later.
    Why it costs: The memory between the values, on every device. The saving is "up to": XLA's
    placement is a heuristic, and a lower bound without any fragmentation may not exist.
    Fix: Let values of one size follow each other: the same chunk sizes in loops, batch and sequence
    dimensions that are not changed slightly between layers (padding to one size). On GPU
    --xla_gpu_enable_while_loop_double_buffering=false keeps fewer copies.
    Fine when: The program fits: where it takes at most four fifths of the memory of a device that
    is known, nothing is said. Below 64 MiB, or below a quarter of the memory, it is an info: no
    change of the program is known to avoid it.
    """
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if memory is None or peak is None:
        return
    statement = memory.statement
    total, limit = statement.total_bytes, statement.limit_bytes
    is_roomy = limit is not None and total <= 0.8 * limit
    if is_roomy or (not statement.is_exact and statement.source != "estimate"):
        return  # or a libtpu that counts fragmentation twice
    spaces = (one for one in statement.spaces if one.color == peak.color)
    lost = next((one.fragmentation_bytes for one in spaces), None)
    if lost is None or lost < max(_LEAST_BYTES, 0.1 * total):
        return
    free = memory_amount(statement, "fragmentation", lost).text(format_bytes)
    yield Finding(
        message=(
            f"{free} of the heap of temporaries ({format_bytes(statement.temp_bytes)}) is free at "
            "the peak, between values"
        ),
        fix="keep the sizes of values equal from layer to layer, so that they reuse each other's "
        "places",
        **at(peak.instruction_origin.place),
        values=() if peak.instruction is None else (peak.instruction,),
        saves=Saves.up_to(lost),
        severity=None if lost >= max(64 << 20, 0.25 * total) else Severity.INFO,
    )
