"""The forward pass is computed again, though its values would fit into memory.

What:
    jax.checkpoint (nn.remat) computes half or more of the products of the forward pass again
    for the backward pass, and twice the bytes that it computes again would fit into what the device
    has free. Decided where the memory of the device is known: from a log, the dump or --limit.

Why it costs:
    Up to a third more arithmetic: forward and backward pass are three units of work, with the
    forward pass again four.

Fix:
    Leave jax.checkpoint away, or let it keep the results of products:
    jax.checkpoint(block, policy=jax.checkpoint_policies.dots_saveable). --prove cannot apply it:
    what is computed again is decided when JAX differentiates.

Fine when:
    The batch is to grow, or other programs share the device. It is an info.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import tabulate
from hlo_lens.program.flops import flops, flops_of
from hlo_lens.program.origins import Origins
from hlo_lens.program.runs import CallCounts
from hlo_lens.program.summary import num_devices
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import MEMORY, ModuleRule
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import RECOMPUTED, Differentiation
from hlo_lens.text.units import flops_text, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump

_MOST_ROWS = 100_000
"""Most instructions of a text that is searched."""

_LEAST_SHARE = 0.5
"""Least share of the FLOP of the forward pass that are computed again."""

_SAFETY = 2
"""How often the values that are computed again must fit."""


def recomputed_forward(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding if the program computes its forward pass twice without need."""
    memory, before = memory_results(known), known.before
    limit = None if memory is None else memory.statement.limit_bytes
    if memory is None or limit is None or memory.statement.total_bytes is None:
        return
    if before is None or RECOMPUTED not in before.columns.source.text:
        return
    if len(before.columns) > _MOST_ROWS:
        return
    again = _Again(before)
    size = again.size_bytes // num_devices(known)
    free = limit - memory.statement.total_bytes
    total = flops(known).total
    if again.share_of_forward < _LEAST_SHARE or _SAFETY * size > free or total is None:
        return
    saved = int(total * again.share)
    room = format_bytes(free)
    yield Finding(
        message=(
            f"{again.share_of_forward:.0%} of the forward pass is computed twice, "
            f"{flops_text(saved)} of {flops_text(total)}, though {room} of the device are free"
        ),
        fix="leave jax.checkpoint away, or keep products: jax.checkpoint(block, "
        "policy=jax.checkpoint_policies.dots_saveable)",
        **at(again.place),
        evidence=(f"what is computed again has about {format_bytes(size)} on each device",),
        saves=Saves.up_to(flops=saved),
        severity=Severity.INFO,
    )


class _Again:
    """What a program computes again for its backward pass, in the text before optimizations.

    Attributes:
        share: Its share of the FLOP of all products.
        share_of_forward: Its FLOP over those of the forward pass.
        size_bytes: Bytes of its results on all devices, of all trips of loops.
        place: Line of the first call of a computation that is computed again; None if not known.
    """

    def __init__(self, module: HloModule) -> None:
        origins, self._module = Origins(module), module
        self._runs, passes = CallCounts(tabulate(module)), Differentiation(module, origins.places)
        rows = range(len(module.columns))
        self.again = [row for row in rows if RECOMPUTED in (passes.path(row) or "")]
        products = [row for row in rows if opcode_traits(module.opcodes[row]).is_contraction]
        forward = self._flops([row for row in products if passes.is_forward(row)])
        repeated = set(self.again)
        own = self._flops([row for row in products if row in repeated])
        self.share = own / max(1, self._flops(products))
        self.share_of_forward = own / max(1, forward)
        self.size_bytes = sum(
            origins.steps.size(Value(row)) * self._times(row)
            for row in self.again
            if not opcode_traits(module.opcodes[row]).is_formatting
        )
        self.place = self._called(origins)

    def _times(self, row: int) -> int:
        return self._runs.at(self._module.links.owners[row]).times or 1

    def _flops(self, rows: Sequence[int]) -> int:
        return sum(
            (flops_of(self._module.instruction(row)) or 0) * self._times(row) for row in rows
        )

    def _called(self, origins: Origins) -> SourceLocation | None:
        """Return the outermost line of the program that all of it shares: the loop or the call."""
        for row in self.again:
            call = origins.steps.caller(row)
            place = None if call is None else origins.places.innermost(call.row)
            if place is not None:
                return place
        return next(filter(None, map(origins.places.innermost, self.again)), None)


RULE = ModuleRule("W002", recomputed_forward, MEMORY)
