"""Saved activations of a loop are a large part of the memory at the peak.

What:
    The forward pass of a scan stores values of each iteration in stacks of shape [iterations, ...],
    and the backward pass reads them. A fifth of the memory at the peak or more would be free
    without these stacks, that of the input of each layer aside.

Why it costs:
    Each value that the backward pass needs is stored once for each layer. With rematerialisation
    only the input of a layer is stored, and the layer is computed again in the backward pass: a
    third more arithmetic at most. The saving is the bytes of the stacks. The input of each layer
    stays; values computed from the stacks go too.

Fix:
    Wrap the body of the scan: jax.checkpoint(block, prevent_cse=False), or nn.remat(Block,
    prevent_cse=False) in flax. A policy keeps what is expensive to compute again:
    policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable. --prove cannot apply it: what
    is computed again is decided when JAX differentiates, before the program is text.

Fine when:
    The program fits, and time matters more than memory; or the body is under jax.checkpoint with a
    policy that saves these values on purpose. It is a warning where the stacks, without the input
    of each layer and without one iteration, are half of the memory at the peak or more; else an
    info.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.program.origins import origins
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import hlo_text, instruction_table
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import PEAK, ModuleRule
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import BACKWARD, SAVED, memory_roles
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.origins import Origin
    from hlo_lens.questions.memory.peak import LiveValue

_LEAST_SHARE, _WARNING_SHARE, _TOO_LARGE_SHARE = 0.2, 0.5, 0.02
"""Least share of the memory at the peak that the fix saves; least of a warning; least of both where
the program does not fit."""

_MOST_VALUES = 200
"""Limit on the values at the peak that are examined, largest first."""

_MOST_SHOWN = 5
_BODY = "/while/body"


class _Stack(NamedTuple):
    """A value at the peak with the saved values of all iterations."""

    value: LiveValue
    shape: Shape
    origin: Origin


def saved_residuals(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each loop whose saved activations fill the peak."""
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if peak is None or BACKWARD not in hlo_text(known).columns.source.text:
        return
    is_too_large = memory is not None and memory.statement.fits is False
    loops: dict[str, list[_Stack]] = {}
    for value in peak.live[:_MOST_VALUES]:
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
        and roles.of_value(one.value.value, one.value.allocation).role == SAVED
    ]
    size = sum(one.value.owned_bytes for one in stacks)
    inputs = [one.value.owned_bytes for one in stacks if one.shape.dimensions[1:] in carried]
    freed = (size - max(inputs, default=0)) * (trips - 1) // trips
    least = _TOO_LARGE_SHARE if is_too_large else _LEAST_SHARE
    if row is None or freed < least * peak_bytes:
        return
    is_grave = is_too_large or freed >= _WARNING_SHARE * peak_bytes
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
    )


def _by_line(stacks: Sequence[_Stack]) -> Iterator[str]:
    """Yield the lines that most of the saved bytes come from."""
    lines: dict[str, list[_Stack]] = {}
    for one in stacks:
        lines.setdefault(one.origin.source or str(one.origin.op_name), []).append(one)
    sizes = {line: sum(one.value.owned_bytes for one in its) for line, its in lines.items()}
    for line in sorted(lines, key=lambda line: -sizes[line])[:_MOST_SHOWN]:
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


RULE = ModuleRule("M007", saved_residuals, PEAK)
