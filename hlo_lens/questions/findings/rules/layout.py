"""Rules about sizes and layouts: padding, and operands that are laid out again."""

from __future__ import annotations

import math
from itertools import islice
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
from hlo_lens.questions.findings.values import first_use
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.units import format_bytes, format_flops, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.peak import LiveValue


# ---- L002 ----------------------------------------------------------------------------------------
_WARNING_FLOPS = 10**11
"""Least FLOP saved in one run that are worth a warning: half a millisecond of a v5e."""

_OTHERS = ("f64", "c64", "c128", "s32", "u32", "s64", "u64", "pred")
"""Element types that no matrix unit multiplies."""

_MOST_SHOWN = 5


class _Padded(NamedTuple):
    """A product with a dimension, rows, columns or contracted, that does not fill the unit.

    Its size should be a multiple of `unit`. FLOP are of one run of the program; `saved` are those
    of padding that take longer than moving the operands, None if not known.
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

    What: The matrix unit of a TPU multiplies by matrices of 128 x 128 elements (256 x 256 from v6e
    on), eight rows at a time. In a dot or convolution, the contracted dimension or the columns are
    less than a multiple of that, and a fifth of the unit's work or more is padding.
    Why it costs: The padding takes the unit's time: a contracted dimension of 64 takes that of 128.
    FLOP wasted are those of the padded product less those of the product. The saving is the part
    that takes longer than moving the operands between the device's memory and the unit (peak rates
    of jax/_src/tpu_info.py): none in products that are bound by memory, whose finding is an info.
    Fix: Choose sizes that are multiples of 128 (256 from v6e on): a vocabulary of 50304 for 50257,
    8 heads of 128 for 16 heads of 64; or merge the dimension with another one.
    Fine when: The size is given by the model, or the product is a small part of the program.
    Products with less than a hundredth of the FLOP are no findings; below 100 GFLOP saved it is an
    info.
    """
    if backend_of_dump(known) != "tpu":
        return
    groups: dict[object, list[_Padded]] = {}
    for one in _padded_products(known):
        groups.setdefault((one.size, one.unit), []).append(one)
    bound = "bound by memory: reading the operands from the device's memory takes longer than the "
    for found in groups.values():
        largest, wasted = sorted(found, key=lambda o: -o.wasted), sum(o.wasted for o in found)
        first = largest[0]
        savings = [one.saved for one in found if one.saved is not None]
        saved = sum(savings) if len(savings) == len(found) else None
        unknown = "the time is not known: the dump does not name the TPU"
        yield Finding(
            message=(
                f"{plural(len(found), 'product')} of {format_flops(sum(o.flops for o in found))}"
                f"FLOP {'wastes' if len(found) == 1 else 'waste'} {format_flops(wasted)}FLOP on "
                f"padding: {first.role} of {first.size}, no multiple of {first.unit}"
            ),
            fix=f"make the dimension of {first.size} a multiple of {first.unit}, or merge it with "
            "another one",
            **at(origins(known).place(first.instruction.row)),
            values=tuple(one.instruction.name for one in found),
            evidence=(
                *(_product_text(known, one) for one in largest[:_MOST_SHOWN]),
                *([] if saved else [unknown if saved is None else f"{bound}padded product"]),
            ),
            saves=Saves.up_to(flops=saved) if saved else Saves(),
            severity=None if (saved or 0) >= _WARNING_FLOPS else Severity.INFO,
        )


def _product_text(known: ModuleDump, one: _Padded) -> str:
    sizes, place = one.sizes, origins(known).place(one.instruction.row)
    times = f", {sizes.batch} times" if sizes.batch > 1 else ""
    operands = f"[{sizes.rows}, {sizes.depth}] x [{sizes.depth}, {sizes.columns}]"
    return f"{one.instruction.name}: {operands}{times}{'' if place is None else f', {place}'}"


def _padded_products(known: ModuleDump) -> Iterator[_Padded]:
    """Yield the products whose padding in the unit of a TPU is a fifth of its work or more."""
    module = hlo_text(known)
    target = tpu_target(known.setting(TARGET_ARGUMENTS) or "")
    matrix_unit = MATRIX_UNITS.get("" if target is None else target.topology.partition(":")[0])
    side = SMALLEST_SIDE if matrix_unit is None else matrix_unit.side
    work = WorkFinder(instruction_table(known), call_counts(known))
    least = 0.01 * (flops(known).total or flops(known).at_least or 0)
    for one in flops(known).products:
        instruction = module.instruction(one.row)
        sizes, first = product_sizes(instruction), instruction.operand_shape(0)
        is_small = one.run_flops is None or one.times is None or one.run_flops < least
        if is_small or sizes is None or not sizes.flops:
            continue
        # few vectors: reading the matrix takes the time
        if min(sizes.rows, sizes.columns) < SUBLANES or (first and first.element_type in _OTHERS):
            continue
        # neighbours in memory are the columns of the unit; the smaller padding if not known
        choices = [
            [("rows", sizes.rows, rows), ("columns", sizes.columns, columns)]
            for rows, columns in ((SUBLANES, side), (side, SUBLANES))
        ]
        held = min(choices, key=lambda sides: math.prod(_up(size, unit) for _, size, unit in sides))
        if sizes.are_rows_minor is not None:
            held = choices[sizes.are_rows_minor]
        sides = [("contracted dimension", sizes.depth, side), *held]
        padded = 2 * sizes.batch * math.prod(_up(size, unit) for _, size, unit in sides)
        if padded - sizes.flops < 0.2 * padded:
            continue
        saved, times = None, one.times or 0
        caller = origins(known).steps.caller(one.row)
        is_fused = caller is not None and module.opcodes[caller.row] == "fusion"
        moved = work.of(caller.row if caller is not None and is_fused else one.row).size_bytes
        if matrix_unit is not None and moved is not None:
            meanwhile = int(moved * matrix_unit.flops_per_byte)
            saved = (max(padded, meanwhile) - max(sizes.flops, meanwhile)) * times
        role, size, unit = min(sides, key=lambda part: (part[1] / _up(*part[1:]), part))
        wasted = (padded - sizes.flops) * times
        yield _Padded(instruction, sizes, role, size, unit, sizes.flops * times, wasted, saved)


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


# ---- M004 ----------------------------------------------------------------------------------------
_MOST_VALUES = 200
"""Limit on the values at the peak that are examined, largest first."""


@module_rule("M004", needs=PEAK)
def padded_value(known: ModuleDump) -> Iterator[Finding]:
    """Values at the peak are padded by a quarter of their memory or more.

    What: A TPU stores arrays in tiles, such as 8 x 128 elements, and pads the two most minor
    dimensions up to whole tiles. At the peak, arrays of one shape are padded by a quarter of their
    memory or more; the evidence has the dimension that does not fill its tile.
    Why it costs: The padding takes memory, and is read, written and sent with the array. The saving
    is the padding of these values.
    Fix: Make the dimension a multiple of its tile (128 for the most minor one), or merge it with
    the next one: 16 heads of 8 elements as one dimension of 128.
    Fine when: The array is small, or its shape is given by the model, as the size of a head is. It
    is an info below 5% of the peak, below 1 MiB, and where the dimension fills half a tile.
    """
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if peak is None:
        return
    groups: dict[str, list[LiveValue]] = {}
    for one in peak.live[:_MOST_VALUES]:
        is_large = one.owned_bytes >= 0.001 * peak.total_bytes
        if "T(" in one.shape and is_large and (one.padding_bytes or 0) >= 0.25 * one.owned_bytes:
            groups.setdefault(one.shape, []).append(one)
    for text, values in groups.items():
        shape, first = Shape.parse(text), values[0]
        found = _short_dimension(shape)
        if found is None:
            continue
        dimension, size, tile = found
        padding = sum(one.padding_bytes or 0 for one in values)
        held = sum(one.owned_bytes for one in values)
        # not of half a tile: 64 channels, or heads of 64, are the model's choice
        is_grave = padding >= max(1 << 20, 0.05 * peak.total_bytes) and 2 * size < tile
        yield Finding(
            message=(
                f"{plural(len(values), 'value')} of shape {shape.to_text(layout=False)} "
                f"{'has' if len(values) == 1 else 'have'} {format_bytes(padding)} of padding in "
                f"{format_bytes(held)}: dimension {dimension} has {plural(size, 'element')} "
                f"in a tile of {tile}"
            ),
            fix=f"make dimension {dimension} a multiple of {tile}, or merge it with another one",
            **at(peak.origin_of(first).place or first_use(known, first.parameter_number)),
            values=tuple(one.value for one in values),
            evidence=(f"{first.value} is {text}",),
            saves=Saves.up_to(padding),
            severity=None if is_grave else Severity.INFO,
        )


def _short_dimension(shape: Shape) -> tuple[int, int, int] | None:
    """Return the dimension that fills the least part of its tiles, its size, and the tile's."""
    layout = shape.layout
    tile = layout.tiles[0].dimensions if layout is not None and layout.tiles else ()
    order = () if layout is None else layout.minor_to_major
    fill = [
        (size / _up(size, extent), number, size, extent)
        for number, extent in zip(order, tile[::-1], strict=False)
        if (size := shape.dimensions[number]) and extent is not None and extent > 1
    ]
    return min(fill)[1:] if fill else None


# ---- L001 ----------------------------------------------------------------------------------------
_MOST = 10
"""Most operands that are findings, the largest ones."""


@module_rule("L001", needs=PEAK)
def reordered_operand(known: ModuleDump) -> Iterator[Finding]:
    """An operand of a product is transposed or copied into another layout first.

    What: A transpose, or a copy into another layout, makes a large operand of a dot or convolution,
    and is not fused with it.
    Why it costs: The operand is read and written once more than needed, and a second copy of it is
    in memory until the product is done.
    Fix: Store the array in the order in which it is contracted: write the einsum for the stored
    order instead of x.T or jnp.swapaxes before it, or transpose parameters once, when they are
    created.
    Fine when: The product is much longer than the copy. Operands that are not alive at the peak are
    an info. CPU's compiler lays operands out for its libraries, so this rule does not look at CPU
    dumps.
    """
    memory = memory_results(known)
    if memory is None or memory.peak is None or backend_of_dump(known) in (None, "cpu"):
        return
    module, table = hlo_text(known), instruction_table(known)
    least = max(1 << 20, int(0.01 * memory.statement.total_bytes))
    sizes = [(table.result_bytes(row) or 0, row) for row in table.rows_of({"copy", "transpose"})]
    alive = {one.value for one in memory.peak.live}
    large = sorted((one for one in sizes if one[0] >= least), key=lambda o: (-o[0], o[1]))
    products = ((size, row, _product(known, row)) for size, row in large)
    for size, row, product in islice((one for one in products if one[2] is not None), _MOST):
        instruction = module.instruction(row)
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
    module = hlo_text(known)
    caller = origins(known).steps.caller(row)
    instruction, users = module.instruction(row), {user for user, _ in module.links.users_of(row)}
    is_same = str(instruction.operand_shape(0)) == str(instruction.shape)
    if (caller is not None and module.opcodes[caller.row] == "fusion") or len(users) != 1:
        return None
    user = module.instruction(users.pop())
    is_laid_out = instruction.opcode != "copy" or not is_same
    return user.name if is_laid_out and opcode_traits(user.opcode).is_contraction else None
