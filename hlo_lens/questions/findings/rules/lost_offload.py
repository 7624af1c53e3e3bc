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
    names_which_can_be_offloaded=["x"], offload_src="device", offload_dst="pinned_host", ...) with
    checkpoint_name(value, "x"); for arguments give in_shardings and out_shardings of memory kind
    pinned_host.

Fine when:
    The program was compiled for CPU, whose device memory is the host's: this rule does not look at
    CPU dumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.origins import Origins
from hlo_lens.program.summary import backend_of_dump
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import MEMORY, ModuleRule
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump

_TARGET = "annotate_device_placement"
_HOST = "pinned_host"
_MOST_SHOWN = 5


def lost_offload(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding if host memory is asked for and not used."""
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
    places = [Origins(before).places.innermost(one.row) for one in asked]
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
            f"before optimizations: {listed([one.name for one in asked], _MOST_SHOWN)}, "
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


RULE = ModuleRule("M009", lost_offload, MEMORY)
