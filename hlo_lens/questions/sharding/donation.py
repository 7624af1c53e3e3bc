"""Donation of arguments to results: aliased, unused, lost, possible, with reasons.

XLA lets an output have a parameter's buffer where the program says so: ``input_output_alias`` names
both, ``buffer_donor`` names the parameter and leaves the output to XLA, which takes one of as many
bytes in the same memory space (optimize_input_output_buffer_alias.cc in xla/hlo/transforms).
JAX names both where shape, element type, layout and sharding of an argument and a result are the
same (jax/_src/interpreters/mlir.py, _set_up_aliases, of jax 0.10.2). This pass compares the same:
global shapes where both are known, else those of one device. Where JAX leaves the sharding of a
result to XLA, no text has it: an output of the same shape and type may then have the memory (XLA
aliases them if the parts of a device have as many bytes), but its sharding is not known.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.questions.sharding.sources import index_text
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.sharding.placement import ShardedValue, ShardingTable


class DonationStatus(Enum):
    """Outcome for an argument's memory."""

    ALIASED = "aliased"
    UNUSED = "donated, not used"
    LOST = "alias lost"
    DONATABLE = "could be donated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Donation:
    """One argument that is donated, or could be.

    Attributes:
        value: The argument.
        status: Outcome for its memory.
        output: Shape index of the output that has its memory, or could have it; empty for the whole
            result; None for none.
        reason: Why it is not aliased; empty if it is.
    """

    value: ShardedValue
    status: DonationStatus
    output: str | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Donations(Result):
    """Arguments that are donated or could be, not yet aliased ones first."""

    KIND: ClassVar[str] = "donation"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("status", Unit.NONE, "aliased, donated but not used, lost, or could be donated"),
        Column("number", Unit.NONE, "parameter number"),
        Column("index", Unit.NONE, "shape index of the leaf"),
        Column("name", Unit.NONE, "argument name"),
        Column("device_shape", Unit.NONE, "shape of one device's part"),
        Column("device_bytes", Unit.BYTES, "bytes of one device's part"),
        Column("output", Unit.NONE, "output that has its memory, or could"),
        Column("reason", Unit.NONE, "why it is not aliased"),
    )
    RECORDS: ClassVar[str] = "donations"
    donations: tuple[Donation, ...]

    def rows(self) -> Iterator[Row]:
        """Yield arguments that are not aliased, largest first, then aliased ones by number."""
        for donation in self.donations:
            value = donation.value
            yield (
                donation.status.value,
                value.value.number,
                value.value.index,
                value.value.name,
                None if value.device_shape is None else value.device_shape.to_text(layout=False),
                value.device_bytes,
                donation.output,
                donation.reason,
            )

    def of(self, status: DonationStatus) -> tuple[Donation, ...]:
        """Return the donations of one status."""
        return tuple(donation for donation in self.donations if donation.status is status)


def donations(table: ShardingTable, before: HloModule | None = None) -> Donations:
    """Return the outcome for each donated argument, and the arguments that could be donated.

    Args:
        table: Parameters and outputs.
        before: Text from before optimizations, which has the requested aliases.
    """
    asked = {} if before is None else _asked(before)
    found: list[Donation] = []
    waiting: list[ShardedValue] = []
    outputs = cache(lambda: tuple(table.outputs))  # many, and rarely needed
    for value in table.parameters:
        entry = value.value
        output = asked.get((entry.number, entry.index))
        status, reason = DonationStatus.ALIASED, ""
        if entry.aliased_with is not None:
            output = entry.aliased_with
        elif entry.donation == "donor":
            status, reason = DonationStatus.UNUSED, _why_not(value, outputs(), table.num_devices)
            output = None
        elif output is not None:
            status, reason = DonationStatus.LOST, f"requested for {output}, not in XLA's text"
        else:
            waiting.append(value)
            continue
        found.append(Donation(value=value, status=status, output=output, reason=reason))
    if waiting:
        found += _donatable(waiting, table)
    aliased = [one for one in found if one.status is DonationStatus.ALIASED]
    others = [one for one in found if one.status is not DonationStatus.ALIASED]
    return Donations(donations=(*sorted(others, key=_gain), *aliased))


def _donatable(parameters: Sequence[ShardedValue], table: ShardingTable) -> Iterator[Donation]:
    """Yield the parameters whose memory an output could have; each output goes to one of them."""
    for value, output in memory_pairs(parameters, table):
        is_known = table.num_devices == 1 or _are_known(value, output)
        yield Donation(
            value=value,
            status=DonationStatus.DONATABLE,
            output=output.value.index,
            reason=_SAME if is_known else _SAME_SHAPE,
        )


_SAME = "not donated; same shape, type and sharding"
_SAME_SHAPE = "not donated; same shape and type, sharding not known"


def memory_pairs(
    parameters: Sequence[ShardedValue], table: ShardingTable
) -> Iterator[tuple[ShardedValue, ShardedValue]]:
    """Yield parameters with outputs that could have their memory, each output once.

    Outputs that are aliased already are left out; equal shardings are preferred to unknown ones.
    """
    known, unknown = _FreeOutputs(), _FreeOutputs()
    for output in table.outputs:
        if output.value.aliased_with is None:
            (unknown if output.sharding is None else known).add(output)
    waiting = [value for value in parameters if value.device_bytes]
    for free, needs_known in ((known, True), (unknown, False), (known, False)):
        later = []
        for value in waiting:
            is_tried = not needs_known or value.sharding is not None
            match = free.take(value) if is_tried else None
            if match is None:
                later.append(value)
            else:
                yield value, match
        waiting = later


class _FreeOutputs:
    """Outputs whose memory no parameter has, by their placements: many have the same."""

    def __init__(self) -> None:
        self._count = 0
        self._free: dict[object, dict[object, deque[tuple[int, ShardedValue]]]] = {}
        self._fits: dict[tuple[object, object], bool] = {}

    def add(self, output: ShardedValue) -> None:
        """Add an output."""
        same = self._free.setdefault(_kind(output), {}).setdefault(_placement(output), deque())
        same.append((self._count, output))
        self._count += 1

    def take(self, parameter: ShardedValue) -> ShardedValue | None:
        """Return the first output that could have a parameter's memory, and remove it."""
        placed, free = _placement(parameter), self._free.get(_kind(parameter), {})
        first: tuple[int, object] | None = None
        for other, same in free.items():
            key = (placed, other)
            if key not in self._fits:
                self._fits[key] = _could_have_memory(parameter, same[0][1])
            if self._fits[key] and (first is None or same[0][0] < first[0]):
                first = (same[0][0], other)
        if first is None:
            return None
        same = free[first[1]]
        _, output = same.popleft()
        if not same:
            del free[first[1]]
        return output


def _placement(value: ShardedValue) -> object:
    """Return shapes and sharding, equal for values that fit the same others."""
    sharding = value.sharding
    text = None if sharding is None else sharding.text or id(sharding)
    return value.global_shape, value.device_shape, text


def _could_have_memory(parameter: ShardedValue, output: ShardedValue) -> bool:
    return _same_sizes(parameter, output) and not _difference(parameter, output)


def _are_known(parameter: ShardedValue, output: ShardedValue) -> bool:
    return parameter.sharding is not None and output.sharding is not None


def _kind(value: ShardedValue) -> object:
    """Return the properties that are equal if one value could have the other's buffer."""
    shape = value.device_shape or value.global_shape
    return None if shape is None else (shape.element_type, shape.dimensions)


def _gain(donation: Donation) -> int:
    """Return the sort key of arguments that are not aliased: largest first."""
    return -(donation.value.device_bytes or 0)


def _asked(before: HloModule) -> dict[tuple[int | None, str], str]:
    """Return the requested aliases: number and index of the parameter to its output."""
    return {
        (alias.parameter_number, index_text(alias.parameter_index)): index_text(alias.output_index)
        for alias in before.input_output_alias
    }


def _same_sizes(parameter: ShardedValue, output: ShardedValue) -> bool:
    """Return whether dimensions are equal, global ones if both are known."""
    for one, other in (
        (parameter.global_shape, output.global_shape),
        (parameter.device_shape, output.device_shape),
    ):
        if one is not None and other is not None:
            return one.dimensions == other.dimensions
    return False


def _difference(parameter: ShardedValue, output: ShardedValue) -> tuple[str, str, str] | None:
    """Return the first difference to an output of equal dimensions, with both values, or None."""
    one = parameter.device_shape or parameter.global_shape
    other = output.device_shape or output.global_shape
    if one is None or other is None:
        return "shape", str(one or "?"), str(other or "?")
    if one.element_type != other.element_type:
        return "element type", one.element_type, other.element_type
    if one.dimensions != other.dimensions or not _lie_alike(parameter, output):
        return "sharding", _placed(parameter), _placed(output)
    if one.memory_space != other.memory_space:
        return "memory space", f"S({one.memory_space})", f"S({other.memory_space})"
    if one.layout is not None and other.layout is not None and one.layout != other.layout:
        return "layout", str(one.layout), str(other.layout)
    return None


def _lie_alike(parameter: ShardedValue, output: ShardedValue) -> bool:
    """Return whether two shardings are equal; an unknown one equals any."""
    mine, yours = parameter.sharding, output.sharding
    if mine is None or yours is None or mine.text == yours.text:
        return True
    return mine.equivalent(yours)


def _placed(value: ShardedValue) -> str:
    if value.spec_text is not None:
        return value.spec_text
    return str(value.sharding or value.device_shape)


def _why_not(parameter: ShardedValue, outputs: Sequence[ShardedValue], num_devices: int) -> str:
    """Return why no output has the memory of a donated parameter."""
    alike = [output for output in outputs if _same_sizes(parameter, output)]
    if not alike:
        return "no output has its shape"
    fitting = [output for output in alike if _difference(parameter, output) is None]
    for output in fitting:
        if output.value.aliased_with is None:
            is_known = _are_known(parameter, output) or num_devices == 1
            what = "fits" if is_known else "has its shape and type"
            return f"{_output(output)} {what}, but XLA did not use it"
    if fitting:
        places = ", ".join(f"{o.value.index} by parameter {o.value.aliased_with}" for o in fitting)
        return f"all outputs of its shape are taken: {places}"
    nearest = alike[0]
    what, mine, yours = _difference(parameter, nearest) or ("", "", "")
    return f"{what} differs: {mine}, in {_output(nearest)} {yours}"


def _output(value: ShardedValue) -> str:
    return f"output {value.value.index}" if value.value.index else "the result"
