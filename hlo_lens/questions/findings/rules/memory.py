"""Rules about what fills the memory at the peak."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
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

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.origins import Origin
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory


# ---- M011 ----------------------------------------------------------------------------------------


_SHARE, _DOMINANT_LEAST_SHARE, _DOMINANT_TOO_LARGE_SHARE = 0.5, 0.25, 0.1
"""Least share of the peak: of any value; of a known content; of either if the program does not
fit."""

_LEAST_BYTES = 1 << 20
_DOMINANT_WARNING_BYTES, _NEEDLESS_BYTES = 1 << 30, 64 << 20
"""Least bytes of a warning, and of one about needless values."""

_DOMINANT_MOST_VALUES, _DOMINANT_MOST_SHOWN = 64, 5
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
_NO_CONTENT_FIX = (
    "divide it with jax.lax.with_sharding_constraint where it is made, or make it in parts with "
    "jax.lax.map"
)
_SAVED_FIX = (
    "compute it again in the backward pass: jax.checkpoint around the function that makes it, with "
    "flax nn.remat"
)


class _Kin(NamedTuple):
    """Key of values with one finding."""

    kind: ContentKind
    dimensions: tuple[int, ...]


@module_rule("M011", needs=PEAK)
def dominant_value(known: ModuleDump) -> Iterator[Finding]:
    """Values of one content are much of the memory at the peak: scores, logits, masks, repeats.

    What:
        Temporaries with the same content hold a quarter or more of the bytes at the peak: attention
        scores, logits, one-hot tables, masks, or arrays that are repeated for a product, as key and
        value heads of grouped queries. Or one value of another content holds more than half. Of a
        program that does not fit, a tenth is enough for either.

    Why it costs:
        The peak is these values. Attention scores grow with the square of the sequence, logits with
        the vocabulary, and both are there once more for the backward pass. A program that does not
        fit because of them is rarely short of capacity. The saving is their size.

    Fix:
        Attention in blocks: jax.nn.dot_product_attention(..., implementation="cudnn") on GPU, the
        flash or splash attention of jax.experimental.pallas.ops.tpu on TPU, or jax.lax.map with
        jax.checkpoint over a few hundred queries at a time. The loss for a part of the sequence at
        a time: jax.lax.map(jax.checkpoint(loss_of), parts). jnp.take instead of a product with
        jax.nn.one_hot. Masks compared where they are used. Queries in groups, q.reshape(batch,
        length, kv_heads, -1, depth), instead of jnp.repeat of keys. Half the batch of a device, or
        16 bits, halves each of them. --prove cannot apply these, which change what is computed.

    Fine when:
        The program fits. Scores, logits and masks are a warning from half of the peak and 1 GiB on,
        or where the program does not fit; one-hot tables and repeated arrays from 64 MiB on. Else
        an info.
    """
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if memory is None or peak is None or peak.total_bytes < _LEAST_BYTES:
        return
    is_too_large = memory.statement.fits is False
    known_contents = contents(known)
    groups: dict[_Kin, list[tuple[LiveValue, Content]]] = defaultdict(list)
    for one in peak.live[:_DOMINANT_MOST_VALUES]:
        if one.category != "temp" or not one.owned_bytes or one.shape.startswith("("):
            continue
        elements = Shape.parse(one.shape).element_count
        origin = peak.origin_of(one)
        content = known_contents and elements and known_contents.of_value(origin, elements)
        if content:
            groups[_Kin(content.kind, content.dimensions)].append((one, content))
        elif (
            one.owned_bytes
            > (_DOMINANT_TOO_LARGE_SHARE if is_too_large else _SHARE) * peak.total_bytes
        ):
            yield _value_finding(known, peak, one, is_too_large=is_too_large)
    for found in groups.values():
        values = [value for value, _ in found]
        least = _DOMINANT_TOO_LARGE_SHARE if is_too_large else _DOMINANT_LEAST_SHARE
        if sum(one.owned_bytes for one in values) >= least * peak.total_bytes:
            first = min((content for _, content in found), key=lambda one: str(one.place))
            made = _content_finding(peak, values, first, is_too_large=is_too_large)
            sizes = Shape.parse(values[0].shape).dimensions
            yield replace(made, axes=undivided_axes(known, sizes))


def _content_finding(
    peak: PeakMemory, values: Sequence[LiveValue], content: Content, *, is_too_large: bool
) -> Finding:
    size = sum(one.owned_bytes for one in values)
    share, kind = size / peak.total_bytes, content.kind
    is_needless = kind in _NEEDLESS
    least = (
        (_DOMINANT_LEAST_SHARE, _NEEDLESS_BYTES)
        if is_needless
        else (_SHARE, _DOMINANT_WARNING_BYTES)
    )
    is_large = share >= least[0] and size >= least[1]
    return Finding(
        message=(
            f"{_named(content)} {'hold' if kind.endswith('s') else 'holds'} "
            f"{format_bytes(size)} in {plural(len(values), 'value')}, "
            f"{share:.0%} of the memory at the peak"
        ),
        fix=_FIXES[kind],
        **at(content.place or peak.origin_of(values[0]).place),
        values=tuple(one.value for one in values),
        evidence=(
            f"{' x '.join(f'{one:,}' for one in content.dimensions)} elements on all devices"
            f"{_growth(content)}",
            listed([f"{one.value} {_shape(one)}" for one in values], _DOMINANT_MOST_SHOWN),
        ),
        saves=Saves.up_to(size),
        severity=None if is_large or is_too_large else Severity.INFO,
        has_cost=True,
    )


def _named(content: Content) -> str:
    copies = f", {content.copies} copies of each," if content.copies > 1 else ""
    return f"{content.kind}{copies}"


def _growth(content: Content) -> str:
    """Return what the size of a content grows with."""
    *_, queries, keys = (0, 0, *content.dimensions)
    if content.kind is ContentKind.SCORES:
        square = ": they grow with the square of the sequence" if queries == keys else ""
        return f" (batch x heads x queries x keys){square}"
    return " (the last is the vocabulary)" if content.kind is ContentKind.LOGITS else ""


def _value_finding(
    known: ModuleDump, peak: PeakMemory, one: LiveValue, *, is_too_large: bool
) -> Finding:
    """Return the finding about one value whose content is not known."""
    origin, roles = peak.origin_of(one), memory_roles(known)
    role = None if roles is None else roles.of_live(one)
    return Finding(
        message=(
            f"{one.value} {_shape(one)} holds {format_bytes(one.owned_bytes)}, "
            f"{one.owned_bytes / peak.total_bytes:.0%} of the memory at the peak"
        ),
        fix=_SAVED_FIX if role == SAVED else _NO_CONTENT_FIX,
        **at(origin.place),
        values=(one.value,),
        evidence=(
            *([f"operation {origin.op_name}"] if origin.op_name else ()),
            *([f"role: {role}"] if role else ()),
        ),
        saves=Saves.up_to(one.owned_bytes),
        severity=None
        if is_too_large or peak.total_bytes >= _DOMINANT_WARNING_BYTES
        else Severity.INFO,
        has_cost=True,
    )


def _shape(value: LiveValue) -> str:
    return value.shape.partition("{")[0]


# ---- M007 ----------------------------------------------------------------------------------------


_RESIDUALS_LEAST_SHARE, _RESIDUALS_WARNING_SHARE, _RESIDUALS_TOO_LARGE_SHARE = 0.2, 0.5, 0.02
"""Least share of the memory at the peak that the fix saves; least of a warning; least of both where
the program does not fit."""

_RESIDUALS_MOST_VALUES = 200
"""Limit on the values at the peak that are examined, largest first."""

_RESIDUALS_MOST_SHOWN = 5
_BODY = "/while/body"


class _Stack(NamedTuple):
    """A value at the peak with the saved values of all iterations."""

    value: LiveValue
    shape: Shape
    origin: Origin


@module_rule("M007", needs=PEAK)
def saved_residuals(known: ModuleDump) -> Iterator[Finding]:
    """Saved activations of a loop are a large part of the memory at the peak.

    What:
        The forward pass of a scan stores values of each iteration in stacks of shape [iterations,
        ...], and the backward pass reads them. A fifth of the memory at the peak or more would be
        free without these stacks, that of the input of each layer aside.

    Why it costs:
        Each value that the backward pass needs is stored once for each layer. With
        rematerialisation only the input of a layer is stored, and the layer is computed again in
        the backward pass: a third more arithmetic at most. The saving is the bytes of the stacks.
        The input of each layer stays; values computed from the stacks go too.

    Fix:
        Wrap the body of the scan: jax.checkpoint(block, prevent_cse=False), or nn.remat(Block,
        prevent_cse=False) in flax. A policy keeps what is expensive to compute again:
        policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable. --prove cannot apply it:
        what is computed again is decided when JAX differentiates, before the program is text.

    Fine when:
        The program fits, and time matters more than memory; or the body is under jax.checkpoint
        with a policy that saves these values on purpose. It is a warning where the stacks, without
        the input of each layer and without one iteration, are half of the memory at the peak or
        more; else an info.
    """
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if peak is None or BACKWARD not in hlo_text(known).columns.source.text:
        return
    is_too_large = memory is not None and memory.statement.fits is False
    loops: dict[str, list[_Stack]] = {}
    for value in peak.live[:_RESIDUALS_MOST_VALUES]:
        if value.category == "temp":
            origin = peak.origin_of(value)
            loop = _loop_of(origin.op_name)
            shape = Shape.parse(value.shape) if loop and not value.shape.startswith("(") else None
            if loop and shape is not None and len(shape.dimensions) > 1:
                loops.setdefault(loop, []).append(_Stack(value, shape, origin))
    for loop, stacks in loops.items():
        yield from _finding(known, loop, stacks, peak.total_bytes, is_too_large)


def _loop_of(op_name: str | None) -> str | None:
    """Return the path of the loop around an operation of the forward pass."""
    if op_name is None or BACKWARD in op_name or "jvp(" not in op_name:
        return None
    head, body, _ = op_name.partition(_BODY)
    return head if body else None


def _finding(
    known: ModuleDump, loop: str, found: Sequence[_Stack], peak_bytes: int, is_too_large: bool
) -> Iterator[Finding]:
    trips, carried, row = _loop(known, loop, {one.shape.dimensions[0] for one in found})
    roles = memory_roles(known)
    stacks = [
        one
        for one in found
        if one.shape.dimensions[0] == trips
        and roles is not None
        and roles.of_live(one.value) == SAVED
    ]
    size = sum(one.value.owned_bytes for one in stacks)
    inputs = [one.value.owned_bytes for one in stacks if one.shape.dimensions[1:] in carried]
    freed = (size - max(inputs, default=0)) * (trips - 1) // trips
    least = _RESIDUALS_TOO_LARGE_SHARE if is_too_large else _RESIDUALS_LEAST_SHARE
    if row is None or freed < least * peak_bytes:
        return
    is_grave = is_too_large or freed >= _RESIDUALS_WARNING_SHARE * peak_bytes
    yield Finding(
        message=(
            f"{plural(len(stacks), 'stack')} {'is' if len(stacks) == 1 else 'are'} saved for the "
            f"backward pass of a loop of {trips} iterations: {format_bytes(size)} of the "
            f"{format_bytes(peak_bytes)} at the peak; computed again, they cost up to a third more "
            "work"
        ),
        fix="wrap the body of the scan in jax.checkpoint(block, prevent_cse=False), with flax "
        "nn.remat(Block, prevent_cse=False)",
        **at(origins(known).place(row)),
        values=tuple(one.value.value for one in stacks),
        evidence=tuple(_by_line(stacks)),
        saves=Saves.up_to(size - max(inputs, default=0)),  # the inputs of iterations stay
        severity=None if is_grave else Severity.INFO,
        has_cost=True,
        axes=undivided_axes(known, stacks[0].shape.dimensions),
    )


def _by_line(stacks: Sequence[_Stack]) -> Iterator[str]:
    """Yield the lines that most of the saved bytes come from."""
    lines: dict[str, list[_Stack]] = {}
    for one in stacks:
        lines.setdefault(one.origin.source or str(one.origin.op_name), []).append(one)
    sizes = {line: sum(one.value.owned_bytes for one in its) for line, its in lines.items()}
    for line in sorted(lines, key=lambda line: -sizes[line])[:_RESIDUALS_MOST_SHOWN]:
        first = lines[line][0]
        yield (
            f"{line}: {format_bytes(sizes[line])} in {plural(len(lines[line]), 'stack')}, "
            f"{first.value.value} is {first.shape.to_text(layout=False)}"
        )


def _loop(
    known: ModuleDump, path: str, counts: set[int | None]
) -> tuple[int, set[tuple[int | None, ...]], int | None]:
    """Return trip count, dimensions of what is carried, and row of the loop of a path."""
    module = hlo_text(known)
    for row in instruction_table(known).rows_of({"while"}):
        loop = module.instruction(row)
        op_name = origins(known).places.op_name(row) or origins(known).of_row(row).op_name
        trips = call_counts(known).trip_count(loop)
        if op_name is None or not op_name.startswith(f"{path}/while") or trips is None:
            continue
        if loop.shape is None or BACKWARD in op_name or trips not in counts:
            continue
        parts = loop.shape.tuple_shapes
        carried = {one.dimensions for one in parts if one.element_type != "pred"}
        return trips, carried, row
    return 1, set(), None


# ---- M009 ----------------------------------------------------------------------------------------


_TARGET = "annotate_device_placement"
_HOST = "pinned_host"
_OFFLOAD_MOST_SHOWN = 5


@module_rule("M009", needs=MEMORY)
def lost_offload(known: ModuleDump) -> Iterator[Finding]:
    """The program asks for host memory, but the compiled program uses none.

    What:
        The text before optimizations places values in the memory of the host (jax.device_put to a
        sharding of memory kind pinned_host, or a checkpoint policy that offloads), and the compiled
        program has no bytes in host memory.

    Why it costs:
        The values stay in the memory of the device, as if nothing had been asked. XLA drops the
        placement without a message where it cannot move the value, for example because it is not
        stored in a loop's stack, or a flag of the offloading passes is missing.

    Fix:
        Offload by the name of the value: jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_offloaded=["x"], offload_src="device", offload_dst="pinned_host", ...)
        with checkpoint_name(value, "x"); for arguments give in_shardings and out_shardings of
        memory kind pinned_host.

    Fine when:
        The program was compiled for CPU, whose device memory is the host's: this rule does not look
        at CPU dumps.
    """
    memory = memory_results(known)
    if (
        memory is None
        or backend_of_dump(known) in (None, "cpu")
        or any(memory.statement.host_bytes)
    ):
        return
    before = known.before
    if before is None or _TARGET not in before.columns.source.text:
        return
    asked = list(_asked(before))
    if not asked:
        return
    size = sum(one.shape.size_bytes or 0 for one in asked if one.shape is not None)
    places = [origins_of(before).places.innermost(one.row) for one in asked]
    yield Finding(
        message=(
            f"{plural(len(asked), 'value')} placed in host memory before optimizations, none in "
            "the compiled program"
        ),
        fix="offload by name, with save_and_offload_only_these_names and checkpoint_name, or by "
        "shardings of memory kind pinned_host for arguments and results",
        **at(places[0]),
        values=tuple(one.name for one in asked),
        evidence=(
            f"before optimizations: {listed([one.name for one in asked], _OFFLOAD_MOST_SHOWN)}, "
            f"{format_bytes(size)} of all devices",
            "host memory of the compiled program: 0B",
        ),
        saves=Saves(),
        severity=Severity.WARNING,
    )


def _asked(module: HloModule) -> Iterator[HloInstruction]:
    """Yield the instructions that place a value in the memory of the host."""
    for row, opcode in enumerate(module.opcodes):
        if opcode != "custom-call":
            continue
        instruction = module.instruction(row)
        if _TARGET not in (instruction.attribute("custom_call_target") or ""):
            continue
        if _HOST in (instruction.attribute("frontend_attributes") or ""):
            yield instruction


# ---- M008 ----------------------------------------------------------------------------------------

_CONSTANT_MOST_SHOWN = 10


@module_rule("M008")
def large_constant(known: ModuleDump) -> Iterator[Finding]:
    """The program contains a large constant.

    What:
        A constant of more than 1 MiB is part of the compiled program: an array that the function
        closed over, or one that XLA computed at compile time (constant folding).

    Why it costs:
        Its bytes on every device, whole, during the whole program, and again in each program that
        has it; and time to compile, because XLA hashes, copies and prints it.

    Fix:
        Pass the array as an argument of the jitted function, with a sharding. If XLA folded it, let
        it depend on an argument, or compute it from smaller arrays (jnp.arange, broadcasting) where
        it is used.

    Fine when:
        It is a table that all devices need whole, and the program is compiled once. An array that
        the function closed over is an info: as an argument it takes the same memory.
    """
    table = instruction_table(known)
    sizes = [(table.result_bytes(row) or 0, row) for row in table.rows_of({"constant"})]
    large = sorted((one for one in sizes if one[0] > _LEAST_BYTES), reverse=True)[
        :_CONSTANT_MOST_SHOWN
    ]
    before = known.before if large else None
    written = set() if before is None else _constant_shapes(before)
    for size, row in large:
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


def _constant_shapes(module: HloModule) -> set[str]:
    """Return the shapes of the constants of a text."""
    return {
        module.instruction(row).shape_text.partition("{")[0]
        for row, opcode in enumerate(module.opcodes)
        if opcode == "constant"
    }


# ---- M012 ----------------------------------------------------------------------------------------


_HEAP_LEAST_SHARE = 0.1
_HEAP_WARNING_BYTES, _HEAP_WARNING_SHARE = 64 << 20, 0.25
_ROOMY = 0.8
"""Share of the memory of a device up to which a program fits with room."""


@module_rule("M012", needs=PEAK)
def fragmented_heap(known: ModuleDump) -> Iterator[Finding]:
    """The heap of temporaries is fragmented: a tenth of the memory is between values.

    What:
        XLA places temporaries in one heap. What must fit exceeds the bytes held at the peak by a
        tenth or more, because freed places are too small for the values that come later.

    Why it costs:
        The memory between the values, on every device. The saving is "up to": XLA's placement is a
        heuristic, and a lower bound without any fragmentation may not exist.

    Fix:
        Let values of one size follow each other: the same chunk sizes in loops, batch and sequence
        dimensions that are not changed slightly between layers (padding to one size). On GPU
        --xla_gpu_enable_while_loop_double_buffering=false keeps fewer copies. A newer XLA may place
        better: hlo-lens bisect compares versions.

    Fine when:
        The program fits: where it takes at most four fifths of the memory of a device that is
        known, nothing is said. Below 64 MiB, or below a quarter of the memory, it is an info: no
        change of the program is known to avoid it.
    """
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if memory is None or peak is None:
        return
    statement = memory.statement
    if not statement.is_exact and statement.source != "estimate":
        return  # a libtpu that counts fragmentation twice
    lost = next(
        (one.fragmentation_bytes for one in statement.spaces if one.color == peak.color), None
    )
    total = statement.total_bytes
    limit = statement.limit_bytes
    if limit is not None and total <= _ROOMY * limit:
        return
    least = max(_HEAP_WARNING_BYTES, int(_HEAP_WARNING_SHARE * total))
    if lost is None or lost < max(_LEAST_BYTES, _HEAP_LEAST_SHARE * total):
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
        severity=None if lost >= least else Severity.INFO,
    )
