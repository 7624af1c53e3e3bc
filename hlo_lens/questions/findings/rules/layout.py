"""Rules about sizes and layouts: padding, and operands that are laid out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.load.devices import (
    MATRIX_UNITS,
    SMALLEST_SIDE,
    SUBLANES,
    TARGET_ARGUMENTS,
    tpu_target,
)
from hlo_lens.program.flops import ProductSizes, WorkFinder, flops, product_sizes
from hlo_lens.program.origins import origins
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import backend_of_dump, hlo_text, instruction_table
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import PEAK, module_rule
from hlo_lens.questions.findings.values import first_use, maker_of, operand_of
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.units import format_bytes, format_flops, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory


# ---- L002 ----------------------------------------------------------------------------------------


_SHORT_LEAST_SHARE = 0.01
"""Least share of the program's FLOP of a product."""

_SHORT_LEAST_PADDING = 0.2
"""Least share of padding in the unit's work."""

_WARNING_FLOPS = 10**11
"""Least FLOP saved in one run that are worth a warning: half a millisecond of a v5e."""

_ALIGNED = 8
"""Multiple that tensor cores want of 16-bit operands."""

_NARROW = ("bf16", "f16")
_OTHERS = ("f64", "c64", "c128", "s32", "u32", "s64", "u64", "pred")
"""Element types that no matrix unit multiplies."""

_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Padded:
    """A product with a dimension that does not fill the unit.

    Attributes:
        instruction: The product.
        sizes: Its sizes.
        role: The dimension: contracted, rows or columns.
        size: Its size.
        unit: Size that it should be a multiple of.
        flops: FLOP in one run of the program.
        wasted: FLOP of padding in one run.
        saved: FLOP of padding that take time; None if not known.
    """

    instruction: HloInstruction
    sizes: ProductSizes
    role: str
    size: int
    unit: int
    flops: int
    wasted: int
    saved: int | None


@module_rule("L002")
def short_dimension(known: ModuleDump) -> Iterator[Finding]:
    """A dimension of a product does not fill the matrix unit.

    What:
        The matrix unit of a TPU multiplies by matrices of 128 x 128 elements (256 x 256 from v6e
        on), eight rows at a time. In a dot or convolution, the contracted dimension or the columns
        are less than a multiple of that, and a fifth of the unit's work or more is padding. On GPU,
        a dimension of a product of 16 bits is no multiple of 8, which tensor cores want.

    Why it costs:
        The padding takes the unit's time: a contracted dimension of 64 takes that of 128. FLOP
        wasted are those of the padded product less those of the product; dimensions that can be
        merged count as merged. The saving is the part that takes longer than moving the operands
        between the device's memory and the unit (peak rates of jax/_src/tpu_info.py): none in
        products that are bound by memory, whose finding is an info. On GPU XLA pads bf16 and f16 to
        multiples of 8 for cuBLAS (cublas_padding_requirements.h), or Triton reads unaligned rows;
        how much slower that is, is not known: an info.

    Fix:
        Choose sizes that are multiples of 128 (256 from v6e on; 64 or 8 at least on GPU): a
        vocabulary of 50304 for 50257, 8 heads of 128 for 16 heads of 64; or merge the dimension
        with another one.

    Fine when:
        The size is given by the model, or the product is a small part of the program. Products with
        less than a hundredth of the FLOP are no findings; below 100 GFLOP saved it is an info. CPU
        dumps are not looked at. It cannot be proven with --prove, which does not change shapes.
    """
    if backend_of_dump(known) not in ("tpu", "gpu"):
        return
    groups: dict[object, list[_Padded]] = {}
    for one in _padded(known):
        groups.setdefault((one.size, one.unit), []).append(one)
    for found in groups.values():
        yield _short_finding(known, found)


def _padded(known: ModuleDump) -> Iterator[_Padded]:
    total = flops(known).total or flops(known).at_least or 0
    padding = _TpuPadding(known) if backend_of_dump(known) == "tpu" else _GpuPadding(known)
    for one in flops(known).products:
        if one.run_flops is None or one.times is None or one.run_flops < _SHORT_LEAST_SHARE * total:
            continue
        computation = hlo_text(known).computation(one.computation)
        instruction = None if computation is None else computation.instruction(one.name)
        sizes = None if instruction is None else product_sizes(instruction)
        if instruction is None or sizes is None or not sizes.flops:
            continue
        found = padding.of(instruction, sizes, one.times)
        if found is not None:
            yield found


class _Side(NamedTuple):
    """Rows or columns of a product, and the multiple that they are padded to."""

    role: str
    size: int
    unit: int

    @property
    def padded(self) -> int:
        """The size with padding."""
        return _up(self.size, self.unit)


class _TpuPadding:
    """Finds the padding of products in the matrix unit of a TPU."""

    def __init__(self, known: ModuleDump) -> None:
        text = known.setting(TARGET_ARGUMENTS)
        target = None if text is None else tpu_target(text)
        kind = "" if target is None else target.topology.partition(":")[0]
        self._unit = MATRIX_UNITS.get(kind)
        self._side = SMALLEST_SIDE if self._unit is None else self._unit.side
        self._known = known
        self._work = WorkFinder(instruction_table(known), call_counts(known))

    def of(self, instruction: HloInstruction, sizes: ProductSizes, times: int) -> _Padded | None:
        """Return a product whose padding is a large part; None for others."""
        if _element_type(instruction.operand_shape(0)) in _OTHERS or _is_of_vectors(sizes):
            return None
        side = self._side
        depth, held = _up(sizes.depth, side), self._held(sizes)
        padded = 2 * sizes.batch * depth * held[0].padded * held[1].padded
        if padded - sizes.flops < _SHORT_LEAST_PADDING * padded:
            return None
        parts = [(sizes.depth / depth, "contracted dimension", sizes.depth, side)]
        parts += [(one.size / one.padded, one.role, one.size, one.unit) for one in held]
        _, role, size, unit = min(parts)
        return _Padded(
            instruction=instruction,
            sizes=sizes,
            role=role,
            size=size,
            unit=unit,
            flops=sizes.flops * times,
            wasted=(padded - sizes.flops) * times,
            saved=self._saved(instruction, sizes.flops, padded, times),
        )

    def _held(self, sizes: ProductSizes) -> tuple[_Side, _Side]:
        """Return rows and columns as the unit takes them: neighbours in memory as its columns.

        The smaller padding counts where the text does not show neighbours.
        """
        choices = [
            (_Side("rows", sizes.rows, one), _Side("columns", sizes.columns, other))
            for one, other in ((SUBLANES, self._side), (self._side, SUBLANES))
        ]
        if sizes.are_rows_minor is not None:
            return choices[sizes.are_rows_minor]
        return min(choices, key=lambda held: held[0].padded * held[1].padded)

    def _saved(
        self, instruction: HloInstruction, flops: int, padded: int, times: int
    ) -> int | None:
        """Return the padding that takes longer than the operands."""
        moved = self._moved(instruction)
        if self._unit is None or moved is None:
            return None
        meanwhile = int(moved * self._unit.flops_per_byte)
        return (max(padded, meanwhile) - max(flops, meanwhile)) * times

    def _moved(self, instruction: HloInstruction) -> int | None:
        """Return the bytes that a product, or its fusion, moves."""
        caller = origins(self._known).steps.caller(instruction.row)
        outer = instruction if caller is None else hlo_text(self._known).instruction(caller.row)
        outer = outer if outer.opcode == "fusion" else instruction
        return self._work.of(outer.row).size_bytes


class _GpuPadding:
    """Finds dimensions of products that tensor cores do not want."""

    def __init__(self, known: ModuleDump) -> None:
        self._module = hlo_text(known)

    def of(self, instruction: HloInstruction, sizes: ProductSizes, times: int) -> _Padded | None:
        """Return a 16-bit product with such a dimension; None for others."""
        if _element_type(instruction.operand_shape(0)) not in _NARROW:
            return None
        given = product_sizes(
            instruction, (self._given(instruction, 0), self._given(instruction, 1))
        )
        if given is None or _is_of_vectors(given):
            return None
        named = {
            "contracted dimension": given.depth,
            "rows": given.rows,
            "columns": given.columns,
        }
        short = {role: size for role, size in named.items() if size % _ALIGNED}
        if not short:
            return None
        padded = 2 * given.batch
        for size in named.values():
            padded *= _up(size, _ALIGNED)
        role = min(short, key=lambda one: short[one] / _up(short[one], _ALIGNED))
        return _Padded(
            instruction=instruction,
            sizes=given,
            role=role,
            size=short[role],
            unit=_ALIGNED,
            flops=given.flops * times,
            wasted=(padded - given.flops) * times,
            saved=None,
        )

    def _given(self, instruction: HloInstruction, number: int) -> Shape | None:
        """Return the shape of an operand before XLA padded it."""
        module = self._module
        made = maker_of(module, operand_of(module, instruction.row, number))
        if made is not None and module.opcodes[made.row] == "pad":
            return module.operand_shape(made.row, 0)
        return instruction.operand_shape(number)


def _is_of_vectors(sizes: ProductSizes) -> bool:
    """Return whether a matrix is multiplied by so few vectors that reading it takes the time."""
    return min(sizes.rows, sizes.columns) < SUBLANES


def _up(size: int, multiple: int) -> int:
    """Return the next multiple."""
    return -(-size // multiple) * multiple


def _element_type(shape: Shape | None) -> str | None:
    return None if shape is None else shape.element_type


def _short_finding(known: ModuleDump, found: Sequence[_Padded]) -> Finding:
    first = max(found, key=lambda one: one.wasted)
    flops, wasted = sum(one.flops for one in found), sum(one.wasted for one in found)
    savings = [one.saved for one in found if one.saved is not None]
    saved = sum(savings) if len(savings) == len(found) else None
    return Finding(
        message=(
            f"{plural(len(found), 'product')} of {format_flops(flops)}FLOP "
            f"{'wastes' if len(found) == 1 else 'waste'} {format_flops(wasted)}FLOP on padding: "
            f"{first.role} of {first.size}, no multiple of {first.unit}"
        ),
        fix=f"make the dimension of {first.size} a multiple of {first.unit}, or merge it with "
        "another one",
        **at(origins(known).place(first.instruction.row)),
        values=tuple(one.instruction.name for one in found),
        evidence=(*_products(known, found), *_bound(known, saved)),
        saves=Saves.up_to(flops=saved) if saved else Saves(),
        severity=None if (saved or 0) >= _WARNING_FLOPS else Severity.INFO,
    )


def _products(known: ModuleDump, found: Sequence[_Padded]) -> Iterator[str]:
    """Yield the sizes of the products that waste most, with their lines."""
    for one in sorted(found, key=lambda one: -one.wasted)[:_MOST_SHOWN]:
        sizes, place = one.sizes, origins(known).place(one.instruction.row)
        yield (
            f"{one.instruction.name}: [{sizes.rows}, {sizes.depth}] x "
            f"[{sizes.depth}, {sizes.columns}]"
            + (f", {sizes.batch} times" if sizes.batch > 1 else "")
            + ("" if place is None else f", {place}")
        )


def _bound(known: ModuleDump, saved: int | None) -> tuple[str, ...]:
    """Return why the waste saves nothing, or no known amount."""
    if saved:
        return ()
    if saved == 0:
        return (
            "bound by memory: reading the operands from the device's memory takes longer than the "
            "padded product",
        )
    if backend_of_dump(known) == "gpu":
        return ("how much slower unaligned operands are is not known",)
    return ("the time is not known: the dump does not name the TPU",)


# ---- M004 ----------------------------------------------------------------------------------------


_PADDED_LEAST_PADDING = 0.25
"""Least share of padding in a value."""

_PADDED_LEAST_SHARE = 0.001
"""Least share of the peak of the padding of a value."""

_WARNING_SHARE, _WARNING_BYTES = 0.05, 1 << 20
"""Least share of the peak, and least bytes, of the padding that is worth a warning.

Not of half a tile: 64 channels, or heads of 64, are the model's choice.
"""

_MOST_VALUES = 200
"""Limit on the values at the peak that are examined, largest first."""


@module_rule("M004", needs=PEAK)
def padded_value(known: ModuleDump) -> Iterator[Finding]:
    """Values at the peak are padded by a quarter of their memory or more.

    What:
        A TPU stores arrays in tiles, such as 8 x 128 elements, and pads the two most minor
        dimensions up to whole tiles. At the peak, arrays of one shape are padded by a quarter of
        their memory or more; the evidence has the dimension that does not fill its tile.

    Why it costs:
        The padding takes memory, and is read, written and sent with the array. The saving is the
        padding of these values; those computed from them change too, and XLA may choose another
        layout for the new shape.

    Fix:
        Make the dimension a multiple of its tile (128 for the most minor one), or merge it with the
        next one: 16 heads of 8 elements as one dimension of 128. A dimension of size 1, or a few,
        is best kept away from the end of the shape.

    Fine when:
        The array is small, or its shape is given by the model, as the size of a head is. It is an
        info below 5% of the peak, below 1 MiB, and where the dimension fills half a tile.
    """
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if peak is None:
        return
    groups: dict[str, list[LiveValue]] = {}
    for one in peak.live[:_MOST_VALUES]:
        if "T(" not in one.shape or one.owned_bytes < _PADDED_LEAST_SHARE * peak.total_bytes:
            continue
        if (one.padding_bytes or 0) >= _PADDED_LEAST_PADDING * one.owned_bytes:
            groups.setdefault(one.shape, []).append(one)
    for text, values in groups.items():
        yield from _padded_finding(known, peak, text, values)


def _padded_finding(
    known: ModuleDump, peak: PeakMemory, text: str, values: Sequence[LiveValue]
) -> Iterator[Finding]:
    shape = Shape.parse(text)
    found = _short_dimension(shape)
    if found is None:
        return
    dimension, size, tile = found
    padding = sum(one.padding_bytes or 0 for one in values)
    least = max(_WARNING_BYTES, _WARNING_SHARE * peak.total_bytes)
    held = sum(one.owned_bytes for one in values)
    yield Finding(
        message=(
            f"{plural(len(values), 'value')} of shape {shape.to_text(layout=False)} "
            f"{'has' if len(values) == 1 else 'have'} {format_bytes(padding)} of padding in "
            f"{format_bytes(held)}: dimension {dimension} has {plural(size, 'element')} "
            f"in a tile of {tile}"
        ),
        fix=f"make dimension {dimension} a multiple of {tile}, or merge it with another one",
        **at(peak.origin_of(values[0]).place or first_use(known, values[0].parameter_number)),
        values=tuple(one.value for one in values),
        evidence=(f"{values[0].value} is {text}",),
        saves=Saves.up_to(padding),
        severity=None if padding >= least and 2 * size < tile else Severity.INFO,
    )


def _short_dimension(shape: Shape) -> tuple[int, int, int] | None:
    """Return the dimension that fills the least part of its tiles, its size, and the tile's."""
    layout = shape.layout
    if layout is None or not layout.tiles:
        return None
    tile = layout.tiles[0].dimensions
    fill: list[tuple[float, int, int, int]] = []
    for number, extent in zip(layout.minor_to_major, tile[::-1], strict=False):
        size = shape.dimensions[number]
        if size and extent is not None and extent > 1:
            fill.append((size / (-(-size // extent) * extent), number, size, extent))
    return min(fill)[1:] if fill else None


# ---- L001 ----------------------------------------------------------------------------------------


_LEAST_BYTES = 1 << 20
_REORDERED_LEAST_SHARE = 0.01
"""Least share of what must fit of an operand."""

_MOST = 10
"""Most operands that are findings, the largest ones."""


@module_rule("L001", needs=PEAK)
def reordered_operand(known: ModuleDump) -> Iterator[Finding]:
    """An operand of a product is transposed or copied into another layout first.

    What:
        A transpose, or a copy into another layout, makes a large operand of a dot or convolution,
        and is not fused with it.

    Why it costs:
        The operand is read and written once more than needed, and a second copy of it is in memory
        until the product is done.

    Fix:
        Store the array in the order in which it is contracted: write the einsum for the stored
        order instead of x.T or jnp.swapaxes before it, or transpose parameters once, when they are
        created.

    Fine when:
        The product is much longer than the copy. Operands that are not alive at the peak are an
        info. CPU's compiler lays operands out for its libraries, so this rule does not look at CPU
        dumps.
    """
    memory = memory_results(known)
    if memory is None or memory.peak is None or backend_of_dump(known) in (None, "cpu"):
        return
    least = max(_LEAST_BYTES, int(_REORDERED_LEAST_SHARE * memory.statement.total_bytes))
    rows = instruction_table(known).rows_of({"copy", "transpose"})
    sizes = [(instruction_table(known).result_bytes(row) or 0, row) for row in rows]
    alive = {one.value for one in memory.peak.live}
    found = 0
    for size, row in sorted((one for one in sizes if one[0] >= least), key=lambda o: (-o[0], o[1])):
        product = _product(known, row)
        if product is None or found == _MOST:
            continue
        found += 1
        instruction = hlo_text(known).instruction(row)
        is_alive = f"{instruction.name}{{}}" in alive
        yield Finding(
            message=(
                f"{instruction.opcode} {instruction.name} of {format_bytes(size)} only lays out an "
                f"operand of {product}"
            ),
            fix="store the array in the order in which it is contracted, or write the einsum for "
            "the stored order",
            **at(origins(known).place(row)),
            values=(instruction.name,),
            evidence=(f"{instruction.operand_shape(0)} becomes {instruction.shape_text}",),
            saves=Saves.up_to(size) if is_alive else Saves(),
            severity=None if is_alive else Severity.INFO,
        )


def _product(known: ModuleDump, row: int) -> str | None:
    """Return the product that alone uses an instruction outside of fusions."""
    module = hlo_text(known)
    caller = origins(known).steps.caller(row)
    if caller is not None and module.opcodes[caller.row] == "fusion":
        return None
    instruction = module.instruction(row)
    if instruction.opcode == "copy" and str(instruction.operand_shape(0)) == str(instruction.shape):
        return None
    users = {user for user, _ in module.links.users_of(row)}
    if len(users) != 1:
        return None
    user = module.instruction(users.pop())
    return user.name if opcode_traits(user.opcode).is_contraction else None
