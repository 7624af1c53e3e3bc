"""Rules about how a program was compiled: again and again, for another device or network."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hlo_lens.load.devices import TARGET_ARGUMENTS, tpu_target
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.findings.finding import Finding, Severity
from hlo_lens.questions.findings.rule import dump_rule, module_rule
from hlo_lens.text.dump_kinds import AS_TEXT
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.dumps.listing import ListingFacts


# ---- X001 ----------------------------------------------------------------------------------------
_RECOMPILED_LEAST, _MANY = 3, 8
"""Fewest shapes of a finding, and of a warning."""

_LEAST_INSTRUCTIONS = 100
_MOST_SHOWN = 4


@dump_rule("X001")
def recompiled_function(modules: Sequence[ListingFacts]) -> Iterator[tuple[int, Finding]]:
    """One function was compiled several times, for arguments of different shapes.

    What: The dump of one process has three compiles or more of a function of the same name, whose
    arguments differ in shape or element type.
    Why it costs: Each new shape costs a whole compile, seconds to minutes, and memory for another
    executable.
    Fix: Pad inputs to a few sizes (buckets), or to the largest one; keep the last, smaller batch
    out (drop_remainder); pass Python numbers as arrays.
    jax.config.update("jax_explain_cache_misses", True) prints the reason of each compile.
    Fine when: The shapes are the buckets that are wanted, compiled once at the start. Below eight
    compiles it is an info. Functions of less than 100 instructions, such as jnp.ones, are not
    looked at.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, one in enumerate(modules):
        is_large = (one.instructions or 0) >= _LEAST_INSTRUCTIONS
        if is_large and one.number is not None and one.signature is not None:
            # newer dumps have a folder of its own for each module
            folder, _, last = one.folder.rpartition("/")
            groups[folder if last == one.key else one.folder, one.name].append(place)
    for (_, name), places in groups.items():
        shapes = [*dict.fromkeys(modules[place].signature or () for place in places)]
        if len(shapes) < _RECOMPILED_LEAST:
            continue
        parameters = [
            f"parameter {number}: {', '.join(dict.fromkeys(sizes))}"
            for number, sizes in enumerate(zip(*shapes, strict=False))
            if len(set(sizes)) > 1
        ]
        found = Finding(
            message=f"{name} was compiled {len(places)} times, for {len(shapes)} different shapes",
            fix="pad the inputs to a few sizes, or to the largest one",
            values=(name,),
            evidence=tuple(parameters[:_MOST_SHOWN]) or ("the number of parameters differs",),
            severity=Severity.WARNING if len(shapes) >= _MANY else Severity.INFO,
        )
        yield places[-1], found


# ---- X006 ----------------------------------------------------------------------------------------
_LEAST_BYTES = 1 << 20
"""Least bytes of copies that are worth a word."""

_SLICES = {2: "2x2", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
"""Slice of v5e of as many chips as devices."""


@dump_rule("X006")
def cpu_memory(modules: Sequence[ListingFacts]) -> Iterator[tuple[int, Finding]]:
    """Memory of a program that was compiled for CPU devices is not that of a TPU or GPU.

    What: The dump is of a program for several CPU devices, as
    XLA_FLAGS=--xla_force_host_platform_device_count=8 makes them.
    Why it costs: Nothing at run time. But CPU's compiler computes bf16 in f32 and keeps both, fuses
    less, and does not rematerialise: its memory may be twice that of a TPU, or less where tiles are
    padded. The message has the bytes of the f32 copies of 16-bit values at the peak, which only CPU
    makes.
    Fix: Compile the same program for the hardware, without having it, by what-if with --target
    v5e:2x4 or h100_sxm. It needs the text from before optimizations, which --xla_dump_hlo_as_text
    writes next to the others.
    Fine when: The program is meant for CPU, or only collectives and shardings are of interest. It
    is an info, once for a dump.
    """
    programs = [place for place, one in enumerate(modules) if one.instructions is not None]
    # a text without number repeats a compile, if others have numbers
    programs = [place for place in programs if modules[place].number is not None] or programs
    if not programs or any(modules[place].backend != "cpu" for place in programs):
        return
    place = max(programs, key=lambda place: (modules[place].total_bytes or 0, -place))
    largest = modules[place]
    devices = largest.devices or 1
    if devices < 2 or largest.total_bytes is None:
        return
    copies = ""
    if largest.copied_bytes >= _LEAST_BYTES:
        size = format_bytes(largest.copied_bytes)
        copies = f", {size} at the peak are f32 copies of 16-bit values"
    fix = (
        f"dump again with {AS_TEXT} and keep the text from before optimizations, which "
        "hlo-lens what-if compiles for a TPU or GPU"
    )
    if largest.has_program:
        path = shell_word(largest.path) if largest.path else "DIR"
        words = ["hlo-lens what-if", path, largest.module_option]
        target = f"v5e:{_SLICES[devices]}" if devices in _SLICES else "h100_sxm"
        fix = f"{' '.join(filter(None, words))} --target {target}"
    message = f"compiled for {devices} CPU devices: memory is not that of a TPU or GPU{copies}"
    yield place, Finding(message=message, fix=fix, severity=Severity.INFO)


# ---- X004 ----------------------------------------------------------------------------------------
@module_rule("X004")
def mesh_topology(known: ModuleDump) -> Iterator[Finding]:
    """The program was compiled for a TPU mesh without wraparound links, which real slices have.

    What: target_arguments of the dump describe a slice of 4x4x4 chips or more whose axes do not
    wrap. Slices of v4, v5p and 7x of this size are tori: each axis is a ring.
    Why it costs: Nothing in memory; but XLA chooses the algorithms of collectives for another
    network, and each of them takes up to twice as long as on the torus.
    Fix: Name the wraparound in the topology: jax.experimental.topologies.get_topology_desc(
    "v5p:4x4x4", "tpu", wrap=(True, True, True)). what-if --target v5p:4x4x4 does so.
    Fine when: Only memory is of interest; or the slice really has no wraparound. Without
    collectives it is an info.
    """
    target = tpu_target(known.setting(TARGET_ARGUMENTS) or "")
    if target is None or "wrap" in target.options:
        return
    kind, _, shape = target.topology.partition(":")
    sizes = [int(one) for one in shape.split("x") if one.isdecimal()]
    if len(sizes) != 3 or any(one % 4 for one in sizes):
        return
    yield Finding(
        message=f"compiled for {target.name} without wraparound links; a real slice is a torus",
        fix=f'get_topology_desc("{kind}:{shape}", "tpu", wrap=(True, True, True))',
        evidence=(f"{TARGET_ARGUMENTS} of the dump has no axis that wraps",),
        severity=Severity.WARNING if collectives(known).collectives else Severity.INFO,
    )


# ---- X005 ----------------------------------------------------------------------------------------
@dump_rule("X005")
def different_hosts(modules: Sequence[ListingFacts]) -> Iterator[tuple[int, Finding]]:
    """Processes of one job compiled different programs.

    What: The folders of several processes have a compile of the same name and order whose
    instructions differ.
    Why it costs: Processes of one job must run the same program. Collectives that do not match wait
    for each other forever, or mix up data: a job that hangs in its first step.
    Fix: Remove what depends on the process: jax.process_index() in shapes, the iteration order of
    sets and dictionaries, random seeds from time, files or flags that only one host has. hlo-lens
    ls DIR prints the command that shows what differs.
    Fine when: The processes are stages of a pipeline, which run programs of their own on purpose.
    """
    if len({one.folder for one in modules}) < 2:
        return  # without importing the comparison
    from hlo_lens.questions.dumps.groups import DIFFERENT, across_processes
    from hlo_lens.questions.dumps.listing import has_processes

    for program in across_processes(modules).programs if has_processes(modules) else ():
        if program.verdict != DIFFERENT or program.modules is None:
            continue
        yield (
            program.modules[1],
            Finding(
                message=f"{program.name} of {program.odd} is not that of {program.having[0]}",
                fix="remove what depends on the process: jax.process_index() in shapes, the order "
                "of sets, seeds from time",
                values=(program.name,),
                evidence=(f"{program.processes} processes have it",),
                severity=Severity.ERROR,
            ),
        )
