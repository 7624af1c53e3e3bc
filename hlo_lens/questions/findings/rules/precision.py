"""Rules about element types: f32 where 16 bits would do, and the reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import tabulate
from hlo_lens.program.flops import flops_of
from hlo_lens.program.origins import Origins, origins, origins_of
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
from hlo_lens.questions.memory.peak import values_of
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import SAVED, Differentiation, memory_roles
from hlo_lens.render.result import sum_of
from hlo_lens.text.errors import MissingDumpError
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory


# ---- M006 ----------------------------------------------------------------------------------------


_NARROW = ("bf16", "f16")
_CONVERT = "convert_element_type"
"""End of the operation path of a conversion that the program asks for."""

_LEAST_BYTES = 64 * 1024
_LEAST_SHARE = 0.01
"""Least share of the peak of the f32 values of a line."""

_LEAST_FLOPS = 0.1
"""Least share of FLOP of products in f32 that are a finding without values at the peak, or a
warning with them."""

_MOST_VALUES = 200
"""Limit on the values at the peak that are examined, largest first."""

_MOST_ROWS = 100_000
"""Most instructions of a text before optimizations that is searched."""
_TOO_LARGE = f"the text from before optimizations has more than {_MOST_ROWS:,} instructions"

_MOST_SHOWN = 5
_FIX = (
    "convert back before the product: (...).astype(x.dtype) @ w; for sums in f32 "
    "preferred_element_type=jnp.float32"
)


class _Upcast(NamedTuple):
    """A line that converts values to f32, and what is computed from them in f32.

    Attributes:
        place: The line.
        bytes: Size of its largest conversion.
        makers: Lines of what is computed from them in f32, on and after these products.
        products: Forward products of it.
        flops_share: Share of the FLOP of all forward products that these have; None if not known.
        is_sure: Whether operation paths show the pass of all products that count as forward.
    """

    place: SourceLocation
    bytes: int
    makers: set[str]
    products: int
    flops_share: float | None
    is_sure: bool


@module_rule("M006", needs=PEAK)
def upcast_activation(known: ModuleDump) -> Iterator[Finding]:
    """Values of 16 bits are converted to f32 before products, or held in both types.

    What:
        The program, before optimizations, converts values of bf16 or f16 to f32 and computes
        products (dot, convolution) with them, so that all that follows is f32; or carries the f32
        values from layer to layer of a loop and saves them for the backward pass; or a value of 16
        bits and its conversion to f32 are both in memory at the peak. The evidence has the f32
        values at the peak.

    Why it costs:
        Twice the bytes of each value that is computed from it, saved for the backward pass or sent;
        and products in f32, which are several times slower on GPU. The saving is at most the bytes
        of these values at the peak: half of what is then kept in 16 bits, all of what XLA then
        fuses. For less than a tenth of the FLOP, and on CPU without them at the peak, it is an
        info. --prove cannot apply the fix, which is in the middle of the program.

    Fix:
        Compute in f32 only what needs it, and convert back before the product:
        norm(x.astype(jnp.float32)).astype(x.dtype) @ w. For sums in f32 use jnp.einsum(...,
        preferred_element_type=jnp.float32), which reads 16 bits.

    Fine when:
        The precision is needed: logits, routers, norms, softmax. Normalisations and softmax that
        convert back are no findings. CPU's compiler itself converts bf16 values to f32 and keeps
        both; these copies are no findings, and on CPU the fix saves less than on a TPU or GPU.
    """
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if peak is None:
        return
    left = [one for one in peak.live[:_MOST_VALUES] if _is_wide(one)]
    before = known.before
    is_read = before is not None and len(before.columns) <= _MOST_ROWS
    for upcast in _upcasts(before) if before is not None and is_read else ():
        made = [one for one in left if peak.origin_of(one).source in upcast.makers]
        left = [one for one in left if one not in made]
        if sum(one.owned_bytes for one in made) >= _LEAST_SHARE * peak.total_bytes:
            yield _product_finding(known, upcast, made)
        elif (upcast.flops_share or 0.0) >= _LEAST_FLOPS:
            yield _slow_finding(known, upcast)
    for place, makers in _carried(before) if before is not None and is_read else ():
        made = [one for one in left if _maker(peak, one) in makers and _is_saved(known, one)]
        left = [one for one in left if one not in made]
        if sum(one.owned_bytes for one in made) >= _LEAST_SHARE * peak.total_bytes:
            yield _carried_finding(known, place, made)
    if backend_of_dump(known) != "cpu":
        yield from _pairs(known, peak, left)
    if not is_read and _has_narrow(hlo_text(known)):
        raise MissingDumpError(NO_TEXT_BEFORE if before is None else _TOO_LARGE)


def _has_narrow(module: HloModule) -> bool:
    return any(f"{one}[" in text for text in set(module.shape_texts) for one in _NARROW)


def _is_wide(value: LiveValue) -> bool:
    return value.category == "temp" and value.shape.startswith("f32[")


def _maker(peak: PeakMemory, value: LiveValue) -> tuple[str | None, str]:
    origin = peak.origin_of(value)
    return origin.op_name, str(origin.source)


# ---- conversions before products -----------------------------------------------------------------


class _Forward:
    """The forward pass of a module: instructions that may be of it, and their FLOP in a run."""

    def __init__(self, module: HloModule, origins: Origins) -> None:
        self._module = module
        self._runs = CallCounts(tabulate(module))
        self.passes = Differentiation(module, origins.places)
        products = [row for row in range(len(module.columns)) if self.is_product(row)]
        self.flops = self.flops_of(products)
        self.is_sure = all(self.passes.is_forward(row) for row in products)

    def has(self, row: int) -> bool:
        """Return whether an instruction is, or may be, of the forward pass."""
        return self.passes.is_forward(row) is not False

    def is_product(self, row: int) -> bool:
        """Return whether an instruction is a product of the forward pass."""
        return opcode_traits(self._module.opcodes[row]).is_contraction and self.has(row)

    def flops_of(self, rows: Iterable[int]) -> int | None:
        """Return the FLOP of products in one run of the program; None if not known."""
        owners = self._module.links.owners
        return sum_of(
            None if flops is None or times is None else flops * times
            for flops, times in (
                (flops_of(self._module.instruction(row)), self._runs.at(owners[row]).times)
                for row in rows
            )
        )


def _upcasts(module: HloModule) -> list[_Upcast]:
    """Return the lines whose conversions reach products, largest first; each value counts once."""
    origins = origins_of(module)
    forward = _Forward(module, origins)
    lines: dict[SourceLocation, list[int]] = {}
    for row, opcode in enumerate(module.opcodes):
        if opcode == "convert" and _is_upcast(module, row) and forward.has(row):
            place = origins.places.innermost(row)
            if place is not None:
                lines.setdefault(place, []).append(row)
    sizes = {
        place: max(origins.steps.size(Value(row)) for row in rows) for place, rows in lines.items()
    }
    seen: set[Value] = set()
    found = []
    for place in sorted(lines, key=lambda place: (-sizes[place], lines[place][0])):
        makers, products = _computed(module, origins, forward, lines[place], seen)
        if products and sizes[place] >= _LEAST_BYTES:
            own = forward.flops_of(one.row for one in products)
            share = own / forward.flops if own is not None and forward.flops else None
            is_sure = forward.is_sure and all(map(forward.passes.is_forward, lines[place]))
            found.append(_Upcast(place, sizes[place], makers, len(products), share, is_sure))
    return found


def _is_upcast(module: HloModule, row: int) -> bool:
    """Whether a conversion makes f32 of 16 bits."""
    instruction = module.instruction(row)
    shape, operand = instruction.shape, instruction.operand_shape(0)
    is_wider = shape is not None and shape.element_type == "f32" and operand is not None
    return is_wider and operand is not None and operand.element_type in _NARROW


def _computed(
    module: HloModule,
    origins: Origins,
    forward: _Forward,
    rows: Sequence[int],
    seen: set[Value],
) -> tuple[set[str], list[Value]]:
    """Return the lines of what is computed from conversions in f32, and the forward products."""
    products: list[Value] = []
    lines: set[str] = set()
    waiting = [Value(row) for row in rows]
    while waiting:
        value = waiting.pop()
        if value in seen or not _is_f32(module, value):
            continue
        seen.add(value)
        if forward.is_product(value.row):
            products.append(value)
        place = origins.places.innermost(value.row)
        if place is not None and not opcode_traits(module.opcodes[value.row]).is_view:
            lines.add(str(place))
        waiting += origins.steps.users(value)
    return lines, products


def _is_f32(module: HloModule, value: Value) -> bool:
    shape = module.instruction(value.row).shape
    for position in value.element:
        parts = () if shape is None else shape.tuple_shapes
        shape = parts[position] if position < len(parts) else None
    return shape is not None and shape.element_type == "f32" and shape.rank > 0


def _product_finding(known: ModuleDump, upcast: _Upcast, made: Sequence[LiveValue]) -> Finding:
    size = sum(one.owned_bytes for one in made)
    is_small = (upcast.flops_share or 1.0) < _LEAST_FLOPS
    return Finding(
        message=(
            f"16-bit values are converted to f32 and reach {plural(upcast.products, 'product')}: "
            f"{format_bytes(size)} of f32 at the peak"
        ),
        fix=_FIX,
        **at(upcast.place),
        values=tuple(one.value for one in made),
        evidence=(
            f"{plural(len(made), 'value')} at the peak: "
            f"{listed([f'{one.value} {_shape(one)}' for one in made], _MOST_SHOWN)}",
            *_cpu_note(known),
            *_doubt(upcast),
        ),
        saves=_saves(known, size),
        severity=Severity.INFO if is_small or not upcast.is_sure else _severity(known),
    )


def _saves(known: ModuleDump, size: int) -> Saves:
    """Return the saving of f32 values; not known on a CPU, which makes most of them in any case."""
    return Saves() if backend_of_dump(known) == "cpu" else Saves.up_to(size)


def _severity(known: ModuleDump) -> Severity | None:
    """Return the severity of f32 values on a CPU; None where their saving decides."""
    return Severity.WARNING if backend_of_dump(known) == "cpu" else None


def _slow_finding(known: ModuleDump, upcast: _Upcast) -> Finding:
    """Return the finding about products in f32 whose operands are not at the peak."""
    what = "the forward pass" if upcast.is_sure else "products that may be of the forward pass"
    return Finding(
        message=(
            f"16-bit values are converted to f32 and reach {plural(upcast.products, 'product')} "
            f"with {upcast.flops_share or 0.0:.0%} of the FLOP of {what}"
        ),
        fix=_FIX,
        **at(upcast.place),
        evidence=(
            f"the largest conversion has {format_bytes(upcast.bytes)}, on all devices",
            *_doubt(upcast),
        ),
        severity=Severity.WARNING
        if upcast.is_sure and backend_of_dump(known) != "cpu"
        else Severity.INFO,
    )


def _doubt(upcast: _Upcast) -> tuple[str, ...]:
    """Return the note on products whose pass is not known."""
    text = "no operation path shows whether all these products are of the forward pass"
    return () if upcast.is_sure else (text,)


def _shape(value: LiveValue) -> str:
    return value.shape.partition("{")[0]


# ---- conversions that a loop carries -------------------------------------------------------------


def _is_saved(known: ModuleDump, value: LiveValue) -> bool:
    roles = memory_roles(known)
    return roles is not None and roles.of_live(value) == SAVED


def _carried(module: HloModule) -> Iterator[tuple[SourceLocation, set[tuple[str | None, str]]]]:
    """Yield the lines whose conversions to f32 a loop of the forward pass carries.

    With operation path and line of what is computed from them in f32, element by element. Of the
    conversions that one loop carries only the first is reported.
    """
    origins = origins_of(module)
    forward = Differentiation(module, origins.places)
    seen: set[Value] = set()
    entry_first = sorted(
        (row for row, opcode in enumerate(module.opcodes) if opcode == "convert"),
        key=lambda row: module.links.owners[row] != module.entry.place,
    )
    for row in entry_first:
        place = origins.places.innermost(row)
        if place is None or not _is_upcast(module, row) or forward.is_forward(row) is False:
            continue
        values = _same_sized(module, origins, Value(row)) - seen
        seen |= values
        if any(module.opcodes[one.row] == "parameter" and one.element for one in values):
            places = origins.places
            yield place, {(forward.path(one.row), str(places.innermost(one.row))) for one in values}


def _same_sized(module: HloModule, origins: Origins, value: Value) -> set[Value]:
    """Return what is computed from a value in f32, element by element, and the value."""
    size, found, waiting = origins.steps.size(value), {value}, [value]
    while waiting:
        for user in origins.steps.users(waiting.pop()):
            is_product = opcode_traits(module.opcodes[user.row]).is_contraction
            is_same = origins.steps.size(user) == size and _is_f32(module, user)
            if is_same and not is_product and user not in found:
                found.add(user)
                waiting.append(user)
    return found


def _carried_finding(
    known: ModuleDump, place: SourceLocation, made: Sequence[LiveValue]
) -> Finding:
    size = sum(one.owned_bytes for one in made)
    return Finding(
        message=(
            f"16-bit values are converted to f32, and a loop carries and saves them so: "
            f"{format_bytes(size)} of f32 at the peak"
        ),
        fix="keep what goes from layer to layer in 16 bits: x = (x + y).astype(jnp.bfloat16); "
        "convert to f32 inside of norms alone",
        **at(place),
        values=tuple(one.value for one in made),
        evidence=(
            listed([f"{one.value} {_shape(one)}" for one in made], _MOST_SHOWN),
            *_cpu_note(known),
        ),
        saves=_saves(known, size // 2),
        severity=_severity(known),
    )


def _cpu_note(known: ModuleDump) -> tuple[str, ...]:
    text = "CPU computes bf16 in f32 in any case: there the fix saves less"
    return (text,) if backend_of_dump(known) == "cpu" else ()


# ---- pairs of both types -------------------------------------------------------------------------


def _pairs(known: ModuleDump, peak: PeakMemory, live: Sequence[LiveValue]) -> Iterator[Finding]:
    """Yield a finding for each line whose f32 conversions live beside the values converted."""
    module, steps = hlo_text(known), origins(known).steps
    held = {
        steps.definition(value): name
        for name, value in values_of(module, (one.value for one in peak.live)).items()
    }
    groups: dict[SourceLocation | None, list[tuple[LiveValue, str]]] = {}
    for one in live:
        made = peak.makers.get(one.value)
        source = None if made is None else _converted(known, made.row)
        twin = None if source is None else held.get(steps.definition(source))
        if made is not None and twin is not None:
            groups.setdefault(origins(known).place(made.row), []).append((one, twin))
    for place, pairs in groups.items():
        size = sum(one.owned_bytes for one, _ in pairs)
        yield Finding(
            message=(
                f"{plural(len(pairs), 'value')} of 16 bits and the conversion to f32 are both in "
                f"memory at the peak: {format_bytes(size)} of f32"
            ),
            fix="convert where the value is used, so that XLA fuses the conversion, and do not "
            "keep the f32 value for later",
            **at(place),
            values=tuple(one.value for one, _ in pairs),
            evidence=tuple(
                f"{one.value} {_shape(one)} is {twin}, converted" for one, twin in pairs
            )[:_MOST_SHOWN],
            saves=Saves.up_to(size),
        )


def _converted(known: ModuleDump, row: int) -> Value | None:
    """Return the 16-bit value that an instruction only converts, as the program asks."""
    steps = origins(known).steps
    root = steps.root(row) if steps.opcodes[row] == "fusion" else row
    if root is None or steps.opcodes[root] != "convert":
        return None
    shape = hlo_text(known).instruction(root).operand_shape(0)
    if shape is None or shape.element_type not in _NARROW:
        return None
    path = origins(known).places.op_name(root) or ""
    operand = steps.operand(root, 0)
    if operand is None or not path.endswith(_CONVERT):
        return None
    source = steps.definition(operand)
    if steps.opcodes[source.row] != "parameter" or root == row:
        return source
    number = hlo_text(known).instruction(source.row).parameter_number
    return None if number is None else steps.operand(row, number)


# ---- C010 ----------------------------------------------------------------------------------------


@module_rule("C010")
def wide_collective(known: ModuleDump) -> Iterator[Finding]:
    """A collective moves f32 values that were bf16 before and are bf16 after it.

    What:
        The operand of a collective is converted from 16 bits to f32, and each use of its result
        converts it back.

    Why it costs:
        Twice the bytes on the wire.

    Fix:
        Convert after the collective: leave the value in bf16 where it is sharded, and cast what the
        arithmetic needs (x.astype(jnp.float32) after the gather).

    Fine when:
        It is a sum, and its precision matters: then f32 is right. CPU's compiler computes bf16 in
        f32 and converts around everything, so this rule does not look at CPU dumps.
    """
    if backend_of_dump(known) not in ("gpu", "tpu"):
        return
    module = hlo_text(known)
    found = [
        one.collective
        for one in transfers(known)
        if one.collective.element_type == "f32"
        and one.parts
        and all(
            converted_from(module, part.operand) in _NARROW
            and is_converted(module, part.result, _NARROW)
            for part in one.parts
        )
    ]
    for group in by_line(found):
        yield finding_of(
            group,
            f"{subject(group)} moves f32, converted from 16 bits before and to 16 bits after",
            "convert after the collective, or not at all: x.astype(jnp.float32) where f32 is used",
            saved_share=0.5,
        )


# ---- C009 ----------------------------------------------------------------------------------------


@module_rule("C009")
def low_precision_reduction(known: ModuleDump) -> Iterator[Finding]:
    """A sum over devices is made in bf16 or f16, and its result converted to f32 at once.

    What:
        An all-reduce or reduce-scatter adds values of 16 bits, and each use of the result is a
        conversion to f32.

    Why it costs:
        Precision: each addition rounds to 8 bits of mantissa (bf16), although f32 is wanted after
        it. Nothing is saved by f32; the transfer would take twice the bytes.

    Fix:
        Convert before the sum: lax.psum(x.astype(jnp.float32), axis); for gradients that the
        partitioner reduces, preferred_element_type=jnp.float32 in the product that makes them.

    Fine when:
        The precision is enough and the bytes matter, as for gradients of large models. It is an
        info.
    """
    module = hlo_text(known)
    found = [
        one.collective
        for one in transfers(known)
        if opcode_traits(one.collective.kind).is_reduction
        and one.collective.element_type in ("bf16", "f16")
        and one.parts
        and all(is_converted(module, part.result, ("f32",)) for part in one.parts)
    ]
    for group in by_line(found):
        verb = "adds" if len(group) == 1 else "add"
        wire = run_sum(group, WIRE)
        cost = "twice the bytes" if wire is None else f"{format_bytes(wire.most)} more"
        yield finding_of(
            group,
            f"{subject(group)} {verb} {group[0].element_type} values, converted to f32 at once: "
            f"sums in f32 are more precise and send {cost}",
            "where precision matters, convert before the sum, or preferred_element_type="
            "jnp.float32 in the product",
            saves=Saves(),
            severity=Severity.INFO,
        )
