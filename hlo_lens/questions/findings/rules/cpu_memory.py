"""Memory of a program that was compiled for CPU devices is not that of a TPU or GPU.

What:
    The dump is of a program for several CPU devices, as
    XLA_FLAGS=--xla_force_host_platform_device_count=8 makes them.

Why it costs:
    Nothing at run time. But CPU's compiler computes bf16 in f32 and keeps both, fuses less, and
    does not rematerialise: its memory may be twice that of a TPU, or less where tiles are padded.
    The message has the bytes of the f32 copies of 16-bit values at the peak, which only CPU makes.

Fix:
    Compile the same program for the hardware, without having it: hlo-lens what-if DIR --target
    v5e:2x4, or --target h100_sxm. It needs the text from before optimizations, which
    --xla_dump_hlo_as_text writes next to the others.

Fine when:
    The program is meant for CPU, or only collectives and shardings are of interest. It is an info,
    once for a dump.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Finding, Severity
from hlo_lens.questions.findings.rule import DumpRule
from hlo_lens.text.dump_kinds import AS_TEXT
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.dumps.listing import ListingFacts

_LEAST_BYTES = 1 << 20
"""Least bytes of copies that are worth a word."""

_SLICES = {
    **{2: "v5e:2x2", 4: "v5e:2x2", 8: "v5e:2x4", 16: "v5e:4x4", 32: "v5e:4x8", 64: "v5e:8x8"},
    **{128: "v5e:8x16", 256: "v5e:16x16"},
}
"""Slice of as many chips as devices."""


def cpu_memory(modules: Sequence[ListingFacts]) -> Iterator[tuple[int, Finding]]:
    """Yield a finding for the largest program of a dump of CPU devices."""
    programs = [place for place, one in enumerate(modules) if one.instructions is not None]
    # a text without number repeats a compile, if others have numbers
    programs = [place for place in programs if modules[place].number is not None] or programs
    if not programs or any(modules[place].backend != "cpu" for place in programs):
        return
    largest = max(programs, key=lambda place: (modules[place].total_bytes or 0, -place))
    devices = modules[largest].devices or 1
    if devices < 2 or modules[largest].total_bytes is None:
        return
    yield (
        largest,
        Finding(
            message=f"compiled for {devices} CPU devices: memory is not that of a TPU or GPU"
            f"{_copies(modules[largest].copied_bytes)}",
            fix=_fix(modules[largest], devices),
            severity=Severity.INFO,
        ),
    )


def _copies(size_bytes: int) -> str:
    """Return the bytes of copies that a TPU or GPU does not make; empty for few."""
    if size_bytes < _LEAST_BYTES:
        return ""
    return f", {format_bytes(size_bytes)} at the peak are f32 copies of 16-bit values"


def _fix(module: ListingFacts, devices: int) -> str:
    """Return the command that compiles a program for hardware, or what that needs."""
    if not module.has_program:
        return (
            f"dump again with {AS_TEXT} and keep the text from before optimizations, which "
            "hlo-lens what-if compiles for a TPU or GPU"
        )
    words = [shell_word(module.path) if module.path else "DIR"]
    words += [module.module_option] if module.module_option else []
    target = _SLICES.get(devices, "h100_sxm")
    return f"hlo-lens what-if {' '.join(words)} --target {target}"


RULE = DumpRule("X006", cpu_memory)
