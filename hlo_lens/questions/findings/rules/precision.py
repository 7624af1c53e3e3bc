"""Rules about element types: f32 where 16 bits would do, and the reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import tabulate
from hlo_lens.program.flops import flops_of
from hlo_lens.program.origins import Origins, origins_of
from hlo_lens.program.runs import CallCounts
from hlo_lens.program.summary import backend_of_dump, hlo_text
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.collectives.collective import WIRE, run_sum
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import NO_TEXT_BEFORE, PEAK, module_rule
from hlo_lens.questions.findings.values import (
    by_line,
    converted_from,
    finding_of,
    is_converted,
    subject,
    transfers,
)
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import SAVED, Differentiation, memory_roles
from hlo_lens.render.result import sum_of
from hlo_lens.text.errors import MissingDumpError
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.values import Transfer
    from hlo_lens.questions.memory.peak import LiveValue


# ---- M006 ----------------------------------------------------------------------------------------
_NARROW = ("bf16", "f16")
_LEAST_BYTES = 64 * 1024
_LEAST_SHARE = 0.01
"""Least share of the peak of the f32 values of a line."""

_LEAST_FLOPS = 0.1
"""Least share of the FLOP of forward products that those in f32 have for a warning."""

_MOST_VALUES = 200
"""Limit on the values at the peak that are examined, largest first."""

_MOST_ROWS = 100_000
"""Most instructions of a text before optimizations that is searched."""

_MOST_SHOWN = 5

_FIX = (
    "convert back before the product: (...).astype(x.dtype) @ w; for sums in f32 "
    "preferred_element_type=jnp.float32"
)


@module_rule("M006", needs=PEAK)
def upcast_activation(known: ModuleDump) -> Iterator[Finding]:
    """Values of 16 bits are converted to f32 before products, or carried through a loop so.

    What: The program, before optimizations, converts values of bf16 or f16 to f32 and computes
    products (dot, convolution) with them, so that all that follows is f32; or carries the f32
    values from layer to layer of a loop and saves them for the backward pass. The evidence has the
    f32 values at the peak.
    Why it costs: Twice the bytes of each value that is computed from it, saved for the backward
    pass or sent; and products in f32, which are several times slower on GPU. The saving is at most
    the bytes of these values at the peak: half of what is then kept in 16 bits, all of what XLA
    then fuses. For less than a tenth of the FLOP, and on CPU without them at the peak, it is an
    info. --prove cannot apply the fix, which is in the middle of the program.
    Fix: Compute in f32 only what needs it, and convert back before the product:
    norm(x.astype(jnp.float32)).astype(x.dtype) @ w. For sums in f32 use jnp.einsum(...,
    preferred_element_type=jnp.float32), which reads 16 bits.
    Fine when: The precision is needed: logits, routers, norms, softmax. Normalisations and softmax
    that convert back are no findings. CPU's compiler itself converts bf16 values to f32 and keeps
    both; these copies are no findings, and on CPU the fix saves less than on a TPU or GPU.
    """
    memory, before = memory_results(known), known.before
    peak = None if memory is None else memory.peak
    if peak is None:
        return
    if before is None or len(before.columns) > _MOST_ROWS:
        texts = set(hlo_text(known).shape_texts)
        if any(f"{one}[" in text for text in texts for one in _NARROW):
            too_large = f"the text before optimizations has more than {_MOST_ROWS:,} instructions"
            raise MissingDumpError(NO_TEXT_BEFORE if before is None else too_large)
        return
    left = [
        one
        for one in peak.live[:_MOST_VALUES]
        if one.category == "temp" and one.shape.startswith("f32[")
    ]
    least = _LEAST_SHARE * peak.total_bytes
    for upcast in _upcasts(before):
        made = [one for one in left if peak.origin_of(one).source in upcast.makers]
        left = [one for one in left if one not in made]
        how = f" and reach {plural(upcast.products, 'product')}"
        if sum(one.owned_bytes for one in made) >= least:
            yield _upcast_finding(known, upcast.place, made, how, is_grave=upcast.is_grave)
        elif (share := upcast.flops_share or 0.0) >= _LEAST_FLOPS:
            may_be = "" if upcast.is_grave else "products that may be of "
            is_slow = upcast.is_grave and backend_of_dump(known) != "cpu"
            yield Finding(
                message=(
                    f"16-bit values are converted to f32{how} with {share:.0%} of the FLOP of "
                    f"{may_be}the forward pass"
                ),
                fix=_FIX,
                **at(upcast.place),
                evidence=(
                    f"the largest conversion has {format_bytes(upcast.bytes)}, on all devices",
                ),
                severity=Severity.WARNING if is_slow else Severity.INFO,
            )
    roles = memory_roles(known)
    for place, makers in _carried(before) if roles is not None else ():
        made = []
        for one in left:
            origin = peak.origin_of(one)
            is_made = (origin.op_name, str(origin.source)) in makers
            made += [one] * (is_made and roles is not None and roles.of_live(one) == SAVED)
        left = [one for one in left if one not in made]
        if sum(one.owned_bytes for one in made) >= least:
            yield _upcast_finding(known, place, made, ", and a loop carries and saves them so")


def _upcast_finding(
    known: ModuleDump,
    place: SourceLocation,
    made: Sequence[LiveValue],
    how: str,
    *,
    is_grave: bool | None = None,
) -> Finding:
    """Return the finding about the f32 values of a line; `is_grave` is None for carried ones."""
    size, is_on_cpu = sum(one.owned_bytes for one in made), backend_of_dump(known) == "cpu"
    values = listed([f"{one.value} {one.shape.partition('{')[0]}" for one in made], _MOST_SHOWN)
    fix = (
        "keep what goes from layer to layer in 16 bits: x = (x + y).astype(jnp.bfloat16); "
        "convert to f32 inside of norms alone"
    )
    if is_grave is not None:
        values = f"{plural(len(made), 'value')} at the peak: {values}"
        fix = _FIX
    note = "CPU computes bf16 in f32 in any case: there the fix saves less"
    severity = Severity.INFO if is_grave is False else Severity.WARNING if is_on_cpu else None
    return Finding(
        message=(
            f"16-bit values are converted to f32{how}: {format_bytes(size)} of f32 at the peak"
        ),
        fix=fix,
        **at(place),
        values=tuple(one.value for one in made),
        evidence=(values, *[note] * is_on_cpu),
        # a CPU makes most of them in any case
        saves=Saves() if is_on_cpu else Saves.up_to(size // 2 if is_grave is None else size),
        severity=severity,
    )


class _Upcast(NamedTuple):
    """A line that converts values to f32, with the lines of what is computed from them in f32.

    `is_grave`: its products are much of the FLOP of all forward products, and surely forward.
    """

    place: SourceLocation
    bytes: int
    makers: set[str]
    products: int
    flops_share: float | None
    is_grave: bool


def _upcasts(module: HloModule) -> Iterator[_Upcast]:
    """Yield the lines whose conversions reach products, largest first; each value counts once."""
    origins = origins_of(module)
    places, runs = origins.places, CallCounts(tabulate(module))
    passes = Differentiation(module, places)  # forward or not, None where not known

    def flops_of_products(rows: Iterable[int]) -> int | None:
        return sum_of(
            None if flops is None or times is None else flops * times
            for flops, times in (
                (flops_of(module.instruction(row)), runs.at(module.links.owners[row]).times)
                for row in rows
            )
        )

    lines: dict[SourceLocation, list[int]] = {}
    for row in _conversions(module):
        place = places.innermost(row)
        if place is not None and passes.is_forward(row) is not False:
            lines.setdefault(place, []).append(row)
    sizes = {
        place: max(origins.steps.size(Value(row)) for row in rows) for place, rows in lines.items()
    }
    forward = {
        row: passes.is_forward(row)
        for row, opcode in enumerate(module.opcodes)
        if opcode_traits(opcode).is_contraction and passes.is_forward(row) is not False
    }
    total = flops_of_products(forward)
    seen: set[Value] = set()
    for place in sorted(lines, key=lambda place: (-sizes[place], lines[place][0])):
        values = _computed(module, origins, map(Value, lines[place]), seen)
        products = [one.row for one in values if one.row in forward]
        if products and sizes[place] >= _LEAST_BYTES:
            own = flops_of_products(products)
            share = own / total if own is not None and total else None
            is_sure = all(forward.values()) and all(map(passes.is_forward, lines[place]))
            made = (one.row for one in values if not opcode_traits(module.opcodes[one.row]).is_view)
            makers = {str(one) for one in map(places.innermost, made) if one is not None}
            is_grave = is_sure and (share is None or share >= _LEAST_FLOPS)
            yield _Upcast(place, sizes[place], makers, len(products), share, is_grave)


def _conversions(module: HloModule) -> Iterator[int]:
    for row, opcode in enumerate(module.opcodes):
        if opcode == "convert" and _is_f32(module, Value(row)):
            operand = module.operand_shape(row, 0)
            if operand is not None and operand.element_type in _NARROW:
                yield row


def _is_f32(module: HloModule, value: Value) -> bool:
    shape = module.instruction(value.row).shape_of(value.element)
    return shape is not None and shape.element_type == "f32" and shape.rank > 0


def _computed(
    module: HloModule,
    origins: Origins,
    start: Iterable[Value],
    seen: set[Value],
    is_wanted: Callable[[Value], bool] = lambda _: True,
) -> list[Value]:
    """Return some values and what is computed from them in f32, without what was seen before."""
    found, waiting = [], [*start]
    while waiting:
        value = waiting.pop()
        if value not in seen and _is_f32(module, value) and is_wanted(value):
            seen.add(value)
            found.append(value)
            waiting += origins.steps.users(value)
    return found


def _carried(module: HloModule) -> Iterator[tuple[SourceLocation, set[tuple[str | None, str]]]]:
    """Yield the lines whose conversions to f32 a loop of the forward pass carries.

    With operation path and line of what is computed from them in f32, element by element. Of the
    conversions that one loop carries only the first is reported.
    """
    origins = origins_of(module)
    places, passes = origins.places, Differentiation(module, origins.places)
    seen: set[Value] = set()
    entry_first = sorted(
        _conversions(module), key=lambda row: module.links.owners[row] != module.entry.place
    )
    for row in entry_first:
        place, size = places.innermost(row), origins.steps.size(Value(row))
        if place is None or passes.is_forward(row) is False:
            continue

        def is_same_sized(value: Value, size: int = size) -> bool:
            is_product = opcode_traits(module.opcodes[value.row]).is_contraction
            return origins.steps.size(value) == size and not is_product

        values = _computed(module, origins, [Value(row)], seen, is_same_sized)
        if any(module.opcodes[one.row] == "parameter" and one.element for one in values):
            yield place, {(passes.path(one.row), str(places.innermost(one.row))) for one in values}


# ---- C010 ----------------------------------------------------------------------------------------
@module_rule("C010")
def wide_collective(known: ModuleDump) -> Iterator[Finding]:
    """A collective moves f32 values that were bf16 before and are bf16 after it.

    What: The operand of a collective is converted from 16 bits to f32, and each use of its result
    converts it back.
    Why it costs: Twice the bytes on the wire.
    Fix: Convert after the collective: leave the value in bf16 where it is sharded, and cast what
    the arithmetic needs (x.astype(jnp.float32) after the gather).
    Fine when: It is a sum, and its precision matters: then f32 is right. CPU's compiler computes
    bf16 in f32 and converts around everything, so this rule does not look at CPU dumps.
    """
    module = hlo_text(known)
    found = [
        one.collective
        for one in _converted_after(known, ("f32",), _NARROW)
        if all(converted_from(module, part.operand) in _NARROW for part in one.parts)
    ]
    for group in by_line(found if backend_of_dump(known) in ("gpu", "tpu") else ()):
        yield finding_of(
            group,
            f"{subject(group)} moves f32, converted from 16 bits before and to 16 bits after",
            "convert after the collective, or not at all: x.astype(jnp.float32) where f32 is used",
            saved_share=0.5,
        )


def _converted_after(
    known: ModuleDump, moved: tuple[str, ...], wanted: tuple[str, ...]
) -> Iterator[Transfer]:
    for one in transfers(known):
        if one.parts and one.collective.element_type in moved:
            results = (part.result for part in one.parts)
            if all(is_converted(hlo_text(known), result, wanted) for result in results):
                yield one


# ---- C009 ----------------------------------------------------------------------------------------
@module_rule("C009")
def low_precision_reduction(known: ModuleDump) -> Iterator[Finding]:
    """A sum over devices is made in bf16 or f16, and its result converted to f32 at once.

    What: An all-reduce or reduce-scatter adds values of 16 bits, and each use of the result is a
    conversion to f32.
    Why it costs: Precision: each addition rounds to 8 bits of mantissa (bf16), although f32 is
    wanted after it. Nothing is saved by f32; the transfer would take twice the bytes.
    Fix: Convert before the sum: lax.psum(x.astype(jnp.float32), axis); for gradients that the
    partitioner reduces, preferred_element_type=jnp.float32 in the product that makes them.
    Fine when: The precision is enough and the bytes matter, as for gradients of large models. It is
    an info.
    """
    found = (one.collective for one in _converted_after(known, _NARROW, ("f32",)))
    for group in by_line(one for one in found if opcode_traits(one.kind).is_reduction):
        wire = run_sum(group, WIRE)
        cost = "twice the bytes" if wire is None else f"{format_bytes(wire.most)} more"
        yield finding_of(
            group,
            f"{subject(group)} {'adds' if len(group) == 1 else 'add'} {group[0].element_type} "
            f"values, converted to f32 at once: sums in f32 are more precise and send {cost}",
            "where precision matters, convert before the sum, or preferred_element_type="
            "jnp.float32 in the product",
            saves=Saves(),
            severity=Severity.INFO,
        )
